//! ListOffsets (key 2): finds offsets by time, and the ends of a log. Versions 1 to 11.

/// Timestamp that asks for the log end offset (the high watermark for consumers).
pub const LATEST_TIMESTAMP: i64 = -1;
/// Timestamp that asks for the log start offset.
pub const EARLIEST_TIMESTAMP: i64 = -2;
/// Timestamp that asks for the record with the greatest timestamp (KIP-734, from version 7).
pub const MAX_TIMESTAMP: i64 = -3;
/// Timestamp that asks for the first offset on local disk (KIP-405, from version 8).
pub const EARLIEST_LOCAL_TIMESTAMP: i64 = -4;
/// Timestamp that asks for the last offset in tiered storage (KIP-1005, from version 9).
pub const LATEST_TIERED_TIMESTAMP: i64 = -5;
/// Timestamp that asks for the first offset not yet in tiered storage (KIP-1023, from version 11).
pub const EARLIEST_PENDING_UPLOAD_TIMESTAMP: i64 = -6;

crate::schema! {
    /// Asks for offsets by timestamp.
    pub struct ListOffsetsRequest (versions 1..=11, flexible 6..) {
        /// Broker id of a follower, -1 for a consumer.
        replica_id: i32 = -1;
        /// 0: latest is the high watermark, 1: latest is the last stable offset.
        isolation_level: i8, versions 2..;
        /// What to look for, by topic.
        topics: Vec<ListOffsetsTopic>;
        /// How long to wait for tiered storage, in milliseconds (KIP-1075).
        timeout_ms: i32, versions 10.., ignorable true;
    }

    /// What to look for in one topic.
    pub struct ListOffsetsTopic {
        /// Topic name.
        name: String;
        /// What to look for, by partition.
        partitions: Vec<ListOffsetsPartition>;
    }

    /// What to look for in one partition.
    pub struct ListOffsetsPartition {
        /// Partition index.
        partition_index: i32;
        /// The leader epoch that the client believes in, -1 for none.
        current_leader_epoch: i32 = -1, versions 4.., ignorable true;
        /// Milliseconds since 1970: the first record at or after it. Negative ones have names above.
        timestamp: i64;
    }

    /// The offsets that were found.
    pub struct ListOffsetsResponse (versions 1..=11, flexible 6..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 2.., ignorable true;
        /// Offsets by topic.
        topics: Vec<ListOffsetsTopicResponse>;
    }

    /// The offsets of one topic.
    pub struct ListOffsetsTopicResponse {
        /// Topic name.
        name: String;
        /// Offsets by partition.
        partitions: Vec<ListOffsetsPartitionResponse>;
    }

    /// The offset of one partition.
    pub struct ListOffsetsPartitionResponse {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// Timestamp of the record found, -1 for none.
        timestamp: i64 = -1;
        /// Its offset, -1 for none.
        offset: i64 = -1;
        /// Leader epoch of the record, -1 if not known.
        leader_epoch: i32 = -1, versions 4..;
    }
}
