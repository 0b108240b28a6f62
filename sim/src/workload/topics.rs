//! Makes the topics of a run and learns their ids. Owns the repetition until it is done.

use super::{Shared, link::Link};
use sillon_broker::types::TopicPartition;
use sillon_protocol::{
    ErrorCode,
    messages::{
        CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse, MetadataRequest,
        MetadataRequestTopic, MetadataResponse,
    },
};
use std::{collections::BTreeMap, time::Duration};

/// A topic's id on the wire.
pub(super) type Id = [u8; 16];

const PAUSE: Duration = Duration::from_millis(200);

/// Asks for the topics until all are there. Ends early, with `false`, when the run does.
pub(super) async fn create(link: &mut Link, shared: &Shared) -> bool {
    while !shared.is_stopped() {
        let request = request(shared);
        match link.ask(&request).await {
            Ok(response) if all_there(shared, &response) => return true,
            Ok(_) | Err(_) => link.runtime.sleep(PAUSE).await,
        }
    }
    false
}

fn request(shared: &Shared) -> CreateTopicsRequest {
    let topics = shared.topics.iter().map(|plan| CreatableTopic {
        name: plan.name.clone(),
        num_partitions: plan.partitions,
        replication_factor: 1,
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

/// The ids of the topics, as far as the broker knows them; `None` where it cannot be asked.
pub(super) async fn ids(link: &mut Link, shared: &Shared) -> Option<BTreeMap<String, Id>> {
    let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(shared.topics.iter().map(|plan| named(&plan.name)).collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    link.ask(&request).await.ok().map(|response: MetadataResponse| {
        let known = response.topics.into_iter().filter(|topic| topic.error_code == 0);
        known.filter_map(|topic| topic.name.map(|name| (name, topic.topic_id.into_bytes()))).collect()
    })
}

/// All partitions of all topics, in order.
pub(super) fn partitions(shared: &Shared) -> Vec<TopicPartition> {
    let of = |plan: &super::TopicPlan| {
        let name = plan.name.clone();
        (0..plan.partitions).map(move |number| TopicPartition::new(&name, number)).collect::<Vec<_>>()
    };
    shared.topics.iter().flat_map(of).collect()
}
