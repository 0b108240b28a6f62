//! Structures that several APIs share.

crate::schema! {
    /// Who leads a partition, sent along with an error so that a client need not ask (KIP-951).
    pub struct LeaderIdAndEpoch {
        /// Broker id of the leader, -1 if unknown.
        leader_id: i32 = -1;
        /// Its leader epoch, -1 if unknown.
        leader_epoch: i32 = -1;
    }

    /// Where a broker named in [`LeaderIdAndEpoch`] listens (KIP-951).
    pub struct NodeEndpoint {
        /// Broker id.
        node_id: i32;
        /// Host name.
        host: String;
        /// Port.
        port: i32;
        /// Rack, if it has one.
        rack: Option<String>;
    }
}
