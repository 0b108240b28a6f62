//! DeleteTopics (key 20). Versions 1 to 6.

use uuid::Uuid;

crate::schema! {
    /// Asks the controller to delete topics.
    pub struct DeleteTopicsRequest (versions 1..=6, flexible 4..) {
        /// Topics by name or id (KIP-516).
        topics: Vec<DeleteTopicState>, versions 6..;
        /// Topics by name.
        topic_names: Vec<String>, versions ..=5, ignorable true;
        /// How long to wait until they are gone, in milliseconds.
        timeout_ms: i32;
    }

    /// A topic to delete.
    pub struct DeleteTopicState {
        /// Topic name, or null to go by id.
        name: Option<String>;
        /// Topic id, or nil to go by name.
        topic_id: Uuid;
    }

    /// The outcome of a [`DeleteTopicsRequest`].
    pub struct DeleteTopicsResponse (versions 1..=6, flexible 4..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Outcomes by topic.
        responses: Vec<DeletableTopicResult>;
    }

    /// The outcome for one topic.
    pub struct DeletableTopicResult {
        /// Topic name.
        name: Option<String>, nullable 6..;
        /// Topic id.
        topic_id: Uuid, versions 6.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>, versions 5.., ignorable true;
    }
}
