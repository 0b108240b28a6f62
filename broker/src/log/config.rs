//! What a log's owner may set. Owns plain values in the units of Kafka's configuration; never parses text.

use sillon_protocol::records::{Compression, TimestampType};

/// The topic-level settings that a log obeys. The default is Kafka's default.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`: the active segment is closed before it would grow past this.
    pub segment_bytes: u32,
    /// `segment.ms`: the active segment is closed when it has been written to for this long.
    pub segment_ms: i64,
    /// `segment.index.bytes`: the active segment is closed when one of its indexes has reached this size.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`: an index entry is made for every so many bytes of batches.
    pub index_interval_bytes: u32,
    /// `flush.messages`: how many records may be in the log without having been synced.
    pub flush_messages: i64,
    /// `flush.ms`: for how long a record may be in the log without having been synced.
    pub flush_ms: i64,
    /// `cleanup.policy` names `compact`: of each key only the newest record is kept.
    pub compact: bool,
    /// `cleanup.policy` names `delete`: segments go by `retention.ms` and `retention.bytes`.
    pub delete: bool,
    /// `min.cleanable.dirty.ratio`: which part of a log must be dirty before it is compacted, from 0 to 1.
    pub min_cleanable_dirty_ratio: f64,
    /// `min.compaction.lag.ms`: for how long a record is left alone.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: after how long a record must have been looked at.
    pub max_compaction_lag_ms: i64,
    /// `delete.retention.ms`: for how long tombstones are kept after the first compaction that meets them.
    pub delete_retention_ms: i64,
    /// `retention.ms`: how long records are kept, −1 for ever.
    pub retention_ms: i64,
    /// `retention.bytes`: how large the log may become, −1 for any size.
    pub retention_bytes: i64,
    /// `max.message.bytes`: the largest batch that is taken from a client.
    pub max_message_bytes: u32,
    /// `message.timestamp.type`: who sets the time stamps.
    pub message_timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms` (KIP-937): how far a time stamp may lie in the past.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms` (KIP-937): how far a time stamp may lie in the future.
    pub message_timestamp_after_max_ms: i64,
    /// `file.delete.delay.ms`: how long a deleted partition's directory stays on disk.
    pub file_delete_delay_ms: i64,
    /// `compression.type`: the codec batches are stored with; none for `producer`, which keeps them as they are.
    pub compression: Option<Compression>,
    /// `producer.id.expiration.ms`: after how long without a batch an idempotent producer is forgotten.
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 60 * 60 * 1000,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            compact: false,
            delete: true,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            delete_retention_ms: 24 * 60 * 60 * 1000,
            retention_ms: 7 * 24 * 60 * 60 * 1000,
            retention_bytes: -1,
            max_message_bytes: 1_048_588,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: 60 * 60 * 1000,
            file_delete_delay_ms: 60_000,
            compression: None,
            producer_id_expiration_ms: 24 * 60 * 60 * 1000,
        }
    }
}
