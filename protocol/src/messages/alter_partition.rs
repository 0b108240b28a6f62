//! AlterPartition (key 56): a leader proposes in-sync replicas to the controller (KIP-497, KIP-903). Versions 2 to 3.

use uuid::Uuid;

crate::schema! {
    /// Proposes in-sync replicas.
    pub struct AlterPartitionRequest (versions 2..=3, flexible 0..) {
        /// The leader.
        broker_id: i32;
        /// Its registration.
        broker_epoch: i64 = -1;
        /// What it proposes, by topic.
        topics: Vec<AlterPartitionTopic>;
    }

    /// What is proposed for one topic.
    pub struct AlterPartitionTopic {
        /// Topic id.
        topic_id: Uuid, ignorable true;
        /// What is proposed, by partition.
        partitions: Vec<AlterPartitionPartition>;
    }

    /// What is proposed for one partition.
    pub struct AlterPartitionPartition {
        /// Partition index.
        partition_index: i32;
        /// The epoch that the proposer leads in.
        leader_epoch: i32;
        /// The in-sync replicas.
        new_isr: Vec<i32>, versions ..=2;
        /// The in-sync replicas with their registrations.
        new_isr_with_epochs: Vec<AlterPartitionBroker>, versions 3..;
        /// 0 for a leader with a whole log, 1 for one that was elected although it may miss records.
        leader_recovery_state: i8;
        /// The state that is to be changed.
        partition_epoch: i32;
    }

    /// An in-sync replica.
    pub struct AlterPartitionBroker {
        /// Broker id.
        broker_id: i32;
        /// The registration under which it caught up, -1 if not known.
        broker_epoch: i64 = -1;
    }

    /// The outcome of an [`AlterPartitionRequest`].
    pub struct AlterPartitionResponse (versions 2..=3, flexible 0..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Error code of the whole request, 0 for none.
        error_code: i16;
        /// Outcomes by topic.
        topics: Vec<AlterPartitionTopicResponse>;
    }

    /// The outcomes for one topic.
    pub struct AlterPartitionTopicResponse {
        /// Topic id.
        topic_id: Uuid, ignorable true;
        /// Outcomes by partition.
        partitions: Vec<AlterPartitionPartitionResponse>;
    }

    /// The outcome for one partition: its true state.
    pub struct AlterPartitionPartitionResponse {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// The leader.
        leader_id: i32;
        /// The leader epoch.
        leader_epoch: i32;
        /// The in-sync replicas.
        isr: Vec<i32>;
        /// 0 for a leader with a whole log, 1 for one that was elected although it may miss records.
        leader_recovery_state: i8;
        /// Counts the changes of the state.
        partition_epoch: i32;
    }
}
