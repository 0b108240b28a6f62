//! The network: which way is open, how long it takes, who is connected. Owns links and partitions; the bytes of a
//! connection are in `pipe`, the handshake in `connect`.
//!
//! It carries byte streams, as TCP does, with what TCP shows to programs: latency and loss (which delays), bounded
//! windows, partial reads and writes, FIN and reset, half-open connections after a power failure, silence through a
//! partition and retransmission after it.

mod config;
mod connect;
mod listener;
mod pipe;
mod ring;
mod stream;
mod tap;

pub use config::{LinkProfile, NetworkConfig};
pub(super) use connect::Process;
pub(super) use pipe::Pipe;
pub use tap::{ConnectionInfo, Direction, End, NetworkTap};

use super::{Core, FaultKind, NodeId, lock, timer::now_ns};
use crate::decisions::Stream;
use listener::Backlog;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// How a process ends, as its peers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself: its kernel closes its sockets.
    Exit,
    /// Killed: its kernel resets its sockets.
    Kill,
    /// With its machine: silence.
    PowerFailure,
}

/// How much the network has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Segments with data that have arrived.
    pub delivered_segments: u64,
    /// The bytes in them.
    pub delivered_bytes: u64,
    /// Connections that were opened.
    pub connections: u64,
}

/// The network of a world.
pub struct Network {
    core: Arc<Core>,
    config: NetworkConfig,
    state: Mutex<State>,
    tap: Mutex<Option<Arc<dyn NetworkTap>>>,
    /// How many directions are cut and hosts without power: 0 on the fast path.
    impediments: AtomicUsize,
    delivered_segments: AtomicU64,
    delivered_bytes: AtomicU64,
}

struct State {
    hosts: Vec<Host>,
    names: BTreeMap<String, NodeId>,
    links: BTreeMap<(NodeId, NodeId), Link>,
    connections: BTreeMap<(u64, Direction), Weak<Pipe>>,
    next_connection: u64,
}

struct Host {
    live: Arc<AtomicU64>,
    powered: bool,
    listeners: BTreeMap<u16, Bound>,
    next_port: u16,
}

/// A listening socket, and who may reach it.
struct Bound {
    backlog: Arc<Backlog>,
    /// Bound to a loopback address: only the machine itself gets there.
    is_local: bool,
}

/// What is set for one direction between two machines.
#[derive(Clone, Copy, Default)]
struct Link {
    profile: Option<LinkProfile>,
    cut: bool,
    busy_until_ns: u64,
}

/// What becomes of a segment.
struct Transit {
    arrives_ns: u64,
    reset: bool,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({:?})", self.counters())
    }
}

impl Network {
    pub(super) fn new(core: Arc<Core>, config: NetworkConfig) -> Arc<Network> {
        let state = State {
            hosts: Vec::new(),
            names: BTreeMap::new(),
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
        };
        Arc::new(Network {
            core,
            config,
            state: Mutex::new(state),
            tap: Mutex::new(None),
            impediments: AtomicUsize::new(0),
            delivered_segments: AtomicU64::new(0),
            delivered_bytes: AtomicU64::new(0),
        })
    }

    pub(super) fn add_host(&self, node: NodeId, name: &str, live: Arc<AtomicU64>) {
        let mut state = lock(&self.state);
        assert_eq!(state.hosts.len(), node.index(), "machines are added in order");
        state.hosts.push(Host { live, powered: true, listeners: BTreeMap::new(), next_port: 0 });
        let taken = state.names.insert(name.to_owned(), node);
        assert!(taken.is_none(), "two machines are called {name}");
    }

    pub(super) fn process(self: &Arc<Self>, node: NodeId, incarnation: u64) -> Process {
        Process { network: self.clone(), node, incarnation }
    }

    /// Cuts one direction: what is sent from `from` to `to` is lost, and sent again later. Two calls make a full
    /// partition between two machines.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        if self.set_cut(from, to, true) {
            self.core.fault(from, FaultKind::Partition, &[("to", u64::from(to.0))]);
        }
    }

    /// Opens one direction again.
    pub fn mend(self: &Arc<Self>, from: NodeId, to: NodeId) {
        if self.set_cut(from, to, false) {
            self.core.event(from, "mend", &[("to", u64::from(to.0))]);
            self.retry_all();
        }
    }

    /// Cuts both directions between each machine of one side and each of the other.
    pub fn partition(&self, one_side: &[NodeId], other_side: &[NodeId]) {
        for one in one_side {
            for other in other_side {
                self.cut(*one, *other);
                self.cut(*other, *one);
            }
        }
    }

    /// Opens every direction again.
    pub fn mend_all(self: &Arc<Self>) {
        let cut: Vec<_> = {
            let state = lock(&self.state);
            state.links.iter().filter(|(_, link)| link.cut).map(|(ends, _)| *ends).collect()
        };
        for (from, to) in cut {
            self.mend(from, to);
        }
    }

    /// Whether a direction has been cut.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        lock(&self.state).links.get(&(from, to)).is_some_and(|link| link.cut)
    }

    /// Whether a direction has a profile of its own.
    pub fn is_custom(&self, from: NodeId, to: NodeId) -> bool {
        lock(&self.state).links.get(&(from, to)).is_some_and(|link| link.profile.is_some())
    }

    /// Sets what one direction is like from now on; `None` gives back the network's own profile.
    pub fn set_link(&self, from: NodeId, to: NodeId, profile: Option<LinkProfile>) {
        let custom = u64::from(profile.is_some());
        lock(&self.state).links.entry((from, to)).or_default().profile = profile;
        self.core.event(from, "link", &[("to", u64::from(to.0)), ("custom", custom)]);
    }

    /// Has `tap` listen in on connections that are opened from now on.
    pub fn set_tap(&self, tap: Option<Arc<dyn NetworkTap>>) {
        let old = std::mem::replace(&mut *lock(&self.tap), tap);
        drop(old);
    }

    /// How much has been done.
    pub fn counters(&self) -> NetworkCounters {
        NetworkCounters {
            delivered_segments: self.delivered_segments.load(Ordering::Relaxed),
            delivered_bytes: self.delivered_bytes.load(Ordering::Relaxed),
            connections: lock(&self.state).next_connection,
        }
    }

    /// How the network was set up.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    pub(super) fn power_up(self: &Arc<Self>, node: NodeId) {
        let was_off = !std::mem::replace(&mut lock(&self.state).hosts[node.index()].powered, true);
        if was_off {
            self.impediments.fetch_sub(1, Ordering::Relaxed);
            self.retry_all();
        }
    }

    /// The process of a machine is no more. Its incarnation has been taken back already.
    pub(super) fn process_ended(&self, node: NodeId, incarnation: u64, ending: Ending) {
        let listeners = {
            let mut state = lock(&self.state);
            let host = &mut state.hosts[node.index()];
            if ending == Ending::PowerFailure && std::mem::replace(&mut host.powered, false) {
                self.impediments.fetch_add(1, Ordering::Relaxed);
            }
            std::mem::take(&mut host.listeners)
        };
        let pipes = self.pipes();
        for pipe in &pipes {
            let writes = pipe.writer().node == node;
            if !writes {
                continue;
            }
            let of_this_process = pipe.writer().incarnation == incarnation;
            match ending {
                // What an earlier process had sent may still be on its way, and dies with the machine as well.
                Ending::PowerFailure => pipe.writer_lost_power(),
                Ending::Kill if of_this_process => pipe.writer_ended(true),
                Ending::Exit if of_this_process => pipe.writer_ended(self.has_unread(&pipes, pipe)),
                Ending::Kill | Ending::Exit => {}
            }
        }
        for pipe in pipes.iter().filter(|pipe| pipe.reader().node == node) {
            pipe.close();
        }
        drop((listeners, pipes));
    }

    fn has_unread(&self, pipes: &[Arc<Pipe>], outgoing: &Arc<Pipe>) -> bool {
        let incoming = pipes
            .iter()
            .find(|pipe| pipe.info.id == outgoing.info.id && pipe.direction != outgoing.direction);
        incoming.is_some_and(|pipe| pipe.has_unread())
    }

    fn pipes(&self) -> Vec<Arc<Pipe>> {
        lock(&self.state).connections.values().filter_map(Weak::upgrade).collect()
    }

    fn retry_all(&self) {
        for pipe in self.pipes() {
            pipe.retry();
        }
    }

    fn set_cut(&self, from: NodeId, to: NodeId, cut: bool) -> bool {
        let mut state = lock(&self.state);
        let link = state.links.entry((from, to)).or_default();
        let changes = link.cut != cut;
        if changes {
            link.cut = cut;
            let change = if cut { 1 } else { usize::MAX };
            self.impediments.fetch_add(change, Ordering::Relaxed);
        }
        changes
    }

    fn tap(&self) -> Option<Arc<dyn NetworkTap>> {
        lock(&self.tap).clone()
    }

    fn is_degraded(&self) -> bool {
        self.impediments.load(Ordering::Relaxed) > 0
    }

    /// Whether a segment that is about to arrive does.
    fn is_open(&self, from: NodeId, to: NodeId) -> bool {
        if !self.is_degraded() {
            return true;
        }
        let state = lock(&self.state);
        state.hosts[to.index()].powered && !state.links.get(&(from, to)).is_some_and(|link| link.cut)
    }

    fn live_incarnation(&self, node: NodeId) -> u64 {
        lock(&self.state).hosts[node.index()].live.load(Ordering::Relaxed)
    }

    /// Draws what becomes of a segment that is sent now.
    fn transit(&self, from: NodeId, to: NodeId, bytes: usize) -> Transit {
        let decisions = &self.core.decisions;
        let mut departs_ns = now_ns();
        let mut state = lock(&self.state);
        let link = if state.links.is_empty() { None } else { state.links.get_mut(&(from, to)) };
        let set = link.as_ref().and_then(|link| link.profile);
        let usual = if from == to { &self.config.loopback } else { &self.config.link };
        let profile = set.as_ref().unwrap_or(usual);
        if profile.bandwidth_bytes_per_second > 0 {
            let takes = bytes as u128 * 1_000_000_000 / u128::from(profile.bandwidth_bytes_per_second);
            let link = state.links.entry((from, to)).or_default();
            departs_ns = departs_ns.max(link.busy_until_ns) + takes as u64;
            link.busy_until_ns = departs_ns;
        }
        drop(state);
        let (low, high) = (profile.latency_min_us * 1_000, profile.latency_max_us * 1_000);
        let mut latency =
            if decisions.chance(Stream::NetworkLatency, "segment is of the tail", profile.tail_ppm) {
                let longest = (profile.tail_max_us * 1_000).max(high);
                decisions.draw(Stream::NetworkLatency, "latency of the tail", high, longest)
            } else {
                decisions.draw(Stream::NetworkLatency, "latency", low.min(high), high)
            };
        if decisions.chance(Stream::NetworkFault, "segment is lost", profile.loss_ppm) {
            self.core.fault(from, FaultKind::SegmentLoss, &[("to", u64::from(to.0))]);
            latency += self.config.retransmission_min_ms * 1_000_000;
        }
        let reset = decisions.chance(Stream::NetworkFault, "connection is reset", profile.reset_ppm);
        Transit { arrives_ns: departs_ns + latency, reset }
    }

    fn remember(&self, pipe: &Arc<Pipe>) {
        lock(&self.state).connections.insert((pipe.info.id, pipe.direction), Arc::downgrade(pipe));
    }

    fn forget(&self, connection: u64, direction: Direction) {
        lock(&self.state).connections.remove(&(connection, direction));
    }

    fn count_delivery(&self, bytes: usize) {
        self.delivered_segments.fetch_add(1, Ordering::Relaxed);
        self.delivered_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
