//! OffsetCommit (key 8): a consumer notes how far it has come. Versions 2 to 9.

crate::schema! {
    /// Commits offsets.
    pub struct OffsetCommitRequest (versions 2..=9, flexible 8..) {
        /// Group id.
        group_id: String;
        /// The generation; -1 of a consumer that is no member. In the newer protocol the member's epoch (KIP-848).
        generation_id_or_member_epoch: i32 = -1, ignorable true;
        /// The member, empty for none.
        member_id: String, ignorable true;
        /// What the user named it.
        group_instance_id: Option<String>, versions 7.., nullable 7..;
        /// How long to keep the offsets, in milliseconds; -1 for the broker's retention.
        retention_time_ms: i64 = -1, versions ..=4, ignorable true;
        /// The offsets by topic.
        topics: Vec<OffsetCommitRequestTopic>;
    }

    /// Offsets of one topic.
    pub struct OffsetCommitRequestTopic {
        /// Topic name.
        name: String;
        /// The offsets by partition.
        partitions: Vec<OffsetCommitRequestPartition>;
    }

    /// The offset of one partition.
    pub struct OffsetCommitRequestPartition {
        /// Partition index.
        partition_index: i32;
        /// The offset to read next.
        committed_offset: i64;
        /// The leader epoch of the last record read, -1 if not known (KIP-320).
        committed_leader_epoch: i32 = -1, versions 6.., ignorable true;
        /// Whatever the consumer wants to find again along with it.
        committed_metadata: Option<String>;
    }

    /// What became of the offsets.
    pub struct OffsetCommitResponse (versions 2..=9, flexible 8..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 3.., ignorable true;
        /// By topic.
        topics: Vec<OffsetCommitResponseTopic>;
    }

    /// What became of one topic's offsets.
    pub struct OffsetCommitResponseTopic {
        /// Topic name.
        name: String;
        /// By partition.
        partitions: Vec<OffsetCommitResponsePartition>;
    }

    /// What became of one partition's offset.
    pub struct OffsetCommitResponsePartition {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
