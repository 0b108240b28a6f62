//! What only the leader does: it proposes what members forward, ends sessions that are silent, sweeps.
//!
//! Owns how long each session has been silent, on this member's monotonic clock and on no other. A new leader gives
//! every session a full timeout, because it cannot know when the old one heard it last.

use super::Member;
use crate::{
    command::{Action, Command},
    config::CoordinatorConfig,
    consensus::ProposalRefused,
    observe::Observation,
    peer::PeerMessage,
    state::CONFIGURATION,
    types::SessionId,
};
use bytes::Bytes;
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write,
    time::Duration,
};

/// What the leader knows about sessions and time.
pub(super) struct Leading {
    active: bool,
    heard: BTreeMap<SessionId, Monotonic>,
    /// When to look at a session again: no later than it can expire.
    looks: BTreeSet<(Monotonic, SessionId)>,
    /// Sessions that somebody asks to go on with, and how often, while that is not applied here: it may be applied
    /// elsewhere already, so they are not found silent.
    moving: BTreeMap<SessionId, u32>,
    /// Sessions whose end is on its way.
    ending: BTreeSet<SessionId>,
    /// What a report of having heard a session may take to get here.
    grace: Duration,
    next_sweep: Monotonic,
    sweep_every: Duration,
    /// Commands for which there was no room yet, in order.
    backlog: VecDeque<Command>,
}

impl Leading {
    pub fn new(config: &CoordinatorConfig) -> Leading {
        Leading {
            active: false,
            heard: BTreeMap::new(),
            looks: BTreeSet::new(),
            moving: BTreeMap::new(),
            ending: BTreeSet::new(),
            grace: Duration::from_millis(config.tick_time_ms / 2),
            next_sweep: Monotonic::default(),
            sweep_every: Duration::from_millis(config.container_check_interval_ms),
            backlog: VecDeque::new(),
        }
    }

    pub fn is_active(&self) -> bool {
        self.active
    }

    pub fn heard(&mut self, session: SessionId, at: Monotonic) {
        if let Some(before) = self.heard.get_mut(&session) {
            *before = (*before).max(at);
        }
    }

    /// This process stood still for so long: what it did not hear meanwhile may wait to be read, so that time does not
    /// count against anybody.
    pub fn forgive(&mut self, standstill: Duration) {
        for heard in self.heard.values_mut() {
            *heard = *heard + standstill;
        }
    }

    fn track(&mut self, session: SessionId, timeout: Duration, now: Monotonic) {
        self.heard.insert(session, now);
        self.looks.insert((now + timeout, session));
    }
}

impl Member {
    pub(super) fn begin_leading(&mut self) {
        let now = self.moment.now;
        self.leading.active = true;
        self.leading.next_sweep = now + self.leading.sweep_every;
        for (id, session) in self.state.sessions() {
            self.leading.track(id, timeout_of(session.timeout_ms), now);
        }
    }

    pub(super) fn end_leading(&mut self) {
        self.leading.active = false;
        self.leading.heard.clear();
        self.leading.looks.clear();
        self.leading.moving.clear();
        self.leading.ending.clear();
        // Whoever waits for one of these learns of the change of leaders, and is sent away.
        self.leading.backlog.clear();
    }

    /// A session was opened, or goes on elsewhere.
    pub(super) fn track(&mut self, session: SessionId) {
        if self.leading.active
            && let Some(state) = self.state.session(session)
        {
            self.leading.track(session, timeout_of(state.timeout_ms), self.moment.now);
        }
    }

    /// Somebody's wish to go on with a session has been applied, granted or not.
    pub(super) fn has_moved(&mut self, session: SessionId) {
        if let Some(count) = self.leading.moving.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                self.leading.moving.remove(&session);
            }
        }
    }

    pub(super) fn untrack(&mut self, session: SessionId) {
        self.leading.heard.remove(&session);
        self.leading.ending.remove(&session);
    }

    /// Proposes commands, behind those that still wait for room.
    pub(super) fn lead(&mut self, commands: Vec<Command>) {
        self.leading.backlog.extend(commands);
        let mut refused = Vec::new();
        while let Some(mut command) = self.leading.backlog.pop_front() {
            command.time_ms = self.moment.unix.0;
            let moving = match &command.action {
                Action::AttachSession { session, .. } => Some(*session),
                _ => None,
            };
            let data = Bytes::from(crate::frame::encode_payload(&command));
            match self.consensus.propose(data) {
                Ok(()) => {
                    if let Some(session) = moving {
                        *self.leading.moving.entry(session).or_default() += 1;
                    }
                }
                Err(ProposalRefused::Busy { .. }) => {
                    self.leading.backlog.push_front(command);
                    break;
                }
                Err(error) => {
                    tracing::debug!(member = %self.id, %error, "a command is not taken");
                    refused.extend(command.origin);
                }
            }
        }
        for origin in refused {
            if origin.member != self.id {
                self.effects.peers.push((origin.member, PeerMessage::Refused(vec![origin.sequence])));
            } else if self.is_mine(&origin) {
                self.lose(&[origin.sequence]);
            }
        }
    }

    /// Tries again to propose what there was no room for.
    pub(super) fn lead_backlog(&mut self) {
        if !self.leading.backlog.is_empty() {
            self.lead(Vec::new());
        }
    }

    /// A member hands over its clients' commands.
    pub(super) fn on_forward(&mut self, commands: Vec<Command>) {
        let now = self.moment.now;
        for command in &commands {
            if let Action::Write { session, .. } = &command.action {
                self.leading.heard(*session, now);
            }
        }
        self.lead(commands);
    }

    /// A member tells whom it has heard, and how long ago.
    pub(super) fn on_heard(&mut self, heard: &[(SessionId, u32)]) {
        for (session, age_ms) in heard {
            let age_ns = u64::from(*age_ms) * 1_000_000;
            self.leading.heard(*session, Monotonic(self.moment.now.0.saturating_sub(age_ns)));
        }
    }

    /// Ends sessions that have been silent for longer than their timeout.
    pub(super) fn expire_sessions(&mut self) {
        let now = self.moment.now;
        while let Some((at, session)) = self.leading.looks.first().copied()
            && at <= now
        {
            self.leading.looks.pop_first();
            let Some(heard) = self.leading.heard.get(&session).copied() else { continue };
            let Some(timeout_ms) = self.state.session(session).map(|state| state.timeout_ms) else {
                continue;
            };
            let mut end = heard + timeout_of(timeout_ms) + self.leading.grace;
            if self.leading.moving.contains_key(&session) {
                end = end.max(now + self.leading.grace);
            }
            if now < end {
                self.leading.looks.insert((end, session));
            } else if self.leading.ending.insert(session) {
                tracing::info!(member = %self.id, %session, timeout_ms, "a silent session ends");
                self.observers.tell(|| Observation::SessionFoundSilent { session, timeout_ms });
                self.lead_own(Action::ExpireSession { session });
            }
        }
    }

    /// Deletes containers without children and nodes whose time to live is over.
    pub(super) fn sweep(&mut self) {
        if self.moment.now < self.leading.next_sweep {
            return;
        }
        self.leading.next_sweep = self.moment.now + self.leading.sweep_every;
        for sweep in self.state.sweepable(self.moment.unix.0) {
            self.lead_own(Action::Sweep { path: sweep.path, seen_zxid: sweep.seen_zxid });
        }
    }

    /// Gives the ensemble its name, once a leader's first entry is applied.
    pub(super) fn name_ensemble(&mut self) {
        if self.state.ensemble().is_none() {
            let mut name = [0; 16];
            name.copy_from_slice(&self.secret[16..]);
            self.lead_own(Action::NameEnsemble { ensemble: u128::from_be_bytes(name) });
        }
    }

    /// Writes the members to where clients look for them, where that is not what stands there.
    pub(super) fn describe_ensemble(&mut self) {
        if self.config.is_standalone() {
            return;
        }
        let mut members = String::new();
        for (member, address) in &self.config.members {
            writeln!(members, "server.{member}={address}:participant").expect("a string takes everything");
        }
        members.push_str("version=0");
        let now = self.state.node(CONFIGURATION).and_then(|node| node.data);
        if now != Some(members.as_bytes()) {
            self.lead_own(Action::DescribeEnsemble { members });
        }
    }

    /// Proposes a command that nobody waits for. Where it is lost, the next leader finds the reason for it again.
    fn lead_own(&mut self, action: Action) {
        self.lead(vec![Command { origin: None, time_ms: 0, action }]);
    }
}

fn timeout_of(timeout_ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0))
}
