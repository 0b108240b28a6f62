//! A scenario as it stands in its file: every table, every key, and what each means when it is left out.
//!
//! Owns the file's shape. Never checks what types cannot say (see `check`) and never draws (see `draw`).

use super::{
    cluster::{Admin, Cluster, HealChoice, SwarmCluster, SwarmTopics},
    ensemble::{Ensemble, Sessions, SwarmEnsemble, SwarmSessions, ZooChoices},
    groups::{Groups, SwarmGroups},
    units::{Between, Bytes, Count, Nanos, SignedCount, SignedNanos},
};
use crate::{
    faults::{Direction, ServerRole, ShapeChoice, Target},
    workload::Compression,
};
use serde::{Deserialize, Deserializer, de};
use std::{collections::BTreeMap, fmt};
use toml::Spanned;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: Spanned<String>,
    pub description: Spanned<String>,
    pub cluster: Option<Cluster>,
    pub ensemble: Option<Ensemble>,
    #[serde(default)]
    pub sessions: Sessions,
    #[serde(default)]
    pub topics: Topics,
    #[serde(default)]
    pub workload: Workload,
    #[serde(default)]
    pub admin: Admin,
    #[serde(default)]
    pub groups: Groups,
    #[serde(default)]
    pub network: Network,
    #[serde(default)]
    pub disk: Disk,
    #[serde(default)]
    pub clocks: Clocks,
    #[serde(default)]
    pub phases: Phases,
    #[serde(default)]
    pub faults: BTreeMap<Spanned<String>, Rate>,
    #[serde(default)]
    pub script: Vec<Step>,
    #[serde(default)]
    pub swarm: Swarm,
    #[serde(default)]
    pub expect: Expect,
}

impl File {
    /// How many brokers: one where neither a cluster nor an ensemble is asked for.
    pub fn brokers(&self) -> u64 {
        match (&self.cluster, &self.ensemble) {
            (Some(cluster), _) => cluster.brokers.get_ref().0,
            (None, None) => Cluster::default().brokers.get_ref().0,
            (None, Some(_)) => 0,
        }
    }
}

/// `[topics]`: what the workload creates and uses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Topics {
    pub count: Spanned<Count>,
    pub partitions: Spanned<Count>,
    pub replication_factor: Spanned<Count>,
    pub min_insync_replicas: Spanned<Count>,
    pub properties: Properties,
}

/// `[workload]`: who sends and reads what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Workload {
    pub producers: Spanned<Count>,
    pub readers: Spanned<Count>,
    pub records_per_second: Spanned<f64>,
    pub batch_records: Spanned<Between<Count>>,
    pub value_bytes: Spanned<Between<Bytes>>,
    pub acks: Spanned<Acks>,
    pub idempotence: Spanned<bool>,
    pub in_flight: Spanned<Count>,
    pub compression: Spanned<Vec<Compression>>,
    pub request_timeout: Spanned<Nanos>,
    pub delivery_timeout: Spanned<Nanos>,
    pub fetch_wait: Spanned<Nanos>,
    pub read_from_followers: Spanned<bool>,
    pub latest_every: Spanned<Nanos>,
}

/// `[network]`: the links between machines while no fault is on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Network {
    pub latency: Spanned<Between<Nanos>>,
    pub bytes_per_second: Spanned<Bytes>,
    pub buffer_bytes: Spanned<Bytes>,
}

/// `[disk]`: every machine's disk while no fault is on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Disk {
    pub read_latency: Spanned<Between<Nanos>>,
    pub write_latency: Spanned<Between<Nanos>>,
    pub sync_latency: Spanned<Between<Nanos>>,
    pub capacity_bytes: Spanned<Bytes>,
}

/// `[clocks]`: how wrong each machine's clocks are from the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Clocks {
    pub wall_offset: Spanned<Between<SignedNanos>>,
    pub drift_parts_per_million: Spanned<Between<SignedCount>>,
}

/// `[phases]`: how long each part of a run lasts, in simulated time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Phases {
    pub safety: Spanned<Nanos>,
    pub heal: Spanned<Nanos>,
    /// What is whole again after it.
    pub healing: Spanned<HealChoice>,
    pub liveness: Spanned<Nanos>,
}

/// `[swarm]`: what each seed draws for itself, in place of the values above.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Swarm {
    /// Each seed leaves out some of the fault kinds, so that others show what they hide.
    pub fault_mix: bool,
    pub broker_properties: BTreeMap<Spanned<String>, Choices>,
    pub topic_properties: BTreeMap<Spanned<String>, Choices>,
    pub cluster: SwarmCluster,
    pub topics: SwarmTopics,
    pub ensemble_properties: ZooChoices,
    pub ensemble: SwarmEnsemble,
    pub sessions: SwarmSessions,
    pub workload: SwarmWorkload,
    pub groups: SwarmGroups,
    pub network: SwarmNetwork,
    pub disk: SwarmDisk,
}

/// `[swarm.workload]`: choices for the keys of `[workload]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmWorkload {
    pub producers: Option<Spanned<Vec<Count>>>,
    pub readers: Option<Spanned<Vec<Count>>>,
    pub records_per_second: Option<Spanned<Vec<f64>>>,
    pub batch_records: Option<Spanned<Vec<Between<Count>>>>,
    pub value_bytes: Option<Spanned<Vec<Between<Bytes>>>>,
    pub acks: Option<Spanned<Vec<Acks>>>,
    pub idempotence: Option<Spanned<Vec<bool>>>,
    pub in_flight: Option<Spanned<Vec<Count>>>,
    pub compression: Option<Spanned<Vec<Vec<Compression>>>>,
    pub request_timeout: Option<Spanned<Vec<Nanos>>>,
}

/// `[swarm.network]`: choices for the keys of `[network]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmNetwork {
    pub latency: Option<Spanned<Vec<Between<Nanos>>>>,
    pub buffer_bytes: Option<Spanned<Vec<Bytes>>>,
}

/// `[swarm.disk]`: choices for the keys of `[disk]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmDisk {
    pub write_latency: Option<Spanned<Vec<Between<Nanos>>>>,
    pub sync_latency: Option<Spanned<Vec<Between<Nanos>>>>,
}

/// `[expect]`: what a campaign over many seeds has to show.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expect {
    /// How many seeds a campaign has to have before any of this is demanded.
    pub seeds: Spanned<Count>,
    /// Fault kinds that must have happened.
    pub faults: Vec<Spanned<String>>,
    /// Invariants that must have been evaluated (not vacuously).
    pub invariants: Vec<Spanned<String>>,
    /// The invariant that some seed must violate: for scenarios made to fail.
    pub violation: Option<Spanned<String>>,
}

/// Defines the two places where a fault's parameters are written, with the same parameters in both.
macro_rules! with_fault_parameters {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            pub duration: Option<Spanned<Between<Nanos>>>,
            pub latency: Option<Spanned<Between<Nanos>>>,
            pub by: Option<Spanned<Between<SignedNanos>>>,
            pub parts_per_million: Option<Spanned<Between<SignedCount>>>,
            pub operations: Option<Spanned<Between<Count>>>,
            pub free_bytes: Option<Spanned<Between<Bytes>>>,
            pub direction: Option<Spanned<Direction>>,
            pub shape: Option<Spanned<ShapeChoice>>,
        }

        impl $name {
            /// The parameters that are written here, by name.
            pub fn parameters(&self) -> WrittenParameters {
                WrittenParameters {
                    duration: self.duration.clone(),
                    latency: self.latency.clone(),
                    by: self.by.clone(),
                    parts_per_million: self.parts_per_million.clone(),
                    operations: self.operations.clone(),
                    free_bytes: self.free_bytes.clone(),
                    direction: self.direction.clone(),
                    shape: self.shape.clone(),
                }
            }
        }
    )*};
}

with_fault_parameters! {
    /// `[faults.KIND]`: how often a kind of fault strikes a random machine in the safety phase.
    Rate {
        per_minute: Spanned<f64>,
        on: Option<Spanned<Target>>,
        /// Whoever does this then, of all machines.
        target: Option<Spanned<ServerRole>>,
        /// Each of these, at the same time.
        machines: Option<Spanned<Target>>,
    }
    /// `[[script]]`: one fault at a known time.
    Step {
        at: Spanned<Nanos>,
        fault: Spanned<String>,
        /// A machine, or a role.
        node: Option<Spanned<NodeName>>,
        /// Each of these, at the same time.
        machines: Option<Spanned<Target>>,
    }
}

/// A fault's parameters as a file gives them, each with its place.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenParameters {
    pub duration: Option<Spanned<Between<Nanos>>>,
    pub latency: Option<Spanned<Between<Nanos>>>,
    pub by: Option<Spanned<Between<SignedNanos>>>,
    pub parts_per_million: Option<Spanned<Between<SignedCount>>>,
    pub operations: Option<Spanned<Between<Count>>>,
    pub free_bytes: Option<Spanned<Between<Bytes>>>,
    pub direction: Option<Spanned<Direction>>,
    pub shape: Option<Spanned<ShapeChoice>>,
}

/// A machine, by its number or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeName(pub String);

struct NodeVisitor;

impl de::Visitor<'_> for NodeVisitor {
    type Value = NodeName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a machine's number, its name such as \"c1\", or a role such as \"leader\"")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<NodeName, E> {
        Ok(NodeName(text.to_string()))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<NodeName, E> {
        Ok(NodeName(number.to_string()))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<NodeName, E> {
        Ok(NodeName(number.to_string()))
    }
}

impl<'de> Deserialize<'de> for NodeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

/// When a producer counts a record as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Acks {
    /// When every in-sync replica has it.
    #[serde(rename = "all")]
    All,
    /// When the leader has it.
    #[serde(rename = "1")]
    Leader,
    /// When it was sent: there is no answer.
    #[serde(rename = "0")]
    None,
}

impl Acks {
    /// As on the wire.
    pub fn on_wire(self) -> i16 {
        match self {
            Acks::All => -1,
            Acks::Leader => 1,
            Acks::None => 0,
        }
    }
}

/// Kafka's or ZooKeeper's keys with their values as text.
pub(super) type Properties = BTreeMap<Spanned<String>, Spanned<PropertyValue>>;

/// The swarm's choices for one key.
pub(super) type Choices = Spanned<Vec<PropertyValue>>;

/// The value of one of Kafka's or ZooKeeper's keys: text, a whole number, or true/false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PropertyValue(pub String);

struct PropertyVisitor;

impl de::Visitor<'_> for PropertyVisitor {
    type Value = PropertyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a whole number, or true/false")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<PropertyValue, E> {
        if text.contains(['\n', '\r', '\0']) {
            return Err(E::custom("a property's value is one line"));
        }
        Ok(PropertyValue(text.to_string()))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<PropertyValue, E> {
        Ok(PropertyValue(number.to_string()))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<PropertyValue, E> {
        Ok(PropertyValue(number.to_string()))
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<PropertyValue, E> {
        Ok(PropertyValue(value.to_string()))
    }
}

impl<'de> Deserialize<'de> for PropertyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PropertyVisitor)
    }
}

/// A value that nobody wrote has no place in the file.
pub(super) fn unwritten<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;

const fn nanos(from: u64, to: u64) -> Between<Nanos> {
    Between { from: Nanos(from), to: Nanos(to) }
}

impl Default for Topics {
    fn default() -> Self {
        Topics {
            count: unwritten(Count(1)),
            partitions: unwritten(Count(2)),
            replication_factor: unwritten(Count(1)),
            min_insync_replicas: unwritten(Count(1)),
            properties: Properties::new(),
        }
    }
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            producers: unwritten(Count(2)),
            readers: unwritten(Count(1)),
            records_per_second: unwritten(50.0),
            batch_records: unwritten(Between { from: Count(1), to: Count(4) }),
            value_bytes: unwritten(Between { from: Bytes(32), to: Bytes(512) }),
            acks: unwritten(Acks::All),
            idempotence: unwritten(true),
            in_flight: unwritten(Count(5)),
            compression: unwritten(vec![Compression::None]),
            request_timeout: unwritten(Nanos(2 * SECOND)),
            delivery_timeout: unwritten(Nanos(30 * SECOND)),
            fetch_wait: unwritten(Nanos(SECOND / 2)),
            read_from_followers: unwritten(false),
            latest_every: unwritten(Nanos(0)),
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Network {
            latency: unwritten(nanos(100 * MICROSECOND, 2 * MILLISECOND)),
            bytes_per_second: unwritten(Bytes(100_000_000)),
            buffer_bytes: unwritten(Bytes(64 * 1024)),
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Disk {
            read_latency: unwritten(nanos(0, 0)),
            write_latency: unwritten(nanos(0, 0)),
            sync_latency: unwritten(nanos(MILLISECOND, 8 * MILLISECOND)),
            capacity_bytes: unwritten(Bytes(1 << 30)),
        }
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Clocks {
            wall_offset: unwritten(Between::only(SignedNanos(0))),
            drift_parts_per_million: unwritten(Between::only(SignedCount(0))),
        }
    }
}

impl Default for Expect {
    fn default() -> Self {
        Expect { seeds: unwritten(Count(50)), faults: Vec::new(), invariants: Vec::new(), violation: None }
    }
}

impl Default for Phases {
    fn default() -> Self {
        Phases {
            safety: unwritten(Nanos(60 * SECOND)),
            heal: unwritten(Nanos(10 * SECOND)),
            healing: unwritten(HealChoice::Full),
            liveness: unwritten(Nanos(20 * SECOND)),
        }
    }
}
