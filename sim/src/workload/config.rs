//! What the clients of a run do: plain values, drawn and checked by whoever reads them from a scenario.

use crate::oracle::groups::events::Delivery;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Snappy, in the framing that Kafka's clients use.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl From<Compression> for sillon_protocol::records::Compression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Gzip => Self::Gzip,
            Compression::Snappy => Self::Snappy,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd => Self::Zstd,
        }
    }
}

/// Who sends and reads what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadConfig {
    /// How many clients send.
    pub producers: u32,
    /// How many clients read.
    pub readers: u32,
    /// What all producers together send.
    pub records_per_second: f64,
    /// The least and the most records of a batch.
    pub batch_records: (u32, u32),
    /// The least and the most bytes of a record's value; 12 are needed and always there.
    pub value_bytes: (u32, u32),
    /// −1 (all), 1 or 0.
    pub acks: i16,
    /// Producers number their batches and send them again until they know. Needs `acks` −1.
    pub idempotence: bool,
    /// How many batches of a partition are on their way at a time.
    pub in_flight: u32,
    /// One of these is drawn for each batch.
    pub compression: Vec<Compression>,
    /// How long a client waits for an answer.
    pub request_timeout_ns: u64,
    /// How long an idempotent producer tries before it gives up on a batch.
    pub delivery_timeout_ns: u64,
    /// How long a reader's fetch may wait for records.
    pub fetch_wait_ns: u64,
    /// Every other reader reads from a replica in its own rack, leader or not (KIP-392).
    pub read_from_followers: bool,
    /// A client of its own asks for a partition's latest offset so often, each partition in turn; 0 for none.
    pub latest_every_ns: u64,
}

impl Default for WorkloadConfig {
    fn default() -> WorkloadConfig {
        WorkloadConfig {
            producers: 2,
            readers: 1,
            records_per_second: 50.0,
            batch_records: (1, 4),
            value_bytes: (32, 512),
            acks: -1,
            idempotence: true,
            in_flight: 5,
            compression: vec![Compression::None],
            request_timeout_ns: 2_000_000_000,
            delivery_timeout_ns: 30_000_000_000,
            fetch_wait_ns: 500_000_000,
            read_from_followers: false,
            latest_every_ns: 0,
        }
    }
}

impl WorkloadConfig {
    /// Producers are idempotent: they want to be, and ask for the acknowledgements that it takes.
    pub(super) fn is_idempotent(&self) -> bool {
        self.idempotence && self.acks == -1
    }
}

/// A topic that the clients make and use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// How many partitions, at first.
    pub partitions: i32,
    /// How many replicas of each.
    pub replication_factor: i16,
    /// It may be deleted and made again: clients name it by its id alone, so that nothing meant for one topic goes to the
    /// other.
    pub comes_and_goes: bool,
    /// Its configuration, by Kafka's keys.
    pub properties: BTreeMap<String, String>,
}

/// How the partitions of a group's topics are shared among its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assignor {
    /// Each topic by itself, in ranges.
    #[default]
    Range,
    /// One after the other, over all topics.
    RoundRobin,
    /// As they were, as far as that is fair.
    Sticky,
    /// The same, and nobody gives up what it keeps (KIP-429).
    CooperativeSticky,
}

/// The consumer groups of a run, and how their members behave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupsConfig {
    /// How many groups; each processes everything.
    pub count: u32,
    /// Members of each.
    pub members: u32,
    /// How partitions are shared.
    pub assignor: Assignor,
    /// When members commit.
    pub delivery: Delivery,
    /// Members have names that outlive them (KIP-345).
    pub static_members: bool,
    /// How long the coordinator waits for a member's heartbeat.
    pub session_timeout_ns: u64,
    /// How often a member sends one.
    pub heartbeat_interval_ns: u64,
    /// How long a member may take between two polls.
    pub max_poll_interval_ns: u64,
    /// The least and the most time that a member takes for what a poll gave.
    pub processing_ns: (u64, u64),
    /// How often a member of each group leaves, and comes back.
    pub leaves_per_minute: f64,
    /// How often a member is gone without a word, and comes back.
    pub crashes_per_minute: f64,
    /// How often a member takes longer between two polls than it may.
    pub slow_polls_per_minute: f64,
    /// How often all members of a group are gone for a while.
    pub breaks_per_minute: f64,
    /// For how long members are away, at least and at most.
    pub away_ns: (u64, u64),
}

impl Default for GroupsConfig {
    fn default() -> GroupsConfig {
        GroupsConfig {
            count: 0,
            members: 3,
            assignor: Assignor::Range,
            delivery: Delivery::AtLeastOnce,
            static_members: false,
            session_timeout_ns: 6_000_000_000,
            heartbeat_interval_ns: 1_000_000_000,
            max_poll_interval_ns: 10_000_000_000,
            processing_ns: (0, 50_000_000),
            leaves_per_minute: 0.0,
            crashes_per_minute: 0.0,
            slow_polls_per_minute: 0.0,
            breaks_per_minute: 0.0,
            away_ns: (200_000_000, 8_000_000_000),
        }
    }
}

impl TopicPlan {
    /// Whether its records must have keys.
    pub(super) fn is_compacted(&self) -> bool {
        self.properties.get("cleanup.policy").is_some_and(|policies| policies.contains("compact"))
    }
}

/// What an operator does while clients work, and how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdminConfig {
    /// Topics of its own, beside the others: `come-0`, …
    pub topics: u32,
    /// How often it deletes one of them, and makes it again.
    pub deletions_per_minute: f64,
    /// How often it gives one of them another partition.
    pub growths_per_minute: f64,
    /// How often it moves a partition to other brokers.
    pub reassignments_per_minute: f64,
    /// How often it has the preferred leaders elected.
    pub elections_per_minute: f64,
    /// How often it changes the configuration of a topic.
    pub config_changes_per_minute: f64,
}

impl AdminConfig {
    /// What it does how often, in a minute.
    pub(super) fn rates(&self) -> [f64; 5] {
        [
            self.deletions_per_minute,
            self.growths_per_minute,
            self.reassignments_per_minute,
            self.elections_per_minute,
            self.config_changes_per_minute,
        ]
    }

    /// Whether there is an operator at all.
    pub fn is_there(&self) -> bool {
        self.rates().iter().any(|rate| *rate > 0.0)
    }
}
