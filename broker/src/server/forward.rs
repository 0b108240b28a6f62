//! Requests that the controller alone can answer: they go on to it, and its answers come back.
//!
//! Owns the way there and back. Never interprets an answer: that is between the client and the controller.

use super::{
    dispatch::{self, Client, Outcome, RequestError},
    response::Response,
};
use crate::{api::admin, broker::Broker, cluster::Cluster};
use bytes::{Bytes, BytesMut};
use sillon_protocol::{
    ApiKey, ErrorCode,
    messages::{ForwardRequest, ForwardResponse, decode_request_header},
};
use std::sync::Arc;

/// The place of the correlation id at the beginning of an answer.
const CORRELATION_ID_BYTES: usize = 4;

/// The requests that are handed to the controller.
pub(super) fn is_for_controller(api_key: ApiKey) -> bool {
    matches!(
        api_key,
        ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::CreatePartitions
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::ElectLeaders
            | ApiKey::AlterPartitionReassignments
    )
}

/// Hands a client's request on, and gives the answer as it goes to the client.
///
/// # Errors
/// The code and text with which the client is refused.
pub(super) async fn hand_on(
    cluster: &dyn Cluster,
    correlation_id: i32,
    frame: Bytes,
) -> Result<Bytes, (ErrorCode, String)> {
    let answer = cluster.forward(frame).await.map_err(|error| admin::unreachable(&error))?;
    if answer.len() < CORRELATION_ID_BYTES {
        return Err((ErrorCode::REQUEST_TIMED_OUT, "The controller's answer is cut short.".to_owned()));
    }
    // It is the same frame, so the controller repeats the same id. Whatever it says, the client gets its own.
    let mut answer = BytesMut::from(answer);
    answer[..CORRELATION_ID_BYTES].copy_from_slice(&correlation_id.to_be_bytes());
    Ok(answer.freeze())
}

/// Handles a request that another broker handed on. Only the controller does; it is never handed on again.
pub(super) async fn take(broker: &Arc<Broker>, client: &Client, request: ForwardRequest) -> ForwardResponse {
    match answer(broker, client, request).await {
        Ok(response) => response,
        Err(code) => ForwardResponse { error_code: code.code(), ..ForwardResponse::default() },
    }
}

async fn answer(
    broker: &Arc<Broker>,
    client: &Client,
    request: ForwardRequest,
) -> Result<ForwardResponse, ErrorCode> {
    let controller = broker.cluster().controller().ok_or(ErrorCode::NOT_CONTROLLER)?;
    let refuse = |error: RequestError| {
        tracing::warn!(from = request.broker_id, %error, "a broker handed on what cannot be handled");
        ErrorCode::INVALID_REQUEST
    };
    let (header, body) = decode_request_header(&request.payload).map_err(|error| refuse(error.into()))?;
    if !is_for_controller(header.api_key) {
        return Err(refuse(RequestError::Unavailable(header.api_key)));
    }
    let outcome = dispatch::control(broker, client, &header, body, None).await.map_err(refuse)?;
    let Outcome::Answer(response) = outcome else { return Err(ErrorCode::INVALID_REQUEST) };
    // All that the request led to is in the controller's newest metadata.
    let position = controller.image().position;
    Ok(ForwardResponse {
        error_code: ErrorCode::NONE.code(),
        controller_epoch: position.controller_epoch.0,
        version: position.version,
        payload: response.into_frame(),
    })
}

impl Response {
    /// An answer that is encoded already: header and body.
    pub(super) fn of_frame(frame: &[u8]) -> Response {
        let length = i32::try_from(frame.len()).expect("a frame's length is an i32 on the wire");
        let mut buffer = BytesMut::with_capacity(4 + frame.len());
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.extend_from_slice(frame);
        Response { buffer, slices: Vec::new() }
    }

    /// The bytes without their length.
    fn into_frame(self) -> Bytes {
        assert!(self.slices.is_empty(), "no answer of the controller lies in a log");
        self.buffer.freeze().slice(4..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::tests::FakeCluster, cluster::ClusterError, types::BrokerId};
    use sillon_runtime::tokio_backend;

    fn hand(cluster: &FakeCluster) -> Result<Bytes, (ErrorCode, String)> {
        let run = |_| hand_on(cluster, 77, Bytes::from_static(b"request"));
        tokio_backend::block_on(Some(1), run).expect("threads can be started")
    }

    #[test]
    fn the_answer_comes_back_as_it_is_with_the_clients_own_id() {
        let cluster = FakeCluster::elsewhere(|frame| {
            assert_eq!(&frame[..], b"request");
            Ok(Bytes::from_static(b"\0\0\0\x09answer"))
        });
        let answer = hand(&cluster).unwrap();
        assert_eq!(&answer[..], b"\0\0\0\x4danswer");
        assert_eq!(&Response::of_frame(&answer).into_frame()[..], &answer[..]);
    }

    #[test]
    fn a_controller_that_cannot_be_asked_is_a_code_that_may_be_tried_again() {
        let lost = ClusterError::Unreachable { broker: BrokerId(2), reason: "reset".to_owned() };
        let cases = [
            (Err(ClusterError::NoController), ErrorCode::NOT_CONTROLLER),
            (Err(ClusterError::Coordinator("lost".to_owned())), ErrorCode::NOT_CONTROLLER),
            (Err(lost), ErrorCode::REQUEST_TIMED_OUT),
            (Ok(Bytes::from_static(b"\0")), ErrorCode::REQUEST_TIMED_OUT),
        ];
        for (answer, code) in cases {
            let cluster = FakeCluster::elsewhere(move |_| answer.clone());
            assert_eq!(hand(&cluster).unwrap_err().0, code);
            assert!(code.is_retriable());
        }
    }
}
