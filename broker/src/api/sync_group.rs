//! SyncGroup (14): a member asks for its assignment; the leader hands in everybody's.

use super::groups::{answer_to, find_named};
use crate::{
    broker::Broker,
    group::{Answer, SyncCall},
    server::dispatch::Client,
};
use sillon_protocol::{
    ErrorCode,
    messages::{SyncGroupRequest, SyncGroupResponse},
};

/// Version from which a member says what it takes the group's protocol for (KIP-559).
const FIRST_VERSION_WITH_PROTOCOL: i16 = 5;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    request: SyncGroupRequest,
) -> SyncGroupResponse {
    sync(broker, version, request)
        .await
        .unwrap_or_else(|code| SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() })
}

async fn sync(
    broker: &Broker,
    version: i16,
    request: SyncGroupRequest,
) -> Result<SyncGroupResponse, ErrorCode> {
    let says_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if version >= FIRST_VERSION_WITH_PROTOCOL && !says_protocol {
        return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    let work = find_named(broker, &request.group_id)?;
    let ((), receiver) = work.ask(|shard, token, now| shard.sync(SyncCall { token, request }, now))?;
    match answer_to(receiver).await? {
        Answer::Synced(response) => Ok(response),
        other => unreachable!("whoever asks for an assignment is not told {other:?}"),
    }
}
