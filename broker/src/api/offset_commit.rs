//! OffsetCommit (8): a consumer notes how far it has come. The answer goes out once the records are committed.

use super::groups::written;
use crate::{broker::Broker, group::OffsetToCommit, metadata::MetadataImage, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse,
        OffsetCommitResponsePartition, OffsetCommitResponseTopic,
    },
};

pub(crate) async fn handle(
    broker: &Broker,
    client: &Client,
    _: i16,
    mut request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let image = broker.image();
    let mut offsets = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in std::mem::take(&mut request.topics) {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let partition_index = partition.partition_index;
            let error_code = match check(broker, &image, &topic.name, partition) {
                Ok(offset) => {
                    offsets.push(offset);
                    ErrorCode::NONE.code()
                }
                Err(code) => code.code(),
            };
            partitions.push(OffsetCommitResponsePartition { partition_index, error_code });
        }
        topics.push(OffsetCommitResponseTopic { name: topic.name, partitions });
    }
    let code = commit(broker, (&request, client.connection), offsets).await;
    let sound = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for partition in sound.filter(|partition| partition.error_code == 0) {
        partition.error_code = code.code();
    }
    OffsetCommitResponse { topics, ..OffsetCommitResponse::default() }
}

/// An offset that is sound by itself.
fn check(
    broker: &Broker,
    image: &MetadataImage,
    topic: &str,
    partition: OffsetCommitRequestPartition,
) -> Result<OffsetToCommit, ErrorCode> {
    if image.topic(topic).is_none() {
        return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    let metadata = partition.committed_metadata.unwrap_or_default();
    if metadata.len() > broker.groups().settings().offset_metadata_max_bytes {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    Ok(OffsetToCommit {
        topic: topic.to_owned(),
        partition: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata,
    })
}

async fn commit(
    broker: &Broker,
    request: (&OffsetCommitRequest, u64),
    offsets: Vec<OffsetToCommit>,
) -> ErrorCode {
    let asked = broker
        .groups()
        .find(broker, &request.0.group_id)
        .and_then(|work| work.ask(|shard, token, now| shard.commit(request, offsets, token, now)));
    match asked {
        Ok(((), receiver)) => {
            written(broker.runtime(), broker.groups().settings().commit_timeout, receiver).await
        }
        Err(code) => code,
    }
}
