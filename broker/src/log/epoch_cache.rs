//! Which leader epoch wrote which part of a log. Pure: owns the list and its rules, never a file.
//!
//! ```text
//!   assign(epoch, start)     a leader begins, or a batch of a new epoch arrives
//!   truncate_end(offset)     the log was cut at its end
//!   truncate_start(offset)   the log was cut at its start
//!        └──► entries, strictly increasing in epoch and in start offset (I13)
//! ```
//! Answers the questions of KIP-101 and KIP-279: where does an epoch end, and which epoch does an offset belong to.

use crate::{
    observe::EpochStart,
    types::{LeaderEpoch, Offset},
};

/// The epochs of a log, each with its first offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EpochCache {
    entries: Vec<EpochStart>,
}

impl EpochCache {
    /// Takes entries read from a disk; none where they are not in order.
    pub(crate) fn from_entries(entries: Vec<EpochStart>) -> Option<EpochCache> {
        let cache = EpochCache { entries };
        cache.is_in_order().then_some(cache)
    }

    /// All entries, oldest first.
    pub(crate) fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The newest entry.
    pub(crate) fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` begins at `start_offset`. Entries that this contradicts go: an epoch that ended up with
    /// no record, or one that is not older. Gives whether anything changed.
    pub(crate) fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        assert!(epoch.0 >= 0 && start_offset.0 >= 0, "epochs and offsets are counted from 0");
        if self.latest().is_some_and(|latest| latest.epoch == epoch && latest.start_offset <= start_offset) {
            return false;
        }
        self.entries.retain(|entry| entry.epoch < epoch && entry.start_offset < start_offset);
        self.entries.push(EpochStart { epoch, start_offset });
        assert!(self.is_in_order(), "I13: epochs and their starts increase");
        true
    }

    /// Forgets the epochs that began at `offset` or later. Gives whether anything changed.
    pub(crate) fn truncate_end(&mut self, offset: Offset) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start_offset < offset);
        self.entries.len() != before
    }

    /// Forgets the epochs that ended at `offset` or earlier; the one that holds `offset` now begins there.
    /// Gives whether anything changed.
    pub(crate) fn truncate_start(&mut self, offset: Offset) -> bool {
        let older = self.entries.partition_point(|entry| entry.start_offset <= offset);
        if older == 0 || (older == 1 && self.entries[0].start_offset == offset) {
            return false;
        }
        self.entries.drain(..older - 1);
        self.entries[0].start_offset = offset;
        assert!(self.is_in_order(), "I13: epochs and their starts increase");
        true
    }

    /// The largest epoch that is not larger than `epoch`, and its end (KIP-279). (−1, −1) where the log knows
    /// nothing that far: the epoch is not known at all, or newer than the log.
    pub(crate) fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset) -> (LeaderEpoch, Offset) {
        const UNDEFINED: (LeaderEpoch, Offset) = (LeaderEpoch::NONE, Offset(-1));
        let Some(latest) = self.latest() else { return UNDEFINED };
        if epoch == LeaderEpoch::NONE || epoch > latest.epoch {
            return UNDEFINED;
        }
        if epoch == latest.epoch {
            return (epoch, log_end);
        }
        let newer = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end = self.entries[newer].start_offset;
        match newer.checked_sub(1) {
            Some(floor) => (self.entries[floor].epoch, end),
            // Older than everything here: it can have nothing past the first start.
            None => (epoch, end),
        }
    }

    /// The epoch that wrote `offset`, or will write it where it is the log's end.
    pub(crate) fn epoch_for(&self, offset: Offset) -> Option<LeaderEpoch> {
        let newer = self.entries.partition_point(|entry| entry.start_offset <= offset);
        newer.checked_sub(1).map(|index| self.entries[index].epoch)
    }

    /// The epochs that the record at `offset` can have. One, where the cache reaches back so far; before its first
    /// entry lie records of that epoch or older ones, which the log's start was moved past.
    pub(crate) fn range_for(&self, offset: Offset) -> (LeaderEpoch, LeaderEpoch) {
        match (self.epoch_for(offset), self.entries.first()) {
            (Some(epoch), _) => (epoch, epoch),
            (None, Some(first)) => (LeaderEpoch::NONE, first.epoch),
            (None, None) => (LeaderEpoch::NONE, LeaderEpoch::NONE),
        }
    }

    fn is_in_order(&self) -> bool {
        let valid = |entry: &EpochStart| entry.epoch.0 >= 0 && entry.start_offset.0 >= 0;
        self.entries.iter().all(valid)
            && self
                .entries
                .windows(2)
                .all(|pair| pair[0].epoch < pair[1].epoch && pair[0].start_offset < pair[1].start_offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(entries: &[(i32, i64)]) -> EpochCache {
        let entries = entries
            .iter()
            .map(|&(epoch, start)| EpochStart { epoch: LeaderEpoch(epoch), start_offset: Offset(start) })
            .collect();
        EpochCache::from_entries(entries).expect("in order")
    }

    #[test]
    fn an_epoch_without_records_gives_way_to_the_next() {
        let mut epochs = cache(&[(1, 0)]);
        assert!(epochs.assign(LeaderEpoch(2), Offset(10)));
        assert!(epochs.assign(LeaderEpoch(4), Offset(10)));
        assert_eq!(epochs, cache(&[(1, 0), (4, 10)]));
        assert!(!epochs.assign(LeaderEpoch(4), Offset(10)), "known already");
        assert!(!epochs.assign(LeaderEpoch(4), Offset(12)), "its first offset stays");
    }

    #[test]
    fn answers_where_an_epoch_ends() {
        let epochs = cache(&[(2, 0), (4, 10), (5, 20)]);
        let end = |epoch| {
            let (epoch, end) = epochs.end_offset_for(LeaderEpoch(epoch), Offset(30));
            (epoch.0, end.0)
        };
        assert_eq!(end(5), (5, 30), "the latest ends with the log");
        assert_eq!(end(4), (4, 20));
        assert_eq!(end(3), (2, 10), "B03: the largest epoch not larger than the one asked for");
        assert_eq!(end(2), (2, 10));
        assert_eq!(end(1), (1, 0), "older than the log");
        assert_eq!(end(6), (-1, -1), "newer than the log");
        assert_eq!(end(-1), (-1, -1));
        assert_eq!(
            EpochCache::default().end_offset_for(LeaderEpoch(0), Offset(3)),
            (LeaderEpoch(-1), Offset(-1))
        );
    }

    #[test]
    fn finds_the_epoch_of_an_offset() {
        let epochs = cache(&[(2, 5), (4, 10)]);
        let of = |offset| epochs.epoch_for(Offset(offset)).map(|epoch| epoch.0);
        assert_eq!((of(4), of(5), of(9), of(10), of(99)), (None, Some(2), Some(2), Some(4), Some(4)));
        let range = |offset| epochs.range_for(Offset(offset));
        assert_eq!(range(10), (LeaderEpoch(4), LeaderEpoch(4)));
        assert_eq!(range(4), (LeaderEpoch(-1), LeaderEpoch(2)), "moved past");
        assert_eq!(EpochCache::default().range_for(Offset(0)), (LeaderEpoch(-1), LeaderEpoch(-1)));
    }

    #[test]
    fn cutting_keeps_the_epoch_that_remains() {
        let mut epochs = cache(&[(1, 0), (2, 10), (3, 20)]);
        assert!(epochs.truncate_end(Offset(20)));
        assert_eq!(epochs, cache(&[(1, 0), (2, 10)]));
        assert!(epochs.truncate_start(Offset(12)));
        assert_eq!(epochs, cache(&[(2, 12)]));
        assert!(!epochs.truncate_start(Offset(12)));
        assert!(!epochs.truncate_start(Offset(3)));
    }

    #[test]
    fn entries_out_of_order_are_refused() {
        let entry = |epoch, start| EpochStart { epoch: LeaderEpoch(epoch), start_offset: Offset(start) };
        for wrong in [[entry(2, 0), entry(1, 5)], [entry(1, 5), entry(2, 5)], [entry(-1, 0), entry(1, 1)]] {
            assert_eq!(EpochCache::from_entries(wrong.to_vec()), None);
        }
    }

    proptest! {
        /// Against the plain definition: a vector with the epoch of every record.
        #[test]
        fn agrees_with_a_log_that_remembers_every_epoch(steps in proptest::collection::vec((0..3u8, 0..8i64, 0..3i32), 0..40)) {
            let (mut epochs, mut log, mut start, mut latest) = (EpochCache::default(), Vec::new(), 0, 0);
            for (kind, amount, raise) in steps {
                let end = log.len() as i64;
                match kind {
                    0 => {
                        latest += raise;
                        epochs.assign(LeaderEpoch(latest), Offset(end));
                        log.extend((0..amount).map(|_| latest));
                    }
                    1 => {
                        let to = (end - amount).max(start);
                        log.truncate(to as usize);
                        epochs.truncate_end(Offset(to));
                    }
                    _ => {
                        start = (start + amount).min(end);
                        epochs.truncate_start(Offset(start));
                    }
                }
                for (offset, epoch) in log.iter().enumerate().skip(start as usize) {
                    prop_assert_eq!(epochs.epoch_for(Offset(offset as i64)), Some(LeaderEpoch(*epoch)));
                }
                for asked in 0..=latest {
                    let known = log[start as usize..].iter().any(|epoch| *epoch >= asked);
                    let (_, answer) = epochs.end_offset_for(LeaderEpoch(asked), Offset(log.len() as i64));
                    if known {
                        let end = log.iter().skip(start as usize).take_while(|epoch| **epoch <= asked).count() as i64 + start;
                        prop_assert_eq!(answer, Offset(end));
                    }
                }
            }
        }
    }
}
