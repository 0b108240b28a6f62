//! CreateTopics (19): new topics. Also the way by which Metadata creates topics that are asked for.

use super::{
    admin::{Admin, Refusal, brokers},
    describe_configs,
};
use crate::{
    broker::Broker,
    cluster::ClusterError,
    controller::{Command, Outcome},
    metadata::MetadataImage,
    server::dispatch::Client,
    types::BrokerId,
};
use bytes::Bytes;
use sillon_protocol::{
    ApiKey, ErrorCode,
    messages::{
        CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult,
        CreateTopicsRequest, CreateTopicsResponse, RequestHeader, ResponseHeader, request_header_version,
        response_header_version,
    },
    wire::{Decoder, EncodeError, Encoder, Message},
};
use std::collections::{BTreeMap, BTreeSet};

/// The version in which a broker hands the creation of topics to the controller.
const OWN_VERSION: i16 = 7;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    create(&mut Admin::of(broker), request).await
}

/// The answer where the controller could not be asked.
pub(crate) fn refused(
    _: i16,
    request: CreateTopicsRequest,
    refusal: (ErrorCode, String),
) -> CreateTopicsResponse {
    let topics = request.topics.into_iter().map(|topic| refuse(topic.name, refusal.clone()));
    CreateTopicsResponse { topics: topics.collect(), ..CreateTopicsResponse::default() }
}

/// Creates topics; the controller is on this broker.
async fn create(admin: &mut Admin<'_>, request: CreateTopicsRequest) -> CreateTopicsResponse {
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
                topics.push(refuse(topic.name, (ErrorCode::INVALID_REQUEST, message)));
            }
            continue;
        }
        let name = topic.name.clone();
        topics.push(match create_one(admin, topic, request.validate_only).await {
            Ok(result) => result,
            Err(refusal) => refuse(name, refusal),
        });
    }
    admin.settle().await;
    CreateTopicsResponse { topics, ..CreateTopicsResponse::default() }
}

/// Creates topics, on this broker or by way of the controller.
///
/// # Errors
/// Where the controller cannot be asked, or its answer cannot be read.
pub(super) async fn create_anywhere(
    admin: &mut Admin<'_>,
    request: CreateTopicsRequest,
) -> Result<CreateTopicsResponse, ClusterError> {
    if admin.cluster.controller().is_some() {
        return Ok(create(admin, request).await);
    }
    let unreadable = |error: String| ClusterError::Unreachable { broker: BrokerId::NONE, reason: error };
    let frame = frame(&request).map_err(|error| unreadable(error.to_string()))?;
    let answer = admin.cluster.forward(frame).await?;
    let mut decoder = Decoder::new(&answer);
    ResponseHeader::decode(response_header_version(ApiKey::CreateTopics, OWN_VERSION), &mut decoder)
        .and_then(|_| CreateTopicsResponse::decode(OWN_VERSION, &mut decoder))
        .map_err(|error| unreadable(error.to_string()))
}

/// The request as a client's frame.
fn frame(request: &CreateTopicsRequest) -> Result<Bytes, EncodeError> {
    let mut encoder = Encoder::new();
    let (key, header_version) =
        (ApiKey::CreateTopics, request_header_version(ApiKey::CreateTopics, OWN_VERSION));
    RequestHeader::encode_parts(&mut encoder, header_version, key.code(), OWN_VERSION, 0, Some("broker"))?;
    request.encode(OWN_VERSION, &mut encoder)?;
    Ok(encoder.buffer.freeze())
}

fn refuse(name: String, (code, message): Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name,
        error_code: code.code(),
        error_message: Some(message),
        ..CreatableTopicResult::default()
    }
}

async fn create_one(
    admin: &mut Admin<'_>,
    topic: CreatableTopic,
    validate_only: bool,
) -> Result<CreatableTopicResult, Refusal> {
    let assignment = assignment(&topic)?;
    let automatic = |number: i32| (number != -1 && assignment.is_none()).then_some(number);
    let command = Command::CreateTopic {
        name: topic.name.as_str().into(),
        id: admin.new_topic_id(),
        partitions: automatic(topic.num_partitions),
        replication_factor: automatic(i32::from(topic.replication_factor)).map(|_| topic.replication_factor),
        assignment,
        configs: topic.configs.into_iter().map(|config| (config.name, config.value)).collect(),
        validate_only,
        placement_seed: admin.placement_seed(),
    };
    let Outcome::TopicCreated { id, assignment, configs } = admin.submit(command).await? else {
        panic!("a topic's creation has no other outcome");
    };
    let replicas = assignment.first().map_or(0, Vec::len);
    Ok(CreatableTopicResult {
        name: topic.name,
        topic_id: if validate_only { Default::default() } else { id.0 },
        num_partitions: i32::try_from(assignment.len()).expect("partitions are numbered by i32"),
        replication_factor: i16::try_from(replicas).expect("a replication factor is an i16"),
        configs: Some(effective_configs(admin, &admin.image(), &configs)),
        ..CreatableTopicResult::default()
    })
}

/// Which brokers hold which partition, where the request says it: partitions 0 to n−1, each once.
fn assignment(topic: &CreatableTopic) -> Result<Option<Vec<Vec<BrokerId>>>, Refusal> {
    if topic.assignments.is_empty() {
        return Ok(None);
    }
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        let text = "Both numPartitions or replicationFactor and replicasAssignments were set.";
        return Err((ErrorCode::INVALID_REQUEST, text.to_owned()));
    }
    by_partition(&topic.assignments).map(Some).map_err(|text| (ErrorCode::INVALID_REPLICA_ASSIGNMENT, text))
}

fn by_partition(assignments: &[CreatableReplicaAssignment]) -> Result<Vec<Vec<BrokerId>>, String> {
    let mut by_partition = BTreeMap::new();
    for assignment in assignments {
        let index = assignment.partition_index;
        if by_partition.insert(index, brokers(&assignment.broker_ids)).is_some() {
            return Err(format!("Found multiple manual partition assignments for partition {index}"));
        }
    }
    if by_partition.keys().zip(0..).any(|(index, expected)| *index != expected) {
        return Err("partitions should be a consecutive 0-based integer sequence".to_owned());
    }
    Ok(by_partition.into_values().collect())
}

fn effective_configs(
    admin: &Admin<'_>,
    image: &MetadataImage,
    configs: &BTreeMap<String, String>,
) -> Vec<CreatableTopicConfigs> {
    let entries = describe_configs::topic_entries(&admin.layers(image), configs);
    let present = |entry: describe_configs::Entry| CreatableTopicConfigs {
        name: entry.key.name.to_owned(),
        config_source: entry.layers[0].source as i8,
        value: Some(entry.layers.into_iter().next().expect("the default is always there").value),
        ..CreatableTopicConfigs::default()
    };
    entries.into_iter().map(present).collect()
}
