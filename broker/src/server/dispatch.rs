//! From a frame to an answer: reads the header, finds the handler, encodes what it says.
//! Owns which request goes to which handler; never handles one.

use super::{forward, response::Response};
use crate::{api, broker::Broker, cluster, log::LogSlice};
use bytes::Bytes;
use sillon_protocol::{
    ApiKey,
    messages::{self, RequestHeader, RequestHeaderError, decode_request_header},
    wire::{DecodeError, Decoder, EncodeError, Message, Request},
};
use sillon_runtime::BoxFuture;
use std::{net::SocketAddr, sync::Arc};

/// A request that can only be answered by closing the connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Header(#[from] RequestHeaderError),
    #[error("a {api_key} request of version {api_version} is malformed: {error}")]
    Body { api_key: ApiKey, api_version: i16, error: DecodeError },
    #[error("the answer to a request cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    #[error("{0} is not available on this broker")]
    Unavailable(ApiKey),
}

/// What becomes of a request.
pub(crate) enum Outcome {
    /// An answer is to be sent.
    Answer(Response),
    /// The client wants no answer (acks=0).
    Silence,
    /// A client that wants no answer learns of an error by the end of its connection.
    Close,
}

/// How far a request is handled.
pub(crate) enum Handled<'a> {
    Done(Result<Outcome, RequestError>),
    /// Followers are to have what the request brought. Meanwhile the connection's next produce may be handled.
    Waits(BoxFuture<'a, Result<Outcome, RequestError>>),
}

/// What is known of the client of a connection.
pub(crate) struct Client {
    /// Its number among the connections that this process has accepted: a later one has a higher number.
    pub(crate) connection: u64,
    /// The address through which it came.
    pub(crate) local: SocketAddr,
    /// The address from which it came.
    pub(crate) remote: SocketAddr,
}

/// Whether the end of the connection ends the handling as well. So the controller learns of a broker that is gone, whose
/// poll would have waited on; other requests are carried out to the end.
pub(super) fn ends_with_connection(frame: &[u8]) -> bool {
    let key = <messages::FetchMetadataRequest as Request>::API_KEY.code();
    frame.first_chunk::<2>() == Some(&key.to_be_bytes())
}

/// Whether a request may be handled while those before it on its connection still wait for followers. Produce may:
/// records are appended in the order of the requests, and nothing else that it does can be told from the outside.
pub(super) fn goes_ahead_of_answers(frame: &[u8]) -> bool {
    frame.first_chunk::<2>() == Some(&ApiKey::Produce.code().to_be_bytes())
}

/// Handles one request.
pub(crate) async fn handle<'a>(broker: &'a Arc<Broker>, client: &'a Client, frame: Bytes) -> Handled<'a> {
    let (header, body) = match decode_request_header(&frame) {
        Ok(parts) => parts,
        Err(RequestHeaderError::UnsupportedVersion {
            api_key: ApiKey::ApiVersions, correlation_id, ..
        }) => {
            let unsupported = api::api_versions::unsupported();
            let response = Response::new(correlation_id, 0, &unsupported, 0, Vec::new());
            return Handled::Done(response.map(Outcome::Answer).map_err(RequestError::from));
        }
        Err(error) => return Handled::Done(Err(error.into())),
    };
    if forward::is_for_controller(header.api_key) {
        // The controller's business goes to it, unless that is this broker.
        let elsewhere = broker.cluster().controller().is_none();
        let frame = elsewhere.then(|| frame.clone());
        return Handled::Done(control(broker, client, &header, body, frame).await);
    }
    if header.api_key == ApiKey::Produce {
        return produce(broker, client, header, body).await.unwrap_or_else(|error| Handled::Done(Err(error)));
    }
    if is_for_groups(header.api_key) {
        return Handled::Done(serve_groups(broker, client, &header, body).await);
    }
    Handled::Done(serve(broker, client, &header, body).await)
}

/// One line per request kind: decode, handle, encode.
macro_rules! serve {
    ($module:ident, $request:ident, ($broker:ident, $client:ident, $header:ident, $body:ident)) => {{
        let request: messages::$request = decode($header, &mut $body)?;
        let response = api::$module::handle($broker, $client, $header.api_version, request).await;
        answer::<messages::$request>($header, &response, Vec::new())
    }};
}

/// Handles a produce as far as its connection has to wait for it.
async fn produce<'a>(
    broker: &'a Broker,
    client: &'a Client,
    header: RequestHeader,
    mut body: Decoder<'_>,
) -> Result<Handled<'a>, RequestError> {
    let request: messages::ProduceRequest = decode(&header, &mut body)?;
    let acks = request.acks;
    let produced = api::produce::begin(broker, client, header.api_version, request).await;
    if produced.waits_for_commit() {
        let answer = async move {
            let response = produced.finish().await;
            answer::<messages::ProduceRequest>(&header, &response, Vec::new())
        };
        return Ok(Handled::Waits(Box::pin(answer)));
    }
    let response = produced.finish().await;
    Ok(Handled::Done(match acks {
        0 if api::produce::has_error(&response) => Ok(Outcome::Close),
        0 => Ok(Outcome::Silence),
        _ => answer::<messages::ProduceRequest>(&header, &response, Vec::new()),
    }))
}

/// Handles what every broker answers by itself.
async fn serve(
    broker: &Arc<Broker>,
    client: &Client,
    header: &RequestHeader,
    mut body: Decoder<'_>,
) -> Result<Outcome, RequestError> {
    let version = header.api_version;
    match header.api_key {
        ApiKey::Fetch => {
            let request: messages::FetchRequest = decode(header, &mut body)?;
            let (response, slices) = api::fetch::handle(broker, client, version, request).await;
            answer::<messages::FetchRequest>(header, &response, slices)
        }
        ApiKey::ApiVersions => serve!(api_versions, ApiVersionsRequest, (broker, client, header, body)),
        ApiKey::Metadata => serve!(metadata, MetadataRequest, (broker, client, header, body)),
        ApiKey::FindCoordinator => {
            serve!(find_coordinator, FindCoordinatorRequest, (broker, client, header, body))
        }
        ApiKey::ListOffsets => serve!(list_offsets, ListOffsetsRequest, (broker, client, header, body)),
        ApiKey::OffsetForLeaderEpoch => {
            serve!(offset_for_leader_epoch, OffsetForLeaderEpochRequest, (broker, client, header, body))
        }
        ApiKey::InitProducerId => {
            serve!(init_producer_id, InitProducerIdRequest, (broker, client, header, body))
        }
        ApiKey::DeleteRecords => serve!(delete_records, DeleteRecordsRequest, (broker, client, header, body)),
        ApiKey::DescribeConfigs => {
            serve!(describe_configs, DescribeConfigsRequest, (broker, client, header, body))
        }
        ApiKey::ListPartitionReassignments => {
            serve!(
                list_partition_reassignments,
                ListPartitionReassignmentsRequest,
                (broker, client, header, body)
            )
        }
        ApiKey::AlterPartition => {
            serve!(alter_partition, AlterPartitionRequest, (broker, client, header, body))
        }
        ApiKey::AlterReplicaLogDirs => {
            serve!(alter_replica_log_dirs, AlterReplicaLogDirsRequest, (broker, client, header, body))
        }
        ApiKey::DescribeLogDirs => {
            serve!(describe_log_dirs, DescribeLogDirsRequest, (broker, client, header, body))
        }
        ApiKey::DescribeCluster => {
            serve!(describe_cluster, DescribeClusterRequest, (broker, client, header, body))
        }
        ApiKey::DescribeProducers => {
            serve!(describe_producers, DescribeProducersRequest, (broker, client, header, body))
        }
        ApiKey::ListConfigResources => {
            serve!(list_config_resources, ListConfigResourcesRequest, (broker, client, header, body))
        }
        ApiKey::DescribeTopicPartitions => {
            serve!(describe_topic_partitions, DescribeTopicPartitionsRequest, (broker, client, header, body))
        }
        _ => serve_brokers(broker, client, header, body).await,
    }
}

/// Handles what only brokers and Sillon's own tools send.
async fn serve_brokers(
    broker: &Arc<Broker>,
    client: &Client,
    header: &RequestHeader,
    mut body: Decoder<'_>,
) -> Result<Outcome, RequestError> {
    match header.api_key {
        <messages::DescribeReplicasRequest as Request>::API_KEY => {
            serve!(describe_replicas, DescribeReplicasRequest, (broker, client, header, body))
        }
        <messages::ForwardRequest as Request>::API_KEY => {
            let request: messages::ForwardRequest = decode(header, &mut body)?;
            let response = forward::take(broker, client, request).await;
            answer::<messages::ForwardRequest>(header, &response, Vec::new())
        }
        <messages::FetchMetadataRequest as Request>::API_KEY => {
            let request: messages::FetchMetadataRequest = decode(header, &mut body)?;
            let response = cluster::serve::fetch_metadata(&**broker.cluster(), request).await;
            answer::<messages::FetchMetadataRequest>(header, &response, Vec::new())
        }
        <messages::PrepareShutdownRequest as Request>::API_KEY => {
            let request: messages::PrepareShutdownRequest = decode(header, &mut body)?;
            let response = cluster::serve::prepare_shutdown(&**broker.cluster(), request).await;
            answer::<messages::PrepareShutdownRequest>(header, &response, Vec::new())
        }
        api_key => Err(RequestError::Unavailable(api_key)),
    }
}

/// Whether a request is for the coordinator of a group.
fn is_for_groups(api_key: ApiKey) -> bool {
    matches!(
        api_key,
        ApiKey::JoinGroup
            | ApiKey::SyncGroup
            | ApiKey::Heartbeat
            | ApiKey::LeaveGroup
            | ApiKey::OffsetCommit
            | ApiKey::OffsetFetch
            | ApiKey::OffsetDelete
            | ApiKey::DescribeGroups
            | ApiKey::ListGroups
            | ApiKey::DeleteGroups
    )
}

/// Handles what the coordinator of a group answers.
async fn serve_groups(
    broker: &Arc<Broker>,
    client: &Client,
    header: &RequestHeader,
    mut body: Decoder<'_>,
) -> Result<Outcome, RequestError> {
    let version = header.api_version;
    match header.api_key {
        ApiKey::JoinGroup => {
            let request: messages::JoinGroupRequest = decode(header, &mut body)?;
            let client_id = header.client_id.as_deref().unwrap_or_default();
            let response = api::join_group::handle(broker, client, client_id, version, request).await;
            answer::<messages::JoinGroupRequest>(header, &response, Vec::new())
        }
        ApiKey::SyncGroup => serve!(sync_group, SyncGroupRequest, (broker, client, header, body)),
        ApiKey::Heartbeat => serve!(heartbeat, HeartbeatRequest, (broker, client, header, body)),
        ApiKey::LeaveGroup => serve!(leave_group, LeaveGroupRequest, (broker, client, header, body)),
        ApiKey::OffsetCommit => serve!(offset_commit, OffsetCommitRequest, (broker, client, header, body)),
        ApiKey::OffsetFetch => serve!(offset_fetch, OffsetFetchRequest, (broker, client, header, body)),
        ApiKey::OffsetDelete => serve!(offset_delete, OffsetDeleteRequest, (broker, client, header, body)),
        ApiKey::DescribeGroups => {
            serve!(describe_groups, DescribeGroupsRequest, (broker, client, header, body))
        }
        ApiKey::ListGroups => serve!(list_groups, ListGroupsRequest, (broker, client, header, body)),
        ApiKey::DeleteGroups => serve!(delete_groups, DeleteGroupsRequest, (broker, client, header, body)),
        api_key => Err(RequestError::Unavailable(api_key)),
    }
}

/// Handles what the controller alone decides. With a frame the request goes on to another broker.
pub(super) async fn control(
    broker: &Arc<Broker>,
    client: &Client,
    header: &RequestHeader,
    mut body: Decoder<'_>,
    for_another: Option<Bytes>,
) -> Result<Outcome, RequestError> {
    let version = header.api_version;
    macro_rules! control {
        ($module:ident, $request:ident) => {{
            let request: messages::$request = decode(header, &mut body)?;
            let response = match for_another {
                None => api::$module::handle(broker, client, version, request).await,
                Some(frame) => {
                    match forward::hand_on(&**broker.cluster(), header.correlation_id, frame).await {
                        Ok(answer) => return Ok(Outcome::Answer(Response::of_frame(&answer))),
                        Err(refusal) => api::$module::refused(version, request, refusal),
                    }
                }
            };
            answer::<messages::$request>(header, &response, Vec::new())
        }};
    }
    match header.api_key {
        ApiKey::CreateTopics => control!(create_topics, CreateTopicsRequest),
        ApiKey::DeleteTopics => control!(delete_topics, DeleteTopicsRequest),
        ApiKey::CreatePartitions => control!(create_partitions, CreatePartitionsRequest),
        ApiKey::AlterConfigs => control!(alter_configs, AlterConfigsRequest),
        ApiKey::IncrementalAlterConfigs => {
            control!(incremental_alter_configs, IncrementalAlterConfigsRequest)
        }
        ApiKey::ElectLeaders => control!(elect_leaders, ElectLeadersRequest),
        ApiKey::AlterPartitionReassignments => {
            control!(alter_partition_reassignments, AlterPartitionReassignmentsRequest)
        }
        api_key => Err(RequestError::Unavailable(api_key)),
    }
}

fn decode<M: Message>(header: &RequestHeader, body: &mut Decoder<'_>) -> Result<M, RequestError> {
    let (api_key, api_version) = (header.api_key, header.api_version);
    M::decode(api_version, body).map_err(|error| RequestError::Body { api_key, api_version, error })
}

fn answer<R: Request>(
    header: &RequestHeader,
    response: &R::Response,
    slices: Vec<LogSlice>,
) -> Result<Outcome, RequestError> {
    let header_version = R::response_header_version(header.api_version);
    Ok(Outcome::Answer(Response::new(
        header.correlation_id,
        header_version,
        response,
        header.api_version,
        slices,
    )?))
}
