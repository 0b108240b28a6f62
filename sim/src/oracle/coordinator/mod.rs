//! The judge of simulated coordinator ensembles.
//!
//! ```text
//!   members' facts ─► facts.rs ───┐                         ┌─ i75, entries: one log, one state on all members
//!   client events ──► history.rs ─┼─► State ── Judge ◄──────┼─ model/: ZooKeeper's rules, and every version of the tree
//!   starts, faults ─► state.rs ───┘                         └─ iNN_*, kNN_*: what must hold, one file for each family
//! ```
//! The model is fed with what the members apply, in the order of transactions, and says what each write must come to.
//! Since each reply names the transaction that it shows, every read can be compared with the tree at that transaction:
//! nothing has to be searched for. One search is made all the same, on the calls of single nodes and without the
//! transactions ([`K09`](super::Invariant::K09)), so that a mistake in this reasoning does not hide one of the members.
//!
//! Owns the judgement; never changes the run, and draws no random value.

mod contract;
mod entries;
pub mod events;
mod facts;
mod history;
mod i62_sessions;
mod i63_watches;
mod i75_consensus;
mod i79_liveness;
mod k05_outcomes;
mod k09_registers;
mod k10_reply_order;
mod k13_reconnects;
mod model;
mod state;
#[cfg(test)]
mod testing;

pub use contract::{Conditions, CoordinatorContract};
pub use events::{ClientId, CoordinatorEvent, OperationId, Outcome, Request, Response};
pub(super) use model::{Operation, operation::Create as TreeCreate};
pub use state::CoordinatorStatistics;

use super::{
    Clock,
    events::{DiskFault, Stop},
    invariant::{Invariant, Violation},
};
use sillon_coordinator::observe::{Observation, Observer};
use state::State;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The judge of one run's ensemble. Shared by everything that tells it something.
pub struct CoordinatorOracle {
    clock: Clock,
    state: Mutex<State>,
}

impl fmt::Debug for CoordinatorOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoordinatorOracle").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

/// One member's ear.
struct NodeObserver {
    oracle: Arc<CoordinatorOracle>,
    node: u32,
}

impl Observer for NodeObserver {
    fn observe(&self, observation: Observation<'_>) {
        self.oracle.member_observation(self.node, &observation);
    }
}

impl CoordinatorOracle {
    /// An oracle that knows nothing yet. It asks `conditions` while it is being told something.
    pub fn new(
        clock: Clock,
        conditions: Arc<dyn Conditions>,
        contract: CoordinatorContract,
    ) -> Arc<CoordinatorOracle> {
        Arc::new(CoordinatorOracle { clock, state: Mutex::new(State::new(conditions, contract)) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A run has one thread. What a panic elsewhere leaves is still worth reporting.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the member on this node is to tell its facts to, as long as its process lives.
    pub fn observer(self: &Arc<CoordinatorOracle>, node: u32) -> Arc<dyn Observer> {
        Arc::new(NodeObserver { oracle: self.clone(), node })
    }

    /// The member on this node tells a fact.
    pub fn member_observation(&self, node: u32, observation: &Observation<'_>) {
        let now_ns = (self.clock)();
        self.lock().on_observation(now_ns, node, observation);
    }

    /// A client did or saw something.
    pub fn client_event(&self, event: CoordinatorEvent) {
        let now_ns = (self.clock)();
        self.lock().on_client(now_ns, event);
    }

    /// A client is made to give its session up without a word: it lets it expire, and may come back with another.
    pub fn client_abandons(&self, client: ClientId) {
        self.lock().on_abandoned(client);
    }

    /// A member's process is about to start.
    pub fn node_starting(&self, node: u32) {
        let now_ns = (self.clock)();
        self.lock().on_starting(now_ns, node);
    }

    /// A member's process has ended.
    pub fn node_stopped(&self, node: u32, stop: Stop) {
        let now_ns = (self.clock)();
        self.lock().on_stopped(now_ns, node, stop);
    }

    /// What the [`Conditions`] say may have changed: a fault began or ended. To be told at each such moment.
    pub fn conditions_changed(&self) {
        let now_ns = (self.clock)();
        self.lock().on_conditions(now_ns);
    }

    /// A member's disk did something wrong. Where it has damaged what was stored, the member's next start may find less
    /// than was durable.
    pub fn disk_fault(&self, node: u32, fault: DiskFault) {
        if matches!(fault, DiskFault::Corrupted { .. } | DiskFault::Wiped) {
            self.lock().consensus.on_damaged(node);
        }
    }

    /// The faults are over and every member runs that is to run.
    pub fn healed(&self) {
        let now_ns = (self.clock)();
        self.lock().on_healed(now_ns);
    }

    /// Looks whether a deadline has passed. To be called every now and then, before and after healing.
    pub fn check_liveness(&self) {
        let now_ns = (self.clock)();
        self.lock().check_liveness(now_ns);
    }

    /// Whether all that must come about after healing has.
    pub fn converged(&self) -> bool {
        self.lock().liveness.converged()
    }

    /// The run is over.
    pub fn finish(&self) {
        let now_ns = (self.clock)();
        self.lock().finish(now_ns);
    }

    /// A violation that somebody else found.
    pub fn report(&self, invariant: Invariant, text: String) {
        let now_ns = (self.clock)();
        let state = &mut *self.lock();
        state.judge.at(now_ns, None, None);
        state.judge.violated(invariant, text);
    }

    /// An evaluation that somebody else made.
    pub fn evaluated(&self, invariant: Invariant) {
        self.lock().judge.evaluated(invariant);
    }

    /// The first violation.
    pub fn first_violation(&self) -> Option<Violation> {
        self.lock().judge.violations().first().cloned()
    }

    /// All violations, in the order in which they were seen, as far as they are kept.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().judge.violations().to_vec()
    }

    /// How often each invariant was evaluated in a way that was not trivial. Each is named, the brokers' too.
    pub fn evaluations(&self) -> BTreeMap<Invariant, u64> {
        self.lock().judge.evaluations()
    }

    /// The node whose member leads, as a majority says.
    pub fn leader(&self) -> Option<u32> {
        let state = self.lock();
        state.consensus.leader(&state.contract)
    }

    /// The last transaction that any member has applied.
    pub fn last_zxid(&self) -> i64 {
        self.lock().entries.last_zxid()
    }

    /// How much happened.
    pub fn statistics(&self) -> CoordinatorStatistics {
        self.lock().statistics
    }
}
