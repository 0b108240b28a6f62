//! AlterConfigs and IncrementalAlterConfigs, for topics and brokers (KIP-339).
//!
//! Lowering `min.insync.replicas` lets a leader commit alone what others miss: who was eligible under the old value is so
//! no more, and that is written before, or together with, the new value.

use super::{
    ConfigEdit, ConfigOperation, ControllerError, Outcome, Plan, Write,
    core::{Controller, unknown_topic},
    draft::Draft,
    layout,
    note::Note,
    settings::Rules,
};
use crate::{
    config::{
        keys::{self, Key, Kind},
        topic::{check_broker_value, check_topic_value},
    },
    metadata::{MetadataDelta, TopicImage, image::ALL_BROKERS},
    types::BrokerId,
};
use sillon_protocol::ErrorCode;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

type Configs = BTreeMap<String, String>;

fn refuse<T>(code: ErrorCode, text: impl Into<String>) -> Result<T, ControllerError> {
    Err(ControllerError::new(code, text))
}

/// Whose configuration it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Topic,
    Broker,
}

impl Scope {
    fn key(self, name: &str) -> Option<&'static Key> {
        match self {
            Scope::Topic => keys::topic_key(name),
            Scope::Broker => keys::broker_key(name),
        }
    }

    fn check(self, name: &str, value: &str) -> Result<(), ControllerError> {
        let checked = match self {
            Scope::Topic => check_topic_value(name, value),
            Scope::Broker => check_broker_value(name, value),
        };
        checked.map_err(|text| ControllerError::new(ErrorCode::INVALID_CONFIG, text))
    }

    /// What is set after the edits.
    fn edit(
        self,
        present: &Configs,
        edits: &[ConfigEdit],
        replace_all: bool,
    ) -> Result<Configs, ControllerError> {
        let mut configs = if replace_all { Configs::new() } else { present.clone() };
        let mut seen = BTreeSet::new();
        for ConfigEdit { key: name, operation } in edits {
            if !seen.insert(name) && !replace_all {
                let text = format!("Error due to duplicate config keys: {name}");
                return refuse(ErrorCode::INVALID_REQUEST, text);
            }
            let value = match operation {
                ConfigOperation::Set(value) => value.clone(),
                ConfigOperation::Delete if self.key(name).is_none() && !configs.contains_key(name) => {
                    return refuse(ErrorCode::INVALID_CONFIG, format!("Unknown config name: {name}"));
                }
                ConfigOperation::Delete => {
                    configs.remove(name);
                    continue;
                }
                ConfigOperation::Append(words) => self.edit_list(&configs, name, words, true)?,
                ConfigOperation::Subtract(words) => self.edit_list(&configs, name, words, false)?,
            };
            self.check(name, &value)?;
            configs.insert(name.clone(), value);
        }
        Ok(configs)
    }

    fn edit_list(
        self,
        configs: &Configs,
        name: &str,
        change: &str,
        is_append: bool,
    ) -> Result<String, ControllerError> {
        let key = match self.key(name) {
            Some(key) if matches!(key.kind, Kind::List(_)) => key,
            Some(_) => {
                let operation = if is_append { "append" } else { "subtract" };
                let text = format!("Config value {operation} is not allowed for config key: {name}");
                return refuse(ErrorCode::INVALID_CONFIG, text);
            }
            None => return refuse(ErrorCode::INVALID_CONFIG, format!("Unknown config name: {name}")),
        };
        fn words(text: &str) -> impl Iterator<Item = &str> {
            text.split(',').map(str::trim).filter(|word| !word.is_empty())
        }
        let mut list: Vec<&str> = words(configs.get(name).map_or(key.default, String::as_str)).collect();
        for word in words(change) {
            match is_append {
                true if list.contains(&word) => {}
                true => list.push(word),
                false => list.retain(|have| *have != word),
            }
        }
        Ok(list.join(","))
    }
}

/// Checks what a new topic is configured with.
///
/// # Errors
/// INVALID_CONFIG.
pub(super) fn check_new_topic_configs(
    configs: &[(String, Option<String>)],
    replication_factor: usize,
) -> Result<Configs, ControllerError> {
    let mut checked = Configs::new();
    for (name, value) in configs {
        let Some(value) = value else {
            let text = format!("Null value not supported for topic configs: {name}");
            return refuse(ErrorCode::INVALID_CONFIG, text);
        };
        Scope::Topic.check(name, value)?;
        checked.insert(name.clone(), value.clone());
    }
    check_min_insync_replicas(&checked, replication_factor)?;
    check_compaction_lags(&checked)?;
    Ok(checked)
}

fn check_min_insync_replicas(configs: &Configs, replication_factor: usize) -> Result<(), ControllerError> {
    let Some(value) = configs.get(MIN_INSYNC_REPLICAS) else { return Ok(()) };
    let is_above = value.parse::<usize>().is_ok_and(|value| value > replication_factor);
    if is_above {
        let text = format!(
            "Invalid value {value} for configuration {MIN_INSYNC_REPLICAS}: it is above the replication factor, \
             which is {replication_factor}"
        );
        return refuse(ErrorCode::INVALID_CONFIG, text);
    }
    Ok(())
}

/// A record that must be looked at by compaction may not have to be left alone still.
fn check_compaction_lags(configs: &Configs) -> Result<(), ControllerError> {
    const LAGS: [&str; 2] = ["min.compaction.lag.ms", "max.compaction.lag.ms"];
    let lag = |name: &str| configs.get(name).and_then(|value| value.parse::<i64>().ok());
    match LAGS.map(lag) {
        [Some(least), Some(most)] if most < least => {
            let [least_name, most_name] = LAGS;
            let text = format!("{most_name} ({most}) is below {least_name} ({least})");
            refuse(ErrorCode::INVALID_CONFIG, text)
        }
        _ => Ok(()),
    }
}

impl Controller {
    pub(super) fn edit_topic_configs(
        &self,
        name: &Arc<str>,
        edits: &[ConfigEdit],
        replace_all: bool,
        validate_only: bool,
    ) -> Result<Plan, ControllerError> {
        let topic = self.image().topic(name).ok_or_else(|| unknown_topic(name))?;
        let configs = Scope::Topic.edit(&topic.configs, edits, replace_all)?;
        if configs.get(MIN_INSYNC_REPLICAS) != topic.configs.get(MIN_INSYNC_REPLICAS) {
            let factors = topic.partitions.iter().map(|state| state.target_replicas().count());
            check_min_insync_replicas(&configs, factors.min().unwrap_or(0))?;
        }
        check_compaction_lags(&configs)?;
        let mut draft = Draft::new(self);
        if validate_only || configs == topic.configs {
            return Ok(draft.finish(Outcome::Done, false));
        }
        let rules = self.settings.rules(self.image(), &configs);
        if !end_eligibility(&mut draft, name, topic, rules) {
            return Ok(draft.finish(Outcome::Done, true));
        }
        let mut record = self.record(name).expect("a topic in the image has its record").as_ref().clone();
        let (path, data) = (layout::topic_config_path(name), layout::encode_configs(&configs));
        let version = match &record.configs {
            Some((_, version)) => {
                draft.writes.push(Write::Set { path, data, version: *version });
                version + 1
            }
            None => {
                draft.writes.push(Write::Create { path, data });
                0
            }
        };
        record.configs = Some((configs.clone(), version));
        draft.notes.push(Note::Record(name.clone(), Some(Arc::new(record))));
        draft.deltas.push(MetadataDelta::TopicConfigs { id: topic.id, configs });
        Ok(draft.finish(Outcome::Done, false))
    }

    pub(super) fn edit_broker_configs(
        &self,
        broker: BrokerId,
        edits: &[ConfigEdit],
        replace_all: bool,
        validate_only: bool,
    ) -> Result<Plan, ControllerError> {
        if broker.0 < ALL_BROKERS.0 {
            let text = format!("There is no broker {broker}.");
            return refuse(ErrorCode::INVALID_REQUEST, text);
        }
        let present = self.image().broker_config(broker);
        let configs = Scope::Broker.edit(present, edits, replace_all)?;
        let own_minimum = |configs: &Configs| configs.get(MIN_INSYNC_REPLICAS).cloned();
        if broker != ALL_BROKERS
            && own_minimum(&configs).is_some_and(|_| own_minimum(&configs) != own_minimum(present))
        {
            // Controller and leader must agree on it, whoever they are.
            let text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled.";
            return refuse(ErrorCode::INVALID_CONFIG, text);
        }
        let mut draft = Draft::new(self);
        if validate_only || configs == *present {
            return Ok(draft.finish(Outcome::Done, false));
        }
        if broker == ALL_BROKERS {
            for (name, topic) in &self.image().topics {
                let rules = self.settings.rules_with(&configs, &topic.configs);
                if !end_eligibility(&mut draft, name, topic, rules) {
                    return Ok(draft.finish(Outcome::Done, true));
                }
            }
        }
        let (path, data) = (layout::broker_config_path(broker), layout::encode_configs(&configs));
        let version = match self.broker_config_versions.get(&broker) {
            Some(version) => {
                draft.writes.push(Write::Set { path, data, version: *version });
                version + 1
            }
            None => {
                draft.writes.push(Write::Create { path, data });
                0
            }
        };
        draft.notes.push(Note::BrokerConfig(broker, version));
        draft.deltas.push(MetadataDelta::BrokerConfigs { broker, configs });
        Ok(draft.finish(Outcome::Done, false))
    }
}

/// Ends the eligibility of replicas where enough are in sync by the new rules. Gives whether all of it fits, and another
/// write with it.
fn end_eligibility(draft: &mut Draft<'_>, name: &Arc<str>, topic: &TopicImage, rules: Rules) -> bool {
    for (index, state) in (0..).zip(&topic.partitions) {
        let enough = state.isr.len() >= rules.needed(state.replicas.len());
        if !enough || state.eligible_leader_replicas.is_empty() {
            continue;
        }
        if draft.room() < 3 {
            return false;
        }
        let mut after = state.clone();
        after.eligible_leader_replicas = Vec::new();
        draft.set_state(name, index, after);
    }
    draft.room() >= 1
}
