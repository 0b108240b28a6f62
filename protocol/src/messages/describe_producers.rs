//! DescribeProducers (key 61): the producers that a partition's leader remembers (KIP-664). Version 0.

crate::schema! {
    /// Asks a leader for its producers.
    pub struct DescribeProducersRequest (versions 0..=0, flexible 0..) {
        /// The partitions, by topic.
        topics: Vec<DescribeProducersTopic>;
    }

    /// Partitions of one topic.
    pub struct DescribeProducersTopic {
        /// Topic name.
        name: String;
        /// Partition indexes.
        partition_indexes: Vec<i32>;
    }

    /// The producers.
    pub struct DescribeProducersResponse (versions 0..=0, flexible 0..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// The producers, by topic.
        topics: Vec<DescribeProducersTopicResponse>;
    }

    /// The producers of one topic.
    pub struct DescribeProducersTopicResponse {
        /// Topic name.
        name: String;
        /// The producers, by partition.
        partitions: Vec<DescribeProducersPartitionResponse>;
    }

    /// The producers of one partition.
    pub struct DescribeProducersPartitionResponse {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
        /// The producers.
        active_producers: Vec<ActiveProducer>;
    }

    /// One producer.
    pub struct ActiveProducer {
        /// Producer id.
        producer_id: i64;
        /// Its epoch.
        producer_epoch: i32;
        /// The sequence number of its last record, -1 for none.
        last_sequence: i32 = -1;
        /// The time stamp of its last record, -1 for none.
        last_timestamp: i64 = -1;
        /// The epoch of the coordinator of its transaction.
        coordinator_epoch: i32;
        /// Where its open transaction begins, -1 for none.
        current_txn_start_offset: i64 = -1;
    }
}
