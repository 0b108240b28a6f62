//! Offsets: who may commit, when a commit is visible, what a group has committed. Owns the offsets of one group.

use super::{
    GroupId, Now, OffsetToCommit, Token, Verdict,
    answers::{Answer, code_of_refusal},
    classic::{Group, GroupState},
    desk::{Desk, Then},
    facts::{GroupFact, OffsetGone},
    records,
};
use crate::types::TopicPartition;
use sillon_protocol::{ErrorCode, messages::OffsetCommitRequest};
use sillon_runtime::Monotonic;
use std::collections::{BTreeMap, BTreeSet};

/// Removals that nobody waits for are written in parts of about this size: the offsets of a group may be many, and a batch
/// must not be larger than the topic permits.
const REMOVAL_BYTES: usize = 256 << 10;
/// What the removal of an offset takes beyond the names, at most.
const REMOVAL_OVERHEAD_BYTES: usize = 90;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset to read next.
    pub offset: i64,
    /// The leader epoch of the last record read, -1 if not known.
    pub leader_epoch: i32,
    /// What the consumer noted along with it.
    pub metadata: String,
    /// When it was committed, in milliseconds since 1970.
    pub(super) commit_ms: i64,
    /// When it goes, where the consumer has said so.
    pub(super) expire_ms: Option<i64>,
}

/// The offsets of a group.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// Those whose records are committed: what is answered, and nothing else (I38).
    pub(super) committed: BTreeMap<TopicPartition, CommittedOffset>,
    /// How many records are on their way to the log, by partition.
    under_way: BTreeMap<TopicPartition, usize>,
    /// When offsets were asked for, on this coordinator's monotonic clock; those that another one took are not here.
    pub(super) since: BTreeMap<TopicPartition, Monotonic>,
}

impl Offsets {
    /// Whether there is nothing, nor will be.
    pub(super) fn is_void(&self) -> bool {
        self.committed.is_empty() && self.under_way.is_empty()
    }

    /// Whether a newer offset is on its way.
    pub(super) fn is_under_way(&self, partition: &TopicPartition) -> bool {
        self.under_way.contains_key(partition)
    }

    pub(super) fn has_any_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Every partition that has an offset, or is about to have one: what a removal must be written for.
    pub(super) fn partitions(&self) -> BTreeSet<TopicPartition> {
        self.committed.keys().chain(self.under_way.keys()).cloned().collect()
    }

    /// Those of a topic.
    pub(super) fn of_topic(&self, topic: &str) -> Vec<TopicPartition> {
        fn within<T>(
            map: &BTreeMap<TopicPartition, T>,
            first: TopicPartition,
        ) -> impl Iterator<Item = &TopicPartition> {
            let topic = first.topic.clone();
            map.range(first..).map(|(partition, _)| partition).take_while(move |next| next.topic == topic)
        }
        let first = || TopicPartition::new(topic, i32::MIN);
        let all = within(&self.committed, first()).chain(within(&self.under_way, first()));
        all.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(super) fn set_out(&mut self, partition: &TopicPartition) {
        *self.under_way.entry(partition.clone()).or_default() += 1;
    }

    fn arrive(&mut self, partition: &TopicPartition) {
        let count = self.under_way.get_mut(partition).expect("what arrives has set out");
        *count -= 1;
        if *count == 0 {
            self.under_way.remove(partition);
        }
    }
}

impl Group {
    /// Whether these may commit offsets. A member that may has been heard of.
    ///
    /// # Errors
    /// Why not. A group without members takes offsets from anybody who is no member; one that has some, from them alone.
    fn check_commit(
        &mut self,
        desk: &mut Desk,
        request: &OffsetCommitRequest,
        now: Now,
    ) -> Result<(), ErrorCode> {
        let (id, generation) = (request.member_id.as_str(), request.generation_id_or_member_epoch);
        let instance = request.group_instance_id.as_deref();
        match self.state {
            GroupState::Dead => return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            GroupState::Empty if generation < 0 && id.is_empty() && instance.is_none() => return Ok(()),
            _ => {}
        }
        self.check_member(id, instance)?;
        self.check_generation(generation)?;
        if self.state == GroupState::CompletingRebalance {
            // It has heard of the generation, but not what it may read in it.
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        self.touch(id, desk, now);
        Ok(())
    }

    /// A member that has committed over a newer connection has given this one up, and what it asked for there: what comes of
    /// it late would take the offsets back. Kafka has no such rule; there a commit that a client has given up may still win.
    fn check_connection(&mut self, id: &str, connection: u64) -> Result<(), ErrorCode> {
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        if connection < member.commits_over {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        member.commits_over = connection;
        Ok(())
    }

    /// Commits offsets; `connection` is the number of the connection over which that is asked for.
    pub(super) fn commit(
        &mut self,
        desk: &mut Desk,
        (request, connection): (&OffsetCommitRequest, u64),
        offsets: Vec<OffsetToCommit>,
        token: Token,
        now: Now,
    ) -> Result<(), ErrorCode> {
        self.check_commit(desk, request, now)?;
        self.check_connection(&request.member_id, connection)?;
        if offsets.is_empty() {
            desk.answer(token, Answer::Written(ErrorCode::NONE));
            return Ok(());
        }
        let retention = Some(request.retention_time_ms).filter(|retention| *retention >= 0);
        let expire_ms = retention.map(|retention| now.unix_ms.saturating_add(retention));
        let offsets: Vec<_> = offsets
            .into_iter()
            .map(|given| {
                let partition = TopicPartition::new(&given.topic, given.partition);
                let (offset, leader_epoch, metadata) = (given.offset, given.leader_epoch, given.metadata);
                let commit_ms = now.unix_ms;
                (partition, CommittedOffset { offset, leader_epoch, metadata, commit_ms, expire_ms })
            })
            .collect();
        for (partition, _) in &offsets {
            self.offsets.set_out(partition);
            self.offsets.since.insert(partition.clone(), now.monotonic);
        }
        let records =
            offsets.iter().map(|(partition, offset)| records::offset(&self.id, partition, offset)).collect();
        let by = (request.member_id.clone(), request.generation_id_or_member_epoch);
        desk.write(records, Then::Commit { group: self.id.clone(), token, by, offsets });
        Ok(())
    }

    /// Offsets are in the log, or could not be written there.
    pub(super) fn on_committed(
        &mut self,
        desk: &mut Desk,
        (member, generation): (String, i32),
        offsets: Vec<(TopicPartition, CommittedOffset)>,
        verdict: Verdict,
    ) {
        for (partition, committed) in offsets {
            self.offsets.arrive(&partition);
            let Verdict::Committed(log_offset, _) = verdict else {
                if !self.offsets.committed.contains_key(&partition) {
                    self.offsets.since.remove(&partition);
                }
                continue;
            };
            desk.tell(|| GroupFact::OffsetCommitted {
                group: self.id.clone(),
                partition: partition.clone(),
                offset: committed.offset,
                member: member.clone(),
                generation,
                commit_timestamp_ms: committed.commit_ms,
                log_offset,
            });
            self.offsets.committed.insert(partition, committed);
        }
    }

    /// Has offsets removed that nobody waits for, however many they are.
    pub(super) fn remove_many(
        &mut self,
        desk: &mut Desk,
        partitions: impl IntoIterator<Item = TopicPartition>,
        reason: OffsetGone,
    ) {
        for part in self.parts(partitions) {
            self.remove_offsets(desk, part, None, reason);
        }
    }

    /// Partitions in parts, each of which fits a batch. None is empty.
    pub(super) fn parts(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Vec<Vec<TopicPartition>> {
        let mut parts: Vec<Vec<TopicPartition>> = Vec::new();
        let mut room = 0;
        for partition in partitions {
            let size = self.id.len() + partition.topic.len() + REMOVAL_OVERHEAD_BYTES;
            match parts.last_mut().filter(|_| size <= room) {
                Some(part) => part.push(partition),
                None => {
                    parts.push(vec![partition]);
                    room = REMOVAL_BYTES;
                }
            }
            room = room.saturating_sub(size);
        }
        parts
    }

    /// Has offsets removed. Nothing is removed before its record is committed.
    pub(super) fn remove_offsets(
        &mut self,
        desk: &mut Desk,
        partitions: Vec<TopicPartition>,
        token: Option<Token>,
        reason: OffsetGone,
    ) {
        assert!(!partitions.is_empty(), "nothing is to be removed");
        partitions.iter().for_each(|partition| self.offsets.set_out(partition));
        let records =
            partitions.iter().map(|partition| records::offset_removed(&self.id, partition)).collect();
        desk.write(records, Then::RemoveOffsets { group: self.id.clone(), token, partitions, reason });
    }

    /// The removal is in the log, or could not be written there.
    pub(super) fn on_removal_written(
        &mut self,
        desk: &mut Desk,
        partitions: Vec<TopicPartition>,
        reason: OffsetGone,
        verdict: Verdict,
    ) -> ErrorCode {
        partitions.iter().for_each(|partition| self.offsets.arrive(partition));
        match verdict {
            Verdict::Committed(_, code) => {
                self.forget_offsets(desk, partitions, reason);
                code
            }
            Verdict::Refused(code) => code,
        }
    }

    /// Offsets are gone.
    pub(super) fn forget_offsets(
        &mut self,
        desk: &mut Desk,
        partitions: Vec<TopicPartition>,
        reason: OffsetGone,
    ) {
        for partition in partitions {
            self.offsets.since.remove(&partition);
            if self.offsets.committed.remove(&partition).is_some() {
                desk.tell(|| GroupFact::OffsetRemoved { group: self.id.clone(), partition, reason });
            }
        }
    }
}

/// What whoever commits is told.
pub(super) fn commit_answer(verdict: Verdict) -> Answer {
    let code = match verdict {
        Verdict::Committed(_, code) => code,
        Verdict::Refused(ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE) => {
            return Answer::Written(ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
        }
        Verdict::Refused(code) => code,
    };
    Answer::Written(code_of_refusal(code))
}

impl Then {
    /// The group of whatever follows from a write.
    pub(super) fn group(&self) -> &GroupId {
        match self {
            Then::Commit { group, .. }
            | Then::Assign { group, .. }
            | Then::Replace { group, .. }
            | Then::Note { group }
            | Then::RemoveOffsets { group, .. }
            | Then::RemoveGroup { group, .. } => group,
        }
    }
}
