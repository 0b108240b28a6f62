//! DeleteGroups (key 42): removes groups without members, and their offsets. Versions 0 to 2.

crate::schema! {
    /// Removes groups.
    pub struct DeleteGroupsRequest (versions 0..=2, flexible 2..) {
        /// Which groups.
        groups_names: Vec<String>;
    }

    /// What became of them.
    pub struct DeleteGroupsResponse (versions 0..=2, flexible 2..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, ignorable true;
        /// By group.
        results: Vec<DeletableGroupResult>;
    }

    /// What became of one group.
    pub struct DeletableGroupResult {
        /// Group id.
        group_id: String;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
