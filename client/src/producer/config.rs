//! How a producer behaves. Owns the values, their defaults and what cannot be.

use super::Partitioner;
use crate::{ClientError, cluster::NetworkConfig};
use sillon_protocol::records::Compression;
use std::sync::Arc;

/// The most requests that may be on their way to a broker where the order of an idempotent producer has to hold: brokers
/// remember so many batches of a producer.
const MAX_IN_FLIGHT_IDEMPOTENT: usize = 5;

/// When a batch counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Acks {
    /// Once it is sent: nobody answers, offsets are not known, errors are not heard of.
    None,
    /// Once the leader has it.
    Leader,
    /// Once all in-sync replicas have it, and there are as many as `min.insync.replicas` says.
    #[default]
    All,
}

impl Acks {
    pub(crate) fn code(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// Who decides where a record without a partition goes.
#[derive(Clone, Default)]
pub enum Partitioning {
    /// By the key's hash (murmur2, as Kafka's); records without a key stick to one partition for a batch, then to
    /// another (KIP-794).
    #[default]
    KeyHash,
    /// As records without a key, whatever the key.
    Sticky,
    /// One partition after the other, whatever the key.
    RoundRobin,
    /// Somebody else's rule.
    Custom(Arc<dyn Partitioner>),
}

impl std::fmt::Debug for Partitioning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Partitioning::KeyHash => "KeyHash",
            Partitioning::Sticky => "Sticky",
            Partitioning::RoundRobin => "RoundRobin",
            Partitioning::Custom(_) => "Custom",
        })
    }
}

/// How a producer behaves. Names are Kafka's in snake case, and so are the defaults (those of Kafka 4).
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// How it reaches the cluster.
    pub network: NetworkConfig,
    /// When a batch counts as written.
    pub acks: Acks,
    /// Whether each record is written once and in order, however often it has to be sent (KIP-98). Needs `acks` of all
    /// and at most five requests in flight.
    pub enable_idempotence: bool,
    /// How long a batch waits for more records, unless it is full before.
    pub linger_ms: u64,
    /// How large a batch may become, in bytes before compression; a larger record travels alone.
    pub batch_size: usize,
    /// How much may wait to be sent or answered, in bytes; whoever sends more waits for room.
    pub buffer_memory: usize,
    /// How long sending may wait for room and for metadata.
    pub max_block_ms: u64,
    /// The largest request, in bytes before compression, and so the largest record.
    pub max_request_size: usize,
    /// How many requests may be on their way to each broker.
    pub max_in_flight_requests_per_connection: usize,
    /// How a batch is compressed.
    pub compression_type: Compression,
    /// How often a batch is sent again.
    pub retries: u32,
    /// When a record fails that could not be delivered, whatever the reason, counted from when it was sent.
    pub delivery_timeout_ms: u64,
    /// Where records without a partition go.
    pub partitioner: Partitioning,
    /// Whether a topic that is written to may be created by that, where the brokers permit it.
    pub allow_auto_create_topics: bool,
}

impl Default for ProducerConfig {
    fn default() -> ProducerConfig {
        ProducerConfig {
            network: NetworkConfig::default(),
            acks: Acks::All,
            enable_idempotence: true,
            linger_ms: 5,
            batch_size: 16_384,
            buffer_memory: 32 << 20,
            max_block_ms: 60_000,
            max_request_size: 1 << 20,
            max_in_flight_requests_per_connection: MAX_IN_FLIGHT_IDEMPOTENT,
            compression_type: Compression::None,
            retries: i32::MAX as u32,
            delivery_timeout_ms: 120_000,
            partitioner: Partitioning::KeyHash,
            allow_auto_create_topics: true,
        }
    }
}

impl ProducerConfig {
    /// The defaults, with this way to the cluster.
    pub fn new(network: NetworkConfig) -> ProducerConfig {
        ProducerConfig { network, ..ProducerConfig::default() }
    }

    /// # Errors
    /// [`ClientError::Config`] with the first key that cannot be.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        let wrong = |key, problem: &str| Err(ClientError::Config { key, problem: problem.to_owned() });
        self.network.check()?;
        if self.max_in_flight_requests_per_connection == 0 {
            return wrong("max_in_flight_requests_per_connection", "it has to be above 0");
        }
        if self.enable_idempotence {
            if self.acks != Acks::All {
                return wrong(
                    "acks",
                    "an idempotent producer needs acks of all; or set enable_idempotence to false",
                );
            }
            if self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_IDEMPOTENT {
                let problem = "an idempotent producer may have at most 5; or set enable_idempotence to false";
                return wrong("max_in_flight_requests_per_connection", problem);
            }
            if self.retries == 0 {
                let problem = "an idempotent producer needs at least 1; or set enable_idempotence to false";
                return wrong("retries", problem);
            }
        }
        if self.batch_size == 0 || self.batch_size > self.buffer_memory {
            return wrong("batch_size", "it has to be above 0 and at most buffer_memory");
        }
        if u32::try_from(self.buffer_memory).is_err() {
            return wrong("buffer_memory", "it has to be below 4 GiB");
        }
        if self.delivery_timeout_ms < self.linger_ms + self.network.request_timeout_ms {
            let problem = "it has to be at least linger_ms and request_timeout_ms together";
            return wrong("delivery_timeout_ms", problem);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sane() -> ProducerConfig {
        ProducerConfig::new(NetworkConfig::new(vec!["localhost:9092".parse().unwrap()]))
    }

    fn wrong_key(config: ProducerConfig) -> &'static str {
        match config.check() {
            Err(ClientError::Config { key, .. }) => key,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_sane_once_there_is_a_server() {
        sane().check().unwrap();
        assert_eq!(wrong_key(ProducerConfig::default()), "bootstrap_servers");
    }

    #[test]
    fn idempotence_needs_what_it_needs() {
        assert_eq!(wrong_key(ProducerConfig { acks: Acks::Leader, ..sane() }), "acks");
        let six = ProducerConfig { max_in_flight_requests_per_connection: 6, ..sane() };
        assert_eq!(wrong_key(six.clone()), "max_in_flight_requests_per_connection");
        ProducerConfig { enable_idempotence: false, acks: Acks::Leader, ..six }.check().unwrap();
    }
}
