//! What brokers ask the controller for: metadata, and to be let go. Owns how an answer looks.

use super::{Cluster, codec, metadata_log::News};
use crate::{
    controller::{Command, ControllerError, Outcome},
    metadata::{MetadataDelta, MetadataPosition},
    types::{BrokerEpoch, BrokerId},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        FetchMetadataRequest, FetchMetadataResponse, PrepareShutdownRequest, PrepareShutdownResponse,
    },
};

/// Answers a broker that follows the metadata: at once, or when there is something new. To be dropped with the broker's
/// connection: that is how the controller learns that the broker may be gone.
pub async fn fetch_metadata(cluster: &dyn Cluster, request: FetchMetadataRequest) -> FetchMetadataResponse {
    match cluster.controller() {
        Some(controller) => controller.follow(request).await,
        None => metadata_error(ErrorCode::NOT_CONTROLLER),
    }
}

/// Answers a broker that wants to stop.
pub async fn prepare_shutdown(
    cluster: &dyn Cluster,
    request: PrepareShutdownRequest,
) -> PrepareShutdownResponse {
    let error =
        |code: ErrorCode| PrepareShutdownResponse { error_code: code.code(), remaining_partitions: 0 };
    let Some(controller) = cluster.controller() else { return error(ErrorCode::NOT_CONTROLLER) };
    let command = Command::ControlledShutdown {
        broker: BrokerId(request.broker_id),
        broker_epoch: BrokerEpoch(request.broker_epoch),
    };
    match controller.submit(command).await {
        Ok((Outcome::StillLed(partitions), _)) => PrepareShutdownResponse {
            error_code: ErrorCode::NONE.code(),
            remaining_partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
        },
        Ok((outcome, _)) => {
            tracing::error!(?outcome, "a controlled shutdown came to something else");
            error(ErrorCode::UNKNOWN_SERVER_ERROR)
        }
        Err(ControllerError { code, .. }) => error(code),
    }
}

/// An answer without metadata.
pub(super) fn metadata_error(code: ErrorCode) -> FetchMetadataResponse {
    FetchMetadataResponse { error_code: code.code(), ..FetchMetadataResponse::default() }
}

/// An answer to a broker that was at `position`.
pub(super) fn news(position: MetadataPosition, news: &News) -> FetchMetadataResponse {
    let (position, is_snapshot, payload) = match news {
        News::Nothing => (position, false, codec::encode(&[])),
        News::Deltas { position, deltas } => (*position, false, codec::encode(deltas)),
        News::Snapshot(image) => (image.position, true, codec::encode(&MetadataDelta::snapshot(image))),
    };
    match payload {
        Ok(payload) => FetchMetadataResponse {
            error_code: ErrorCode::NONE.code(),
            controller_epoch: position.controller_epoch.0,
            version: position.version,
            is_snapshot,
            payload,
        },
        Err(error) => {
            tracing::error!(%error, "a broker cannot be told the metadata");
            metadata_error(ErrorCode::UNKNOWN_SERVER_ERROR)
        }
    }
}
