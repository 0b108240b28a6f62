//! ListGroups (key 16): the groups that a broker coordinates. Versions 0 to 5.

crate::schema! {
    /// Asks for all groups.
    pub struct ListGroupsRequest (versions 0..=5, flexible 3..) {
        /// Only groups in one of these states (KIP-518); empty for all.
        states_filter: Vec<String>, versions 4..;
        /// Only groups of one of these types (KIP-848); empty for all.
        types_filter: Vec<String>, versions 5..;
    }

    /// The groups.
    pub struct ListGroupsResponse (versions 0..=5, flexible 3..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 1.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
        /// Each of them.
        groups: Vec<ListedGroup>;
    }

    /// A group.
    pub struct ListedGroup {
        /// Group id.
        group_id: String;
        /// What kind of group.
        protocol_type: String;
        /// Its state, as Kafka names it.
        group_state: String, versions 4.., ignorable true;
        /// Its type: "classic", "consumer".
        group_type: String, versions 5.., ignorable true;
    }
}
