//! LeaveGroup (key 13): members leave, one by one up to version 2, several from version 3 on. Versions 0 to 5.

crate::schema! {
    /// Leaves a group.
    pub struct LeaveGroupRequest (versions 0..=5, flexible 4..) {
        /// Group id.
        group_id: String;
        /// The member.
        member_id: String, versions ..=2;
        /// The members.
        members: Vec<MemberIdentity>, versions 3..;
    }

    /// A member that leaves.
    pub struct MemberIdentity {
        /// Its id; empty to remove whoever has the instance id.
        member_id: String;
        /// What the user named it.
        group_instance_id: Option<String>;
        /// Why it leaves (KIP-800).
        reason: Option<String>, versions 5.., nullable 5.., ignorable true;
    }

    /// Who has left.
    pub struct LeaveGroupResponse (versions 0..=5, flexible 4..) {
        /// How long the client was or is to be held back by a quota, in milliseconds.
        throttle_time_ms: i32, versions 1.., ignorable true;
        /// Error code, 0 for none.
        error_code: i16;
        /// What became of each member.
        members: Vec<MemberResponse>, versions 3..;
    }

    /// What became of a member.
    pub struct MemberResponse {
        /// Its id.
        member_id: String;
        /// What the user named it.
        group_instance_id: Option<String>;
        /// Error code, 0 for none.
        error_code: i16;
    }
}
