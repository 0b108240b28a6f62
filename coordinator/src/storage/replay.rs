//! What records, one after the other, make of the log. Owns the rules; pure.

use super::record::{Kind, Record};
use crate::consensus::{HardState, LogEntry, SnapshotMark};
use std::collections::VecDeque;

/// The log as far as it was read: the entries after `base`.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) hard_state: HardState,
    pub(super) base: SnapshotMark,
    pub(super) entries: VecDeque<LogEntry>,
    started: bool,
}

impl Replay {
    /// The last entry, or the base.
    pub(super) fn last(&self) -> SnapshotMark {
        self.entries.back().map_or(self.base, mark)
    }

    /// Takes the next record; entries up to `covered`, which a snapshot contains, are not kept.
    ///
    /// # Errors
    /// What does not fit, where the record does not follow on those before it.
    pub(super) fn take(&mut self, record: Record, covered: u64) -> Result<(), String> {
        let before = record.before;
        let (old, new) = (self.hard_state, record.hard_state);
        if new.term < old.term || new.commit < old.commit {
            return Err(format!("the hard state goes back from {old:?} to {new:?}"));
        }
        if !self.started || record.kind == Kind::Reset {
            self.started = true;
            self.base = before;
            self.entries.clear();
        } else if before.index <= self.base.index {
            if before.index == self.base.index && before.term != self.base.term {
                return Err(format!("entries after {before}, the log has {}", self.base));
            }
            self.base = before;
            self.entries.clear();
        } else {
            let kept = (before.index - self.base.index) as usize;
            let found = self.entries.get(kept - 1).map(mark);
            if found != Some(before) {
                return Err(format!("entries after {before}, the log ends at {}", self.last()));
            }
            self.entries.truncate(kept);
        }
        for entry in record.entries {
            if entry.index != self.last().index + 1 || entry.term < self.last().term {
                return Err(format!("entry {} follows on {}", entry.index, self.last()));
            }
            self.entries.push_back(entry);
        }
        while self.entries.front().is_some_and(|entry| entry.index <= covered) {
            self.base = self.entries.pop_front().map_or(self.base, |entry| mark(&entry));
        }
        self.hard_state = new;
        Ok(())
    }
}

/// Which entry it is.
pub(super) fn mark(entry: &LogEntry) -> SnapshotMark {
    SnapshotMark { index: entry.index, term: entry.term }
}
