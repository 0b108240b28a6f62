//! What the broker tells an observer about itself as it happens: typed facts, for the simulator's oracle.
//!
//! Owns the list of facts. Never changes what the broker does: in production nobody listens, and a fact that
//! nobody hears is not even built.

use crate::{
    group::facts::GroupFact,
    metadata::MetadataPosition,
    types::{
        BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, ProducerId, TopicId,
        TopicPartition,
    },
};
use std::sync::Arc;

/// Listens to a broker. Called in the middle of the broker's work: it must be quick and must not call back.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of one fact.
    fn observe(&self, observation: Observation<'_>);
}

/// The broker's end: silent unless somebody listens.
#[derive(Clone, Default)]
pub struct Observers(Option<Arc<dyn Observer>>);

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Observers(listening)" } else { "Observers(none)" })
    }
}

impl Observers {
    /// Nobody listens.
    pub const NONE: Observers = Observers(None);

    /// Somebody listens.
    pub fn new(observer: Arc<dyn Observer>) -> Observers {
        Observers(Some(observer))
    }

    /// Whether somebody listens.
    pub fn is_listening(&self) -> bool {
        self.0.is_some()
    }

    /// Tells a fact; `build` runs only where somebody listens.
    pub fn tell<'a>(&self, build: impl FnOnce() -> Observation<'a>) {
        if let Some(observer) = &self.0 {
            observer.observe(build());
        }
    }
}

/// One entry of a leader-epoch cache: the epoch and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EpochStart {
    /// The leader epoch.
    pub epoch: LeaderEpoch,
    /// The first offset appended in it.
    pub start_offset: Offset,
}

/// What a producer's last batch left behind, for comparing producer tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProducerSummary {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The last sequence number in the log, −1 where only its epoch is known.
    pub last_sequence: i32,
    /// The offset of that record.
    pub last_offset: Offset,
}

/// Why records at the start of a log were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStartReason {
    /// Older than `retention.ms`.
    RetentionTime,
    /// The log is larger than `retention.bytes`.
    RetentionSize,
    /// A DeleteRecords request.
    DeleteRecords,
}

/// What a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRole {
    /// It takes records from clients.
    Leader,
    /// It takes records from the leader.
    Follower,
}

/// One fact.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A log was opened (recovered, if its last stop was unclean) and may now serve.
    LogOpened {
        /// Whose log.
        partition: &'a TopicPartition,
        /// The topic's id.
        topic_id: TopicId,
        /// Whether the clean-shutdown marker vouched for it, so that it was not checked batch by batch.
        clean: bool,
        /// Where the check began; everything before was proven durable.
        checked_from: Offset,
        /// Log start offset.
        log_start: Offset,
        /// Log end offset after the check.
        log_end: Offset,
        /// The leader-epoch cache.
        epochs: &'a [EpochStart],
        /// The producer table.
        producers: &'a [ProducerSummary],
    },
    /// A batch was written to the log (not yet visible to consumers).
    Appended {
        /// Whose log.
        partition: &'a TopicPartition,
        /// Offset of its first record.
        base_offset: Offset,
        /// One past its last record.
        next_offset: Offset,
        /// The leader epoch stamped on it.
        leader_epoch: LeaderEpoch,
        /// The batch as stored.
        batch_crc: u32,
        /// Its size in bytes.
        size_bytes: usize,
        /// The idempotent producer, with its epoch and first sequence number; `ProducerId::NONE` where there is none.
        producer: (ProducerId, i16, i32),
    },
    /// Records from `to` on were removed from the end of the log.
    Truncated {
        /// Whose log.
        partition: &'a TopicPartition,
        /// The new log end offset.
        to: Offset,
    },
    /// Everything below `up_to` was made durable; the recovery point.
    Flushed {
        /// Whose log.
        partition: &'a TopicPartition,
        /// The new recovery point.
        up_to: Offset,
    },
    /// The log start moved up.
    LogStartMoved {
        /// Whose log.
        partition: &'a TopicPartition,
        /// The new log start offset.
        to: Offset,
        /// The high watermark at that moment.
        high_watermark: Offset,
        /// Why.
        reason: LogStartReason,
    },
    /// Segments were compacted: one takes the place of some, or nothing of one had to go.
    SegmentsCleaned {
        /// Whose log.
        partition: &'a TopicPartition,
        /// Their first offset.
        from: Offset,
        /// One past their last offset.
        to: Offset,
        /// How many they were.
        segments: usize,
        /// Records that are left.
        records_kept: u64,
        /// Records that went.
        records_removed: u64,
        /// Bytes before.
        bytes_before: u64,
        /// Bytes that are left.
        bytes_after: u64,
    },
    /// A write or a sync failed: no append until the log is opened again.
    LogOffline {
        /// Whose log.
        partition: &'a TopicPartition,
        /// What failed.
        reason: &'a str,
    },
    /// The high watermark moved.
    HighWatermarkMoved {
        /// Of which partition.
        partition: &'a TopicPartition,
        /// What this broker is for it.
        role: ReplicaRole,
        /// The leader epoch it moved in.
        leader_epoch: LeaderEpoch,
        /// From where.
        from: Offset,
        /// To where.
        to: Offset,
        /// Log start offset at that moment.
        log_start: Offset,
        /// Log end offset at that moment.
        log_end: Offset,
    },
    /// This broker leads the partition from now on.
    BecameLeader {
        /// Which partition.
        partition: &'a TopicPartition,
        /// In which epoch.
        leader_epoch: LeaderEpoch,
        /// Where the epoch starts in the log.
        start_offset: Offset,
        /// The newest entry of the log's leader-epoch cache.
        latest_epoch: Option<EpochStart>,
        /// The high watermark that it begins with.
        high_watermark: Offset,
        /// The state that made it leader.
        partition_epoch: PartitionEpoch,
        /// The in-sync replicas in that state.
        isr: &'a [BrokerId],
    },
    /// This broker follows a leader of the partition from now on, or waits for one.
    BecameFollower {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The leader, where there is one.
        leader: Option<BrokerId>,
        /// In which epoch.
        leader_epoch: LeaderEpoch,
        /// The log end offset at that moment.
        log_end: Offset,
        /// The high watermark at that moment.
        high_watermark: Offset,
    },
    /// This broker holds no replica of the partition any more, and removes its log.
    ReplicaRemoved {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The topic's id.
        topic_id: TopicId,
    },
    /// A follower is about to cut its log where its leader said that both diverge, or where the leader's log starts.
    TruncationOrdered {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The leader.
        leader: BrokerId,
        /// The epoch it leads in.
        leader_epoch: LeaderEpoch,
        /// The largest epoch that both may have, and where it ends in the leader's log; none where the follower begins
        /// anew at the start of the leader's log.
        diverging: Option<EpochStart>,
        /// Where the follower cuts.
        to: Offset,
    },
    /// A leader learnt, from a fetch in its own epoch, how far a follower's log goes.
    ReplicaReported {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The epoch it leads in.
        leader_epoch: LeaderEpoch,
        /// The follower.
        replica: BrokerId,
        /// The follower's registration, as it said.
        broker_epoch: BrokerEpoch,
        /// The follower's log end offset.
        log_end: Offset,
    },
    /// A leader found a follower to lag behind for longer than it may (`replica.lag.time.max.ms`).
    ReplicaLags {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The epoch it leads in.
        leader_epoch: LeaderEpoch,
        /// The follower.
        replica: BrokerId,
        /// For how long it has not been caught up, on the leader's monotonic clock.
        behind_for_ms: u64,
        /// The limit in force.
        limit_ms: u64,
    },
    /// A leader proposes in-sync replicas, and counts with the old and the new ones from now on.
    IsrProposed {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The epoch it leads in.
        leader_epoch: LeaderEpoch,
        /// The state that it wants to change.
        partition_epoch: PartitionEpoch,
        /// What it proposes.
        isr: &'a [BrokerId],
    },
    /// A leader learnt the true in-sync replicas, and counts with them alone from now on.
    IsrConfirmed {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The epoch it leads in.
        leader_epoch: LeaderEpoch,
        /// The state.
        partition_epoch: PartitionEpoch,
        /// The in-sync replicas.
        isr: &'a [BrokerId],
    },
    /// The broker has registered.
    Registered {
        /// The registration.
        broker_epoch: BrokerEpoch,
        /// Whether it said that its last stop was unclean.
        unclean: bool,
    },
    /// The broker knows that its registration is gone.
    Unregistered {
        /// The registration that ended.
        broker_epoch: BrokerEpoch,
    },
    /// The broker has brought itself in line with the metadata.
    MetadataApplied {
        /// Up to where.
        position: MetadataPosition,
        /// Whether it came as a snapshot.
        snapshot: bool,
    },
    /// The broker is controller from now on: everything is loaded, commands are taken.
    BecameController {
        /// In which epoch.
        controller_epoch: ControllerEpoch,
    },
    /// The broker has ceased to be controller.
    ResignedController {
        /// In which epoch it was.
        controller_epoch: ControllerEpoch,
    },
    /// A success was sent for a produce request's partition.
    ProduceAcknowledged {
        /// Which partition.
        partition: &'a TopicPartition,
        /// Offset of the first record.
        base_offset: Offset,
        /// One past the last record.
        next_offset: Offset,
        /// What the producer asked for: 1 or −1 (all).
        acks: i16,
        /// Whether the batch was there already (idempotence).
        duplicate: bool,
        /// The high watermark at that moment.
        high_watermark: Offset,
    },
    /// Records were given to a consumer.
    FetchServed {
        /// Which partition.
        partition: &'a TopicPartition,
        /// The offset asked for.
        fetch_offset: Offset,
        /// One past the last record given (the fetch offset where none was).
        next_offset: Offset,
        /// The high watermark told along with them.
        high_watermark: Offset,
        /// Log start offset told along with them.
        log_start: Offset,
    },
    /// Something has happened to a group that this broker coordinates.
    Group {
        /// The partition of the offsets topic in which the group lives.
        partition: &'a TopicPartition,
        /// The epoch in which this broker leads it.
        leader_epoch: LeaderEpoch,
        /// What.
        fact: &'a GroupFact,
    },
    /// The topic's partitions are gone.
    TopicDeleted {
        /// Its name.
        topic: &'a str,
        /// Its id.
        topic_id: TopicId,
    },
}
