//! What one seed makes of a scenario: every value explicit, nothing left to draw but what the world's tapes decide.
//!
//! Owns the drawn configuration, which a bundle keeps as it is. Never runs anything.

use super::{
    Scenario,
    cluster::{self, DrawnHeal},
    ensemble::{self, DrawnEnsemble},
    groups,
    model::Choices,
    units::{Between, Count, human_bytes, human_nanos},
};
use crate::{
    faults::{Draws, FaultKind, Machines, PlannedFault, draw_plan},
    workload::{AdminConfig, GroupsConfig, WorkloadConfig},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};
use toml::Spanned;

/// The configuration of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnConfig {
    /// How many brokers, each on a machine of its own: nodes 0 to `brokers − 1`. The ensemble's members follow.
    pub brokers: u32,
    /// The rack of each broker; empty where they stand in none.
    pub racks: Vec<String>,
    /// `server.properties`, but for what names the machine.
    pub broker_properties: BTreeMap<String, String>,
    /// The topics.
    pub topics: DrawnTopics,
    /// The clients.
    pub workload: WorkloadConfig,
    /// The operator.
    pub admin: AdminConfig,
    /// The consumer groups.
    pub groups: GroupsConfig,
    /// The network while no fault is on.
    pub network: DrawnNetwork,
    /// The disks while no fault is on.
    pub disk: DrawnDisk,
    /// The coordinator ensemble.
    pub ensemble: Option<DrawnEnsemble>,
    /// Each server's clock at the start.
    pub clocks: Vec<DrawnClock>,
    /// The phase with faults, in nanoseconds.
    pub safety_ns: u64,
    /// The longest time for recovery after the last fault, in nanoseconds.
    pub heal_ns: u64,
    /// What is whole again when faults end.
    pub heal: DrawnHeal,
    /// The phase without faults, in nanoseconds.
    pub liveness_ns: u64,
    /// Kinds of fault that the scenario has and this seed leaves out.
    pub without: Vec<FaultKind>,
}

/// The topics of one run: `sim-0`, `sim-1`, …
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnTopics {
    /// How many.
    pub count: u32,
    /// Partitions of each.
    pub partitions: u32,
    /// Replicas of each partition.
    pub replication_factor: u32,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u32,
    /// The topics' other properties.
    pub properties: BTreeMap<String, String>,
}

/// The network of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnNetwork {
    /// The shortest and the longest time a segment takes, in nanoseconds.
    pub latency_ns: (u64, u64),
    /// Bandwidth of a connection, in bytes per second.
    pub bytes_per_second: u64,
    /// What a connection buffers in each direction, in bytes.
    pub buffer_bytes: u64,
}

/// The disks of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnDisk {
    /// The shortest and the longest read, in nanoseconds.
    pub read_latency_ns: (u64, u64),
    /// The shortest and the longest write, in nanoseconds.
    pub write_latency_ns: (u64, u64),
    /// The shortest and the longest sync, in nanoseconds.
    pub sync_latency_ns: (u64, u64),
    /// The disk's size, in bytes.
    pub capacity_bytes: u64,
}

/// A machine's clock at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnClock {
    /// How far the wall clock is ahead, in nanoseconds.
    pub wall_offset_ns: i64,
    /// How much too fast both clocks run, in parts per million.
    pub drift_parts_per_million: i64,
}

/// How likely the swarm leaves a fault kind out.
const LEAVE_OUT_PROBABILITY: f64 = 0.35;

impl DrawnConfig {
    /// The servers: what is broker, what is member, and their names.
    pub fn machines(&self) -> Machines {
        let members = self.ensemble.as_ref().map_or(0, |ensemble| ensemble.members);
        Machines { brokers: self.brokers, members }
    }
}

impl Scenario {
    /// Draws a seed's configuration and fault plan.
    pub fn draw(&self, seed: u64) -> (DrawnConfig, Vec<PlannedFault>) {
        let config = self.draw_config(seed);
        let plan =
            draw_plan(seed, &self.rates, &self.script, config.machines(), config.safety_ns, &config.without);
        (config, plan)
    }

    fn draw_config(&self, seed: u64) -> DrawnConfig {
        let file = &self.file;
        let mut draws = Draws::new(seed, "configuration");
        let mut broker_properties =
            file.cluster.as_ref().map(|cluster| plain(&cluster.properties)).unwrap_or_default();
        override_properties(&mut broker_properties, &file.swarm.broker_properties, &mut draws);
        let mut properties = plain(&file.topics.properties);
        override_properties(&mut properties, &file.swarm.topic_properties, &mut draws);
        let cluster::DrawnBrokers { count: brokers, racks, heal } = cluster::draw(file, seed);
        let ensemble = ensemble::draw(file, seed);
        let servers = brokers + ensemble.as_ref().map_or(0, |ensemble| ensemble.members);
        let topics = self.draw_topics(seed, brokers, properties);
        let workload = self.draw_workload(&mut draws);
        let (network, disk) = self.draw_machines(&mut draws);
        let (offset, drift) =
            (*file.clocks.wall_offset.get_ref(), *file.clocks.drift_parts_per_million.get_ref());
        let clock = |_| DrawnClock {
            wall_offset_ns: draws.within_signed(Between { from: offset.from.0, to: offset.to.0 }),
            drift_parts_per_million: draws.within_signed(Between { from: drift.from.0, to: drift.to.0 }),
        };
        let clocks = (0..servers).map(clock).collect();
        DrawnConfig {
            brokers,
            racks,
            broker_properties,
            topics,
            workload,
            admin: cluster::admin(file),
            groups: groups::draw(file, seed),
            network,
            disk,
            ensemble,
            clocks,
            safety_ns: file.phases.safety.get_ref().0,
            heal_ns: file.phases.heal.get_ref().0,
            heal,
            liveness_ns: file.phases.liveness.get_ref().0,
            without: self.draw_left_out(seed),
        }
    }

    /// From a stream of its own. What a seed has no brokers or replicas for is cut down to what it has.
    fn draw_topics(&self, seed: u64, brokers: u32, properties: BTreeMap<String, String>) -> DrawnTopics {
        let mut draws = Draws::new(seed, "topics");
        let (topics, swarm) = (&self.file.topics, &self.file.swarm.topics);
        let mut number =
            |value: &Spanned<Count>, choices: &Option<_>| count(choose(value, choices, &mut draws).0);
        let (topic_count, partitions) =
            (number(&topics.count, &swarm.count), number(&topics.partitions, &swarm.partitions));
        let replication_factor = number(&topics.replication_factor, &swarm.replication_factor);
        let min_insync_replicas = number(&topics.min_insync_replicas, &swarm.min_insync_replicas);
        let replication_factor = replication_factor.min(brokers.max(1));
        DrawnTopics {
            count: topic_count,
            partitions,
            replication_factor,
            min_insync_replicas: min_insync_replicas.min(replication_factor),
            properties,
        }
    }

    fn draw_workload(&self, draws: &mut Draws) -> WorkloadConfig {
        let (file, swarm) = (&self.file.workload, &self.file.swarm.workload);
        let batch = choose(&file.batch_records, &swarm.batch_records, draws);
        let value = choose(&file.value_bytes, &swarm.value_bytes, draws);
        WorkloadConfig {
            producers: count(choose(&file.producers, &swarm.producers, draws).0),
            readers: count(choose(&file.readers, &swarm.readers, draws).0),
            records_per_second: choose(&file.records_per_second, &swarm.records_per_second, draws),
            batch_records: (count(batch.from.0), count(batch.to.0)),
            value_bytes: (count(value.from.0), count(value.to.0)),
            acks: choose(&file.acks, &swarm.acks, draws).on_wire(),
            idempotence: choose(&file.idempotence, &swarm.idempotence, draws),
            in_flight: count(choose(&file.in_flight, &swarm.in_flight, draws).0),
            compression: choose(&file.compression, &swarm.compression, draws),
            request_timeout_ns: choose(&file.request_timeout, &swarm.request_timeout, draws).0,
            delivery_timeout_ns: file.delivery_timeout.get_ref().0,
            fetch_wait_ns: file.fetch_wait.get_ref().0,
            read_from_followers: *file.read_from_followers.get_ref(),
            latest_every_ns: file.latest_every.get_ref().0,
        }
    }

    fn draw_machines(&self, draws: &mut Draws) -> (DrawnNetwork, DrawnDisk) {
        let (network, disk, swarm) = (&self.file.network, &self.file.disk, &self.file.swarm);
        let ends = |range: Between<super::units::Nanos>| (range.from.0, range.to.0);
        let network = DrawnNetwork {
            latency_ns: ends(choose(&network.latency, &swarm.network.latency, draws)),
            bytes_per_second: network.bytes_per_second.get_ref().0,
            buffer_bytes: choose(&network.buffer_bytes, &swarm.network.buffer_bytes, draws).0,
        };
        let disk = DrawnDisk {
            read_latency_ns: ends(*disk.read_latency.get_ref()),
            write_latency_ns: ends(choose(&disk.write_latency, &swarm.disk.write_latency, draws)),
            sync_latency_ns: ends(choose(&disk.sync_latency, &swarm.disk.sync_latency, draws)),
            capacity_bytes: disk.capacity_bytes.get_ref().0,
        };
        (network, disk)
    }

    /// The kinds this seed leaves out. At least one stays: a run without any fault shows little.
    fn draw_left_out(&self, seed: u64) -> Vec<FaultKind> {
        if !self.file.swarm.fault_mix || self.rates.is_empty() {
            return Vec::new();
        }
        let mut draws = Draws::new(seed, "fault-mix");
        let spared = draws.choose(&self.rates).kind;
        let left_out = |kind: &FaultKind| *kind != spared;
        self.rates
            .iter()
            .map(|rate| rate.kind)
            .filter(|_| draws.chance(LEAVE_OUT_PROBABILITY))
            .filter(left_out)
            .collect()
    }
}

pub(super) fn count(number: u64) -> u32 {
    u32::try_from(number).expect("a checked scenario has no larger numbers")
}

pub(super) fn plain(properties: &super::model::Properties) -> BTreeMap<String, String> {
    properties.iter().map(|(name, value)| (name.get_ref().clone(), value.get_ref().0.clone())).collect()
}

pub(super) fn override_properties(
    properties: &mut BTreeMap<String, String>,
    choices: &BTreeMap<Spanned<String>, Choices>,
    draws: &mut Draws,
) {
    for (name, values) in choices {
        properties.insert(name.get_ref().clone(), draws.choose(values.get_ref()).0.clone());
    }
}

/// The file's value, or one of the swarm's where it has some.
pub(super) fn choose<T: Clone>(
    value: &Spanned<T>,
    choices: &Option<Spanned<Vec<T>>>,
    draws: &mut Draws,
) -> T {
    match choices {
        Some(choices) => draws.choose(choices.get_ref()).clone(),
        None => value.get_ref().clone(),
    }
}

/// A few lines for people, each `name  value`.
impl fmt::Display for DrawnConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = |map: &BTreeMap<String, String>| match map.is_empty() {
            true => "as by default".to_string(),
            false => map.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "),
        };
        let range = |(from, to): (u64, u64)| match from == to {
            true => human_nanos(from),
            false => format!("{}..{}", human_nanos(from), human_nanos(to)),
        };
        if self.brokers > 0 {
            self.describe_brokers(f, &pairs)?;
        }
        if let Some(ensemble) = &self.ensemble {
            let sessions = &ensemble.sessions;
            let names: Vec<&str> = sessions.activities.iter().map(|activity| activity.name()).collect();
            writeln!(f, "members     {}: {}", ensemble.members, pairs(&ensemble.properties))?;
            writeln!(
                f,
                "sessions    {} clients, {} operations/s, timeout {}, {} nodes of each kind",
                sessions.clients,
                sessions.operations_per_second,
                human_nanos(sessions.timeout_ns),
                sessions.nodes,
            )?;
            writeln!(f, "            {}", names.join(", "))?;
        }
        writeln!(f, "network     latency {}", range(self.network.latency_ns))?;
        writeln!(
            f,
            "disk        read {}, write {}, sync {}",
            range(self.disk.read_latency_ns),
            range(self.disk.write_latency_ns),
            range(self.disk.sync_latency_ns)
        )?;
        write!(
            f,
            "phases      safety {}, heal {}{}, liveness {}",
            human_nanos(self.safety_ns),
            human_nanos(self.heal_ns),
            if self.heal.core { " of the core alone" } else { "" },
            human_nanos(self.liveness_ns)
        )?;
        if !self.without.is_empty() {
            let names: Vec<&str> = self.without.iter().map(|kind| kind.name()).collect();
            write!(f, "\nwithout     {}", names.join(", "))?;
        }
        Ok(())
    }
}

impl DrawnConfig {
    fn describe_brokers(
        &self,
        f: &mut fmt::Formatter<'_>,
        pairs: &dyn Fn(&BTreeMap<String, String>) -> String,
    ) -> fmt::Result {
        let (topics, workload) = (&self.topics, &self.workload);
        writeln!(f, "brokers     {}: {}", self.brokers, pairs(&self.broker_properties))?;
        writeln!(
            f,
            "topics      {} of {} partitions, {} replicas, {} in sync at least: {}",
            topics.count,
            topics.partitions,
            topics.replication_factor,
            topics.min_insync_replicas,
            pairs(&topics.properties)
        )?;
        writeln!(
            f,
            "workload    {} producers, {} readers, {} records/s in batches of {}..{}, values {}..{}",
            workload.producers,
            workload.readers,
            workload.records_per_second,
            workload.batch_records.0,
            workload.batch_records.1,
            human_bytes(u64::from(workload.value_bytes.0)),
            human_bytes(u64::from(workload.value_bytes.1)),
        )?;
        writeln!(
            f,
            "            acks {}, idempotence {}, {} in flight, compression {:?}, request timeout {}",
            if workload.acks == -1 { "all".to_string() } else { workload.acks.to_string() },
            workload.idempotence,
            workload.in_flight,
            workload.compression,
            human_nanos(workload.request_timeout_ns),
        )
    }
}
