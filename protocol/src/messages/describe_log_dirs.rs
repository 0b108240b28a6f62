//! DescribeLogDirs (key 35): what lies where on a broker's disks (KIP-113). Versions 1 to 5.

crate::schema! {
    /// Asks for the contents of log directories.
    pub struct DescribeLogDirsRequest (versions 1..=5, flexible 2..) {
        /// The partitions to describe, or null for all.
        topics: Option<Vec<DescribableLogDirTopic>>;
    }

    /// Partitions of one topic to describe.
    pub struct DescribableLogDirTopic {
        /// Topic name.
        topic: String;
        /// Partition indexes.
        partitions: Vec<i32>;
    }

    /// The contents of the log directories.
    pub struct DescribeLogDirsResponse (versions 1..=5, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Error of the whole request, 0 for none.
        error_code: i16, versions 3.., ignorable true;
        /// Contents by directory.
        results: Vec<DescribeLogDirsResult>;
    }

    /// The contents of one log directory.
    pub struct DescribeLogDirsResult {
        /// Error code, 0 for none.
        error_code: i16;
        /// Absolute path.
        log_dir: String;
        /// Contents by topic.
        topics: Vec<DescribeLogDirsTopic>;
        /// Size of the volume in bytes, -1 if not known (KIP-827).
        total_bytes: i64 = -1, versions 4.., ignorable true;
        /// Free bytes on the volume, -1 if not known.
        usable_bytes: i64 = -1, versions 4.., ignorable true;
        /// Whether the directory takes no new partitions (KIP-1066).
        is_cordoned: bool, versions 5.., ignorable true;
    }

    /// The partitions of one topic in a directory.
    pub struct DescribeLogDirsTopic {
        /// Topic name.
        name: String;
        /// The partitions.
        partitions: Vec<DescribeLogDirsPartition>;
    }

    /// One partition in a directory.
    pub struct DescribeLogDirsPartition {
        /// Partition index.
        partition_index: i32;
        /// Size of its segments in bytes.
        partition_size: i64;
        /// How far its end is behind the high watermark, or behind the log that it shall replace.
        offset_lag: i64;
        /// Whether it shall replace a log in another directory.
        is_future_key: bool;
    }
}
