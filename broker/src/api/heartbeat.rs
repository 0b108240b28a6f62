//! Heartbeat (12): a member says that it lives, and hears whether it has to join again.

use super::groups::find_named;
use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{HeartbeatRequest, HeartbeatResponse},
};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: HeartbeatRequest,
) -> HeartbeatResponse {
    let heard = find_named(broker, &request.group_id)
        .and_then(|work| work.with(|shard, now| shard.heartbeat(&request, now))?);
    let code = match heard {
        Ok(()) => ErrorCode::NONE,
        // A member that lives in a group that is being loaded has nothing to do but go on.
        Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => ErrorCode::NONE,
        Err(code) => code,
    };
    HeartbeatResponse { error_code: code.code(), ..HeartbeatResponse::default() }
}
