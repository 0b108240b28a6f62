//! DeleteRecords (key 21): moves the start of a log forward (KIP-107). Versions 0 to 2.

/// Offset that stands for the high watermark in a [`DeleteRecordsPartition`].
pub const DELETE_TO_HIGH_WATERMARK: i64 = -1;

crate::schema! {
    /// Asks the leaders to drop records below given offsets.
    pub struct DeleteRecordsRequest (versions 0..=2, flexible 2..) {
        /// Offsets by topic.
        topics: Vec<DeleteRecordsTopic>;
        /// How long to wait for the replicas, in milliseconds.
        timeout_ms: i32;
    }

    /// The offsets for one topic.
    pub struct DeleteRecordsTopic {
        /// Topic name.
        name: String;
        /// Offsets by partition.
        partitions: Vec<DeleteRecordsPartition>;
    }

    /// The offset for one partition.
    pub struct DeleteRecordsPartition {
        /// Partition index.
        partition_index: i32;
        /// The first offset to keep, or -1 for the high watermark.
        offset: i64;
    }

    /// The outcome of a [`DeleteRecordsRequest`].
    pub struct DeleteRecordsResponse (versions 0..=2, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Outcomes by topic.
        topics: Vec<DeleteRecordsTopicResult>;
    }

    /// The outcome for one topic.
    pub struct DeleteRecordsTopicResult {
        /// Topic name.
        name: String;
        /// Outcomes by partition.
        partitions: Vec<DeleteRecordsPartitionResult>;
    }

    /// The outcome for one partition.
    pub struct DeleteRecordsPartitionResult {
        /// Partition index.
        partition_index: i32;
        /// The least start offset over all living replicas.
        low_watermark: i64;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
