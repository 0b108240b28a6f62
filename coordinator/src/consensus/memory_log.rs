//! The part of the log that is in memory, as the raft crate reads it: a window of bounded size that ends at the last
//! entry. Owns what is kept and what is dropped; never what is durable.

use super::SnapshotMark;
use raft::{
    GetEntriesContext, RaftState, Result, Storage, StorageError,
    eraftpb::{ConfState, Entry, HardState, Snapshot},
};
use std::{cell::Cell, collections::VecDeque};

/// What an entry takes in memory beside its data.
const ENTRY_OVERHEAD_BYTES: usize = 96;

fn entry_bytes(entry: &Entry) -> usize {
    entry.data.len() + ENTRY_OVERHEAD_BYTES
}

/// The window.
pub(super) struct MemoryLog {
    initial: HardState,
    voters: ConfState,
    /// The entry before the first in the window.
    before: SnapshotMark,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The newest snapshot on disk.
    snapshot: Option<SnapshotMark>,
    /// Somebody asked for a snapshot and there was none that the window continues.
    wanted: Cell<bool>,
}

impl MemoryLog {
    pub(super) fn new(
        initial: HardState,
        voters: ConfState,
        snapshot: Option<SnapshotMark>,
        entries: Vec<Entry>,
    ) -> MemoryLog {
        let bytes = entries.iter().map(entry_bytes).sum();
        MemoryLog {
            initial,
            voters,
            before: snapshot.unwrap_or_default(),
            entries: entries.into(),
            bytes,
            snapshot,
            wanted: Cell::new(false),
        }
    }

    pub(super) fn first(&self) -> u64 {
        self.before.index + 1
    }

    fn last(&self) -> u64 {
        self.before.index + self.entries.len() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn voters(&self) -> &ConfState {
        &self.voters
    }

    /// The term of an entry in the window, or of the one before it.
    pub(super) fn term_of(&self, index: u64) -> Option<u64> {
        if index == self.before.index {
            return Some(self.before.term);
        }
        let position = index.checked_sub(self.first())?;
        self.entries.get(position as usize).map(|entry| entry.term)
    }

    /// Appends entries; where the first has an index that is there, it replaces all from there on.
    pub(super) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(
            (self.first()..=self.last() + 1).contains(&first.index),
            "entry {} does not follow on a log from {} to {}",
            first.index,
            self.first(),
            self.last()
        );
        let kept = (first.index - self.first()) as usize;
        let replaced: usize = self.entries.drain(kept..).map(|entry| entry_bytes(&entry)).sum();
        self.bytes = self.bytes - replaced + entries.iter().map(entry_bytes).sum::<usize>();
        self.entries.extend(entries.iter().cloned());
    }

    /// The log is empty and continues after a snapshot.
    pub(super) fn install(&mut self, mark: SnapshotMark) {
        self.before = mark;
        self.entries.clear();
        self.bytes = 0;
        self.snapshot = Some(mark);
    }

    /// There is a newer snapshot.
    pub(super) fn snapshot_taken(&mut self, mark: SnapshotMark) {
        if self.snapshot.is_none_or(|snapshot| snapshot.index < mark.index) {
            self.snapshot = Some(mark);
        }
    }

    /// Drops the oldest entries, up to `last` at most, until no more than `limit_bytes` are left.
    pub(super) fn trim(&mut self, last: u64, limit_bytes: usize) {
        while self.bytes > limit_bytes && self.first() <= last {
            let Some(entry) = self.entries.pop_front() else { return };
            self.bytes -= entry_bytes(&entry);
            self.before = SnapshotMark { index: entry.index, term: entry.term };
        }
    }

    /// Whether a snapshot was asked for in vain since the last call.
    pub(super) fn take_wanted(&self) -> bool {
        self.wanted.take()
    }
}

impl Storage for MemoryLog {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState::new(self.initial.clone(), self.voters.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low < self.first() {
            return Err(StorageError::Compacted.into());
        }
        if high > self.last() + 1 {
            return Err(StorageError::Unavailable.into());
        }
        let limit = max_size.into().unwrap_or(u64::MAX);
        let range = (low - self.first()) as usize..(high - self.first()) as usize;
        let mut taken = Vec::new();
        let mut bytes = 0;
        for entry in self.entries.range(range) {
            bytes += entry_bytes(entry) as u64;
            if bytes > limit && !taken.is_empty() {
                break;
            }
            taken.push(entry.clone());
        }
        Ok(taken)
    }

    fn term(&self, index: u64) -> Result<u64> {
        let missing = if index < self.first() { StorageError::Compacted } else { StorageError::Unavailable };
        self.term_of(index).ok_or(missing.into())
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, _: u64) -> Result<Snapshot> {
        let usable = |mark: &SnapshotMark| mark.index >= self.before.index.max(request_index).max(1);
        let Some(mark) = self.snapshot.filter(usable) else {
            self.wanted.set(true);
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        };
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = mark.index;
        metadata.term = mark.term;
        metadata.set_conf_state(self.voters.clone());
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, data: vec![0; 4].into(), ..Entry::default() }
    }

    fn log(first: u64, last: u64) -> MemoryLog {
        let snapshot = (first > 1).then_some(SnapshotMark { index: first - 1, term: 1 });
        let entries = (first..=last).map(|index| entry(index, 1)).collect();
        MemoryLog::new(HardState::default(), ConfState::default(), snapshot, entries)
    }

    fn indexes(log: &MemoryLog, low: u64, high: u64, limit: u64) -> Result<Vec<u64>> {
        let entries = log.entries(low, high, limit, GetEntriesContext::empty(false))?;
        Ok(entries.iter().map(|entry| entry.index).collect())
    }

    #[test]
    fn the_window_is_read_within_its_bounds() {
        let log = log(5, 8);
        assert_eq!(indexes(&log, 5, 9, u64::MAX), Ok(vec![5, 6, 7, 8]));
        assert_eq!(indexes(&log, 6, 8, u64::MAX), Ok(vec![6, 7]));
        assert_eq!(indexes(&log, 5, 9, 2 * entry_bytes(&entry(5, 1)) as u64), Ok(vec![5, 6]));
        assert_eq!(indexes(&log, 5, 9, 0), Ok(vec![5]), "the first is always given");
        assert_eq!(indexes(&log, 4, 9, 0), Err(StorageError::Compacted.into()));
        assert_eq!(indexes(&log, 5, 10, 0), Err(StorageError::Unavailable.into()));
        assert_eq!((log.term(4), log.term(3)), (Ok(1), Err(StorageError::Compacted.into())));
        assert_eq!(log.term(9), Err(StorageError::Unavailable.into()));
    }

    #[test]
    fn appending_replaces_a_suffix_and_counts_bytes() {
        let mut log = log(1, 4);
        log.append(&[entry(3, 2), entry(4, 2), entry(5, 2)]);
        assert_eq!((log.last(), log.term_of(2), log.term_of(3)), (5, Some(1), Some(2)));
        assert_eq!(log.bytes(), 5 * entry_bytes(&entry(1, 1)));
        log.append(&[entry(2, 3)]);
        assert_eq!((log.last(), log.bytes()), (2, 2 * entry_bytes(&entry(1, 1))));
    }

    #[test]
    fn a_snapshot_is_sent_only_if_the_window_continues_it() {
        let mut log = log(1, 9);
        assert!(log.snapshot(0, 2).is_err());
        assert!(log.take_wanted() && !log.take_wanted());
        log.snapshot_taken(SnapshotMark { index: 3, term: 1 });
        assert_eq!(log.snapshot(0, 2).unwrap().get_metadata().index, 3);
        log.trim(5, 0);
        assert_eq!(log.first(), 6);
        assert!(log.snapshot(0, 2).is_err() && log.take_wanted());
        log.snapshot_taken(SnapshotMark { index: 5, term: 1 });
        assert_eq!(log.snapshot(0, 2).unwrap().get_metadata().index, 5);
    }
}
