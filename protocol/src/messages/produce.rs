//! Produce (key 0): appends record batches. Versions 3 to 13.

use bytes::Bytes;
use uuid::Uuid;

use super::{LeaderIdAndEpoch, NodeEndpoint};

crate::schema! {
    /// Asks the leader to append batches to partitions.
    pub struct ProduceRequest (versions 3..=13, flexible 9..) {
        /// The transactional id, or null outside of transactions.
        transactional_id: Option<String>;
        /// 0: no answer wanted, 1: the leader's append, -1: all in-sync replicas.
        acks: i16;
        /// How long to wait for the replicas, in milliseconds.
        timeout_ms: i32;
        /// What to append, by topic.
        topic_data: Vec<ProduceTopic>;
    }

    /// What to append to one topic.
    pub struct ProduceTopic {
        /// Topic name.
        name: String, versions ..=12, ignorable true;
        /// Topic id (KIP-516).
        topic_id: Uuid, versions 13.., ignorable true;
        /// What to append, by partition.
        partition_data: Vec<ProducePartition>;
    }

    /// What to append to one partition.
    pub struct ProducePartition {
        /// Partition index.
        index: i32;
        /// Record batches: a slice of the request's frame, not copied.
        records: Option<Bytes>;
    }

    /// The outcome of a [`ProduceRequest`].
    pub struct ProduceResponse (versions 3..=13, flexible 9..) {
        /// Outcomes by topic.
        responses: Vec<ProduceTopicResponse>;
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Where the leaders named in the partitions listen.
        node_endpoints: Vec<NodeEndpoint>, versions 10.., tag 0, ignorable true;
    }

    /// The outcome for one topic.
    pub struct ProduceTopicResponse {
        /// Topic name.
        name: String, versions ..=12, ignorable true;
        /// Topic id.
        topic_id: Uuid, versions 13.., ignorable true;
        /// Outcomes by partition.
        partition_responses: Vec<ProducePartitionResponse>;
    }

    /// The outcome for one partition.
    pub struct ProducePartitionResponse {
        /// Partition index.
        index: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// Offset given to the first record.
        base_offset: i64;
        /// Broker time of the append in milliseconds; -1 where the topic keeps the producer's times.
        log_append_time_ms: i64 = -1, ignorable true;
        /// Start offset of the log.
        log_start_offset: i64 = -1, versions 5.., ignorable true;
        /// The records that made the batch fail (KIP-467).
        record_errors: Vec<BatchIndexAndErrorMessage>, versions 8.., ignorable true;
        /// What is common to the failed records, or null.
        error_message: Option<String>, versions 8.., ignorable true;
        /// The leader to turn to after NOT_LEADER_OR_FOLLOWER.
        current_leader: LeaderIdAndEpoch, versions 10.., tag 0, ignorable true;
    }

    /// Why one record of a batch was refused.
    pub struct BatchIndexAndErrorMessage {
        /// Index of the record in its batch.
        batch_index: i32;
        /// Why, or null.
        batch_index_error_message: Option<String>;
    }
}
