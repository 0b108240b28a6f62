//! Metadata (key 3): brokers, topics, and who leads what. Versions 0 to 13.

use uuid::Uuid;

/// Stands for "not asked for" in the bit fields of authorized operations.
pub const AUTHORIZED_OPERATIONS_OMITTED: i32 = i32::MIN;

crate::schema! {
    /// Asks for metadata of topics, and of the cluster.
    pub struct MetadataRequest (versions 0..=13, flexible 9..) {
        /// The topics; null asks for all, and so does an empty list in version 0.
        topics: Option<Vec<MetadataRequestTopic>>, nullable 1..;
        /// Whether topics that do not exist may be created, if the broker is set up to do so.
        allow_auto_topic_creation: bool = true, versions 4..;
        /// Whether to say what the client may do to the cluster.
        include_cluster_authorized_operations: bool, versions 8..=10;
        /// Whether to say what the client may do to each topic.
        include_topic_authorized_operations: bool, versions 8..;
    }

    /// A topic to be described, by name or id.
    pub struct MetadataRequestTopic {
        /// Topic id (KIP-516).
        topic_id: Uuid, versions 10.., ignorable true;
        /// Topic name.
        name: Option<String>, nullable 10..;
    }

    /// Metadata of topics and cluster.
    pub struct MetadataResponse (versions 0..=13, flexible 9..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 3.., ignorable true;
        /// The living brokers.
        brokers: Vec<MetadataResponseBroker>;
        /// Cluster id.
        cluster_id: Option<String>, versions 2.., ignorable true;
        /// Broker id of the controller, -1 if not known.
        controller_id: i32 = -1, versions 1.., ignorable true;
        /// The topics.
        topics: Vec<MetadataResponseTopic>;
        /// Bit field of what the client may do to the cluster.
        cluster_authorized_operations: i32 = AUTHORIZED_OPERATIONS_OMITTED, versions 8..=10;
        /// Error of the whole request, 0 for none (KIP-1102).
        error_code: i16, versions 13.., ignorable true;
    }

    /// A living broker.
    pub struct MetadataResponseBroker {
        /// Broker id.
        node_id: i32;
        /// Host name.
        host: String;
        /// Port.
        port: i32;
        /// Rack, if it has one.
        rack: Option<String>, versions 1.., ignorable true;
    }

    /// A topic.
    pub struct MetadataResponseTopic {
        /// Error code, 0 for none.
        error_code: i16;
        /// Topic name; null for an unknown topic that was asked for by id.
        name: Option<String>, nullable 12..;
        /// Topic id; nil for an unknown topic that was asked for by name.
        topic_id: Uuid, versions 10.., ignorable true;
        /// Whether the topic is the brokers' own.
        is_internal: bool, versions 1.., ignorable true;
        /// Its partitions.
        partitions: Vec<MetadataResponsePartition>;
        /// Bit field of what the client may do to the topic.
        topic_authorized_operations: i32 = AUTHORIZED_OPERATIONS_OMITTED, versions 8..;
    }

    /// A partition.
    pub struct MetadataResponsePartition {
        /// Error code, 0 for none.
        error_code: i16;
        /// Partition index.
        partition_index: i32;
        /// Broker id of the leader, -1 for none.
        leader_id: i32;
        /// Leader epoch, -1 if not known.
        leader_epoch: i32 = -1, versions 7.., ignorable true;
        /// All replicas, the preferred leader first.
        replica_nodes: Vec<i32>;
        /// The replicas in sync.
        isr_nodes: Vec<i32>;
        /// The replicas that are not alive.
        offline_replicas: Vec<i32>, versions 5.., ignorable true;
    }
}
