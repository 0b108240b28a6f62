//! What the groups of a shard share: settings, timers, and where their answers, records and facts go. Owns what is on its
//! way out, and what follows once records are committed; decides nothing.

use super::{
    Answer, GroupId, MemberId, Token,
    answers::WriteId,
    facts::{GroupFact, OffsetGone},
    offsets::CommittedOffset,
    records::GroupRecord,
    timers::Timers,
};
use crate::{config::group::GroupConfig, types::TopicPartition};
use bytes::Bytes;
use sillon_protocol::{messages::JoinGroupResponse, wire::EncodeError};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// What a shard wants done, in order.
#[derive(Debug, Default)]
pub struct Output {
    /// Who is told what.
    pub answers: Vec<(Token, Answer)>,
    /// What is to be appended. What became of each must be told in the same order.
    pub writes: Vec<(WriteId, Vec<GroupRecord>)>,
    /// What happened.
    pub facts: Vec<GroupFact>,
}

/// What is done once records are committed, or refused.
#[derive(Debug)]
pub(super) enum Then {
    /// Offsets are visible.
    Commit {
        group: GroupId,
        token: Token,
        by: (String, i32),
        offsets: Vec<(TopicPartition, CommittedOffset)>,
    },
    /// The assignment of a generation is given out.
    Assign { group: GroupId, generation: i32, assignments: BTreeMap<MemberId, Bytes> },
    /// A static member has taken its place again.
    Replace { group: GroupId, token: Token, old: MemberId, answer: Box<JoinGroupResponse> },
    /// The group is known to have no members.
    Note { group: GroupId },
    /// Offsets are gone.
    RemoveOffsets {
        group: GroupId,
        token: Option<Token>,
        partitions: Vec<TopicPartition>,
        reason: OffsetGone,
    },
    /// The group is gone, with all its offsets.
    RemoveGroup { group: GroupId, token: Option<Token>, reason: OffsetGone },
}

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) settings: Arc<GroupConfig>,
    pub(super) timers: Timers,
    pub(super) out: Output,
    /// Records that could not even be encoded: they are refused when the event is over.
    pub(super) unwritable: Vec<Then>,
    waiting: VecDeque<(WriteId, Then)>,
    next_write: u64,
    is_observed: bool,
}

impl Desk {
    pub(super) fn new(settings: Arc<GroupConfig>, is_observed: bool) -> Desk {
        Desk {
            settings,
            timers: Timers::default(),
            out: Output::default(),
            unwritable: Vec::new(),
            waiting: VecDeque::new(),
            next_write: 0,
            is_observed,
        }
    }

    /// Tells somebody who waits.
    pub(super) fn answer(&mut self, token: Token, answer: Answer) {
        self.out.answers.push((token, answer));
    }

    /// Tells a fact; it is built only where somebody listens.
    pub(super) fn tell(&mut self, fact: impl FnOnce() -> GroupFact) {
        if self.is_observed {
            self.out.facts.push(fact());
        }
    }

    /// Has records appended.
    pub(super) fn write(&mut self, records: Result<Vec<GroupRecord>, EncodeError>, then: Then) {
        match records {
            Ok(records) => {
                assert!(!records.is_empty(), "nothing is no write");
                let id = WriteId(self.next_write);
                self.next_write += 1;
                self.waiting.push_back((id, then));
                self.out.writes.push((id, records));
            }
            Err(error) => {
                tracing::warn!(%error, "a record of a group cannot be encoded");
                self.unwritable.push(then);
            }
        }
    }

    /// What follows from the oldest write whose fate was not known.
    pub(super) fn written(&mut self, id: WriteId) -> Then {
        let (oldest, then) = self.waiting.pop_front().expect("a write whose fate is told was given out");
        assert_eq!(oldest, id, "writes come to their end in their order");
        then
    }
}
