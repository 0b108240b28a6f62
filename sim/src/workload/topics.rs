//! Makes the topics of a run. Owns the repetition until it is done.

use super::{Shared, TopicPlan, directory::Directory};
use sillon_broker::types::TopicPartition;
use sillon_protocol::{
    ErrorCode,
    messages::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse},
};
use std::time::Duration;

/// A topic's id on the wire.
pub(super) type Id = [u8; 16];

const PAUSE: Duration = Duration::from_millis(200);

/// Asks for the topics until all are there. Ends early, with `false`, when the run does.
pub(super) async fn create(directory: &mut Directory, shared: &Shared) -> bool {
    while !shared.is_stopped() {
        let request = request(&shared.topics, shared);
        match directory.ask_any(&request).await {
            Ok(response) if all_there(shared, &response) => return true,
            Ok(_) => directory.next_bootstrap(),
            Err(_) => {}
        }
        directory.runtime.sleep(PAUSE).await;
    }
    false
}

/// The request to make these topics.
pub(super) fn request(plans: &[TopicPlan], shared: &Shared) -> CreateTopicsRequest {
    let topics = plans.iter().map(|plan| CreatableTopic {
        name: plan.name.clone(),
        num_partitions: plan.partitions,
        replication_factor: plan.replication_factor,
        configs: plan
            .properties
            .iter()
            .map(|(name, value)| CreatableTopicConfig { name: name.clone(), value: Some(value.clone()) })
            .collect(),
        ..CreatableTopic::default()
    });
    let timeout_ms = i32::try_from(shared.request_timeout().as_millis()).unwrap_or(i32::MAX);
    CreateTopicsRequest { topics: topics.collect(), timeout_ms, validate_only: false }
}

fn all_there(shared: &Shared, response: &CreateTopicsResponse) -> bool {
    let is_there = |name: &str| {
        response.topics.iter().any(|topic| {
            let code = ErrorCode::from(topic.error_code);
            topic.name == name && (code == ErrorCode::NONE || code == ErrorCode::TOPIC_ALREADY_EXISTS)
        })
    };
    shared.topics.iter().all(|plan| is_there(&plan.name))
}

/// All partitions of all topics, in order.
pub(super) fn partitions(shared: &Shared) -> Vec<TopicPartition> {
    let of = |plan: &super::TopicPlan| {
        let name = plan.name.clone();
        (0..plan.partitions).map(move |number| TopicPartition::new(&name, number)).collect::<Vec<_>>()
    };
    shared.topics.iter().flat_map(of).collect()
}
