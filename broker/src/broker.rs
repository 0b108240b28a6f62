//! One broker: what it holds, what it is configured with, and how both follow the metadata.
//!
//! ```text
//!   metadata image ──► reconcile ──► replicas opened, led, followed, reconfigured, removed ──► topics (what requests see)
//! ```
//! Owns the set of replicas. Never reads or writes a socket, and never answers a request itself (`api`).

mod reconcile;
mod throttles;
mod topics;

use topics::Replica;
pub use topics::{Topic, Topics};

use crate::{
    api::fetch_session::Sessions,
    cluster::Cluster,
    config::{BrokerConfig, listener::Listener, topic::Layers},
    group::Groups,
    log::{LogContext, LogDirectories, LogError},
    metadata::{MetadataImage, MetadataPosition, departed::Departed, image::ALL_BROKERS},
    observe::Observers,
    producer_ids::ProducerIds,
    replication::{Outbox, Replication},
};
use sillon_runtime::Runtime;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};
use throttles::Throttles;

/// A broker that has loaded its logs.
pub struct Broker {
    /// For tasks that outlive a request.
    this: Weak<Broker>,
    runtime: Runtime,
    config: BrokerConfig,
    /// The advertised listeners, with the ports that the sockets really have.
    advertised: Vec<Listener>,
    observers: Observers,
    cluster: Arc<dyn Cluster>,
    directories: LogDirectories,
    topics: RwLock<Arc<Topics>>,
    sessions: Mutex<Sessions>,
    producer_ids: ProducerIds,
    groups: Groups,
    replication: Replication,
    departed: Mutex<Departed>,
    outbox: Arc<Outbox>,
    throttles: Throttles,
    /// Held while replicas are brought in line with the metadata; the image that they are in line with.
    reconciling: tokio::sync::Mutex<Option<Arc<MetadataImage>>>,
}

impl Broker {
    /// A broker that is in line with the metadata, as far as there is any. A log that cannot be opened does not stop the
    /// others.
    pub(crate) async fn start(
        runtime: Runtime,
        config: BrokerConfig,
        advertised: Vec<Listener>,
        observers: Observers,
        cluster: Arc<dyn Cluster>,
        directories: LogDirectories,
    ) -> Arc<Broker> {
        let broker = Arc::new_cyclic(|this| Broker {
            this: this.clone(),
            sessions: Mutex::new(Sessions::new(config.fetch_session_slots)),
            producer_ids: ProducerIds::new(cluster.clone()),
            groups: Groups::new(&config.groups),
            topics: RwLock::default(),
            replication: Replication::default(),
            departed: Mutex::default(),
            outbox: Arc::default(),
            throttles: Throttles::default(),
            reconciling: tokio::sync::Mutex::new(None),
            runtime,
            config,
            advertised,
            observers,
            cluster,
            directories,
        });
        let image = broker.image();
        // Nothing is known before the first metadata, least of all that a log belongs to nobody.
        if image.position > MetadataPosition::default() {
            broker.reconcile(&image).await;
        }
        broker
    }

    fn strong(&self) -> Arc<Broker> {
        self.this.upgrade().expect("whoever calls a broker holds it")
    }

    /// The world.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The broker's file.
    pub fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// The addresses told to clients.
    pub fn advertised(&self) -> &[Listener] {
        &self.advertised
    }

    /// Who listens to this broker's facts.
    pub fn observers(&self) -> &Observers {
        &self.observers
    }

    /// This broker as a member of its cluster.
    pub fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.cluster
    }

    /// The newest metadata.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.cluster.image()
    }

    /// What this broker holds.
    pub fn topics(&self) -> Arc<Topics> {
        self.topics.read().expect("no writer panics").clone()
    }

    /// The incremental fetch sessions.
    pub fn sessions(&self) -> &Mutex<Sessions> {
        &self.sessions
    }

    /// Gives out producer ids.
    pub fn producer_ids(&self) -> &ProducerIds {
        &self.producer_ids
    }

    /// The groups that this broker coordinates.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The partitions that have in-sync replicas to propose.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Which brokers clients are still told of although they have gone.
    pub(crate) fn departed(&self) -> MutexGuard<'_, Departed> {
        self.departed.lock().expect("no holder panics")
    }

    /// What is fetched from whom.
    pub(crate) fn replication(&self) -> &Replication {
        &self.replication
    }

    /// The log directories.
    pub fn directories(&self) -> &LogDirectories {
        &self.directories
    }

    /// The layers of configuration under an image.
    pub fn layers<'a>(&'a self, image: &'a MetadataImage) -> Layers<'a> {
        Layers {
            file: &self.config,
            dynamic_broker: image.broker_config(self.config.broker_id),
            dynamic_default: image.broker_config(ALL_BROKERS),
        }
    }

    /// Closes every log and leaves the marker that says so. Nothing may be appended any more.
    ///
    /// # Errors
    /// Where something could not be made durable; the next start then recovers as after a crash.
    pub(crate) async fn stop(&self) -> Result<(), LogError> {
        self.groups.stop();
        let topics = self.topics();
        for partition in topics.partitions() {
            partition.close().await?;
        }
        self.replication.stop();
        self.checkpoint_high_watermarks().await?;
        self.directories.close().await
    }
}

/// What the logs of a broker need of their surroundings.
pub(crate) fn log_context(runtime: &Runtime, observers: &Observers) -> LogContext {
    LogContext { runtime: runtime.clone(), observers: observers.clone() }
}
