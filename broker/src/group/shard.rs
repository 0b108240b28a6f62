//! The groups of one partition of the offsets topic, as one state machine: requests, timers and the fate of records in;
//! answers, records and facts out. Owns which group an event is for; what it does is the groups'.

use super::{
    Answer, GroupId, JoinCall, Now, OffsetToCommit, Output, SyncCall, Token, Verdict,
    answers::{WriteId, code_of_refusal, sync_refusal},
    classic::{Group, GroupState},
    desk::{Desk, Then},
    expiry::ExpiryClock,
    facts::OffsetGone,
    offsets::{CommittedOffset, commit_answer},
    timers::Timer,
};
use crate::{config::group::GroupConfig, types::TopicPartition};
use sillon_protocol::{
    ErrorCode,
    messages::{
        DescribedGroup, HeartbeatRequest, LeaveGroupRequest, ListedGroup, MemberIdentity, MemberResponse,
        OffsetCommitRequest,
    },
};
use sillon_runtime::Monotonic;
use std::{collections::BTreeMap, sync::Arc};

/// See the module.
#[derive(Debug)]
pub struct Shard {
    pub(super) groups: BTreeMap<GroupId, Group>,
    pub(super) desk: Desk,
    clock: ExpiryClock,
    next_expiry: Monotonic,
}

impl Shard {
    pub(super) fn new(
        settings: Arc<GroupConfig>,
        is_observed: bool,
        newest_ms: Option<i64>,
        now: Now,
    ) -> Shard {
        let next_expiry = now.monotonic + settings.retention_check_interval;
        Shard {
            groups: BTreeMap::new(),
            desk: Desk::new(settings, is_observed),
            clock: ExpiryClock::start(newest_ms, now),
            next_expiry,
        }
    }

    /// What is to be done, once.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.desk.out)
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Monotonic {
        self.desk.timers.next().map_or(self.next_expiry, |next| next.min(self.next_expiry))
    }

    /// JoinGroup.
    pub fn join(&mut self, call: JoinCall, now: Now) {
        let joined = self.try_join(&call, now);
        if let Err(code) = joined {
            self.desk.answer(call.token, call.refusal(code));
        }
        self.settle(&call.request.group_id, now);
    }

    fn try_join(&mut self, call: &JoinCall, now: Now) -> Result<(), ErrorCode> {
        let request = &call.request;
        let settings = &self.desk.settings;
        let sessions = settings.min_session_timeout_ms..=settings.max_session_timeout_ms;
        if !sessions.contains(&request.session_timeout_ms) {
            return Err(ErrorCode::INVALID_SESSION_TIMEOUT);
        }
        if !self.groups.contains_key(request.group_id.as_str()) {
            if !request.member_id.is_empty() {
                return Err(ErrorCode::UNKNOWN_MEMBER_ID);
            }
            self.make_group(&request.group_id, now);
        }
        let group = self.groups.get_mut(request.group_id.as_str()).expect("it was made");
        group.join(&mut self.desk, call, now)
    }

    fn make_group(&mut self, id: &str, now: Now) -> &mut Group {
        let id: GroupId = id.into();
        self.groups.entry(id.clone()).or_insert_with(|| Group::new(id, Some(now.unix_ms)))
    }

    /// SyncGroup.
    pub fn sync(&mut self, call: SyncCall, now: Now) {
        let group = self.groups.get_mut(call.request.group_id.as_str());
        let synced = match group {
            Some(group) => group.sync(&mut self.desk, &call, now),
            None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        };
        if let Err(code) = synced {
            self.desk.answer(call.token, sync_refusal(code));
        }
        self.settle(&call.request.group_id, now);
    }

    /// Heartbeat.
    ///
    /// # Errors
    /// What the member is told.
    pub fn heartbeat(&mut self, request: &HeartbeatRequest, now: Now) -> Result<(), ErrorCode> {
        let group = self.groups.get_mut(request.group_id.as_str()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        group.heartbeat(&mut self.desk, request, now)
    }

    /// LeaveGroup: what each member is told.
    ///
    /// # Errors
    /// What all of them are told.
    pub fn leave(&mut self, request: &LeaveGroupRequest, now: Now) -> Result<Vec<MemberResponse>, ErrorCode> {
        let mut group = self.groups.get_mut(request.group_id.as_str());
        if group.as_ref().is_some_and(|group| group.state == GroupState::Dead) {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let mut leave = |member: &MemberIdentity| {
            let left = match &mut group {
                Some(group) => group.leave(&mut self.desk, member, now),
                None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            };
            MemberResponse {
                member_id: member.member_id.clone(),
                group_instance_id: member.group_instance_id.clone(),
                error_code: left.err().unwrap_or(ErrorCode::NONE).code(),
            }
        };
        let responses = request.members.iter().map(&mut leave).collect();
        self.settle(&request.group_id, now);
        Ok(responses)
    }

    /// OffsetCommit of offsets that are sound by themselves.
    pub fn commit(
        &mut self,
        (request, connection): (&OffsetCommitRequest, u64),
        offsets: Vec<OffsetToCommit>,
        token: Token,
        now: Now,
    ) {
        let is_known = self.groups.contains_key(request.group_id.as_str());
        let committed = if !is_known && request.generation_id_or_member_epoch >= 0 {
            Err(ErrorCode::ILLEGAL_GENERATION)
        } else {
            self.make_group(&request.group_id, now);
            let group = self.groups.get_mut(request.group_id.as_str()).expect("it was made");
            group.commit(&mut self.desk, (request, connection), offsets, token, now)
        };
        if let Err(code) = committed {
            self.desk.answer(token, Answer::Written(code));
        }
        self.settle(&request.group_id, now);
    }

    /// A committed offset of a group. One that is to be removed is there until that is committed.
    pub fn committed(&self, group: &str, topic: &Arc<str>, partition: i32) -> Option<&CommittedOffset> {
        let group = self.groups.get(group)?;
        group.offsets.committed.get(&TopicPartition { topic: topic.clone(), partition })
    }

    /// All committed offsets of a group, in the order of their partitions.
    pub fn all_committed(&self, group: &str) -> impl Iterator<Item = (&TopicPartition, &CommittedOffset)> {
        self.groups.get(group).into_iter().flat_map(|group| &group.offsets.committed)
    }

    /// OffsetDelete: what each partition is told, where the token's answer is no error. Sessions that are over by now end first.
    pub fn delete_offsets(
        &mut self,
        group: &str,
        wanted: Vec<TopicPartition>,
        token: Token,
        now: Now,
    ) -> Vec<(TopicPartition, ErrorCode)> {
        self.on_tick(now);
        let verdicts = match self.groups.get_mut(group) {
            Some(group) => group.delete_offsets(&mut self.desk, wanted, token),
            None => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        };
        let verdicts = verdicts.unwrap_or_else(|code| {
            self.desk.answer(token, Answer::Written(code));
            Vec::new()
        });
        self.settle(group, now);
        verdicts
    }

    /// DeleteGroups. Sessions that are over by now end first: nobody waits for the timer to delete what a member has left without a word.
    pub fn delete(&mut self, group: &str, token: Token, now: Now) {
        self.on_tick(now);
        let deleted = match self.groups.get_mut(group) {
            Some(group) => group.delete(&mut self.desk, Some(token), OffsetGone::Deleted),
            None => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        };
        if let Err(code) = deleted {
            self.desk.answer(token, Answer::Written(code));
        }
        self.settle(group, now);
    }

    /// DescribeGroups: none where there is no such group.
    pub fn describe(&self, group: &str) -> Option<DescribedGroup> {
        self.groups.get(group).map(Group::describe)
    }

    /// ListGroups.
    pub fn list(&self) -> impl Iterator<Item = ListedGroup> {
        self.groups.values().map(Group::list)
    }

    /// A topic is gone.
    pub fn on_topic_deleted(&mut self, topic: &str, now: Now) {
        for group in self.groups.values_mut() {
            group.on_topic_deleted(&mut self.desk, topic);
        }
        self.refuse_unwritable(now);
    }

    /// Timers may be due.
    pub fn on_tick(&mut self, now: Now) {
        while let Some((at, id, timer)) = self.desk.timers.take_due(now.monotonic) {
            if let Some(group) = self.groups.get_mut(&id) {
                let desk = &mut self.desk;
                match timer {
                    Timer::Join => group.on_join_timer(desk, now),
                    Timer::Sync => group.on_sync_timer(desk, now),
                    Timer::Session(member) => group.on_session_timer(desk, &member, at, now),
                    Timer::Pending(member) => group.on_pending_timer(desk, &member, at, now),
                }
                self.settle(&id, now);
            }
        }
        if self.next_expiry <= now.monotonic {
            self.next_expiry = now.monotonic + self.desk.settings.retention_check_interval;
            for group in self.groups.values_mut() {
                group.expire(&mut self.desk, &self.clock, now);
            }
            self.refuse_unwritable(now);
        }
    }

    /// Records are committed, or were refused. Told in the order in which they were given out.
    pub fn on_written(&mut self, id: WriteId, verdict: Verdict, now: Now) {
        let then = self.desk.written(id);
        let group = then.group().clone();
        self.resolve(then, verdict, now);
        self.settle(&group, now);
    }

    fn resolve(&mut self, then: Then, verdict: Verdict, now: Now) {
        let id = then.group().clone();
        // Whatever is on its way to the log keeps its group.
        let group = self.groups.get_mut(&id).expect("a group outlives its records that are under way");
        let desk = &mut self.desk;
        match then {
            Then::Commit { token, by, offsets, .. } => {
                group.on_committed(desk, by, offsets, verdict);
                desk.answer(token, commit_answer(verdict));
            }
            Then::Assign { generation, assignments, .. } => {
                group.on_assigned(desk, generation, assignments, verdict, now);
            }
            Then::Replace { token, old, answer, .. } => {
                group.on_replaced(desk, (token, &old), *answer, verdict);
            }
            Then::Note { .. } => {
                if let Verdict::Refused(code) = verdict {
                    tracing::warn!(group = %id, %code, "that the group is empty could not be written");
                }
            }
            Then::RemoveOffsets { token, partitions, reason, .. } => {
                let code = group.on_removal_written(desk, partitions, reason, verdict);
                if let Some(token) = token {
                    desk.answer(token, Answer::Written(code_of_refusal(code)));
                }
            }
            Then::RemoveGroup { token, reason, .. } => {
                if group.on_removed(desk, token, reason, verdict) {
                    self.groups.remove(&id);
                }
            }
        }
    }

    /// After an event: what could not be written is refused, and a group of which nothing would be lost is forgotten.
    fn settle(&mut self, id: &str, now: Now) {
        self.refuse_unwritable(now);
        if self.groups.get(id).is_some_and(Group::is_void) {
            self.groups.remove(id);
        }
    }

    fn refuse_unwritable(&mut self, now: Now) {
        while let Some(then) = self.desk.unwritable.pop() {
            self.resolve(then, Verdict::Refused(ErrorCode::UNKNOWN_SERVER_ERROR), now);
        }
    }
}
