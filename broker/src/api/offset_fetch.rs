//! OffsetFetch (9): how far groups have come.
//!
//! There are no transactions yet, so every offset is stable (KIP-447).

use crate::{
    broker::Broker,
    group::{CommittedOffset, Shard},
    server::dispatch::Client,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse, OffsetFetchResponseGroup,
        OffsetFetchResponsePartition, OffsetFetchResponseTopic,
    },
};
use std::sync::Arc;

/// Version from which several groups are asked for at once (KIP-709).
const FIRST_VERSION_WITH_BATCHES: i16 = 8;
/// Version from which an error is told for the group as a whole.
const FIRST_VERSION_WITH_GROUP_ERRORS: i16 = 2;
/// Stands for "none".
const NO_OFFSET: i64 = -1;
const NO_EPOCH: i32 = -1;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if version >= FIRST_VERSION_WITH_BATCHES {
        let groups = request.groups.into_iter().map(|group| {
            let (topics, code) = match fetch(broker, &group.group_id, group.topics.as_deref()) {
                Ok(topics) => (topics, ErrorCode::NONE),
                Err(code) => (Vec::new(), code),
            };
            OffsetFetchResponseGroup { group_id: group.group_id, topics, error_code: code.code() }
        });
        return OffsetFetchResponse { groups: groups.collect(), ..OffsetFetchResponse::default() };
    }
    match fetch(broker, &request.group_id, request.topics.as_deref()) {
        Ok(topics) => OffsetFetchResponse { topics, ..OffsetFetchResponse::default() },
        Err(code) if version >= FIRST_VERSION_WITH_GROUP_ERRORS => {
            OffsetFetchResponse { error_code: code.code(), ..OffsetFetchResponse::default() }
        }
        Err(code) => {
            let none = |partition_index| present(partition_index, None, code);
            let topics = request.topics.unwrap_or_default().into_iter();
            let topics = topics.map(|topic| OffsetFetchResponseTopic {
                name: topic.name,
                partitions: topic.partition_indexes.into_iter().map(none).collect(),
            });
            OffsetFetchResponse { topics: topics.collect(), ..OffsetFetchResponse::default() }
        }
    }
}

/// The offsets of a group, in some topics or in all.
fn fetch(
    broker: &Broker,
    group: &str,
    topics: Option<&[OffsetFetchRequestTopic]>,
) -> Result<Vec<OffsetFetchResponseTopic>, ErrorCode> {
    let work = broker.groups().find(broker, group)?;
    work.with(|shard, _| match topics {
        Some(topics) => topics.iter().map(|topic| of_topic(shard, group, topic)).collect(),
        None => all(shard, group),
    })
}

fn of_topic(shard: &Shard, group: &str, topic: &OffsetFetchRequestTopic) -> OffsetFetchResponseTopic {
    let name: Arc<str> = topic.name.as_str().into();
    let partition = |index: &i32| present(*index, shard.committed(group, &name, *index), ErrorCode::NONE);
    OffsetFetchResponseTopic {
        name: topic.name.clone(),
        partitions: topic.partition_indexes.iter().map(partition).collect(),
    }
}

fn all(shard: &Shard, group: &str) -> Vec<OffsetFetchResponseTopic> {
    let mut topics: Vec<OffsetFetchResponseTopic> = Vec::new();
    for (partition, committed) in shard.all_committed(group) {
        if topics.last().is_none_or(|topic| *topic.name != *partition.topic) {
            let name = partition.topic.to_string();
            topics.push(OffsetFetchResponseTopic { name, partitions: Vec::new() });
        }
        let topic = topics.last_mut().expect("just added");
        topic.partitions.push(present(partition.partition, Some(committed), ErrorCode::NONE));
    }
    topics
}

fn present(
    partition_index: i32,
    committed: Option<&CommittedOffset>,
    code: ErrorCode,
) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition {
        partition_index,
        committed_offset: committed.map_or(NO_OFFSET, |committed| committed.offset),
        committed_leader_epoch: committed.map_or(NO_EPOCH, |committed| committed.leader_epoch),
        metadata: Some(committed.map_or_else(String::new, |committed| committed.metadata.clone())),
        error_code: code.code(),
    }
}
