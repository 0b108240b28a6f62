//! The coordinator of consumer groups (the classic protocol): who is a member, who reads which partitions, how far a group
//! has come.
//!
//! ```text
//!   join, sync, heartbeat, leave ─► classic (one state machine per group) ─┐
//!   commit, fetch, delete ────────► offsets ──────────────────────────────┼─► desk: answers, records, timers, facts
//!   records of the log, at a change of the leader ─► load ────────────────┘
//!
//!   shard (pure): the groups of one partition of `__consumer_offsets`
//!   service (shell): one task per shard; appends records, waits until they are committed, sleeps until a timer is due
//! ```
//! The coordinator of a group is the leader of its partition of `__consumer_offsets`; all that has to outlive it is in
//! that partition's log, in Kafka's format. Nothing is answered from what is not committed there: an offset is visible,
//! and an assignment given out, once its record is below the high watermark (I38). A generation that had an assignment is
//! in the log, so that the next coordinator goes on above it (I57).
//!
//! Pure: all but `service`, `work` and `reading`. Never touches a socket.

mod answers;
mod classic;
mod delete;
mod describe;
mod desk;
mod expiry;
pub mod facts;
mod join;
mod leave;
mod load;
mod member;
mod offsets;
mod reading;
mod records;
mod service;
mod shard;
mod static_member;
mod sync;

#[cfg(test)]
mod tests;
mod timers;
mod topic;
mod work;

pub use answers::{Answer, JoinCall, Now, OffsetToCommit, SyncCall, Token, Verdict, WriteId};
pub use classic::GroupState;
pub use desk::Output;
pub use load::Loader;
pub use offsets::CommittedOffset;
pub use records::GroupRecord;
pub(crate) use records::sample_records;
pub use service::Groups;
pub use shard::Shard;
pub(crate) use topic::creation_of_offsets_topic;
pub(crate) use work::Work;

use std::sync::Arc;

/// A group's name.
pub type GroupId = Arc<str>;
/// What the coordinator named a member.
pub type MemberId = Arc<str>;

/// The partition of the offsets topic that a group lies in, among so many: as Kafka computes it, so that its tools agree.
pub fn partition_of(group: &str, partitions: i32) -> i32 {
    // Java's hash of a string: over its UTF-16 code units.
    let hash =
        group.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    (hash & i32::MAX) % partitions.max(1)
}
