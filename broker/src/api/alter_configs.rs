//! AlterConfigs (33): replaces all that is set on a topic or broker. Also what both ways of changing configuration share.

use super::{
    describe_configs::{BROKER, TOPIC, check_broker_name},
    metadata_error_code,
};
use crate::{
    broker::Broker,
    config::topic,
    metadata::{Change, image::ALL_BROKERS},
    server::dispatch::Client,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
    },
};
use std::collections::BTreeMap;

pub(super) type Refusal = (ErrorCode, String);

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let mut responses = Vec::with_capacity(request.resources.len());
    for resource in request.resources {
        let result = replace(broker, &resource, request.validate_only).await;
        responses.push(response(resource.resource_type, resource.resource_name, result));
    }
    AlterConfigsResponse { responses, ..AlterConfigsResponse::default() }
}

async fn replace(
    broker: &Broker,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    let target = Target::find(broker, resource.resource_type, &resource.resource_name)?;
    let mut configs = BTreeMap::new();
    for config in &resource.configs {
        let value = config.value.clone().ok_or_else(|| {
            (ErrorCode::INVALID_CONFIG, format!("Null value not supported for: {}", config.name))
        })?;
        target.check(&config.name, &value)?;
        configs.insert(config.name.clone(), value);
    }
    target.store(broker, configs, validate_only).await
}

/// What both ways of changing configuration answer.
pub(super) fn response(
    resource_type: i8,
    resource_name: String,
    result: Result<(), Refusal>,
) -> AlterConfigsResourceResponse {
    let (code, error_message) = match result {
        Ok(()) => (ErrorCode::NONE, None),
        Err((code, text)) => (code, Some(text)),
    };
    AlterConfigsResourceResponse { error_code: code.code(), error_message, resource_type, resource_name }
}

/// A topic or broker whose configuration changes.
pub(super) enum Target {
    /// A topic, with what is set on it now.
    Topic(crate::types::TopicId, BTreeMap<String, String>),
    /// A broker or all of them, with what is set now.
    Broker(crate::types::BrokerId, BTreeMap<String, String>),
}

impl Target {
    /// The target of that type and name.
    ///
    /// # Errors
    /// The code and text for the resource: it does not exist, or cannot be configured here.
    pub(super) fn find(broker: &Broker, resource_type: i8, name: &str) -> Result<Target, Refusal> {
        let image = broker.image();
        match resource_type {
            TOPIC => match image.topic(name) {
                Some(topic) => Ok(Target::Topic(topic.id, topic.configs.clone())),
                None => Err((
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    format!("The topic '{name}' does not exist."),
                )),
            },
            BROKER if name.is_empty() => {
                Ok(Target::Broker(ALL_BROKERS, image.broker_config(ALL_BROKERS).clone()))
            }
            BROKER => {
                check_broker_name(broker, name)?;
                let id = broker.config().broker_id;
                Ok(Target::Broker(id, image.broker_config(id).clone()))
            }
            other => Err((
                ErrorCode::INVALID_REQUEST,
                format!("Configuration resources of type {other} are not supported."),
            )),
        }
    }

    /// What is set now.
    pub(super) fn current(&self) -> &BTreeMap<String, String> {
        match self {
            Target::Topic(_, configs) | Target::Broker(_, configs) => configs,
        }
    }

    /// Checks a value.
    ///
    /// # Errors
    /// INVALID_CONFIG with the reason.
    pub(super) fn check(&self, name: &str, value: &str) -> Result<(), Refusal> {
        let checked = match self {
            Target::Topic(..) => topic::check_topic_value(name, value),
            Target::Broker(..) => topic::check_broker_value(name, value),
        };
        checked.map_err(|text| (ErrorCode::INVALID_CONFIG, text))
    }

    /// Stores all that is set from now on.
    ///
    /// # Errors
    /// Why the change was refused.
    pub(super) async fn store(
        &self,
        broker: &Broker,
        configs: BTreeMap<String, String>,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        if validate_only {
            return Ok(());
        }
        let change = match self {
            Target::Topic(id, _) => Change::SetTopicConfigs { id: *id, configs },
            Target::Broker(broker, _) => Change::SetBrokerConfigs { broker: *broker, configs },
        };
        match broker.submit(change).await {
            Ok(_) => Ok(()),
            Err(error) => Err((metadata_error_code(&error), error.to_string())),
        }
    }
}
