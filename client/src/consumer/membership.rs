//! One member of a group, in the classic protocol: join, sync, heartbeat, leave (KIP-62, KIP-345, KIP-429). Pure: answers,
//! polls and the time in; what to send and which callbacks to run out.
//!
//! ```text
//!   Out ──► Preparing ──► Joining ──► Syncing ──► Arriving ──► Stable
//!            callback:                             callbacks:     │ the group rebalances, the subscription changes,
//!            revoked or lost                       revoked,       │ the member is not known any more
//!               ▲                                  assigned       │
//!               └─────────────────────────────────────────────────┘
//! ```
//! Callbacks run inside the user's polls: the member waits in Preparing and Arriving until they have, and heartbeats go on
//! meanwhile. A user who does not poll for `max_poll_interval_ms` is no member any more.
//!
//! Every answer comes with the attempt it belongs to; one of an earlier attempt counts for nothing (B54).

use super::TopicPartition;
use crate::ClientError;
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// What a member goes by.
#[derive(Clone, Debug)]
pub(super) struct MemberRules {
    pub(super) is_static: bool,
    pub(super) cooperative: bool,
    pub(super) heartbeat_interval: Duration,
    pub(super) max_poll_interval: Duration,
    pub(super) retry_backoff: Duration,
}

/// Who the member is in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberIdentity {
    pub(crate) member_id: String,
    pub(crate) generation: i32,
}

/// What to send. Each names the attempt that its answer has to come with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Join, and then sync under the same attempt.
    Join {
        attempt: u64,
    },
    Heartbeat {
        identity: MemberIdentity,
    },
    /// Say goodbye; nothing depends on the answer.
    Leave {
        member_id: String,
    },
    /// Nothing until then, or until something happens.
    Wait(Option<Monotonic>),
}

/// What the user has to hear of, inside a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Callback {
    /// These are given up; what was read of them can be committed before.
    Revoked(BTreeSet<TopicPartition>),
    /// These are somebody else's already.
    Lost(BTreeSet<TopicPartition>),
    /// These are new.
    Assigned(BTreeSet<TopicPartition>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Out,
    /// Whether what the member has is lost already.
    Preparing {
        lost: bool,
    },
    Joining,
    Syncing,
    /// With what it is to have.
    Arriving(BTreeSet<TopicPartition>),
    Stable,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Membership {
    rules: MemberRules,
    phase: Phase,
    wanted: bool,
    topics: BTreeSet<Arc<str>>,
    member_id: String,
    generation: Option<i32>,
    owned: BTreeSet<TopicPartition>,
    /// What the last rebalance gave it, and in which generation.
    last_assignment: (BTreeSet<TopicPartition>, Option<i32>),
    /// Names the newest attempt to join or sync.
    attempt: u64,
    /// A request of the newest attempt is under way.
    sent: bool,
    retry_at: Monotonic,
    rejoin: bool,
    heartbeat_at: Monotonic,
    polled_at: Monotonic,
    goodbye: Option<String>,
    error: Option<ClientError>,
    fenced: Option<ClientError>,
}

impl Membership {
    pub(super) fn new(rules: MemberRules) -> Membership {
        Membership {
            rules,
            phase: Phase::Out,
            wanted: false,
            topics: BTreeSet::new(),
            member_id: String::new(),
            generation: None,
            owned: BTreeSet::new(),
            last_assignment: (BTreeSet::new(), None),
            attempt: 0,
            sent: false,
            retry_at: Monotonic::default(),
            rejoin: false,
            heartbeat_at: Monotonic::default(),
            polled_at: Monotonic::default(),
            goodbye: None,
            error: None,
            fenced: None,
        }
    }

    /// The topics that it wants from now on.
    pub(super) fn subscribe(&mut self, topics: BTreeSet<Arc<str>>, now: Monotonic) {
        let changed = self.topics != topics;
        self.topics = topics;
        self.polled_at = now;
        if !self.wanted {
            self.wanted = true;
            self.phase = Phase::Preparing { lost: false };
        } else if changed {
            self.rejoin();
        }
    }

    pub(super) fn topics(&self) -> &BTreeSet<Arc<str>> {
        &self.topics
    }

    /// It wants nothing any more: leaves at once. What it had is for the caller to give up before.
    pub(super) fn unsubscribe(&mut self) {
        self.leave();
        self.wanted = false;
        self.topics.clear();
        self.owned.clear();
    }

    /// Whom to say goodbye, for a member that leaves and does not come back; a static member says nothing (KIP-345).
    pub(super) fn goodbye(&self) -> Option<String> {
        (!self.rules.is_static && !self.member_id.is_empty()).then(|| self.member_id.clone())
    }

    /// Whether it wants to be a member.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    fn leave(&mut self) {
        // A static member keeps its place until its session ends (KIP-345).
        if !self.rules.is_static && !self.member_id.is_empty() {
            self.goodbye = Some(std::mem::take(&mut self.member_id));
        }
        self.phase = Phase::Out;
        self.generation = None;
        self.rejoin = false;
        self.begin_attempt();
    }

    fn begin_attempt(&mut self) {
        self.attempt += 1;
        self.sent = false;
    }

    /// The group has to form anew.
    pub(super) fn rejoin(&mut self) {
        self.rejoin = true;
    }

    /// The user polls. True where the member sets out again because of that.
    pub(super) fn polled(&mut self, now: Monotonic) -> bool {
        self.polled_at = now;
        let again = self.wanted && self.phase == Phase::Out && self.fenced.is_none();
        if again {
            self.phase = Phase::Preparing { lost: true };
        }
        again
    }

    /// Who it is, while it is a member.
    pub(super) fn identity(&self) -> Option<MemberIdentity> {
        let generation = self.generation?;
        Some(MemberIdentity { member_id: self.member_id.clone(), generation })
    }

    pub(super) fn member_id(&self) -> &str {
        &self.member_id
    }

    pub(super) fn generation(&self) -> Option<i32> {
        self.generation
    }

    /// What it has.
    pub(super) fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }

    /// What the last rebalance gave it, and in which generation: what a sticky assignor goes by.
    pub(super) fn last_assignment(&self) -> &(BTreeSet<TopicPartition>, Option<i32>) {
        &self.last_assignment
    }

    /// Whether it has what it is to have and nothing is under way.
    pub(super) fn is_stable(&self) -> bool {
        self.phase == Phase::Stable && !self.rejoin
    }

    /// An error that the user has to hear of.
    pub(super) fn take_error(&mut self) -> Option<ClientError> {
        self.error.take().or_else(|| self.fenced.clone())
    }

    /// What to send now.
    pub(super) fn next(&mut self, now: Monotonic) -> Action {
        if let Some(member_id) = self.goodbye.take() {
            return Action::Leave { member_id };
        }
        if self.expire(now) {
            return self.next(now);
        }
        let poll_by = self.poll_by();
        self.advance();
        match self.phase {
            Phase::Joining | Phase::Syncing if self.sent => Action::Wait(Some(poll_by)),
            Phase::Joining | Phase::Syncing if self.retry_at > now => Action::Wait(Some(self.retry_at)),
            Phase::Joining | Phase::Syncing => {
                self.sent = true;
                // What makes it join is dealt with by that, unless more comes from now on.
                self.rejoin = false;
                Action::Join { attempt: self.attempt }
            }
            Phase::Out => Action::Wait(None),
            _ => match self.identity() {
                Some(identity) if self.heartbeat_at <= now => {
                    self.heartbeat_at = now + self.rules.heartbeat_interval;
                    Action::Heartbeat { identity }
                }
                Some(_) => Action::Wait(Some(self.heartbeat_at.min(poll_by))),
                None => Action::Wait(Some(poll_by)),
            },
        }
    }

    /// When it is no member any more, unless the user polls before.
    pub(super) fn poll_by(&self) -> Monotonic {
        self.polled_at + self.rules.max_poll_interval
    }

    /// Leaves where the user has not polled for too long. True where that is so.
    pub(super) fn expire(&mut self, now: Monotonic) -> bool {
        let late = self.phase != Phase::Out && self.poll_by() <= now;
        if late {
            self.leave();
        }
        late
    }

    /// Goes on by itself where nothing has to be sent and nobody has to be called.
    fn advance(&mut self) {
        if matches!(self.phase, Phase::Arriving(_)) && self.callback().is_none() {
            self.phase = Phase::Stable;
        }
        if self.rejoin && self.phase == Phase::Stable {
            self.rejoin = false;
            self.phase = Phase::Preparing { lost: false };
        }
        if matches!(self.phase, Phase::Preparing { .. }) && self.callback().is_none() {
            self.prepared();
        }
    }

    fn prepared(&mut self) {
        if self.fenced.is_some() {
            self.phase = Phase::Out;
            return;
        }
        self.phase = Phase::Joining;
        self.retry_at = Monotonic::default();
        self.begin_attempt();
    }

    /// What the user has to hear of before the member goes on. The same again until [`Membership::called`].
    pub(super) fn callback(&self) -> Option<Callback> {
        match &self.phase {
            Phase::Preparing { lost: true } if !self.owned.is_empty() => {
                Some(Callback::Lost(self.owned.clone()))
            }
            Phase::Preparing { lost: false } => {
                let given_up: BTreeSet<_> = match self.rules.cooperative {
                    true => {
                        self.owned.iter().filter(|part| !self.topics.contains(&part.topic)).cloned().collect()
                    }
                    false => self.owned.clone(),
                };
                (!given_up.is_empty()).then_some(Callback::Revoked(given_up))
            }
            Phase::Arriving(target) => {
                let given_up: BTreeSet<_> = self.owned.difference(target).cloned().collect();
                if !given_up.is_empty() {
                    return Some(Callback::Revoked(given_up));
                }
                let new: BTreeSet<_> = target.difference(&self.owned).cloned().collect();
                (!new.is_empty()).then_some(Callback::Assigned(new))
            }
            _ => None,
        }
    }

    /// The user has heard of it.
    pub(super) fn called(&mut self, callback: &Callback) {
        if self.callback().as_ref() != Some(callback) {
            // The member has gone on meanwhile; what was given up is given up all the same.
            if let Callback::Revoked(parts) | Callback::Lost(parts) = callback {
                self.owned.retain(|part| !parts.contains(part));
            }
            return;
        }
        match callback {
            Callback::Revoked(parts) | Callback::Lost(parts) => {
                self.owned.retain(|part| !parts.contains(part));
                // What is given up here is waited for by whoever is to have it (KIP-429).
                if matches!(self.phase, Phase::Arriving(_)) && self.rules.cooperative {
                    self.rejoin = true;
                }
            }
            Callback::Assigned(parts) => self.owned.extend(parts.iter().cloned()),
        }
    }

    /// Whether an answer of this attempt still counts.
    pub(super) fn is_current(&self, attempt: u64) -> bool {
        self.attempt == attempt && self.sent
    }

    /// The group has formed: the member's name and generation.
    pub(super) fn joined(&mut self, attempt: u64, member_id: String, generation: i32) {
        if !self.is_current(attempt) || self.phase != Phase::Joining {
            return;
        }
        self.member_id = member_id;
        self.generation = Some(generation);
        self.phase = Phase::Syncing;
    }

    /// The attempt to sync, which follows from the one to join.
    pub(super) fn synced(&mut self, attempt: u64, parts: BTreeSet<TopicPartition>, now: Monotonic) {
        if !self.is_current(attempt) || self.phase != Phase::Syncing {
            return;
        }
        self.heartbeat_at = now + self.rules.heartbeat_interval;
        self.last_assignment = (parts.clone(), self.generation);
        self.phase = Phase::Arriving(parts);
        self.begin_attempt();
    }

    /// Joining or syncing failed with this code of the coordinator.
    pub(super) fn refused(&mut self, attempt: u64, code: ErrorCode, member_id: &str, now: Monotonic) {
        if !self.is_current(attempt) {
            return;
        }
        self.begin_attempt();
        self.phase = Phase::Joining;
        match code {
            ErrorCode::MEMBER_ID_REQUIRED => self.member_id = member_id.to_owned(),
            ErrorCode::UNKNOWN_MEMBER_ID => self.forgotten(true),
            ErrorCode::ILLEGAL_GENERATION => self.forgotten(false),
            ErrorCode::REBALANCE_IN_PROGRESS => {}
            ErrorCode::FENCED_INSTANCE_ID => self.fence(code),
            code if code.is_retriable() => self.retry_at = now + self.rules.retry_backoff,
            code => {
                self.retry_at = now + self.rules.retry_backoff;
                self.error = Some(ClientError::refused("join the group", code, None));
            }
        }
    }

    /// Joining or syncing had no answer.
    pub(super) fn unanswered(&mut self, attempt: u64, error: &ClientError, now: Monotonic) {
        if !self.is_current(attempt) {
            return;
        }
        self.begin_attempt();
        self.phase = Phase::Joining;
        self.retry_at = now + self.rules.retry_backoff;
        if !error.is_retriable() {
            self.error = Some(error.clone());
        }
    }

    /// A heartbeat had no answer: the next one comes sooner.
    pub(super) fn heartbeat_failed(&mut self, now: Monotonic) {
        self.heartbeat_at = self.heartbeat_at.min(now + self.rules.retry_backoff);
    }

    /// What the coordinator says to a heartbeat or a commit of this member in this generation.
    pub(super) fn heard(&mut self, identity: &MemberIdentity, code: ErrorCode) {
        if self.identity().as_ref() != Some(identity) || matches!(self.phase, Phase::Out | Phase::Joining) {
            return;
        }
        match code {
            ErrorCode::REBALANCE_IN_PROGRESS => self.rejoin = true,
            ErrorCode::UNKNOWN_MEMBER_ID => self.forgotten(true),
            ErrorCode::ILLEGAL_GENERATION => self.forgotten(false),
            ErrorCode::FENCED_INSTANCE_ID => self.fence(code),
            _ => {}
        }
    }

    /// The coordinator does not know the member, or not in its generation: what it had may be somebody else's.
    fn forgotten(&mut self, name_too: bool) {
        if name_too {
            self.member_id.clear();
        }
        self.generation = None;
        self.rejoin = false;
        self.begin_attempt();
        self.phase = Phase::Preparing { lost: true };
    }

    fn fence(&mut self, code: ErrorCode) {
        self.fenced = Some(ClientError::refused("stay in the group", code, None));
        self.member_id.clear();
        self.generation = None;
        self.begin_attempt();
        // Never to come back by itself, but the user hears that everything is lost.
        self.phase = if self.owned.is_empty() { Phase::Out } else { Phase::Preparing { lost: true } };
    }
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
