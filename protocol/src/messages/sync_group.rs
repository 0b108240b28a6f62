//! SyncGroup (key 14): the leader hands in what it assigned, each member asks for its part. Versions 0 to 5.

use bytes::Bytes;

crate::schema! {
    /// Asks for the member's assignment.
    pub struct SyncGroupRequest (versions 0..=5, flexible 4..) {
        /// Group id.
        group_id: String;
        /// The generation.
        generation_id: i32;
        /// The member.
        member_id: String;
        /// What the user named it.
        group_instance_id: Option<String>, versions 3.., nullable 3..;
        /// What kind of group the member takes it for (KIP-559).
        protocol_type: Option<String>, versions 5.., nullable 5.., ignorable true;
        /// What protocol the member takes to have been chosen (KIP-559).
        protocol_name: Option<String>, versions 5.., nullable 5.., ignorable true;
        /// From the leader: what every member gets.
        assignments: Vec<SyncGroupRequestAssignment>;
    }

    /// What a member gets.
    pub struct SyncGroupRequestAssignment {
        /// The member.
        member_id: String;
        /// Its assignment.
        assignment: Bytes;
    }

    /// The member's assignment.
    pub struct SyncGroupResponse (versions 0..=5, flexible 4..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 1.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
        /// What kind of group.
        protocol_type: Option<String>, versions 5.., nullable 5.., ignorable true;
        /// The protocol that was chosen.
        protocol_name: Option<String>, versions 5.., nullable 5.., ignorable true;
        /// The assignment.
        assignment: Bytes;
    }
}
