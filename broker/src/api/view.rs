//! The cluster as one client sees it: through the listener that it came in by. Pure.
//!
//! Metadata, DescribeCluster and DescribeTopicPartitions say the same in different messages.

use super::{admin::numbers, endpoint, listener};
use crate::{
    broker::Broker,
    metadata::{BrokerImage, MetadataImage, PartitionImage, TopicImage},
    server::dispatch::Client,
    types::{BrokerId, TopicId},
};
use sillon_protocol::ErrorCode;
use std::sync::Arc;

/// What a client sees.
pub(super) struct View {
    pub(super) image: Arc<MetadataImage>,
    /// Brokers that were registered until a moment ago, for answers that still tell of them.
    pub(super) departed: Vec<(BrokerId, Arc<BrokerImage>)>,
    /// The broker that is asked, and where this client reaches it.
    pub(super) own: BrokerId,
    pub(super) own_endpoint: (String, i32),
    /// The name of the listener that the client came in by.
    pub(super) listener: String,
    /// Whether this broker has the log of one of its partitions open.
    pub(super) is_open: Box<dyn Fn(TopicId, i32) -> bool + Send + Sync>,
}

/// A broker that the client can reach.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VisibleBroker {
    pub(super) id: i32,
    pub(super) host: String,
    pub(super) port: i32,
    pub(super) rack: Option<String>,
}

/// A partition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VisiblePartition {
    pub(super) error: ErrorCode,
    pub(super) index: i32,
    /// −1 where nobody leads, or the client cannot reach who does.
    pub(super) leader: i32,
    pub(super) leader_epoch: i32,
    pub(super) replicas: Vec<i32>,
    pub(super) isr: Vec<i32>,
    pub(super) offline: Vec<i32>,
    pub(super) eligible: Vec<i32>,
    pub(super) last_known_leader: Vec<i32>,
}

impl View {
    pub(super) fn of(broker: &Broker, client: &Client) -> View {
        let held = broker.topics();
        let is_open =
            move |topic, index| held.by_id(topic).is_some_and(|topic| topic.partition(index).is_ok());
        View {
            image: broker.cluster().image(),
            departed: Vec::new(),
            own: broker.config().broker_id,
            own_endpoint: endpoint(broker, client),
            listener: listener(broker, client).name.clone(),
            is_open: Box::new(is_open),
        }
    }

    /// The registered brokers that have the client's listener, then those that have departed.
    pub(super) fn brokers(&self) -> Vec<VisibleBroker> {
        if self.image.brokers.is_empty() {
            // Before this broker has heard of any registration, it is all that there is to be seen.
            let (host, port) = self.own_endpoint.clone();
            return vec![VisibleBroker { id: self.own.0, host, port, rack: None }];
        }
        let departed = self.departed.iter().map(|(id, broker)| (id, broker));
        let brokers = self.image.brokers.iter().chain(departed);
        brokers.filter_map(|(id, broker)| self.broker(*id, broker)).collect()
    }

    fn broker(&self, id: BrokerId, broker: &BrokerImage) -> Option<VisibleBroker> {
        let endpoint = broker.endpoints.iter().find(|endpoint| endpoint.listener == self.listener)?;
        let (host, port) = match id == self.own {
            true => self.own_endpoint.clone(),
            false => (endpoint.host.clone(), i32::from(endpoint.port)),
        };
        Some(VisibleBroker { id: id.0, host, port, rack: broker.rack.as_deref().map(str::to_owned) })
    }

    /// The broker that a client is to send the controller's business to, −1 where there is none at present. Whoever is
    /// asked hands it on, so a controller that the client cannot reach is no reason to give it none.
    pub(super) fn controller(&self) -> i32 {
        let alone = self.image.brokers.is_empty().then_some(self.own);
        let controller = self.image.controller.and_then(|id| match self.leads_visibly(id) {
            Ok(()) => Some(id),
            Err(ErrorCode::LISTENER_NOT_FOUND) => Some(self.own),
            Err(_) => None,
        });
        controller.or(alone).unwrap_or(BrokerId::NONE).0
    }

    /// Some of a topic's partitions.
    pub(super) fn partitions(&self, topic: &TopicImage, from: usize, count: usize) -> Vec<VisiblePartition> {
        let wanted = (0..).zip(&topic.partitions).skip(from).take(count);
        wanted.map(|(index, partition)| self.partition(topic, index, partition)).collect()
    }

    fn partition(&self, topic: &TopicImage, index: i32, partition: &PartitionImage) -> VisiblePartition {
        // Of its own partitions this broker knows more than the metadata: whether the log is open.
        let holds = |broker: BrokerId| broker != self.own || (self.is_open)(topic.id, index);
        let leader = match partition.leader {
            None => Err(ErrorCode::LEADER_NOT_AVAILABLE),
            Some(leader) if !holds(leader) => Err(ErrorCode::LEADER_NOT_AVAILABLE),
            Some(leader) => self.leads_visibly(leader).map(|()| leader),
        };
        let is_offline = |broker: &BrokerId| !self.is_alive(*broker) || !holds(*broker);
        let offline = partition.replicas.iter().copied().filter(is_offline).collect::<Vec<_>>();
        VisiblePartition {
            error: leader.err().unwrap_or(ErrorCode::NONE),
            index,
            leader: leader.unwrap_or(BrokerId::NONE).0,
            leader_epoch: partition.leader_epoch.0,
            replicas: numbers(&partition.replicas),
            isr: numbers(&partition.isr),
            offline: numbers(&offline),
            eligible: numbers(&partition.eligible_leader_replicas),
            last_known_leader: partition.last_known_leader.map(|leader| leader.0).into_iter().collect(),
        }
    }

    fn is_alive(&self, broker: BrokerId) -> bool {
        self.image.brokers.contains_key(&broker) || self.image.brokers.is_empty() && broker == self.own
    }

    /// Whether the client can go to that broker.
    fn leads_visibly(&self, id: BrokerId) -> Result<(), ErrorCode> {
        match self.image.brokers.get(&id) {
            None if self.is_alive(id) => Ok(()),
            None => Err(ErrorCode::LEADER_NOT_AVAILABLE),
            Some(broker) if self.broker(id, broker).is_some() => Ok(()),
            Some(_) => Err(ErrorCode::LISTENER_NOT_FOUND),
        }
    }
}
