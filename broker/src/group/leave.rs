//! How a member stays one, and how it ceases to be one: heartbeats, leaving, the end of a session. Owns nothing besides.

use super::{
    MemberId, Now,
    answers::{join_refusal, sync_refusal},
    classic::{Group, GroupState},
    desk::Desk,
    facts::{GroupFact, MemberGone},
    timers::Timer,
};
use sillon_protocol::{
    ErrorCode,
    messages::{HeartbeatRequest, MemberIdentity},
};
use sillon_runtime::Monotonic;

impl Group {
    /// A member says that it lives.
    pub(super) fn heartbeat(
        &mut self,
        desk: &mut Desk,
        request: &HeartbeatRequest,
        now: Now,
    ) -> Result<(), ErrorCode> {
        if self.state == GroupState::Dead {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let id = request.member_id.as_str();
        self.check_member(id, request.group_instance_id.as_deref())?;
        self.check_generation(request.generation_id)?;
        self.touch(id, desk, now);
        match self.state {
            GroupState::PreparingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// A member leaves, or is told to.
    pub(super) fn leave(
        &mut self,
        desk: &mut Desk,
        member: &MemberIdentity,
        now: Now,
    ) -> Result<(), ErrorCode> {
        let (id, instance) = (member.member_id.as_str(), member.group_instance_id.as_deref());
        if instance.is_none() && self.pending.contains_key(id) {
            self.remove_pending(desk, id, now);
            return Ok(());
        }
        // An administrator names a static member by its instance alone.
        let holder = match instance.filter(|_| id.is_empty()) {
            Some(instance) => self.instances.get(instance).cloned().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?,
            None => {
                self.check_member(id, instance)?;
                id.into()
            }
        };
        self.remove_and_rebalance(desk, &holder, MemberGone::Left, now);
        Ok(())
    }

    /// A session may be over.
    pub(super) fn on_session_timer(&mut self, desk: &mut Desk, id: &MemberId, at: Monotonic, now: Now) {
        let Some(member) = self.members.get_mut(id).filter(|member| member.timer == Some(at)) else { return };
        member.timer = None;
        if member.deadline > now.monotonic {
            let deadline = member.deadline;
            return self.set_deadline(id, deadline, desk);
        }
        // Who waits for an answer lives; its session begins anew with that. Only somebody new might never come back for it.
        let waits = member.joining.is_some() || member.syncing.is_some();
        if waits && !member.is_new {
            return;
        }
        self.remove_and_rebalance(desk, id, MemberGone::Expired, now);
    }

    /// Somebody was given an id and did not join with it.
    pub(super) fn on_pending_timer(&mut self, desk: &mut Desk, id: &MemberId, at: Monotonic, now: Now) {
        if self.pending.get(id) == Some(&at) {
            self.remove_pending(desk, id, now);
        }
    }

    pub(super) fn remove_pending(&mut self, desk: &mut Desk, id: &str, now: Now) {
        if let Some((id, at)) = self.pending.remove_entry(id) {
            desk.timers.cancel(at, &self.id, Timer::Pending(id));
            self.complete_join_if_all_have(desk, now);
        }
    }

    fn remove_and_rebalance(&mut self, desk: &mut Desk, id: &MemberId, reason: MemberGone, now: Now) {
        self.remove_member(desk, id, reason);
        self.rebalance(desk, now);
    }

    /// Removes a member, and tells whoever waited as it.
    pub(super) fn remove_member(&mut self, desk: &mut Desk, id: &MemberId, reason: MemberGone) {
        let Some(member) = self.take(id, desk) else { return };
        if let Some(token) = member.joining {
            desk.answer(token, join_refusal("", ErrorCode::UNKNOWN_MEMBER_ID));
        }
        if let Some(token) = member.syncing {
            desk.answer(token, sync_refusal(ErrorCode::UNKNOWN_MEMBER_ID));
        }
        desk.tell(|| GroupFact::MemberGone { group: self.id.clone(), member: id.clone(), reason });
    }
}
