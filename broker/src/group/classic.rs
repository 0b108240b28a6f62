//! One group: its state, its members, the protocol that all of them know. Owns what must always be in line with one
//! another; the steps are in `join`, `sync`, `leave`, `static_member`.
//!
//! ```text
//!          join                    all joined, or time over             leader's assignment committed
//!   Empty ──────► PreparingRebalance ──────────────────► CompletingRebalance ──────────────────► Stable
//!     ▲                 │      ▲                               │                                   │
//!     └── nobody left ──┘      └──── join, leave, expiry ──────┴───────────────────────────────────┘
//! ```
//! Dead is a group whose removal is on its way to the log.

use super::{
    GroupId, MemberId,
    desk::Desk,
    facts::{GenerationFact, MemberFact},
    member::Member,
    offsets::Offsets,
    timers::Timer,
};
use crate::group::Now;
use sillon_protocol::{
    ErrorCode,
    messages::{ConsumerProtocolSubscription, JoinGroupRequestProtocol, decode_consumer_protocol},
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The protocol type of consumers.
pub(super) const CONSUMER: &str = "consumer";

/// What a group is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// It has no members.
    Empty,
    /// Its members are to join.
    PreparingRebalance,
    /// All have joined; the leader is to assign.
    CompletingRebalance,
    /// Every member can have its assignment.
    Stable,
    /// It is about to be gone.
    Dead,
}

impl GroupState {
    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
        }
    }
}

/// The wait for members to join.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinPhase {
    pub(super) deadline: Monotonic,
    /// In the first rebalance of an empty group: for how much longer it may go on waiting for more members.
    pub(super) initial: Option<Duration>,
    /// Somebody new has come since the deadline was set.
    pub(super) has_new_member: bool,
}

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) state: GroupState,
    /// Since when, on the wall clock; none where that was not recorded.
    pub(super) state_since_ms: Option<i64>,
    /// The same on this coordinator's monotonic clock; none where another one saw it.
    pub(super) state_since: Option<Monotonic>,
    pub(super) generation: i32,
    /// None for a group that only keeps offsets.
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<MemberId>,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) instances: BTreeMap<Arc<str>, MemberId>,
    /// Those who were given an id and have not joined with it yet, and until when they may.
    pub(super) pending: BTreeMap<MemberId, Monotonic>,
    /// How many members know each protocol.
    support: BTreeMap<String, usize>,
    /// How many members have a JoinGroup that waits.
    pub(super) joined: usize,
    pub(super) join_phase: Option<JoinPhase>,
    /// Members that have not asked for their assignment yet.
    pub(super) to_sync: BTreeSet<MemberId>,
    pub(super) sync_deadline: Option<Monotonic>,
    /// The assignment of this generation is on its way to the log.
    pub(super) is_assigning: bool,
    /// The topics that the members of the generation read; none where they do not say so in a known way.
    pub(super) subscribed: Option<BTreeSet<String>>,
    pub(super) offsets: Offsets,
}

impl Group {
    /// A group that nobody has joined yet.
    pub(super) fn new(id: GroupId, state_since_ms: Option<i64>) -> Group {
        Group {
            id,
            state: GroupState::Empty,
            state_since_ms,
            state_since: None,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeMap::new(),
            support: BTreeMap::new(),
            joined: 0,
            join_phase: None,
            to_sync: BTreeSet::new(),
            sync_deadline: None,
            is_assigning: false,
            subscribed: None,
            offsets: Offsets::default(),
        }
    }

    /// Whether nothing would be lost without it.
    pub(super) fn is_void(&self) -> bool {
        self.state == GroupState::Empty
            && self.generation == 0
            && self.pending.is_empty()
            && self.offsets.is_void()
    }

    /// Goes over to a state.
    pub(super) fn enter(&mut self, state: GroupState, now: Now) {
        assert_ne!(self.state, GroupState::Dead, "a group that is about to be gone does nothing else");
        if state == GroupState::Empty || state == GroupState::Stable {
            assert!(self.join_phase.is_none(), "nobody is waited for");
            assert_eq!(self.joined, 0, "nobody waits");
        }
        assert!(state != GroupState::Empty || self.members.is_empty());
        self.state = state;
        self.state_since_ms = Some(now.unix_ms);
        self.state_since = Some(now.monotonic);
    }

    /// Adds a member; the first one leads.
    pub(super) fn add(&mut self, member: Member) {
        assert!(!self.members.contains_key(&member.id), "an id is given once");
        let id = member.id.clone();
        for name in member.protocol_names() {
            *self.support.entry(name.to_owned()).or_default() += 1;
        }
        if let Some(instance) = &member.instance {
            let before = self.instances.insert(instance.clone(), id.clone());
            assert!(before.is_none(), "I59: {instance} has a member already");
        }
        self.joined += usize::from(member.joining.is_some());
        self.leader.get_or_insert_with(|| id.clone());
        self.members.insert(id, member);
    }

    /// Takes a member out, with its timer. Who waited as that member is for the caller to answer.
    pub(super) fn take(&mut self, id: &str, desk: &mut Desk) -> Option<Member> {
        let mut member = self.members.remove(id)?;
        self.forget_support(&member);
        if let Some(instance) = &member.instance {
            self.instances.remove(instance);
        }
        self.joined -= usize::from(member.joining.is_some());
        self.to_sync.remove(id);
        if let Some(at) = member.timer.take() {
            desk.timers.cancel(at, &self.id, Timer::Session(member.id.clone()));
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        Some(member)
    }

    fn forget_support(&mut self, member: &Member) {
        for name in member.protocol_names() {
            let count = self.support.get_mut(name).expect("what a member knows is counted");
            *count -= 1;
            if *count == 0 {
                self.support.remove(name);
            }
        }
    }

    /// A member knows other protocols from now on.
    pub(super) fn set_protocols(&mut self, id: &str, protocols: Vec<JoinGroupRequestProtocol>) {
        let mut member = self.members.remove(id).expect("the caller looked it up");
        self.forget_support(&member);
        member.protocols = protocols;
        for name in member.protocol_names() {
            *self.support.entry(name.to_owned()).or_default() += 1;
        }
        self.members.insert(member.id.clone(), member);
    }

    /// A member's JoinGroup waits from now on, or waits no longer. Gives the one before.
    pub(super) fn set_joining(&mut self, id: &str, joining: Option<super::Token>) -> Option<super::Token> {
        let member = self.members.get_mut(id).expect("the caller looked it up");
        let before = std::mem::replace(&mut member.joining, joining);
        self.joined -= usize::from(before.is_some());
        self.joined += usize::from(joining.is_some());
        before
    }

    /// Whether somebody with these protocols could be a member: at least one of them is known to all others.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol]) -> bool {
        if protocol_type.is_empty() || protocols.is_empty() {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        let known_to_all = |name: &str| self.support.get(name) == Some(&self.members.len());
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| known_to_all(&protocol.name))
    }

    /// The protocol that most members like best, of those that all of them know.
    pub(super) fn elect_protocol(&self) -> Option<String> {
        let all = self.members.len();
        let known = self.support.iter().filter(|(_, count)| **count == all);
        let mut candidates: BTreeMap<&str, usize> = known.map(|(name, _)| (name.as_str(), 0)).collect();
        for member in self.members.values() {
            if let Some(vote) = member.vote(&candidates) {
                *candidates.get_mut(vote).expect("a vote is for a candidate") += 1;
            }
        }
        // The first of those with the most votes.
        let best = candidates.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map(|(name, _)| name.to_owned())
    }

    /// The topics that the members read, where they say so as consumers do.
    pub(super) fn subscriptions(&self) -> Option<BTreeSet<String>> {
        if self.protocol_type.as_deref() != Some(CONSUMER) {
            return None;
        }
        let protocol = self.protocol.as_deref();
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(subscribed_topics(member, protocol)?);
        }
        Some(topics)
    }

    /// Whether it is this member that speaks.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID where another has its instance id.
    pub(super) fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(holder) if &**holder != id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if !self.members.contains_key(id) {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        Ok(())
    }

    /// What was said in another generation changes nothing in this one (I56).
    pub(super) fn check_generation(&self, generation: i32) -> Result<(), ErrorCode> {
        if generation != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        Ok(())
    }

    /// A member was heard of: its session begins anew.
    pub(super) fn touch(&mut self, id: &str, desk: &mut Desk, now: Now) {
        let Some(member) = self.members.get(id) else { return };
        let deadline = now.monotonic + member.session_timeout;
        self.set_deadline(id, deadline, desk);
    }

    /// A member's session is over at `deadline`. Its timer moves only where it would come too late.
    pub(super) fn set_deadline(&mut self, id: &str, deadline: Monotonic, desk: &mut Desk) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.deadline = deadline;
        if member.timer.is_some_and(|timer| timer <= deadline) {
            return;
        }
        if let Some(late) = member.timer.replace(deadline) {
            desk.timers.cancel(late, &self.id, Timer::Session(member.id.clone()));
        }
        desk.timers.set(deadline, &self.id, Timer::Session(member.id.clone()));
    }

    /// How long all members together may take to join again.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    /// The generation, for observers.
    pub(super) fn generation_fact(&self) -> GenerationFact {
        let protocol = self.protocol.as_deref();
        let member = |member: &Member| MemberFact {
            member: member.id.clone(),
            instance: member.instance.as_deref().map(str::to_owned),
            metadata: member.metadata(protocol),
            assignment: member.assignment.clone(),
        };
        GenerationFact {
            generation: self.generation,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: self.protocol.clone().unwrap_or_default(),
            leader: self.leader.clone().unwrap_or_else(|| "".into()),
            members: self.members.values().map(member).collect(),
        }
    }
}

/// The topics that a consumer reads; none where it does not say so in a known way.
pub(super) fn subscribed_topics(member: &Member, protocol: Option<&str>) -> Option<Vec<String>> {
    let metadata = member.metadata(protocol);
    decode_consumer_protocol::<ConsumerProtocolSubscription>(&metadata)
        .ok()
        .map(|subscription| subscription.topics)
}
