//! CreateTopics (19): new topics, with their partitions on this broker.

use super::{describe_configs, metadata_error_code};
use crate::{
    broker::Broker,
    config::topic,
    metadata::{Change, MetadataError, MetadataImage, change, names},
    server::dispatch::Client,
    types::{BrokerId, TopicId, Uuid},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult,
        CreateTopicsRequest, CreateTopicsResponse,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// More partitions than this in one topic are refused: each takes files and memory.
pub(super) const MAX_PARTITIONS: i32 = 100_000;

type Refusal = (ErrorCode, String);

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for topic in &request.topics {
        if !seen.insert(topic.name.clone()) {
            twice.insert(topic.name.clone());
        }
    }
    let mut topics = Vec::with_capacity(seen.len());
    for topic in request.topics {
        if twice.contains(&topic.name) {
            // Named once in the answer, as Kafka does.
            if seen.remove(&topic.name) {
                let message = "Duplicate topic name.".to_owned();
                topics.push(refused(topic.name, (ErrorCode::INVALID_REQUEST, message)));
            }
            continue;
        }
        let name = topic.name.clone();
        topics.push(match create_one(broker, topic, request.validate_only).await {
            Ok(result) => result,
            Err(refusal) => refused(name, refusal),
        });
    }
    CreateTopicsResponse { topics, ..CreateTopicsResponse::default() }
}

fn refused(name: String, (code, message): Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name,
        error_code: code.code(),
        error_message: Some(message),
        ..CreatableTopicResult::default()
    }
}

async fn create_one(
    broker: &Broker,
    topic: CreatableTopic,
    validate_only: bool,
) -> Result<CreatableTopicResult, Refusal> {
    names::check_topic_name(&topic.name).map_err(|text| (ErrorCode::INVALID_TOPIC_EXCEPTION, text))?;
    let refuse = |error: MetadataError| (metadata_error_code(&error), error.to_string());
    if broker.image().topic(&topic.name).is_some() {
        return Err(refuse(MetadataError::TopicExists(topic.name.as_str().into())));
    }
    let assignment = assignment(broker, &topic)?;
    let mut configs = BTreeMap::new();
    for config in topic.configs {
        let value = config.value.ok_or_else(|| {
            (
                ErrorCode::INVALID_CONFIG,
                format!("Null value not supported for topic configs: {}", config.name),
            )
        })?;
        topic::check_topic_value(&config.name, &value).map_err(|text| (ErrorCode::INVALID_CONFIG, text))?;
        configs.insert(config.name, value);
    }
    let (partitions, replicas) = (assignment.len(), assignment.first().map_or(0, Vec::len));
    let (image, id) = if validate_only {
        let change = creation(broker, &topic.name, assignment, configs.clone());
        (Arc::new(change::apply(&broker.image(), change).map_err(refuse)?), TopicId::default())
    } else {
        let image = create(broker, &topic.name, assignment, configs.clone()).await.map_err(refuse)?;
        let id = image.topic(&topic.name).map_or(TopicId::default(), |topic| topic.id);
        (image, id)
    };
    Ok(CreatableTopicResult {
        name: topic.name,
        topic_id: id.0,
        num_partitions: i32::try_from(partitions).expect("bounded above"),
        replication_factor: i16::try_from(replicas).expect("bounded by the number of brokers"),
        configs: Some(effective_configs(broker, &image, &configs)),
        ..CreatableTopicResult::default()
    })
}

/// Creates a topic; one list of replicas for each partition.
///
/// # Errors
/// Why it was refused.
pub(super) async fn create(
    broker: &Broker,
    name: &str,
    assignment: Vec<Vec<BrokerId>>,
    configs: BTreeMap<String, String>,
) -> Result<Arc<MetadataImage>, MetadataError> {
    broker.submit(creation(broker, name, assignment, configs)).await
}

fn creation(
    broker: &Broker,
    name: &str,
    assignment: Vec<Vec<BrokerId>>,
    configs: BTreeMap<String, String>,
) -> Change {
    let mut bytes = [0; 16];
    broker.runtime().fill_random(&mut bytes);
    // A version-4 UUID, as Kafka's; its ids must not begin with a dash, which command lines would take for an option.
    let id = TopicId(Uuid::from_bytes([
        bytes[0] & 0x7f,
        bytes[1],
        bytes[2],
        bytes[3],
        bytes[4],
        bytes[5],
        bytes[6] & 0x0f | 0x40,
        bytes[7],
        bytes[8] & 0x3f | 0x80,
        bytes[9],
        bytes[10],
        bytes[11],
        bytes[12],
        bytes[13],
        bytes[14],
        bytes[15],
    ]));
    Change::CreateTopic { name: name.into(), id, assignment, configs }
}

/// Which brokers hold which partition: as the request says, or this broker for all.
fn assignment(broker: &Broker, topic: &CreatableTopic) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    if !topic.assignments.is_empty() {
        if topic.num_partitions != -1 || topic.replication_factor != -1 {
            let text = "Both numPartitions or replicationFactor and replicasAssignments were set.";
            return Err((ErrorCode::INVALID_REQUEST, text.to_owned()));
        }
        return manual_assignment(broker, &topic.assignments);
    }
    let partitions = match topic.num_partitions {
        -1 => broker.config().default_partitions,
        number => number,
    };
    if partitions <= 0 {
        return Err((
            ErrorCode::INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.".to_owned(),
        ));
    }
    if partitions > MAX_PARTITIONS {
        let text = format!("Number of partitions must not be larger than {MAX_PARTITIONS}.");
        return Err((ErrorCode::INVALID_PARTITIONS, text));
    }
    let replication_factor = match topic.replication_factor {
        -1 => broker.config().default_replication_factor,
        number => number,
    };
    if replication_factor <= 0 {
        return Err((
            ErrorCode::INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0.".to_owned(),
        ));
    }
    if replication_factor > 1 {
        let text = format!(
            "Unable to replicate the partition {replication_factor} time(s): only 1 broker is registered."
        );
        return Err((ErrorCode::INVALID_REPLICATION_FACTOR, text));
    }
    Ok(vec![vec![broker.config().broker_id]; partitions as usize])
}

/// Checks the lists of a request: partitions 0 to n−1, each on brokers that exist, none twice.
pub(super) fn manual_assignment(
    broker: &Broker,
    assignments: &[CreatableReplicaAssignment],
) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    let refuse = |text: String| (ErrorCode::INVALID_REPLICA_ASSIGNMENT, text);
    let mut by_partition = BTreeMap::new();
    for assignment in assignments {
        let index = assignment.partition_index;
        let brokers = check_replicas(broker, &assignment.broker_ids).map_err(refuse)?;
        if by_partition.insert(index, brokers).is_some() {
            return Err(refuse(format!("Found multiple manual partition assignments for partition {index}")));
        }
    }
    if by_partition.keys().zip(0..).any(|(index, expected)| *index != expected) {
        return Err(refuse("partitions should be a consecutive 0-based integer sequence".to_owned()));
    }
    Ok(by_partition.into_values().collect())
}

/// Checks one partition's list of brokers.
pub(super) fn check_replicas(broker: &Broker, broker_ids: &[i32]) -> Result<Vec<BrokerId>, String> {
    let own = broker.config().broker_id;
    match broker_ids {
        [] => Err("The manual partition assignment includes an empty replica list.".to_owned()),
        [id] if *id == own.0 => Ok(vec![own]),
        ids => match ids.iter().find(|id| **id != own.0) {
            Some(unknown) => Err(format!(
                "The manual partition assignment includes broker {unknown}, but no such broker is registered."
            )),
            None => Err(format!("The manual partition assignment includes the broker {own} more than once.")),
        },
    }
}

fn effective_configs(
    broker: &Broker,
    image: &MetadataImage,
    configs: &BTreeMap<String, String>,
) -> Vec<CreatableTopicConfigs> {
    let layers = broker.layers(image);
    let entries = describe_configs::topic_entries(&layers, configs);
    let present = |entry: describe_configs::Entry| CreatableTopicConfigs {
        name: entry.key.name.to_owned(),
        config_source: entry.layers[0].source as i8,
        value: Some(entry.layers.into_iter().next().expect("the default is always there").value),
        ..CreatableTopicConfigs::default()
    };
    entries.into_iter().map(present).collect()
}
