//! What goes into a shard and comes out of it beyond the messages of the protocol. Owns plain values.

use super::MemberId;
use crate::types::Offset;
use sillon_protocol::{
    ErrorCode,
    messages::{JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse},
};
use sillon_runtime::Monotonic;

/// Names a request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Names a set of records on its way to the log, in the order in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(pub u64);

/// The two clocks at the moment of an event: timers run on the first, retention counts on the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub monotonic: Monotonic,
    /// The wall clock, in milliseconds since 1970.
    pub unix_ms: i64,
}

/// A JoinGroup with what its connection says.
#[derive(Clone, Debug)]
pub struct JoinCall {
    /// Who waits.
    pub token: Token,
    /// The request.
    pub request: JoinGroupRequest,
    /// The id that the member gets if it has none.
    pub new_member_id: MemberId,
    /// The client's name.
    pub client_id: String,
    /// The client's address.
    pub client_host: String,
    /// A member without an instance id learns its id first, and joins with it (KIP-394).
    pub needs_member_id: bool,
    /// The client knows that a leader may have nothing to assign (KIP-814).
    pub can_skip_assignment: bool,
}

/// A SyncGroup.
#[derive(Clone, Debug)]
pub struct SyncCall {
    /// Who waits.
    pub token: Token,
    /// The request.
    pub request: SyncGroupRequest,
}

/// An offset that somebody commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetToCommit {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset to read next.
    pub offset: i64,
    /// The leader epoch of the last record read, -1 if not known.
    pub leader_epoch: i32,
    /// What the consumer notes along with it.
    pub metadata: String,
}

/// What somebody who waits is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To a JoinGroup.
    Joined(JoinGroupResponse),
    /// To a SyncGroup.
    Synced(SyncGroupResponse),
    /// To whoever waits for records to be committed.
    Written(ErrorCode),
}

/// What became of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are committed; the first of them at this offset. With a code where too few replicas were in sync by then: they
    /// count, but whoever waits is not told so.
    Committed(Offset, ErrorCode),
    /// They are not in the log and never will be.
    Refused(ErrorCode),
}

impl JoinCall {
    /// The answer that joining failed.
    pub(super) fn refusal(&self, code: ErrorCode) -> Answer {
        join_refusal(self.request.member_id.clone(), code)
    }
}

/// The answer that joining failed.
pub(super) fn join_refusal(member_id: impl Into<String>, code: ErrorCode) -> Answer {
    Answer::Joined(JoinGroupResponse {
        error_code: code.code(),
        member_id: member_id.into(),
        ..JoinGroupResponse::default()
    })
}

/// The answer that there is no assignment.
pub(super) fn sync_refusal(code: ErrorCode) -> Answer {
    Answer::Synced(SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() })
}

/// What a member is told where the offsets topic did not take a record.
pub(super) fn code_of_refusal(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NONE => ErrorCode::NONE,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | ErrorCode::REQUEST_TIMED_OUT => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::KAFKA_STORAGE_ERROR => ErrorCode::NOT_COORDINATOR,
        _ => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}
