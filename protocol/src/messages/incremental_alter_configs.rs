//! IncrementalAlterConfigs (key 44): changes single configuration values (KIP-339). Versions 0 and 1.

use super::AlterConfigsResourceResponse;

crate::schema! {
    /// Asks to change configuration values.
    pub struct IncrementalAlterConfigsRequest (versions 0..=1, flexible 1..) {
        /// Changes by resource.
        resources: Vec<IncrementalAlterConfigsResource>;
        /// Whether only to check.
        validate_only: bool;
    }

    /// The changes for one resource.
    pub struct IncrementalAlterConfigsResource {
        /// As in DescribeConfigs.
        resource_type: i8;
        /// Its name.
        resource_name: String;
        /// The changes.
        configs: Vec<IncrementalAlterableConfig>;
    }

    /// One change.
    pub struct IncrementalAlterableConfig {
        /// Name.
        name: String;
        /// 0: set, 1: delete, 2: append to the list, 3: remove from the list.
        config_operation: i8;
        /// Value.
        value: Option<String>;
    }

    /// The outcome of an [`IncrementalAlterConfigsRequest`].
    pub struct IncrementalAlterConfigsResponse (versions 0..=1, flexible 1..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Outcomes by resource.
        responses: Vec<AlterConfigsResourceResponse>;
    }
}
