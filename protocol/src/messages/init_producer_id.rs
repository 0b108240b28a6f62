//! InitProducerId (key 22): gives a producer its id and epoch (KIP-98). Versions 0 to 5.

crate::schema! {
    /// Asks for a producer id.
    pub struct InitProducerIdRequest (versions 0..=5, flexible 2..) {
        /// The transactional id; null for a producer that is only idempotent.
        transactional_id: Option<String>;
        /// When to abort an idle transaction, in milliseconds.
        transaction_timeout_ms: i32;
        /// The producer id to keep, -1 for a new one (KIP-360).
        producer_id: i64 = -1, versions 3..;
        /// The epoch that goes with it, -1 for none.
        producer_epoch: i16 = -1, versions 3..;
    }

    /// The producer id.
    pub struct InitProducerIdResponse (versions 0..=5, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
        /// Producer id, -1 on error.
        producer_id: i64 = -1;
        /// Its epoch.
        producer_epoch: i16;
    }
}
