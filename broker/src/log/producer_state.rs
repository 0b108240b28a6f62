//! What idempotent producers have written to one log. Pure: owns the table and its rules, never a file or a clock.
//!
//! ```text
//!   check(batch)            may it be appended? ──► New | Duplicate(of) | refused
//!   record(batch, offset)   it was appended (or replicated, or replayed)
//!        └──► per producer: epoch, the last five batches, the open transaction
//! ```
//! Kept: within one epoch of a producer, sequence numbers in the log are consecutive modulo 2^31 and each appears
//! once (I26); a duplicate is answered with the offset it has had all along (I70); an epoch that has been replaced
//! writes no more (I71).

use super::error::AppendError;
use crate::{
    observe::ProducerSummary,
    types::{Offset, ProducerId},
};
use sillon_protocol::records::{
    BatchHeader, EndTransactionMarker, NO_PRODUCER_EPOCH, NO_SEQUENCE, increment_sequence,
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// How many batches of a producer are remembered, for telling duplicates: as many as may be in flight.
pub(super) const RETAINED_BATCHES: usize = 5;
/// Coordinator epoch of a producer that no transaction coordinator has written for.
pub(super) const NO_COORDINATOR_EPOCH: i32 = -1;

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppendOrigin {
    /// A client: everything is checked.
    Client,
    /// A coordinator of this broker (offsets, markers): it has no sequence numbers, epochs are checked.
    Coordinator,
}

/// What is remembered of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchMetadata {
    /// Sequence number of its last record.
    pub(super) last_sequence: i32,
    /// Offset of its last record.
    pub(super) last_offset: Offset,
    /// Its last offset minus its first.
    pub(super) offset_delta: i32,
    /// Its largest time stamp, in ms.
    pub(super) timestamp_ms: i64,
}

impl BatchMetadata {
    fn base_sequence(&self) -> i32 {
        if self.last_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        // Modulo 2^31, a step back of n is a step forward of 2^31 − n.
        (i64::from(self.last_sequence) - i64::from(self.offset_delta)).rem_euclid(1 << 31) as i32
    }

    fn base_offset(&self) -> Offset {
        Offset(self.last_offset.0 - i64::from(self.offset_delta))
    }
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProducerEntry {
    /// Its epoch.
    pub(super) producer_epoch: i16,
    /// Epoch of the transaction coordinator that wrote for it last.
    pub(super) coordinator_epoch: i32,
    /// The largest time stamp of its last batch or marker, in ms.
    pub(super) last_timestamp_ms: i64,
    /// Where its open transaction begins.
    pub(super) transaction_start: Option<Offset>,
    /// Its last batches in this epoch, oldest first, at most [`RETAINED_BATCHES`].
    pub(super) batches: VecDeque<BatchMetadata>,
    /// When it last wrote, or when the table was loaded.
    pub(super) touched: Monotonic,
}

impl ProducerEntry {
    fn new(now: Monotonic) -> ProducerEntry {
        ProducerEntry {
            producer_epoch: NO_PRODUCER_EPOCH,
            coordinator_epoch: NO_COORDINATOR_EPOCH,
            last_timestamp_ms: -1,
            transaction_start: None,
            batches: VecDeque::new(),
            touched: now,
        }
    }

    fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.producer_epoch != epoch {
            self.producer_epoch = epoch;
            self.batches.clear();
        }
    }
}

/// What a producer wrote last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastWrite {
    /// Its epoch.
    pub(super) producer_epoch: i16,
    /// The offset of its last data record in that epoch; none where it has written a marker only.
    pub(super) last_offset: Option<i64>,
}

/// What [`ProducerStates::check`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// To be appended.
    New,
    /// In the log already.
    Duplicate {
        /// Where.
        base_offset: Offset,
        /// One past its last record.
        next_offset: Offset,
        /// Its largest time stamp, in ms.
        timestamp_ms: i64,
    },
}

/// The producers of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProducerStates {
    entries: BTreeMap<ProducerId, ProducerEntry>,
}

impl ProducerStates {
    /// Puts back what a snapshot held.
    pub(super) fn insert(&mut self, producer_id: ProducerId, entry: ProducerEntry) {
        assert!(entry.batches.len() <= RETAINED_BATCHES, "a table never grows with the log");
        self.entries.insert(producer_id, entry);
    }

    /// All producers, in the order of their ids.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (ProducerId, &ProducerEntry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// Whether the batch may be appended.
    pub(super) fn check(
        &self,
        batch: &BatchHeader,
        marker: Option<EndTransactionMarker>,
        origin: AppendOrigin,
    ) -> Result<Verdict, AppendError> {
        if !batch.has_producer_id() {
            return Ok(Verdict::New);
        }
        let producer_id = ProducerId(batch.producer_id());
        let Some(entry) = self.entries.get(&producer_id) else { return Ok(Verdict::New) };
        if origin == AppendOrigin::Client
            && let Some(original) = find_duplicate(entry, batch)
        {
            return Ok(Verdict::Duplicate {
                base_offset: original.base_offset(),
                next_offset: original.last_offset.plus(1),
                timestamp_ms: original.timestamp_ms,
            });
        }
        if batch.producer_epoch() < entry.producer_epoch {
            let (given, current) = (batch.producer_epoch(), entry.producer_epoch);
            return Err(AppendError::InvalidProducerEpoch { producer_id, given, current });
        }
        if let Some(marker) = marker {
            if marker.coordinator_epoch < entry.coordinator_epoch {
                let (given, current) = (marker.coordinator_epoch, entry.coordinator_epoch);
                return Err(AppendError::CoordinatorFenced { given, current });
            }
            return Ok(Verdict::New);
        }
        if origin == AppendOrigin::Client {
            check_sequence(producer_id, entry, batch)?;
        }
        if entry.transaction_start.is_some() && !batch.is_transactional() {
            return Err(AppendError::InvalidTransactionState { producer_id });
        }
        Ok(Verdict::New)
    }

    /// Takes note of a batch that is in the log at `base_offset`.
    pub(super) fn record(
        &mut self,
        batch: &BatchHeader,
        base_offset: Offset,
        marker: Option<EndTransactionMarker>,
        now: Monotonic,
    ) {
        if !batch.has_producer_id() || (batch.is_control() && marker.is_none()) {
            return;
        }
        let producer_id = ProducerId(batch.producer_id());
        let entry = self.entries.entry(producer_id).or_insert_with(|| ProducerEntry::new(now));
        entry.touched = now;
        entry.last_timestamp_ms = batch.max_timestamp();
        entry.set_epoch(batch.producer_epoch());
        if let Some(marker) = marker {
            entry.coordinator_epoch = marker.coordinator_epoch;
            entry.transaction_start = None;
            return;
        }
        if entry.batches.len() == RETAINED_BATCHES {
            entry.batches.pop_front();
        }
        entry.batches.push_back(BatchMetadata {
            last_sequence: batch.last_sequence(),
            last_offset: base_offset.plus(i64::from(batch.last_offset_delta())),
            offset_delta: batch.last_offset_delta(),
            timestamp_ms: batch.max_timestamp(),
        });
        if batch.is_transactional() && entry.transaction_start.is_none() {
            entry.transaction_start = Some(base_offset);
        }
    }

    /// Forgets producers that have written nothing for `expiration` and have no transaction open. Measured on the
    /// monotonic clock: neither a client's time stamps nor a jump of the wall clock make a producer forgotten early.
    pub(super) fn expire(&mut self, now: Monotonic, expiration: Duration) {
        self.entries.retain(|_, entry| {
            entry.transaction_start.is_some() || now.saturating_since(entry.touched) < expiration
        });
    }

    /// What each producer wrote last, for compaction: that much of it stays.
    pub(super) fn last_writes(&self) -> BTreeMap<i64, LastWrite> {
        let last = |(producer_id, entry): (&ProducerId, &ProducerEntry)| {
            let last_offset = entry.batches.back().map(|batch| batch.last_offset.0);
            (producer_id.0, LastWrite { producer_epoch: entry.producer_epoch, last_offset })
        };
        self.entries.iter().map(last).collect()
    }

    /// Where the first transaction begins that is open.
    pub(super) fn first_unstable(&self) -> Option<Offset> {
        self.entries.values().filter_map(|entry| entry.transaction_start).min()
    }

    /// For comparing tables.
    pub(super) fn summary(&self) -> Vec<ProducerSummary> {
        let summary = |(producer_id, entry): (&ProducerId, &ProducerEntry)| ProducerSummary {
            producer_id: *producer_id,
            producer_epoch: entry.producer_epoch,
            last_sequence: entry.last_sequence(),
            last_offset: entry.batches.back().map_or(Offset(-1), |batch| batch.last_offset),
        };
        self.entries.iter().map(summary).collect()
    }
}

fn find_duplicate<'a>(entry: &'a ProducerEntry, batch: &BatchHeader) -> Option<&'a BatchMetadata> {
    if entry.producer_epoch != batch.producer_epoch() {
        return None;
    }
    let same = |known: &&BatchMetadata| {
        known.base_sequence() == batch.base_sequence() && known.last_sequence == batch.last_sequence()
    };
    entry.batches.iter().find(same)
}

fn check_sequence(
    producer_id: ProducerId,
    entry: &ProducerEntry,
    batch: &BatchHeader,
) -> Result<(), AppendError> {
    let given = batch.base_sequence();
    let expected = match entry.last_sequence() {
        // A new epoch counts from 0.
        _ if entry.producer_epoch != batch.producer_epoch() => 0,
        NO_SEQUENCE => 0,
        last => increment_sequence(last, 1),
    };
    if given == expected {
        Ok(())
    } else {
        Err(AppendError::OutOfOrderSequence { producer_id, given, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sillon_protocol::records::{BatchBuilder, Compression, MarkerKind};

    const NOW: Monotonic = Monotonic(7);

    fn header(epoch: i16, sequence: i32, count: i32, transactional: bool) -> BatchHeader {
        let mut builder = BatchBuilder::new().producer(1, epoch, sequence).transactional(transactional);
        for _ in 0..count {
            builder.add(1000, None, None, []);
        }
        BatchHeader::parse(&builder.build(Compression::None)).expect("built")
    }

    fn batch(epoch: i16, sequence: i32, count: i32) -> BatchHeader {
        header(epoch, sequence, count, false)
    }

    /// Sends a batch as a client would and gives its offset.
    fn send(
        states: &mut ProducerStates,
        end: &mut Offset,
        batch: &BatchHeader,
    ) -> Result<Offset, AppendError> {
        match states.check(batch, None, AppendOrigin::Client)? {
            Verdict::Duplicate { base_offset, .. } => Ok(base_offset),
            Verdict::New => {
                let base = *end;
                states.record(batch, base, None, NOW);
                *end = base.plus(i64::from(batch.last_offset_delta()) + 1);
                Ok(base)
            }
        }
    }

    #[test]
    fn sequences_must_follow_each_other_and_duplicates_keep_their_offset() {
        let (mut states, mut end) = (ProducerStates::default(), Offset(100));
        for sequence in [0, 3, 6, 9, 12, 15] {
            send(&mut states, &mut end, &batch(0, sequence, 3)).expect("in order");
        }
        for (sequence, offset) in [(3, 103), (9, 109), (15, 115)] {
            assert_eq!(
                send(&mut states, &mut end, &batch(0, sequence, 3)).expect("a duplicate"),
                Offset(offset)
            );
        }
        assert_eq!(end, Offset(118));
        let gap = send(&mut states, &mut end, &batch(0, 21, 1));
        assert!(
            matches!(gap, Err(AppendError::OutOfOrderSequence { given: 21, expected: 18, .. })),
            "{gap:?}"
        );
        // Six batches were sent: the first is no longer remembered.
        let old = send(&mut states, &mut end, &batch(0, 0, 3));
        assert!(matches!(old, Err(AppendError::OutOfOrderSequence { given: 0, .. })), "{old:?}");
        // The same first sequence with another length is no duplicate.
        assert!(send(&mut states, &mut end, &batch(0, 15, 2)).is_err());
    }

    #[test]
    fn an_older_epoch_is_fenced_and_a_new_one_begins_at_zero() {
        let (mut states, mut end) = (ProducerStates::default(), Offset(0));
        send(&mut states, &mut end, &batch(3, 40, 1)).expect("a producer unknown here may begin anywhere");
        let late = send(&mut states, &mut end, &batch(2, 41, 1));
        assert!(
            matches!(late, Err(AppendError::InvalidProducerEpoch { given: 2, current: 3, .. })),
            "{late:?}"
        );
        assert!(send(&mut states, &mut end, &batch(4, 41, 1)).is_err());
        send(&mut states, &mut end, &batch(4, 0, 1)).expect("a new epoch");
        assert!(send(&mut states, &mut end, &batch(3, 41, 1)).is_err(), "I71");
    }

    #[test]
    fn sequences_wrap_after_two_to_the_31() {
        let (mut states, mut end) = (ProducerStates::default(), Offset(0));
        send(&mut states, &mut end, &batch(0, i32::MAX - 1, 1)).expect("begins high");
        send(&mut states, &mut end, &batch(0, i32::MAX, 3)).expect("wraps inside the batch");
        assert_eq!(states.summary()[0].last_sequence, 1);
        assert_eq!(send(&mut states, &mut end, &batch(0, i32::MAX, 3)).expect("a duplicate"), Offset(1));
        send(&mut states, &mut end, &batch(0, 2, 1)).expect("goes on after the wrap");
        let (mut states, mut end) = (ProducerStates::default(), Offset(0));
        send(&mut states, &mut end, &batch(0, i32::MAX, 1)).expect("ends exactly at the wrap");
        send(&mut states, &mut end, &batch(0, 0, 1)).expect("0 comes next");
    }

    #[test]
    fn a_marker_ends_the_transaction_and_may_raise_the_epoch() {
        let (mut states, mut end) = (ProducerStates::default(), Offset(0));
        send(&mut states, &mut end, &header(0, 0, 2, true)).expect("begins a transaction");
        assert!(matches!(
            states.check(&batch(0, 2, 1), None, AppendOrigin::Client),
            Err(AppendError::InvalidTransactionState { .. })
        ));
        let marker = EndTransactionMarker { kind: MarkerKind::Commit, coordinator_epoch: 5 };
        let control = BatchHeader::parse(&marker.to_batch(2000, 1, 1)).expect("built");
        assert!(states.check(&control, Some(marker), AppendOrigin::Coordinator).is_ok());
        states.record(&control, end, Some(marker), NOW);
        let zombie = EndTransactionMarker { coordinator_epoch: 4, ..marker };
        assert!(matches!(
            states.check(&control, Some(zombie), AppendOrigin::Coordinator),
            Err(AppendError::CoordinatorFenced { given: 4, current: 5 })
        ));
        assert!(send(&mut states, &mut end, &batch(0, 2, 1)).is_err(), "the marker raised the epoch");
        send(&mut states, &mut end, &batch(1, 0, 1)).expect("the new epoch begins at 0");
    }

    #[test]
    fn idle_producers_are_forgotten_unless_a_transaction_is_open() {
        let mut states = ProducerStates::default();
        states.record(&batch(0, 0, 1), Offset(0), None, Monotonic(0));
        states.expire(Monotonic(999), Duration::from_nanos(1000));
        assert_eq!(states.iter().len(), 1);
        states.expire(Monotonic(1000), Duration::from_nanos(1000));
        assert_eq!(states.iter().len(), 0);
        states.record(&header(0, 0, 1, true), Offset(0), None, Monotonic(0));
        states.expire(Monotonic(5000), Duration::from_nanos(1000));
        assert_eq!(states.iter().len(), 1);
    }

    proptest! {
        /// A producer that repeats and reorders what it sent: each sequence number lands once, in order (I26).
        #[test]
        fn whatever_is_sent_the_log_has_each_sequence_once(
            first in prop_oneof![Just(0), Just(i32::MAX - 3)],
            sends in proptest::collection::vec((0..12usize, 1..4i32), 1..60),
        ) {
            let (mut states, mut end, mut log) = (ProducerStates::default(), Offset(0), Vec::new());
            let mut planned = Vec::new();
            let mut next = first;
            for (back, count) in sends {
                let index = planned.len().saturating_sub(back);
                if index == planned.len() {
                    planned.push((next, count));
                    next = increment_sequence(next, count);
                }
                let (sequence, count) = planned[index];
                let before = end;
                if send(&mut states, &mut end, &batch(0, sequence, count)).is_ok() && end != before {
                    log.extend((0..count).map(|i| increment_sequence(sequence, i)));
                }
            }
            for (index, pair) in log.windows(2).enumerate() {
                prop_assert_eq!(pair[1], increment_sequence(pair[0], 1), "at {}", index);
            }
        }
    }
}
