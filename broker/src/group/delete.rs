//! What is removed because somebody asks for it: a group, or some of its offsets. Owns when that is refused.

use super::{
    Token, Verdict,
    answers::{Answer, code_of_refusal},
    classic::{CONSUMER, Group, GroupState},
    desk::{Desk, Then},
    facts::{GroupFact, OffsetGone},
    records,
};
use crate::types::TopicPartition;
use sillon_protocol::ErrorCode;

impl Group {
    /// Removes the group, with all its offsets.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP; GROUP_ID_NOT_FOUND where it is being removed already.
    pub(super) fn delete(
        &mut self,
        desk: &mut Desk,
        token: Option<Token>,
        reason: OffsetGone,
    ) -> Result<(), ErrorCode> {
        match self.state {
            GroupState::Empty => {}
            GroupState::Dead => return Err(ErrorCode::GROUP_ID_NOT_FOUND),
            _ => return Err(ErrorCode::NON_EMPTY_GROUP),
        }
        // What is on its way now is in the log before this is.
        let mut parts = self.parts(self.offsets.partitions());
        let last = parts.pop().unwrap_or_default();
        parts.into_iter().for_each(|part| self.remove_offsets(desk, part, None, reason));
        let offsets = last.iter().map(|partition| records::offset_removed(&self.id, partition));
        let all = offsets.chain([records::group_removed(&self.id)]).collect();
        self.state = GroupState::Dead;
        desk.write(all, Then::RemoveGroup { group: self.id.clone(), token, reason });
        Ok(())
    }

    /// The removal is in the log, or could not be written there. Gives whether the group is gone.
    pub(super) fn on_removed(
        &mut self,
        desk: &mut Desk,
        token: Option<Token>,
        reason: OffsetGone,
        verdict: Verdict,
    ) -> bool {
        assert_eq!(self.state, GroupState::Dead, "a group that is about to be gone does nothing else");
        let is_gone = matches!(verdict, Verdict::Committed(..));
        let code = match verdict {
            Verdict::Committed(_, code) | Verdict::Refused(code) => code,
        };
        if let Some(token) = token {
            desk.answer(token, Answer::Written(code_of_refusal(code)));
        }
        if is_gone {
            let partitions = self.offsets.committed.keys().cloned().collect();
            self.forget_offsets(desk, partitions, reason);
            desk.tell(|| GroupFact::GroupRemoved { group: self.id.clone() });
        } else {
            self.state = GroupState::Empty;
        }
        is_gone
    }

    /// Removes some offsets (KIP-496). Gives what each partition is told; those that are removed are answered later.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    pub(super) fn delete_offsets(
        &mut self,
        desk: &mut Desk,
        wanted: Vec<TopicPartition>,
        token: Token,
    ) -> Result<Vec<(TopicPartition, ErrorCode)>, ErrorCode> {
        let is_consumers = self.protocol_type.as_deref() == Some(CONSUMER);
        match self.state {
            GroupState::Dead => return Err(ErrorCode::GROUP_ID_NOT_FOUND),
            GroupState::Empty => {}
            _ if is_consumers => {}
            _ => return Err(ErrorCode::NON_EMPTY_GROUP),
        }
        let verdict = |partition: &TopicPartition| match self.reads(&partition.topic) {
            true => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
            false => ErrorCode::NONE,
        };
        let verdicts: Vec<_> = wanted
            .into_iter()
            .map(|partition| {
                let code = verdict(&partition);
                (partition, code)
            })
            .collect();
        let removed = verdicts.iter().filter(|(partition, code)| {
            let is_known =
                self.offsets.committed.contains_key(partition) || self.offsets.is_under_way(partition);
            code.is_none() && is_known
        });
        let removed: Vec<TopicPartition> = removed.map(|(partition, _)| partition.clone()).collect();
        if removed.is_empty() {
            desk.answer(token, Answer::Written(ErrorCode::NONE));
        } else {
            self.remove_offsets(desk, removed, Some(token), OffsetGone::Deleted);
        }
        Ok(verdicts)
    }

    /// Whether the group has members that read a topic. Where they do not say what they read, they may.
    pub(super) fn reads(&self, topic: &str) -> bool {
        let reads = self.subscribed.as_ref().is_none_or(|topics| topics.contains(topic));
        self.state != GroupState::Empty && reads
    }

    /// A topic is gone, and with it the offsets in it.
    pub(super) fn on_topic_deleted(&mut self, desk: &mut Desk, topic: &str) {
        if self.state == GroupState::Dead {
            return;
        }
        self.remove_many(desk, self.offsets.of_topic(topic), OffsetGone::TopicDeleted);
    }
}
