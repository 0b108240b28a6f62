//! AlterConfigs (key 33): replaces whole configurations. Versions 0 to 2.
//! IncrementalAlterConfigs changes single values and is to be preferred.

crate::schema! {
    /// Asks to replace configurations.
    pub struct AlterConfigsRequest (versions 0..=2, flexible 2..) {
        /// The new configurations.
        resources: Vec<AlterConfigsResource>;
        /// Whether only to check.
        validate_only: bool;
    }

    /// The new configuration of one resource.
    pub struct AlterConfigsResource {
        /// As in DescribeConfigs.
        resource_type: i8;
        /// Its name.
        resource_name: String;
        /// All values that shall differ from the defaults.
        configs: Vec<AlterableConfig>;
    }

    /// One value.
    pub struct AlterableConfig {
        /// Name.
        name: String;
        /// Value.
        value: Option<String>;
    }

    /// The outcome of an [`AlterConfigsRequest`].
    pub struct AlterConfigsResponse (versions 0..=2, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// Outcomes by resource.
        responses: Vec<AlterConfigsResourceResponse>;
    }

    /// The outcome for one resource, here and in IncrementalAlterConfigs.
    pub struct AlterConfigsResourceResponse {
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
        /// As in the request.
        resource_type: i8;
        /// As in the request.
        resource_name: String;
    }
}
