//! DescribeTopicPartitions (75): partitions of topics, a page at a time (KIP-966).

use super::ALL_TOPIC_OPERATIONS;
use crate::{
    broker::Broker,
    metadata::{TopicImage, names},
    server::dispatch::Client,
    types::BrokerId,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        Cursor, DescribeTopicPartitionsPartition, DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse, DescribeTopicPartitionsTopic,
    },
};
use std::collections::BTreeSet;

/// The most partitions of a page, whatever the client allows (Kafka's `max.request.partition.size.limit`).
const MAX_PAGE: i32 = 2000;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let image = broker.image();
    let all = request.topics.is_empty();
    let mut wanted: BTreeSet<String> = match all {
        true => image.topics.keys().map(|name| name.to_string()).collect(),
        false => request.topics.into_iter().map(|topic| topic.name).collect(),
    };
    let (first_topic, first_partition) = match &request.cursor {
        Some(cursor) => (cursor.topic_name.clone(), usize::try_from(cursor.partition_index).unwrap_or(0)),
        None => (String::new(), 0),
    };
    wanted.retain(|name| *name >= first_topic);
    let mut page = usize::try_from(request.response_partition_limit.clamp(1, MAX_PAGE)).expect("at least 1");
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in wanted {
        if page == 0 {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: 0 });
            break;
        }
        let from = if name == first_topic { first_partition } else { 0 };
        let Some(topic) = image.topic(&name) else {
            response.topics.push(unknown(name));
            continue;
        };
        let described = describe(broker, &name, topic, from, page);
        page -= described.partitions.len();
        let next = from + described.partitions.len();
        response.topics.push(described);
        if next < topic.partitions.len() {
            let partition_index = i32::try_from(next).expect("partitions are numbered by i32");
            response.next_cursor = Some(Cursor { topic_name: name, partition_index });
            break;
        }
    }
    response
}

fn unknown(name: String) -> DescribeTopicPartitionsTopic {
    let code = match names::check_topic_name(&name) {
        Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
    };
    DescribeTopicPartitionsTopic { error_code: code.code(), name: Some(name), ..Default::default() }
}

fn describe(
    broker: &Broker,
    name: &str,
    topic: &TopicImage,
    from: usize,
    page: usize,
) -> DescribeTopicPartitionsTopic {
    let topics = broker.topics();
    let led = topics.by_id(topic.id);
    let numbers = |brokers: &[BrokerId]| -> Vec<i32> { brokers.iter().map(|broker| broker.0).collect() };
    let partitions = (0..).zip(&topic.partitions).skip(from).take(page).map(|(index, partition)| {
        let serves = led.is_some_and(|topic| topic.partition(index).is_ok());
        DescribeTopicPartitionsPartition {
            error_code: if serves { 0 } else { ErrorCode::LEADER_NOT_AVAILABLE.code() },
            partition_index: index,
            leader_id: if serves { partition.leader.unwrap_or(BrokerId::NONE).0 } else { -1 },
            leader_epoch: partition.leader_epoch.0,
            replica_nodes: numbers(&partition.replicas),
            isr_nodes: numbers(&partition.isr),
            offline_replicas: if serves { Vec::new() } else { numbers(&partition.replicas) },
            ..DescribeTopicPartitionsPartition::default()
        }
    });
    DescribeTopicPartitionsTopic {
        name: Some(name.to_owned()),
        topic_id: topic.id.0,
        partitions: partitions.collect(),
        topic_authorized_operations: ALL_TOPIC_OPERATIONS,
        ..DescribeTopicPartitionsTopic::default()
    }
}
