//! Makes what a new controller knows out of the nodes that were read. Owns how nodes become topics, brokers and states, and
//! what of them is believed. Pure: who reads them is somebody else. Damaged content is listed, never a panic.

use super::{
    LoadedState, LoadedTopic,
    layout::{self, LayoutError, TopicNode},
};
use crate::{
    config::keys::{self, Key},
    metadata::{MetadataDelta, MetadataImage, MetadataPosition, PartitionImage, TopicImage, names},
    types::{BrokerEpoch, BrokerId, ControllerEpoch, TopicId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A node as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedNode {
    /// Its path.
    pub path: String,
    /// Its content.
    pub data: Vec<u8>,
    /// Its version.
    pub version: i32,
    /// The transaction that created it.
    pub czxid: i64,
}

/// What a path names.
enum Place<'a> {
    Broker(BrokerId),
    BrokerConfig(BrokerId),
    Processed(BrokerId),
    ClusterId,
    Deletion(&'a str),
    TopicConfig(&'a str),
    Topic(&'a str),
    Partitions(&'a str),
    Partition(&'a str, i32),
    State(&'a str, i32),
    Other,
}

impl Place<'_> {
    fn of(path: &str) -> Place<'_> {
        let below = |parent: &str| path.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/'));
        let broker = |text: &str| text.parse().ok().filter(|id| *id >= 0).map(BrokerId);
        let place = if path == layout::CLUSTER_ID {
            Some(Place::ClusterId)
        } else if let Some(rest) = below(layout::BROKER_IDS) {
            broker(rest).map(Place::Broker)
        } else if let Some(rest) = below(layout::BROKER_CONFIGS) {
            match rest {
                layout::ALL_BROKERS_NAME => Some(Place::BrokerConfig(crate::metadata::image::ALL_BROKERS)),
                rest => broker(rest).map(Place::BrokerConfig),
            }
        } else if let Some(rest) = below(layout::PROCESSED) {
            broker(rest).map(Place::Processed)
        } else if let Some(rest) = below(layout::DELETE_TOPICS) {
            Some(Place::Deletion(rest))
        } else if let Some(rest) = below(layout::TOPIC_CONFIGS) {
            Some(Place::TopicConfig(rest))
        } else {
            below(layout::TOPICS).and_then(Place::of_topic)
        };
        place.unwrap_or(Place::Other)
    }

    fn of_topic(rest: &str) -> Option<Place<'_>> {
        let mut words = rest.split('/');
        let topic = words.next()?;
        let (partitions, partition, state) = (words.next(), words.next(), words.next());
        let partition = match partition {
            Some(text) => Some(text.parse::<i32>().ok().filter(|index| *index >= 0)?),
            None => None,
        };
        match (partitions, partition, state, words.next()) {
            (None, None, None, None) => Some(Place::Topic(topic)),
            (Some("partitions"), None, None, None) => Some(Place::Partitions(topic)),
            (Some("partitions"), Some(index), None, None) => Some(Place::Partition(topic, index)),
            (Some("partitions"), Some(index), Some("state"), None) => Some(Place::State(topic, index)),
            _ => None,
        }
    }
}

/// A topic of which nodes were read.
#[derive(Default)]
struct Parts {
    node: Option<(TopicNode, i32)>,
    configs: Option<(BTreeMap<String, String>, i32)>,
    has_partitions: bool,
    states: BTreeMap<i32, Option<PartitionImage>>,
    damaged: bool,
}

impl LoadedState {
    /// What the nodes say, read by the controller `controller` in its epoch, the last of them true at `version`. The order
    /// of the nodes does not matter; those that mean nothing here are skipped. `fresh_id` makes a random topic id.
    pub fn assemble(
        controller: BrokerId,
        controller_epoch: ControllerEpoch,
        version: i64,
        nodes: impl IntoIterator<Item = LoadedNode>,
        fresh_id: &mut dyn FnMut() -> TopicId,
    ) -> LoadedState {
        let mut state = LoadedState { controller, controller_epoch, version, ..LoadedState::default() };
        let mut topics: BTreeMap<Arc<str>, Parts> = BTreeMap::new();
        for node in nodes {
            if let Err(error) = state.take(&node, &mut topics) {
                if let Place::State(topic, index) = Place::of(&node.path) {
                    // It is there, and can be deleted with its topic; more than its version is not known.
                    let parts = topics.entry(topic.into()).or_default();
                    parts.states.insert(index, Some(unknown_state(node.version)));
                    parts.damaged = true;
                }
                if let Place::Topic(topic) = Place::of(&node.path) {
                    let parts = topics.entry(topic.into()).or_default();
                    parts.node = Some((TopicNode::default(), node.version));
                }
                state.damaged.push(error);
            }
        }
        let mut ids = BTreeSet::new();
        for (name, parts) in topics {
            let Some(mut node) = parts.node else {
                // Nodes below a topic's come with it; alone there is only a configuration.
                state.orphan_configs.extend(parts.configs.map(|(_, version)| (name, version)));
                continue;
            };
            // Two topics of one id: only the first can be meant by it.
            let is_copy = node.0.id.is_some_and(|id| !ids.insert(id));
            if parts.damaged || is_copy {
                node.0 = TopicNode::default();
            }
            let mut topic = LoadedTopic {
                name,
                node,
                configs: parts.configs,
                has_partitions: parts.has_partitions,
                states: parts.states,
                fresh_id: fresh_id(),
            };
            believe(&mut topic);
            state.topics.push(topic);
        }
        state
    }

    /// The values that may be. Keys that are not known are of no consequence, and stay.
    fn legal(
        &mut self,
        path: &str,
        mut configs: BTreeMap<String, String>,
        key: fn(&str) -> Option<&'static Key>,
    ) -> BTreeMap<String, String> {
        configs.retain(|name, value| {
            let Some(Err(problem)) = key(name).map(|key| key.check(value)) else { return true };
            let content = format!("{name}={value}").chars().take(200).collect();
            self.damaged.push(LayoutError { path: path.to_owned(), content, problem });
            false
        });
        configs
    }

    fn take(&mut self, node: &LoadedNode, topics: &mut BTreeMap<Arc<str>, Parts>) -> Result<(), LayoutError> {
        let LoadedNode { path, data, version, czxid } = node;
        match Place::of(path) {
            Place::ClusterId => self.cluster_id = layout::decode_cluster_id(data)?,
            Place::Broker(id) => {
                self.brokers.insert(id, Arc::new(layout::decode_broker(path, data, *czxid)?));
            }
            Place::BrokerConfig(id) => {
                // A damaged node is known by its version, and is written anew by the next change.
                self.broker_configs.insert(id, (BTreeMap::new(), *version));
                let configs = self.legal(path, layout::decode_configs(path, data)?, keys::broker_key);
                self.broker_configs.insert(id, (configs, *version));
            }
            Place::Processed(id) => {
                self.processed.insert(id, (BrokerEpoch::NONE, *version));
                let (epoch, stopping) = layout::decode_processed(path, data)?;
                self.processed.insert(id, (epoch, *version));
                self.stopping.extend(stopping.then_some((id, epoch)));
            }
            Place::Deletion(name) => self.deletions.push(name.into()),
            Place::TopicConfig(name) => {
                topics.entry(name.into()).or_default().configs = Some((BTreeMap::new(), *version));
                let configs = self.legal(path, layout::decode_configs(path, data)?, keys::topic_key);
                topics.entry(name.into()).or_default().configs = Some((configs, *version));
            }
            Place::Topic(name) => {
                let decoded = TopicNode::decode(path, data)?;
                topics.entry(name.into()).or_default().node = Some((decoded, *version));
            }
            Place::Partitions(name) => topics.entry(name.into()).or_default().has_partitions = true,
            Place::Partition(name, index) => {
                topics.entry(name.into()).or_default().states.entry(index).or_insert(None);
            }
            Place::State(name, index) => {
                let (decoded, _) = layout::decode_state(path, data, *version)?;
                topics.entry(name.into()).or_default().states.insert(index, Some(decoded));
            }
            Place::Other => {}
        }
        Ok(())
    }
}

impl LoadedTopic {
    /// One topic out of its nodes: its own, its configuration, and all that lies below it. None where they are not
    /// those of a topic, or not yet.
    pub fn assemble(
        name: &str,
        nodes: impl IntoIterator<Item = LoadedNode>,
        fresh_id: TopicId,
    ) -> Option<LoadedTopic> {
        let state = LoadedState::assemble(BrokerId::NONE, ControllerEpoch(0), 0, nodes, &mut || fresh_id);
        state.topics.into_iter().find(|topic| &*topic.name == name)
    }
}

fn unknown_state(version: i32) -> PartitionImage {
    PartitionImage {
        leader: None,
        leader_epoch: crate::types::LeaderEpoch(0),
        partition_epoch: crate::types::PartitionEpoch(version),
        replicas: Vec::new(),
        adding: Vec::new(),
        removing: Vec::new(),
        isr: Vec::new(),
        eligible_leader_replicas: Vec::new(),
        last_known_leader: None,
        unproven: Vec::new(),
    }
}

/// Whether a topic can be served: its node says where each partition lies, in a way that makes sense.
pub(super) fn is_sound(topic: &LoadedTopic) -> bool {
    let distinct =
        |list: &[BrokerId]| list.iter().enumerate().all(|(at, id)| id.0 >= 0 && !list[..at].contains(id));
    let node = &topic.node.0;
    names::check_topic_name(&topic.name).is_ok()
        && !node.replicas.is_empty()
        && node.replicas.keys().zip(0..).all(|(index, expected)| *index == expected)
        && node.replicas.values().all(|list| !list.is_empty() && distinct(list))
}

/// Gives the states their replicas, and takes out of them what cannot be.
fn believe(topic: &mut LoadedTopic) {
    let node = &topic.node.0;
    for (index, state) in &mut topic.states {
        let (Some(state), Some(replicas)) = (state.as_mut(), node.replicas.get(index)) else { continue };
        let mut seen = BTreeSet::new();
        let mut known = |list: &[BrokerId]| -> Vec<BrokerId> {
            list.iter().copied().filter(|id| replicas.contains(id) && seen.insert(*id)).collect()
        };
        state.isr = known(&state.isr);
        state.eligible_leader_replicas = known(&state.eligible_leader_replicas);
        state.unproven = known(&state.unproven);
        let within = |list: Option<&Vec<BrokerId>>| -> Vec<BrokerId> {
            list.into_iter().flatten().copied().filter(|id| replicas.contains(id)).collect()
        };
        state.adding = within(node.adding.get(index));
        state.removing = within(node.removing.get(index));
        if state.removing.len() == replicas.len() {
            state.removing = Vec::new();
        }
        state.replicas.clone_from(replicas);
        if let Some(leader) = state.leader.filter(|leader| !state.isr.contains(leader)) {
            state.leader = None;
            state.last_known_leader = Some(leader);
        }
    }
}

/// The metadata as far as it is whole. Brokers whose registration was not processed are not in it: what they led before
/// is looked at first. Of a topic that is not whole, the partitions up to the first gap are there.
/// Topics marked for deletion are not there, where topics are deleted at all.
pub(super) fn image(loaded: &LoadedState, deletes_topics: bool) -> MetadataImage {
    let mut deltas = vec![
        MetadataDelta::Cluster { cluster_id: loaded.cluster_id.clone() },
        MetadataDelta::Controller { broker: loaded.controller },
    ];
    for (id, broker) in &loaded.brokers {
        if loaded.processed.get(id).is_some_and(|(epoch, _)| *epoch == broker.broker_epoch) {
            let mut broker = broker.clone();
            if loaded.stopping.contains(&(*id, broker.broker_epoch)) {
                Arc::make_mut(&mut broker).shutting_down = true;
            }
            deltas.push(MetadataDelta::Broker { id: *id, broker });
        }
    }
    for topic in &loaded.topics {
        let goes = deletes_topics && loaded.deletions.contains(&topic.name);
        let Some(id) = topic.node.0.id.filter(|_| is_sound(topic) && !goes) else { continue };
        let known = topic.node.0.replicas.keys().map_while(|index| topic.states.get(index)?.clone());
        let partitions: Vec<PartitionImage> = known.collect();
        if partitions.is_empty() {
            continue;
        }
        let configs = topic.configs.as_ref().map_or_else(BTreeMap::new, |(configs, _)| configs.clone());
        let topic_image = Arc::new(TopicImage { id, partitions, configs });
        deltas.push(MetadataDelta::Topic { name: topic.name.clone(), topic: topic_image });
    }
    for (broker, (configs, _)) in &loaded.broker_configs {
        deltas.push(MetadataDelta::BrokerConfigs { broker: *broker, configs: configs.clone() });
    }
    let position = MetadataPosition { controller_epoch: loaded.controller_epoch, version: loaded.version };
    MetadataImage::default().after(&deltas, position).expect("snapshots fit the empty image")
}
