//! What the clients of a run do: plain values, drawn and checked by whoever reads them from a scenario.

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
    /// How many partitions.
    pub partitions: i32,
    /// Its configuration, by Kafka's keys.
    pub properties: BTreeMap<String, String>,
}
