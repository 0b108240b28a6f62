//! A broker of a run: its configuration, its program, and what its oracle is told that it promises.

use super::{cluster::Cluster, disks::WorldDisks, ear::Ear, members};
use crate::{
    faults::{Fault, PlannedFault},
    oracle::{Contract, Oracle, groups::GroupContract},
    scenario::{CLIENT_PORT, DrawnConfig},
    world::{Boot, NodeId, World, boot, now_ns},
};
use sillon_broker::{config::BrokerConfig, observe::Observers};
use sillon_runtime::Runtime;
use std::{fmt::Write, sync::Arc};

/// Where each broker keeps its logs.
const LOG_DIRECTORY: &str = "/data";
/// Where each broker listens.
pub(super) const PORT: u16 = 9092;

/// The judge of the brokers of a configuration.
pub(super) fn oracle(world: &Arc<World>, config: &DrawnConfig, plan: &[PlannedFault]) -> Arc<Oracle> {
    let jumps = plan.iter().any(|planned| matches!(planned.fault, Fault::ClockJump(_)));
    let mut contract = contract(config, members::drift_ppm(config, plan));
    if let Some(groups) = &mut contract.groups {
        groups.wall_clocks_differ = jumps || config.clocks.iter().any(|clock| clock.wall_offset_ns != 0);
    }
    Oracle::new(Arc::new(now_ns), WorldDisks::of(world), contract)
}

/// What runs on a broker's machine.
pub(super) fn program(cluster: &Arc<Cluster>, node: u32) -> Boot {
    let (config, _warnings) = BrokerConfig::from_properties(&properties(cluster, node), "scenario")
        .expect("the scenario's properties were checked when it was read");
    let cluster = Arc::downgrade(cluster);
    boot(move |runtime| {
        let (cluster, config) = (cluster.clone(), config.clone());
        async move {
            if let Some(cluster) = cluster.upgrade() {
                serve(&cluster, node, runtime, config).await;
            }
        }
    })
}

async fn serve(cluster: &Cluster, node: u32, runtime: Runtime, config: BrokerConfig) {
    let Some(world) = cluster.world.upgrade() else { return };
    let Some(oracle) = cluster.judges.brokers.clone() else { return };
    let asked = cluster.begin(node);
    let ear = Ear {
        world: cluster.world.clone(),
        node: NodeId(node),
        incarnation: world.incarnations(NodeId(node)),
        judges: cluster.judges.clone(),
        inner: oracle.observer(node),
        violated: cluster.news.clone(),
    };
    drop(world);
    let result = sillon_broker::run(runtime, config, Observers::new(Arc::new(ear)), asked).await;
    cluster.exited(node, result.err().map(|error| error.to_string()));
}

fn properties(cluster: &Cluster, node: u32) -> String {
    let mut text = String::new();
    let mut set =
        |name: &str, value: &str| writeln!(text, "{name}={value}").expect("a string takes everything");
    for (name, value) in &cluster.config.broker_properties {
        set(name, value);
    }
    let topics = &cluster.config.topics;
    set("default.replication.factor", &topics.replication_factor.to_string());
    set("min.insync.replicas", &topics.min_insync_replicas.to_string());
    set("broker.id", &node.to_string());
    set("listeners", &format!("PLAINTEXT://0.0.0.0:{PORT}"));
    set("advertised.listeners", &format!("PLAINTEXT://{}:{PORT}", cluster.machines.name(node)));
    set("log.dirs", LOG_DIRECTORY);
    if let Some(rack) = cluster.config.racks.get(node as usize) {
        set("broker.rack", rack);
    }
    // Without an ensemble a broker runs a coordinator of its own, inside its process.
    let machines = cluster.machines;
    if machines.members > 0 {
        let member = |node| format!("{}:{CLIENT_PORT}", machines.name(node));
        let members: Vec<String> = (machines.brokers..machines.count()).map(member).collect();
        set("zookeeper.connect", &members.join(","));
    }
    text
}

/// What the brokers of a configuration promise.
fn contract(config: &DrawnConfig, drift_ppm: u64) -> Contract {
    let topic = |name: &str| config.topics.properties.get(name).map(String::as_str);
    let broker = |name: &str| config.broker_properties.get(name).map(String::as_str);
    let value = |of_topic: &str, of_broker: &str| topic(of_topic).or(broker(of_broker)).map(str::to_string);
    let flush = value("flush.messages", "log.flush.interval.messages");
    let compression = value("compression.type", "compression.type");
    let timestamps = value("message.timestamp.type", "log.message.timestamp.type");
    let unclean = value("unclean.leader.election.enable", "unclean.leader.election.enable");
    let default = Contract::default();
    let milliseconds = |name: &str, otherwise_ns: u64| {
        broker(name).and_then(|text| text.parse().ok()).map_or(otherwise_ns, |ms: u64| ms * 1_000_000)
    };
    let coordinator_within_ns =
        config.ensemble.as_ref().map_or(default.coordinator_within_ns, super::members::leader_within_ns);
    Contract {
        log_directory: LOG_DIRECTORY.into(),
        flush_every_message: flush.as_deref() == Some("1"),
        stored_as_sent: compression.as_deref().is_none_or(|codec| codec == "producer")
            && timestamps.as_deref().is_none_or(|kind| kind == "CreateTime"),
        produce_within_ns: config.liveness_ns / 2,
        catch_up_within_ns: config.liveness_ns,
        brokers: config.brokers,
        replication_factor: config.topics.replication_factor as usize,
        min_insync_replicas: config.topics.min_insync_replicas as usize,
        unclean_election: unclean.as_deref() == Some("true"),
        follower_reads: broker("replica.selector.class").is_some_and(|class| !class.is_empty()),
        replica_lag_ns: milliseconds("replica.lag.time.max.ms", default.replica_lag_ns),
        replica_fetch_wait_ns: milliseconds("replica.fetch.wait.max.ms", default.replica_fetch_wait_ns),
        session_timeout_ns: milliseconds("zookeeper.session.timeout.ms", default.session_timeout_ns),
        coordinator_within_ns,
        clock_drift_ppm: drift_ppm,
        quiet_after_ns: config.liveness_ns * 3 / 4,
        groups: (config.groups.count > 0)
            .then(|| group_contract(config, broker("offsets.retention.minutes").map(str::to_owned))),
        ..default
    }
}

/// What is promised of the run's consumer groups.
fn group_contract(config: &DrawnConfig, retention_minutes: Option<String>) -> GroupContract {
    const MINUTE_NS: u64 = 60_000_000_000;
    let groups = &config.groups;
    GroupContract {
        session_timeout_ns: groups.session_timeout_ns,
        // A member has as long to join again as it may take between two polls.
        rebalance_timeout_ns: groups.max_poll_interval_ns,
        offsets_retention_ns: retention_minutes
            .and_then(|text| text.parse().ok())
            .map(|minutes: u64| minutes * MINUTE_NS),
        wall_clocks_differ: false,
        delivery: groups.delivery,
    }
}
