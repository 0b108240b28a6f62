//! The broker's configuration: Kafka's `server.properties` and topic configuration, with Kafka's key names.
//!
//! Owns the table of keys (`keys`), the file format (`properties`), listeners (`listener`), and how a value is found:
//! the topic's own, else the broker's dynamic one, else the file's, else the default. Never reads a file: the caller
//! hands in the text.

pub mod cluster;
pub mod group;
pub mod keys;
pub mod listener;
pub mod properties;
pub mod topic;

use crate::types::BrokerId;
use cluster::{ClusterConfig, ReplicationConfig};
use group::GroupConfig;
use keys::Key;
use listener::Listener;
use properties::{Place, Property};
use std::{collections::BTreeMap, path::PathBuf};

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: invalid value \"{value}\" for {key}: {expected}")]
pub struct ConfigError {
    /// Where it stands.
    pub place: Place,
    /// The key.
    pub key: String,
    /// The value given.
    pub value: String,
    /// What is allowed.
    pub expected: String,
}

/// Something that a person should know, but that does not stop the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands.
    pub place: Place,
    /// What it is about.
    pub text: String,
}

/// A broker's configuration, checked.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// `broker.id`.
    pub broker_id: BrokerId,
    /// `listeners`.
    pub listeners: Vec<Listener>,
    /// `advertised.listeners`, one for each listener; empty hosts are filled in by the server.
    pub advertised_listeners: Vec<Listener>,
    /// `log.dirs`.
    pub log_dirs: Vec<PathBuf>,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// `num.partitions`.
    pub default_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `socket.request.max.bytes`.
    pub request_max_bytes: usize,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: usize,
    /// `connections.max.idle.ms`.
    pub connections_max_idle_ms: u64,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_session_slots: usize,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub recovery_point_checkpoint_interval_ms: u64,
    /// `log.flush.scheduler.interval.ms`.
    pub flush_check_interval_ms: u64,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: u64,
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub high_watermark_checkpoint_interval_ms: u64,
    /// `log.cleaner.enable`.
    pub cleaner_enable: bool,
    /// `log.cleaner.threads`.
    pub cleaner_threads: usize,
    /// How the broker is part of its cluster.
    pub cluster: ClusterConfig,
    /// How replicas follow their leaders.
    pub replication: ReplicationConfig,
    /// How groups are coordinated and offsets kept.
    pub groups: GroupConfig,
    /// Every key that was set, with its value, under the name in the table of keys.
    set: BTreeMap<&'static str, String>,
}

/// Names that Kafka has for another key, with the factor to milliseconds where the unit differs.
const SYNONYMS: &[(&str, &str, i64)] = &[
    ("node.id", "broker.id", 1),
    ("log.dir", "log.dirs", 1),
    ("log.retention.hours", "log.retention.ms", 3_600_000),
    ("log.retention.minutes", "log.retention.ms", 60_000),
    ("log.roll.hours", "log.roll.ms", 3_600_000),
];

impl Default for BrokerConfig {
    fn default() -> BrokerConfig {
        BrokerConfig::from_properties("", "defaults").expect("the defaults are legal").0
    }
}

impl BrokerConfig {
    /// Reads the text of a `server.properties`. `source` names it in messages.
    ///
    /// # Errors
    /// The first bad value, with its place. A key that is not supported is a warning.
    pub fn from_properties(text: &str, source: &str) -> Result<(BrokerConfig, Vec<Warning>), ConfigError> {
        BrokerConfig::from_list(properties::parse(text, source))
    }

    /// Reads a list of properties; a later one overrides an earlier one of the same key.
    ///
    /// # Errors
    /// As [`BrokerConfig::from_properties`].
    pub fn from_list(list: Vec<Property>) -> Result<(BrokerConfig, Vec<Warning>), ConfigError> {
        let mut warnings = Vec::new();
        let mut set: BTreeMap<&'static str, (Place, String)> = BTreeMap::new();
        // `log.retention.ms` beats `.minutes`, which beats `.hours`: the rank is the factor, smallest first.
        let mut ranks: BTreeMap<&'static str, i64> = BTreeMap::new();
        for property in list {
            let Some((key, value, rank)) = resolve(&property)? else {
                let text = format!("{} is not supported and is ignored", property.key);
                warnings.push(Warning { place: property.place, text });
                continue;
            };
            if ranks.get(key.name).is_some_and(|earlier| *earlier < rank) {
                continue;
            }
            let name = key.name_on_broker();
            key.check(&value).map_err(|expected| error(&property, expected))?;
            ranks.insert(key.name, rank);
            set.insert(name, (property.place, value));
        }
        let config = BrokerConfig::build(&set)?;
        Ok((config, warnings))
    }

    fn build(set: &BTreeMap<&'static str, (Place, String)>) -> Result<BrokerConfig, ConfigError> {
        let values = Values(set);
        let listeners = values.listeners("listeners")?;
        let mut advertised_listeners = values.listeners("advertised.listeners")?;
        if advertised_listeners.is_empty() {
            advertised_listeners.clone_from(&listeners);
        }
        if listeners.is_empty() {
            return Err(values.error("listeners", "at least one PLAINTEXT://host:port is expected"));
        }
        let log_dirs: Vec<PathBuf> = values
            .text("log.dirs")
            .split(',')
            .map(str::trim)
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
            .collect();
        if log_dirs.is_empty() {
            return Err(values.error("log.dirs", "at least one directory is expected"));
        }
        let inter_broker = values.text("inter.broker.listener.name");
        if !inter_broker.is_empty() && !listeners.iter().any(|listener| listener.name == inter_broker) {
            return Err(
                values.error("inter.broker.listener.name", "the name of one of the listeners is expected")
            );
        }
        Ok(BrokerConfig {
            broker_id: BrokerId(values.number("broker.id")),
            listeners,
            advertised_listeners,
            log_dirs,
            auto_create_topics: values.boolean("auto.create.topics.enable"),
            delete_topics: values.boolean("delete.topic.enable"),
            default_partitions: values.number("num.partitions"),
            default_replication_factor: values.number("default.replication.factor"),
            request_max_bytes: values.number("socket.request.max.bytes"),
            fetch_max_bytes: values.number("fetch.max.bytes"),
            connections_max_idle_ms: values.number("connections.max.idle.ms"),
            fetch_session_slots: values.number("max.incremental.fetch.session.cache.slots"),
            recovery_point_checkpoint_interval_ms: values.number("log.flush.offset.checkpoint.interval.ms"),
            flush_check_interval_ms: values.number("log.flush.scheduler.interval.ms"),
            retention_check_interval_ms: values.number("log.retention.check.interval.ms"),
            high_watermark_checkpoint_interval_ms: values
                .number("replica.high.watermark.checkpoint.interval.ms"),
            cleaner_enable: values.boolean("log.cleaner.enable"),
            cleaner_threads: values.number("log.cleaner.threads"),
            cluster: ClusterConfig::read(&values),
            replication: ReplicationConfig::read(&values),
            groups: GroupConfig::read(&values),
            set: set.iter().map(|(name, (_, value))| (*name, value.clone())).collect(),
        })
    }

    /// Every key with the value in force at the start, sorted by name.
    pub fn effective(&self) -> BTreeMap<&'static str, &str> {
        keys::broker_keys()
            .map(|key| {
                let name = key.name_on_broker();
                (name, self.set_value(name).unwrap_or(key.default))
            })
            .collect()
    }

    /// The value that the file sets for a key, under the name of the table of keys.
    pub fn set_value(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str)
    }
}

/// The table's key for a property, its value in that key's unit, and its rank among synonyms.
fn resolve(property: &Property) -> Result<Option<(&'static Key, String, i64)>, ConfigError> {
    let Some((_, name, factor)) = SYNONYMS.iter().find(|(synonym, _, _)| *synonym == property.key) else {
        return Ok(keys::broker_key(&property.key).map(|key| (key, property.value.clone(), 0)));
    };
    let key = keys::broker_key(name).expect("a synonym names a key of the table");
    if *factor == 1 {
        return Ok(Some((key, property.value.clone(), 1)));
    }
    let number: i64 =
        property.value.parse().map_err(|_| error(property, "a whole number is expected".to_owned()))?;
    let value = if number < 0 { -1 } else { number.saturating_mul(*factor) };
    Ok(Some((key, value.to_string(), *factor)))
}

fn error(property: &Property, expected: String) -> ConfigError {
    ConfigError {
        place: property.place.clone(),
        key: property.key.clone(),
        value: property.value.clone(),
        expected,
    }
}

/// Reads checked values out of what was set, else the defaults.
struct Values<'a>(&'a BTreeMap<&'static str, (Place, String)>);

impl Values<'_> {
    fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some((_, value)) => value,
            None => keys::broker_key(name).expect("the caller names a key of the table").default,
        }
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> T {
        self.text(name).parse().ok().expect("the table's range fits the field's type")
    }

    fn boolean(&self, name: &str) -> bool {
        self.text(name).eq_ignore_ascii_case("true")
    }

    fn listeners(&self, name: &str) -> Result<Vec<Listener>, ConfigError> {
        let words = self.text(name).split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(|word| word.parse().map_err(|expected| self.error(name, expected))).collect()
    }

    fn error(&self, name: &str, expected: &str) -> ConfigError {
        let (place, value) = match self.0.get(name) {
            Some((place, value)) => (place.clone(), value.clone()),
            None => (Place { source: "defaults".to_owned(), line: 0 }, self.text(name).to_owned()),
        };
        ConfigError { place, key: name.to_owned(), value, expected: expected.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_listen_on_loopback() {
        let config = BrokerConfig::default();
        assert_eq!(config.listeners[0].to_string(), "PLAINTEXT://127.0.0.1:9092");
        assert_eq!(config.request_max_bytes, 104_857_600);
        assert!(config.auto_create_topics);
    }

    #[test]
    fn a_bad_value_names_file_line_key_and_what_is_allowed() {
        let error = BrokerConfig::from_properties("broker.id=1\nnum.partitions=none\n", "server.properties")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "server.properties:2: invalid value \"none\" for num.partitions: a whole number is expected"
        );
    }

    #[test]
    fn an_unsupported_key_is_a_warning() {
        let (_, warnings) =
            BrokerConfig::from_properties("zookeeper.set.acl=true", "server.properties").unwrap();
        assert_eq!(warnings[0].text, "zookeeper.set.acl is not supported and is ignored");
        assert_eq!(warnings[0].place.to_string(), "server.properties:1");
    }

    #[test]
    fn milliseconds_beat_minutes_and_hours_whatever_their_order() {
        for text in ["log.retention.ms=5\nlog.retention.hours=1", "log.retention.hours=1\nlog.retention.ms=5"]
        {
            let (config, _) = BrokerConfig::from_properties(text, "x").unwrap();
            assert_eq!(config.set_value("log.retention.ms"), Some("5"));
        }
        let (config, _) = BrokerConfig::from_properties("log.retention.minutes=2", "x").unwrap();
        assert_eq!(config.set_value("log.retention.ms"), Some("120000"));
    }
}
