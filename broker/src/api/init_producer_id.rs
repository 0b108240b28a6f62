//! InitProducerId (22): an id for an idempotent producer.

use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse},
};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    if request.transactional_id.is_some() {
        // Transactions are not available; a producer that insists on one must not go on as if it had one.
        return InitProducerIdResponse {
            error_code: ErrorCode::INVALID_REQUEST.code(),
            ..Default::default()
        };
    }
    // A producer that asks again with an id it has gets a new one all the same: without a transaction nothing ties it to the old.
    match broker.producer_ids().next().await {
        Ok(id) => InitProducerIdResponse { producer_id: id.0, producer_epoch: 0, ..Default::default() },
        Err(error) => {
            tracing::warn!(%error, "no producer id can be given out at present");
            // Of all codes the one that makes every client ask again, and here.
            let error_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.code();
            InitProducerIdResponse { error_code, ..Default::default() }
        }
    }
}
