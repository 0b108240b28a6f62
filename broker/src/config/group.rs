//! What a broker's file says of consumer groups and their offsets: the keys, and the typed values. Owns both.

use super::{
    Values,
    keys::{Key, Kind, broker},
};
use sillon_protocol::records::Compression;
use std::time::Duration;

const POSITIVE: Kind = Kind::Int(1, i32::MAX);

/// The keys of groups and offsets. Names, defaults and bounds are Kafka's.
pub const GROUP_KEYS: &[Key] = &[
    broker(
        "group.initial.rebalance.delay.ms",
        Kind::Int(0, i32::MAX),
        "3000",
        "How long the first rebalance of an empty group waits for more members.",
    ),
    broker(
        "group.max.session.timeout.ms",
        Kind::Int(0, i32::MAX),
        "1800000",
        "The longest session timeout that a member may ask for.",
    ),
    broker("group.max.size", POSITIVE, "2147483647", "The most members that a group may have."),
    broker(
        "group.min.session.timeout.ms",
        Kind::Int(0, i32::MAX),
        "6000",
        "The shortest session timeout that a member may ask for.",
    ),
    broker(
        "offset.metadata.max.bytes",
        Kind::Int(0, i32::MAX),
        "4096",
        "The most bytes that a consumer may note along with an offset.",
    ),
    broker(
        "offsets.commit.timeout.ms",
        POSITIVE,
        "5000",
        "How long an offset commit waits until all in-sync replicas have it.",
    ),
    broker(
        "offsets.load.buffer.size",
        POSITIVE,
        "5242880",
        "How much of a partition of the offsets topic is read at a time while groups are loaded.",
    ),
    broker(
        "offsets.retention.check.interval.ms",
        Kind::Long(1, i64::MAX),
        "600000",
        "How often offsets that are past their retention are looked for.",
    ),
    broker(
        "offsets.retention.minutes",
        POSITIVE,
        "10080",
        "How long the offsets of a group without members, or of a topic that it does not read any more, are kept.",
    ),
    broker(
        "offsets.topic.compression.codec",
        Kind::Int(0, 4),
        "0",
        "How batches of the offsets topic are compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    broker(
        "offsets.topic.num.partitions",
        POSITIVE,
        "50",
        "How many partitions the offsets topic is created with.",
    ),
    broker(
        "offsets.topic.replication.factor",
        Kind::Int(1, 32767),
        "3",
        "How many replicas the offsets topic is created with, or as many as there are brokers then, if those are fewer.",
    ),
    broker(
        "offsets.topic.segment.bytes",
        POSITIVE,
        "104857600",
        "The segment size of the offsets topic: small, so that it is compacted and loaded quickly.",
    ),
];

/// How groups are coordinated and offsets kept.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupConfig {
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay: Duration,
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.max.size`.
    pub max_size: usize,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.commit.timeout.ms`.
    pub commit_timeout: Duration,
    /// `offsets.load.buffer.size`.
    pub load_buffer_bytes: usize,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval: Duration,
    /// `offsets.retention.minutes`, in milliseconds.
    pub retention_ms: i64,
    /// `offsets.topic.compression.codec`.
    pub compression: Compression,
    /// `offsets.topic.num.partitions`.
    pub topic_partitions: i32,
    /// `offsets.topic.replication.factor`.
    pub topic_replication_factor: i16,
    /// `offsets.topic.segment.bytes`.
    pub topic_segment_bytes: i32,
}

impl GroupConfig {
    pub(super) fn read(values: &Values<'_>) -> GroupConfig {
        let millis = |name: &str| Duration::from_millis(values.number(name));
        let retention_minutes: i64 = values.number("offsets.retention.minutes");
        GroupConfig {
            initial_rebalance_delay: millis("group.initial.rebalance.delay.ms"),
            min_session_timeout_ms: values.number("group.min.session.timeout.ms"),
            max_session_timeout_ms: values.number("group.max.session.timeout.ms"),
            max_size: values.number("group.max.size"),
            offset_metadata_max_bytes: values.number("offset.metadata.max.bytes"),
            commit_timeout: millis("offsets.commit.timeout.ms"),
            load_buffer_bytes: values.number("offsets.load.buffer.size"),
            retention_check_interval: millis("offsets.retention.check.interval.ms"),
            retention_ms: retention_minutes.saturating_mul(60_000),
            compression: match values.number::<i32>("offsets.topic.compression.codec") {
                1 => Compression::Gzip,
                2 => Compression::Snappy,
                3 => Compression::Lz4,
                4 => Compression::Zstd,
                _ => Compression::None,
            },
            topic_partitions: values.number("offsets.topic.num.partitions"),
            topic_replication_factor: values.number("offsets.topic.replication.factor"),
            topic_segment_bytes: values.number("offsets.topic.segment.bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::BrokerConfig;
    use std::time::Duration;

    #[test]
    fn the_defaults_are_kafkas() {
        let groups = BrokerConfig::default().groups;
        assert_eq!(groups.initial_rebalance_delay, Duration::from_secs(3));
        assert_eq!((groups.min_session_timeout_ms, groups.max_session_timeout_ms), (6000, 1_800_000));
        assert_eq!(groups.retention_ms, 7 * 24 * 3_600_000);
        assert_eq!((groups.topic_partitions, groups.topic_replication_factor), (50, 3));
    }

    #[test]
    fn a_retention_of_no_time_is_refused() {
        let error = BrokerConfig::from_properties("offsets.retention.minutes=0", "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "x:1: invalid value \"0\" for offsets.retention.minutes: at least 1 is expected"
        );
    }
}
