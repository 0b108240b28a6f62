//! Produce (0): appends record batches and answers when they are as safe as the producer asked.

use crate::{
    broker::{Broker, Topic, Topics},
    log::AppendError,
    metadata::PartitionImage,
    partition::Stored,
    types::TopicId,
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{
        ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopic,
        ProduceTopicResponse,
    },
    records,
};
use std::sync::Arc;

/// Version from which topics are named by id.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;
/// All in-sync replicas must have the records.
const ACKS_ALL: i16 = -1;

type Refusal = (ErrorCode, Option<String>);

pub(crate) async fn handle(broker: &Broker, version: i16, request: ProduceRequest) -> ProduceResponse {
    let topics = broker.topics();
    let refusal = refuse_all(&request);
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        responses.push(produce_topic(&topics, version, request.acks, topic, refusal.as_ref()).await);
    }
    ProduceResponse { responses, ..ProduceResponse::default() }
}

/// Whether any partition was refused.
pub(crate) fn has_error(response: &ProduceResponse) -> bool {
    response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses)
        .any(|partition| partition.error_code != 0)
}

/// What is wrong with the request as a whole.
fn refuse_all(request: &ProduceRequest) -> Option<Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return Some((ErrorCode::INVALID_REQUIRED_ACKS, None));
    }
    let unavailable = || Some("Transactions are not available in this version.".to_owned());
    request.transactional_id.as_ref().map(|_| (ErrorCode::INVALID_TXN_STATE, unavailable()))
}

async fn produce_topic(
    topics: &Topics,
    version: i16,
    acks: i16,
    request: ProduceTopic,
    refusal: Option<&Refusal>,
) -> ProduceTopicResponse {
    let by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS;
    let topic = if by_id { topics.by_id(TopicId(request.topic_id)) } else { topics.by_name(&request.name) };
    let unknown = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
    let mut partition_responses = Vec::with_capacity(request.partition_data.len());
    for ProducePartition { index, records } in request.partition_data {
        let result = match (refusal, topic) {
            (Some(refusal), _) => Err(refusal.clone()),
            (None, None) => Err((unknown, None)),
            (None, Some(topic)) => produce_partition(topic, version, acks, index, records).await,
        };
        partition_responses.push(match result {
            Ok(stored) => ProducePartitionResponse {
                index,
                base_offset: stored.appended.base_offset.0,
                log_append_time_ms: stored.appended.log_append_time_ms.unwrap_or(-1),
                log_start_offset: stored.log_start.0,
                ..ProducePartitionResponse::default()
            },
            Err((code, error_message)) => ProducePartitionResponse {
                index,
                error_code: code.code(),
                base_offset: -1,
                error_message,
                ..ProducePartitionResponse::default()
            },
        });
    }
    ProduceTopicResponse { name: request.name, topic_id: request.topic_id, partition_responses }
}

async fn produce_partition(
    topic: &Arc<Topic>,
    version: i16,
    acks: i16,
    index: i32,
    records: Option<Bytes>,
) -> Result<Stored, Refusal> {
    let partition = topic.partition(index).map_err(|code| (code, None))?;
    if acks == ACKS_ALL && topic.partition_image(index).map_or(0, in_sync) < topic.min_insync_replicas {
        return Err((ErrorCode::NOT_ENOUGH_REPLICAS, None));
    }
    let batch = records::produce_batch(&records.unwrap_or_default(), version)
        .map_err(|error| refusal_for(&AppendError::Record(error)))?;
    if batch.is_transactional() {
        return Err((
            ErrorCode::INVALID_TXN_STATE,
            Some("Transactions are not available in this version.".to_owned()),
        ));
    }
    let stored = partition.append(batch).await.map_err(|error| refusal_for(&error))?;
    if acks != 0 {
        partition.acknowledged(&stored.appended, acks);
    }
    Ok(stored)
}

fn in_sync(partition: &PartitionImage) -> usize {
    partition.isr.len()
}

/// What a producer is told of a refused append.
fn refusal_for(error: &AppendError) -> Refusal {
    let code = match error {
        AppendError::Record(error) => error.error_code(),
        AppendError::TooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        AppendError::LargerThanSegment { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
        AppendError::InvalidTimestamp { .. } => ErrorCode::INVALID_TIMESTAMP,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        AppendError::InvalidTransactionState { .. } => ErrorCode::INVALID_TXN_STATE,
        AppendError::CoordinatorFenced { .. } => ErrorCode::TRANSACTION_COORDINATOR_FENCED,
        AppendError::StaleLeaderEpoch { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        AppendError::OutOfOrderOffset { .. } => ErrorCode::UNKNOWN_SERVER_ERROR,
        AppendError::Offline(_) => ErrorCode::KAFKA_STORAGE_ERROR,
    };
    (code, Some(error.to_string()))
}
