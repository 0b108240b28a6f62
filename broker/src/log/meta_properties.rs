//! `meta.properties`: which broker of which cluster a log directory belongs to. Pure: owns the format (versions 0
//! and 1); never compares two directories.

use crate::types::BrokerId;
use std::collections::BTreeMap;

/// The file's name.
pub(super) const META_PROPERTIES: &str = "meta.properties";

/// Who uses a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// The broker; none where the file does not say.
    pub broker_id: Option<BrokerId>,
    /// The cluster; none where the file does not say.
    pub cluster_id: Option<String>,
}

/// The bytes are not a `meta.properties`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MetaPropertiesError {
    /// Not text.
    #[error("not text")]
    NotText,
    /// Another format.
    #[error("version {0:?} is not supported, 0 and 1 are")]
    Version(String),
    /// Not a number.
    #[error("{key}={value} is not a broker's number")]
    BrokerId {
        /// `broker.id` or `node.id`.
        key: &'static str,
        /// What it says.
        value: String,
    },
}

/// As stored, in version 0.
pub(super) fn encode(broker_id: BrokerId, cluster_id: &str) -> Vec<u8> {
    format!("#\nbroker.id={broker_id}\ncluster.id={cluster_id}\nversion=0\n").into_bytes()
}

/// What `bytes` say.
pub(super) fn decode(bytes: &[u8]) -> Result<MetaProperties, MetaPropertiesError> {
    let text = str::from_utf8(bytes).map_err(|_| MetaPropertiesError::NotText)?;
    let mut properties: BTreeMap<&str, &str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .map(|line| line.split_once(['=', ':']).unwrap_or((line, "")))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let key = match properties.remove("version") {
        Some("0") => "broker.id",
        Some("1") => "node.id",
        version => return Err(MetaPropertiesError::Version(version.unwrap_or_default().to_owned())),
    };
    let broker_id = match properties.remove(key) {
        None => None,
        Some(value) => match value.parse() {
            Ok(number @ 0..) => Some(BrokerId(number)),
            _ => return Err(MetaPropertiesError::BrokerId { key, value: value.to_owned() }),
        },
    };
    let cluster_id = properties.remove("cluster.id").filter(|id| !id.is_empty()).map(str::to_owned);
    Ok(MetaProperties { broker_id, cluster_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_it_writes_and_what_kafka_writes() {
        let expected =
            MetaProperties { broker_id: Some(BrokerId(3)), cluster_id: Some("Oi-4x_tUT4yRyo".into()) };
        assert_eq!(decode(&encode(BrokerId(3), "Oi-4x_tUT4yRyo")), Ok(expected.clone()));
        let kafka = "#\n#Tue Jul 01 12:00:00 UTC 2025\ncluster.id=Oi-4x_tUT4yRyo\nversion=0\nbroker.id=3\n";
        assert_eq!(decode(kafka.as_bytes()), Ok(expected.clone()));
        let raft = "! KRaft\ndirectory.id=abc\nversion = 1\nnode.id = 3\ncluster.id : Oi-4x_tUT4yRyo\r\n";
        assert_eq!(decode(raft.as_bytes()), Ok(expected));
        assert_eq!(decode(b"version=0\n"), Ok(MetaProperties { broker_id: None, cluster_id: None }));
    }

    #[test]
    fn what_it_cannot_know_is_refused() {
        assert_eq!(decode(b"broker.id=1"), Err(MetaPropertiesError::Version(String::new())));
        assert_eq!(decode(b"version=2"), Err(MetaPropertiesError::Version("2".into())));
        for value in ["-1", "x", "", "99999999999"] {
            let text = format!("version=0\nbroker.id={value}");
            assert!(matches!(decode(text.as_bytes()), Err(MetaPropertiesError::BrokerId { .. })), "{value}");
        }
        assert_eq!(decode(&[0xff]), Err(MetaPropertiesError::NotText));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "(version=[01]\n)?[#!=: a-z.0-9\n]{0,80}") {
            let _ = decode(text.as_bytes());
        }
    }
}
