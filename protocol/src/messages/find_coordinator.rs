//! FindCoordinator (key 10): which broker coordinates a group or a transactional id. Versions 0 to 6.

crate::schema! {
    /// Asks for coordinators.
    pub struct FindCoordinatorRequest (versions 0..=6, flexible 3..) {
        /// Group or transactional id.
        key: String, versions ..=3;
        /// 0: group, 1: transaction, 2: share group.
        key_type: i8, versions 1..;
        /// Groups or transactional ids (KIP-699).
        coordinator_keys: Vec<String>, versions 4..;
    }

    /// The coordinators. One, in the message itself, up to version 3; a list from version 4 on.
    pub struct FindCoordinatorResponse (versions 0..=6, flexible 3..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 1.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16, versions ..=3;
        /// What went wrong, or null.
        error_message: Option<String>, versions 1..=3, ignorable true;
        /// Broker id.
        node_id: i32, versions ..=3;
        /// Host name.
        host: String, versions ..=3;
        /// Port.
        port: i32, versions ..=3;
        /// Coordinators by key.
        coordinators: Vec<Coordinator>, versions 4..;
    }

    /// The coordinator of one key.
    pub struct Coordinator {
        /// Group or transactional id.
        key: String;
        /// Broker id.
        node_id: i32;
        /// Host name.
        host: String;
        /// Port.
        port: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>, ignorable true;
    }
}
