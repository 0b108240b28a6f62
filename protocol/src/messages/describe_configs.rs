//! DescribeConfigs (key 32): configurations and where they come from. Versions 1 to 4.

crate::schema! {
    /// Asks for configurations.
    pub struct DescribeConfigsRequest (versions 1..=4, flexible 4..) {
        /// What to describe.
        resources: Vec<DescribeConfigsResource>;
        /// Whether to list every place that has a value (KIP-226).
        include_synonyms: bool;
        /// Whether to explain each configuration (KIP-569).
        include_documentation: bool, versions 3..;
    }

    /// A resource to describe.
    pub struct DescribeConfigsResource {
        /// 2: topic, 4: broker, 8: broker loggers, 16: client metrics, 32: group.
        resource_type: i8;
        /// Its name.
        resource_name: String;
        /// The configurations wanted, or null for all.
        configuration_keys: Option<Vec<String>>;
    }

    /// The configurations.
    pub struct DescribeConfigsResponse (versions 1..=4, flexible 4..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32;
        /// Configurations by resource.
        results: Vec<DescribeConfigsResult>;
    }

    /// The configurations of one resource.
    pub struct DescribeConfigsResult {
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null.
        error_message: Option<String>;
        /// As in the request.
        resource_type: i8;
        /// As in the request.
        resource_name: String;
        /// The configurations.
        configs: Vec<DescribeConfigsResourceResult>;
    }

    /// One configuration.
    pub struct DescribeConfigsResourceResult {
        /// Name.
        name: String;
        /// Value, null if it is sensitive or not set.
        value: Option<String>;
        /// Whether it cannot be changed.
        read_only: bool;
        /// 1: topic, 2: this broker, 3: all brokers, 4: broker's file, 5: default, 6: broker loggers.
        config_source: i8 = -1, ignorable true;
        /// Whether the value is a secret.
        is_sensitive: bool;
        /// Every place that has a value, the one in force first.
        synonyms: Vec<DescribeConfigsSynonym>, ignorable true;
        /// 0: unknown, 1: bool, 2: string, 3: int, 4: short, 5: long, 6: double, 7: list, 8: class, 9: password.
        config_type: i8, versions 3.., ignorable true;
        /// What the configuration does, or null.
        documentation: Option<String>, versions 3.., ignorable true;
    }

    /// A place that has a value for a configuration.
    pub struct DescribeConfigsSynonym {
        /// Name there.
        name: String;
        /// Value there.
        value: Option<String>;
        /// As `config_source`.
        source: i8;
    }
}
