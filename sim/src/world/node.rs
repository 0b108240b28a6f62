//! One simulated machine, as its tasks, files and clocks see it. Owns the state that they share; its life is
//! directed by `process`.

use super::{NodeId, clock::Clock, disk::Disk};
use crate::profile::Part;
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What runs on a machine at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing has been started yet.
    New,
    /// A process runs.
    Running,
    /// A process stands still.
    Paused,
    /// The process ended by itself.
    Exited,
    /// The process was killed.
    Killed,
    /// The process panicked.
    Panicked,
    /// The machine has no power.
    PoweredOff,
}

impl Status {
    /// Whether there is a process, running or paused.
    pub fn is_alive(self) -> bool {
        matches!(self, Status::Running | Status::Paused)
    }
}

/// A machine.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) name: String,
    pub(super) clock: Arc<Clock>,
    pub(super) disk: Arc<Disk>,
    /// How often the machine was powered up.
    boots: AtomicU64,
    /// What its CPU time counts for.
    part: AtomicU64,
    /// Which process is alive; 0 for none. Incarnations count from 1.
    live: Arc<AtomicU64>,
    slow_low_ns: AtomicU64,
    slow_high_ns: AtomicU64,
}

impl Node {
    pub(super) fn new(id: NodeId, name: &str, disk: Arc<Disk>, live: Arc<AtomicU64>) -> Node {
        Node {
            id,
            name: name.to_owned(),
            clock: Arc::new(Clock::new(id)),
            disk,
            boots: AtomicU64::new(0),
            part: AtomicU64::new(Part::Clients as u64),
            live,
            slow_low_ns: AtomicU64::new(0),
            slow_high_ns: AtomicU64::new(0),
        }
    }

    pub(super) fn live_incarnation(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    pub(super) fn set_live_incarnation(&self, incarnation: u64) {
        self.live.store(incarnation, Ordering::Relaxed);
    }

    pub(super) fn boots(&self) -> u64 {
        self.boots.load(Ordering::Relaxed)
    }

    pub(super) fn count_boot(&self) {
        self.boots.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn part(&self) -> Part {
        Part::ALL[self.part.load(Ordering::Relaxed) as usize]
    }

    pub(super) fn set_part(&self, part: Part) {
        self.part.store(part as u64, Ordering::Relaxed);
    }

    /// How long a step of a task takes, from and to; nothing for a processor of full speed.
    pub(super) fn slowness_ns(&self) -> Option<(u64, u64)> {
        let high = self.slow_high_ns.load(Ordering::Relaxed);
        (high > 0).then(|| (self.slow_low_ns.load(Ordering::Relaxed).min(high), high))
    }

    pub(super) fn set_slowness_us(&self, low_us: u64, high_us: u64) {
        self.slow_low_ns.store(low_us * 1_000, Ordering::Relaxed);
        self.slow_high_ns.store(high_us * 1_000, Ordering::Relaxed);
    }
}

/// The address of a machine: 10.0.x.y.
pub(super) fn address_of(node: NodeId) -> IpAddr {
    let number = node.0 + 1;
    IpAddr::V4(Ipv4Addr::new(10, (number >> 16) as u8, (number >> 8) as u8, number as u8))
}

/// The machine with an address.
pub(super) fn node_of(address: IpAddr) -> Option<NodeId> {
    let IpAddr::V4(address) = address else { return None };
    let [10, high, middle, low] = address.octets() else { return None };
    u32::from_be_bytes([0, high, middle, low]).checked_sub(1).map(NodeId)
}
