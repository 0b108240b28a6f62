//! ElectLeaders (43): elections on demand (KIP-460).

use super::admin::{Admin, Refusal, on_the_wire};
use crate::{
    broker::Broker,
    controller::{Command, ElectionKind, Outcome},
    server::dispatch::Client,
    types::TopicPartition,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        ElectLeadersPartitionResult, ElectLeadersRequest, ElectLeadersResponse, ReplicaElectionResult,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// The version from which an error can be told of the request as a whole.
const FIRST_VERSION_WITH_ERROR: i16 = 1;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    elect(&mut Admin::of(broker), version, request).await
}

/// The answer where the controller could not be asked, or not in this way.
pub(crate) fn refused(
    version: i16,
    request: ElectLeadersRequest,
    refusal: (ErrorCode, String),
) -> ElectLeadersResponse {
    let partitions = named(&request).unwrap_or_default();
    let results = partitions.into_iter().map(|partition| (partition, Err(refusal.clone())));
    ElectLeadersResponse {
        error_code: if version >= FIRST_VERSION_WITH_ERROR { refusal.0.code() } else { 0 },
        replica_election_results: by_topic(results),
        ..ElectLeadersResponse::default()
    }
}

/// The partitions of a request, each once; none for all of the cluster.
fn named(request: &ElectLeadersRequest) -> Option<BTreeSet<TopicPartition>> {
    let topics = request.topic_partitions.as_ref()?.iter();
    let partitions = topics.flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition::new(&topic.topic, *partition))
    });
    Some(partitions.collect())
}

pub(super) async fn elect(
    admin: &mut Admin<'_>,
    version: i16,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    let kind = match request.election_type {
        0 => ElectionKind::Preferred,
        1 => ElectionKind::Unclean,
        other => {
            let text = format!("There is no election of type {other}.");
            return refused(version, request, (ErrorCode::INVALID_REQUEST, text));
        }
    };
    let partitions = named(&request);
    let all = partitions.is_none();
    let partitions = partitions.map(|partitions| partitions.into_iter().collect());
    let results = match admin.submit(Command::ElectLeaders { kind, partitions }).await {
        Ok(Outcome::Elected(results)) => results,
        Ok(other) => panic!("an election has no outcome {other:?}"),
        Err(refusal) => return refused(version, request, refusal),
    };
    admin.settle().await;
    // Who asks for all wants to hear of those where something was to be done.
    let is_told = |result: &Result<(), Refusal>| {
        !all || !matches!(result, Err((code, _)) if *code == ErrorCode::ELECTION_NOT_NEEDED)
    };
    let results = results
        .into_iter()
        .map(|(partition, result)| (partition, result.map_err(|error| (error.code, error.message))))
        .filter(|(_, result)| is_told(result));
    ElectLeadersResponse { replica_election_results: by_topic(results), ..ElectLeadersResponse::default() }
}

fn by_topic(
    results: impl Iterator<Item = (TopicPartition, Result<(), Refusal>)>,
) -> Vec<ReplicaElectionResult> {
    let mut topics: BTreeMap<String, Vec<ElectLeadersPartitionResult>> = BTreeMap::new();
    for (partition, result) in results {
        let (error_code, error_message) = on_the_wire(result);
        let result =
            ElectLeadersPartitionResult { partition_id: partition.partition, error_code, error_message };
        topics.entry(partition.topic.to_string()).or_default().push(result);
    }
    let result = |(topic, partition_result)| ReplicaElectionResult { topic, partition_result };
    topics.into_iter().map(result).collect()
}
