//! Who leads, and whether this member serves clients.
//!
//! Owns the answer to both. A member serves once it has heard from a leader up to where that leader was, and stops when
//! it has known no leader for too long: clients then find another member.

use super::Member;
use crate::{
    config::CoordinatorConfig,
    observe::{Observation, Role},
    types::{MemberId, Term},
};
use sillon_runtime::Monotonic;
use std::time::Duration;

/// How long a client may take to say something, in ticks of the ensemble.
const GREETING_TICKS: u64 = 15;

/// How many ticks of the consensus must be missing before the process counts as having stood still.
const STANDSTILL_HEARTBEATS: u64 = 4;

/// What this member knows about the ensemble.
pub(super) struct Roles {
    role: Role,
    leader: Option<MemberId>,
    term: Term,
    serving: Serving,
    leaderless_since: Monotonic,
    /// How long clients are kept without a leader.
    patience: Duration,
    greeting: Duration,
    last_tick: Monotonic,
    /// A tick that is this late means that the process did not run.
    standstill: Duration,
    /// Whether the first entry of this member's own term as leader has been applied.
    named: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    No,
    /// It waits to have applied what was committed when it found the leader.
    CatchingUp,
    Yes,
}

impl Roles {
    pub fn new(config: &CoordinatorConfig, now: Monotonic) -> Roles {
        Roles {
            role: Role::Follower,
            leader: None,
            term: Term(0),
            serving: Serving::No,
            leaderless_since: now,
            patience: Duration::from_millis(config.election_timeout_ms * 3),
            greeting: Duration::from_millis(config.tick_time_ms * GREETING_TICKS),
            last_tick: now,
            standstill: Duration::from_millis(config.heartbeat_interval_ms * STANDSTILL_HEARTBEATS),
            named: false,
        }
    }

    pub fn is_serving(&self) -> bool {
        self.serving == Serving::Yes
    }

    pub fn role(&self) -> Role {
        self.role
    }
}

impl Member {
    /// Looks whether the consensus has another leader, term or part for this member than before.
    pub(super) fn look_at_role(&mut self) {
        let status = self.consensus.status();
        let (role, leader, term) = (status.role, status.leader, status.term);
        if role == Role::Leader && !self.roles.named && self.applied_term == term.0 {
            self.roles.named = true;
            self.name_ensemble();
            self.describe_ensemble();
        }
        if (role, leader, term) == (self.roles.role, self.roles.leader, self.roles.term) {
            return;
        }
        assert!(term >= self.roles.term, "terms never go back");
        self.observers.tell(|| Observation::RoleChanged { role, term, leader });
        tracing::info!(member = %self.id, ?role, %term, leader = leader.map(|leader| leader.0), "role");
        let another = (leader, term) != (self.roles.leader, self.roles.term);
        if role != Role::Leader && self.leading.is_active() {
            self.end_leading();
        }
        self.roles.role = role;
        self.roles.term = term;
        if self.roles.leader.is_some() && leader.is_none() {
            self.roles.leaderless_since = self.moment.now;
        }
        self.roles.leader = leader;
        if another {
            self.lose_what_was_handed_over();
        }
        if role == Role::Leader && !self.leading.is_active() {
            self.roles.named = false;
            self.begin_leading();
        }
        if leader.is_some() {
            self.ask_syncs_again();
            if self.roles.serving == Serving::No {
                self.roles.serving = Serving::CatchingUp;
                self.syncs.ask_to_serve();
            }
            self.submit();
        }
    }

    pub(super) fn caught_up(&mut self) {
        if self.roles.serving == Serving::CatchingUp {
            self.roles.serving = Serving::Yes;
            self.votes_again();
            tracing::info!(member = %self.id, zxid = %self.last_zxid(), "serving clients");
        }
    }

    pub(super) fn on_tick(&mut self) {
        let since_last = self.moment.now - self.roles.last_tick;
        self.roles.last_tick = self.moment.now;
        if since_last >= self.roles.standstill {
            tracing::warn!(member = %self.id, for_ms = since_last.as_millis(), "this process stood still");
            self.leading.forgive(since_last);
        }
        self.consensus.tick();
        self.retry_syncs();
        if self.leading.is_active() {
            self.expire_sessions();
            self.sweep();
        } else {
            self.tell_whom_it_heard();
        }
        let now = self.moment.now;
        if self.roles.leader.is_none()
            && self.roles.serving != Serving::No
            && now - self.roles.leaderless_since >= self.roles.patience
        {
            self.roles.serving = Serving::No;
            tracing::warn!(member = %self.id, "no leader: clients are sent away");
            self.drop_all_connections("this member knows no leader");
        }
        let late = |connection: &super::Connection| {
            connection.session.is_none() && now - connection.accepted >= self.roles.greeting
        };
        let silent: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| late(connection))
            .map(|(number, _)| *number)
            .collect();
        for number in silent {
            self.drop_connection(number, "it has not opened a session");
        }
    }

    /// Asks the member that is furthest to lead, where this one does.
    pub(super) fn hand_over(&mut self) {
        let status = self.consensus.status();
        if status.role != Role::Leader {
            return;
        }
        let others = status.progress.iter().filter(|peer| peer.member != self.id && peer.active);
        if let Some(peer) = others.max_by_key(|peer| (peer.matched, std::cmp::Reverse(peer.member))) {
            self.consensus.transfer_leadership(peer.member);
        }
    }
}
