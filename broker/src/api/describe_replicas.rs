//! DescribeReplicas (private 10003): how far this broker's logs go, for the controller that compares them where nobody
//! is known to hold all that was committed (KIP-966). Owns the answer; decides nothing.

use crate::{
    broker::{Broker, Topics},
    log::Log,
    server::dispatch::Client,
    types::{BrokerEpoch, LeaderEpoch, Offset, PartitionEpoch, TopicId},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        DescribeReplicasPartition, DescribeReplicasRequest, DescribeReplicasResponse, DescribedReplica,
        DescribedReplicasTopic,
    },
};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DescribeReplicasRequest,
) -> DescribeReplicasResponse {
    let broker_epoch = broker.cluster().broker_epoch();
    let mut response =
        DescribeReplicasResponse { broker_epoch: broker_epoch.0, ..DescribeReplicasResponse::default() };
    if broker_epoch == BrokerEpoch::NONE || broker_epoch.0 != request.broker_epoch {
        // Another process was meant, whose logs may have been others.
        response.error_code = ErrorCode::STALE_BROKER_EPOCH.code();
        return response;
    }
    let topics = broker.topics();
    let described = |topic_id: TopicId, wanted: &DescribeReplicasPartition| {
        let mut answer = DescribedReplica {
            partition_index: wanted.partition_index,
            partition_epoch: wanted.partition_epoch,
            ..DescribedReplica::default()
        };
        match look_up(&topics, topic_id, wanted) {
            Ok((epoch, end)) => (answer.latest_epoch, answer.log_end_offset) = (epoch.0, end.0),
            Err(code) => answer.error_code = code.code(),
        }
        answer
    };
    let results = request.topics.iter().map(|topic| DescribedReplicasTopic {
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|wanted| described(TopicId(topic.topic_id), wanted))
            .collect(),
    });
    response.topics = results.collect();
    response
}

fn look_up(
    topics: &Topics,
    topic_id: TopicId,
    wanted: &DescribeReplicasPartition,
) -> Result<(LeaderEpoch, Offset), ErrorCode> {
    let topic = topics.by_id(topic_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
    let partition = topic.partition(wanted.partition_index)?;
    let state = topic.partition_image(wanted.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if state.partition_epoch != PartitionEpoch(wanted.partition_epoch) {
        // Until this broker has heard that nobody leads, its log may still grow.
        return Err(ErrorCode::FENCED_LEADER_EPOCH);
    }
    if partition.log().is_offline().is_some() {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
    }
    Ok(end_of(partition.log()))
}

/// The epoch of the last record, and the end. Of a log without records, what it remembers of the last one.
fn end_of(log: &Log) -> (LeaderEpoch, Offset) {
    let end = log.log_end_offset();
    let last = (end > log.log_start_offset()).then(|| log.epoch_for_offset(Offset(end.0 - 1))).flatten();
    (last.or_else(|| log.latest_epoch()).unwrap_or(LeaderEpoch(-1)), end)
}
