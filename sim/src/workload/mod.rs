//! The clients of a run: producers and readers that speak Kafka's protocol over the simulated network, each on a
//! machine of its own, and tell the oracle what they did and saw.
//!
//! ```text
//!   Role ─► producer.rs ── outbox.rs (what is unresolved, pure) ─┐   directory.rs ─► link.rs ─► sillon-client
//!        ├► reader.rs ──── session.rs, fetching.rs ──────────────┼─►      └─ routes.rs (who leads what, pure)
//!        ├► member.rs (a consumer of sillon-client)             │
//!        ├► lister.rs ───────────────────────────────────────────┤
//!        └► admin.rs ────────────────────────────────────────────┤
//!   final_scan (scan.rs) ────────────────────────────────────────┘
//! ```
//! Owns what clients do and how they judge an answer (confirmed, failed, unknown). Never looks into a broker; all that
//! is left to chance comes from the workload's own streams of decisions, all durations from the client's own clock.

mod admin;
mod config;
pub mod coordinator;
mod directory;
mod fetching;
mod link;
mod lister;
mod member;
mod offsets;
mod outbox;
mod producer;
mod reader;
mod routes;
mod scan;
mod session;
mod topics;
mod value;

pub use config::{AdminConfig, Assignor, Compression, GroupsConfig, TopicPlan, WorkloadConfig};
pub use member::Place;
pub use scan::final_scan;

use crate::{
    decisions::{Decisions, Stream},
    oracle::ClientEvent,
};
use sillon_runtime::Runtime;
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Who hears what clients do and see.
pub type Events = Arc<dyn Fn(ClientEvent) + Send + Sync>;

/// What one client does. Its number is also that of its stream of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sends.
    Producer(u32),
    /// Reads.
    Reader(u32),
    /// Does what an operator does.
    Admin(u32),
    /// Asks for the latest offsets.
    Lister(u32),
    /// A member of a consumer group.
    Member(u32, Place),
}

/// The clients of a run, in the order of their numbers.
pub fn roles(config: &WorkloadConfig, admin: &AdminConfig, groups: &GroupsConfig) -> Vec<Role> {
    let producers = (0..config.producers).map(Role::Producer);
    let readers = (config.producers..config.producers + config.readers).map(Role::Reader);
    let administrators = admin.is_there().then_some(Role::Admin(config.producers + config.readers));
    let next = config.producers + config.readers + u32::from(admin.is_there());
    let listers = (config.latest_every_ns > 0).then_some(Role::Lister(next));
    let next = next + u32::from(config.latest_every_ns > 0);
    let places =
        (0..groups.count).flat_map(|group| (0..groups.members).map(move |slot| Place { group, slot }));
    let members = (next..).zip(places).map(|(client, place)| Role::Member(client, place));
    producers.chain(readers).chain(administrators).chain(listers).chain(members).collect()
}

/// What all clients of a run share.
pub struct Shared {
    config: WorkloadConfig,
    admin: AdminConfig,
    groups: GroupsConfig,
    /// The groups of which all members are away for a while.
    resting: Mutex<BTreeSet<u32>>,
    topics: Vec<TopicPlan>,
    brokers: Vec<(String, u16)>,
    /// The rack of each broker; empty where they stand in none.
    racks: Vec<String>,
    events: Events,
    administering_is_over: AtomicBool,
    producing_is_over: AtomicBool,
    stopped: AtomicBool,
    /// The topics that the oracle was told of.
    topics_told: Mutex<BTreeSet<topics::Id>>,
    /// The next counter of each producer; kept here, so that a client that starts again makes no record twice.
    counters: Vec<AtomicU64>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Clients that will use these topics on these brokers.
    ///
    /// # Panics
    /// Without a topic, a partition, a broker or a codec.
    pub fn new(
        (config, admin, groups): (WorkloadConfig, AdminConfig, GroupsConfig),
        topics: Vec<TopicPlan>,
        brokers: Vec<(String, u16)>,
        racks: Vec<String>,
        events: Events,
    ) -> Arc<Shared> {
        assert!(topics.iter().any(|plan| plan.partitions > 0), "clients need a partition");
        assert!(!brokers.is_empty(), "clients need a broker");
        assert!(!config.compression.is_empty(), "batches need a codec, if only none");
        let counters = (0..config.producers).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Shared {
            config,
            admin,
            groups,
            resting: Mutex::default(),
            topics,
            brokers,
            racks,
            events,
            administering_is_over: AtomicBool::new(false),
            producing_is_over: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            topics_told: Mutex::default(),
            counters,
        })
    }

    /// The operator begins nothing new, and ends when all of its topics are there.
    pub fn stop_administering(&self) {
        self.administering_is_over.store(true, Ordering::Relaxed);
    }

    fn is_administering_over(&self) -> bool {
        self.administering_is_over.load(Ordering::Relaxed)
    }

    /// Producers make no new batches; each ends when all of its batches have their results.
    pub fn stop_producing(&self) {
        self.producing_is_over.store(true, Ordering::Relaxed);
    }

    /// All clients end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_producing_over(&self) -> bool {
        self.producing_is_over.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn request_timeout(&self) -> Duration {
        Duration::from_nanos(self.config.request_timeout_ns)
    }

    /// Whether this is the first that any client hears of a topic.
    fn is_new_topic(&self, id: topics::Id) -> bool {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.topics_told.lock().unwrap_or_else(PoisonError::into_inner).insert(id)
    }

    /// The topics that stay.
    fn lasting_topics(&self) -> impl Iterator<Item = &str> {
        self.topics.iter().filter(|plan| !plan.comes_and_goes).map(|plan| &*plan.name)
    }

    /// Whether a group's members are all to be away.
    fn is_group_resting(&self, group: u32) -> bool {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).contains(&group)
    }

    /// A group's members are all to be away from now on, or to come back.
    fn rest_group(&self, group: u32, rests: bool) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        if rests {
            resting.insert(group);
        } else {
            resting.remove(&group);
        }
    }

    /// Whether a topic may be another one of the same name some time.
    fn comes_and_goes(&self, topic: &str) -> bool {
        self.topics.iter().any(|plan| plan.name == topic && plan.comes_and_goes)
    }

    /// The first of so many counters that were never used before.
    fn take_counters(&self, client: u32, count: u32) -> u64 {
        self.counters[client as usize].fetch_add(u64::from(count), Ordering::Relaxed)
    }
}

/// One client's share of chance.
struct Chance {
    decisions: Arc<Decisions>,
    stream: Stream,
}

impl Chance {
    fn draw(&self, what: &'static str, low: u64, high: u64) -> u64 {
        self.decisions.draw(self.stream, what, low, high)
    }
}

/// Runs one client until its work is over.
pub async fn run(runtime: Runtime, role: Role, shared: Arc<Shared>, decisions: Arc<Decisions>) {
    match role {
        Role::Producer(client) => {
            let chance = Chance { decisions, stream: Stream::Workload(client) };
            producer::run(runtime, client, shared, chance).await;
        }
        Role::Reader(client) => {
            let chance = Chance { decisions, stream: Stream::Workload(client) };
            reader::run(runtime, client, shared, chance).await;
        }
        Role::Admin(client) => {
            let chance = Chance { decisions, stream: Stream::Workload(client) };
            admin::run(runtime, client, shared, chance).await;
        }
        Role::Lister(client) => lister::run(runtime, client, shared).await,
        Role::Member(client, place) => {
            let chance = Chance { decisions, stream: Stream::Workload(client) };
            member::run(runtime, client, place, shared, chance).await;
        }
    }
}

#[cfg(test)]
mod tests;
