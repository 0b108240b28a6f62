//! Messages between members, as they travel. Owns the translation from and to the raft crate's own; never decides
//! whether a message makes sense (`validate.rs` does).

use super::{LogEntry, SnapshotMark};
use crate::{
    observe::Promise,
    types::{MemberId, Term},
};
use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, Message, MessageType};
use serde::{Deserialize, Serialize};

/// What is sent between members; what a member only tells itself has no kind here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Append,
    AppendResponse,
    RequestVote,
    RequestVoteResponse,
    Snapshot,
    Heartbeat,
    HeartbeatResponse,
    TimeoutNow,
    ReadIndex,
    ReadIndexResponse,
    RequestPreVote,
    RequestPreVoteResponse,
}

const KINDS: [(Kind, MessageType, &str); 12] = [
    (Kind::Append, MessageType::MsgAppend, "append"),
    (Kind::AppendResponse, MessageType::MsgAppendResponse, "append response"),
    (Kind::RequestVote, MessageType::MsgRequestVote, "request vote"),
    (Kind::RequestVoteResponse, MessageType::MsgRequestVoteResponse, "request vote response"),
    (Kind::Snapshot, MessageType::MsgSnapshot, "snapshot"),
    (Kind::Heartbeat, MessageType::MsgHeartbeat, "heartbeat"),
    (Kind::HeartbeatResponse, MessageType::MsgHeartbeatResponse, "heartbeat response"),
    (Kind::TimeoutNow, MessageType::MsgTimeoutNow, "timeout now"),
    (Kind::ReadIndex, MessageType::MsgReadIndex, "read index"),
    (Kind::ReadIndexResponse, MessageType::MsgReadIndexResp, "read index response"),
    (Kind::RequestPreVote, MessageType::MsgRequestPreVote, "request pre-vote"),
    (Kind::RequestPreVoteResponse, MessageType::MsgRequestPreVoteResponse, "request pre-vote response"),
];

impl Kind {
    fn of(raft: MessageType) -> Option<Kind> {
        KINDS.iter().find(|(_, other, _)| *other == raft).map(|(kind, _, _)| *kind)
    }

    fn raft(self) -> MessageType {
        KINDS[self as usize].1
    }
}

/// A message from one member to another. The shell carries it and does not look inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsensusMessage {
    pub(super) kind: Kind,
    pub(super) to: MemberId,
    pub(super) from: MemberId,
    pub(super) term: u64,
    pub(super) log_term: u64,
    pub(super) index: u64,
    pub(super) entries: Vec<LogEntry>,
    pub(super) commit: u64,
    pub(super) commit_term: u64,
    pub(super) snapshot: Option<SnapshotMark>,
    pub(super) reject: bool,
    pub(super) reject_hint: u64,
    #[serde(with = "crate::frame::payload")]
    pub(super) context: Bytes,
}

impl ConsensusMessage {
    /// What kind of message it is, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        KINDS[self.kind as usize].2
    }

    /// Who sent it.
    pub fn from(&self) -> MemberId {
        self.from
    }

    /// Whom it is for.
    pub fn to(&self) -> MemberId {
        self.to
    }

    /// The sender's term; 0 where it asks for a read.
    pub fn term(&self) -> Term {
        Term(self.term)
    }

    /// The snapshot that the receiver is to install, where the message is about one.
    pub fn snapshot(&self) -> Option<SnapshotMark> {
        self.snapshot.filter(|_| self.kind == Kind::Snapshot)
    }

    /// What it promises, where it promises something: to be true before it leaves.
    pub fn promise(&self) -> Option<Promise> {
        match self.kind {
            Kind::RequestVoteResponse if !self.reject => Some(Promise::Vote),
            Kind::AppendResponse if !self.reject => Some(Promise::Holds { index: self.index }),
            _ => None,
        }
    }

    /// Translates what the raft crate wants sent; nothing where it is a message that no member sends.
    pub(super) fn from_raft(mut message: Message) -> Option<ConsensusMessage> {
        let kind = Kind::of(message.get_msg_type())?;
        let snapshot = (kind == Kind::Snapshot).then(|| {
            let metadata = message.get_snapshot().get_metadata();
            SnapshotMark { index: metadata.index, term: metadata.term }
        });
        Some(ConsensusMessage {
            kind,
            to: MemberId(message.to),
            from: MemberId(message.from),
            term: message.term,
            log_term: message.log_term,
            index: message.index,
            entries: message.take_entries().into_iter().map(entry_from_raft).collect(),
            commit: message.commit,
            commit_term: message.commit_term,
            snapshot,
            reject: message.reject,
            reject_hint: message.reject_hint,
            context: message.take_context(),
        })
    }

    /// Translates into what the raft crate takes.
    pub(super) fn into_raft(self, voters: &ConfState) -> Message {
        let mut message = Message::default();
        message.set_msg_type(self.kind.raft());
        message.to = self.to.0;
        message.from = self.from.0;
        message.term = self.term;
        message.log_term = self.log_term;
        message.index = self.index;
        message.set_entries(self.entries.into_iter().map(entry_into_raft).collect());
        message.commit = self.commit;
        message.commit_term = self.commit_term;
        message.reject = self.reject;
        message.reject_hint = self.reject_hint;
        message.context = self.context;
        if let Some(mark) = self.snapshot {
            let metadata = message.mut_snapshot().mut_metadata();
            metadata.index = mark.index;
            metadata.term = mark.term;
            metadata.set_conf_state(voters.clone());
        }
        message
    }
}

/// An entry as the shell sees it.
pub(super) fn entry_from_raft(entry: Entry) -> LogEntry {
    LogEntry { index: entry.index, term: entry.term, data: entry.data }
}

/// An entry as the raft crate sees it.
pub(super) fn entry_into_raft(entry: LogEntry) -> Entry {
    Entry { index: entry.index, term: entry.term, data: entry.data, ..Entry::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_in_the_order_of_the_table() {
        for (position, (kind, raft, _)) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, position);
            assert_eq!((Kind::of(raft), kind.raft()), (Some(kind), raft));
        }
        assert_eq!(Kind::of(MessageType::MsgHup), None);
        assert_eq!(Kind::of(MessageType::MsgPropose), None);
    }

    #[test]
    fn a_message_survives_the_translation() {
        let message = ConsensusMessage {
            kind: Kind::Append,
            to: MemberId(2),
            from: MemberId(1),
            term: 5,
            log_term: 4,
            index: 7,
            entries: vec![LogEntry { index: 8, term: 5, data: Bytes::from_static(b"x") }],
            commit: 6,
            commit_term: 3,
            snapshot: None,
            reject: true,
            reject_hint: 9,
            context: Bytes::from_static(b"context"),
        };
        let raft = message.clone().into_raft(&ConfState::default());
        assert_eq!(ConsensusMessage::from_raft(raft), Some(message));
    }
}
