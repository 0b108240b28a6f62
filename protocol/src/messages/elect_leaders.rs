//! ElectLeaders (key 43): elects leaders of partitions (KIP-183, KIP-460). Versions 0 to 2.

crate::schema! {
    /// Asks the controller to elect leaders.
    pub struct ElectLeadersRequest (versions 0..=2, flexible 2..) {
        /// 0: the preferred replica; 1: any living replica where nobody is in sync.
        election_type: i8, versions 1..;
        /// The partitions, or null for all.
        topic_partitions: Option<Vec<ElectLeadersTopic>>;
        /// How long to wait for the elections, in milliseconds.
        timeout_ms: i32 = 60_000;
    }

    /// Partitions of a topic.
    pub struct ElectLeadersTopic {
        /// Topic name.
        topic: String;
        /// Partition indexes.
        partitions: Vec<i32>;
    }

    /// The outcome of an [`ElectLeadersRequest`].
    pub struct ElectLeadersResponse (versions 0..=2, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Error of the whole request, 0 for none.
        error_code: i16, versions 1..;
        /// Outcomes by topic.
        replica_election_results: Vec<ReplicaElectionResult>;
    }

    /// The outcomes for one topic.
    pub struct ReplicaElectionResult {
        /// Topic name.
        topic: String;
        /// Outcomes by partition.
        partition_result: Vec<ElectLeadersPartitionResult>;
    }

    /// The outcome for one partition.
    pub struct ElectLeadersPartitionResult {
        /// Partition index.
        partition_id: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
    }
}
