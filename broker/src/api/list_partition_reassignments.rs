//! ListPartitionReassignments (46): which replicas are being moved (KIP-455).

use super::admin::{Admin, numbers};
use crate::{
    broker::Broker,
    metadata::{MetadataImage, PartitionImage, TopicImage},
    server::dispatch::Client,
};
use sillon_protocol::messages::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, OngoingPartitionReassignment,
    OngoingTopicReassignment,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    list(&Admin::of(broker).image(), request)
}

pub(super) fn list(
    image: &MetadataImage,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let topics: Vec<_> = match request.topics {
        None => {
            let topics = image.topics.iter();
            topics.map(|(name, topic)| (name.to_string(), moving(topic, 0..count(topic)))).collect()
        }
        Some(named) => {
            let mut wanted: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
            for topic in named {
                wanted.entry(topic.name).or_default().extend(topic.partition_indexes);
            }
            let moving = |(name, indexes): (String, BTreeSet<i32>)| {
                let partitions = image.topic(&name).map(|topic| moving(topic, indexes)).unwrap_or_default();
                (name, partitions)
            };
            wanted.into_iter().map(moving).collect()
        }
    };
    let topics = topics.into_iter().filter(|(_, partitions)| !partitions.is_empty());
    ListPartitionReassignmentsResponse {
        topics: topics.map(|(name, partitions)| OngoingTopicReassignment { name, partitions }).collect(),
        ..ListPartitionReassignmentsResponse::default()
    }
}

fn count(topic: &TopicImage) -> i32 {
    i32::try_from(topic.partitions.len()).expect("partitions are numbered by i32")
}

/// Those of the partitions that are being moved. Partitions that do not exist are not.
fn moving(topic: &TopicImage, indexes: impl IntoIterator<Item = i32>) -> Vec<OngoingPartitionReassignment> {
    let present = |index, partition: &PartitionImage| OngoingPartitionReassignment {
        partition_index: index,
        replicas: numbers(&partition.replicas),
        adding_replicas: numbers(&partition.adding),
        removing_replicas: numbers(&partition.removing),
    };
    indexes
        .into_iter()
        .filter_map(|index| topic.partition(index).map(|partition| (index, partition)))
        .filter(|(_, partition)| partition.is_reassigning())
        .map(|(index, partition)| present(index, partition))
        .collect()
}
