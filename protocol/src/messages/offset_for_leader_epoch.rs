//! OffsetForLeaderEpoch (key 23): where an epoch ends in the leader's log (KIP-101, KIP-320).
//! Versions 2 to 4.

crate::schema! {
    /// Asks where leader epochs end.
    pub struct OffsetForLeaderEpochRequest (versions 2..=4, flexible 4..) {
        /// Broker id of a follower, -1 for a consumer, -2 for a debugging consumer.
        replica_id: i32 = -2, versions 3.., ignorable true;
        /// Epochs by topic.
        topics: Vec<OffsetForLeaderTopic>;
    }

    /// The epochs for one topic.
    pub struct OffsetForLeaderTopic {
        /// Topic name.
        topic: String;
        /// Epochs by partition.
        partitions: Vec<OffsetForLeaderPartition>;
    }

    /// The epoch for one partition.
    pub struct OffsetForLeaderPartition {
        /// Partition index.
        partition: i32;
        /// The leader epoch that the client believes in, -1 for none.
        current_leader_epoch: i32 = -1, ignorable true;
        /// The epoch whose end is asked for.
        leader_epoch: i32;
    }

    /// The ends of the epochs.
    pub struct OffsetForLeaderEpochResponse (versions 2..=4, flexible 4..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Ends by topic.
        topics: Vec<OffsetForLeaderTopicResult>;
    }

    /// The ends for one topic.
    pub struct OffsetForLeaderTopicResult {
        /// Topic name.
        topic: String;
        /// Ends by partition.
        partitions: Vec<EpochEndOffset>;
    }

    /// The end for one partition.
    pub struct EpochEndOffset {
        /// Error code, 0 for none.
        error_code: i16;
        /// Partition index.
        partition: i32;
        /// The epoch asked for, or the greatest below it that the log has; -1 for none.
        leader_epoch: i32 = -1, ignorable true;
        /// Where it ends, -1 for unknown.
        end_offset: i64 = -1;
    }
}
