//! CreatePartitions (37): more partitions for topics.

use super::admin::{Admin, Refusal, brokers, on_the_wire};
use crate::{broker::Broker, controller::Command, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
    },
};
use std::collections::BTreeSet;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    create(&mut Admin::of(broker), request).await
}

/// The answer where the controller could not be asked.
pub(crate) fn refused(
    _: i16,
    request: CreatePartitionsRequest,
    refusal: (ErrorCode, String),
) -> CreatePartitionsResponse {
    let results = request.topics.into_iter().map(|topic| result(topic.name, Err(refusal.clone())));
    CreatePartitionsResponse { results: results.collect(), ..CreatePartitionsResponse::default() }
}

pub(super) async fn create(
    admin: &mut Admin<'_>,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<String> = {
        let names = request.topics.iter().map(|topic| &topic.name);
        names.filter(|name| !seen.insert((*name).clone())).cloned().collect()
    };
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        if !twice.contains(&topic.name) {
            let grown = grow(admin, &topic, request.validate_only).await;
            results.push(result(topic.name, grown));
        } else if seen.remove(&topic.name) {
            let refusal = (ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_owned());
            results.push(result(topic.name, Err(refusal)));
        }
    }
    admin.settle().await;
    CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() }
}

fn result(name: String, result: Result<(), Refusal>) -> CreatePartitionsTopicResult {
    let (error_code, error_message) = on_the_wire(result);
    CreatePartitionsTopicResult { name, error_code, error_message }
}

async fn grow(
    admin: &mut Admin<'_>,
    topic: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), Refusal> {
    let lists = topic.assignments.as_ref();
    let command = Command::CreatePartitions {
        name: topic.name.as_str().into(),
        total: topic.count,
        assignment: lists.map(|lists| lists.iter().map(|list| brokers(&list.broker_ids)).collect()),
        validate_only,
        placement_seed: admin.placement_seed(),
    };
    admin.submit(command).await.map(|_| ())
}
