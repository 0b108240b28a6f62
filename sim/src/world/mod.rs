//! The simulated world: machines with clocks, disks and processes, a network between them, and their faults.
//! Owns what happens *to* the product; never knows what the product is, and judges nothing.
//!
//! madsim gives the executor and virtual time. All else is here, because madsim's own network, disk and clock are
//! too kind: byte-stream connections with latency, partial reads and writes, resets and half-open ends; disks that
//! lose, tear and rot what was not synced; clocks that drift and jump.
//!
//! ```text
//!   run_seeded(scheduler_seed, …)          one fresh thread for each run
//!      └─ World ── Decisions               every random value, by name (record, replay)
//!           ├─ Trace                       every event, folded into one hash; FaultKind counts
//!           ├─ Network ─ links, partitions, NetworkTap
//!           └─ node ─ Runtime of its process (what the product sees)
//!                   ─ Disk (durable view, faults, power loss), Clock (drift, jumps), status, panics
//! ```
//!
//! A scenario in short:
//!
//! ```
//! # #[cfg(madsim)] {
//! use sillon_sim::{decisions::Decisions, world::{World, WorldConfig, boot, run_seeded, sleep}};
//! use std::{sync::Arc, time::Duration};
//!
//! let hash = run_seeded(1, || async {
//!     let world = World::new(WorldConfig::default(), Arc::new(Decisions::random(1, false)));
//!     let node = world.add_node("broker-1", boot(|runtime| async move {
//!         let listener = runtime.listen(([0, 0, 0, 0], 9092).into()).await.expect("the port is free");
//!         while listener.accept().await.is_ok() {}
//!     }));
//!     world.start(node);
//!     sleep(Duration::from_secs(5)).await;
//!     world.power_fail(node);
//!     sleep(Duration::from_secs(5)).await;
//!     world.start(node);
//!     world.trace().chain()
//! });
//! assert!(hash.is_ok());
//! # }
//! ```
//!
//! Rules of the house
//! * A run is determined by `scheduler_seed` and the [`Decisions`] (a seed, or a tape), and by what the caller does.
//! * Everything a process holds carries its *incarnation*. Once the process has died, its streams, files and tasks do
//!   nothing any more, although madsim drops the tasks a little later and in random order.
//! * The code that directs a run (`f` of [`run_seeded`]) waits with [`sleep`], in simulated time. Products use their
//!   [`sillon_runtime::Runtime`], which has the node's own clock.
//! * Lock order: a pipe of the network, then the network, then decisions and trace. Nothing that may run foreign
//!   code (a waker excepted, which only queues) is called, and nothing foreign dropped, under a lock.

mod clock;
mod disk;
mod faults;
mod network;
mod node;
mod process;
mod run;
mod runtime_backend;
mod task;
mod timer;
mod trace;

pub use clock::{Clock, EPOCH_UNIX_MS, MAX_DRIFT_PPM};
pub use disk::{Disk, DiskFaults, FileLoss, PAGE_BYTES, PowerLoss};
pub use faults::{FaultKind, FileFault};
pub use network::{
    ConnectionInfo, Direction, End, LinkProfile, Network, NetworkConfig, NetworkCounters, NetworkTap,
};
pub use node::Status;
pub use process::{Boot, ProcessPanic, boot};
pub use run::{Panic, run_seeded};
pub use task::print_panics;
pub use timer::{SleepUntil, now_ns, sleep, sleep_until_ns};
pub use trace::{Event, Retention, Sink, Trace};

use crate::{decisions::Decisions, profile::Part};
use faults::FaultCounts;
use node::Node;
use process::Slot;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt, io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

/// A simulated machine, by its place in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// For events that concern no machine in particular.
    pub const WORLD: NodeId = NodeId(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == NodeId::WORLD { f.pad("world") } else { f.pad(&format!("n{}", self.0)) }
    }
}

/// How a world begins.
#[derive(Clone, Debug, Default)]
pub struct WorldConfig {
    /// The network between its machines.
    pub network: NetworkConfig,
    /// What each disk does at first.
    pub disk: DiskFaults,
    /// What is kept of the trace.
    pub retention: Retention,
}

/// What all parts of a world share: chance, trace and fault counts.
struct Core {
    decisions: Arc<Decisions>,
    trace: Trace,
    faults: FaultCounts,
}

impl Core {
    fn event(&self, node: NodeId, kind: &'static str, fields: &[(&'static str, u64)]) {
        self.trace.add(node, kind, fields, String::new);
    }

    fn fault(&self, node: NodeId, kind: FaultKind, fields: &[(&'static str, u64)]) {
        self.faults.note(node, kind, fields);
        self.event(node, kind.event_kind(), fields);
    }
}

/// A simulated world. Lives inside [`run_seeded`].
pub struct World {
    core: Arc<Core>,
    network: Arc<Network>,
    slots: Mutex<Vec<Slot>>,
    panics: Mutex<Vec<ProcessPanic>>,
    disk_faults: DiskFaults,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({} nodes, {} events)", lock(&self.slots).len(), self.core.trace.count())
    }
}

impl World {
    /// A world without machines.
    ///
    /// # Panics
    /// Outside [`run_seeded`].
    pub fn new(config: WorldConfig, decisions: Arc<Decisions>) -> Arc<World> {
        now_ns();
        let core =
            Arc::new(Core { decisions, trace: Trace::new(config.retention), faults: FaultCounts::new() });
        let network = Network::new(core.clone(), config.network);
        let (slots, panics) = (Mutex::default(), Mutex::default());
        let world = Arc::new(World { core, network, slots, panics, disk_faults: config.disk });
        run::register(Arc::downgrade(&world));
        world
    }

    /// Adds a machine with an empty disk. Its name is its host name; nothing runs before [`World::start`].
    ///
    /// # Panics
    /// Where the name is taken.
    pub fn add_node(&self, name: &str, boot: Boot) -> NodeId {
        let id = NodeId(u32::try_from(lock(&self.slots).len()).expect("fewer than four billion machines"));
        let live = Arc::new(AtomicU64::new(0));
        let disk = Disk::new(self.core.clone(), id, self.disk_faults.clone());
        self.network.add_host(id, name, live.clone());
        let madsim = madsim::runtime::Handle::current().create_node().name(name).build().id();
        let node = Arc::new(Node::new(id, name, disk, live));
        let slot =
            Slot { node, boot: Some(boot), status: Status::New, incarnations: 0, madsim, runtime: None };
        lock(&self.slots).push(slot);
        id
    }

    /// All machines, in the order in which they were added.
    pub fn nodes(&self) -> Vec<NodeId> {
        lock(&self.slots).iter().map(|slot| slot.node.id).collect()
    }

    /// A machine's host name.
    pub fn name(&self, id: NodeId) -> String {
        self.node(id).name.clone()
    }

    /// A machine's address, which [`sillon_runtime::Runtime::connect`] takes as well as its name.
    pub fn address(&self, id: NodeId) -> IpAddr {
        node::address_of(id)
    }

    /// A machine's disk.
    pub fn disk(&self, id: NodeId) -> Arc<Disk> {
        self.node(id).disk.clone()
    }

    /// A machine's clocks.
    pub fn clock(&self, id: NodeId) -> Arc<Clock> {
        self.node(id).clock.clone()
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Where all random values come from.
    pub fn decisions(&self) -> &Arc<Decisions> {
        &self.core.decisions
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.core.trace
    }

    /// Adds an event to the trace. The fields are part of its hash.
    pub fn event(&self, node: NodeId, kind: &'static str, fields: &[(&'static str, u64)]) {
        self.core.event(node, kind, fields);
    }

    /// The same with words for people, which are formatted only where the trace is kept, and are not hashed.
    pub fn event_with_detail(
        &self,
        node: NodeId,
        kind: &'static str,
        fields: &[(&'static str, u64)],
        detail: impl FnOnce() -> String,
    ) {
        self.core.trace.add(node, kind, fields, detail);
    }

    /// How often each kind of fault has struck; those that have not are left out.
    pub fn fault_counts(&self) -> BTreeMap<FaultKind, u64> {
        self.core.faults.all()
    }

    /// The failures of disks that concern files, in order, since this was last asked.
    pub fn take_file_faults(&self) -> impl Iterator<Item = FileFault> {
        self.core.faults.take_of_files().into_iter()
    }

    /// How often one kind of fault has struck.
    pub fn fault_count(&self, kind: FaultKind) -> u64 {
        self.core.faults.get(kind)
    }

    /// Changes the rate of a machine's clocks, in parts per million against simulated time.
    ///
    /// # Panics
    /// Beyond [`MAX_DRIFT_PPM`] either way.
    pub fn set_drift(&self, id: NodeId, drift_ppm: i64) {
        self.fault(id, FaultKind::ClockDrift, &[("drift_ppm", drift_ppm as u64)]);
        self.node(id).clock.set_drift(drift_ppm);
    }

    /// Steps a machine's wall clock, forth or back.
    pub fn jump_wall_clock(&self, id: NodeId, by_ms: i64) {
        self.fault(id, FaultKind::WallJump, &[("by_ms", by_ms as u64)]);
        self.node(id).clock.jump_wall(by_ms);
    }

    /// What the CPU time of a machine's process counts for; a client's where nothing is said.
    pub fn set_part(&self, id: NodeId, part: Part) {
        self.node(id).set_part(part);
    }

    /// Has each step of each task of a machine take some time; `(0, 0)` gives back full speed.
    pub fn set_slow_processor(&self, id: NodeId, low_us: u64, high_us: u64) {
        if high_us > 0 {
            self.fault(id, FaultKind::SlowProcessor, &[("low_us", low_us), ("high_us", high_us)]);
        } else {
            self.event(id, "full-speed", &[]);
        }
        self.node(id).set_slowness_us(low_us, high_us);
    }

    fn node(&self, id: NodeId) -> Arc<Node> {
        lock(&self.slots)[id.index()].node.clone()
    }

    fn fault(&self, node: NodeId, kind: FaultKind, fields: &[(&'static str, u64)]) {
        self.core.fault(node, kind, fields);
    }
}

/// Locks. A run has one thread, so nobody ever waits; and a panic elsewhere in the run leaves no half-made change
/// behind, because nothing that can panic in normal use runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dead_process() -> io::Error {
    io::Error::other("the process has died")
}
