//! What the brokers of a run promise, and within which times. Owns the numbers and the formulas over them; judges nothing.

use super::groups::GroupContract;
use std::path::PathBuf;

/// What the brokers of a run promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Where each broker keeps its logs.
    pub log_directory: PathBuf,
    /// Each message is flushed before it is acknowledged (`flush.messages=1`).
    pub flush_every_message: bool,
    /// Batches are stored as they were sent: CreateTime and `compression.type=producer`.
    pub stored_as_sent: bool,
    /// Wall clocks move so far that brokers may forget producers (`producer.id.expiration.ms`).
    pub producers_may_expire: bool,
    /// After healing, something that is sent must be confirmed within this time.
    pub produce_within_ns: u64,
    /// After healing, each consumer must be at the end within this time.
    pub catch_up_within_ns: u64,
    /// How many brokers there are. They are the first machines, and each machine's number is its broker's id.
    pub brokers: u32,
    /// How many replicas each partition has.
    pub replication_factor: usize,
    /// `min.insync.replicas`.
    pub min_insync_replicas: usize,
    /// `unclean.leader.election.enable`.
    pub unclean_election: bool,
    /// Consumers may be sent to followers (a replica selector is configured).
    pub follower_reads: bool,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_ns: u64,
    /// `replica.fetch.wait.max.ms`: for so long a follower's fetch may be parked.
    pub replica_fetch_wait_ns: u64,
    /// A broker's session timeout at the coordinator.
    pub session_timeout_ns: u64,
    /// The coordinator has a leader, and its clients a connection, within this time once its members are healed.
    pub coordinator_within_ns: u64,
    /// How long a change of the metadata may be on its way to a broker.
    pub propagation_ns: u64,
    /// How fast a monotonic clock may go wrong, in parts per million.
    pub clock_drift_ppm: u64,
    /// From healing on until nothing may change any more; 0 where it is not looked at.
    pub quiet_after_ns: u64,
    /// What is promised of consumer groups, where there are some.
    pub groups: Option<GroupContract>,
    /// Added to every bound: requests, retries and disks take their time.
    pub slack_ns: u64,
}

impl Default for Contract {
    fn default() -> Contract {
        Contract {
            log_directory: "/data".into(),
            flush_every_message: false,
            stored_as_sent: true,
            producers_may_expire: false,
            produce_within_ns: 10_000_000_000,
            catch_up_within_ns: 20_000_000_000,
            brokers: 1,
            replication_factor: 1,
            min_insync_replicas: 1,
            unclean_election: false,
            follower_reads: false,
            replica_lag_ns: 30_000_000_000,
            replica_fetch_wait_ns: 500_000_000,
            session_timeout_ns: 18_000_000_000,
            coordinator_within_ns: 10_000_000_000,
            propagation_ns: 1_000_000_000,
            clock_drift_ppm: 0,
            quiet_after_ns: 0,
            groups: None,
            slack_ns: 5_000_000_000,
        }
    }
}

impl Contract {
    /// So many replicas at least must be in sync for a partition with that many replicas to take records.
    pub(super) fn effective_min_insync(&self, replicas: usize) -> usize {
        match replicas {
            0 => self.min_insync_replicas,
            _ => self.min_insync_replicas.min(replicas),
        }
    }

    /// So many replicas may lose what they had not flushed at the same time.
    pub(super) fn loss_budget(&self) -> usize {
        self.min_insync_replicas.saturating_sub(1)
    }

    /// Several brokers keep copies of one partition.
    pub(super) fn is_replicated(&self) -> bool {
        self.brokers > 1
    }

    /// I36b: a controller is active.
    pub(super) fn controller_within_ns(&self) -> u64 {
        self.coordinator_within_ns + self.session_timeout_ns + self.slack_ns
    }

    /// I46: every running broker is registered.
    pub(super) fn registered_within_ns(&self) -> u64 {
        self.coordinator_within_ns + self.session_timeout_ns + self.slack_ns
    }

    /// I48a: every partition that can have a leader has one.
    pub(super) fn leaders_within_ns(&self) -> u64 {
        self.controller_within_ns() + self.propagation_ns + self.slack_ns
    }

    /// I47: every live replica is in sync, where a follower has to fetch `backlog` records at most.
    pub(super) fn in_sync_within_ns(&self, backlog: i64) -> u64 {
        // At least a thousand records a second are replicated.
        self.leaders_within_ns() + self.replica_lag_ns + self.slack_ns + backlog.unsigned_abs() * 1_000_000
    }

    /// I52: what is committed is visible at every replica in sync.
    pub(super) fn visible_within_ns(&self) -> u64 {
        self.replica_fetch_wait_ns * 2 + 1_000_000_000
    }

    /// I52: what is committed has reached each reader that waits for it. A reader may look at something else for a while.
    pub(super) fn read_within_ns(&self) -> u64 {
        self.visible_within_ns() + 1_000_000_000
    }

    /// The most that a clock that runs wrong shows when so much time has really passed.
    pub(super) fn most_shown_ns(&self, real_ns: u64) -> u64 {
        real_ns + real_ns / 1_000_000 * self.clock_drift_ppm + 1_000_000
    }
}
