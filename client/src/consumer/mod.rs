//! The consumer: reads partitions that it is assigned, by hand or as a member of a group.
//!
//! ```text
//!   poll ─► callbacks ─► commits ─► questions ─► fetches ─► records
//!     │         ▲                       │           │
//!     │     membership (pure)       positions (pure, per partition)
//!     │         ▲ task: join, sync, heartbeat       │
//!     └─────────┴──────────── cluster ◄─────────────┘
//! ```
//! Never reads from a position that a new leader has not confirmed (KIP-320), and never commits what it has not given out.

pub mod assignor;
mod commit;
mod config;
mod fetched;
mod group;
mod listener;
pub(crate) mod lookup;
pub(crate) mod membership;
pub(crate) mod offsets;
mod poll;
mod positions;
mod record;
mod requests;
mod watch;

pub use config::{ConsumerConfig, IsolationLevel, OffsetReset};
pub use listener::RebalanceListener;
pub use positions::SeekTarget;
pub use record::{ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, RecordHeader, TopicPartition};

use crate::{
    ClientError,
    cluster::{Cluster, millis},
    flights::Flights,
};
use fetched::Fetched;
use group::Group;
use offsets::Coordinator;
use poll::Done;
use positions::{Patience, Positions};
use sillon_runtime::{Monotonic, Runtime, Tasks};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Which topics a subscription means.
#[derive(Clone)]
enum Subscription {
    Topics(BTreeSet<Arc<str>>),
    Matching(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

type SharedListener = Arc<tokio::sync::Mutex<Box<dyn RebalanceListener>>>;

/// A consumer. One task uses it at a time.
///
/// [`Consumer::close`] commits, where that is automatic, and leaves the group. Dropping it does neither: its partitions
/// are free when its session ends.
pub struct Consumer {
    runtime: Runtime,
    cluster: Cluster,
    config: Arc<ConsumerConfig>,
    positions: Positions,
    flights: Flights<Done>,
    /// Brokers that are asked for records.
    fetching: BTreeSet<i32>,
    buffered: Vec<Fetched>,
    coordinator: Option<Coordinator>,
    /// Present while subscribed.
    group: Option<Arc<Group>>,
    tasks: Tasks,
    subscription: Option<Subscription>,
    /// The metadata that the subscription was matched with.
    matched: Option<u64>,
    /// Whether partitions were assigned by hand.
    manual: bool,
    listener: Option<SharedListener>,
    next_auto_commit: Monotonic,
    /// Commits that are under way: one that is waited for comes after them.
    commits: usize,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("cluster", &self.cluster)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Consumer {
    /// A consumer that reads nothing yet. Connects when it is first used.
    ///
    /// # Errors
    /// [`ClientError::Config`].
    pub fn new(runtime: &Runtime, config: ConsumerConfig) -> Result<Consumer, ClientError> {
        config.check()?;
        let cluster = Cluster::new(runtime, config.network.clone())?;
        cluster.allow_auto_create_topics(config.allow_auto_create_topics);
        let patience = Patience {
            initial_ms: config.network.retry_backoff_ms,
            max_ms: config.network.retry_backoff_max_ms,
        };
        let coordinator = config.group_id.as_deref().map(|group_id| Coordinator {
            cluster: cluster.clone(),
            group_id: group_id.into(),
            group_instance_id: config.group_instance_id.clone(),
        });
        let read_committed = config.isolation_level == IsolationLevel::ReadCommitted;
        let positions =
            Positions::new(config.auto_offset_reset, coordinator.is_some(), read_committed, patience);
        let next_auto_commit = runtime.now() + Duration::from_millis(config.auto_commit_interval_ms);
        Ok(Consumer {
            runtime: runtime.clone(),
            cluster,
            config: Arc::new(config),
            positions,
            flights: Flights::default(),
            fetching: BTreeSet::new(),
            buffered: Vec::new(),
            coordinator,
            group: None,
            tasks: Tasks::default(),
            subscription: None,
            matched: None,
            manual: false,
            listener: None,
            next_auto_commit,
            commits: 0,
        })
    }

    /// Reads exactly these partitions from now on, outside of any group's rebalancing. What was known of those among them
    /// that were assigned before stays.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] while subscribed.
    pub fn assign(
        &mut self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<(), ClientError> {
        if self.subscription.is_some() {
            return Err(ClientError::Misuse {
                problem: "unsubscribe before assigning partitions".to_owned(),
            });
        }
        let partitions: BTreeSet<TopicPartition> = partitions.into_iter().collect();
        self.manual = !partitions.is_empty();
        self.cluster.set_topics(partitions.iter().map(|partition| &*partition.topic), false);
        self.positions.assign(&partitions);
        Ok(())
    }

    /// Shares these topics with the other members of the group from now on.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] without a `group_id`, or while partitions are assigned by hand.
    pub fn subscribe<'a>(&mut self, topics: impl IntoIterator<Item = &'a str>) -> Result<(), ClientError> {
        let topics: BTreeSet<Arc<str>> = topics.into_iter().map(Arc::from).collect();
        self.subscribe_to(Subscription::Topics(topics))
    }

    /// Shares the topics whose names `matches` likes, also those that are created later.
    ///
    /// # Errors
    /// As [`Consumer::subscribe`].
    pub fn subscribe_matching(
        &mut self,
        matches: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<(), ClientError> {
        self.subscribe_to(Subscription::Matching(Arc::new(matches)))
    }

    fn subscribe_to(&mut self, subscription: Subscription) -> Result<(), ClientError> {
        if self.manual {
            return Err(ClientError::Misuse {
                problem: "give up the assigned partitions before subscribing".to_owned(),
            });
        }
        let Some(coordinator) = &self.coordinator else {
            return Err(ClientError::Misuse { problem: "subscribing needs a group_id".to_owned() });
        };
        if self.group.is_none() {
            let group = Group::new(&self.runtime, coordinator.clone(), self.config.clone());
            self.tasks = group.start();
            self.group = Some(group);
        }
        match &subscription {
            Subscription::Topics(topics) => {
                self.cluster.set_topics(topics.iter().map(|topic| &**topic), false)
            }
            Subscription::Matching(_) => self.cluster.set_topics([], true),
        }
        self.subscription = Some(subscription);
        self.matched = None;
        self.match_topics();
        Ok(())
    }

    /// Lets the membership know which topics the subscription means by now.
    fn match_topics(&mut self) {
        let (Some(group), Some(subscription)) = (&self.group, &self.subscription) else { return };
        let metadata = self.cluster.metadata();
        if self.matched == Some(metadata.version) {
            return;
        }
        let topics = match subscription {
            Subscription::Topics(topics) => topics.clone(),
            // A pattern means nothing before the topics are known.
            Subscription::Matching(_) if metadata.version == 0 => return,
            Subscription::Matching(matches) => metadata
                .topics
                .iter()
                .filter(|(_, topic)| topic.error.is_none())
                .filter(|(_, topic)| !(topic.is_internal && self.config.exclude_internal_topics))
                .filter(|(name, _)| matches(name))
                .map(|(name, _)| name.clone())
                .collect(),
        };
        self.matched = Some(metadata.version);
        let now = self.runtime.now();
        let known = group.membership().topics().clone();
        if known != topics || !group.membership().is_wanted() {
            group.change(|membership| membership.subscribe(topics, now));
        }
    }

    /// Hears of partitions that come and go from now on.
    pub fn set_rebalance_listener(&mut self, listener: impl RebalanceListener + 'static) {
        self.listener = Some(Arc::new(tokio::sync::Mutex::new(Box::new(listener))));
    }

    /// Reads nothing any more: gives up its partitions and leaves the group.
    pub async fn unsubscribe(&mut self) {
        let group = self.group.clone();
        if let Some(group) = &group {
            self.run_callbacks().await;
            let owned = group.membership().owned().clone();
            if !owned.is_empty() {
                self.give_up(&owned).await;
            }
            let member = group.change(|membership| {
                let member = membership.goodbye();
                membership.unsubscribe();
                member
            });
            // The task would say it too, but it ends now.
            self.tasks = Tasks::default();
            if let Some(member_id) = member {
                // Where nobody hears it, the session ends by itself.
                let _ = group.leave(&member_id).await;
            }
        }
        self.group = None;
        self.subscription = None;
        self.matched = None;
        self.manual = false;
        self.buffered.clear();
        self.positions.assign(&BTreeSet::new());
        self.cluster.set_topics([], false);
    }

    /// The listener hears that everything is given up, and what was read is committed where that is automatic.
    async fn give_up(&mut self, owned: &BTreeSet<TopicPartition>) {
        if self.config.enable_auto_commit {
            let offsets = self.consumed();
            let limit = Duration::from_millis(self.config.network.request_timeout_ms);
            // What cannot be committed is read again: at least once.
            let _ = self.commit_within(&offsets, limit).await;
        }
        if let Some(listener) = self.listener.clone() {
            let parts: Vec<_> = owned.iter().cloned().collect();
            listener.lock().await.revoked(self, &parts).await;
        }
    }

    /// Commits, where that is automatic, gives up its partitions and leaves the group, within `timeout`.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`]; then the session ends by itself.
    pub async fn close(mut self, timeout: Duration) -> Result<(), ClientError> {
        if self.manual && self.config.enable_auto_commit && self.coordinator.is_some() {
            let offsets = self.consumed();
            self.commit_within(&offsets, timeout).await?;
        }
        let runtime = self.runtime.clone();
        runtime.timeout(timeout, self.unsubscribe()).await.map_err(|_elapsed| ClientError::TimedOut {
            what: "leave the group".to_owned(),
            timeout_ms: millis(timeout),
            last: "the coordinator takes the consumer for dead when its session ends".to_owned(),
        })
    }

    /// The partitions that it reads now.
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.positions.assigned()
    }

    /// The topics that it is subscribed to now.
    pub fn subscription(&self) -> BTreeSet<Arc<str>> {
        self.group.as_ref().map(|group| group.membership().topics().clone()).unwrap_or_default()
    }

    /// How the group knows it: its member id and generation, while it is a member.
    pub fn group_membership(&self) -> Option<(String, i32)> {
        let identity = self.group.as_ref()?.membership().identity()?;
        Some((identity.member_id, identity.generation))
    }

    /// The cluster as this consumer sees it.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Fetches nothing of these partitions until they are resumed. What has come of them is kept.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] where one is not assigned.
    pub fn pause<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), ClientError> {
        self.set_paused(partitions, true)
    }

    /// Fetches these partitions again.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] where one is not assigned.
    pub fn resume<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), ClientError> {
        self.set_paused(partitions, false)
    }

    fn set_paused<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
        paused: bool,
    ) -> Result<(), ClientError> {
        for partition in partitions {
            if !self.positions.pause(partition, paused) {
                return Err(not_assigned(partition));
            }
        }
        Ok(())
    }

    /// The partitions that are paused.
    pub fn paused(&self) -> BTreeSet<TopicPartition> {
        self.positions.paused()
    }
}

fn not_assigned(partition: &TopicPartition) -> ClientError {
    ClientError::Misuse { problem: format!("{partition} is not assigned to this consumer") }
}
