//! The session clients of a run: they speak ZooKeeper's protocol with the members of an ensemble over the simulated
//! network, each on a machine of its own, and tell the oracle what they did and saw.
//!
//! ```text
//!   run ─► client.rs (a session) ─┬─► link.rs (one connection) ──────────────────────► wire.rs (bytes)
//!            └─ activities/:        └─► library.rs ─► the product's client ─► library_ear.rs ─┘
//!               what it does, one file for each kind
//!   audit.rs: reads everything through each member at the end
//! ```
//! Some clients speak through the product's own library; others are bare connections, which can be silent, choose their
//! member and leave their session whenever they like.
//! Owns what clients do and how they judge a lost answer: unknown, never failed. Never looks into a member; all that is
//! left to chance comes from the workload's own streams of decisions, all durations from the client's own clock.

mod activities;
mod audit;
mod client;
mod config;
mod library;
mod library_ear;
mod link;
mod watch_book;
mod wire;

pub use audit::audit;
pub use config::{Activity, SessionsConfig};

use super::Chance;
use crate::{
    decisions::{Decisions, Stream},
    oracle::coordinator::{ClientId, CoordinatorEvent, OperationId},
};
use sillon_runtime::Runtime;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Who hears what clients do and see.
pub type Events = Arc<dyn Fn(CoordinatorEvent) + Send + Sync>;

/// What all session clients of a run share.
pub struct Shared {
    config: SessionsConfig,
    /// Each member's `myid`, host and port.
    members: Vec<(u32, String, u16)>,
    /// The stream of decisions of the first client.
    first_stream: u32,
    events: Events,
    stopped: AtomicBool,
    operations: AtomicU64,
    connections: AtomicU64,
    values: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Clients that will use these members, each named by its `myid`, host and port.
    ///
    /// # Panics
    /// Without a member, or with nothing to do.
    pub fn new(
        config: SessionsConfig,
        members: Vec<(u32, String, u16)>,
        first_stream: u32,
        events: Events,
    ) -> Arc<Shared> {
        assert!(!members.is_empty(), "clients need a member");
        assert!(!config.activities.is_empty(), "clients need something to do");
        Arc::new(Shared {
            config,
            members,
            first_stream,
            events,
            stopped: AtomicBool::new(false),
            operations: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            values: AtomicU64::new(0),
        })
    }

    /// All clients end: each with what it is about, and then with its session.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.config.timeout_ns)
    }

    fn next_operation(&self) -> OperationId {
        OperationId(self.operations.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Data that nobody else writes.
    fn next_value(&self, client: ClientId) -> Vec<u8> {
        let number = self.values.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{}.{number}", client.0).into_bytes()
    }
}

/// Runs one client until its work is over.
pub async fn run(runtime: Runtime, number: u32, shared: Arc<Shared>, decisions: Arc<Decisions>) {
    let chance = Chance { decisions, stream: Stream::Workload(shared.first_stream + number) };
    client::Client::new(runtime, ClientId(number), shared, chance).run().await;
}
