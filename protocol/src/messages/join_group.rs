//! JoinGroup (key 11): a member joins a group, or joins it again. Versions 0 to 9.

use bytes::Bytes;

crate::schema! {
    /// Joins a group.
    pub struct JoinGroupRequest (versions 0..=9, flexible 6..) {
        /// Group id.
        group_id: String;
        /// After how long without a heartbeat the member is gone, in milliseconds.
        session_timeout_ms: i32;
        /// How long the coordinator waits for each member to join again, in milliseconds. Before version 1 that is the
        /// session timeout.
        rebalance_timeout_ms: i32 = -1, versions 1.., ignorable true;
        /// What the coordinator named the member; empty before it did.
        member_id: String;
        /// What the user named the member, so that it keeps its place over a restart (KIP-345).
        group_instance_id: Option<String>, versions 5.., nullable 5..;
        /// What kind of group: "consumer", "connect".
        protocol_type: String;
        /// What the member can do, the best liked first.
        protocols: Vec<JoinGroupRequestProtocol>;
        /// Why it joins (KIP-800).
        reason: Option<String>, versions 8.., nullable 8.., ignorable true;
    }

    /// A way to share the work that a member knows.
    pub struct JoinGroupRequestProtocol {
        /// Its name.
        name: String;
        /// What the leader needs of the member.
        metadata: Bytes;
    }

    /// How the group has formed.
    pub struct JoinGroupResponse (versions 0..=9, flexible 6..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 2.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
        /// The generation, -1 for none.
        generation_id: i32 = -1;
        /// What kind of group.
        protocol_type: Option<String>, versions 7.., nullable 7.., ignorable true;
        /// The protocol that was chosen.
        protocol_name: Option<String>, nullable 7..;
        /// The member that assigns.
        leader: String;
        /// Whether the leader is to leave the assignment as it is (KIP-814).
        skip_assignment: bool, versions 9..;
        /// What the coordinator names the member.
        member_id: String;
        /// To the leader: all members.
        members: Vec<JoinGroupResponseMember>;
    }

    /// A member.
    pub struct JoinGroupResponseMember {
        /// Its id.
        member_id: String;
        /// What the user named it.
        group_instance_id: Option<String>, versions 5.., nullable 5.., ignorable true;
        /// Its metadata for the protocol that was chosen.
        metadata: Bytes;
    }
}
