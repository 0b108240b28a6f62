//! The clients of a run: each on a machine of its own. Owns their machines; what they do is the workload's.

use super::{brokers::PORT, cluster::Cluster};
use crate::{
    profile::{self, Part},
    scenario::{CLIENT_PORT, DrawnConfig, DrawnEnsemble},
    workload::{Role, Shared, TopicPlan, coordinator, final_scan, roles, run},
    world::{NodeId, World, boot},
};
use std::sync::{Arc, OnceLock};

/// All clients of a run.
pub(super) struct Clients {
    world: Arc<World>,
    of_brokers: Option<BrokerClients>,
    of_ensemble: Option<SessionClients>,
}

/// Those that speak to brokers.
struct BrokerClients {
    shared: Arc<Shared>,
    producers: Vec<NodeId>,
    /// Those that read, alone or as members of groups, and the one that asks for the latest offsets.
    readers: Vec<NodeId>,
    /// The operator, where there is one.
    administrators: Vec<NodeId>,
    scanner: NodeId,
    scan: Scan,
}

/// Those that speak to the ensemble.
struct SessionClients {
    shared: Arc<coordinator::Shared>,
    clients: Vec<NodeId>,
    auditor: NodeId,
    audit: Scan,
}

/// The scan at the end, under way or done.
#[derive(Clone, Default)]
struct Scan(Arc<OnceLock<Result<(), String>>>);

/// What could not be read at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The brokers' partitions.
    Partitions(String),
    /// The ensemble's tree.
    Tree(String),
}

impl Clients {
    /// Adds the machines. Nothing runs yet.
    pub fn new(world: &Arc<World>, cluster: &Arc<Cluster>) -> Clients {
        let of_brokers = BrokerClients::new(world, cluster);
        let ensemble = cluster.config.ensemble.as_ref();
        let of_ensemble = ensemble.and_then(|ensemble| SessionClients::new(world, cluster, ensemble));
        Clients { world: world.clone(), of_brokers, of_ensemble }
    }

    /// All but the scans begin.
    pub fn start(&self) {
        let of_brokers = self.of_brokers.iter().flat_map(|clients| {
            clients.producers.iter().chain(&clients.readers).chain(&clients.administrators)
        });
        let of_ensemble = self.of_ensemble.iter().flat_map(|clients| &clients.clients);
        for client in of_brokers.chain(of_ensemble) {
            self.world.start(*client);
        }
    }

    /// The operator begins nothing new.
    pub fn stop_administering(&self) {
        if let Some(clients) = &self.of_brokers {
            clients.shared.stop_administering();
        }
    }

    /// Producers make no new batches, and session clients end.
    pub fn stop_producing(&self) {
        if let Some(clients) = &self.of_brokers {
            clients.shared.stop_producing();
        }
        if let Some(clients) = &self.of_ensemble {
            clients.shared.stop();
        }
    }

    /// A producer that has batches whose fate it does not know yet, or a session client that has not ended.
    pub fn busy_producer(&self) -> Option<NodeId> {
        let producer = self.of_brokers.as_ref().and_then(|clients| self.busy(&clients.producers));
        producer.or_else(|| self.of_ensemble.as_ref().and_then(|clients| self.busy(&clients.clients)))
    }

    /// Everything is read once more.
    pub fn begin_final_scan(&self) {
        if let Some(clients) = &self.of_brokers {
            self.world.start(clients.scanner);
        }
        if let Some(clients) = &self.of_ensemble {
            self.world.start(clients.auditor);
        }
    }

    /// What has come of reading everything; nothing while it is under way.
    pub fn final_scan(&self) -> Option<Result<(), Unreadable>> {
        if let Some(clients) = &self.of_brokers
            && let Err(text) = clients.scan.0.get()?
        {
            return Some(Err(Unreadable::Partitions(text.clone())));
        }
        if let Some(clients) = &self.of_ensemble
            && let Err(text) = clients.audit.0.get()?
        {
            return Some(Err(Unreadable::Tree(text.clone())));
        }
        Some(Ok(()))
    }

    /// That the scan does not end.
    pub fn endless_scan(&self) -> Unreadable {
        let text = "the scan does not end".to_string();
        let of_brokers = self.of_brokers.as_ref().filter(|clients| clients.scan.0.get().is_none());
        if of_brokers.is_some() { Unreadable::Partitions(text) } else { Unreadable::Tree(text) }
    }

    /// All clients end.
    pub fn stop(&self) {
        if let Some(clients) = &self.of_brokers {
            clients.shared.stop();
        }
    }

    /// A client that has not ended.
    pub fn busy_client(&self) -> Option<NodeId> {
        let of_brokers = self.of_brokers.as_ref();
        let reader = of_brokers.and_then(|clients| self.busy(&clients.readers));
        let operator = of_brokers.and_then(|clients| self.busy(&clients.administrators));
        self.busy_producer().or(reader).or(operator)
    }

    fn busy(&self, clients: &[NodeId]) -> Option<NodeId> {
        clients.iter().copied().find(|client| self.world.status(*client).is_alive())
    }
}

impl BrokerClients {
    fn new(world: &Arc<World>, cluster: &Arc<Cluster>) -> Option<BrokerClients> {
        let config = &cluster.config;
        let oracle = cluster.judges.brokers.clone()?;
        let brokers = (0..config.brokers).map(|node| (cluster.machines.name(node), PORT)).collect();
        let events_news = cluster.news.clone();
        let events = Arc::new(move |event| {
            let _counted = profile::within(Part::Oracle);
            oracle.client_event(event);
            if oracle.first_violation().is_some() {
                events_news.notify_one();
            }
        });
        let what = (config.workload.clone(), config.admin.clone(), config.groups.clone());
        let shared = Shared::new(what, topics(config), brokers, config.racks.clone(), events);
        let (mut producers, mut readers, mut administrators) = (Vec::new(), Vec::new(), Vec::new());
        for role in roles(&config.workload, &config.admin, &config.groups) {
            let (list, name) = match role {
                Role::Producer(client) => (&mut producers, format!("producer-{client}")),
                Role::Reader(client) => (&mut readers, format!("reader-{client}")),
                Role::Member(client, _) => (&mut readers, format!("member-{client}")),
                Role::Lister(client) => (&mut readers, format!("lister-{client}")),
                Role::Admin(client) => (&mut administrators, format!("admin-{client}")),
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
        Some(BrokerClients { shared, producers, readers, administrators, scanner, scan })
    }
}

impl SessionClients {
    fn new(world: &Arc<World>, cluster: &Arc<Cluster>, ensemble: &DrawnEnsemble) -> Option<SessionClients> {
        if ensemble.sessions.clients == 0 {
            return None;
        }
        let oracle = cluster.judges.ensemble.clone()?;
        let machines = cluster.machines;
        let members = (machines.brokers..machines.count())
            .map(|node| (machines.member_id(node), machines.name(node), CLIENT_PORT))
            .collect();
        let news = cluster.news.clone();
        let of_world = Arc::downgrade(world);
        let events = Arc::new(move |event| {
            let _counted = profile::within(Part::Oracle);
            if let Some(world) = of_world.upgrade() {
                super::session_trace::trace(&world, &event);
            }
            oracle.client_event(event);
            if oracle.first_violation().is_some() {
                news.notify_one();
            }
        });
        // Streams of decisions are numbered over all clients of a run.
        let first_stream = match machines.brokers {
            0 => 0,
            _ => roles(&cluster.config.workload, &cluster.config.admin, &cluster.config.groups).len() as u32,
        };
        let shared = coordinator::Shared::new(ensemble.sessions.clone(), members, first_stream, events);
        let client = |number: u32| {
            let (shared, decisions) = (shared.clone(), world.decisions().clone());
            let program =
                boot(move |runtime| coordinator::run(runtime, number, shared.clone(), decisions.clone()));
            world.add_node(&format!("session-{number}"), program)
        };
        let clients = (0..ensemble.sessions.clients).map(client).collect();
        let audit = Scan::default();
        let (result, audited, decisions) = (audit.clone(), shared.clone(), world.decisions().clone());
        let program = boot(move |runtime| {
            let (result, audited, decisions) = (result.clone(), audited.clone(), decisions.clone());
            async move {
                // Nobody else sets it: the auditor is started once.
                let _ = result.0.set(coordinator::audit(runtime, audited, decisions).await);
            }
        });
        let auditor = world.add_node("auditor", program);
        Some(SessionClients { shared, clients, auditor, audit })
    }
}

fn topics(config: &DrawnConfig) -> Vec<TopicPlan> {
    let topics = &config.topics;
    let mut properties = topics.properties.clone();
    properties.insert("min.insync.replicas".to_string(), topics.min_insync_replicas.to_string());
    let small = "a checked scenario has few partitions and replicas";
    let plan = |name| TopicPlan {
        name,
        partitions: i32::try_from(topics.partitions).expect(small),
        replication_factor: i16::try_from(topics.replication_factor).expect(small),
        comes_and_goes: false,
        properties: properties.clone(),
    };
    let mut all: Vec<TopicPlan> = (0..topics.count).map(|number| plan(format!("sim-{number}"))).collect();
    all.extend(config.admin.topics_beside(&plan(String::new())));
    all
}
