//! OffsetFetch (key 9): how far groups have come; one group up to version 7, several from version 8 on. Versions 1 to 9.

crate::schema! {
    /// Asks for committed offsets.
    pub struct OffsetFetchRequest (versions 1..=9, flexible 6..) {
        /// Group id.
        group_id: String, versions ..=7;
        /// Of which topics; null for all.
        topics: Option<Vec<OffsetFetchRequestTopic>>, versions ..=7, nullable 2..;
        /// Of which groups (KIP-709).
        groups: Vec<OffsetFetchRequestGroup>, versions 8..;
        /// Whether to refuse while a transaction on an offset is not decided (KIP-447).
        require_stable: bool, versions 7..;
    }

    /// Asks for a group's offsets.
    pub struct OffsetFetchRequestGroup {
        /// Group id.
        group_id: String;
        /// The member that asks, in the newer protocol (KIP-848).
        member_id: Option<String>, versions 9.., nullable 9.., ignorable true;
        /// Its epoch, -1 for none.
        member_epoch: i32 = -1, versions 9.., ignorable true;
        /// Of which topics; null for all.
        topics: Option<Vec<OffsetFetchRequestTopic>>;
    }

    /// Asks for offsets of one topic.
    pub struct OffsetFetchRequestTopic {
        /// Topic name.
        name: String;
        /// Of which partitions.
        partition_indexes: Vec<i32>;
    }

    /// Committed offsets.
    pub struct OffsetFetchResponse (versions 1..=9, flexible 6..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 3.., ignorable true;
        /// The offsets by topic.
        topics: Vec<OffsetFetchResponseTopic>, versions ..=7;
        /// Error code, 0 for none.
        error_code: i16, versions 2..=7, ignorable true;
        /// The offsets by group.
        groups: Vec<OffsetFetchResponseGroup>, versions 8..;
    }

    /// A group's offsets.
    pub struct OffsetFetchResponseGroup {
        /// Group id.
        group_id: String;
        /// The offsets by topic.
        topics: Vec<OffsetFetchResponseTopic>;
        /// Error code, 0 for none.
        error_code: i16;
    }

    /// Offsets of one topic.
    pub struct OffsetFetchResponseTopic {
        /// Topic name.
        name: String;
        /// The offsets by partition.
        partitions: Vec<OffsetFetchResponsePartition>;
    }

    /// The offset of one partition.
    pub struct OffsetFetchResponsePartition {
        /// Partition index.
        partition_index: i32;
        /// The offset to read next, -1 for none.
        committed_offset: i64;
        /// The leader epoch of the last record read, -1 if not known (KIP-320).
        committed_leader_epoch: i32 = -1, versions 5.., ignorable true;
        /// What the consumer noted along with it.
        metadata: Option<String>;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
