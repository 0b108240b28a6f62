//! CreatePartitions (key 37): adds partitions to topics (KIP-195). Versions 0 to 3.

crate::schema! {
    /// Asks the controller to add partitions.
    pub struct CreatePartitionsRequest (versions 0..=3, flexible 2..) {
        /// The topics.
        topics: Vec<CreatePartitionsTopic>;
        /// How long to wait until they exist, in milliseconds.
        timeout_ms: i32;
        /// Whether only to check.
        validate_only: bool;
    }

    /// The partitions to add to one topic.
    pub struct CreatePartitionsTopic {
        /// Topic name.
        name: String;
        /// How many partitions the topic shall have in all.
        count: i32;
        /// Which brokers hold each new partition; null to leave that to the controller.
        assignments: Option<Vec<CreatePartitionsAssignment>>;
    }

    /// Which brokers hold a new partition.
    pub struct CreatePartitionsAssignment {
        /// Broker ids, the preferred leader first.
        broker_ids: Vec<i32>;
    }

    /// The outcome of a [`CreatePartitionsRequest`].
    pub struct CreatePartitionsResponse (versions 0..=3, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Outcomes by topic.
        results: Vec<CreatePartitionsTopicResult>;
    }

    /// The outcome for one topic.
    pub struct CreatePartitionsTopicResult {
        /// Topic name.
        name: String;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
    }
}
