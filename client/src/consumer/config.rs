//! How a consumer behaves. Owns the values, their defaults and what cannot be.

use super::assignor::{Assignor, CooperativeStickyAssignor, RangeAssignor};
use crate::{ClientError, cluster::NetworkConfig};
use std::sync::Arc;

/// Where to begin where nothing is committed, or what is committed is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OffsetReset {
    /// At the first record that there is.
    Earliest,
    /// After the last record that there is.
    #[default]
    Latest,
    /// Nowhere: the user hears of it and seeks.
    None,
}

/// What of transactions is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IsolationLevel {
    /// Everything that is replicated.
    #[default]
    ReadUncommitted,
    /// What is outside of transactions, or in committed ones.
    ReadCommitted,
}

impl IsolationLevel {
    pub(crate) fn code(self) -> i8 {
        match self {
            IsolationLevel::ReadUncommitted => 0,
            IsolationLevel::ReadCommitted => 1,
        }
    }
}

/// How a consumer behaves. Names are Kafka's in snake case, and so are the defaults.
///
/// **At least once** (each record is processed once or more): leave `enable_auto_commit` on, and process what a poll gave
/// before the next poll, which commits it; or switch it off and commit after processing.
///
/// **At most once** (each record is processed once or not at all): switch `enable_auto_commit` off, and call
/// [`Consumer::commit_sync`](super::Consumer::commit_sync) after each poll, before processing what it gave.
#[derive(Clone)]
pub struct ConsumerConfig {
    /// How it reaches the cluster.
    pub network: NetworkConfig,
    /// The group that it belongs to, or whose offsets it commits; without one it can do neither.
    pub group_id: Option<String>,
    /// A name of its own in the group that outlives a restart (static membership, KIP-345).
    pub group_instance_id: Option<String>,
    /// Whether a poll commits what earlier polls gave, every `auto_commit_interval_ms`.
    pub enable_auto_commit: bool,
    /// How often.
    pub auto_commit_interval_ms: u64,
    /// Where to begin where nothing is committed, or what is committed is gone.
    pub auto_offset_reset: OffsetReset,
    /// How much a broker gathers before it answers, in bytes.
    pub fetch_min_bytes: i32,
    /// How much a broker answers with at most, in bytes, but for a first batch that is larger.
    pub fetch_max_bytes: i32,
    /// How long a broker gathers at most.
    pub fetch_max_wait_ms: u64,
    /// How much of one partition a broker answers with at most, in bytes, but for a first batch that is larger.
    pub max_partition_fetch_bytes: i32,
    /// How many records a poll gives at most.
    pub max_poll_records: usize,
    /// How long there may be between two polls; a member that takes longer leaves its group.
    pub max_poll_interval_ms: u64,
    /// How long the coordinator waits for a heartbeat before it takes the member for dead.
    pub session_timeout_ms: u64,
    /// How often a heartbeat is sent.
    pub heartbeat_interval_ms: u64,
    /// How partitions may be shared among the members, the best liked first. All have to be cooperative for the group to
    /// rebalance without everybody giving up everything (KIP-429).
    pub partition_assignment_strategy: Vec<Arc<dyn Assignor>>,
    /// What of transactions is seen.
    pub isolation_level: IsolationLevel,
    /// The rack that it is in, so that it can read from a replica nearby (KIP-392). Empty for none.
    pub client_rack: String,
    /// Whether checksums of batches are checked.
    pub check_crcs: bool,
    /// How long calls other than poll may take.
    pub default_api_timeout_ms: u64,
    /// Whether a topic that is subscribed to may be created by that, where the brokers permit it.
    pub allow_auto_create_topics: bool,
    /// Whether a pattern leaves the brokers' own topics out.
    pub exclude_internal_topics: bool,
}

impl std::fmt::Debug for ConsumerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let assignors: Vec<_> =
            self.partition_assignment_strategy.iter().map(|assignor| assignor.name()).collect();
        f.debug_struct("ConsumerConfig")
            .field("group_id", &self.group_id)
            .field("group_instance_id", &self.group_instance_id)
            .field("partition_assignment_strategy", &assignors)
            .finish_non_exhaustive()
    }
}

impl Default for ConsumerConfig {
    fn default() -> ConsumerConfig {
        ConsumerConfig {
            network: NetworkConfig::default(),
            group_id: None,
            group_instance_id: None,
            enable_auto_commit: true,
            auto_commit_interval_ms: 5_000,
            auto_offset_reset: OffsetReset::Latest,
            fetch_min_bytes: 1,
            fetch_max_bytes: 50 << 20,
            fetch_max_wait_ms: 500,
            max_partition_fetch_bytes: 1 << 20,
            max_poll_records: 500,
            max_poll_interval_ms: 300_000,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 3_000,
            partition_assignment_strategy: vec![Arc::new(RangeAssignor), Arc::new(CooperativeStickyAssignor)],
            isolation_level: IsolationLevel::ReadUncommitted,
            client_rack: String::new(),
            check_crcs: true,
            default_api_timeout_ms: 60_000,
            allow_auto_create_topics: true,
            exclude_internal_topics: true,
        }
    }
}

impl ConsumerConfig {
    /// The defaults, with this way to the cluster.
    pub fn new(network: NetworkConfig) -> ConsumerConfig {
        ConsumerConfig { network, ..ConsumerConfig::default() }
    }

    /// The defaults, as a member of this group.
    pub fn in_group(network: NetworkConfig, group_id: &str) -> ConsumerConfig {
        ConsumerConfig { network, group_id: Some(group_id.to_owned()), ..ConsumerConfig::default() }
    }

    /// Whether every assignor is cooperative.
    pub(super) fn is_cooperative(&self) -> bool {
        self.partition_assignment_strategy.iter().all(|assignor| assignor.is_cooperative())
    }

    /// # Errors
    /// [`ClientError::Config`] with the first key that cannot be.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        let wrong = |key, problem: &str| Err(ClientError::Config { key, problem: problem.to_owned() });
        self.network.check()?;
        if self.group_id.as_deref().is_some_and(str::is_empty) {
            return wrong("group_id", "it may be absent, but not empty");
        }
        if self.group_instance_id.as_deref().is_some_and(str::is_empty) {
            return wrong("group_instance_id", "it may be absent, but not empty");
        }
        if self.partition_assignment_strategy.is_empty() {
            return wrong("partition_assignment_strategy", "at least one assignor is needed");
        }
        if self.max_poll_records == 0 {
            return wrong("max_poll_records", "it has to be above 0");
        }
        if self.heartbeat_interval_ms == 0 || self.heartbeat_interval_ms >= self.session_timeout_ms {
            return wrong("heartbeat_interval_ms", "it has to be above 0 and below session_timeout_ms");
        }
        for (key, value) in [
            ("max_poll_interval_ms", self.max_poll_interval_ms),
            ("session_timeout_ms", self.session_timeout_ms),
            ("fetch_max_wait_ms", self.fetch_max_wait_ms),
        ] {
            if i32::try_from(value).is_err() {
                return wrong(key, "it has to be below 2^31");
            }
        }
        for (key, value) in [
            ("fetch_min_bytes", self.fetch_min_bytes),
            ("fetch_max_bytes", self.fetch_max_bytes),
            ("max_partition_fetch_bytes", self.max_partition_fetch_bytes),
        ] {
            if value < 0 {
                return wrong(key, "it cannot be negative");
            }
        }
        if self.fetch_max_wait_ms >= self.network.request_timeout_ms {
            return wrong("fetch_max_wait_ms", "it has to be below request_timeout_ms");
        }
        Ok(())
    }
}
