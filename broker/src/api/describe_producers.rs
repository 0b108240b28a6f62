//! DescribeProducers (61): which idempotent producers a partition's leader remembers (KIP-664).

use crate::{broker::Broker, server::dispatch::Client, types::TopicPartition};
use sillon_protocol::{
    ErrorCode,
    messages::{
        ActiveProducer, DescribeProducersPartitionResponse, DescribeProducersRequest,
        DescribeProducersResponse, DescribeProducersTopicResponse,
    },
};

/// Stands for "no coordinator": there are no transactions.
const NO_COORDINATOR: i32 = -1;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for partition_index in topic.partition_indexes {
            let name = TopicPartition::new(&topic.name, partition_index);
            let (code, active_producers) = match producers(broker, &name).await {
                Ok(producers) => (ErrorCode::NONE, producers),
                Err(code) => (code, Vec::new()),
            };
            partitions.push(DescribeProducersPartitionResponse {
                partition_index,
                error_code: code.code(),
                error_message: None,
                active_producers,
            });
        }
        topics.push(DescribeProducersTopicResponse { name: topic.name, partitions });
    }
    DescribeProducersResponse { topics, ..DescribeProducersResponse::default() }
}

async fn producers(broker: &Broker, name: &TopicPartition) -> Result<Vec<ActiveProducer>, ErrorCode> {
    let image = broker.cluster().image();
    let state = image.partition(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if state.leader != Some(broker.config().broker_id) {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    let topics = broker.topics();
    let topic = topics.by_name(&name.topic).ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
    let summaries = topic.partition(name.partition)?.log().producers_summary().await;
    let present = |producer: &crate::observe::ProducerSummary| ActiveProducer {
        producer_id: producer.producer_id.0,
        producer_epoch: i32::from(producer.producer_epoch),
        last_sequence: producer.last_sequence,
        coordinator_epoch: NO_COORDINATOR,
        ..ActiveProducer::default()
    };
    Ok(summaries.iter().map(present).collect())
}
