//! DeleteTopics (20): the end of topics, by name or id.

use super::metadata_error_code;
use crate::{broker::Broker, metadata::Change, server::dispatch::Client, types::TopicId};
use sillon_protocol::{
    ErrorCode,
    messages::{DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse},
};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let by_name = request
        .topic_names
        .into_iter()
        .map(|name| DeleteTopicState { name: Some(name), ..Default::default() });
    let mut responses = Vec::new();
    for topic in request.topics.into_iter().chain(by_name) {
        responses.push(delete(broker, topic).await);
    }
    DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() }
}

async fn delete(broker: &Broker, wanted: DeleteTopicState) -> DeletableTopicResult {
    let image = broker.image();
    let found = match &wanted.name {
        Some(name) => image.topics.get_key_value(name.as_str()),
        None => image.topic_by_id(TopicId(wanted.topic_id)),
    };
    let unknown = if wanted.name.is_some() {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    } else {
        ErrorCode::UNKNOWN_TOPIC_ID
    };
    let name = found.map(|(name, _)| name.to_string()).or(wanted.name);
    let topic_id = found.map_or(wanted.topic_id, |(_, topic)| topic.id.0);
    let (code, error_message) = match found {
        None => (unknown, None),
        Some(_) if !broker.config().delete_topics => (
            ErrorCode::TOPIC_DELETION_DISABLED,
            Some("delete.topic.enable is false on this broker.".to_owned()),
        ),
        Some((_, topic)) => match broker.submit(Change::DeleteTopic { id: topic.id }).await {
            Ok(_) => (ErrorCode::NONE, None),
            Err(error) => (metadata_error_code(&error), Some(error.to_string())),
        },
    };
    DeletableTopicResult { name, topic_id, error_code: code.code(), error_message }
}
