//! A client's ways to all brokers: one connection to each, made again when it is lost, and the metadata that says which way
//! leads where. Owns the connections; never repeats a request.

use super::{
    Shared, TopicPlan,
    link::Link,
    routes::{BrokerNumber, Routes},
    topics,
};
use crate::oracle::ClientEvent;
use sillon_broker::types::{TopicId, TopicPartition, Uuid};
use sillon_client::{Connection, ConnectionError};
use sillon_protocol::{
    messages::{MetadataRequest, MetadataRequestTopic},
    wire::Request,
};
use sillon_runtime::{Monotonic, Runtime};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Between two refreshes of the metadata there is at least this time.
const APART: Duration = Duration::from_millis(100);
/// Metadata is asked for again after this time, whether something is wrong or not.
const MAX_AGE: Duration = Duration::from_secs(30);
/// How long one broker is asked for the metadata. Any other knows it as well: none is worth a request's whole timeout.
const METADATA_PATIENCE: Duration = Duration::from_secs(2);

/// All ways.
pub(super) struct Directory {
    pub runtime: Runtime,
    shared: Arc<Shared>,
    name: String,
    links: BTreeMap<(String, u16), Link>,
    /// Beside them, what waits long at the other end goes its own way: a broker answers a connection's requests in their order.
    polling: BTreeMap<BrokerNumber, Link>,
    pub routes: Routes,
    /// Which of the addresses that a client begins with is asked next.
    bootstrap: usize,
    /// Something in the metadata was found to be wrong.
    is_stale: bool,
    refreshed: Option<Monotonic>,
}

impl Directory {
    pub fn new(runtime: Runtime, shared: Arc<Shared>, name: String) -> Directory {
        // Not everybody begins with the same broker.
        let bootstrap = name.bytes().map(usize::from).sum::<usize>() % shared.brokers.len();
        Directory {
            runtime,
            shared,
            name,
            links: BTreeMap::new(),
            polling: BTreeMap::new(),
            routes: Routes::default(),
            bootstrap,
            is_stale: false,
            refreshed: None,
        }
    }

    fn link_at(&mut self, host: &str, port: u16) -> &mut Link {
        let Directory { runtime, shared, name, links, .. } = self;
        links
            .entry((host.to_owned(), port))
            .or_insert_with(|| Link::new(runtime.clone(), shared, name, host, port))
    }

    /// The way to a broker, where it is known.
    pub fn link(&mut self, broker: BrokerNumber) -> Option<&mut Link> {
        let (host, port) = self.routes.address(broker)?;
        let (host, port) = (host.to_owned(), port);
        Some(self.link_at(&host, port))
    }

    /// The connection to a broker.
    pub async fn connection(&mut self, broker: BrokerNumber) -> Option<Arc<Connection>> {
        let connection = self.link(broker)?.connection().await;
        if connection.is_err() {
            self.is_stale = true;
        }
        connection.ok()
    }

    /// The connection to a broker for requests that may wait there for long.
    pub async fn polling_connection(&mut self, broker: BrokerNumber) -> Option<Arc<Connection>> {
        let (host, port) = self.routes.address(broker)?;
        let Directory { runtime, shared, name, polling, .. } = self;
        let link = polling
            .entry(broker)
            .and_modify(|link| link.lead_to(host, port))
            .or_insert_with(|| Link::new(runtime.clone(), shared, name, host, port));
        let connection = link.connection().await;
        if connection.is_err() {
            self.is_stale = true;
        }
        connection.ok()
    }

    /// A broker did not answer, or not in time: the connection to it is given up, and who leads what is asked for anew.
    pub fn give_up(&mut self, broker: BrokerNumber) {
        if let Some(link) = self.link(broker) {
            link.drop_connection();
        }
        if let Some(link) = self.polling.get_mut(&broker) {
            link.drop_connection();
        }
        self.is_stale = true;
    }

    /// Something showed that the metadata is not right any more.
    pub fn doubt(&mut self) {
        self.is_stale = true;
    }

    /// Asks some broker. After a failure the next one is asked the next time.
    pub async fn ask_any<R: Request>(&mut self, request: &R) -> Result<R::Response, ConnectionError> {
        let (host, port) = self.shared.brokers[self.bootstrap].clone();
        let answer = self.link_at(&host, port).ask(request).await;
        if answer.is_err() {
            self.next_bootstrap();
        }
        answer
    }

    /// Asks another broker the next time.
    pub fn next_bootstrap(&mut self) {
        self.bootstrap = (self.bootstrap + 1) % self.shared.brokers.len();
    }

    /// Asks the leader of a partition; nothing where nobody is known to lead.
    pub async fn ask_leader<R: Request>(
        &mut self,
        partition: &TopicPartition,
        request: &R,
    ) -> Result<Option<R::Response>, ConnectionError> {
        let leader = self.routes.leader(partition);
        let Some(link) = leader.and_then(|leader| self.link(leader)) else {
            self.is_stale = true;
            return Ok(None);
        };
        let answer = link.ask(request).await;
        if answer.is_err() {
            self.is_stale = true;
        }
        answer.map(Some)
    }

    /// Asks for the metadata where it is in doubt or old, and was not asked for just now. Gives the topics that are others of
    /// the same name since.
    pub async fn keep_fresh(&mut self) -> BTreeSet<String> {
        let age = self.refreshed.map(|at| self.runtime.now().saturating_since(at));
        let is_due = match age {
            None => true,
            Some(age) => age >= MAX_AGE || (self.is_stale && age >= APART),
        };
        if is_due { self.refresh().await } else { BTreeSet::new() }
    }

    /// Asks for the metadata. Gives the topics that are others of the same name since.
    pub async fn refresh(&mut self) -> BTreeSet<String> {
        self.refreshed = Some(self.runtime.now());
        let named =
            |plan: &TopicPlan| MetadataRequestTopic { name: Some(plan.name.clone()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(self.shared.topics.iter().map(named).collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let runtime = self.runtime.clone();
        let Ok(answer) = runtime.timeout(METADATA_PATIENCE, self.ask_any(&request)).await else {
            let (host, port) = self.shared.brokers[self.bootstrap].clone();
            self.link_at(&host, port).drop_connection();
            self.next_bootstrap();
            return BTreeSet::new();
        };
        let Ok(response) = answer else { return BTreeSet::new() };
        self.is_stale = false;
        let before = self.routes.ids().clone();
        let replaced = self.routes.learn(response);
        for (topic, id) in self.routes.ids() {
            if before.get(topic) != Some(id) && self.shared.is_new_topic(*id) {
                let topic_id = TopicId(Uuid::from_bytes(*id));
                (self.shared.events)(ClientEvent::TopicCreated { topic: topic.clone(), topic_id });
            }
        }
        // Where nobody leads, the broker that was asked may be behind.
        let has_no_leader = |partition: &TopicPartition| self.routes.leader(partition).is_none();
        if topics::partitions(&self.shared).iter().any(has_no_leader) {
            self.is_stale = true;
            self.next_bootstrap();
        }
        replaced
    }

    /// The id by which a topic is named that may be another one of the same name some time; nil for all others.
    pub fn life(&self, topic: &str) -> TopicId {
        let id = self.routes.ids().get(topic).filter(|_| self.shared.comes_and_goes(topic));
        TopicId(Uuid::from_bytes(id.copied().unwrap_or_default()))
    }

    /// All partitions that there are: those that were made, and those that metadata tells beside them.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        let mut all = Vec::new();
        for plan in &self.shared.topics {
            let count = (plan.partitions as usize).max(self.routes.partition_count(&plan.name));
            all.extend((0..count).map(|number| TopicPartition::new(&plan.name, number as i32)));
        }
        all
    }
}
