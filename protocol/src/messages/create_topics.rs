//! CreateTopics (key 19). Versions 2 to 7.

use uuid::Uuid;

crate::schema! {
    /// Asks the controller to create topics.
    pub struct CreateTopicsRequest (versions 2..=7, flexible 5..) {
        /// The topics.
        topics: Vec<CreatableTopic>;
        /// How long to wait until they exist, in milliseconds.
        timeout_ms: i32 = 60_000;
        /// Whether only to check.
        validate_only: bool;
    }

    /// A topic to create.
    pub struct CreatableTopic {
        /// Topic name.
        name: String;
        /// Number of partitions; -1 for the default (KIP-464) or with `assignments`.
        num_partitions: i32;
        /// Number of replicas; -1 for the default or with `assignments`.
        replication_factor: i16;
        /// Which brokers hold which partition; empty to leave that to the controller.
        assignments: Vec<CreatableReplicaAssignment>;
        /// Configuration that differs from the defaults.
        configs: Vec<CreatableTopicConfig>;
    }

    /// Which brokers hold a partition.
    pub struct CreatableReplicaAssignment {
        /// Partition index.
        partition_index: i32;
        /// Broker ids, the preferred leader first.
        broker_ids: Vec<i32>;
    }

    /// One configuration of a topic to create.
    pub struct CreatableTopicConfig {
        /// Name.
        name: String;
        /// Value.
        value: Option<String>;
    }

    /// The outcome of a [`CreateTopicsRequest`].
    pub struct CreateTopicsResponse (versions 2..=7, flexible 5..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Outcomes by topic.
        topics: Vec<CreatableTopicResult>;
    }

    /// The outcome for one topic.
    pub struct CreatableTopicResult {
        /// Topic name.
        name: String;
        /// Topic id (KIP-516).
        topic_id: Uuid, versions 7.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>, ignorable true;
        /// Why `configs` is null, 0 for no error (KIP-525).
        topic_config_error_code: i16, versions 5.., tag 0, ignorable true;
        /// Number of partitions, -1 if not told.
        num_partitions: i32 = -1, versions 5.., ignorable true;
        /// Number of replicas, -1 if not told.
        replication_factor: i16 = -1, versions 5.., ignorable true;
        /// The whole configuration, or null if the client may not see it.
        configs: Option<Vec<CreatableTopicConfigs>>, versions 5.., ignorable true;
    }

    /// One configuration of a created topic.
    pub struct CreatableTopicConfigs {
        /// Name.
        name: String;
        /// Value, null if it is sensitive.
        value: Option<String>;
        /// Whether it cannot be changed.
        read_only: bool;
        /// Where the value comes from, as in DescribeConfigs.
        config_source: i8 = -1, ignorable true;
        /// Whether the value is a secret.
        is_sensitive: bool;
    }
}
