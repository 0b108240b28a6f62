//! The metadata at one moment, immutable and shared. Pure.

use crate::types::{BrokerId, LeaderEpoch, TopicId};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// All of a cluster's metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetadataImage {
    /// The cluster's id, given once.
    pub cluster_id: String,
    /// Counts the changes.
    pub version: u64,
    /// The first producer id that was not given out yet.
    pub next_producer_id: i64,
    /// The topics by name.
    pub topics: BTreeMap<Arc<str>, Arc<TopicImage>>,
    /// Configuration set while running, by broker; the key −1 holds that of all brokers.
    pub broker_configs: BTreeMap<BrokerId, BTreeMap<String, String>>,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicImage {
    /// Its id.
    pub id: TopicId,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionImage>,
    /// Its own configuration.
    pub configs: BTreeMap<String, String>,
}

/// One partition: its true state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionImage {
    /// The broker that leads it.
    pub leader: BrokerId,
    /// Counts its leaders.
    pub leader_epoch: LeaderEpoch,
    /// The brokers that hold it, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Those that are in sync.
    pub isr: Vec<BrokerId>,
}

/// Stands for "all brokers" in [`MetadataImage::broker_configs`].
pub const ALL_BROKERS: BrokerId = BrokerId(-1);

impl MetadataImage {
    /// The topic of that name.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// The topic of that id, with its name.
    pub fn topic_by_id(&self, id: TopicId) -> Option<(&Arc<str>, &Arc<TopicImage>)> {
        self.topics.iter().find(|(_, topic)| topic.id == id)
    }

    /// The configuration set while running for one broker (or for [`ALL_BROKERS`]).
    pub fn broker_config(&self, broker: BrokerId) -> &BTreeMap<String, String> {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        self.broker_configs.get(&broker).unwrap_or(&NOTHING)
    }
}
