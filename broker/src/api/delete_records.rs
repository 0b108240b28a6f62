//! DeleteRecords (21): removes the records before an offset, on every replica that is alive (KIP-107).

use crate::{
    broker::{Broker, Topics},
    log::LogError,
    metadata::names,
    partition::Partition,
    server::dispatch::Client,
    types::Offset,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        DELETE_TO_HIGH_WATERMARK, DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest,
        DeleteRecordsResponse, DeleteRecordsTopicResult,
    },
};
use sillon_runtime::Monotonic;
use std::{sync::Arc, time::Duration};

/// How often it is looked whether the followers have removed the records as well. They say so with their next fetches.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What became of one partition: the leader has removed its records up to there.
type Deleted = Result<(Arc<Partition>, Offset), ErrorCode>;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = broker.runtime().now() + timeout;
    let held = broker.topics();
    let mut deleted: Vec<(String, Vec<(i32, Deleted)>)> = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            partitions.push((wanted.partition_index, delete(&held, &topic.name, wanted).await));
        }
        deleted.push((topic.name, partitions));
    }
    let mut topics = Vec::with_capacity(deleted.len());
    for (name, partitions) in deleted {
        let mut results = Vec::with_capacity(partitions.len());
        for (partition_index, deleted) in partitions {
            let (low_watermark, code) = match everywhere(broker, deleted, deadline).await {
                Ok(low_watermark) => (low_watermark.0, ErrorCode::NONE),
                Err(code) => (-1, code),
            };
            let error_code = code.code();
            results.push(DeleteRecordsPartitionResult { partition_index, low_watermark, error_code });
        }
        topics.push(DeleteRecordsTopicResult { name, partitions: results });
    }
    DeleteRecordsResponse { topics, ..DeleteRecordsResponse::default() }
}

/// Removes the records here.
async fn delete(topics: &Topics, topic: &str, wanted: &DeleteRecordsPartition) -> Deleted {
    if names::is_internal(topic) {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    let topic = topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = topic.partition(wanted.partition_index)?;
    if !partition.is_leader() {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    // Of a topic that is only compacted, the newest record of a key is never deleted but by a tombstone.
    if !partition.log().config().delete {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let to = match wanted.offset {
        DELETE_TO_HIGH_WATERMARK => partition.high_watermark(),
        offset => Offset(offset),
    };
    match partition.delete_records(to).await {
        Ok(_) => Ok((partition.clone(), to)),
        Err(LogError::OffsetOutOfRange { .. }) => Err(ErrorCode::OFFSET_OUT_OF_RANGE),
        Err(error) => {
            tracing::error!(partition = %partition.name(), %error, "records cannot be deleted");
            Err(ErrorCode::KAFKA_STORAGE_ERROR)
        }
    }
}

/// Waits until every replica that is alive has removed them, and gives the smallest log start.
async fn everywhere(broker: &Broker, deleted: Deleted, deadline: Monotonic) -> Result<Offset, ErrorCode> {
    let (partition, to) = deleted?;
    loop {
        if !partition.is_leader() {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        let image = broker.image();
        let low_watermark = partition.low_watermark(|replica| image.brokers.contains_key(&replica));
        if let Some(low_watermark) = low_watermark.filter(|low_watermark| *low_watermark >= to) {
            return Ok(low_watermark);
        }
        let now = broker.runtime().now();
        if now >= deadline {
            return Err(ErrorCode::REQUEST_TIMED_OUT);
        }
        broker.runtime().sleep_until((now + LOOK_AGAIN).min(deadline)).await;
    }
}
