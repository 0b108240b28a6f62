//! CreatePartitions (37): more partitions for topics.

use super::{
    create_topics::{MAX_PARTITIONS, check_replicas},
    metadata_error_code,
};
use crate::{broker::Broker, metadata::Change, server::dispatch::Client, types::BrokerId};
use sillon_protocol::{
    ErrorCode,
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
    },
};

type Refusal = (ErrorCode, String);

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let (code, error_message) = match grow(broker, &topic, request.validate_only).await {
            Ok(()) => (ErrorCode::NONE, None),
            Err((code, text)) => (code, Some(text)),
        };
        results.push(CreatePartitionsTopicResult {
            name: topic.name,
            error_code: code.code(),
            error_message,
        });
    }
    CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() }
}

async fn grow(broker: &Broker, request: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refusal> {
    let image = broker.image();
    let topic = image.topic(&request.name).ok_or_else(|| {
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("Topic '{}' does not exist.", request.name))
    })?;
    let present = topic.partitions.len();
    let wanted = usize::try_from(request.count).unwrap_or(0);
    let refuse = |text: String| Err((ErrorCode::INVALID_PARTITIONS, text));
    if wanted < present {
        return refuse(format!(
            "The topic {} currently has {present} partition(s); {} would not be an increase.",
            request.name, request.count
        ));
    }
    if wanted == present {
        return refuse(format!("Topic already has {present} partition(s)."));
    }
    if request.count > MAX_PARTITIONS {
        return refuse(format!("Number of partitions must not be larger than {MAX_PARTITIONS}."));
    }
    let assignment = assignment(broker, request, wanted - present)?;
    if validate_only {
        return Ok(());
    }
    let change = Change::AddPartitions { id: topic.id, present, assignment };
    match broker.submit(change).await {
        Ok(_) => Ok(()),
        Err(error) => Err((metadata_error_code(&error), error.to_string())),
    }
}

fn assignment(
    broker: &Broker,
    request: &CreatePartitionsTopic,
    more: usize,
) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    let Some(lists) = &request.assignments else {
        return Ok(vec![vec![broker.config().broker_id]; more]);
    };
    let refuse = |text| (ErrorCode::INVALID_REPLICA_ASSIGNMENT, text);
    if lists.len() != more {
        let text = format!(
            "Attempted to add {more} additional partition(s), but only {} assignment(s) were specified.",
            lists.len()
        );
        return Err(refuse(text));
    }
    lists.iter().map(|list| check_replicas(broker, &list.broker_ids).map_err(refuse)).collect()
}
