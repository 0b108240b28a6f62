//! DescribeGroups (15): state and members of groups.

use super::ALL_GROUP_OPERATIONS;
use crate::{broker::Broker, group::GroupState, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup},
};

/// Version from which a group that does not exist is an error (KIP-1043); before it is one that is dead.
const FIRST_VERSION_WITH_NOT_FOUND: i16 = 6;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let describe = |group_id: String| {
        let found = broker
            .groups()
            .find(broker, &group_id)
            .and_then(|work| work.with(|shard, _| shard.describe(&group_id)));
        let mut group = match found {
            Ok(Some(group)) => group,
            Ok(None) => unknown(group_id, version),
            Err(code) => DescribedGroup { error_code: code.code(), group_id, ..DescribedGroup::default() },
        };
        if request.include_authorized_operations {
            group.authorized_operations = ALL_GROUP_OPERATIONS;
        }
        group
    };
    let groups = request.groups.iter().cloned().map(describe).collect();
    DescribeGroupsResponse { groups, ..DescribeGroupsResponse::default() }
}

fn unknown(group_id: String, version: i16) -> DescribedGroup {
    let is_error = version >= FIRST_VERSION_WITH_NOT_FOUND;
    DescribedGroup {
        error_code: if is_error { ErrorCode::GROUP_ID_NOT_FOUND.code() } else { ErrorCode::NONE.code() },
        error_message: is_error.then(|| format!("Group {group_id} not found.")),
        group_id,
        group_state: GroupState::Dead.name().to_owned(),
        ..DescribedGroup::default()
    }
}
