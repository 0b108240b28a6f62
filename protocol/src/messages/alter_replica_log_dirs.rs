//! AlterReplicaLogDirs (key 34): moves logs between a broker's directories (KIP-113). Versions 1 to 2.

crate::schema! {
    /// Asks a broker to keep logs in other directories.
    pub struct AlterReplicaLogDirsRequest (versions 1..=2, flexible 2..) {
        /// What is asked for, by directory.
        dirs: Vec<AlterReplicaLogDir>;
    }

    /// What one directory is to hold.
    pub struct AlterReplicaLogDir {
        /// Absolute path.
        path: String;
        /// The partitions, by topic.
        topics: Vec<AlterReplicaLogDirTopic>;
    }

    /// Partitions of one topic.
    pub struct AlterReplicaLogDirTopic {
        /// Topic name.
        name: String;
        /// Partition indexes.
        partitions: Vec<i32>;
    }

    /// The outcome of an [`AlterReplicaLogDirsRequest`].
    pub struct AlterReplicaLogDirsResponse (versions 1..=2, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Outcomes by topic.
        results: Vec<AlterReplicaLogDirTopicResult>;
    }

    /// The outcomes for one topic.
    pub struct AlterReplicaLogDirTopicResult {
        /// Topic name.
        topic_name: String;
        /// Outcomes by partition.
        partitions: Vec<AlterReplicaLogDirPartitionResult>;
    }

    /// The outcome for one partition.
    pub struct AlterReplicaLogDirPartitionResult {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
