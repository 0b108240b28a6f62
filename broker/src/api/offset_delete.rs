//! OffsetDelete (47): removes committed offsets of topics that a group does not read (KIP-496).

use super::groups::written;
use crate::{broker::Broker, server::dispatch::Client, types::TopicPartition};
use sillon_protocol::{
    ErrorCode,
    messages::{
        OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
    },
};
use std::collections::BTreeMap;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let image = broker.image();
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition::new(&topic.name, partition.partition_index))
    });
    let (known, unknown): (Vec<_>, Vec<_>) =
        partitions.partition(|partition| image.topic(&partition.topic).is_some());
    let verdicts = match delete(broker, &request.group_id, known).await {
        Ok(verdicts) => verdicts,
        Err(code) => {
            return OffsetDeleteResponse { error_code: code.code(), ..OffsetDeleteResponse::default() };
        }
    };
    let unknown = unknown.into_iter().map(|partition| (partition, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    let mut topics: BTreeMap<String, Vec<OffsetDeleteResponsePartition>> = BTreeMap::new();
    for (partition, code) in verdicts.into_iter().chain(unknown) {
        let (partition_index, error_code) = (partition.partition, code.code());
        let partitions = topics.entry(partition.topic.to_string()).or_default();
        partitions.push(OffsetDeleteResponsePartition { partition_index, error_code });
    }
    let topics = topics.into_iter().map(|(name, partitions)| OffsetDeleteResponseTopic { name, partitions });
    OffsetDeleteResponse { topics: topics.collect(), ..OffsetDeleteResponse::default() }
}

async fn delete(
    broker: &Broker,
    group: &str,
    partitions: Vec<TopicPartition>,
) -> Result<Vec<(TopicPartition, ErrorCode)>, ErrorCode> {
    let work = broker.groups().find(broker, group)?;
    let (verdicts, receiver) =
        work.ask(|shard, token, now| shard.delete_offsets(group, partitions, token, now))?;
    match written(broker.runtime(), broker.groups().settings().commit_timeout, receiver).await {
        ErrorCode::NONE => Ok(verdicts),
        code => Err(code),
    }
}
