//! AlterPartitionReassignments (key 45): moves replicas to other brokers (KIP-455, KIP-860). Versions 0 to 1.

crate::schema! {
    /// Asks the controller for other replicas.
    pub struct AlterPartitionReassignmentsRequest (versions 0..=1, flexible 0..) {
        /// How long to wait, in milliseconds.
        timeout_ms: i32 = 60_000;
        /// Whether the number of replicas may change.
        allow_replication_factor_change: bool = true, versions 1..;
        /// What is asked for, by topic.
        topics: Vec<ReassignableTopic>;
    }

    /// What is asked for one topic.
    pub struct ReassignableTopic {
        /// Topic name.
        name: String;
        /// What is asked for, by partition.
        partitions: Vec<ReassignablePartition>;
    }

    /// What is asked for one partition.
    pub struct ReassignablePartition {
        /// Partition index.
        partition_index: i32;
        /// The replicas that it is to have, or null to take back a reassignment that is under way.
        replicas: Option<Vec<i32>>;
    }

    /// The outcome of an [`AlterPartitionReassignmentsRequest`].
    pub struct AlterPartitionReassignmentsResponse (versions 0..=1, flexible 0..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Repeated from the request.
        allow_replication_factor_change: bool = true, versions 1.., ignorable true;
        /// Error of the whole request, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
        /// Outcomes by topic.
        responses: Vec<ReassignableTopicResponse>;
    }

    /// The outcomes for one topic.
    pub struct ReassignableTopicResponse {
        /// Topic name.
        name: String;
        /// Outcomes by partition.
        partitions: Vec<ReassignablePartitionResponse>;
    }

    /// The outcome for one partition.
    pub struct ReassignablePartitionResponse {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
    }
}
