//! FindCoordinator (10): who coordinates a group or a transaction. Nobody does yet, and the answer says so.
//!
//! It is offered all the same: librdkafka takes a broker without it for one that knows no lz4.

use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse},
};

/// Version from which several keys are asked for at once.
const FIRST_VERSION_WITH_BATCHES: i16 = 4;
const MESSAGE: &str = "Consumer groups and transactions are not available in this version.";

pub(crate) async fn handle(
    _: &Broker,
    _: &Client,
    version: i16,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let code = ErrorCode::COORDINATOR_NOT_AVAILABLE.code();
    let error_message = Some(MESSAGE.to_owned());
    if version < FIRST_VERSION_WITH_BATCHES {
        return FindCoordinatorResponse {
            error_code: code,
            error_message,
            node_id: -1,
            port: -1,
            ..FindCoordinatorResponse::default()
        };
    }
    let none = |key| Coordinator {
        key,
        node_id: -1,
        host: String::new(),
        port: -1,
        error_code: code,
        error_message: error_message.clone(),
    };
    let coordinators = request.coordinator_keys.into_iter().map(none).collect();
    FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() }
}
