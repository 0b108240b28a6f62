//! DescribeTopicPartitions (key 75): partitions page by page (KIP-966). Version 0.

use uuid::Uuid;

use super::AUTHORIZED_OPERATIONS_OMITTED;

crate::schema! {
    /// Asks for partitions of topics, from a cursor on.
    pub struct DescribeTopicPartitionsRequest (versions 0..=0, flexible 0..) {
        /// The topics, all of them if empty.
        topics: Vec<TopicRequest>;
        /// Most partitions to answer with.
        response_partition_limit: i32 = 2000;
        /// Where to begin, or null for the beginning.
        cursor: Option<Cursor>;
    }

    /// A topic to describe.
    pub struct TopicRequest {
        /// Topic name.
        name: String;
    }

    /// A place in the list of partitions.
    pub struct Cursor {
        /// Topic name.
        topic_name: String;
        /// Partition index.
        partition_index: i32;
    }

    /// A page of partitions.
    pub struct DescribeTopicPartitionsResponse (versions 0..=0, flexible 0..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// The topics.
        topics: Vec<DescribeTopicPartitionsTopic>;
        /// Where the next page begins, or null after the last.
        next_cursor: Option<Cursor>;
    }

    /// A topic.
    pub struct DescribeTopicPartitionsTopic {
        /// Error code, 0 for none.
        error_code: i16;
        /// Topic name.
        name: Option<String>;
        /// Topic id.
        topic_id: Uuid, ignorable true;
        /// Whether the topic is the brokers' own.
        is_internal: bool, ignorable true;
        /// Its partitions.
        partitions: Vec<DescribeTopicPartitionsPartition>;
        /// Bit field of what the client may do to the topic.
        topic_authorized_operations: i32 = AUTHORIZED_OPERATIONS_OMITTED;
    }

    /// A partition.
    pub struct DescribeTopicPartitionsPartition {
        /// Error code, 0 for none.
        error_code: i16;
        /// Partition index.
        partition_index: i32;
        /// Broker id of the leader, -1 for none.
        leader_id: i32;
        /// Leader epoch, -1 if not known.
        leader_epoch: i32 = -1, ignorable true;
        /// All replicas, the preferred leader first.
        replica_nodes: Vec<i32>;
        /// The replicas in sync.
        isr_nodes: Vec<i32>;
        /// Replicas that may lead though not in sync. Java's admin client fails on null: empty by default.
        eligible_leader_replicas: Option<Vec<i32>> = Some(Vec::new());
        /// The last known eligible leaders. Java's admin client fails on null: empty by default.
        last_known_elr: Option<Vec<i32>> = Some(Vec::new());
        /// The replicas that are not alive.
        offline_replicas: Vec<i32>, ignorable true;
    }
}

crate::nullable_structures!(Cursor);
