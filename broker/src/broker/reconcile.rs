//! Bringing this broker in line with the metadata: replicas opened, given their roles, reconfigured, removed.
//!
//! ```text
//!   new image ──► topics that changed ──► replicas that changed ──► open / lead / follow (+ who is fetched from) / remove
//! ```
//! Owns the order, and that nothing older than what was applied is ever applied (I34). What did not change is shared
//! with what was before: an image in which one partition changed costs a look at each topic, and no more.

use super::{Broker, Replica, Topic, Topics};
use crate::{
    config::topic::Layers,
    join::join_all,
    log::{LogConfig, LogError},
    metadata::{MetadataImage, MetadataPosition, PartitionImage, TopicImage},
    observe::Observation,
    partition::{Opened, Partition, leader::LeaderSettings},
    replication::throttle::ThrottledReplicas,
    types::{Offset, TopicId, TopicPartition},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// So many topics are brought in line at the same time, and of each so many replicas: taking the lead waits for the disk,
/// and the disk takes many at a time.
const TOPICS_AT_A_TIME: usize = 16;
const REPLICAS_AT_A_TIME: usize = 64;

impl Broker {
    /// Brings the replicas in line with the newest metadata; tries again what could not be opened before.
    pub(crate) async fn reconcile(&self, least: &MetadataImage) {
        let mut applied = self.reconciling.lock().await;
        let image = self.cluster.image();
        assert!(image.position >= least.position, "metadata never goes back");
        if applied.as_ref().is_some_and(|applied| image.position < applied.position) {
            return;
        }
        let configs_changed =
            applied.as_ref().is_none_or(|applied| applied.broker_configs != image.broker_configs);
        if configs_changed {
            self.throttles.set(&self.layers(&image), self.runtime.now());
        }
        let old = self.topics();
        self.remove_gone(&old, &image).await;
        let mut next = Topics::default();
        let mut changed = Vec::new();
        for (name, topic_image) in &image.topics {
            let known = old.by_name(name).filter(|topic| topic.id == topic_image.id);
            let as_before = known.filter(|topic| {
                !configs_changed && topic.is_complete() && Arc::ptr_eq(&topic.image, topic_image)
            });
            match as_before {
                Some(topic) => next.insert(topic.clone()),
                None => changed.push((name, topic_image, known)),
            }
        }
        for some in changed.chunks(TOPICS_AT_A_TIME) {
            let updates =
                some.iter().map(|(name, topic, known)| self.update_topic(name, topic, &image, *known));
            let updated = join_all(updates.collect()).await;
            updated.into_iter().for_each(|topic| next.insert(Arc::new(topic)));
        }
        *self.topics.write().expect("no writer panics") = Arc::new(next);
        self.groups.follow_roles(self);
        if applied.as_ref().is_none_or(|applied| applied.brokers != image.brokers) {
            self.replication.brokers_changed();
            self.departed().note(&image, self.runtime.now());
        }
        let nothing = MetadataPosition::default();
        let knew_nothing = applied.as_ref().is_none_or(|applied| applied.position == nothing);
        if knew_nothing && image.position > nothing {
            self.remove_strays(&image).await;
        }
        *applied = Some(image);
    }

    /// Topics that are gone, or whose name another topic has now, go before anything is opened under their names.
    async fn remove_gone(&self, old: &Topics, image: &MetadataImage) {
        for topic in old.iter().filter(|topic| image.topic_by_id(topic.id).is_none()) {
            for partition in topic.here() {
                self.remove_replica(partition).await;
            }
            self.groups.topic_deleted(&topic.name);
            self.observers.tell(|| Observation::TopicDeleted { topic: &topic.name, topic_id: topic.id });
        }
    }

    async fn remove_replica(&self, partition: &Partition) {
        let name = partition.name();
        self.replication.forget((partition.topic_id(), name.partition));
        partition.remove().await;
        if let Err(error) = self.directories.delete_log(name).await {
            tracing::error!(partition = %name, %error, "the log of a removed replica stays on disk");
        }
    }

    async fn update_topic(
        &self,
        name: &Arc<str>,
        topic: &Arc<TopicImage>,
        image: &MetadataImage,
        known: Option<&Arc<Topic>>,
    ) -> Topic {
        let layers = self.layers(image);
        let log_config = layers.log_config(&topic.configs);
        let settings = self.leader_settings(&layers, topic);
        let is_reconfigured =
            known.is_none_or(|known| known.log_config != log_config || known.settings != settings);
        let is_known = self.cluster.is_known_to(image);
        let mut replicas = BTreeMap::new();
        for some in self.leaders_first(topic, known).chunks(REPLICAS_AT_A_TIME) {
            let updates = some.iter().map(|number| async {
                let state = &topic.partitions[*number];
                let old = known.and_then(|known| known.replicas.get(*number));
                let old_state = known.and_then(|known| known.image.partitions.get(*number));
                let is_settled = !is_reconfigured && old_state == Some(state);
                if let (true, Some(old @ (Replica::Here(_) | Replica::Elsewhere))) = (is_settled, old) {
                    return old.clone();
                }
                let here = match old {
                    Some(Replica::Here(partition)) => Some(partition),
                    _ => None,
                };
                let name = TopicPartition { topic: name.clone(), partition: *number as i32 };
                let wanted =
                    Wanted { name, topic_id: topic.id, state, config: &log_config, settings, is_known };
                self.update_replica(wanted, here).await
            });
            replicas.extend(some.iter().copied().zip(join_all(updates.collect()).await));
        }
        let throttled = |key: &str| {
            topic.configs.get(key).map_or_else(Default::default, |list| ThrottledReplicas::parse(list))
        };
        Topic {
            name: name.clone(),
            id: topic.id,
            settings,
            throttled_leaders: throttled("leader.replication.throttled.replicas"),
            throttled_followers: throttled("follower.replication.throttled.replicas"),
            log_config,
            replicas: replicas.into_values().collect(),
            image: topic.clone(),
        }
    }

    /// A topic's partitions, those first that this broker begins to lead: nobody serves them until it does, and that
    /// waits for the disk.
    fn leaders_first(&self, topic: &TopicImage, known: Option<&Arc<Topic>>) -> Vec<usize> {
        let me = Some(self.config.broker_id);
        let mut numbers: Vec<usize> = (0..topic.partitions.len()).collect();
        numbers.sort_by_key(|number| {
            let led = known.and_then(|known| known.image.partitions.get(*number)?.leader);
            topic.partitions[*number].leader != me || led == me
        });
        numbers
    }

    fn leader_settings(&self, layers: &Layers<'_>, topic: &TopicImage) -> LeaderSettings {
        LeaderSettings {
            min_insync_replicas: layers.min_insync_replicas(&topic.configs),
            lag_limit: Duration::from_millis(self.config.replication.lag_time_max_ms),
        }
    }

    async fn update_replica(&self, wanted: Wanted<'_>, here: Option<&Arc<Partition>>) -> Replica {
        if !wanted.state.replicas.contains(&self.config.broker_id) {
            if let Some(partition) = here {
                tracing::info!(partition = %wanted.name, "this broker holds it no longer; its log is removed");
                self.remove_replica(partition).await;
            }
            return Replica::Elsewhere;
        }
        let partition = match here {
            Some(partition) => {
                partition.log().update_config(wanted.config.clone());
                partition.clone()
            }
            None => match self.open_replica(&wanted).await {
                Ok(partition) => partition,
                Err(error) => {
                    tracing::error!(partition = %wanted.name, %error, "the log cannot be opened; it is tried again later");
                    return Replica::Closed;
                }
            },
        };
        self.give_role(&partition, wanted.state, wanted.settings, wanted.is_known).await;
        Replica::Here(partition)
    }

    /// Has a replica lead or follow. Where its log cannot take that in it is offline, and this is repeated once it was
    /// opened again.
    ///
    /// Nobody begins to lead before the controller knows this process (`is_known`): in the same epoch the process before
    /// may have written records that were lost with it. Once it is known, whatever it leads it leads in a new epoch.
    async fn give_role(
        &self,
        partition: &Arc<Partition>,
        state: &PartitionImage,
        settings: LeaderSettings,
        is_known: bool,
    ) {
        let leads_already = partition.is_leader() && partition.leader_epoch() == state.leader_epoch;
        let is_for_another = state.leader == Some(self.config.broker_id) && !is_known && !leads_already;
        let led_by_nobody = is_for_another.then(|| PartitionImage { leader: None, ..state.clone() });
        let state = led_by_nobody.as_ref().unwrap_or(state);
        if let Err(error) = partition.follow_metadata(state, settings, self.runtime.now()).await {
            tracing::error!(partition = %partition.name(), %error, "the replica cannot take its role");
        }
        let leader = partition.following().map(|(leader, _)| leader);
        self.replication.assign(
            &self.strong(),
            partition,
            leader.filter(|leader| *leader != self.config.broker_id),
        );
    }

    async fn open_replica(&self, wanted: &Wanted<'_>) -> Result<Arc<Partition>, LogError> {
        let Wanted { name, topic_id, config, .. } = wanted;
        let log = match self.directories.open_log(name, *topic_id, (*config).clone()).await {
            Err(LogError::InconsistentTopicId { path, found, .. })
                if self.image().topic_by_id(found).is_none() =>
            {
                // A topic of that name was deleted, and the broker stopped before its directory was gone.
                tracing::warn!(path = %path.display(), topic_id = %found, "removing the log of a topic that was deleted");
                self.observers.tell(|| Observation::ReplicaRemoved { partition: name, topic_id: found });
                self.directories.delete_log(name).await?;
                self.directories.open_log(name, *topic_id, (*config).clone()).await?
            }
            log => log?,
        };
        let noted = self.directories.checkpointed_high_watermark(name).await;
        let opened = Opened {
            name: name.clone(),
            topic_id: *topic_id,
            me: self.config.broker_id,
            log,
            checkpointed_high_watermark: noted.unwrap_or(Offset::ZERO),
        };
        Ok(Partition::new(opened, self.observers.clone(), self.outbox.clone()))
    }

    /// Logs on disk that the metadata gives to nobody, or to others: they are removed. One that does not say whose it is
    /// is left for a person to judge.
    async fn remove_strays(&self, image: &MetadataImage) {
        let strays = match self.directories.unopened().await {
            Ok(strays) => strays,
            Err(error) => {
                tracing::warn!(%error, "the log directories cannot be looked through");
                return;
            }
        };
        for stray in strays {
            let path = stray.path.display();
            let Some(topic_id) = stray.topic_id else {
                tracing::warn!(%path, "the directory does not say to which topic it belongs; it is left alone");
                continue;
            };
            if self.is_ours(image, topic_id, stray.partition.partition) {
                continue;
            }
            tracing::info!(%path, %topic_id, "this broker holds that partition no longer; its log is removed");
            self.observers.tell(|| Observation::ReplicaRemoved { partition: &stray.partition, topic_id });
            if let Err(error) = self.directories.delete_log(&stray.partition).await {
                tracing::error!(%path, %error, "the log stays on disk");
            }
        }
    }

    fn is_ours(&self, image: &MetadataImage, topic: TopicId, partition: i32) -> bool {
        let topic = image.topic_by_id(topic).map(|(_, topic)| topic);
        let state = topic.and_then(|topic| topic.partition(partition));
        state.is_some_and(|state| state.replicas.contains(&self.config.broker_id))
    }

    /// Opens again what a failed write or sync, or a failed opening, took offline.
    pub(crate) async fn reopen_offline(&self) {
        let topics = self.topics();
        for topic in topics.iter() {
            for partition in topic.here().filter(|partition| is_to_be_reopened(partition)) {
                match partition.reopen().await {
                    Ok(()) => tracing::info!(partition = %partition.name(), "the log is online again"),
                    Err(error) => {
                        tracing::warn!(partition = %partition.name(), %error, "the log stays offline");
                        continue;
                    }
                }
                let _reconciling = self.reconciling.lock().await;
                let (newest, index) = (self.topics(), partition.name().partition);
                // It may have been removed meanwhile, or have another one in its place.
                let is_same = |topic: &&Arc<Topic>| {
                    topic.partition(index).is_ok_and(|newest| Arc::ptr_eq(newest, partition))
                };
                if let Some(topic) = newest.by_id(topic.id).filter(is_same)
                    && let Some(state) = topic.partition_image(index)
                {
                    let is_known = self.cluster.is_known_to(&self.image());
                    self.give_role(partition, state, topic.settings, is_known).await;
                }
            }
        }
        if topics.iter().any(|topic| !topic.is_complete()) {
            self.reconcile(&self.image()).await;
        }
        self.groups.follow_roles(self);
    }

    /// Writes all high watermarks to their checkpoint.
    pub(crate) async fn checkpoint_high_watermarks(&self) -> Result<(), LogError> {
        let topics = self.topics();
        let high_watermarks: BTreeMap<_, _> = topics
            .partitions()
            .map(|partition| (partition.name().clone(), partition.high_watermark()))
            .collect();
        self.directories.checkpoint_high_watermarks(high_watermarks).await
    }
}

/// What the metadata wants of one replica.
struct Wanted<'a> {
    name: TopicPartition,
    topic_id: TopicId,
    state: &'a PartitionImage,
    config: &'a LogConfig,
    settings: LeaderSettings,
    is_known: bool,
}

fn is_to_be_reopened(partition: &Partition) -> bool {
    !partition.is_removed() && partition.log().is_offline().is_some()
}
