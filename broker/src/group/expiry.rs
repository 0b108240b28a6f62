//! Offsets that nobody needs any more (KIP-211). Owns from when they are counted, and by which clock.
//!
//! Retention is counted on the wall clock, since it outlives processes, but not on its word alone: no more time has passed
//! than since the newest record that was found at the start, and on the monotonic clock from then on; and what this
//! coordinator saw itself is counted on its monotonic clock as well. So a clock that is wrong, or jumps, removes nothing
//! early (I37); a coordinator that was down keeps offsets for longer.

use super::{
    Now,
    classic::{CONSUMER, Group, GroupState},
    desk::Desk,
    facts::OffsetGone,
    offsets::CommittedOffset,
};
use crate::types::TopicPartition;
use sillon_runtime::Monotonic;
use std::time::Duration;

/// The time by which retention is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpiryClock {
    /// A time that has certainly come ...
    certain_ms: i64,
    /// ... by this moment.
    at: Monotonic,
}

impl ExpiryClock {
    /// The clock of a shard that was just loaded. `newest_ms` is the newest time in its log, if it has any.
    pub(super) fn start(newest_ms: Option<i64>, now: Now) -> ExpiryClock {
        let certain_ms = newest_ms.unwrap_or(now.unix_ms).min(now.unix_ms);
        ExpiryClock { certain_ms, at: now.monotonic }
    }

    /// The time.
    pub(super) fn now_ms(&self, now: Now) -> i64 {
        let passed = now.monotonic.saturating_since(self.at).as_millis();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.certain_ms.saturating_add(passed).min(now.unix_ms)
    }
}

impl Group {
    /// Removes what is past its retention: offsets, and the group itself if nothing is left of it.
    pub(super) fn expire(&mut self, desk: &mut Desk, clock: &ExpiryClock, now: Now) {
        if self.state == GroupState::Dead {
            return;
        }
        let (now_ms, retention_ms) = (clock.now_ms(now), desk.settings.retention_ms);
        let is_due = |(partition, committed): &(&TopicPartition, &CommittedOffset)| {
            !self.offsets.is_under_way(partition)
                && self.is_past(partition, committed, now_ms, retention_ms)
                && self.has_lasted(partition, now, retention_ms)
        };
        let due: Vec<TopicPartition> =
            self.offsets.committed.iter().filter(is_due).map(|(partition, _)| partition.clone()).collect();
        let is_all = due.len() == self.offsets.committed.len() && !self.offsets.has_any_under_way();
        if is_all && self.state == GroupState::Empty && self.pending.is_empty() {
            let deleted = self.delete(desk, None, OffsetGone::Expired);
            assert_eq!(deleted, Ok(()), "an empty group can be deleted");
        } else {
            self.remove_many(desk, due, OffsetGone::Expired);
        }
    }

    /// Whether the time has passed that this coordinator can tell by its monotonic clock.
    fn has_lasted(&self, partition: &TopicPartition, now: Now, retention_ms: i64) -> bool {
        let since = self.offsets.since.get(partition).copied().max(self.state_since);
        let retention = Duration::from_millis(retention_ms.unsigned_abs());
        let has_own_time =
            self.offsets.committed.get(partition).is_some_and(|offset| offset.expire_ms.is_some());
        has_own_time || since.is_none_or(|since| now.monotonic.saturating_since(since) >= retention)
    }

    /// Whether an offset is past its retention.
    fn is_past(
        &self,
        partition: &TopicPartition,
        committed: &CommittedOffset,
        now_ms: i64,
        retention_ms: i64,
    ) -> bool {
        let since = match (self.protocol_type.as_deref(), self.state) {
            // A group that was never joined: somebody just keeps offsets in it.
            (None | Some(""), _) => committed.commit_ms,
            // From when its last member left; an offset that came later, from then.
            (_, GroupState::Empty) => {
                self.state_since_ms.map_or(committed.commit_ms, |since| since.max(committed.commit_ms))
            }
            (Some(CONSUMER), GroupState::Stable) if !self.reads(&partition.topic) => committed.commit_ms,
            // Whoever is a member may still need it.
            _ => return false,
        };
        match committed.expire_ms {
            Some(expire_ms) => now_ms >= expire_ms,
            None => now_ms.saturating_sub(since) >= retention_ms,
        }
    }
}
