//! The oracle: knows what must hold, and judges a run by what the broker tells, what clients see, what the disks
//! hold and which faults there were.
//!
//! ```text
//!   broker facts ──► facts.rs ───┐                        ┌─ iNN_*.rs: one file for each invariant or family
//!   client events ─► history.rs ─┼─► State ── Judge ◄─────┤    demand(invariant, condition, text)
//!   starts, faults ► state.rs ───┘   (ghost.rs)           └─ disk.rs: the files, read by a parser of its own
//! ```
//! An ensemble of coordinators has a judge of its own: [`coordinator`].
//!
//! Every event is first shown to the invariants that it concerns, against the ghost state as it was before, and then
//! moves the ghost state. Each demand is counted: an invariant that was never evaluated in a campaign has proven
//! nothing. Owns the judgement; never changes the run, and draws no random value.
//!
//! The durability contract of one replica: a process crash loses nothing that was written; a power failure loses at
//! most what was not flushed, and nothing acknowledged where each message is flushed; damage by the disk explains the
//! loss of what it hit and, because recovery cuts there, of what follows. Whatever else is missing is a violation.

pub mod coordinator;
mod disk;
mod events;
mod facts;
mod ghost;
mod history;
mod i01_acknowledged_survives;
mod i06_single_value;
mod i09_watermarks;
mod i12_leader_append_only;
mod i13_epoch_cache;
mod i15_contiguous;
mod i17_latest_never_decreases;
mod i18_committed_reads;
mod i19_failed_sync;
mod i20_recovery;
mod i21_checkpoints;
mod i23_leader_epochs;
mod i25_reader_order;
mod i26_sequences;
mod i27_producer_table;
mod i40_log_start;
mod i48_liveness;
mod i65a_failed_never_seen;
mod i69_lost_writes;
mod invariant;
mod judge;
mod state;
#[cfg(test)]
mod testing;

pub use disk::Disks;
pub use events::{BatchId, ClientEvent, DiskFault, Purpose, ReadBatch, RecordId, SentBatch, Sequence, Stop};
pub use invariant::{Invariant, UnknownInvariant, Violation};
pub use state::Statistics;

use sillon_broker::observe::{Observation, Observer};
use state::State;
use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Tells the true simulated time in nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What the brokers of a run promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Where each broker keeps its logs.
    pub log_directory: PathBuf,
    /// Each message is flushed before it is acknowledged (`flush.messages=1`).
    pub flush_every_message: bool,
    /// Batches are stored as they were sent: CreateTime and `compression.type=producer`.
    pub stored_as_sent: bool,
    /// Wall clocks move so far that brokers may forget producers (`producer.id.expiration.ms`).
    pub producers_may_expire: bool,
    /// After healing, something that is sent must be confirmed within this time.
    pub produce_within_ns: u64,
    /// After healing, each consumer must be at the end within this time.
    pub catch_up_within_ns: u64,
}

impl Default for Contract {
    fn default() -> Contract {
        Contract {
            log_directory: "/data".into(),
            flush_every_message: false,
            stored_as_sent: true,
            producers_may_expire: false,
            produce_within_ns: 10_000_000_000,
            catch_up_within_ns: 20_000_000_000,
        }
    }
}

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

    /// The faults are over and every machine runs.
    pub fn healed(&self) {
        let now_ns = (self.clock)();
        self.lock().on_healed(now_ns);
    }

    /// Looks whether a deadline since healing has passed.
    pub fn check_liveness(&self) {
        let now_ns = (self.clock)();
        let state = &mut *self.lock();
        state.judge.at(now_ns, None, None);
        state.history.liveness.check(&mut state.judge, &state.contract);
    }

    /// Whether all that must come about after healing has.
    pub fn converged(&self) -> bool {
        self.lock().history.liveness.converged()
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
