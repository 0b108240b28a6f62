//! Everything that can go wrong in a log. Owns the error types; never decides what a client is told.

use crate::types::{BrokerId, LeaderEpoch, Offset, ProducerId, TopicId, TopicPartition};
use sillon_protocol::records::RecordError;
use std::{io, path::PathBuf, sync::Arc};

/// A log, or the directory that holds logs, cannot be opened, synced, cut or closed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system refused.
    #[error("{path}: {action}: {source}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The directory belongs to another topic of the same name (KIP-516).
    #[error("{path} holds data of topic id {found}, not of {expected}", path = .path.display())]
    InconsistentTopicId {
        /// The partition's directory.
        path: PathBuf,
        /// The id in its `partition.metadata`.
        found: TopicId,
        /// The id it was opened for.
        expected: TopicId,
    },
    /// A file does not hold what it should, and nothing else can stand in for it.
    #[error("{path}: {problem}", path = .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The log takes no writes until it is opened again.
    #[error("the log of {partition} is offline: {reason}")]
    Offline {
        /// Whose log.
        partition: TopicPartition,
        /// What failed.
        reason: Arc<str>,
    },
    /// The offset lies outside what the request may name.
    #[error("offset {offset} is not within {first} to {last}")]
    OffsetOutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// The smallest that is allowed.
        first: Offset,
        /// The largest that is allowed.
        last: Offset,
    },
    /// A leader epoch that is older than what the log already holds.
    #[error("leader epoch {given} is older than {latest}, the latest in the log")]
    StaleLeaderEpoch {
        /// The epoch given.
        given: LeaderEpoch,
        /// The latest epoch of the log.
        latest: LeaderEpoch,
    },
    /// The process is stopping.
    #[error("the process is stopping")]
    Stopping,
    /// No directory was named.
    #[error("log.dirs names no directory")]
    NoDirectory,
    /// Another process uses it.
    #[error("log directory {path} is in use by another broker (its .lock file is held)", path = .path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The directory belongs to another cluster.
    #[error("log directory {path} belongs to cluster {found}, this broker is of cluster {expected}; \
        check log.dirs and zookeeper.connect", path = .path.display())]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// The cluster it was used in.
        found: String,
        /// The cluster it was opened for.
        expected: String,
    },
    /// The directory belongs to another broker.
    #[error("log directory {path} belongs to broker {found}, this is broker {expected}; check log.dirs and broker.id",
        path = .path.display())]
    OtherBroker {
        /// The directory.
        path: PathBuf,
        /// The broker that used it.
        found: BrokerId,
        /// The broker it was opened for.
        expected: BrokerId,
    },
    /// Two directories say different things about who uses them.
    #[error("log directories {first} and {second} belong to different brokers or clusters",
        first = .first.display(), second = .second.display())]
    Disagreement {
        /// One of them.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The same partition lies in two directories.
    #[error("partition {partition} is in {first} and in {second}", first = .first.display(), second = .second.display())]
    DuplicatePartition {
        /// The partition.
        partition: TopicPartition,
        /// One directory.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A name that cannot be a topic's.
    #[error(transparent)]
    InvalidTopicName(#[from] InvalidTopicName),
}

impl LogError {
    /// Gives an operating system error its place.
    pub(super) fn io(path: impl Into<PathBuf>, action: &'static str) -> impl FnOnce(io::Error) -> LogError {
        let path = path.into();
        move |source| LogError::Io { path, action, source }
    }
}

/// A batch was not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The bytes are not one well-formed batch.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Larger than `max.message.bytes` allows.
    #[error("the batch has {size_bytes} bytes, max.message.bytes allows {limit_bytes}")]
    TooLarge {
        /// The batch's size.
        size_bytes: usize,
        /// The limit.
        limit_bytes: u32,
    },
    /// A record of a compacted topic without a key (Kafka: INVALID_RECORD).
    #[error("Compacted topic cannot accept message without key in topic partition {partition}.")]
    MissingKey {
        /// The partition.
        partition: TopicPartition,
        /// Which records of the batch, counted from 0: all that have none.
        indexes: Vec<i32>,
    },
    /// Larger than a whole segment may become.
    #[error("the batch has {size_bytes} bytes, segment.bytes allows {limit_bytes}")]
    LargerThanSegment {
        /// The batch's size.
        size_bytes: usize,
        /// The limit.
        limit_bytes: u32,
    },
    /// A time stamp too far in the past or in the future (KIP-937).
    #[error("timestamp {timestamp_ms} is not within {first_ms} to {last_ms}, which this topic accepts now")]
    InvalidTimestamp {
        /// The batch's time stamp.
        timestamp_ms: i64,
        /// The earliest that is accepted.
        first_ms: i64,
        /// The latest that is accepted.
        last_ms: i64,
    },
    /// The producer's epoch is older than one that has written here (Kafka: INVALID_PRODUCER_EPOCH).
    #[error("producer {producer_id} has epoch {given}, but epoch {current} has written already")]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// The batch's epoch.
        given: i16,
        /// The newer epoch.
        current: i16,
    },
    /// Batches before this one are missing (Kafka: OUT_OF_ORDER_SEQUENCE_NUMBER).
    #[error("producer {producer_id} sent sequence {given} where {expected} was to come next")]
    OutOfOrderSequence {
        /// The producer.
        producer_id: ProducerId,
        /// The batch's first sequence number.
        given: i32,
        /// What would have followed the last batch.
        expected: i32,
    },
    /// A batch outside of the transaction that its producer has open here (Kafka: INVALID_TXN_STATE).
    #[error("producer {producer_id} has a transaction open here and sent a batch that is not part of it")]
    InvalidTransactionState {
        /// The producer.
        producer_id: ProducerId,
    },
    /// A transaction marker of a coordinator that has been replaced (Kafka: TRANSACTION_COORDINATOR_FENCED).
    #[error("coordinator epoch {given} is older than {current}")]
    CoordinatorFenced {
        /// The marker's coordinator epoch.
        given: i32,
        /// The newer one.
        current: i32,
    },
    /// The caller leads, or follows, in an epoch older than what the log holds.
    #[error("leader epoch {given} is older than {latest}, the latest in the log")]
    StaleLeaderEpoch {
        /// The epoch given.
        given: LeaderEpoch,
        /// The latest epoch of the log.
        latest: LeaderEpoch,
    },
    /// A replicated batch does not continue the log.
    #[error("the batch starts at offset {given}, the log ends at {log_end}")]
    OutOfOrderOffset {
        /// The batch's base offset.
        given: Offset,
        /// The log's end.
        log_end: Offset,
    },
    /// The log takes no writes until it is opened again.
    #[error("the log is offline: {0}")]
    Offline(Arc<str>),
}

impl From<LogError> for AppendError {
    /// A batch that is in the log and cannot be made durable is as good as one that was not appended.
    fn from(error: LogError) -> AppendError {
        match error {
            LogError::Offline { reason, .. } => AppendError::Offline(reason),
            LogError::StaleLeaderEpoch { given, latest } => AppendError::StaleLeaderEpoch { given, latest },
            error => AppendError::Offline(error.to_string().into()),
        }
    }
}

/// Records could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The offset is before the start or past the end of the log.
    #[error("offset {offset} is not within {log_start} to {log_end}")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// Log start offset.
        log_start: Offset,
        /// Log end offset.
        log_end: Offset,
    },
    /// The operating system refused.
    #[error("reading {path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The stored bytes are damaged.
    #[error("{path} is damaged at byte {position}: {source}", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        position: u64,
        /// What is wrong.
        source: RecordError,
    },
}

/// The text cannot be a topic's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "topic name {0:?} is not allowed: 1 to 249 characters of [a-zA-Z0-9._-] are, except \".\" and \"..\""
)]
pub struct InvalidTopicName(pub String);
