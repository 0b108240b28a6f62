//! ListPartitionReassignments (key 46): which replicas are being moved (KIP-455). Version 0.

crate::schema! {
    /// Asks for reassignments that are under way.
    pub struct ListPartitionReassignmentsRequest (versions 0..=0, flexible 0..) {
        /// How long to wait, in milliseconds.
        timeout_ms: i32 = 60_000;
        /// The partitions, or null for all.
        topics: Option<Vec<ListPartitionReassignmentsTopic>>;
    }

    /// Partitions of one topic.
    pub struct ListPartitionReassignmentsTopic {
        /// Topic name.
        name: String;
        /// Partition indexes.
        partition_indexes: Vec<i32>;
    }

    /// Reassignments that are under way.
    pub struct ListPartitionReassignmentsResponse (versions 0..=0, flexible 0..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
        /// What is being moved, by topic.
        topics: Vec<OngoingTopicReassignment>;
    }

    /// What is being moved of one topic.
    pub struct OngoingTopicReassignment {
        /// Topic name.
        name: String;
        /// What is being moved, by partition.
        partitions: Vec<OngoingPartitionReassignment>;
    }

    /// One partition that is being moved.
    pub struct OngoingPartitionReassignment {
        /// Partition index.
        partition_index: i32;
        /// The replicas, old and new ones together.
        replicas: Vec<i32>;
        /// Those that are being added.
        adding_replicas: Vec<i32>;
        /// Those that will be removed.
        removing_replicas: Vec<i32>;
    }
}
