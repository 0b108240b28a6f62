//! DeleteTopics (20): the end of topics, by name or id.

use super::admin::{Admin, Refusal, of_code, on_the_wire};
use crate::{broker::Broker, controller::Command, server::dispatch::Client, types::TopicId};
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
    delete(&mut Admin::of(broker), request).await
}

/// The answer where the controller could not be asked.
pub(crate) fn refused(
    _: i16,
    request: DeleteTopicsRequest,
    refusal: (ErrorCode, String),
) -> DeleteTopicsResponse {
    let refuse = |topic: DeleteTopicState| DeletableTopicResult {
        // Only version 6 has null, and only there a topic can be named by its id.
        name: topic.name,
        topic_id: topic.topic_id,
        error_code: refusal.0.code(),
        error_message: Some(refusal.1.clone()),
    };
    let responses = states(request).map(refuse).collect();
    DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() }
}

/// The topics, in whichever way the version names them.
fn states(request: DeleteTopicsRequest) -> impl Iterator<Item = DeleteTopicState> {
    let named = |name| DeleteTopicState { name: Some(name), ..DeleteTopicState::default() };
    request.topics.into_iter().chain(request.topic_names.into_iter().map(named))
}

pub(super) async fn delete(admin: &mut Admin<'_>, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let mut responses = Vec::new();
    for topic in states(request) {
        responses.push(delete_one(admin, topic).await);
    }
    admin.settle().await;
    DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() }
}

async fn delete_one(admin: &mut Admin<'_>, wanted: DeleteTopicState) -> DeletableTopicResult {
    let image = admin.image();
    let found = match &wanted.name {
        Some(name) => image.topics.get_key_value(name.as_str()),
        None => image.topic_by_id(TopicId(wanted.topic_id)),
    };
    let unknown = if wanted.name.is_some() {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    } else {
        ErrorCode::UNKNOWN_TOPIC_ID
    };
    let result = match found {
        None => Err(of_code(unknown)),
        Some((_, topic)) => delete_known(admin, topic.id).await,
    };
    let name = found.map(|(name, _)| name.to_string()).or(wanted.name);
    let topic_id = found.map_or(wanted.topic_id, |(_, topic)| topic.id.0);
    let (error_code, error_message) = on_the_wire(result);
    DeletableTopicResult { name, topic_id, error_code, error_message }
}

async fn delete_known(admin: &mut Admin<'_>, id: TopicId) -> Result<(), Refusal> {
    if !admin.config.delete_topics {
        let text = "delete.topic.enable is false on this broker.".to_owned();
        return Err((ErrorCode::TOPIC_DELETION_DISABLED, text));
    }
    admin.submit(Command::DeleteTopic { id }).await.map(|_| ())
}
