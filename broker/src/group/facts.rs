//! What a coordinator tells an observer about its groups. Owns the list of facts.

use super::{GroupId, MemberId};
use crate::types::{Offset, TopicPartition};
use bytes::Bytes;

/// A member of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFact {
    /// Its id.
    pub member: MemberId,
    /// What the user named it.
    pub instance: Option<String>,
    /// Its metadata for the protocol that was chosen.
    pub metadata: Bytes,
    /// Its assignment.
    pub assignment: Bytes,
}

/// A generation of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationFact {
    /// Its number.
    pub generation: i32,
    /// What kind of group.
    pub protocol_type: String,
    /// The protocol that was chosen.
    pub protocol: String,
    /// The member that assigned.
    pub leader: MemberId,
    /// All members.
    pub members: Vec<MemberFact>,
}

/// Why a member is none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberGone {
    /// It said so, or an administrator did.
    Left,
    /// Nothing was heard of it for its session timeout.
    Expired,
    /// It did not join again, or did not ask for its assignment, in time.
    NotRejoined,
    /// Another member has its instance id now.
    Fenced,
}

/// Why an offset is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetGone {
    /// It is past its retention.
    Expired,
    /// Somebody deleted it, or its group.
    Deleted,
    /// Its topic was deleted.
    TopicDeleted,
}

/// One fact of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupFact {
    /// The coordinator has read its partition and answers from now on. Facts of the groups that it found come before.
    Loaded {
        /// How many groups it found.
        groups: usize,
        /// How many offsets.
        offsets: usize,
        /// Everything before was read.
        up_to: Offset,
    },
    /// The coordinator answers no longer.
    Unloaded,
    /// A group was found in the log with members. Their sessions begin anew.
    Found {
        /// The group.
        group: GroupId,
        /// What it was found with.
        generation: GenerationFact,
    },
    /// A group was found in the log without members.
    FoundEmpty {
        /// The group.
        group: GroupId,
        /// Its last generation.
        generation: i32,
        /// Since when it has been so, in milliseconds since 1970, where that is known.
        since_ms: Option<i64>,
    },
    /// An offset was found in the log.
    OffsetFound {
        /// The group.
        group: GroupId,
        /// The partition.
        partition: TopicPartition,
        /// The offset.
        offset: i64,
    },
    /// Somebody has become a member.
    MemberJoined {
        /// The group.
        group: GroupId,
        /// The member.
        member: MemberId,
        /// What the user named it.
        instance: Option<String>,
    },
    /// Somebody is a member no longer.
    MemberGone {
        /// The group.
        group: GroupId,
        /// The member.
        member: MemberId,
        /// Why.
        reason: MemberGone,
    },
    /// The members of a group are asked to join again.
    Rebalancing {
        /// The group.
        group: GroupId,
        /// The generation that ends.
        generation: i32,
    },
    /// A generation's assignment is committed, and given out.
    GenerationFormed {
        /// The group.
        group: GroupId,
        /// The generation.
        generation: GenerationFact,
    },
    /// The group has no members any more.
    Emptied {
        /// The group.
        group: GroupId,
        /// Its generation from now on.
        generation: i32,
        /// Since when, in milliseconds since 1970.
        since_ms: i64,
    },
    /// An offset is committed, and visible from now on.
    OffsetCommitted {
        /// The group.
        group: GroupId,
        /// The partition.
        partition: TopicPartition,
        /// The offset.
        offset: i64,
        /// Who committed it, empty for nobody in particular.
        member: String,
        /// In which generation, -1 for none.
        generation: i32,
        /// When, in milliseconds since 1970.
        commit_timestamp_ms: i64,
        /// Where its record is, or one of the same batch before it.
        log_offset: Offset,
    },
    /// An offset is gone.
    OffsetRemoved {
        /// The group.
        group: GroupId,
        /// The partition.
        partition: TopicPartition,
        /// Why.
        reason: OffsetGone,
    },
    /// The group is gone.
    GroupRemoved {
        /// The group.
        group: GroupId,
    },
}
