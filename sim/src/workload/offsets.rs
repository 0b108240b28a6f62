//! ListOffsets for one partition.

use super::directory::Directory;
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

/// An offset as the leader tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedOffset {
    /// −1 where there is none.
    pub offset: i64,
    /// −1 where the answer has none.
    pub leader_epoch: i32,
}

/// The offset for `timestamp` (a time in milliseconds, or one of the above) from the partition's leader; `None` where
/// nobody is known to lead, or the leader has an error instead.
pub(super) async fn list(
    directory: &mut Directory,
    partition: &TopicPartition,
    timestamp: i64,
) -> Result<Option<ListedOffset>, ConnectionError> {
    let Some(leader) = directory.routes.leader(partition) else {
        directory.doubt();
        return Ok(None);
    };
    let Some(connection) = directory.connection(leader).await else { return Ok(None) };
    let newest = *connection.common_versions::<ListOffsetsRequest>()?.end();
    if timestamp == MAX_TIMESTAMP && newest < FIRST_VERSION_WITH_MAX_TIMESTAMP {
        return Ok(None);
    }
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: partition.topic.to_string(),
            partitions: vec![ListOffsetsPartition {
                partition_index: partition.partition,
                // A leader of another epoch than the one that is known refuses.
                current_leader_epoch: directory.routes.leader_epoch(partition),
                timestamp,
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let Some(response) = directory.ask_leader(partition, &request).await? else { return Ok(None) };
    let answer = response.topics.first().and_then(|topic| topic.partitions.first());
    let Some(answer) = answer.filter(|answer| answer.error_code == 0) else {
        directory.doubt();
        return Ok(None);
    };
    Ok(Some(ListedOffset { offset: answer.offset, leader_epoch: answer.leader_epoch }))
}
