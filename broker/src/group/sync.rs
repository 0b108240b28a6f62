//! The end of a rebalance: the leader hands in what it assigned, each member asks for its part. Owns the way from the
//! leader's assignment to a stable group; it is given out once it is in the log.

use super::{
    Answer, MemberId, Now, SyncCall, Verdict,
    answers::{code_of_refusal, sync_refusal},
    classic::{Group, GroupState},
    desk::{Desk, Then},
    facts::{GroupFact, MemberGone},
    records,
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{SyncGroupRequestAssignment, SyncGroupResponse},
};
use std::collections::BTreeMap;

impl Group {
    /// A member asks for its assignment. Where that is refused nothing has changed.
    pub(super) fn sync(&mut self, desk: &mut Desk, call: &SyncCall, now: Now) -> Result<(), ErrorCode> {
        let request = &call.request;
        if self.state == GroupState::Dead {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let id = request.member_id.as_str();
        self.check_member(id, request.group_instance_id.as_deref())?;
        self.check_generation(request.generation_id)?;
        let differs = |claimed: &Option<String>, own: &Option<String>| claimed.is_some() && claimed != own;
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.state {
            GroupState::Empty | GroupState::Dead => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            GroupState::PreparingRebalance => {
                self.to_sync.remove(id);
                return Err(ErrorCode::REBALANCE_IN_PROGRESS);
            }
            GroupState::CompletingRebalance => self.wait_for_assignment(desk, call, now),
            GroupState::Stable => {
                self.to_sync.remove(id);
                self.touch(id, desk, now);
                desk.answer(call.token, self.assignment_answer(id));
            }
        }
        Ok(())
    }

    fn wait_for_assignment(&mut self, desk: &mut Desk, call: &SyncCall, now: Now) {
        let id = call.request.member_id.as_str();
        self.to_sync.remove(id);
        let member = self.members.get_mut(id).expect("the caller looked it up");
        if let Some(before) = member.syncing.replace(call.token) {
            desk.answer(before, sync_refusal(ErrorCode::REBALANCE_IN_PROGRESS));
        }
        if self.leader.as_deref() == Some(id) && !self.is_assigning {
            self.assign(desk, &call.request.assignments, now);
        }
    }

    fn assign(&mut self, desk: &mut Desk, assignments: &[SyncGroupRequestAssignment], now: Now) {
        let is_member =
            |given: &&SyncGroupRequestAssignment| self.members.contains_key(given.member_id.as_str());
        let assignments: BTreeMap<MemberId, Bytes> = assignments
            .iter()
            .filter(is_member)
            .map(|given| (given.member_id.as_str().into(), given.assignment.clone()))
            .collect();
        self.is_assigning = true;
        let record = records::generation(self, Some(&assignments), now.unix_ms);
        let then = Then::Assign { group: self.id.clone(), generation: self.generation, assignments };
        desk.write(record.map(|record| vec![record]), then);
    }

    /// The assignment is in the log, or could not be written there.
    pub(super) fn on_assigned(
        &mut self,
        desk: &mut Desk,
        generation: i32,
        mut assignments: BTreeMap<MemberId, Bytes>,
        verdict: Verdict,
        now: Now,
    ) {
        // A rebalance that has begun meanwhile has told the members already.
        if self.state != GroupState::CompletingRebalance || self.generation != generation {
            return;
        }
        if let Verdict::Refused(code) = verdict {
            self.refuse_syncs(desk, code_of_refusal(code), now);
            return self.rebalance(desk, now);
        }
        for member in self.members.values_mut() {
            member.assignment = assignments.remove(&member.id).unwrap_or_default();
        }
        self.is_assigning = false;
        self.enter(GroupState::Stable, now);
        desk.tell(|| GroupFact::GenerationFormed {
            group: self.id.clone(),
            generation: self.generation_fact(),
        });
        let waiting = self.members.values_mut();
        let waiting: Vec<_> =
            waiting.filter_map(|member| Some((member.id.clone(), member.syncing.take()?))).collect();
        for (id, token) in waiting {
            self.touch(&id, desk, now);
            desk.answer(token, self.assignment_answer(&id));
        }
    }

    fn assignment_answer(&self, id: &str) -> Answer {
        Answer::Synced(SyncGroupResponse {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            assignment: self.members[id].assignment.clone(),
            ..SyncGroupResponse::default()
        })
    }

    /// The time to ask for assignments is over: whoever has not is gone, and the others share anew.
    pub(super) fn on_sync_timer(&mut self, desk: &mut Desk, now: Now) {
        if self.sync_deadline.is_none_or(|deadline| deadline > now.monotonic) {
            return;
        }
        self.sync_deadline = None;
        let missing: Vec<MemberId> = self.to_sync.iter().cloned().collect();
        if missing.is_empty() {
            return;
        }
        for id in missing {
            self.remove_member(desk, &id, MemberGone::NotRejoined);
        }
        self.rebalance(desk, now);
    }
}
