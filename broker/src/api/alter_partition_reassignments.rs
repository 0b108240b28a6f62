//! AlterPartitionReassignments (45): moves replicas to other brokers, or takes that back (KIP-455).

use super::admin::{Admin, Refusal, brokers, on_the_wire};
use crate::{
    broker::Broker,
    controller::{Command, Outcome},
    server::dispatch::Client,
    types::TopicPartition,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse, ReassignableTopicResponse,
    },
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    reassign(&mut Admin::of(broker), request).await
}

/// The answer where the controller could not be asked.
pub(crate) fn refused(
    _: i16,
    request: AlterPartitionReassignmentsRequest,
    refusal: (ErrorCode, String),
) -> AlterPartitionReassignmentsResponse {
    failed(request.allow_replication_factor_change, refusal)
}

fn failed(
    allow_replication_factor_change: bool,
    (code, text): Refusal,
) -> AlterPartitionReassignmentsResponse {
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change,
        error_code: code.code(),
        error_message: Some(text),
        ..AlterPartitionReassignmentsResponse::default()
    }
}

pub(super) async fn reassign(
    admin: &mut Admin<'_>,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let allow = request.allow_replication_factor_change;
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    let mut partitions = Vec::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let name = TopicPartition::new(&topic.name, partition.partition_index);
            if !seen.insert(name.clone()) {
                twice.insert(name.clone());
            }
            partitions.push((name, partition.replicas.as_deref().map(brokers)));
        }
    }
    partitions.retain(|(name, _)| !twice.contains(name));
    let command = Command::Reassign { partitions, allow_replication_factor_change: allow };
    let results = match admin.submit(command).await {
        Ok(Outcome::Reassigned(results)) => results,
        Ok(other) => panic!("a reassignment has no outcome {other:?}"),
        Err(refusal) => return failed(allow, refusal),
    };
    admin.settle().await;
    let results = results
        .into_iter()
        .map(|(name, result)| (name, result.map_err(|error| (error.code, error.message))))
        .chain(twice.into_iter().map(|name| {
            let text = "The partition is named more than once.".to_owned();
            (name, Err((ErrorCode::INVALID_REQUEST, text)))
        }));
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: allow,
        responses: by_topic(results),
        ..AlterPartitionReassignmentsResponse::default()
    }
}

fn by_topic(
    results: impl Iterator<Item = (TopicPartition, Result<(), Refusal>)>,
) -> Vec<ReassignableTopicResponse> {
    let mut topics: BTreeMap<String, Vec<ReassignablePartitionResponse>> = BTreeMap::new();
    for (name, result) in results {
        let (error_code, error_message) = on_the_wire(result);
        let result =
            ReassignablePartitionResponse { partition_index: name.partition, error_code, error_message };
        topics.entry(name.topic.to_string()).or_default().push(result);
    }
    topics.into_iter().map(|(name, partitions)| ReassignableTopicResponse { name, partitions }).collect()
}
