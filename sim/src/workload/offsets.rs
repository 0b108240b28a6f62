//! ListOffsets for one partition.

use super::link::Link;
use sillon_broker::types::TopicPartition;
use sillon_client::ConnectionError;
use sillon_protocol::messages::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

/// One past the last committed record.
pub(super) const LATEST: i64 = -1;
/// The first record.
pub(super) const EARLIEST: i64 = -2;
/// The record with the largest time.
pub(super) const MAX_TIMESTAMP: i64 = -3;

/// Version from which [`MAX_TIMESTAMP`] is known.
const FIRST_VERSION_WITH_MAX_TIMESTAMP: i16 = 7;

/// The offset for `timestamp` (a time in milliseconds, or one of the above); −1 where there is none, `None` where
/// the broker has an error instead.
pub(super) async fn list(
    link: &mut Link,
    partition: &TopicPartition,
    timestamp: i64,
) -> Result<Option<i64>, ConnectionError> {
    let connection = link.connection().await?;
    let newest = *connection.common_versions::<ListOffsetsRequest>()?.end();
    if timestamp == MAX_TIMESTAMP && newest < FIRST_VERSION_WITH_MAX_TIMESTAMP {
        return Ok(None);
    }
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: partition.topic.to_string(),
            partitions: vec![ListOffsetsPartition {
                partition_index: partition.partition,
                timestamp,
                ..ListOffsetsPartition::default()
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let response = link.ask(&request).await?;
    let answer = response.topics.first().and_then(|topic| topic.partitions.first());
    Ok(answer.filter(|answer| answer.error_code == 0).map(|answer| answer.offset))
}
