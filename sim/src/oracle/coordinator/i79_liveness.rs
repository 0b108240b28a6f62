//! I53, I79, K14 and K15: once the faults are over there is a leader, writes succeed, every client is connected or told
//! that its session has gone, all in time; and then there is rest.

use super::{contract::CoordinatorContract, events::ClientId, i75_consensus::Consensus};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_coordinator::observe::Role;
use std::collections::BTreeMap;

/// What healing promised, and what of it has been kept.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    healed_ns: Option<u64>,
    /// A member has stopped since: elections may follow.
    stopped: bool,
    has_leader: bool,
    /// When somebody first asked for a write since healing.
    asked_ns: Option<u64>,
    written: bool,
    /// The clients that have a session and no connection, and since when.
    waiting: BTreeMap<ClientId, u64>,
    reported: Vec<Invariant>,
}

impl Liveness {
    pub fn on_healed(&mut self, now_ns: u64) {
        let waiting = std::mem::take(&mut self.waiting).into_keys().map(|client| (client, now_ns)).collect();
        *self = Liveness { healed_ns: Some(now_ns), waiting, ..Liveness::default() };
    }

    pub fn on_stopped(&mut self) {
        self.stopped = true;
    }

    /// Some member's part has changed.
    pub fn on_role(&mut self, judge: &mut Judge, contract: &CoordinatorContract, role: Role) {
        if self.is_quiet(judge, contract) {
            judge.demand(Invariant::I53, role == Role::Follower, || {
                format!("a member becomes {role:?} though nothing has gone wrong for long")
            });
        }
    }

    fn is_quiet(&self, judge: &Judge, contract: &CoordinatorContract) -> bool {
        let over = |healed_ns: u64| judge.now_ns() > healed_ns.saturating_add(contract.quiet_after_ns);
        !self.stopped && self.healed_ns.is_some_and(over)
    }

    pub fn on_leader(&mut self, judge: &mut Judge, contract: &CoordinatorContract, consensus: &Consensus) {
        if self.healed_ns.is_some() && !self.has_leader && consensus.leader(contract).is_some() {
            self.has_leader = true;
            judge.evaluated(Invariant::I79);
        }
    }

    pub fn on_asked(&mut self, now_ns: u64) {
        if self.healed_ns.is_some() {
            self.asked_ns = self.asked_ns.or(Some(now_ns));
        }
    }

    /// A write that was asked for at this time is done.
    pub fn on_written(&mut self, judge: &mut Judge, asked_ns: u64) {
        if self.healed_ns.is_some_and(|healed_ns| asked_ns >= healed_ns) && !self.written {
            self.written = true;
            judge.evaluated(Invariant::K14);
        }
    }

    /// A client has lost its connection, and not yet its session.
    pub fn on_waiting(&mut self, now_ns: u64, client: ClientId) {
        self.waiting.entry(client).or_insert(now_ns);
    }

    /// A client is connected, or has nothing to wait for.
    pub fn on_served(&mut self, judge: &mut Judge, client: ClientId) {
        if self.waiting.remove(&client).is_some() && self.healed_ns.is_some() {
            judge.evaluated(Invariant::K15);
        }
    }

    /// A client does not come back, because it was made not to.
    pub fn on_gone(&mut self, client: ClientId) {
        self.waiting.remove(&client);
    }

    /// Looks at the time.
    pub fn check(&mut self, judge: &mut Judge, contract: &CoordinatorContract) {
        let Some(healed_ns) = self.healed_ns.filter(|_| !self.stopped) else { return };
        let now_ns = judge.now_ns();
        let late = |since_ns: u64, within_ns: u64| now_ns > since_ns.saturating_add(within_ns);
        if !self.has_leader && late(healed_ns, contract.leader_within_ns) {
            self.report(judge, Invariant::I79, "no member leads that a majority follows".to_owned());
        }
        let unwritten = self.asked_ns.filter(|asked_ns| late(*asked_ns, contract.write_within_ns));
        if let Some(asked_ns) = unwritten.filter(|_| !self.written) {
            let text = format!("no write of those asked for since {:.3} s is done", asked_ns as f64 / 1e9);
            self.report(judge, Invariant::K14, text);
        }
        let hangs = |(_, since_ns): &(&ClientId, &u64)| late(**since_ns, contract.reconnect_within_ns);
        if let Some((client, since_ns)) = self.waiting.iter().find(hangs) {
            let text = format!(
                "client {} is without a connection since {:.3} s, and was not told that its session has gone",
                client.0,
                *since_ns as f64 / 1e9
            );
            self.report(judge, Invariant::K15, text);
        }
        if self.is_quiet(judge, contract) {
            judge.evaluated(Invariant::I53);
        }
    }

    fn report(&mut self, judge: &mut Judge, invariant: Invariant, text: String) {
        if !self.reported.contains(&invariant) {
            self.reported.push(invariant);
            judge.violated(invariant, text);
        }
    }

    /// Whether all that must come about has.
    pub fn converged(&self) -> bool {
        // Where nobody asks, nothing is to be written.
        let is_written = self.written || self.asked_ns.is_none();
        self.healed_ns.is_some() && self.has_leader && is_written && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant, Stop,
        coordinator::{
            Outcome, Request, Response,
            testing::{Run, SECOND, create},
        },
    };
    use sillon_coordinator::{
        command::Action,
        observe::Role,
        types::{ConnectionKey, SessionId},
    };

    fn healed() -> Run {
        let run = Run::new();
        run.join(7);
        run.disconnected(7);
        run.later(SECOND);
        run.oracle.healed();
        run
    }

    #[test]
    fn in_time() {
        let run = healed();
        run.connected(7, 7);
        assert!(run.oracle.converged(), "where nobody asks, nothing is to be written");
        let asked = run.invoke(7, &create("/a"));
        assert!(!run.oracle.converged());
        let outcome = run.log(7, &create("/a"));
        run.complete(asked, outcome);
        assert!(run.oracle.converged());
        for _ in 0..60 {
            run.later(SECOND);
            run.heard(1, 7);
            run.oracle.check_liveness();
        }
        run.assert_legal(&[Invariant::I53, Invariant::I79, Invariant::K14, Invariant::K15]);
    }

    #[test]
    fn nobody_leads() {
        let run = Run::new();
        run.role(1, Role::Follower, None);
        run.oracle.healed();
        run.later(6 * SECOND);
        run.oracle.check_liveness();
        run.assert_violated(Invariant::I79);
    }

    #[test]
    fn a_leader_whom_nobody_follows_is_none() {
        let run = Run::new();
        run.term.set(2);
        run.role(2, Role::Candidate, None);
        run.role(3, Role::Candidate, None);
        run.oracle.healed();
        run.later(6 * SECOND);
        run.oracle.check_liveness();
        run.assert_violated(Invariant::I79);
    }

    #[test]
    fn no_write_succeeds() {
        let run = healed();
        run.connected(7, 7);
        run.invoke(7, &create("/a"));
        run.later(11 * SECOND);
        run.heard(1, 7);
        run.oracle.check_liveness();
        run.assert_violated(Invariant::K14);
    }

    #[test]
    fn the_end_of_a_session_is_a_write() {
        let run = healed();
        run.connected(7, 7);
        let invoked = run.invoke(7, &Request::CloseSession);
        let (session, connection) = (SessionId(7), ConnectionKey::default());
        run.commit(Action::CloseSession { session, connection });
        run.complete(invoked, Outcome::Ok { zxid: run.zxid.get(), response: Response::Nothing });
        run.later(11 * SECOND);
        run.oracle.check_liveness();
        run.assert_legal(&[Invariant::K14]);
    }

    #[test]
    fn a_client_hangs() {
        let run = healed();
        run.found_silent(1, 99);
        for _ in 0..31 {
            run.later(SECOND);
            run.heard(1, 7);
        }
        run.oracle.check_liveness();
        run.assert_violated(Invariant::K15);
    }

    #[test]
    fn an_election_in_the_quiet() {
        let run = healed();
        run.connected(7, 7);
        run.later(21 * SECOND);
        run.role(2, Role::PreCandidate, None);
        run.assert_violated(Invariant::I53);
        let run = healed();
        run.later(21 * SECOND);
        run.stop(1, Stop::Controlled);
        run.role(2, Role::PreCandidate, None);
        run.assert_legal(&[]);
    }
}
