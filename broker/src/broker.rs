//! One broker: what it leads, what it is configured with, and how both follow the metadata.
//!
//! ```text
//!   metadata image ──► reconcile ──► partitions opened, grown, reconfigured, deleted ──► topics (what requests see)
//! ```
//! Owns the set of partitions. Never reads or writes a socket, and never answers a request itself (`api`).

use crate::{
    api::fetch_session::Sessions,
    cluster::Cluster,
    config::{BrokerConfig, listener::Listener, topic::Layers},
    log::{LogConfig, LogContext, LogDirectories, LogError},
    metadata::{
        Change, MetadataError, MetadataImage, MetadataStore, PartitionImage, TopicImage, image::ALL_BROKERS,
    },
    observe::{Observation, Observers},
    partition::Partition,
    producer_ids::ProducerIds,
    types::{LeaderEpoch, Offset, TopicId, TopicPartition},
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Runtime;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, RwLock},
};

/// A broker that has loaded its logs.
pub struct Broker {
    runtime: Runtime,
    config: BrokerConfig,
    /// The advertised listeners, with the ports that the sockets really have.
    advertised: Vec<Listener>,
    observers: Observers,
    metadata: Arc<dyn MetadataStore>,
    cluster: Arc<dyn Cluster>,
    directories: LogDirectories,
    topics: RwLock<Arc<Topics>>,
    sessions: Mutex<Sessions>,
    producer_ids: ProducerIds,
    /// Held while partitions are brought in line with the metadata.
    reconciling: tokio::sync::Mutex<()>,
}

/// What this broker leads, at one moment.
#[derive(Default)]
pub struct Topics {
    by_name: BTreeMap<Arc<str>, Arc<Topic>>,
    by_id: BTreeMap<TopicId, Arc<Topic>>,
}

/// One topic, as this broker leads it.
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id.
    pub id: TopicId,
    /// How many replicas must be in sync for acks=all.
    pub min_insync_replicas: usize,
    /// Its partitions by number; none where the log cannot be opened.
    partitions: Vec<Option<Arc<Partition>>>,
    image: Arc<TopicImage>,
}

impl Topics {
    /// The topic of that name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    /// The topic of that id.
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// All topics, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// All partitions whose logs are open.
    pub fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.iter().flat_map(|topic| topic.partitions.iter().flatten())
    }
}

impl Topic {
    /// A partition that is ready to serve.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, or KAFKA_STORAGE_ERROR where its log cannot be opened.
    pub fn partition(&self, index: i32) -> Result<&Arc<Partition>, ErrorCode> {
        match usize::try_from(index).ok().and_then(|index| self.partitions.get(index)) {
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Some(None) => Err(ErrorCode::KAFKA_STORAGE_ERROR),
            Some(Some(partition)) if partition.is_deleted() => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Some(Some(partition)) => Ok(partition),
        }
    }

    /// A partition's true state, as the metadata has it.
    pub fn partition_image(&self, index: i32) -> Option<&PartitionImage> {
        usize::try_from(index).ok().and_then(|index| self.image.partitions.get(index))
    }

    /// Its partitions by number; none where the log cannot be opened.
    pub fn partitions(&self) -> &[Option<Arc<Partition>>] {
        &self.partitions
    }
}

impl Broker {
    /// Takes the lead of everything that the metadata gives to this broker, in a new leader epoch.
    ///
    /// # Errors
    /// Where the metadata cannot be written. A log that cannot be opened does not stop the others.
    pub(crate) async fn start(
        runtime: Runtime,
        config: BrokerConfig,
        advertised: Vec<Listener>,
        observers: Observers,
        metadata: Arc<dyn MetadataStore>,
        cluster: Arc<dyn Cluster>,
        directories: LogDirectories,
    ) -> Result<Arc<Broker>, MetadataError> {
        let image = metadata.submit(Change::BeginLeadership { broker: config.broker_id }).await?;
        let broker = Arc::new(Broker {
            sessions: Mutex::new(Sessions::new(config.fetch_session_slots)),
            producer_ids: ProducerIds::new(cluster.clone()),
            topics: RwLock::default(),
            reconciling: tokio::sync::Mutex::new(()),
            runtime,
            config,
            advertised,
            observers,
            metadata,
            cluster,
            directories,
        });
        broker.reconcile(&image).await;
        broker.warn_of_strays().await;
        Ok(broker)
    }

    /// Logs that belong to no topic are left alone: only a person can say whether the metadata or the log is wrong.
    async fn warn_of_strays(&self) {
        match self.directories.unopened().await {
            Ok(strays) => {
                let image = self.image();
                let is_stray = |id: TopicId| image.topic_by_id(id).is_none();
                for stray in strays.into_iter().filter(|stray| stray.topic_id.is_none_or(is_stray)) {
                    tracing::warn!(path = %stray.path.display(), "the directory belongs to no topic of this cluster");
                }
            }
            Err(error) => tracing::warn!(%error, "the log directories cannot be looked through"),
        }
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
        self.metadata.image()
    }

    /// What this broker leads.
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

    /// Makes a change of the metadata and brings the partitions in line with it.
    ///
    /// # Errors
    /// Why the change was refused.
    pub async fn submit(&self, change: Change) -> Result<Arc<MetadataImage>, MetadataError> {
        let image = self.metadata.submit(change).await?;
        self.reconcile(&image).await;
        Ok(image)
    }

    /// Brings the partitions in line with the newest metadata; tries again what could not be opened before.
    pub(crate) async fn reconcile(&self, least: &MetadataImage) {
        let _reconciling = self.reconciling.lock().await;
        let image = self.metadata.image();
        assert!(image.position >= least.position, "metadata never goes back");
        let old = self.topics();
        let mut next = Topics::default();
        for (name, topic_image) in &image.topics {
            let known = old.by_name(name).filter(|topic| topic.id == topic_image.id);
            let topic = Arc::new(self.open_topic(name, topic_image, &image, known).await);
            next.by_name.insert(name.clone(), topic.clone());
            next.by_id.insert(topic.id, topic);
        }
        let gone: Vec<_> = old.iter().filter(|topic| !next.by_id.contains_key(&topic.id)).cloned().collect();
        *self.topics.write().expect("no writer panics") = Arc::new(next);
        for topic in gone {
            self.delete_topic(&topic).await;
        }
    }

    async fn open_topic(
        &self,
        name: &Arc<str>,
        topic: &Arc<TopicImage>,
        image: &MetadataImage,
        known: Option<&Arc<Topic>>,
    ) -> Topic {
        let layers = self.layers(image);
        let config = layers.log_config(&topic.configs);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (index, state) in (0..).zip(&topic.partitions) {
            let open = known.and_then(|known| known.partitions.get(index as usize).cloned().flatten());
            if let Some(partition) = open {
                partition.log().update_config(config.clone());
                partitions.push(Some(partition));
                continue;
            }
            let partition = TopicPartition { topic: name.clone(), partition: index };
            match self.open_partition(&partition, topic.id, state.leader_epoch, config.clone()).await {
                Ok(partition) => partitions.push(Some(partition)),
                Err(error) => {
                    tracing::error!(%partition, %error, "the log cannot be opened; it is tried again later");
                    partitions.push(None);
                }
            }
        }
        Topic {
            name: name.clone(),
            id: topic.id,
            min_insync_replicas: layers.min_insync_replicas(&topic.configs),
            partitions,
            image: topic.clone(),
        }
    }

    async fn open_partition(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        config: LogConfig,
    ) -> Result<Arc<Partition>, LogError> {
        let log = match self.directories.open_log(partition, topic_id, config.clone()).await {
            Err(LogError::InconsistentTopicId { path, found, .. })
                if self.image().topic_by_id(found).is_none() =>
            {
                // A topic of that name was deleted, and the broker stopped before its directory was gone.
                tracing::warn!(path = %path.display(), topic_id = %found, "removing the log of a topic that was deleted");
                self.directories.delete_log(partition).await?;
                self.directories.open_log(partition, topic_id, config).await?
            }
            log => log?,
        };
        let high_watermark =
            self.directories.checkpointed_high_watermark(partition).await.unwrap_or(Offset::ZERO);
        Partition::lead(
            partition.clone(),
            topic_id,
            log,
            leader_epoch,
            high_watermark,
            self.observers.clone(),
        )
        .await
    }

    async fn delete_topic(&self, topic: &Topic) {
        for partition in topic.partitions.iter().flatten() {
            partition.mark_deleted();
        }
        self.observers.tell(|| Observation::TopicDeleted { topic: &topic.name, topic_id: topic.id });
        for index in 0..topic.image.partitions.len() {
            let partition = TopicPartition { topic: topic.name.clone(), partition: index as i32 };
            if let Err(error) = self.directories.delete_log(&partition).await {
                tracing::error!(%partition, %error, "the log of a deleted topic cannot be removed");
            }
        }
    }

    /// Opens again what a failed write or sync, or a failed opening, took offline.
    pub(crate) async fn reopen_offline(&self) {
        let topics = self.topics();
        for partition in topics.partitions().filter(|partition| partition.log().is_offline().is_some()) {
            match partition.reopen().await {
                Ok(()) => tracing::info!(partition = %partition.name(), "the log is online again"),
                Err(error) => tracing::warn!(partition = %partition.name(), %error, "the log stays offline"),
            }
        }
        if topics.iter().any(|topic| topic.partitions.iter().any(Option::is_none)) {
            self.reconcile(&self.image()).await;
        }
    }

    /// Closes every log and leaves the marker that says so. Nothing may be appended any more.
    ///
    /// # Errors
    /// Where something could not be made durable; the next start then recovers as after a crash.
    pub(crate) async fn stop(&self) -> Result<(), LogError> {
        let topics = self.topics();
        for partition in topics.partitions() {
            partition.log().close().await?;
        }
        self.checkpoint_high_watermarks().await?;
        self.directories.close().await
    }

    /// Writes all high watermarks to their checkpoint.
    pub(crate) async fn checkpoint_high_watermarks(&self) -> Result<(), LogError> {
        let topics = self.topics();
        let high_watermarks = topics
            .partitions()
            .map(|partition| (partition.name().clone(), partition.high_watermark()))
            .collect();
        self.directories.checkpoint_high_watermarks(high_watermarks).await
    }
}

/// What the logs of a broker need of their surroundings.
pub(crate) fn log_context(runtime: &Runtime, observers: &Observers) -> LogContext {
    LogContext { runtime: runtime.clone(), observers: observers.clone() }
}
