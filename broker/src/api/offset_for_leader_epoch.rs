//! OffsetForLeaderEpoch (23): where a leader epoch ends in the log (KIP-101, KIP-279).

use crate::{
    broker::{Broker, Topics},
    server::dispatch::Client,
    types::{LeaderEpoch, Offset},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
        OffsetForLeaderTopicResult,
    },
};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = broker.topics();
    let answer = |topic: &str, wanted: &OffsetForLeaderPartition| {
        let mut answer = EpochEndOffset { partition: wanted.partition, ..EpochEndOffset::default() };
        match look_up(&topics, topic, wanted) {
            Ok((epoch, end_offset)) => {
                answer.leader_epoch = epoch.0;
                answer.end_offset = end_offset.0;
            }
            Err(code) => answer.error_code = code.code(),
        }
        answer
    };
    let results = request.topics.into_iter().map(|topic| OffsetForLeaderTopicResult {
        partitions: topic.partitions.iter().map(|wanted| answer(&topic.topic, wanted)).collect(),
        topic: topic.topic,
    });
    OffsetForLeaderEpochResponse { topics: results.collect(), ..OffsetForLeaderEpochResponse::default() }
}

fn look_up(
    topics: &Topics,
    topic: &str,
    wanted: &OffsetForLeaderPartition,
) -> Result<(LeaderEpoch, Offset), ErrorCode> {
    let topic = topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = topic.partition(wanted.partition)?;
    partition.check_leader(LeaderEpoch(wanted.current_leader_epoch), true)?;
    Ok(partition.log().end_offset_for_epoch(LeaderEpoch(wanted.leader_epoch)))
}
