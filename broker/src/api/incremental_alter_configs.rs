//! IncrementalAlterConfigs (44): sets, deletes, appends to and subtracts from single values (KIP-339).

use super::alter_configs::{Refusal, Target, response};
use crate::{
    broker::Broker,
    config::keys::{self, Key},
    server::dispatch::Client,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResource, IncrementalAlterConfigsResponse,
        IncrementalAlterableConfig,
    },
};
use std::collections::{BTreeMap, BTreeSet};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let mut responses = Vec::with_capacity(request.resources.len());
    for resource in request.resources {
        let result = alter(broker, &resource, request.validate_only).await;
        responses.push(response(resource.resource_type, resource.resource_name, result));
    }
    IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() }
}

async fn alter(
    broker: &Broker,
    resource: &IncrementalAlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    let target = Target::find(broker, resource.resource_type, &resource.resource_name)?;
    let mut configs = target.current().clone();
    let mut seen = BTreeSet::new();
    for config in &resource.configs {
        if !seen.insert(config.name.as_str()) {
            let text = format!("Error due to duplicate config keys: {}", config.name);
            return Err((ErrorCode::INVALID_REQUEST, text));
        }
        apply(&target, &mut configs, config)?;
    }
    target.store(broker, configs, validate_only).await
}

fn apply(
    target: &Target,
    configs: &mut BTreeMap<String, String>,
    config: &IncrementalAlterableConfig,
) -> Result<(), Refusal> {
    let name = &config.name;
    let value = || {
        config
            .value
            .as_deref()
            .ok_or_else(|| (ErrorCode::INVALID_REQUEST, format!("Null value not supported for: {name}")))
    };
    let next = match config.config_operation {
        SET => value()?.to_owned(),
        DELETE => {
            let known = match target {
                Target::Topic(..) => keys::topic_key(name),
                Target::Broker(..) => keys::broker_key(name),
            };
            if known.is_none() {
                return Err((ErrorCode::INVALID_CONFIG, format!("Unknown config name: {name}")));
            }
            configs.remove(name);
            return Ok(());
        }
        operation @ (APPEND | SUBTRACT) => {
            let key = list_key(target, name)?;
            let present = configs.get(name).map_or(key.default, String::as_str);
            edit_list(present, value()?, operation)
        }
        other => return Err((ErrorCode::INVALID_REQUEST, format!("Unknown operation {other} for: {name}"))),
    };
    target.check(name, &next)?;
    configs.insert(name.clone(), next);
    Ok(())
}

/// The key, if its values are lists.
fn list_key(target: &Target, name: &str) -> Result<&'static Key, Refusal> {
    let key = match target {
        Target::Topic(..) => keys::topic_key(name),
        Target::Broker(..) => keys::broker_key(name),
    };
    match key {
        Some(key) if key.is_list() => Ok(key),
        Some(_) => Err((
            ErrorCode::INVALID_CONFIG,
            format!("Config value append is not allowed for config key: {name}"),
        )),
        None => Err((ErrorCode::INVALID_CONFIG, format!("Unknown config name: {name}"))),
    }
}

fn edit_list(present: &str, change: &str, operation: i8) -> String {
    let words = |text: &str| -> Vec<String> {
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (mut list, change) = (words(present), words(change));
    if operation == APPEND {
        list.extend(change.into_iter().filter(|word| !present.split(',').any(|have| have.trim() == word)));
    } else {
        list.retain(|word| !change.contains(word));
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_appended_to_and_subtracted_from() {
        assert_eq!(edit_list("delete", "compact", APPEND), "delete,compact");
        assert_eq!(edit_list("delete", "delete", APPEND), "delete");
        assert_eq!(edit_list("delete,compact", "delete", SUBTRACT), "compact");
    }
}
