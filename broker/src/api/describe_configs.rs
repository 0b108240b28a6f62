//! DescribeConfigs (32): configuration of topics and brokers, with where each value comes from (KIP-226).

use super::admin::Admin;
use crate::{
    broker::Broker,
    config::{
        keys::{Key, Kind, TOPIC_KEYS, broker_keys},
        topic::{Layer, Layers, Source},
    },
    metadata::names,
    server::dispatch::Client,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
        DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
    },
};
use std::collections::BTreeMap;

/// The number of topics among the kinds of configured things.
pub(super) const TOPIC: i8 = 2;
/// The number of brokers.
pub(super) const BROKER: i8 = 4;

/// A key with its value in every layer, the one in force first.
pub(super) struct Entry {
    pub(super) key: &'static Key,
    /// Never empty: the default is the last.
    pub(super) layers: Vec<Layer>,
    is_broker_resource: bool,
}

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let results = request.resources.into_iter().map(|resource| {
        let (code, error_message, configs) = match entries(broker, &resource) {
            Ok(entries) => {
                let wanted = |name: &str| match &resource.configuration_keys {
                    None => true,
                    Some(keys) if keys.is_empty() => true,
                    Some(keys) => keys.iter().any(|key| key == name),
                };
                let present = |entry| present(entry, request.include_synonyms, request.include_documentation);
                let entries = entries.into_iter().filter(|entry| wanted(entry.name()));
                (ErrorCode::NONE, None, entries.map(present).collect())
            }
            Err((code, text)) => (code, Some(text), Vec::new()),
        };
        DescribeConfigsResult {
            error_code: code.code(),
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs,
        }
    });
    DescribeConfigsResponse { results: results.collect(), ..DescribeConfigsResponse::default() }
}

fn entries(broker: &Broker, resource: &DescribeConfigsResource) -> Result<Vec<Entry>, (ErrorCode, String)> {
    let image = broker.cluster().image();
    let admin = Admin::of(broker);
    let layers = admin.layers(&image);
    match resource.resource_type {
        TOPIC => {
            let name = &resource.resource_name;
            names::check_topic_name(name).map_err(|text| (ErrorCode::INVALID_TOPIC_EXCEPTION, text))?;
            let topic = image.topic(name).ok_or_else(|| {
                (
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.message().to_owned(),
                )
            })?;
            Ok(topic_entries(&layers, &topic.configs))
        }
        BROKER => broker_entries(broker, &layers, &resource.resource_name),
        other => Err((
            ErrorCode::INVALID_REQUEST,
            format!("Configuration resources of type {other} are not supported."),
        )),
    }
}

/// All keys of a topic with this configuration of its own.
pub(super) fn topic_entries(layers: &Layers<'_>, topic: &BTreeMap<String, String>) -> Vec<Entry> {
    let entry = |key| Entry { key, layers: layers.of_topic_key(key, topic), is_broker_resource: false };
    TOPIC_KEYS.iter().map(entry).collect()
}

fn broker_entries(
    broker: &Broker,
    layers: &Layers<'_>,
    name: &str,
) -> Result<Vec<Entry>, (ErrorCode, String)> {
    let keys = broker_keys();
    let entry = |key| Entry { key, layers: layers.of_broker_key(key), is_broker_resource: true };
    if name.is_empty() {
        // All brokers together: only what was set for all of them while they ran.
        let mut entries: Vec<Entry> = keys.map(entry).collect();
        for entry in &mut entries {
            entry.layers.retain(|layer| layer.source == Source::DynamicDefaultBroker);
        }
        entries.retain(|entry| !entry.layers.is_empty());
        return Ok(entries);
    }
    check_broker_name(broker, name)?;
    Ok(keys.map(entry).collect())
}

/// A broker answers for itself only.
///
/// # Errors
/// The code and text for the resource.
fn check_broker_name(broker: &Broker, name: &str) -> Result<(), (ErrorCode, String)> {
    let own = broker.config().broker_id;
    match name.parse::<i32>() {
        Ok(id) if id == own.0 => Ok(()),
        Ok(_) => Err((
            ErrorCode::INVALID_REQUEST,
            format!("Unexpected broker id, expected {own} but received {name}"),
        )),
        Err(_) => {
            Err((ErrorCode::INVALID_REQUEST, format!("Broker id must be an integer, but it is: {name}")))
        }
    }
}

impl Entry {
    /// The key's name as the resource knows it: a topic's own, or a broker's.
    fn name(&self) -> &'static str {
        if self.is_broker_resource { self.key.name_on_broker() } else { self.key.name }
    }
}

fn present(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult {
    let in_force = entry.layers[0].clone();
    let synonym = |layer: &Layer| DescribeConfigsSynonym {
        name: layer.name.to_owned(),
        value: Some(layer.value.clone()),
        source: layer.source as i8,
    };
    DescribeConfigsResourceResult {
        name: entry.name().to_owned(),
        value: Some(in_force.value),
        read_only: !entry.key.dynamic,
        config_source: in_force.source as i8,
        is_sensitive: false,
        synonyms: if synonyms { entry.layers.iter().map(synonym).collect() } else { Vec::new() },
        config_type: type_number(entry.key.kind),
        documentation: documentation.then(|| entry.key.documentation.to_owned()),
    }
}

/// Kafka's number for a type of value.
fn type_number(kind: Kind) -> i8 {
    match kind {
        Kind::Boolean => 1,
        Kind::Text | Kind::Enum(_) => 2,
        Kind::Int(..) => 3,
        Kind::Long(..) => 5,
        Kind::Ratio | Kind::Double => 6,
        Kind::List(_) | Kind::Replicas => 7,
    }
}
