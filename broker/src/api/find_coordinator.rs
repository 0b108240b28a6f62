//! FindCoordinator (10): who coordinates a group: the leader of its partition of the offsets topic, which is created when
//! somebody asks for the first time.
//!
//! Nobody coordinates transactions yet, and the answer says so.

use super::{admin::Admin, create_topics, view::View};
use crate::{
    broker::Broker,
    group::{creation_of_offsets_topic, partition_of},
    metadata::names::OFFSETS_TOPIC,
    server::dispatch::Client,
};
use sillon_protocol::{
    ErrorCode,
    messages::{Coordinator, CreateTopicsRequest, FindCoordinatorRequest, FindCoordinatorResponse},
};

/// Version from which several keys are asked for at once.
const FIRST_VERSION_WITH_BATCHES: i16 = 4;
/// What kind of key it is.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const NO_TRANSACTIONS: &str = "Transactions are not available in this version.";

pub(crate) async fn handle(
    broker: &Broker,
    client: &Client,
    version: i16,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    // Before the first metadata nobody knows whether the topic is there, or how many brokers could hold it.
    let image = broker.image();
    let is_missing = image.topic(OFFSETS_TOPIC).is_none() && !image.brokers.is_empty();
    if request.key_type == GROUP && is_missing {
        create_offsets_topic(broker).await;
    }
    let view = View::of(broker, client);
    if version < FIRST_VERSION_WITH_BATCHES {
        let found = find(&view, request.key_type, request.key);
        return FindCoordinatorResponse {
            error_code: found.error_code,
            error_message: found.error_message,
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            ..FindCoordinatorResponse::default()
        };
    }
    let keys = request.coordinator_keys.into_iter();
    let coordinators = keys.map(|key| find(&view, request.key_type, key)).collect();
    FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() }
}

/// Creates the topic in which groups live. Where that fails, whoever asked asks again.
async fn create_offsets_topic(broker: &Broker) {
    let mut admin = Admin::of(broker);
    let topic = creation_of_offsets_topic(&admin.config.groups, admin.image().brokers.len());
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    match create_topics::create_anywhere(&mut admin, request).await {
        Ok(response) => {
            for topic in response.topics.iter().filter(|topic| topic.error_code != 0) {
                let code = ErrorCode::from(topic.error_code);
                if code != ErrorCode::TOPIC_ALREADY_EXISTS {
                    tracing::warn!(%code, message = topic.error_message, "{OFFSETS_TOPIC} cannot be created");
                }
            }
        }
        Err(error) => tracing::warn!(%error, "{OFFSETS_TOPIC} cannot be created at present"),
    }
}

fn find(view: &View, key_type: i8, key: String) -> Coordinator {
    let refuse = |code: ErrorCode, message: &str| Coordinator {
        key: key.clone(),
        node_id: -1,
        host: String::new(),
        port: -1,
        error_code: code.code(),
        error_message: Some(message.to_owned()),
    };
    match key_type {
        GROUP if key.is_empty() => {
            let code = ErrorCode::INVALID_GROUP_ID;
            return refuse(code, code.message());
        }
        GROUP => {}
        TRANSACTION => return refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE, NO_TRANSACTIONS),
        _ => return refuse(ErrorCode::INVALID_REQUEST, "Unknown type of coordinator."),
    }
    let unavailable = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    let Some(topic) = view.image.topic(OFFSETS_TOPIC) else {
        return refuse(unavailable, unavailable.message());
    };
    let count = i32::try_from(topic.partitions.len()).expect("partitions are numbered by i32");
    let index = usize::try_from(partition_of(&key, count)).expect("a partition's number");
    let leader = view.partitions(topic, index, 1).first().map(|partition| partition.leader);
    match view.brokers().into_iter().find(|broker| Some(broker.id) == leader) {
        Some(broker) => Coordinator {
            key,
            node_id: broker.id,
            host: broker.host,
            port: broker.port,
            error_code: ErrorCode::NONE.code(),
            error_message: None,
        },
        None => refuse(unavailable, unavailable.message()),
    }
}
