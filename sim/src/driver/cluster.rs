//! The brokers of a run: how each is configured, boots and ends. Owns their lives; what strikes them is in `act`.

use super::{disks::WorldDisks, ear::Ear, file_faults};
use crate::{
    oracle::{Contract, Oracle, Stop},
    scenario::DrawnConfig,
    world::{
        Boot, DiskFaults, LinkProfile, NetworkConfig, NodeId, Retention, World, WorldConfig, boot, now_ns,
    },
};
use sillon_broker::{config::BrokerConfig, observe::Observers};
use sillon_runtime::Runtime;
use std::{
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::{Notify, oneshot};

/// Where each broker keeps its logs.
pub(super) const LOG_DIRECTORY: &str = "/data";
/// Where each broker listens.
pub(super) const PORT: u16 = 9092;

/// The brokers of a run.
pub(super) struct Cluster {
    pub world: Weak<World>,
    pub oracle: Arc<Oracle>,
    pub config: DrawnConfig,
    /// Told when something happened that the director of the run has to look at.
    pub news: Arc<Notify>,
    brokers: Mutex<Vec<Broker>>,
}

#[derive(Default)]
struct Broker {
    stop: Option<oneshot::Sender<()>>,
    asked_to_stop: bool,
    exits: Vec<Exit>,
}

/// How a process of a broker ended by itself.
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
    pub fn new(world: &Arc<World>, config: &DrawnConfig) -> Arc<Cluster> {
        let oracle = Oracle::new(Arc::new(now_ns), WorldDisks::of(world), contract(config));
        let brokers = (0..config.brokers).map(|_| Broker::default()).collect();
        let cluster = Arc::new(Cluster {
            world: Arc::downgrade(world),
            oracle,
            config: config.clone(),
            news: Arc::default(),
            brokers: Mutex::new(brokers),
        });
        for (index, clock) in (0..config.brokers).zip(&config.clocks) {
            let node = world.add_node(&host(index), cluster.program(index));
            assert_eq!(node, NodeId(index), "brokers are the first machines");
            if clock.wall_offset_ns != 0 {
                world.jump_wall_clock(node, clock.wall_offset_ns / 1_000_000);
            }
            if clock.drift_parts_per_million != 0 {
                world.set_drift(node, clock.drift_parts_per_million);
            }
        }
        cluster
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Broker>> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What runs on a broker's machine.
    fn program(self: &Arc<Cluster>, node: u32) -> Boot {
        let (config, _warnings) = BrokerConfig::from_properties(&properties(&self.config, node), "scenario")
            .expect("the scenario's properties were checked when it was read");
        let cluster = Arc::downgrade(self);
        boot(move |runtime| {
            let (cluster, config) = (cluster.clone(), config.clone());
            async move {
                if let Some(cluster) = cluster.upgrade() {
                    cluster.serve(node, runtime, config).await;
                }
            }
        })
    }

    async fn serve(&self, node: u32, runtime: Runtime, config: BrokerConfig) {
        let Some(world) = self.world.upgrade() else { return };
        let (stop, stopped) = oneshot::channel();
        self.lock()[node as usize].stop = Some(stop);
        let ear = Ear {
            world: self.world.clone(),
            node: NodeId(node),
            incarnation: world.incarnations(NodeId(node)),
            oracle: self.oracle.clone(),
            inner: self.oracle.observer(node),
            violated: self.news.clone(),
        };
        drop(world);
        let asked = async move {
            // The sender goes away only with the process itself.
            let _ = stopped.await;
        };
        let result = sillon_broker::run(runtime, config, Observers::new(Arc::new(ear)), asked).await;
        self.exited(node, result.err().map(|error| error.to_string()));
    }

    /// A process ended by itself, and knows how.
    fn exited(&self, node: u32, error: Option<String>) {
        let asked = {
            let broker = &mut self.lock()[node as usize];
            broker.stop = None;
            broker.asked_to_stop
        };
        let stop = if error.is_none() { Stop::Controlled } else { Stop::Failed };
        if let Some(world) = self.world.upgrade() {
            world.event_with_detail(NodeId(node), "exit", &[("asked", u64::from(asked))], || {
                error.clone().unwrap_or_else(|| "as asked".to_string())
            });
        }
        if let Some(world) = self.world.upgrade() {
            file_faults::tell(&world, &self.oracle);
        }
        self.oracle.node_stopped(node, stop);
        self.lock()[node as usize].exits.push(Exit { node, at_ns: now_ns(), asked, error });
        self.news.notify_one();
    }

    /// Asks a broker to stop, as SIGTERM does. False where it was asked already, or does not run.
    pub fn ask_to_stop(&self, node: u32) -> bool {
        let broker = &mut self.lock()[node as usize];
        let asked = broker.stop.take().is_some_and(|stop| stop.send(()).is_ok());
        broker.asked_to_stop |= asked;
        asked
    }

    /// Whether a broker that runs was asked to stop.
    pub fn was_asked_to_stop(&self, node: u32) -> bool {
        self.lock()[node as usize].asked_to_stop
    }

    /// Starts a broker on a machine where nothing runs.
    pub fn start(&self, world: &Arc<World>, node: u32) {
        self.lock()[node as usize].asked_to_stop = false;
        self.oracle.node_starting(node);
        world.start(NodeId(node));
    }

    /// The process is gone and has told nobody.
    pub fn forget(&self, node: u32) {
        let gone = self.lock()[node as usize].stop.take();
        drop(gone);
    }

    /// How processes have ended by themselves since this was last asked.
    pub fn take_exits(&self) -> Vec<Exit> {
        self.lock().iter_mut().flat_map(|broker| std::mem::take(&mut broker.exits)).collect()
    }
}

/// The host name of a broker's machine.
pub(super) fn host(node: u32) -> String {
    format!("n{node}")
}

fn properties(config: &DrawnConfig, node: u32) -> String {
    let mut text = String::new();
    let mut set =
        |name: &str, value: &str| writeln!(text, "{name}={value}").expect("a string takes everything");
    for (name, value) in &config.broker_properties {
        set(name, value);
    }
    set("broker.id", &node.to_string());
    set("listeners", &format!("PLAINTEXT://0.0.0.0:{PORT}"));
    set("advertised.listeners", &format!("PLAINTEXT://{}:{PORT}", host(node)));
    set("log.dirs", LOG_DIRECTORY);
    text
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

/// What the brokers of a configuration promise.
fn contract(config: &DrawnConfig) -> Contract {
    let topic = |name: &str| config.topics.properties.get(name).map(String::as_str);
    let broker = |name: &str| config.broker_properties.get(name).map(String::as_str);
    let value = |of_topic: &str, of_broker: &str| topic(of_topic).or(broker(of_broker)).map(str::to_string);
    let flush = value("flush.messages", "log.flush.interval.messages");
    let compression = value("compression.type", "compression.type");
    let timestamps = value("message.timestamp.type", "log.message.timestamp.type");
    Contract {
        log_directory: LOG_DIRECTORY.into(),
        flush_every_message: flush.as_deref() == Some("1"),
        stored_as_sent: compression.as_deref().is_none_or(|codec| codec == "producer")
            && timestamps.as_deref().is_none_or(|kind| kind == "CreateTime"),
        produce_within_ns: config.liveness_ns / 2,
        catch_up_within_ns: config.liveness_ns,
        ..Contract::default()
    }
}
