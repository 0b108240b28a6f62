//! Heartbeat (key 12): a member says that it lives, and hears whether it has to join again. Versions 0 to 4.

crate::schema! {
    /// The member lives.
    pub struct HeartbeatRequest (versions 0..=4, flexible 4..) {
        /// Group id.
        group_id: String;
        /// The generation.
        generation_id: i32;
        /// The member.
        member_id: String;
        /// What the user named it.
        group_instance_id: Option<String>, versions 3.., nullable 3..;
    }

    /// Whether all is well.
    pub struct HeartbeatResponse (versions 0..=4, flexible 4..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 1.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
