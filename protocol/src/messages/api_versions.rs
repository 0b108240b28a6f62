//! ApiVersions (key 18): what a broker can speak. Versions 0 to 4.
//!
//! The one request that a client sends without knowing the broker: its response has header version 0 in
//! every version, and an unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).

crate::schema! {
    /// Asks which APIs and versions the broker speaks.
    pub struct ApiVersionsRequest (versions 0..=4, flexible 3..) {
        /// Name of the client's library.
        client_software_name: String, versions 3.., ignorable true;
        /// Version of the client's library.
        client_software_version: String, versions 3.., ignorable true;
    }

    /// The APIs and versions that the broker speaks.
    pub struct ApiVersionsResponse (versions 0..=4, flexible 3..) {
        /// Error code, 0 for none.
        error_code: i16;
        /// Versions by API.
        api_keys: Vec<ApiVersion>;
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 1.., ignorable true;
        /// Features that the broker could use (KIP-584). Below version 4, leave out those that start at 0.
        supported_features: Vec<SupportedFeatureKey>, versions 3.., tag 0, ignorable true;
        /// Epoch of the finalized features, -1 if not known.
        finalized_features_epoch: i64 = -1, versions 3.., tag 1, ignorable true;
        /// Features that the cluster has agreed on.
        finalized_features: Vec<FinalizedFeatureKey>, versions 3.., tag 2, ignorable true;
        /// Whether a migration off ZooKeeper may start (KIP-866).
        zk_migration_ready: bool, versions 3.., tag 3, ignorable true;
    }

    /// The versions of one API.
    pub struct ApiVersion {
        /// Code of the API.
        api_key: i16;
        /// The lowest version.
        min_version: i16;
        /// The highest version.
        max_version: i16;
    }

    /// A feature that the broker could use.
    pub struct SupportedFeatureKey {
        /// Name of the feature.
        name: String;
        /// The lowest level.
        min_version: i16;
        /// The highest level.
        max_version: i16;
    }

    /// A feature that the cluster has agreed on.
    pub struct FinalizedFeatureKey {
        /// Name of the feature.
        name: String;
        /// The highest level agreed on.
        max_version_level: i16;
        /// The lowest level agreed on.
        min_version_level: i16;
    }
}
