//! When something is due, for all groups of a shard, in the order of time. Owns the queue; what is due is the groups'.
//!
//! A heartbeat does not move its member's timer: it moves a deadline that the timer looks at when it is due. So a
//! heartbeat costs the same in a group of one and of a thousand.

use super::{GroupId, MemberId};
use sillon_runtime::Monotonic;
use std::collections::BTreeSet;

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The wait for members to join is over.
    Join,
    /// The wait for members to ask for their assignment is over.
    Sync,
    /// A member's session may be over.
    Session(MemberId),
    /// Somebody who was given an id has not joined with it.
    Pending(MemberId),
}

/// The timers of a shard.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Monotonic, GroupId, Timer)>);

impl Timers {
    /// Sets a timer.
    pub(super) fn set(&mut self, at: Monotonic, group: &GroupId, timer: Timer) {
        self.0.insert((at, group.clone(), timer));
    }

    /// Takes a timer back.
    pub(super) fn cancel(&mut self, at: Monotonic, group: &GroupId, timer: Timer) {
        self.0.remove(&(at, group.clone(), timer));
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Monotonic> {
        self.0.first().map(|(at, _, _)| *at)
    }

    /// Takes one that is due.
    pub(super) fn take_due(&mut self, now: Monotonic) -> Option<(Monotonic, GroupId, Timer)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first()
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}
