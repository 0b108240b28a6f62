//! Metadata (3): brokers, topics, leaders; creates topics that are asked for, where that is allowed.

use super::{ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS, create_topics, endpoint, metadata_error_code};
use crate::{
    broker::Broker,
    metadata::{MetadataError, MetadataImage, TopicImage},
    server::dispatch::Client,
    types::{BrokerId, TopicId},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AUTHORIZED_OPERATIONS_OMITTED, MetadataRequest, MetadataRequestTopic, MetadataResponse,
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// Version from which an unknown topic that was asked for by id has no name; before it has an empty one.
const FIRST_VERSION_WITH_NULL_NAMES: i16 = 12;

pub(crate) async fn handle(
    broker: &Broker,
    client: &Client,
    version: i16,
    request: MetadataRequest,
) -> MetadataResponse {
    let operations = request.include_topic_authorized_operations;
    let topics = match request.topics {
        // Version 0 has no null: there an empty list means all.
        None => all(broker, operations),
        Some(topics) if topics.is_empty() && version == 0 => all(broker, operations),
        Some(topics) => {
            let may_create = request.allow_auto_topic_creation && broker.config().auto_create_topics;
            let mut described = Vec::with_capacity(topics.len());
            for topic in topics {
                let mut topic = describe(broker, topic, may_create, operations).await;
                if version < FIRST_VERSION_WITH_NULL_NAMES && topic.name.is_none() {
                    topic.name = Some(String::new());
                }
                described.push(topic);
            }
            described
        }
    };
    let (host, port) = endpoint(broker, client);
    let node_id = broker.config().broker_id.0;
    MetadataResponse {
        brokers: vec![MetadataResponseBroker { node_id, host, port, rack: None }],
        cluster_id: Some(broker.image().cluster_id.clone()),
        controller_id: node_id,
        topics,
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            AUTHORIZED_OPERATIONS_OMITTED
        },
        ..MetadataResponse::default()
    }
}

fn all(broker: &Broker, operations: bool) -> Vec<MetadataResponseTopic> {
    let image = broker.image();
    image.topics.iter().map(|(name, topic)| present(broker, name, topic, operations)).collect()
}

async fn describe(
    broker: &Broker,
    wanted: MetadataRequestTopic,
    may_create: bool,
    operations: bool,
) -> MetadataResponseTopic {
    let image = broker.image();
    let Some(name) = wanted.name else {
        let id = TopicId(wanted.topic_id);
        return match image.topic_by_id(id) {
            Some((name, topic)) => present(broker, name, topic, operations),
            None => MetadataResponseTopic {
                error_code: ErrorCode::UNKNOWN_TOPIC_ID.code(),
                topic_id: wanted.topic_id,
                ..MetadataResponseTopic::default()
            },
        };
    };
    if let Some(topic) = image.topic(&name) {
        return present(broker, &name, topic, operations);
    }
    let error = if may_create {
        match auto_create(broker, &name).await {
            Ok(image) => match image.topic(&name) {
                Some(topic) => return present(broker, &name, topic, operations),
                None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            },
            Err(error) => metadata_error_code(&error),
        }
    } else if crate::metadata::names::check_topic_name(&name).is_err() {
        ErrorCode::INVALID_TOPIC_EXCEPTION
    } else {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    };
    MetadataResponseTopic { error_code: error.code(), name: Some(name), ..MetadataResponseTopic::default() }
}

/// Creates a topic with the broker's defaults; one that another request created meanwhile will do.
async fn auto_create(broker: &Broker, name: &str) -> Result<Arc<MetadataImage>, MetadataError> {
    let partitions = broker.config().default_partitions;
    let assignment = vec![vec![broker.config().broker_id]; partitions as usize];
    match create_topics::create(broker, name, assignment, BTreeMap::new()).await {
        Err(MetadataError::TopicExists(_)) => Ok(broker.image()),
        other => other,
    }
}

fn present(broker: &Broker, name: &str, topic: &TopicImage, operations: bool) -> MetadataResponseTopic {
    let topics = broker.topics();
    let led = topics.by_id(topic.id);
    let partitions = (0..).zip(&topic.partitions);
    let numbers = |brokers: &[BrokerId]| brokers.iter().map(|broker| broker.0).collect();
    MetadataResponseTopic {
        name: Some(name.to_owned()),
        topic_id: topic.id.0,
        partitions: partitions
            .map(|(index, partition)| {
                // A partition without an open log has no one who can serve it.
                let serves = led.is_some_and(|topic| topic.partition(index).is_ok());
                MetadataResponsePartition {
                    error_code: if serves { 0 } else { ErrorCode::LEADER_NOT_AVAILABLE.code() },
                    partition_index: index,
                    leader_id: if serves { partition.leader.unwrap_or(BrokerId::NONE).0 } else { -1 },
                    leader_epoch: partition.leader_epoch.0,
                    replica_nodes: numbers(&partition.replicas),
                    isr_nodes: numbers(&partition.isr),
                    offline_replicas: if serves { Vec::new() } else { numbers(&partition.replicas) },
                }
            })
            .collect(),
        topic_authorized_operations: if operations {
            ALL_TOPIC_OPERATIONS
        } else {
            AUTHORIZED_OPERATIONS_OMITTED
        },
        ..MetadataResponseTopic::default()
    }
}
