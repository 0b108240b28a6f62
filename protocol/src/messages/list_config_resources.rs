//! ListConfigResources (key 74): what has a configuration (KIP-714, KIP-1142). Versions 0 to 1; version 0 is
//! ListClientMetricsResources.

crate::schema! {
    /// Asks what has a configuration.
    pub struct ListConfigResourcesRequest (versions 0..=1, flexible 0..) {
        /// The types of resources; empty for all.
        resource_types: Vec<i8>, versions 1..;
    }

    /// What has a configuration.
    pub struct ListConfigResourcesResponse (versions 0..=1, flexible 0..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// The resources.
        config_resources: Vec<ListedConfigResource>;
    }

    /// One resource.
    pub struct ListedConfigResource {
        /// Its name.
        resource_name: String;
        /// Its type; 16 is a subscription to clients' metrics.
        resource_type: i8 = 16, versions 1.., ignorable true;
    }
}
