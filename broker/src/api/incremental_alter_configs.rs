//! IncrementalAlterConfigs (44): sets, deletes, appends to and subtracts from single values (KIP-339).

use super::{
    admin::{Admin, Refusal},
    alter_configs::{Duplicates, Target, response},
};
use crate::{
    broker::Broker,
    controller::{ConfigEdit, ConfigOperation},
    server::dispatch::Client,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResource, IncrementalAlterConfigsResponse,
        IncrementalAlterableConfig,
    },
};
use std::collections::BTreeSet;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    alter(&mut Admin::of(broker), request).await
}

/// The answer where the controller could not be asked.
pub(crate) fn refused(
    _: i16,
    request: IncrementalAlterConfigsRequest,
    refusal: (ErrorCode, String),
) -> IncrementalAlterConfigsResponse {
    let refuse = |resource: IncrementalAlterConfigsResource| {
        response(resource.resource_type, resource.resource_name, Err(refusal.clone()))
    };
    let responses = request.resources.into_iter().map(refuse).collect();
    IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() }
}

pub(super) async fn alter(
    admin: &mut Admin<'_>,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let named =
        |resource: &IncrementalAlterConfigsResource| (resource.resource_type, resource.resource_name.clone());
    let mut twice = Duplicates::among(request.resources.iter().map(named));
    let mut responses = Vec::with_capacity(request.resources.len());
    for resource in request.resources {
        let result = match twice.take(&named(&resource)) {
            Some(true) => Err(Duplicates::refusal()),
            Some(false) => continue,
            None => edit(admin, &resource, request.validate_only).await,
        };
        responses.push(response(resource.resource_type, resource.resource_name, result));
    }
    admin.settle().await;
    IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() }
}

async fn edit(
    admin: &mut Admin<'_>,
    resource: &IncrementalAlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    let target = Target::find(resource.resource_type, &resource.resource_name)?;
    let mut seen = BTreeSet::new();
    let mut edits = Vec::with_capacity(resource.configs.len());
    for config in &resource.configs {
        if !seen.insert(config.name.as_str()) {
            let text = format!("Error due to duplicate config keys: {}", config.name);
            return Err((ErrorCode::INVALID_REQUEST, text));
        }
        edits.push(ConfigEdit { key: config.name.clone(), operation: operation(config)? });
    }
    admin.submit(target.command(edits, false, validate_only)).await.map(|_| ())
}

fn operation(config: &IncrementalAlterableConfig) -> Result<ConfigOperation, Refusal> {
    let name = &config.name;
    let value = || {
        let text = || (ErrorCode::INVALID_REQUEST, format!("Null value not supported for: {name}"));
        config.value.clone().ok_or_else(text)
    };
    match config.config_operation {
        0 => Ok(ConfigOperation::Set(value()?)),
        1 => Ok(ConfigOperation::Delete),
        2 => Ok(ConfigOperation::Append(value()?)),
        3 => Ok(ConfigOperation::Subtract(value()?)),
        other => Err((ErrorCode::INVALID_REQUEST, format!("Unknown operation {other} for: {name}"))),
    }
}
