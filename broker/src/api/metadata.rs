//! Metadata (3): brokers, topics, leaders; creates topics that are asked for, where that is allowed.

use super::{
    ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS,
    admin::Admin,
    create_topics,
    view::{View, VisiblePartition},
};
use crate::{
    broker::Broker,
    group::creation_of_offsets_topic,
    metadata::{MetadataPosition, TopicImage, names},
    server::dispatch::Client,
    types::TopicId,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AUTHORIZED_OPERATIONS_OMITTED, CreatableTopic, CreateTopicsRequest, MetadataRequest,
        MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
        MetadataResponseTopic,
    },
};
use std::{collections::BTreeMap, time::Duration};

/// Version from which an unknown topic that was asked for by id has no name; before it has an empty one.
const FIRST_VERSION_WITH_NULL_NAMES: i16 = 12;
/// How long a client waits for what other connections, broken in the same instant, have to tell. One that asks for the first
/// time on its connection as well: its connection to another broker may be what broke.
const MOMENT: Duration = Duration::from_millis(5);
/// Version from which a client knows LISTENER_NOT_FOUND.
const FIRST_VERSION_WITH_LISTENER_ERROR: i16 = 6;

pub(crate) async fn handle(
    broker: &Broker,
    client: &Client,
    version: i16,
    request: MetadataRequest,
) -> MetadataResponse {
    expect_news(broker).await;
    let mut refusals = BTreeMap::new();
    if request.allow_auto_topic_creation && broker.config().auto_create_topics {
        refusals =
            create_missing(&mut Admin::of(broker), request.topics.as_deref().unwrap_or_default()).await;
    }
    let mut view = View::of(broker, client);
    view.departed = broker.departed().missing(&view.image, broker.runtime().now());
    answer(&view, version, request, &refusals)
}

/// A client whose leader is gone asks in the same instant, and some ask but once: it is told who leads now, where that is
/// known in a moment.
async fn expect_news(broker: &Broker) {
    let runtime = broker.runtime();
    runtime.sleep(MOMENT).await;
    loop {
        let (image, now) = (broker.image(), runtime.now());
        let Some(until) = broker.replication().suspicion(&image, now) else { return };
        let next = MetadataPosition { version: image.position.version.saturating_add(1), ..image.position };
        broker.cluster().wait_for(next, until.saturating_since(now)).await;
    }
}

/// Creates topics that are asked for by name and do not exist. Gives the codes for those that could not be.
async fn create_missing(
    admin: &mut Admin<'_>,
    wanted: &[MetadataRequestTopic],
) -> BTreeMap<String, ErrorCode> {
    let image = admin.cluster.image();
    let mut refusals = BTreeMap::new();
    let mut missing = BTreeMap::new();
    for name in wanted.iter().filter_map(|topic| topic.name.as_ref()) {
        if names::check_topic_name(name).is_err() {
            refusals.insert(name.clone(), ErrorCode::INVALID_TOPIC_EXCEPTION);
        } else if image.topic(name).is_none() {
            let (num_partitions, replication_factor) = (-1, -1);
            let topic = match name.as_str() {
                names::OFFSETS_TOPIC => creation_of_offsets_topic(&admin.config.groups, image.brokers.len()),
                _ => CreatableTopic {
                    name: name.clone(),
                    num_partitions,
                    replication_factor,
                    ..Default::default()
                },
            };
            missing.insert(topic.name.clone(), topic);
        }
    }
    if missing.is_empty() {
        return refusals;
    }
    let names: Vec<String> = missing.keys().cloned().collect();
    let request =
        CreateTopicsRequest { topics: missing.into_values().collect(), ..CreateTopicsRequest::default() };
    match create_topics::create_anywhere(admin, request).await {
        Ok(response) => refusals.extend(
            response.topics.into_iter().map(|topic| (topic.name, while_creating(topic.error_code.into()))),
        ),
        Err(error) => {
            tracing::warn!(%error, "topics that clients ask for cannot be created at present");
            refusals.extend(names.into_iter().map(|name| (name, ErrorCode::LEADER_NOT_AVAILABLE)));
        }
    }
    refusals
}

/// What a client is told of a topic that is not in the metadata, after it was to be created.
fn while_creating(code: ErrorCode) -> ErrorCode {
    match code {
        // It is on its way here. The client asks again.
        ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS => ErrorCode::LEADER_NOT_AVAILABLE,
        ErrorCode::NOT_CONTROLLER | ErrorCode::REQUEST_TIMED_OUT => ErrorCode::LEADER_NOT_AVAILABLE,
        code => code,
    }
}

pub(super) fn answer(
    view: &View,
    version: i16,
    request: MetadataRequest,
    refusals: &BTreeMap<String, ErrorCode>,
) -> MetadataResponse {
    let operations = request.include_topic_authorized_operations;
    let all = || {
        let topics = view.image.topics.iter();
        topics.map(|(name, topic)| present(view, version, name, topic, operations)).collect()
    };
    let topics = match request.topics {
        // Version 0 has no null: there an empty list means all.
        None => all(),
        Some(topics) if topics.is_empty() && version == 0 => all(),
        Some(topics) => {
            topics.into_iter().map(|topic| describe(view, version, topic, refusals, operations)).collect()
        }
    };
    let brokers = view.brokers().into_iter().map(|broker| MetadataResponseBroker {
        node_id: broker.id,
        host: broker.host,
        port: broker.port,
        rack: broker.rack,
    });
    MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(view.image.cluster_id.clone()),
        controller_id: view.controller(),
        topics,
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            AUTHORIZED_OPERATIONS_OMITTED
        },
        ..MetadataResponse::default()
    }
}

fn describe(
    view: &View,
    version: i16,
    wanted: MetadataRequestTopic,
    refusals: &BTreeMap<String, ErrorCode>,
    operations: bool,
) -> MetadataResponseTopic {
    let found = match &wanted.name {
        Some(name) => view.image.topics.get_key_value(name.as_str()),
        None => view.image.topic_by_id(TopicId(wanted.topic_id)),
    };
    if let Some((name, topic)) = found {
        return present(view, version, name, topic, operations);
    }
    let error = match &wanted.name {
        None => ErrorCode::UNKNOWN_TOPIC_ID,
        Some(name) => refusals.get(name).copied().unwrap_or_else(|| match names::check_topic_name(name) {
            Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
        }),
    };
    let nameless = (version < FIRST_VERSION_WITH_NULL_NAMES).then(String::new);
    MetadataResponseTopic {
        error_code: error.code(),
        topic_id: if wanted.name.is_none() { wanted.topic_id } else { Default::default() },
        name: wanted.name.or(nameless),
        ..MetadataResponseTopic::default()
    }
}

fn present(
    view: &View,
    version: i16,
    name: &str,
    topic: &TopicImage,
    operations: bool,
) -> MetadataResponseTopic {
    let partition = |partition: VisiblePartition| MetadataResponsePartition {
        error_code: match partition.error {
            ErrorCode::LISTENER_NOT_FOUND if version < FIRST_VERSION_WITH_LISTENER_ERROR => {
                ErrorCode::LEADER_NOT_AVAILABLE.code()
            }
            error => error.code(),
        },
        partition_index: partition.index,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas,
        isr_nodes: partition.isr,
        offline_replicas: partition.offline,
    };
    MetadataResponseTopic {
        name: Some(name.to_owned()),
        topic_id: topic.id.0,
        is_internal: names::is_internal(name),
        partitions: view.partitions(topic, 0, usize::MAX).into_iter().map(partition).collect(),
        topic_authorized_operations: if operations {
            ALL_TOPIC_OPERATIONS
        } else {
            AUTHORIZED_OPERATIONS_OMITTED
        },
        ..MetadataResponseTopic::default()
    }
}
