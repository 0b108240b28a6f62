//! The clients of a run: each on a machine of its own. Owns their machines; what they do is the workload's.

use super::cluster::{Cluster, PORT, host};
use crate::{
    scenario::DrawnConfig,
    workload::{Role, Shared, TopicPlan, final_scan, roles, run},
    world::{NodeId, World, boot},
};
use std::sync::{Arc, OnceLock};

/// All clients of a run.
pub(super) struct Clients {
    world: Arc<World>,
    shared: Arc<Shared>,
    producers: Vec<NodeId>,
    readers: Vec<NodeId>,
    scanner: NodeId,
    scan: Scan,
}

/// The scan at the end, under way or done.
#[derive(Clone, Default)]
pub(super) struct Scan(Arc<OnceLock<Result<(), String>>>);

impl Scan {
    /// What has come of it; nothing while it is under way.
    pub fn result(&self) -> Option<&Result<(), String>> {
        self.0.get()
    }
}

impl Clients {
    /// Adds the machines. Nothing runs yet.
    pub fn new(world: &Arc<World>, cluster: &Arc<Cluster>) -> Clients {
        let config = &cluster.config;
        let brokers = (0..config.brokers).map(|node| (host(node), PORT)).collect();
        let (oracle, events_news) = (cluster.oracle.clone(), cluster.news.clone());
        let events = Arc::new(move |event| {
            oracle.client_event(event);
            if oracle.first_violation().is_some() {
                events_news.notify_one();
            }
        });
        let shared = Shared::new(config.workload.clone(), topics(config), brokers, events);
        let (mut producers, mut readers) = (Vec::new(), Vec::new());
        for role in roles(&config.workload) {
            let (list, name) = match role {
                Role::Producer(client) => (&mut producers, format!("producer-{client}")),
                Role::Reader(client) => (&mut readers, format!("reader-{client}")),
            };
            let (shared, decisions) = (shared.clone(), world.decisions().clone());
            let program = boot(move |runtime| run(runtime, role, shared.clone(), decisions.clone()));
            list.push(world.add_node(&name, program));
        }
        let scan = Scan::default();
        let (result, scanned) = (scan.clone(), shared.clone());
        let program = boot(move |runtime| {
            let (result, scanned) = (result.clone(), scanned.clone());
            async move {
                // Nobody else sets it: the scanner is started once.
                let _ = result.0.set(final_scan(runtime, scanned).await);
            }
        });
        let scanner = world.add_node("scanner", program);
        Clients { world: world.clone(), shared, producers, readers, scanner, scan }
    }

    /// All but the scan begin.
    pub fn start(&self) {
        for client in self.producers.iter().chain(&self.readers) {
            self.world.start(*client);
        }
    }

    /// Producers make no new batches.
    pub fn stop_producing(&self) {
        self.shared.stop_producing();
    }

    /// A producer that has batches whose fate it does not know yet.
    pub fn busy_producer(&self) -> Option<NodeId> {
        self.busy(&self.producers)
    }

    /// Everything is read once more.
    pub fn begin_final_scan(&self) -> Scan {
        self.world.start(self.scanner);
        self.scan.clone()
    }

    /// All clients end.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// A client that has not ended.
    pub fn busy_client(&self) -> Option<NodeId> {
        self.busy(&self.producers).or_else(|| self.busy(&self.readers))
    }

    fn busy(&self, clients: &[NodeId]) -> Option<NodeId> {
        clients.iter().copied().find(|client| self.world.status(*client).is_alive())
    }
}

fn topics(config: &DrawnConfig) -> Vec<TopicPlan> {
    let topics = &config.topics;
    let mut properties = topics.properties.clone();
    properties.insert("min.insync.replicas".to_string(), topics.min_insync_replicas.to_string());
    (0..topics.count)
        .map(|number| TopicPlan {
            name: format!("sim-{number}"),
            partitions: i32::try_from(topics.partitions).expect("a checked scenario has few partitions"),
            properties: properties.clone(),
        })
        .collect()
}
