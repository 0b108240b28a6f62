//! ListOffsets (2): offsets by time stamp, and the ends of a log.

use crate::{
    broker::{Broker, Topics},
    log::ReadError,
    partition::leader::LeaderState,
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

/// Version from which clients know OFFSET_NOT_AVAILABLE.
const FIRST_VERSION_WITH_NOT_AVAILABLE: i16 = 5;
/// The replica id of a client.
const CONSUMER: i32 = -1;
/// The replica id of a client that may ask any replica.
const DEBUGGING_CONSUMER: i32 = -2;

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
            let asking = Asking { topics: &topics, version, replica_id: request.replica_id };
            match asking.look_up(&topic.name, wanted).await {
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

/// What is common to all partitions of a request.
struct Asking<'a> {
    topics: &'a Topics,
    version: i16,
    replica_id: i32,
}

impl Asking<'_> {
    async fn look_up(&self, topic: &str, wanted: &ListOffsetsPartition) -> Result<Found, ErrorCode> {
        let topic = self.topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let partition = topic.partition(wanted.partition_index)?;
        let leader_only = self.replica_id != DEBUGGING_CONSUMER;
        let leader_epoch = partition.check_leader(LeaderEpoch(wanted.current_leader_epoch), leader_only)?;
        let log = partition.log();
        let is_client = self.replica_id == CONSUMER;
        // Without transactions the last stable offset is the high watermark, whatever the isolation level.
        let end = if is_client { partition.high_watermark() } else { log.log_end_offset() };
        // A new leader's high watermark may lie below what clients were told before (KIP-207).
        let tells_latest = partition.leading(LeaderState::tells_latest) != Some(false);
        let check_latest = || match tells_latest {
            false if is_client && self.version < FIRST_VERSION_WITH_NOT_AVAILABLE => {
                Err(ErrorCode::LEADER_NOT_AVAILABLE)
            }
            false if is_client => Err(ErrorCode::OFFSET_NOT_AVAILABLE),
            _ => Ok(()),
        };
        let found = match wanted.timestamp {
            LATEST_TIMESTAMP => {
                check_latest()?;
                return Ok(Some((-1, end, leader_epoch)));
            }
            EARLIEST_TIMESTAMP | EARLIEST_LOCAL_TIMESTAMP => {
                let start = log.log_start_offset();
                return Ok(Some((-1, start, log.epoch_for_offset(start).unwrap_or(LeaderEpoch::NONE))));
            }
            // Nothing is ever moved to another storage.
            LATEST_TIERED_TIMESTAMP | EARLIEST_PENDING_UPLOAD_TIMESTAMP => return Ok(None),
            MAX_TIMESTAMP => log.max_timestamp(end).await.map_err(code)?,
            timestamp if timestamp >= 0 => log.offset_for_timestamp(timestamp, end).await.map_err(code)?,
            _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
        };
        if found.is_none() {
            // It may be among the records that will be committed in a moment.
            check_latest()?;
        }
        Ok(found.map(|found| (found.timestamp, found.offset, found.leader_epoch)))
    }
}

fn code(error: ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Io { .. } | ReadError::Damaged { .. } => ErrorCode::KAFKA_STORAGE_ERROR,
    }
}
