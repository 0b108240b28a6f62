//! Joining: who may, what a join sets off, and how a generation begins. Owns the phase in which members are waited for.

use super::{
    Answer, JoinCall, MemberId, Now,
    answers::{join_refusal, sync_refusal},
    classic::{Group, GroupState, JoinPhase},
    desk::{Desk, Then},
    facts::{GroupFact, MemberGone},
    member::Member,
    records,
    timers::Timer,
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember},
};
use std::time::Duration;

/// How long somebody new is waited for who cannot send heartbeats, as it does not know its id yet: it asks again by then, or
/// never will (B51).
const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

impl Group {
    /// Somebody joins. Where that is refused nothing has changed.
    pub(super) fn join(&mut self, desk: &mut Desk, call: &JoinCall, now: Now) -> Result<(), ErrorCode> {
        let request = &call.request;
        if self.state == GroupState::Dead {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        if !self.has_room(request, desk.settings.max_size) {
            self.remove_pending(desk, &request.member_id, now);
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        if !self.supports(&request.protocol_type, &request.protocols) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if request.member_id.is_empty() {
            self.join_anew(desk, call, now);
            return Ok(());
        }
        self.join_again(desk, call, now)
    }

    fn has_room(&self, request: &JoinGroupRequest, max_size: usize) -> bool {
        let member = request.member_id.as_str();
        let instance = request.group_instance_id.as_deref();
        if member.is_empty() && instance.is_some_and(|instance| self.instances.contains_key(instance)) {
            // It takes the place of the one before.
            return true;
        }
        match self.state {
            GroupState::Empty | GroupState::Dead => true,
            GroupState::PreparingRebalance => {
                self.members.get(member).is_some_and(|member| member.joining.is_some())
                    || self.joined < max_size
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.members.contains_key(member) || self.members.len() < max_size
            }
        }
    }

    fn join_anew(&mut self, desk: &mut Desk, call: &JoinCall, now: Now) {
        let id = call.new_member_id.clone();
        let instance = call.request.group_instance_id.as_deref();
        if let Some(old) = instance.and_then(|instance| self.instances.get(instance).cloned()) {
            return self.replace_static(desk, call, &old, now);
        }
        if instance.is_some() || !call.needs_member_id {
            return self.add_member(desk, call, id, now);
        }
        let at = now.monotonic + session_timeout(call);
        desk.answer(call.token, join_refusal(&*id, ErrorCode::MEMBER_ID_REQUIRED));
        desk.timers.set(at, &self.id, Timer::Pending(id.clone()));
        self.pending.insert(id, at);
    }

    fn join_again(&mut self, desk: &mut Desk, call: &JoinCall, now: Now) -> Result<(), ErrorCode> {
        let request = &call.request;
        let (id, instance) = (request.member_id.as_str(), request.group_instance_id.as_deref());
        if instance.is_none()
            && let Some((id, at)) = self.pending.remove_entry(id)
        {
            desk.timers.cancel(at, &self.id, Timer::Pending(id.clone()));
            self.add_member(desk, call, id, now);
            return Ok(());
        }
        self.check_member(id, instance)?;
        let is_leader = self.leader.as_deref() == Some(id);
        let is_unchanged = self.members[id].protocols == request.protocols;
        match self.state {
            GroupState::Empty | GroupState::Dead => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            // It may not have had the answer that the generation has begun.
            GroupState::CompletingRebalance if is_unchanged => {
                let answer = self.generation_answer(id, is_leader);
                desk.answer(call.token, Answer::Joined(answer));
            }
            // A leader that joins again wants to assign anew; others only where their metadata has changed.
            GroupState::Stable if !is_leader && is_unchanged => {
                let answer = self.generation_answer(id, false);
                desk.answer(call.token, Answer::Joined(answer));
            }
            _ => self.rejoin(desk, call, now),
        }
        Ok(())
    }

    fn rejoin(&mut self, desk: &mut Desk, call: &JoinCall, now: Now) {
        let id = call.request.member_id.as_str();
        self.set_protocols(id, call.request.protocols.clone());
        let member = self.members.get_mut(id).expect("the caller looked it up");
        member.session_timeout = session_timeout(call);
        member.rebalance_timeout = rebalance_timeout(call);
        member.client_id.clone_from(&call.client_id);
        member.client_host.clone_from(&call.client_host);
        if let Some(before) = self.set_joining(id, Some(call.token)) {
            desk.answer(before, join_refusal(id, ErrorCode::REBALANCE_IN_PROGRESS));
        }
        self.rebalance(desk, now);
    }

    fn add_member(&mut self, desk: &mut Desk, call: &JoinCall, id: MemberId, now: Now) {
        self.protocol_type = Some(call.request.protocol_type.clone());
        let member = new_member(call, id.clone());
        desk.tell(|| GroupFact::MemberJoined {
            group: self.id.clone(),
            member: id.clone(),
            instance: call.request.group_instance_id.clone(),
        });
        self.add(member);
        self.set_deadline(&id, now.monotonic + NEW_MEMBER_TIMEOUT, desk);
        if let Some(phase) = &mut self.join_phase {
            phase.has_new_member = true;
        }
        self.rebalance(desk, now);
    }

    /// Something has changed that the members must hear of.
    pub(super) fn rebalance(&mut self, desk: &mut Desk, now: Now) {
        match self.state {
            GroupState::PreparingRebalance => self.complete_join_if_all_have(desk, now),
            GroupState::Dead => {}
            _ => self.prepare_rebalance(desk, now),
        }
    }

    fn prepare_rebalance(&mut self, desk: &mut Desk, now: Now) {
        let is_first = self.state == GroupState::Empty;
        desk.tell(|| GroupFact::Rebalancing { group: self.id.clone(), generation: self.generation });
        if self.state == GroupState::CompletingRebalance {
            self.refuse_syncs(desk, ErrorCode::REBALANCE_IN_PROGRESS, now);
        }
        self.stop_waiting_for_syncs(desk);
        let timeout = self.rebalance_timeout();
        let delay = if is_first { desk.settings.initial_rebalance_delay } else { timeout };
        let initial = (is_first && !delay.is_zero()).then(|| timeout.saturating_sub(delay));
        self.enter(GroupState::PreparingRebalance, now);
        self.wait_for_joins(desk, delay, initial, now);
        self.complete_join_if_all_have(desk, now);
    }

    fn wait_for_joins(&mut self, desk: &mut Desk, delay: Duration, initial: Option<Duration>, now: Now) {
        self.stop_waiting_for_joins(desk);
        let deadline = now.monotonic + delay;
        self.join_phase = Some(JoinPhase { deadline, initial, has_new_member: false });
        desk.timers.set(deadline, &self.id, Timer::Join);
    }

    fn stop_waiting_for_joins(&mut self, desk: &mut Desk) {
        if let Some(phase) = self.join_phase.take() {
            desk.timers.cancel(phase.deadline, &self.id, Timer::Join);
        }
    }

    /// Whoever waits for its assignment is told why it gets none.
    pub(super) fn refuse_syncs(&mut self, desk: &mut Desk, code: ErrorCode, now: Now) {
        let waiting: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in waiting {
            let member = self.members.get_mut(&id).expect("listed above");
            member.assignment = Bytes::new();
            if let Some(token) = member.syncing.take() {
                desk.answer(token, sync_refusal(code));
                self.touch(&id, desk, now);
            }
        }
    }

    pub(super) fn stop_waiting_for_syncs(&mut self, desk: &mut Desk) {
        self.to_sync.clear();
        self.is_assigning = false;
        if let Some(deadline) = self.sync_deadline.take() {
            desk.timers.cancel(deadline, &self.id, Timer::Sync);
        }
    }

    /// Begins the generation where nobody is waited for: everybody has joined, those who were given an id as well.
    pub(super) fn complete_join_if_all_have(&mut self, desk: &mut Desk, now: Now) {
        let Some(phase) = &self.join_phase else { return };
        if phase.initial.is_none() && self.joined == self.members.len() && self.pending.is_empty() {
            self.complete_join(desk, now);
        }
    }

    /// The time to join is over.
    pub(super) fn on_join_timer(&mut self, desk: &mut Desk, now: Now) {
        let Some(phase) = self.join_phase else { return };
        if phase.deadline > now.monotonic {
            return;
        }
        match phase.initial {
            // More may come, as one just did.
            Some(left) if phase.has_new_member && !left.is_zero() => {
                let delay = desk.settings.initial_rebalance_delay.min(left);
                self.wait_for_joins(desk, delay, Some(left.saturating_sub(delay)), now);
            }
            _ => self.complete_join(desk, now),
        }
    }

    fn complete_join(&mut self, desk: &mut Desk, now: Now) {
        let is_missing = |member: &&Member| member.joining.is_none() && member.instance.is_none();
        let missing: Vec<MemberId> =
            self.members.values().filter(is_missing).map(|member| member.id.clone()).collect();
        for id in missing {
            self.remove_member(desk, &id, MemberGone::NotRejoined);
        }
        if !self.members.is_empty() && !self.elect_leader() {
            // Only static members are left, and none is back yet: they keep their places for their sessions.
            let delay = self.rebalance_timeout();
            return self.wait_for_joins(desk, delay, None, now);
        }
        self.stop_waiting_for_joins(desk);
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            return self.become_empty(desk, now);
        }
        self.protocol = self.elect_protocol();
        assert!(self.protocol.is_some(), "nobody is let in who has no protocol in common with the others");
        self.subscribed = self.subscriptions();
        self.begin_generation(desk, now);
    }

    fn become_empty(&mut self, desk: &mut Desk, now: Now) {
        self.protocol = None;
        self.leader = None;
        self.subscribed = None;
        self.enter(GroupState::Empty, now);
        desk.tell(|| GroupFact::Emptied {
            group: self.id.clone(),
            generation: self.generation,
            since_ms: now.unix_ms,
        });
        let record = records::generation(self, None, now.unix_ms);
        desk.write(record.map(|record| vec![record]), Then::Note { group: self.id.clone() });
    }

    fn begin_generation(&mut self, desk: &mut Desk, now: Now) {
        self.state = GroupState::CompletingRebalance;
        self.state_since_ms = Some(now.unix_ms);
        self.state_since = Some(now.monotonic);
        self.is_assigning = false;
        let ids: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in ids {
            self.to_sync.insert(id.clone());
            if let Some(token) = self.set_joining(&id, None) {
                let is_leader = self.leader.as_ref() == Some(&id);
                let answer = self.generation_answer(&id, is_leader);
                desk.answer(token, Answer::Joined(answer));
                self.members.get_mut(&id).expect("listed above").is_new = false;
                self.touch(&id, desk, now);
            }
        }
        assert_eq!(self.joined, 0, "everybody was answered");
        // Whoever does not ask for its assignment must not hold the others up for ever (B52).
        let deadline = now.monotonic + self.rebalance_timeout();
        self.sync_deadline = Some(deadline);
        desk.timers.set(deadline, &self.id, Timer::Sync);
    }

    /// The leader is one who has joined. Gives whether there is one.
    fn elect_leader(&mut self) -> bool {
        let has_joined = |member: &&Member| member.joining.is_some();
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader)).filter(has_joined);
        let elected = leader.or_else(|| self.members.values().find(has_joined));
        match elected.map(|member| member.id.clone()) {
            Some(id) => {
                self.leader = Some(id);
                true
            }
            None => false,
        }
    }

    /// What a member is told of the generation; the leader is told of the others as well.
    pub(super) fn generation_answer(&self, id: &str, with_members: bool) -> JoinGroupResponse {
        let protocol = self.protocol.as_deref();
        let member = |member: &Member| JoinGroupResponseMember {
            member_id: member.id.to_string(),
            group_instance_id: member.instance.as_deref().map(str::to_owned),
            metadata: member.metadata(protocol),
        };
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.as_deref().unwrap_or_default().to_owned(),
            member_id: id.to_owned(),
            members: if with_members { self.members.values().map(member).collect() } else { Vec::new() },
            ..JoinGroupResponse::default()
        }
    }
}

fn new_member(call: &JoinCall, id: MemberId) -> Member {
    Member {
        id,
        instance: call.request.group_instance_id.as_deref().map(Into::into),
        client_id: call.client_id.clone(),
        client_host: call.client_host.clone(),
        session_timeout: session_timeout(call),
        rebalance_timeout: rebalance_timeout(call),
        protocols: call.request.protocols.clone(),
        assignment: Bytes::new(),
        joining: Some(call.token),
        syncing: None,
        is_new: true,
        commits_over: 0,
        deadline: Default::default(),
        timer: None,
    }
}

pub(super) fn session_timeout(call: &JoinCall) -> Duration {
    Duration::from_millis(u64::try_from(call.request.session_timeout_ms).unwrap_or(0))
}

/// Before version 1 there is none of its own (-1).
pub(super) fn rebalance_timeout(call: &JoinCall) -> Duration {
    u64::try_from(call.request.rebalance_timeout_ms)
        .map_or_else(|_| session_timeout(call), Duration::from_millis)
}
