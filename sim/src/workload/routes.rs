//! What a client knows of the cluster: where brokers listen, which topics and partitions there are, and who leads what in
//! which epoch. Pure: learns from metadata, never asks.
//!
//! Metadata may come from a broker that is behind: for one and the same topic a leader epoch never goes back (KIP-320).

use super::topics;
use sillon_broker::types::TopicPartition;
use sillon_protocol::messages::MetadataResponse;
use std::collections::{BTreeMap, BTreeSet};

/// A broker's number.
pub(super) type BrokerNumber = i32;

/// Who leads a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// None while nobody does.
    pub leader: Option<BrokerNumber>,
    /// −1 where the metadata's version has none.
    pub leader_epoch: i32,
    /// The brokers that hold a replica.
    pub replicas: Vec<BrokerNumber>,
}

/// What a client knows.
#[derive(Debug, Default)]
pub(super) struct Routes {
    brokers: BTreeMap<BrokerNumber, (String, u16)>,
    partitions: BTreeMap<TopicPartition, Route>,
    ids: BTreeMap<String, topics::Id>,
    /// The ids of topics that were replaced: who still tells of one is behind.
    retired: BTreeSet<topics::Id>,
}

impl Routes {
    /// Learns from an answer. Gives the topics that are others of the same name since, or gone.
    pub fn learn(&mut self, response: MetadataResponse) -> BTreeSet<String> {
        // An answer without brokers is from one that knows nothing yet.
        if !response.brokers.is_empty() {
            self.brokers = response
                .brokers
                .into_iter()
                .filter_map(|broker| Some((broker.node_id, (broker.host, u16::try_from(broker.port).ok()?))))
                .collect();
        }
        let mut replaced = BTreeSet::new();
        for topic in response.topics {
            let Some(name) = topic.name else { continue };
            if topic.error_code != 0 {
                continue;
            }
            let id = topic.topic_id.into_bytes();
            if self.retired.contains(&id) {
                continue;
            }
            let known = self.ids.insert(name.clone(), id);
            if let Some(known) = known.filter(|known| *known != id) {
                self.retired.insert(known);
                self.partitions.retain(|partition, _| *partition.topic != *name);
                replaced.insert(name.clone());
            }
            for partition in topic.partitions {
                let route = Route {
                    leader: Some(partition.leader_id).filter(|leader| *leader >= 0),
                    leader_epoch: partition.leader_epoch,
                    replicas: partition.replica_nodes,
                };
                self.learn_route(TopicPartition::new(&name, partition.partition_index), route);
            }
        }
        replaced
    }

    fn learn_route(&mut self, partition: TopicPartition, route: Route) {
        match self.partitions.get_mut(&partition) {
            Some(known) if known.leader_epoch > route.leader_epoch && route.leader_epoch >= 0 => {}
            Some(known) => *known = route,
            None => {
                self.partitions.insert(partition, route);
            }
        }
    }

    /// Who leads a partition, where it is known.
    pub fn leader(&self, partition: &TopicPartition) -> Option<BrokerNumber> {
        self.partitions.get(partition)?.leader.filter(|leader| self.brokers.contains_key(leader))
    }

    /// The leader epoch of a partition; −1 where it is not known.
    pub fn leader_epoch(&self, partition: &TopicPartition) -> i32 {
        self.partitions.get(partition).map_or(-1, |route| route.leader_epoch)
    }

    /// Where a broker listens.
    pub fn address(&self, broker: BrokerNumber) -> Option<(&str, u16)> {
        self.brokers.get(&broker).map(|(host, port)| (&**host, *port))
    }

    /// The brokers that live, as far as is known.
    pub fn brokers(&self) -> Vec<BrokerNumber> {
        self.brokers.keys().copied().collect()
    }

    /// The brokers that hold a replica of a partition.
    pub fn replicas(&self, partition: &TopicPartition) -> &[BrokerNumber] {
        self.partitions.get(partition).map_or(&[], |route| &route.replicas)
    }

    /// The ids of the topics.
    pub fn ids(&self) -> &BTreeMap<String, topics::Id> {
        &self.ids
    }

    /// The partitions of a topic, in order.
    pub fn partitions_of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a TopicPartition> {
        self.partitions.keys().filter(move |partition| *partition.topic == *topic)
    }

    /// How many partitions of a topic are known.
    pub fn partition_count(&self, topic: &str) -> usize {
        self.partitions_of(topic).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::messages::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use uuid::Uuid;

    fn answer(id: u128, leader_id: i32, leader_epoch: i32) -> MetadataResponse {
        let broker = |node_id| MetadataResponseBroker {
            node_id,
            host: format!("n{node_id}"),
            port: 9092,
            ..Default::default()
        };
        let partition = MetadataResponsePartition {
            leader_id,
            leader_epoch,
            replica_nodes: vec![0, 1],
            ..Default::default()
        };
        let topic = MetadataResponseTopic {
            name: Some("t".into()),
            topic_id: Uuid::from_u128(id),
            partitions: vec![partition],
            ..Default::default()
        };
        MetadataResponse { brokers: (0..3).map(broker).collect(), topics: vec![topic], ..Default::default() }
    }

    #[test]
    fn an_answer_that_is_behind_moves_no_leader_back() {
        let (mut routes, partition) = (Routes::default(), TopicPartition::new("t", 0));
        routes.learn(answer(7, 1, 4));
        routes.learn(answer(7, 0, 3));
        assert_eq!((routes.leader(&partition), routes.leader_epoch(&partition)), (Some(1), 4));
        routes.learn(answer(7, -1, 5));
        assert_eq!((routes.leader(&partition), routes.leader_epoch(&partition)), (None, 5));
    }

    #[test]
    fn another_topic_of_the_same_name_begins_anew() {
        let (mut routes, partition) = (Routes::default(), TopicPartition::new("t", 0));
        assert!(routes.learn(answer(7, 1, 4)).is_empty());
        assert_eq!(routes.learn(answer(8, 0, 0)).into_iter().collect::<Vec<_>>(), ["t"]);
        assert_eq!((routes.leader(&partition), routes.leader_epoch(&partition)), (Some(0), 0));
        assert_eq!(routes.address(2), Some(("n2", 9092)));
        assert!(routes.learn(answer(7, 1, 4)).is_empty(), "it is behind");
        assert_eq!(routes.leader(&partition), Some(0));
    }
}
