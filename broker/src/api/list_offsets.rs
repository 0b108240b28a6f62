//! ListOffsets (2): offsets by time stamp, and the ends of a log.

use super::check_leader_epoch;
use crate::{
    broker::{Broker, Topics},
    log::ReadError,
    server::dispatch::Client,
    types::{LeaderEpoch, Offset},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        EARLIEST_LOCAL_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP, EARLIEST_TIMESTAMP,
        LATEST_TIERED_TIMESTAMP, LATEST_TIMESTAMP, ListOffsetsPartition, ListOffsetsPartitionResponse,
        ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse, MAX_TIMESTAMP,
    },
};

/// Version from which an answer tells a record's leader epoch.
const FIRST_VERSION_WITH_LEADER_EPOCHS: i16 = 4;

/// Time stamp, offset and leader epoch of what was found.
type Found = Option<(i64, Offset, LeaderEpoch)>;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let topics = broker.topics();
    let mut responses = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            let mut response = ListOffsetsPartitionResponse {
                partition_index: wanted.partition_index,
                ..Default::default()
            };
            match look_up(&topics, &topic.name, wanted).await {
                Ok(None) => {}
                Ok(Some((timestamp, offset, leader_epoch))) => {
                    response.timestamp = timestamp;
                    response.offset = offset.0;
                    if version >= FIRST_VERSION_WITH_LEADER_EPOCHS {
                        response.leader_epoch = leader_epoch.0;
                    }
                }
                Err(code) => response.error_code = code.code(),
            }
            partitions.push(response);
        }
        responses.push(ListOffsetsTopicResponse { name: topic.name, partitions });
    }
    ListOffsetsResponse { topics: responses, ..ListOffsetsResponse::default() }
}

async fn look_up(topics: &Topics, topic: &str, wanted: &ListOffsetsPartition) -> Result<Found, ErrorCode> {
    let topic = topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = topic.partition(wanted.partition_index)?;
    let leader_epoch = partition.leader_epoch();
    check_leader_epoch(wanted.current_leader_epoch, leader_epoch)?;
    let log = partition.log();
    // Without transactions the last stable offset is the high watermark, whatever the isolation level.
    let high_watermark = partition.high_watermark();
    match wanted.timestamp {
        LATEST_TIMESTAMP => Ok(Some((-1, high_watermark, leader_epoch))),
        EARLIEST_TIMESTAMP | EARLIEST_LOCAL_TIMESTAMP => {
            let start = log.log_start_offset();
            Ok(Some((-1, start, log.epoch_for_offset(start).unwrap_or(LeaderEpoch::NONE))))
        }
        // Nothing is ever moved to another storage.
        LATEST_TIERED_TIMESTAMP | EARLIEST_PENDING_UPLOAD_TIMESTAMP => Ok(None),
        MAX_TIMESTAMP => {
            let found = log.max_timestamp(high_watermark).await.map_err(code)?;
            Ok(found.map(|found| (found.timestamp, found.offset, found.leader_epoch)))
        }
        timestamp if timestamp >= 0 => {
            let found = log.offset_for_timestamp(timestamp, high_watermark).await.map_err(code)?;
            Ok(found.map(|found| (found.timestamp, found.offset, found.leader_epoch)))
        }
        _ => Err(ErrorCode::UNSUPPORTED_VERSION),
    }
}

fn code(error: ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Io { .. } | ReadError::Damaged { .. } => ErrorCode::KAFKA_STORAGE_ERROR,
    }
}
