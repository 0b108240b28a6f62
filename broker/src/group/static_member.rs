//! A static member comes back under a new id (KIP-345): it takes the place of the one before, which is fenced. Owns when
//! that needs no rebalance.

use super::{
    Answer, JoinCall, MemberId, Now, Verdict,
    answers::{code_of_refusal, join_refusal, sync_refusal},
    classic::{Group, GroupState, subscribed_topics},
    desk::{Desk, Then},
    facts::{GroupFact, MemberGone},
    join::{rebalance_timeout, session_timeout},
    records,
};
use sillon_protocol::{ErrorCode, messages::JoinGroupResponse};
use std::collections::BTreeSet;

impl Group {
    pub(super) fn replace_static(&mut self, desk: &mut Desk, call: &JoinCall, old: &MemberId, now: Now) {
        let new = call.new_member_id.clone();
        let topics_before = self.topics_of(old);
        self.rename(desk, old, &new, ErrorCode::FENCED_INSTANCE_ID);
        self.set_protocols(&new, call.request.protocols.clone());
        let member = self.members.get_mut(&new).expect("it was renamed");
        member.session_timeout = session_timeout(call);
        member.rebalance_timeout = rebalance_timeout(call);
        member.client_id.clone_from(&call.client_id);
        member.client_host.clone_from(&call.client_host);
        self.touch(&new, desk, now);
        self.tell_replaced(desk, old, &new);
        let is_as_before = self.elect_protocol() == self.protocol && self.topics_of(&new) == topics_before;
        if self.state == GroupState::Stable && is_as_before {
            let answer = Box::new(self.replacement_answer(&new, old, call.can_skip_assignment));
            let record = records::generation(self, None, now.unix_ms);
            let then = Then::Replace { group: self.id.clone(), token: call.token, old: old.clone(), answer };
            return desk.write(record.map(|record| vec![record]), then);
        }
        // The leader may have the old id in its hands already: an assignment to it would be lost.
        self.set_joining(&new, Some(call.token));
        self.rebalance(desk, now);
    }

    fn topics_of(&self, id: &str) -> Option<BTreeSet<String>> {
        let topics = subscribed_topics(self.members.get(id)?, self.protocol.as_deref())?;
        Some(topics.into_iter().collect())
    }

    /// Gives a member another id. Whoever waits under the old one is told why it waits in vain.
    fn rename(&mut self, desk: &mut Desk, old: &MemberId, new: &MemberId, code: ErrorCode) {
        let is_leader = self.leader.as_ref() == Some(old);
        let is_to_sync = self.to_sync.contains(old);
        let mut member = self.take(old, desk).expect("the caller looked it up");
        if let Some(token) = member.joining.take() {
            desk.answer(token, join_refusal(&**old, code));
        }
        if let Some(token) = member.syncing.take() {
            desk.answer(token, sync_refusal(code));
        }
        member.id = new.clone();
        self.add(member);
        if is_leader {
            self.leader = Some(new.clone());
        }
        if is_to_sync {
            self.to_sync.insert(new.clone());
        }
    }

    fn tell_replaced(&self, desk: &mut Desk, old: &MemberId, new: &MemberId) {
        let instance = self.members[new].instance.as_deref().map(str::to_owned);
        let (group, member, reason) = (self.id.clone(), old.clone(), MemberGone::Fenced);
        desk.tell(|| GroupFact::MemberGone { group, member, reason });
        desk.tell(|| GroupFact::MemberJoined { group: self.id.clone(), member: new.clone(), instance });
    }

    /// A leader that comes back must not assign again. Clients that know this are told so; to others the leader is named by
    /// its old id, so that they take themselves for followers (KIP-814).
    fn replacement_answer(&self, new: &MemberId, old: &MemberId, can_skip: bool) -> JoinGroupResponse {
        let is_leader = self.leader.as_ref() == Some(new);
        let mut answer = self.generation_answer(new, is_leader && can_skip);
        answer.skip_assignment = is_leader && can_skip;
        if is_leader && !can_skip {
            answer.leader = old.to_string();
        }
        answer
    }

    /// The new id is in the log, or could not be written there.
    pub(super) fn on_replaced(
        &mut self,
        desk: &mut Desk,
        (token, old): (super::Token, &MemberId),
        answer: JoinGroupResponse,
        verdict: Verdict,
    ) {
        let new: MemberId = answer.member_id.as_str().into();
        if !self.members.contains_key(&new) {
            return desk.answer(token, join_refusal(&*new, ErrorCode::UNKNOWN_MEMBER_ID));
        }
        match verdict {
            Verdict::Committed(_, ErrorCode::NONE) => desk.answer(token, Answer::Joined(answer)),
            Verdict::Committed(_, code) => desk.answer(token, join_refusal(&*new, code_of_refusal(code))),
            Verdict::Refused(code) => {
                // Whoever had the old id has it still, as far as the log knows.
                let deadline = self.members[&new].deadline;
                self.rename(desk, &new, old, code_of_refusal(code));
                self.set_deadline(old, deadline, desk);
                self.tell_replaced(desk, &new, old);
                desk.answer(token, join_refusal(&**old, code_of_refusal(code)));
            }
        }
    }
}
