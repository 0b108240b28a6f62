//! ApiVersions (18): which requests this broker answers, and in which versions.

use super::OFFERED;
use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ApiKey, ErrorCode,
    messages::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse, supported_versions},
};

/// Longest name or version of a client library that is accepted (KIP-511 wants a pattern; Kafka answers INVALID_REQUEST).
const MAX_SOFTWARE_NAME_LENGTH: usize = 256;

pub(crate) async fn handle(
    _: &Broker,
    _: &Client,
    version: i16,
    request: ApiVersionsRequest,
) -> ApiVersionsResponse {
    let is_legal = |text: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let bytes = text.as_bytes();
        !bytes.is_empty()
            && bytes.len() <= MAX_SOFTWARE_NAME_LENGTH
            && bytes.iter().all(|byte| legal(*byte))
            && bytes[0].is_ascii_alphanumeric()
            && bytes[bytes.len() - 1].is_ascii_alphanumeric()
    };
    if version >= 3
        && !(is_legal(&request.client_software_name) && is_legal(&request.client_software_version))
    {
        return ApiVersionsResponse {
            error_code: ErrorCode::INVALID_REQUEST.code(),
            ..ApiVersionsResponse::default()
        };
    }
    ApiVersionsResponse { api_keys: offered(), ..ApiVersionsResponse::default() }
}

/// The answer to a version of ApiVersions that is not known: in version 0, with the versions that are (KIP-511).
pub(crate) fn unsupported() -> ApiVersionsResponse {
    let api_keys = offered().into_iter().filter(|api| api.api_key == ApiKey::ApiVersions.code()).collect();
    ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.code(),
        api_keys,
        ..ApiVersionsResponse::default()
    }
}

fn offered() -> Vec<ApiVersion> {
    let range = |api_key: &ApiKey| {
        let versions = supported_versions(*api_key).expect("every offered API has messages");
        // Produce is offered from 0 on although 3 is the least that is served, as Kafka 4 does: librdkafka up to 2.11
        // otherwise takes the broker for one that knows no compression.
        let min_version = if *api_key == ApiKey::Produce { 0 } else { *versions.start() };
        ApiVersion { api_key: api_key.code(), min_version, max_version: *versions.end() }
    };
    OFFERED.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offered_api_has_messages() {
        assert_eq!(offered().len(), OFFERED.len());
        assert_eq!(unsupported().api_keys.len(), 1);
    }
}
