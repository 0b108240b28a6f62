//! DescribeCluster (key 60): brokers and controller, without topics (KIP-700). Versions 0 to 2.

use super::AUTHORIZED_OPERATIONS_OMITTED;

crate::schema! {
    /// Asks who is in the cluster.
    pub struct DescribeClusterRequest (versions 0..=2, flexible 0..) {
        /// Whether to say what the client may do to the cluster.
        include_cluster_authorized_operations: bool;
        /// 1: brokers, 2: controllers (KIP-919).
        endpoint_type: i8 = 1, versions 1..;
        /// Whether to list brokers that are fenced (KIP-1073).
        include_fenced_brokers: bool, versions 2..;
    }

    /// Who is in the cluster.
    pub struct DescribeClusterResponse (versions 0..=2, flexible 0..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
        /// 1: brokers, 2: controllers.
        endpoint_type: i8 = 1, versions 1..;
        /// Cluster id.
        cluster_id: String;
        /// Broker id of the controller, -1 if not known.
        controller_id: i32 = -1;
        /// The brokers.
        brokers: Vec<DescribeClusterBroker>;
        /// Bit field of what the client may do to the cluster.
        cluster_authorized_operations: i32 = AUTHORIZED_OPERATIONS_OMITTED;
    }

    /// A broker.
    pub struct DescribeClusterBroker {
        /// Broker id.
        broker_id: i32;
        /// Host name.
        host: String;
        /// Port.
        port: i32;
        /// Rack, if it has one.
        rack: Option<String>;
        /// Whether it is fenced.
        is_fenced: bool, versions 2..;
    }
}
