//! What is read, and how partitions are named. Keys and values are slices of what the broker sent.

use bytes::Bytes;
use sillon_protocol::records::TimestampType;
use std::{fmt, sync::Arc};

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
}

impl TopicPartition {
    /// A partition of a topic.
    pub fn new(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The key, UTF-8 by convention; nothing checks it.
    pub key: Bytes,
    /// The value; `None` is null.
    pub value: Option<Bytes>,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The epoch of the leader that appended it, `None` where the broker does not tell.
    pub leader_epoch: Option<i32>,
    /// Its time in milliseconds.
    pub timestamp: i64,
    /// Who set the time.
    pub timestamp_type: TimestampType,
    /// The key; `None` is null.
    pub key: Option<Bytes>,
    /// The value; `None` is null: a tombstone in a compacted topic.
    pub value: Option<Bytes>,
    /// The headers in their order; keys may repeat.
    pub headers: Vec<RecordHeader>,
}

/// A committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// The offset to read next.
    pub offset: i64,
    /// The epoch of the last record read, so that a truncation is noticed (KIP-320).
    pub leader_epoch: Option<i32>,
    /// Whatever the committer wants to find again along with it.
    pub metadata: String,
}

impl From<i64> for OffsetAndMetadata {
    fn from(offset: i64) -> OffsetAndMetadata {
        OffsetAndMetadata { offset, ..OffsetAndMetadata::default() }
    }
}

/// An offset found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// The time of the record there, in milliseconds.
    pub timestamp: i64,
    /// The epoch of the leader that appended it, `None` where the broker does not tell.
    pub leader_epoch: Option<i32>,
}
