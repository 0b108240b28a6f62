//! OffsetDelete (key 47): removes committed offsets of topics that a group does not read (KIP-496). Version 0.

crate::schema! {
    /// Removes committed offsets.
    pub struct OffsetDeleteRequest (versions 0..=0, flexible ..0) {
        /// Group id.
        group_id: String;
        /// Of which topics.
        topics: Vec<OffsetDeleteRequestTopic>;
    }

    /// Removes offsets of one topic.
    pub struct OffsetDeleteRequestTopic {
        /// Topic name.
        name: String;
        /// Of which partitions.
        partitions: Vec<OffsetDeleteRequestPartition>;
    }

    /// Removes the offset of one partition.
    pub struct OffsetDeleteRequestPartition {
        /// Partition index.
        partition_index: i32;
    }

    /// What became of the offsets.
    pub struct OffsetDeleteResponse (versions 0..=0, flexible ..0) {
        /// Error code of the whole request, 0 for none.
        error_code: i16;
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// By topic.
        topics: Vec<OffsetDeleteResponseTopic>;
    }

    /// What became of one topic's offsets.
    pub struct OffsetDeleteResponseTopic {
        /// Topic name.
        name: String;
        /// By partition.
        partitions: Vec<OffsetDeleteResponsePartition>;
    }

    /// What became of one partition's offset.
    pub struct OffsetDeleteResponsePartition {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
