//! What both sides of a connection speak: the broker's answer to ApiVersions, cut to what this client knows.

use crate::ConnectionError;
use sillon_protocol::{
    ApiKey,
    messages::ApiVersionsResponse,
    wire::{Message, Request},
};
use std::{collections::BTreeMap, ops::RangeInclusive};

/// The broker's versions of each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<i16, RangeInclusive<i16>>);

impl Versions {
    /// From the broker's answer. A request named twice or with an empty range counts as its last mention says.
    pub fn new(response: &ApiVersionsResponse) -> Versions {
        Versions(
            response.api_keys.iter().map(|api| (api.api_key, api.min_version..=api.max_version)).collect(),
        )
    }

    /// What the broker speaks of a request, `None` where it does not know it.
    pub fn of_broker(&self, api: ApiKey) -> Option<RangeInclusive<i16>> {
        self.0.get(&api.code()).cloned()
    }

    /// The versions of `R` that both sides speak.
    ///
    /// # Errors
    /// [`ConnectionError::NoCommonVersion`].
    pub fn common<R: Request>(&self) -> Result<RangeInclusive<i16>, ConnectionError> {
        let ours = <R as Message>::VERSIONS;
        let theirs = self.of_broker(R::API_KEY);
        let common =
            theirs.as_ref().map(|theirs| *ours.start().max(theirs.start())..=*ours.end().min(theirs.end()));
        match common {
            Some(common) if !common.is_empty() => Ok(common),
            _ => Err(ConnectionError::NoCommonVersion { api: R::API_KEY, ours, theirs }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::messages::{ApiVersion, FetchRequest, MetadataRequest, ProduceRequest};

    fn versions(ranges: &[(ApiKey, i16, i16)]) -> Versions {
        let api_keys = ranges
            .iter()
            .map(|&(api, min_version, max_version)| ApiVersion {
                api_key: api.code(),
                min_version,
                max_version,
            })
            .collect();
        Versions::new(&ApiVersionsResponse { api_keys, ..Default::default() })
    }

    #[test]
    fn the_common_range_is_the_intersection() {
        let versions =
            versions(&[(ApiKey::Fetch, 0, 11), (ApiKey::Metadata, 12, 99), (ApiKey::Produce, 0, 2)]);
        assert_eq!(versions.common::<FetchRequest>().unwrap(), 4..=11);
        assert_eq!(versions.common::<MetadataRequest>().unwrap(), 12..=13);
        assert!(matches!(
            versions.common::<ProduceRequest>(),
            Err(ConnectionError::NoCommonVersion { api: ApiKey::Produce, theirs: Some(_), .. })
        ));
    }

    #[test]
    fn a_request_unknown_to_the_broker_has_no_common_version() {
        assert!(matches!(
            versions(&[]).common::<FetchRequest>(),
            Err(ConnectionError::NoCommonVersion { theirs: None, .. })
        ));
    }

    #[test]
    fn an_inverted_range_is_empty_and_does_not_panic() {
        assert!(versions(&[(ApiKey::Fetch, 9, 2)]).common::<FetchRequest>().is_err());
    }
}
