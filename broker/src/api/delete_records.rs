//! DeleteRecords (21): removes the records before an offset.

use crate::{
    broker::{Broker, Topics},
    log::LogError,
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

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let led = broker.topics();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            let (low_watermark, code) = match delete(&led, &topic.name, wanted).await {
                Ok(low_watermark) => (low_watermark.0, ErrorCode::NONE),
                Err(code) => (-1, code),
            };
            let partition_index = wanted.partition_index;
            partitions.push(DeleteRecordsPartitionResult {
                partition_index,
                low_watermark,
                error_code: code.code(),
            });
        }
        topics.push(DeleteRecordsTopicResult { name: topic.name, partitions });
    }
    DeleteRecordsResponse { topics, ..DeleteRecordsResponse::default() }
}

/// Removes the records and gives the new log start offset.
async fn delete(topics: &Topics, topic: &str, wanted: &DeleteRecordsPartition) -> Result<Offset, ErrorCode> {
    let topic = topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = topic.partition(wanted.partition_index)?;
    let to = match wanted.offset {
        DELETE_TO_HIGH_WATERMARK => partition.high_watermark(),
        offset => Offset(offset),
    };
    partition.delete_records(to).await.map_err(|error| match error {
        LogError::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        error => {
            tracing::error!(partition = %partition.name(), %error, "records cannot be deleted");
            ErrorCode::KAFKA_STORAGE_ERROR
        }
    })
}
