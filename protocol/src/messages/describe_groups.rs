//! DescribeGroups (key 15): state and members of groups. Versions 0 to 6.

use bytes::Bytes;

use super::AUTHORIZED_OPERATIONS_OMITTED;

crate::schema! {
    /// Asks for groups.
    pub struct DescribeGroupsRequest (versions 0..=6, flexible 5..) {
        /// Which groups.
        groups: Vec<String>;
        /// Whether to say what the client may do to each.
        include_authorized_operations: bool, versions 3..;
    }

    /// The groups.
    pub struct DescribeGroupsResponse (versions 0..=6, flexible 5..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 1.., ignorable true;
        /// Each of them.
        groups: Vec<DescribedGroup>;
    }

    /// A group.
    pub struct DescribedGroup {
        /// Error code, 0 for none.
        error_code: i16;
        /// What went wrong, or null (KIP-1043).
        error_message: Option<String>, versions 6.., nullable 6.., ignorable true;
        /// Group id.
        group_id: String;
        /// Its state, as Kafka names it.
        group_state: String;
        /// What kind of group.
        protocol_type: String;
        /// The protocol that was chosen.
        protocol_data: String;
        /// Its members.
        members: Vec<DescribedGroupMember>;
        /// Bit field of what the client may do to the group.
        authorized_operations: i32 = AUTHORIZED_OPERATIONS_OMITTED, versions 3..;
    }

    /// A member.
    pub struct DescribedGroupMember {
        /// Its id.
        member_id: String;
        /// What the user named it.
        group_instance_id: Option<String>, versions 4.., nullable 4.., ignorable true;
        /// The client's name.
        client_id: String;
        /// The client's address.
        client_host: String;
        /// Its metadata for the protocol that was chosen.
        member_metadata: Bytes;
        /// Its assignment.
        member_assignment: Bytes;
    }
}
