//! What a client knows of its cluster: brokers, topics, leaders with their epochs. Pure: takes in answers and hints and
//! never goes back to an older leader epoch (KIP-320); never asks anybody.

use sillon_protocol::{
    ErrorCode,
    messages::{
        LeaderIdAndEpoch, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic, NodeEndpoint,
    },
};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

/// A broker that clients can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its number.
    pub id: i32,
    /// Its host.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// Its rack, if it has one.
    pub rack: Option<Arc<str>>,
}

/// A leader of a partition and its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaderAndEpoch {
    /// The leader, `None` while there is none.
    pub leader: Option<i32>,
    /// The epoch, `None` where the broker does not tell.
    pub epoch: Option<i32>,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Who leads it.
    pub leader: LeaderAndEpoch,
    /// Its replicas, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Those of them that are in sync.
    pub in_sync: Vec<i32>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Its id, nil where the broker does not tell.
    pub id: Uuid,
    /// Why there is nothing to know of it.
    pub error: ErrorCode,
    /// Whether it is the brokers' own.
    pub is_internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionMetadata>,
}

/// What is known of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// How often it changed.
    pub version: u64,
    /// The living brokers.
    pub brokers: BTreeMap<i32, Broker>,
    /// The cluster's id, where it has one.
    pub cluster_id: Option<String>,
    /// The controller, while there is one.
    pub controller: Option<i32>,
    /// The topics that were asked for.
    pub topics: BTreeMap<Arc<str>, TopicMetadata>,
    names: BTreeMap<Uuid, Arc<str>>,
}

impl Metadata {
    /// A topic that exists.
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.get(name).filter(|topic| topic.error.is_none())
    }

    /// A partition that exists.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionMetadata> {
        self.topic(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    /// A partition's leader, `None` while there is none.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        self.partition(topic, partition)?.leader.leader
    }

    /// The name that goes with a topic id.
    pub fn name_of(&self, id: Uuid) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// Takes in an answer; `all` says that every topic was asked for.
    pub(crate) fn update(&mut self, response: &MetadataResponse, all: bool) {
        self.version += 1;
        self.brokers = response
            .brokers
            .iter()
            .filter_map(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                let rack = broker.rack.as_deref().map(Arc::from);
                Some((
                    broker.node_id,
                    Broker { id: broker.node_id, host: broker.host.as_str().into(), port, rack },
                ))
            })
            .collect();
        self.cluster_id = response.cluster_id.clone().or(self.cluster_id.take());
        self.controller = (response.controller_id >= 0).then_some(response.controller_id);
        let mut old = if all { std::mem::take(&mut self.topics) } else { BTreeMap::new() };
        for topic in &response.topics {
            let Some(name) = topic.name.as_deref() else { continue };
            let (name, before) = match old.remove_entry(name).or_else(|| self.topics.remove_entry(name)) {
                Some((name, before)) => (name, Some(before)),
                None => (Arc::from(name), None),
            };
            self.topics.insert(name, merged(topic, before));
        }
        self.names = self
            .topics
            .iter()
            .filter(|(_, topic)| !topic.id.is_nil())
            .map(|(name, topic)| (topic.id, name.clone()))
            .collect();
    }

    /// Takes in where a broker that is not the leader says to turn to (KIP-951). True where that is news.
    pub(crate) fn hint(
        &mut self,
        topic: &str,
        partition: i32,
        leader: &LeaderIdAndEpoch,
        endpoints: &[NodeEndpoint],
    ) -> bool {
        if leader.leader_id < 0 || leader.leader_epoch < 0 {
            return false;
        }
        let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.node_id == leader.leader_id) else {
            return false;
        };
        let Ok(port) = u16::try_from(endpoint.port) else { return false };
        let known = self
            .topics
            .get_mut(topic)
            .filter(|topic| topic.error.is_none())
            .and_then(|topic| topic.partitions.get_mut(usize::try_from(partition).ok()?));
        let Some(known) = known else { return false };
        if known.leader.epoch.is_some_and(|epoch| epoch >= leader.leader_epoch) {
            return false;
        }
        known.leader = LeaderAndEpoch { leader: Some(leader.leader_id), epoch: Some(leader.leader_epoch) };
        let rack = endpoint.rack.as_deref().map(Arc::from);
        let broker = Broker { id: leader.leader_id, host: endpoint.host.as_str().into(), port, rack };
        self.brokers.insert(leader.leader_id, broker);
        self.version += 1;
        true
    }
}

fn merged(topic: &MetadataResponseTopic, before: Option<TopicMetadata>) -> TopicMetadata {
    let error = ErrorCode::from(topic.error_code);
    // Only of the same topic: another one of this name begins its epochs anew.
    let before = before
        .filter(|before| before.id == topic.topic_id)
        .map(|before| before.partitions)
        .unwrap_or_default();
    let highest = topic.partitions.iter().map(|partition| partition.partition_index).max().unwrap_or(-1);
    // A broker that numbers with gaps is not believed further than it lists.
    let count = usize::try_from(highest + 1).unwrap_or(0).min(topic.partitions.len());
    let mut partitions = vec![PartitionMetadata::default(); count];
    for partition in &topic.partitions {
        let Ok(index) = usize::try_from(partition.partition_index) else { continue };
        if let Some(place) = partitions.get_mut(index) {
            *place = newer(partition, before.get(index));
        }
    }
    TopicMetadata { id: topic.topic_id, error, is_internal: topic.is_internal, partitions }
}

fn newer(partition: &MetadataResponsePartition, before: Option<&PartitionMetadata>) -> PartitionMetadata {
    let epoch = (partition.leader_epoch >= 0).then_some(partition.leader_epoch);
    let leader = LeaderAndEpoch { leader: (partition.leader_id >= 0).then_some(partition.leader_id), epoch };
    let known = before.map(|before| before.leader).filter(|known| epoch.is_some() && known.epoch > epoch);
    PartitionMetadata {
        leader: known.unwrap_or(leader),
        replicas: partition.replica_nodes.clone(),
        in_sync: partition.isr_nodes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::messages::MetadataResponseBroker;

    fn answer(id: u128, leader_id: i32, leader_epoch: i32) -> MetadataResponse {
        let partition = MetadataResponsePartition { leader_id, leader_epoch, ..Default::default() };
        let broker = |node_id| MetadataResponseBroker { node_id, host: "h".into(), port: 9092, rack: None };
        MetadataResponse {
            brokers: vec![broker(1), broker(2)],
            topics: vec![MetadataResponseTopic {
                name: Some("orders".into()),
                topic_id: Uuid::from_u128(id),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn an_older_leader_epoch_changes_nothing() {
        let mut metadata = Metadata::default();
        metadata.update(&answer(7, 2, 5), false);
        metadata.update(&answer(7, 1, 4), false);
        assert_eq!(metadata.leader("orders", 0), Some(2));
        metadata.update(&answer(7, -1, 6), false);
        assert_eq!(metadata.leader("orders", 0), None);
    }

    #[test]
    fn a_topic_that_was_created_anew_begins_its_epochs_anew() {
        let mut metadata = Metadata::default();
        metadata.update(&answer(7, 2, 5), false);
        metadata.update(&answer(8, 1, 0), false);
        assert_eq!(metadata.leader("orders", 0), Some(1));
        assert_eq!(metadata.name_of(Uuid::from_u128(7)), None);
        assert_eq!(metadata.name_of(Uuid::from_u128(8)).map(|name| &**name), Some("orders"));
    }

    #[test]
    fn a_hint_is_believed_if_it_is_newer_and_says_where() {
        let mut metadata = Metadata::default();
        metadata.update(&answer(7, 2, 5), false);
        let endpoint = NodeEndpoint { node_id: 3, host: "x".into(), port: 1, rack: None };
        let leader = |leader_epoch| LeaderIdAndEpoch { leader_id: 3, leader_epoch };
        assert!(!metadata.hint("orders", 0, &leader(6), &[]), "nobody knows where that is");
        assert!(!metadata.hint("orders", 0, &leader(5), std::slice::from_ref(&endpoint)));
        assert!(metadata.hint("orders", 0, &leader(6), std::slice::from_ref(&endpoint)));
        assert_eq!(metadata.leader("orders", 0), Some(3));
        metadata.update(&answer(7, 2, 5), false);
        assert_eq!(metadata.leader("orders", 0), Some(3), "the answer is older than the hint");
    }

    #[test]
    fn asking_for_all_forgets_what_is_gone() {
        let mut metadata = Metadata::default();
        metadata.update(&answer(7, 2, 5), false);
        metadata.update(&MetadataResponse::default(), false);
        assert!(metadata.topic("orders").is_some());
        metadata.update(&MetadataResponse::default(), true);
        assert!(metadata.topic("orders").is_none());
    }
}
