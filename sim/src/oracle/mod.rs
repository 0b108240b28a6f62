//! The oracle: knows what must hold, and judges a run by what the broker tells, what clients see, what the disks
//! hold and which faults there were.
//!
//! ```text
//!   broker facts ──► facts.rs, cluster_facts.rs ┐                  ┌─ iNN_*.rs: one file for each invariant or family
//!   members' facts ► truth.rs ──────────────────┼► State ── Judge ◄┤    demand(invariant, condition, text)
//!   client events ─► history.rs ────────────────┤  (lineage.rs,    └─ disk.rs: the files, read by a parser of its own
//!   starts, faults ► state.rs ──────────────────┘   ghost.rs)
//! ```
//! An ensemble of coordinators has a judge of its own: [`coordinator`]. What is judged of consumer groups is in [`groups`].
//!
//! Every event is first shown to the invariants that it concerns, against the ghost state as it was before, and then
//! moves the ghost state. Each demand is counted: an invariant that was never evaluated in a campaign has proven
//! nothing. Owns the judgement; never changes the run, and draws no random value.
//!
//! The durability contract of one replica: a process crash loses nothing that was written; a power failure loses at
//! most what was not flushed, and nothing acknowledged where each message is flushed; damage by the disk explains the
//! loss of what it hit and, because recovery cuts there, of what follows. Whatever else is missing is a violation.
//!
//! The durability contract of a cluster is its loss budget: at most `min.insync.replicas` − 1 replicas of a partition may
//! have lost unflushed records since each last held everything. Beyond that, and where a leader was elected that need not
//! hold everything, the partition is out of contract: I01, I02, I05, I08 and I11 are not asked there any more, and the
//! report says so. A broker alone is a cluster of one, with a budget of none.

mod cluster_facts;
#[cfg(test)]
mod cluster_testing;
mod contract;
pub mod coordinator;
mod disk;
mod events;
mod facts;
mod ghost;
pub mod groups;
mod history;
mod i01_acknowledged_survives;
mod i03_min_insync;
mod i04_isr_members;
mod i05_strong_isr;
mod i06_single_value;
mod i07_maximal_isr;
mod i08_never_below_committed;
mod i09_watermarks;
mod i10_log_matching;
mod i11_leader_completeness;
mod i12_leader_append_only;
mod i13_epoch_cache;
mod i15_contiguous;
mod i17_latest_never_decreases;
mod i18_committed_reads;
mod i19_failed_sync;
mod i20_recovery;
mod i21_checkpoints;
mod i22_one_leader;
mod i23_leader_epochs;
mod i24_lineage_signals;
mod i25_reader_order;
mod i26_sequences;
mod i27_producer_table;
mod i33_state_writes;
mod i36b_convergence;
mod i40_log_start;
mod i41_compaction;
mod i48_liveness;
mod i52_visibility;
mod i65a_failed_never_seen;
mod i66_isr_changes;
mod i69_lost_writes;
mod invariant;
mod judge;
mod lineage;
mod state;
#[cfg(test)]
mod testing;
mod truth;

pub use contract::Contract;
pub use disk::Disks;
pub use events::{
    BatchId, ClientEvent, DiskFault, Healing, Purpose, ReadBatch, RecordId, SentBatch, Sequence, Stop,
};
pub use invariant::{Invariant, UnknownInvariant, Violation};
pub use state::Statistics;

use sillon_broker::observe::{Observation, Observer};
use sillon_coordinator::observe::Observation as MemberObservation;
use state::State;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Tells the true simulated time in nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The judge of one run. Shared by everything that tells it something.
pub struct Oracle {
    clock: Clock,
    state: Mutex<State>,
}

impl fmt::Debug for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oracle").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

/// One broker's ear.
struct NodeObserver {
    oracle: Arc<Oracle>,
    node: u32,
}

impl Observer for NodeObserver {
    fn observe(&self, observation: Observation<'_>) {
        let now_ns = (self.oracle.clock)();
        self.oracle.lock().on_observation(now_ns, self.node, &observation);
    }
}

impl Oracle {
    /// An oracle that knows nothing yet.
    pub fn new(clock: Clock, disks: Arc<dyn Disks>, contract: Contract) -> Arc<Oracle> {
        Arc::new(Oracle { clock, state: Mutex::new(State::new(disks, contract)) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A run has one thread. What a panic elsewhere leaves is still worth reporting.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a broker on this node is to tell its facts to, as long as its process lives.
    pub fn observer(self: &Arc<Oracle>, node: u32) -> Arc<dyn Observer> {
        Arc::new(NodeObserver { oracle: self.clone(), node })
    }

    /// A client did or saw something.
    pub fn client_event(&self, event: ClientEvent) {
        let now_ns = (self.clock)();
        self.lock().on_client(now_ns, event);
    }

    /// A broker's process has ended. To be told once its disk has lost what it loses by that.
    pub fn node_stopped(&self, node: u32, stop: Stop) {
        self.lock().on_stopped(node, stop);
    }

    /// A broker's process is about to start, with the disk as it is now.
    pub fn node_starting(&self, node: u32) {
        let now_ns = (self.clock)();
        self.lock().on_starting(now_ns, node);
    }

    /// A disk did something wrong.
    pub fn disk_fault(&self, node: u32, fault: DiskFault) {
        let now_ns = (self.clock)();
        self.lock().on_disk_fault(now_ns, node, &fault);
    }

    /// A broker's machine stands still (or runs again): its process neither works nor ends.
    pub fn node_paused(&self, node: u32, paused: bool) {
        self.lock().on_paused(node, paused);
    }

    /// A broker was asked to stop in a controlled way.
    pub fn node_asked_to_stop(&self, node: u32) {
        let now_ns = (self.clock)();
        self.lock().on_asked_to_stop(now_ns, node);
    }

    /// No fault is on, or some is. To be told at each change; what must come about soon is looked at only while no fault
    /// is on.
    pub fn calm(&self, calm: bool) {
        let now_ns = (self.clock)();
        self.lock().on_calm(now_ns, calm);
    }

    /// A member of the coordinator tells a fact: the truth about partitions and registrations is in what it applies.
    pub fn member_observation(&self, observation: &MemberObservation<'_>) {
        let now_ns = (self.clock)();
        self.lock().on_member(now_ns, observation);
    }

    /// The faults are over, for all machines or for some. Said again for others when the rest is healed too.
    pub fn healed(&self, healing: Healing) {
        let now_ns = (self.clock)();
        self.lock().on_healed(now_ns, healing);
    }

    /// Looks whether a deadline since healing has passed.
    pub fn check_liveness(&self) {
        let now_ns = (self.clock)();
        self.lock().check_liveness(now_ns);
    }

    /// Whether all that must come about after healing has.
    pub fn converged(&self) -> bool {
        let state = self.lock();
        state.history.liveness.converged()
            && state.convergence.converged()
            && (state.contract.groups.is_none() || state.groups.converged(&state.partitions))
    }

    /// Time has passed: whether a group rebalances for too long. To be called now and then.
    pub fn look_at_groups(&self) {
        let now_ns = (self.clock)();
        let state = &mut *self.lock();
        state.judge.at(now_ns, None, None);
        state.groups.check_rebalances(&mut state.judge, state.calm_since_ns);
    }

    /// Whether all consumer groups have processed what there is. To be asked once nobody produces any more.
    pub fn groups_caught_up(&self) -> bool {
        let state = self.lock();
        state.groups.caught_up(&state.partitions)
    }

    /// Consumer groups have had their time, and members still live.
    pub fn judge_processing(&self) {
        let now_ns = (self.clock)();
        let state = &mut *self.lock();
        state.judge.at(now_ns, None, None);
        state.groups.judge_processing(&mut state.judge, &state.partitions);
    }

    /// The run is over: the scans are done and the brokers have stopped in a controlled way.
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

    /// How often each invariant was evaluated in a way that was not trivial. Each is named.
    pub fn evaluations(&self) -> BTreeMap<Invariant, u64> {
        self.lock().judge.evaluations()
    }

    /// What was lost that had been promised, and was allowed to be.
    pub fn out_of_contract(&self) -> Vec<String> {
        self.lock().out_of_contract.clone()
    }

    /// How much happened.
    pub fn statistics(&self) -> Statistics {
        self.lock().statistics
    }
}
