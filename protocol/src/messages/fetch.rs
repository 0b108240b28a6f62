//! Fetch (key 1): reads record batches, for consumers and followers. Versions 4 to 18.

use uuid::Uuid;

use super::{LeaderIdAndEpoch, NodeEndpoint};
use crate::wire::Records;

crate::schema! {
    /// Asks for batches of partitions from given offsets on.
    pub struct FetchRequest (versions 4..=18, flexible 12..) {
        /// Cluster id, if the fetcher insists on one.
        cluster_id: Option<String>, versions 12.., tag 0, ignorable true;
        /// Broker id of a follower, -1 for a consumer.
        replica_id: i32 = -1, versions ..=14;
        /// Broker id and epoch of a follower (KIP-903).
        replica_state: ReplicaState, versions 15.., tag 1;
        /// How long to wait for `min_bytes`, in milliseconds.
        max_wait_ms: i32;
        /// Least bytes to answer with before the wait is over.
        min_bytes: i32;
        /// Most bytes to answer with, but for a first batch that is larger.
        max_bytes: i32 = i32::MAX;
        /// 0 reads everything below the high watermark, 1 only what is committed.
        isolation_level: i8;
        /// Fetch session, 0 for none (KIP-227).
        session_id: i32, versions 7.., ignorable true;
        /// Epoch in the fetch session; -1 ends or avoids one.
        session_epoch: i32 = -1, versions 7.., ignorable true;
        /// What to read, by topic.
        topics: Vec<FetchTopic>;
        /// What to take out of the fetch session.
        forgotten_topics_data: Vec<ForgottenTopic>, versions 7..;
        /// Rack of the consumer (KIP-392).
        rack_id: String, versions 11.., ignorable true;
    }

    /// Identity of a fetching follower (KIP-903).
    pub struct ReplicaState {
        /// Broker id, -1 for a consumer.
        replica_id: i32 = -1;
        /// Broker epoch, -1 if not known.
        replica_epoch: i64 = -1;
    }

    /// What to read from one topic.
    pub struct FetchTopic {
        /// Topic name.
        topic: String, versions ..=12, ignorable true;
        /// Topic id (KIP-516).
        topic_id: Uuid, versions 13.., ignorable true;
        /// What to read, by partition.
        partitions: Vec<FetchPartition>;
    }

    /// What to read from one partition.
    pub struct FetchPartition {
        /// Partition index.
        partition: i32;
        /// The leader epoch that the fetcher believes in, -1 for none (KIP-320).
        current_leader_epoch: i32 = -1, versions 9.., ignorable true;
        /// The first offset wanted.
        fetch_offset: i64;
        /// Epoch of the last record that the fetcher has, -1 for none (KIP-595).
        last_fetched_epoch: i32 = -1, versions 12..;
        /// A follower's own log start offset, -1 for a consumer.
        log_start_offset: i64 = -1, versions 5.., ignorable true;
        /// Most bytes to answer with for this partition.
        partition_max_bytes: i32;
        /// Directory id of a fetching follower (KIP-853).
        replica_directory_id: Uuid, versions 17.., tag 0, ignorable true;
        /// High watermark that the fetcher knows (KIP-1166).
        high_watermark: i64 = i64::MAX, versions 18.., tag 1, ignorable true;
    }

    /// What to take out of the fetch session.
    pub struct ForgottenTopic {
        /// Topic name.
        topic: String, versions ..=12, ignorable true;
        /// Topic id.
        topic_id: Uuid, versions 13.., ignorable true;
        /// Partition indexes.
        partitions: Vec<i32>;
    }

    /// The batches that a [`FetchRequest`] asked for.
    pub struct FetchResponse (versions 4..=18, flexible 12..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Error of the whole request, 0 for none.
        error_code: i16, versions 7.., ignorable true;
        /// Fetch session, 0 for none.
        session_id: i32, versions 7..;
        /// Batches by topic.
        responses: Vec<FetchTopicResponse>;
        /// Where the leaders named in the partitions listen.
        node_endpoints: Vec<NodeEndpoint>, versions 16.., tag 0, ignorable true;
    }

    /// Batches of one topic.
    pub struct FetchTopicResponse {
        /// Topic name.
        topic: String, versions ..=12, ignorable true;
        /// Topic id.
        topic_id: Uuid, versions 13.., ignorable true;
        /// Batches by partition.
        partitions: Vec<FetchPartitionResponse>;
    }

    /// Batches of one partition.
    pub struct FetchPartitionResponse {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// High watermark: everything below is on all in-sync replicas.
        high_watermark: i64;
        /// Last stable offset: every transaction below is decided. -1 if not known.
        last_stable_offset: i64 = -1, ignorable true;
        /// Start offset of the log.
        log_start_offset: i64 = -1, versions 5.., ignorable true;
        /// Where the fetcher's log leaves the leader's; then there are no records (KIP-595).
        diverging_epoch: FetchEpochEndOffset, versions 12.., tag 0;
        /// The leader to turn to after NOT_LEADER_OR_FOLLOWER.
        current_leader: LeaderIdAndEpoch, versions 12.., tag 1;
        /// A snapshot to fetch instead of records.
        snapshot_id: FetchSnapshotId, versions 12.., tag 2;
        /// Aborted transactions among the records, in ascending order; null unless isolation asks.
        aborted_transactions: Option<Vec<AbortedTransaction>>, ignorable true;
        /// A replica that the consumer should rather read from, -1 for none (KIP-392).
        preferred_read_replica: i32 = -1, versions 11..;
        /// Record batches. The first may begin below the offset asked for, the last may be cut off.
        records: Records;
    }

    /// The last epoch that fetcher and leader share, and where it ends.
    pub struct FetchEpochEndOffset {
        /// Leader epoch, -1 for none.
        epoch: i32 = -1;
        /// Its end offset.
        end_offset: i64 = -1;
    }

    /// A snapshot of a log.
    pub struct FetchSnapshotId {
        /// End offset, -1 for none.
        end_offset: i64 = -1;
        /// Leader epoch.
        epoch: i32 = -1;
    }

    /// A transaction that was aborted.
    pub struct AbortedTransaction {
        /// Producer id.
        producer_id: i64;
        /// Offset of its first record.
        first_offset: i64;
    }
}
