//! What a topic is configured with: its own values over the broker's. Owns the precedence; never stores anything.

use super::{
    BrokerConfig,
    keys::{self, Key},
};
use crate::log::LogConfig;
use sillon_protocol::records::{Compression, TimestampType};
use std::collections::BTreeMap;

/// Where a value comes from, with Kafka's number for it (DescribeConfigs, KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Set on the topic.
    Topic = 1,
    /// Set on this broker while it ran.
    DynamicBroker = 2,
    /// Set for all brokers while they ran.
    DynamicDefaultBroker = 3,
    /// Set in the broker's file.
    StaticBroker = 4,
    /// Nobody set it.
    Default = 5,
}

/// One layer of a key's value: under which name, what, from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The key's name in that layer (a topic's key is named differently on a broker).
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// The layer.
    pub source: Source,
}

/// The values a broker gives to all its topics.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The broker's file.
    pub file: &'a BrokerConfig,
    /// Values set on this broker while it ran.
    pub dynamic_broker: &'a BTreeMap<String, String>,
    /// Values set for all brokers while they ran.
    pub dynamic_default: &'a BTreeMap<String, String>,
}

impl Layers<'_> {
    /// All layers in which a broker's key has a value, strongest first; the default is always the last.
    pub fn of_broker_key(&self, key: &'static Key) -> Vec<Layer> {
        let name = key.name_on_broker();
        let mut layers = Vec::with_capacity(2);
        let mut add = |value: Option<&str>, source| {
            layers.extend(value.map(|value| Layer { name, value: value.to_owned(), source }));
        };
        add(self.dynamic_broker.get(name).map(String::as_str), Source::DynamicBroker);
        add(self.dynamic_default.get(name).map(String::as_str), Source::DynamicDefaultBroker);
        add(self.file.set_value(name), Source::StaticBroker);
        add(Some(key.default), Source::Default);
        layers
    }

    /// All layers in which a topic's key has a value, strongest first.
    pub fn of_topic_key(&self, key: &'static Key, topic: &BTreeMap<String, String>) -> Vec<Layer> {
        let own = topic.get(key.name).map(|value| Layer {
            name: key.name,
            value: value.clone(),
            source: Source::Topic,
        });
        own.into_iter().chain(self.of_broker_key(key)).collect()
    }

    /// The value of a topic's key.
    fn topic_value(&self, name: &str, topic: &BTreeMap<String, String>) -> String {
        let key = keys::topic_key(name).expect("the caller names a key of the table");
        self.of_topic_key(key, topic).swap_remove(0).value
    }

    fn topic_number<T: std::str::FromStr>(&self, name: &str, topic: &BTreeMap<String, String>) -> T {
        self.topic_value(name, topic).parse().ok().expect("values are checked before they are stored")
    }

    /// Whether `cleanup.policy` names a policy.
    fn has_policy(&self, policy: &str, topic: &BTreeMap<String, String>) -> bool {
        self.topic_value("cleanup.policy", topic).split(',').any(|word| word.trim() == policy)
    }

    /// How a topic's logs behave.
    pub fn log_config(&self, topic: &BTreeMap<String, String>) -> LogConfig {
        let producer_id_expiration = keys::broker_key("producer.id.expiration.ms").expect("in the table");
        let expiration = self.of_broker_key(producer_id_expiration).swap_remove(0).value;
        LogConfig {
            segment_bytes: self.topic_number("segment.bytes", topic),
            segment_ms: self.topic_number("segment.ms", topic),
            segment_index_bytes: self.topic_number("segment.index.bytes", topic),
            index_interval_bytes: self.topic_number("index.interval.bytes", topic),
            flush_messages: self.topic_number("flush.messages", topic),
            flush_ms: self.topic_number("flush.ms", topic),
            compact: self.has_policy("compact", topic),
            delete: self.has_policy("delete", topic),
            min_cleanable_dirty_ratio: self.topic_number("min.cleanable.dirty.ratio", topic),
            min_compaction_lag_ms: self.topic_number("min.compaction.lag.ms", topic),
            max_compaction_lag_ms: self.topic_number("max.compaction.lag.ms", topic),
            delete_retention_ms: self.topic_number("delete.retention.ms", topic),
            retention_ms: self.topic_number("retention.ms", topic),
            retention_bytes: self.topic_number("retention.bytes", topic),
            max_message_bytes: self.topic_number("max.message.bytes", topic),
            message_timestamp_type: match self.topic_value("message.timestamp.type", topic).as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            message_timestamp_before_max_ms: self.topic_number("message.timestamp.before.max.ms", topic),
            message_timestamp_after_max_ms: self.topic_number("message.timestamp.after.max.ms", topic),
            file_delete_delay_ms: self.topic_number("file.delete.delay.ms", topic),
            compression: match self.topic_value("compression.type", topic).as_str() {
                "uncompressed" => Some(Compression::None),
                "gzip" => Some(Compression::Gzip),
                "snappy" => Some(Compression::Snappy),
                "lz4" => Some(Compression::Lz4),
                "zstd" => Some(Compression::Zstd),
                _ => None,
            },
            producer_id_expiration_ms: expiration.parse().expect("values are checked before they are stored"),
        }
    }

    /// `min.insync.replicas` of a topic.
    pub fn min_insync_replicas(&self, topic: &BTreeMap<String, String>) -> usize {
        self.topic_number("min.insync.replicas", topic)
    }
}

/// Checks one topic configuration value.
///
/// # Errors
/// What is wrong, in Kafka's words: an unknown key or a bad value.
pub fn check_topic_value(name: &str, value: &str) -> Result<(), String> {
    let key = keys::topic_key(name).ok_or_else(|| format!("Unknown topic config name: {name}"))?;
    key.check(value).map_err(|expected| format!("Invalid value {value} for configuration {name}: {expected}"))
}

/// Checks one dynamic broker configuration value.
///
/// # Errors
/// What is wrong: an unknown key, one that needs a restart, or a bad value.
pub fn check_broker_value(name: &str, value: &str) -> Result<(), String> {
    let key = keys::broker_key(name).ok_or_else(|| format!("Unknown broker config name: {name}"))?;
    if !key.dynamic {
        return Err(format!(
            "Cannot update {name} dynamically: it takes effect at the next start from the file"
        ));
    }
    key.check(value).map_err(|expected| format!("Invalid value {value} for configuration {name}: {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topic_beats_the_broker_beats_the_file_beats_the_default() {
        let (file, _) = BrokerConfig::from_properties("log.retention.ms=1", "x").unwrap();
        let none = BTreeMap::new();
        let set = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let dynamic = set("log.retention.ms", "2");
        let topic = set("retention.ms", "3");
        let key = keys::topic_key("retention.ms").unwrap();
        let layers = Layers { file: &file, dynamic_broker: &dynamic, dynamic_default: &none };
        let found: Vec<_> =
            layers.of_topic_key(key, &topic).into_iter().map(|l| (l.name, l.value, l.source)).collect();
        assert_eq!(
            found,
            [
                ("retention.ms", "3".to_owned(), Source::Topic),
                ("log.retention.ms", "2".to_owned(), Source::DynamicBroker),
                ("log.retention.ms", "1".to_owned(), Source::StaticBroker),
                ("log.retention.ms", "604800000".to_owned(), Source::Default),
            ]
        );
        assert_eq!(layers.log_config(&topic).retention_ms, 3);
        assert_eq!(layers.log_config(&none).retention_ms, 2);
    }

    #[test]
    fn cleanup_policies_are_a_list() {
        let (file, _) = BrokerConfig::from_properties("log.cleaner.delete.retention.ms=5", "x").unwrap();
        let none = BTreeMap::new();
        let layers = Layers { file: &file, dynamic_broker: &none, dynamic_default: &none };
        let policies = |value: &str| {
            let topic = BTreeMap::from([("cleanup.policy".to_owned(), value.to_owned())]);
            assert_eq!(check_topic_value("cleanup.policy", value), Ok(()));
            let config = layers.log_config(&topic);
            (config.compact, config.delete)
        };
        assert_eq!(policies("compact"), (true, false));
        assert_eq!(policies("compact, delete"), (true, true));
        assert_eq!(policies("delete"), (false, true));
        assert!(check_topic_value("cleanup.policy", "compact,keep").is_err());
        let config = layers.log_config(&none);
        assert_eq!((config.compact, config.delete, config.delete_retention_ms), (false, true, 5));
        assert!((config.min_cleanable_dirty_ratio - 0.5).abs() < f64::EPSILON);
    }

    #[test]
    fn bad_values_are_refused_in_kafkas_words() {
        assert_eq!(check_topic_value("nonsense", "1"), Err("Unknown topic config name: nonsense".to_owned()));
        assert!(
            check_topic_value("retention.ms", "x")
                .unwrap_err()
                .starts_with("Invalid value x for configuration")
        );
        assert!(check_broker_value("broker.id", "3").unwrap_err().starts_with("Cannot update broker.id"));
        assert_eq!(check_broker_value("log.retention.ms", "3"), Ok(()));
    }
}
