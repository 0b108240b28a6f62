//! DescribeTopicPartitions (75): partitions of topics, a page at a time (KIP-966).

use super::{
    ALL_TOPIC_OPERATIONS,
    view::{View, VisiblePartition},
};
use crate::{
    broker::Broker,
    metadata::{TopicImage, names},
    server::dispatch::Client,
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
    client: &Client,
    _: i16,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    answer(&View::of(broker, client), request)
}

pub(super) fn answer(
    view: &View,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let image = &view.image;
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
        let described = describe(view, &name, topic, from, page);
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
    view: &View,
    name: &str,
    topic: &TopicImage,
    from: usize,
    page: usize,
) -> DescribeTopicPartitionsTopic {
    let partition = |partition: VisiblePartition| DescribeTopicPartitionsPartition {
        error_code: partition.error.code(),
        partition_index: partition.index,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas,
        isr_nodes: partition.isr,
        eligible_leader_replicas: Some(partition.eligible),
        last_known_elr: Some(partition.last_known_leader),
        offline_replicas: partition.offline,
    };
    DescribeTopicPartitionsTopic {
        name: Some(name.to_owned()),
        topic_id: topic.id.0,
        is_internal: names::is_internal(name),
        partitions: view.partitions(topic, from, page).into_iter().map(partition).collect(),
        topic_authorized_operations: ALL_TOPIC_OPERATIONS,
        ..DescribeTopicPartitionsTopic::default()
    }
}
