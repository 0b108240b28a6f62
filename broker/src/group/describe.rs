//! What is told of a group to whoever asks. Owns how it looks on the wire; changes nothing.

use super::{
    classic::{Group, GroupState},
    member::Member,
};
use bytes::Bytes;
use sillon_protocol::messages::{DescribedGroup, DescribedGroupMember, ListedGroup};

/// The type of every group here, as Kafka names it beside those of KIP-848.
pub(super) const CLASSIC: &str = "classic";

impl Group {
    /// The group with its members. What they agreed on is told once they have.
    pub(super) fn describe(&self) -> DescribedGroup {
        let is_stable = self.state == GroupState::Stable;
        let protocol = self.protocol.as_deref().filter(|_| is_stable);
        let member = |member: &Member| DescribedGroupMember {
            member_id: member.id.to_string(),
            group_instance_id: member.instance.as_deref().map(str::to_owned),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            member_metadata: member.metadata(protocol),
            member_assignment: if is_stable { member.assignment.clone() } else { Bytes::new() },
        };
        DescribedGroup {
            group_id: self.id.to_string(),
            group_state: self.state.name().to_owned(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: protocol.unwrap_or_default().to_owned(),
            members: self.members.values().map(member).collect(),
            ..DescribedGroup::default()
        }
    }

    /// The group in one line.
    pub(super) fn list(&self) -> ListedGroup {
        ListedGroup {
            group_id: self.id.to_string(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            group_state: self.state.name().to_owned(),
            group_type: CLASSIC.to_owned(),
        }
    }
}
