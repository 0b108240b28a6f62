//! The servers of a run: how each is started, asked to stop and ends. Owns their lives; what a server is made of is in
//! `brokers` and `members`, what strikes them in `act`.

use super::{brokers, conditions::MembersWorld, file_faults, judges::Judges, members};
use crate::{
    faults::{Machines, PlannedFault},
    oracle::Stop,
    profile::Part,
    scenario::DrawnConfig,
    world::{DiskFaults, LinkProfile, NetworkConfig, NodeId, Retention, World, WorldConfig, now_ns},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, oneshot};

/// The servers of a run.
pub(super) struct Cluster {
    pub world: Weak<World>,
    pub judges: Arc<Judges>,
    pub config: DrawnConfig,
    pub machines: Machines,
    /// Told when something happened that the director of the run has to look at.
    pub news: Arc<Notify>,
    servers: Mutex<Vec<Server>>,
}

#[derive(Default)]
struct Server {
    stop: Option<oneshot::Sender<()>>,
    asked_to_stop: bool,
    exits: Vec<Exit>,
}

/// How a process of a server ended by itself.
#[derive(Clone, Debug)]
pub(super) struct Exit {
    pub node: u32,
    pub at_ns: u64,
    /// Whether it had been asked to.
    pub asked: bool,
    /// What it could not do.
    pub error: Option<String>,
}

impl Cluster {
    /// Adds the machines. Nothing runs yet.
    pub fn new(world: &Arc<World>, config: &DrawnConfig, plan: &[PlannedFault]) -> Arc<Cluster> {
        let machines = config.machines();
        let of_brokers = (machines.brokers > 0).then(|| brokers::oracle(world, config, plan));
        let members_world = MembersWorld::of(world, config);
        let of_members =
            config.ensemble.as_ref().map(|ensemble| members::oracle(&members_world, config, ensemble, plan));
        let cluster = Arc::new(Cluster {
            world: Arc::downgrade(world),
            judges: Judges::new(machines, of_brokers, of_members, members_world),
            config: config.clone(),
            machines,
            news: Arc::default(),
            servers: Mutex::new((0..machines.count()).map(|_| Server::default()).collect()),
        });
        for (index, clock) in (0..machines.count()).zip(&config.clocks) {
            let program = match &config.ensemble {
                Some(ensemble) if machines.is_member(index) => members::program(&cluster, ensemble, index),
                _ => brokers::program(&cluster, index),
            };
            let node = world.add_node(&machines.name(index), program);
            assert_eq!(node, NodeId(index), "servers are the first machines");
            let part = if machines.is_member(index) { Part::Coordinators } else { Part::Brokers };
            world.set_part(node, part);
            if clock.wall_offset_ns != 0 {
                world.jump_wall_clock(node, clock.wall_offset_ns / 1_000_000);
            }
            if clock.drift_parts_per_million != 0 {
                world.set_drift(node, clock.drift_parts_per_million);
            }
        }
        cluster
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Server>> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins: what it is to wait for until it is asked to stop.
    pub fn begin(&self, node: u32) -> impl Future<Output = ()> + Send + use<> {
        let (stop, stopped) = oneshot::channel();
        self.lock()[node as usize].stop = Some(stop);
        async move {
            // The sender goes away only with the process itself.
            let _ = stopped.await;
        }
    }

    /// A process ended by itself, and knows how.
    pub fn exited(&self, node: u32, error: Option<String>) {
        let asked = {
            let server = &mut self.lock()[node as usize];
            server.stop = None;
            server.asked_to_stop
        };
        let stop = if error.is_none() { Stop::Controlled } else { Stop::Failed };
        if let Some(world) = self.world.upgrade() {
            world.event_with_detail(NodeId(node), "exit", &[("asked", u64::from(asked))], || {
                error.clone().unwrap_or_else(|| "as asked".to_string())
            });
        }
        if let Some(world) = self.world.upgrade() {
            file_faults::tell(&world, &self.judges);
        }
        self.judges.node_stopped(node, stop);
        self.lock()[node as usize].exits.push(Exit { node, at_ns: now_ns(), asked, error });
        self.news.notify_one();
    }

    /// Asks a server to stop, as SIGTERM does. False where it was asked already, or does not run.
    pub fn ask_to_stop(&self, node: u32) -> bool {
        let server = &mut self.lock()[node as usize];
        let asked = server.stop.take().is_some_and(|stop| stop.send(()).is_ok());
        server.asked_to_stop |= asked;
        if asked {
            self.judges.node_asked_to_stop(node);
        }
        asked
    }

    /// Whether a server that runs was asked to stop.
    pub fn was_asked_to_stop(&self, node: u32) -> bool {
        self.lock()[node as usize].asked_to_stop
    }

    /// Starts a server on a machine where nothing runs.
    pub fn start(&self, world: &Arc<World>, node: u32) {
        self.lock()[node as usize].asked_to_stop = false;
        self.judges.node_starting(node);
        world.start(NodeId(node));
    }

    /// The process is gone and has told nobody.
    pub fn forget(&self, node: u32) {
        let gone = self.lock()[node as usize].stop.take();
        drop(gone);
    }

    /// How processes have ended by themselves since this was last asked.
    pub fn take_exits(&self) -> Vec<Exit> {
        self.lock().iter_mut().flat_map(|server| std::mem::take(&mut server.exits)).collect()
    }
}

/// The world that a configuration asks for.
pub(super) fn world_config(config: &DrawnConfig, retention: Retention) -> WorldConfig {
    let network = &config.network;
    let link = LinkProfile {
        latency_min_us: network.latency_ns.0 / 1_000,
        latency_max_us: network.latency_ns.1.div_ceil(1_000),
        bandwidth_bytes_per_second: network.bytes_per_second,
        ..LinkProfile::DATA_CENTRE
    };
    let window_bytes = usize::try_from(network.buffer_bytes).expect("a buffer fits into memory");
    WorldConfig {
        network: NetworkConfig { link, window_bytes, ..NetworkConfig::default() },
        disk: disk_without_faults(config),
        retention,
    }
}

/// A disk as it is while no fault is on.
pub(super) fn disk_without_faults(config: &DrawnConfig) -> DiskFaults {
    let disk = &config.disk;
    let us = |(from, to): (u64, u64)| (from / 1_000, to.div_ceil(1_000));
    DiskFaults {
        capacity_bytes: Some(disk.capacity_bytes),
        read_latency_us: us(disk.read_latency_ns),
        write_latency_us: us(disk.write_latency_ns),
        sync_latency_us: us(disk.sync_latency_ns),
        ..DiskFaults::default()
    }
}
