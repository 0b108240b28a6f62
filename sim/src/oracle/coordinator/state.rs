//! All that the oracle knows of an ensemble in one place, and what starts, stops and faults of the machines do to it.

use super::{
    contract::{Conditions, CoordinatorContract},
    entries::Entries,
    history::History,
    i62_sessions::Sessions,
    i75_consensus::Consensus,
    i79_liveness::Liveness,
    model::Model,
};
use crate::oracle::{events::Stop, judge::Judge};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorStatistics {
    /// Transactions that were applied.
    pub transactions: u64,
    /// Writes that clients were told of as done.
    pub writes_confirmed: u64,
    /// Writes that clients were told of as refused.
    pub writes_failed: u64,
    /// Requests of which the client does not know.
    pub unknown: u64,
    /// Reads that were answered, with a node or without.
    pub reads: u64,
    /// Watches that fired.
    pub watch_events: u64,
    /// Sessions that began.
    pub sessions_opened: u64,
    /// Sessions that ended because nobody heard of them.
    pub sessions_expired: u64,
    /// Terms that had a leader.
    pub terms_led: u64,
    /// Starts of members.
    pub starts: u64,
    /// Snapshots that members took.
    pub snapshots_taken: u64,
    /// Snapshots that members got from others.
    pub snapshots_installed: u64,
}

pub(super) struct State {
    pub contract: CoordinatorContract,
    pub conditions: Arc<dyn Conditions>,
    pub judge: Judge,
    pub consensus: Consensus,
    pub entries: Entries,
    pub model: Model,
    /// A transaction is missing: the model has lost the thread, and judges no more.
    pub model_is_lost: bool,
    pub sessions: Sessions,
    pub history: History,
    pub liveness: Liveness,
    pub statistics: CoordinatorStatistics,
}

impl State {
    pub fn new(conditions: Arc<dyn Conditions>, contract: CoordinatorContract) -> State {
        State {
            model: Model::new(contract.ttl_nodes),
            contract,
            conditions,
            judge: Judge::new(),
            consensus: Consensus::default(),
            entries: Entries::default(),
            model_is_lost: false,
            sessions: Sessions::default(),
            history: History::default(),
            liveness: Liveness::default(),
            statistics: CoordinatorStatistics::default(),
        }
    }

    pub fn on_starting(&mut self, now_ns: u64, node: u32) {
        self.statistics.starts += 1;
        self.consensus.on_stopped(node);
        self.on_conditions(now_ns);
    }

    pub fn on_stopped(&mut self, now_ns: u64, node: u32, _stop: Stop) {
        self.consensus.on_stopped(node);
        self.liveness.on_stopped();
        self.on_conditions(now_ns);
    }

    /// Something changed in the world of the members, or they have another leader.
    pub fn on_conditions(&mut self, now_ns: u64) {
        let nodes: Vec<u32> = self.consensus.members.keys().copied().collect();
        self.sessions.look(now_ns, &*self.conditions, &nodes);
    }

    pub fn on_healed(&mut self, now_ns: u64) {
        self.on_conditions(now_ns);
        self.liveness.on_healed(now_ns);
        let State { judge, contract, consensus, liveness, .. } = self;
        judge.at(now_ns, None, None);
        liveness.on_leader(judge, contract, consensus);
    }

    pub fn check_liveness(&mut self, now_ns: u64) {
        self.on_conditions(now_ns);
        let State { contract, judge, consensus, model, sessions, liveness, .. } = self;
        judge.at(now_ns, None, None);
        liveness.on_leader(judge, contract, consensus);
        liveness.check(judge, contract);
        sessions.check_silent(judge, contract, &model.sessions);
    }

    pub fn finish(&mut self, now_ns: u64) {
        self.judge.at(now_ns, None, None);
        self.history.finish(&mut self.judge);
    }
}
