//! The settings that the controller goes by: its broker's file, under what was set while running. Owns no value.

use crate::{
    config::{BrokerConfig, keys, topic::Layers},
    metadata::{MetadataImage, image::ALL_BROKERS},
};
use std::{collections::BTreeMap, sync::Arc};

/// Where the controller finds its settings.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    /// The file of the broker that is controller. All brokers of a cluster should agree on what topics default to.
    pub file: Arc<BrokerConfig>,
}

static NOTHING: BTreeMap<String, String> = BTreeMap::new();

impl ControllerSettings {
    /// The layers under a topic's own configuration, with what is set for all brokers. What is set for a single broker
    /// has no part in it: each broker would see another cluster.
    pub fn layers<'a>(&'a self, all_brokers: &'a BTreeMap<String, String>) -> Layers<'a> {
        Layers { file: &self.file, dynamic_broker: &NOTHING, dynamic_default: all_brokers }
    }

    /// What decides about a topic's partitions.
    pub(super) fn rules(&self, image: &MetadataImage, topic: &BTreeMap<String, String>) -> Rules {
        self.rules_with(image.broker_config(ALL_BROKERS), topic)
    }

    /// As [`ControllerSettings::rules`], with that configuration of all brokers.
    pub(super) fn rules_with(
        &self,
        all_brokers: &BTreeMap<String, String>,
        topic: &BTreeMap<String, String>,
    ) -> Rules {
        let layers = self.layers(all_brokers);
        let unclean = keys::topic_key("unclean.leader.election.enable").expect("in the table");
        let unclean = layers.of_topic_key(unclean, topic).swap_remove(0).value;
        Rules {
            min_insync_replicas: layers.min_insync_replicas(topic),
            unclean_election: unclean.eq_ignore_ascii_case("true"),
        }
    }

    /// `auto.leader.rebalance.enable`.
    pub(super) fn balances_leaders(&self) -> bool {
        self.file_value("auto.leader.rebalance.enable").eq_ignore_ascii_case("true")
    }

    /// `leader.imbalance.per.broker.percentage`.
    pub(super) fn imbalance_percent(&self) -> usize {
        let value = self.file_value("leader.imbalance.per.broker.percentage");
        value.parse().expect("values are checked before they are stored")
    }

    fn file_value(&self, name: &'static str) -> &str {
        let key = keys::broker_key(name).expect("in the table");
        self.file.set_value(name).unwrap_or(key.default)
    }
}

/// What a topic's configuration says about its partitions' leaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// `min.insync.replicas`, as configured.
    pub min_insync_replicas: usize,
    /// `unclean.leader.election.enable`.
    pub unclean_election: bool,
}

impl Rules {
    /// How many of `replicas` replicas must be in sync: never more than there are (KIP-966).
    pub fn needed(self, replicas: usize) -> usize {
        self.min_insync_replicas.min(replicas)
    }
}
