//! ListConfigResources (74): what can be configured (KIP-1142).

use super::describe_configs::{BROKER, TOPIC};
use crate::{broker::Broker, metadata::MetadataImage, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{ListConfigResourcesRequest, ListConfigResourcesResponse, ListedConfigResource},
};

/// Kafka's further types. There are none of them here: levels of logging, subscriptions to clients' metrics, groups.
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    version: i16,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    list(&broker.cluster().image(), version, &request.resource_types)
}

pub(super) fn list(image: &MetadataImage, version: i16, types: &[i8]) -> ListConfigResourcesResponse {
    // Version 0 is of the time when it could only ask for subscriptions to metrics.
    let known: &[i8] = match version {
        0 => &[CLIENT_METRICS],
        _ => &[TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP],
    };
    if types.iter().any(|wanted| !known.contains(wanted)) {
        let error_code = ErrorCode::UNSUPPORTED_VERSION.code();
        return ListConfigResourcesResponse { error_code, ..ListConfigResourcesResponse::default() };
    }
    let is_wanted = |of: i8| known.contains(&of) && (types.is_empty() || types.contains(&of));
    let resource = |resource_name, resource_type| ListedConfigResource { resource_name, resource_type };
    let mut config_resources = Vec::new();
    if is_wanted(TOPIC) {
        config_resources.extend(image.topics.keys().map(|name| resource(name.to_string(), TOPIC)));
    }
    if is_wanted(BROKER) {
        config_resources.extend(image.brokers.keys().map(|id| resource(id.to_string(), BROKER)));
    }
    ListConfigResourcesResponse { config_resources, ..ListConfigResourcesResponse::default() }
}
