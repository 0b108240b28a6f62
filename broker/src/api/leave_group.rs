//! LeaveGroup (13): members leave their group, or an administrator has them leave.

use super::groups::find_named;
use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity},
};

/// Version from which several members leave at once (KIP-345).
const FIRST_VERSION_WITH_BATCHES: i16 = 3;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    mut request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    let is_batch = version >= FIRST_VERSION_WITH_BATCHES;
    if !is_batch {
        let member_id = std::mem::take(&mut request.member_id);
        request.members = vec![MemberIdentity { member_id, ..MemberIdentity::default() }];
    }
    let left = find_named(broker, &request.group_id)
        .and_then(|work| work.with(|shard, now| shard.leave(&request, now))?);
    let (error_code, members) = match left {
        Ok(members) if is_batch => (ErrorCode::NONE.code(), members),
        Ok(members) => (members.first().map_or(0, |member| member.error_code), Vec::new()),
        Err(code) => (code.code(), Vec::new()),
    };
    LeaveGroupResponse { error_code, members, ..LeaveGroupResponse::default() }
}
