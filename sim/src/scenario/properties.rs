//! The rules for Kafka's properties in a scenario: names from the broker's own tables, values as it takes them.
//!
//! Owns which of them the simulator sets itself. Never holds a configuration.

use super::{
    check::{Checked, Checker},
    error::nearest,
    model::{Choices, Properties, PropertyValue},
};
use sillon_broker::config::keys;
use std::{collections::BTreeMap, ops::Range};
use toml::Spanned;

/// Kafka keys that the simulator sets itself, and what to use instead.
const RESERVED: &[(&str, &str)] = &[
    ("broker.id", "it is the node's number"),
    ("node.id", "it is the node's number"),
    ("listeners", "node N listens on nN:9092"),
    ("advertised.listeners", "node N listens on nN:9092"),
    ("log.dirs", "it is /data on the node's simulated disk"),
    ("log.dir", "it is /data on the node's simulated disk"),
    ("broker.rack", "use `racks` in [cluster]"),
    ("zookeeper.connect", "it names the members of [ensemble], where there is one"),
    ("min.insync.replicas", "use `min_insync_replicas` in [topics]"),
];

/// Whose properties they are.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    Broker,
    Topic,
}

impl Keys {
    fn key(self, checker: &Checker<'_>, name: &Spanned<String>) -> Checked<&'static keys::Key> {
        let (broker, topic) = (keys::broker_key(name.get_ref()), keys::topic_key(name.get_ref()));
        let (known, other) = match self {
            Keys::Broker => (broker, topic),
            Keys::Topic => (topic, broker),
        };
        if let Some(key) = known {
            return Ok(key);
        }
        let (what, list, place) = match self {
            Keys::Broker => ("broker", keys::BROKER_KEYS, "[topics.properties]"),
            Keys::Topic => ("topic", keys::TOPIC_KEYS, "[cluster.properties]"),
        };
        let hint = match other.is_some() {
            true => format!("it belongs into {place}"),
            false => {
                let synonyms = keys::TOPIC_KEYS.iter().map(|key| key.broker_synonym);
                let names =
                    list.iter().map(|key| key.name).chain(synonyms.filter(|_| matches!(self, Keys::Broker)));
                match nearest(name.get_ref(), names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("`sillon-sim list properties` shows the {what} properties there are"),
                }
            }
        };
        checker.fail(name.span(), format!("`{}` is not a {what} property", name.get_ref()), Some(hint))
    }
}

impl Checker<'_> {
    pub(super) fn properties(&self, properties: &Properties, keys: Keys) -> Checked {
        for (name, value) in properties {
            self.property(name, value.span(), value.get_ref(), keys)?;
        }
        Ok(())
    }

    fn property(
        &self,
        name: &Spanned<String>,
        span: Range<usize>,
        value: &PropertyValue,
        keys: Keys,
    ) -> Checked {
        let key = keys.key(self, name)?;
        if let Some(owner) = RESERVED.iter().find(|(key, _)| key == name.get_ref()).map(|(_, owner)| owner) {
            return self.fail(
                name.span(),
                format!("`{}` is set by the simulator", name.get_ref()),
                Some((*owner).into()),
            );
        }
        match key.check(&value.0) {
            Ok(()) => Ok(()),
            Err(expected) => self.fail(
                span,
                format!("`{}` is not a value of `{}`: {expected}", value.0, name.get_ref()),
                None,
            ),
        }
    }

    pub(super) fn swarm_properties(
        &self,
        properties: &BTreeMap<Spanned<String>, Choices>,
        keys: Keys,
    ) -> Checked {
        for (name, values) in properties {
            if values.get_ref().is_empty() {
                return self.fail(values.span(), "there is nothing to choose from: the list is empty", None);
            }
            for value in values.get_ref() {
                self.property(name, values.span(), value, keys)?;
            }
        }
        Ok(())
    }
}
