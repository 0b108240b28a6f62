//! AlterPartition (56): a leader proposes in-sync replicas to the controller (KIP-497, KIP-903).

use super::admin::numbers;
use crate::{
    broker::Broker,
    cluster::ActiveController,
    controller::{Command, ControllerError, IsrProposal, Outcome},
    metadata::PartitionImage,
    server::dispatch::Client,
    types::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterPartitionPartition, AlterPartitionPartitionResponse, AlterPartitionRequest,
        AlterPartitionResponse, AlterPartitionTopicResponse,
    },
};

/// The version from which a proposal names registrations.
const FIRST_VERSION_WITH_EPOCHS: i16 = 3;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    request: AlterPartitionRequest,
) -> AlterPartitionResponse {
    match broker.cluster().controller() {
        Some(controller) => alter(&*controller, version, request).await,
        None => refused(ErrorCode::NOT_CONTROLLER),
    }
}

fn refused(code: ErrorCode) -> AlterPartitionResponse {
    AlterPartitionResponse { error_code: code.code(), ..AlterPartitionResponse::default() }
}

/// Proposes to the controller, and gives for each partition the state that is true now.
pub(crate) async fn alter(
    controller: &dyn ActiveController,
    version: i16,
    request: AlterPartitionRequest,
) -> AlterPartitionResponse {
    let mut proposals = Vec::new();
    for topic in &request.topics {
        let topic_id = TopicId(topic.topic_id);
        proposals.extend(topic.partitions.iter().map(|partition| proposal(topic_id, version, partition)));
    }
    let count = proposals.len();
    let command = Command::AlterPartitions {
        broker: BrokerId(request.broker_id),
        broker_epoch: BrokerEpoch(request.broker_epoch),
        proposals,
    };
    let results = match controller.submit(command).await {
        Ok((Outcome::PartitionsAltered(results), _)) => results,
        Ok((other, _)) => panic!("a proposal has no outcome {other:?}"),
        Err(error) => return refused(error.code),
    };
    assert_eq!(results.len(), count, "each proposal has its outcome");
    let mut results = results.into_iter();
    let topics = request.topics.iter().map(|topic| AlterPartitionTopicResponse {
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .zip(&mut results)
            .map(|(partition, result)| outcome(partition.partition_index, result))
            .collect(),
    });
    AlterPartitionResponse { topics: topics.collect(), ..AlterPartitionResponse::default() }
}

fn proposal(topic_id: TopicId, version: i16, partition: &AlterPartitionPartition) -> IsrProposal {
    let isr = if version < FIRST_VERSION_WITH_EPOCHS {
        partition.new_isr.iter().map(|id| (BrokerId(*id), BrokerEpoch::NONE)).collect()
    } else {
        let members = partition.new_isr_with_epochs.iter();
        members.map(|member| (BrokerId(member.broker_id), BrokerEpoch(member.broker_epoch))).collect()
    };
    IsrProposal {
        topic_id,
        partition: partition.partition_index,
        leader_epoch: LeaderEpoch(partition.leader_epoch),
        partition_epoch: PartitionEpoch(partition.partition_epoch),
        isr,
    }
}

fn outcome(
    partition_index: i32,
    result: Result<PartitionImage, ControllerError>,
) -> AlterPartitionPartitionResponse {
    match result {
        Ok(state) => AlterPartitionPartitionResponse {
            partition_index,
            leader_id: state.leader.unwrap_or(BrokerId::NONE).0,
            leader_epoch: state.leader_epoch.0,
            isr: numbers(&state.isr),
            partition_epoch: state.partition_epoch.0,
            ..AlterPartitionPartitionResponse::default()
        },
        Err(error) => AlterPartitionPartitionResponse {
            partition_index,
            error_code: error.code.code(),
            ..AlterPartitionPartitionResponse::default()
        },
    }
}
