//! Who coordinates a group. Owns the memory of it; who finds it wrong says so.

use super::Cluster;
use crate::ClientError;
use sillon_protocol::{
    ErrorCode,
    messages::{FindCoordinatorRequest, FindCoordinatorResponse},
};
use std::time::Duration;

/// The kind of key that names a group.
const GROUP_KEY: i8 = 0;
/// The first version that asks for several keys at once (KIP-699).
const SEVERAL_KEYS: i16 = 4;

impl Cluster {
    /// The coordinator of a group, asked for where it is not known. One attempt.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with a retriable code while there is none; [`ClientError::Connection`].
    pub async fn coordinator(&self, group: &str) -> Result<i32, ClientError> {
        if let Some(broker) = self.shared.lock().coordinators.get(group) {
            return Ok(*broker);
        }
        let connection = self.any_connection().await?;
        let wrong = |source| ClientError::Connection { broker: -1, source };
        let version = *connection.common_versions::<FindCoordinatorRequest>().map_err(wrong)?.end();
        let request = if version >= SEVERAL_KEYS {
            FindCoordinatorRequest {
                coordinator_keys: vec![group.to_owned()],
                key_type: GROUP_KEY,
                ..FindCoordinatorRequest::default()
            }
        } else {
            FindCoordinatorRequest { key: group.to_owned(), ..FindCoordinatorRequest::default() }
        };
        let timeout = Duration::from_millis(self.shared.config.request_timeout_ms);
        let sent = connection.send_version(version, &request, timeout).await;
        let response = sent.map_err(|source| super::failed(-1, &connection, source))?;
        let (code, message, broker) = outcome(version, response);
        if code.is_error() {
            let what = format!("find the coordinator of group {group}");
            return Err(ClientError::refused(what, code, message.as_deref()));
        }
        self.shared.lock().coordinators.insert(group.to_owned(), broker);
        if !self.metadata().brokers.contains_key(&broker) {
            let answers = self.answers();
            self.request_update();
            self.newer_than(answers, self.shared.runtime.now() + timeout).await?;
        }
        Ok(broker)
    }

    /// Forgets who coordinates a group, if it is still thought to be `broker`.
    pub fn not_coordinator(&self, group: &str, broker: i32) {
        let mut state = self.shared.lock();
        if state.coordinators.get(group) == Some(&broker) {
            state.coordinators.remove(group);
        }
    }
}

fn outcome(version: i16, response: FindCoordinatorResponse) -> (ErrorCode, Option<String>, i32) {
    if version < SEVERAL_KEYS {
        return (response.error_code.into(), response.error_message, response.node_id);
    }
    match response.coordinators.into_iter().next() {
        Some(found) => (found.error_code.into(), found.error_message, found.node_id),
        None => (ErrorCode::COORDINATOR_NOT_AVAILABLE, None, -1),
    }
}
