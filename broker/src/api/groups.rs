//! What the handlers of group requests share: how a group's shard is found, and how an answer is waited for.

use crate::{
    broker::Broker,
    group::{Answer, Work},
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Runtime;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// The shard of a group that has a name.
///
/// # Errors
/// INVALID_GROUP_ID, NOT_COORDINATOR.
pub(super) fn find_named(broker: &Broker, group: &str) -> Result<Arc<Work>, ErrorCode> {
    if group.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    broker.groups().find(broker, group)
}

/// Waits for what a member is told, for as long as the group takes.
///
/// # Errors
/// NOT_COORDINATOR where this broker ceases to coordinate the group meanwhile.
pub(super) async fn answer_to(receiver: oneshot::Receiver<Answer>) -> Result<Answer, ErrorCode> {
    receiver.await.map_err(|_| ErrorCode::NOT_COORDINATOR)
}

/// Waits until records are committed, though not for ever.
pub(super) async fn written(
    runtime: &Runtime,
    timeout: Duration,
    receiver: oneshot::Receiver<Answer>,
) -> ErrorCode {
    match runtime.timeout(timeout, answer_to(receiver)).await {
        Ok(Ok(Answer::Written(code))) => code,
        Ok(Ok(other)) => unreachable!("whoever waits for records is not told {other:?}"),
        Ok(Err(code)) => code,
        // The records may come to be committed yet.
        Err(_) => ErrorCode::COORDINATOR_NOT_AVAILABLE,
    }
}
