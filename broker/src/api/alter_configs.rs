//! AlterConfigs (33): replaces all that is set on a topic or broker. Also what both ways of changing configuration share.

use super::{
    admin::{Admin, Refusal, on_the_wire},
    describe_configs::{BROKER, TOPIC},
};
use crate::{
    broker::Broker,
    controller::{Command, ConfigEdit, ConfigOperation},
    metadata::image::ALL_BROKERS,
    server::dispatch::Client,
    types::BrokerId,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
    },
};
use std::{collections::BTreeSet, sync::Arc};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    alter(&mut Admin::of(broker), request).await
}

/// The answer where the controller could not be asked.
pub(crate) fn refused(
    _: i16,
    request: AlterConfigsRequest,
    refusal: (ErrorCode, String),
) -> AlterConfigsResponse {
    let refuse = |resource: AlterConfigsResource| {
        response(resource.resource_type, resource.resource_name, Err(refusal.clone()))
    };
    let responses = request.resources.into_iter().map(refuse).collect();
    AlterConfigsResponse { responses, ..AlterConfigsResponse::default() }
}

pub(super) async fn alter(admin: &mut Admin<'_>, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let named = |resource: &AlterConfigsResource| (resource.resource_type, resource.resource_name.clone());
    let mut twice = Duplicates::among(request.resources.iter().map(named));
    let mut responses = Vec::with_capacity(request.resources.len());
    for resource in request.resources {
        let result = match twice.take(&named(&resource)) {
            Some(true) => Err(Duplicates::refusal()),
            Some(false) => continue,
            None => replace(admin, &resource, request.validate_only).await,
        };
        responses.push(response(resource.resource_type, resource.resource_name, result));
    }
    admin.settle().await;
    AlterConfigsResponse { responses, ..AlterConfigsResponse::default() }
}

async fn replace(
    admin: &mut Admin<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    let target = Target::find(resource.resource_type, &resource.resource_name)?;
    let mut edits = Vec::with_capacity(resource.configs.len());
    for config in &resource.configs {
        let value = config.value.clone().ok_or_else(|| {
            (ErrorCode::INVALID_CONFIG, format!("Null value not supported for: {}", config.name))
        })?;
        edits.push(ConfigEdit { key: config.name.clone(), operation: ConfigOperation::Set(value) });
    }
    admin.submit(target.command(edits, true, validate_only)).await.map(|_| ())
}

/// What both ways of changing configuration answer.
pub(super) fn response(
    resource_type: i8,
    resource_name: String,
    result: Result<(), Refusal>,
) -> AlterConfigsResourceResponse {
    let (error_code, error_message) = on_the_wire(result);
    AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
}

/// Resources that a request names more than once: none of them is changed, and the answer names each once.
pub(super) struct Duplicates {
    twice: BTreeSet<(i8, String)>,
    told: BTreeSet<(i8, String)>,
}

impl Duplicates {
    pub(super) fn among(resources: impl Iterator<Item = (i8, String)>) -> Duplicates {
        let mut seen = BTreeSet::new();
        let twice = resources.filter(|resource| !seen.insert(resource.clone())).collect();
        Duplicates { twice, told: BTreeSet::new() }
    }

    /// None for a resource that is named once; else whether it is to be told of now.
    pub(super) fn take(&mut self, resource: &(i8, String)) -> Option<bool> {
        self.twice.contains(resource).then(|| self.told.insert(resource.clone()))
    }

    pub(super) fn refusal() -> Refusal {
        (ErrorCode::INVALID_REQUEST, "Each resource must appear at most once.".to_owned())
    }
}

/// A topic or broker whose configuration changes.
pub(super) enum Target {
    Topic(Arc<str>),
    /// A broker or all of them.
    Broker(BrokerId),
}

impl Target {
    /// The target of that type and name.
    ///
    /// # Errors
    /// The code and text for the resource: nothing of that kind can be configured.
    pub(super) fn find(resource_type: i8, name: &str) -> Result<Target, Refusal> {
        match resource_type {
            TOPIC => Ok(Target::Topic(name.into())),
            BROKER if name.is_empty() => Ok(Target::Broker(ALL_BROKERS)),
            BROKER => match name.parse::<i32>() {
                Ok(id) if id >= 0 => Ok(Target::Broker(BrokerId(id))),
                _ => Err((
                    ErrorCode::INVALID_REQUEST,
                    format!("Broker id must be an integer, but it is: {name}"),
                )),
            },
            other => Err((
                ErrorCode::INVALID_REQUEST,
                format!("Configuration resources of type {other} are not supported."),
            )),
        }
    }

    /// The change as a command.
    pub(super) fn command(self, edits: Vec<ConfigEdit>, replace_all: bool, validate_only: bool) -> Command {
        match self {
            Target::Topic(name) => Command::EditTopicConfigs { name, edits, replace_all, validate_only },
            Target::Broker(broker) => {
                Command::EditBrokerConfigs { broker, edits, replace_all, validate_only }
            }
        }
    }
}
