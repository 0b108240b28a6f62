//! JoinGroup (11): a member joins its group, and waits until the group has formed.

use super::groups::{answer_to, find_named};
use crate::{
    broker::Broker,
    group::{Answer, JoinCall, MemberId},
    server::dispatch::Client,
    types::Uuid,
};
use sillon_protocol::{
    ErrorCode,
    messages::{JoinGroupRequest, JoinGroupResponse},
};

/// Version from which a member learns its id before it joins (KIP-394).
const FIRST_VERSION_WITH_REQUIRED_ID: i16 = 4;
/// Version from which the name of the protocol may be null.
const FIRST_VERSION_WITH_NULL_PROTOCOL: i16 = 7;
/// Version from which a leader may be told to leave the assignment as it is (KIP-814).
const FIRST_VERSION_WITH_SKIPPING: i16 = 9;

pub(crate) async fn handle(
    broker: &Broker,
    client: &Client,
    client_id: &str,
    version: i16,
    request: JoinGroupRequest,
) -> JoinGroupResponse {
    let member_id = request.member_id.clone();
    let mut response = match join(broker, client, client_id, version, request).await {
        Ok(response) => response,
        Err(code) => JoinGroupResponse { error_code: code.code(), member_id, ..JoinGroupResponse::default() },
    };
    if version < FIRST_VERSION_WITH_NULL_PROTOCOL {
        response.protocol_name.get_or_insert_default();
    }
    response
}

async fn join(
    broker: &Broker,
    client: &Client,
    client_id: &str,
    version: i16,
    request: JoinGroupRequest,
) -> Result<JoinGroupResponse, ErrorCode> {
    let work = find_named(broker, &request.group_id)?;
    let new_member_id = new_member_id(broker, request.group_instance_id.as_deref().unwrap_or(client_id));
    let (client_id, client_host) = (client_id.to_owned(), format!("/{}", client.remote.ip()));
    let needs_member_id = version >= FIRST_VERSION_WITH_REQUIRED_ID;
    let can_skip_assignment = version >= FIRST_VERSION_WITH_SKIPPING;
    let ((), receiver) = work.ask(|shard, token, now| {
        let call = JoinCall {
            token,
            request,
            new_member_id,
            client_id,
            client_host,
            needs_member_id,
            can_skip_assignment,
        };
        shard.join(call, now);
    })?;
    match answer_to(receiver).await? {
        Answer::Joined(response) => Ok(response),
        other => unreachable!("whoever joins is not told {other:?}"),
    }
}

/// An id that no member has or ever had.
fn new_member_id(broker: &Broker, prefix: &str) -> MemberId {
    let mut bytes = [0; 16];
    broker.runtime().fill_random(&mut bytes);
    format!("{prefix}-{}", Uuid::from_bytes(bytes)).into()
}
