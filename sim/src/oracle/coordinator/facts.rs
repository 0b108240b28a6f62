//! Takes the members' facts: hands each to the invariants that it concerns, then moves what the oracle knows. Decides
//! nothing by itself.

use super::{
    entries::{AppliedFact, WriteEntry, content_of},
    i75_consensus::Start,
    k05_outcomes as k05,
    model::Effect,
    state::State,
};
use crate::oracle::invariant::Invariant;
use sillon_coordinator::{
    command::Command,
    observe::{Observation, Role},
};

impl State {
    pub(super) fn on_observation(&mut self, now_ns: u64, node: u32, observation: &Observation<'_>) {
        self.judge.at(now_ns, Some(node), None);
        let State { judge, consensus, entries, .. } = self;
        match observation {
            Observation::Started { member, term, vote, first_index, last_index, snapshot, digest } => {
                let start = Start {
                    member: member.0,
                    term: term.0,
                    vote: vote.map(|vote| vote.0),
                    first: *first_index,
                    last: *last_index,
                    snapshot: snapshot.0.max(0) as u64,
                };
                consensus.on_started(judge, node, start, entries);
                match snapshot.0 {
                    0 => entries.begins_with(judge, *digest),
                    zxid => entries.compare_digest(judge, zxid, *digest),
                }
                self.on_conditions(now_ns);
            }
            Observation::RoleChanged { role, term, leader } => {
                let fact = (*role, term.0, leader.map(|leader| leader.0));
                consensus.on_role(judge, node, fact, entries);
                self.on_role(now_ns, node, *role);
            }
            Observation::Durable { term, vote, entries: new } => {
                let hard = (term.0, vote.map(|vote| vote.0));
                consensus.on_durable(judge, node, hard, new, entries);
            }
            Observation::Promised { to, term, promise } => {
                consensus.on_promise(judge, node, (to.0, term.0), *promise);
            }
            Observation::Applied { zxid, term, command, error, digest, .. } => {
                let content = content_of(*command);
                let (zxid, term, error, digest) = (zxid.0, term.0, *error, *digest);
                let fact = AppliedFact { zxid, term, command: content, error, digest };
                self.on_applied(now_ns, node, fact, *command);
            }
            Observation::SessionHeard { session, .. } => {
                self.sessions.on_heard(now_ns, node, session.0);
            }
            Observation::SessionFoundSilent { session, timeout_ms } => {
                let State { judge, contract, sessions, model, .. } = self;
                let known = model.sessions.get(&session.0);
                sessions.on_found_silent(judge, contract, node, (session.0, *timeout_ms), known);
            }
            Observation::SnapshotTaken { zxid, digest } => {
                self.statistics.snapshots_taken += 1;
                consensus.on_snapshot_taken(judge, node, zxid.0.max(0) as u64);
                entries.compare_digest(judge, zxid.0, *digest);
            }
            Observation::SnapshotInstalled { zxid, digest } => {
                self.statistics.snapshots_installed += 1;
                consensus.on_snapshot_installed(judge, node, zxid.0.max(0) as u64);
                entries.compare_digest(judge, zxid.0, *digest);
            }
        }
    }

    fn on_role(&mut self, now_ns: u64, node: u32, role: Role) {
        let State { judge, contract, consensus, liveness, sessions, statistics, .. } = self;
        liveness.on_role(judge, contract, role);
        liveness.on_leader(judge, contract, consensus);
        if role == Role::Leader {
            statistics.terms_led = consensus.leaders.len() as u64;
            sessions.on_leader(now_ns, node);
        }
        self.on_conditions(now_ns);
    }

    fn on_applied(&mut self, now_ns: u64, node: u32, fact: AppliedFact, command: Option<&Command>) {
        let State { judge, contract, consensus, entries, .. } = self;
        consensus.on_applied(judge, node, fact.zxid);
        if fact.zxid <= entries.last_zxid() {
            return entries.compare(judge, fact);
        }
        if fact.zxid > entries.last_zxid() + 1 {
            self.model_is_lost = true;
            let last = entries.last_zxid();
            let text =
                format!("transaction {} is applied; nobody has told of any after {last} before", fact.zxid);
            return judge.violated(Invariant::I75, text);
        }
        consensus.on_first_applied(judge, contract, (fact.zxid as u64, fact.term), entries);
        self.statistics.transactions += 1;
        entries.push(fact);
        match command {
            None => self.model.skip(fact.zxid),
            Some(command) => self.on_command(now_ns, fact, command),
        }
    }

    fn on_command(&mut self, now_ns: u64, fact: AppliedFact, command: &Command) {
        if self.model_is_lost {
            return;
        }
        let State { judge, contract, entries, model, sessions, history, statistics, .. } = self;
        let effect = model.apply(fact.zxid, command);
        k05::on_applied(judge, &effect, fact);
        let entry = entries.get_mut(fact.zxid).expect("it was just added");
        match effect {
            Effect::Write { session, operation, outcome } => {
                let content = operation.content();
                history.asked.on_applied(judge, (session, content), || {
                    format!("{operation} of session 0x{session:x}")
                });
                let is_told = history.asked.knows(session);
                history.registers.on_applied(&operation, is_told, model.tree.changes_of(fact.zxid));
                let text = operation.to_string();
                entry.write = Some(Box::new(WriteEntry { session, content, text, outcome, told: false }));
            }
            Effect::Opened { session } => {
                statistics.sessions_opened += 1;
                sessions.on_opened(now_ns, session);
            }
            Effect::Attached { session } => sessions.on_opened(now_ns, session),
            Effect::Ended { session, ephemerals, expired } => {
                statistics.sessions_expired += u64::from(expired);
                entry.ended = Some(session);
                sessions.on_ended(judge, contract, session, (ephemerals, expired));
                history.on_session_ended(now_ns, session);
                history.registers.spoil(model.tree.changes_of(fact.zxid));
            }
            Effect::Swept => history.registers.spoil(model.tree.changes_of(fact.zxid)),
            Effect::Refused { .. } | Effect::Nothing => {}
        }
    }
}
