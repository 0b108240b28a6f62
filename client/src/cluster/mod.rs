//! A client's view of its cluster: brokers found from the bootstrap servers, metadata that is kept fresh, one
//! connection to each broker that is needed, and the coordinators of groups.
//!
//! ```text
//!   producer, consumer ──► Cluster ──► Metadata (who leads what; pure)
//!                             │──────► links    (one connection per broker, with backoff)
//!                             └──────► refresher task: asks when somebody wants it, or it is old
//! ```
//! Never decides what is sent to whom, and never repeats a request for anybody: it says whom to turn to now.

mod config;
mod coordinator;
mod links;
mod metadata;
mod refresh;

pub use config::NetworkConfig;
pub use metadata::{Broker, LeaderAndEpoch, Metadata, PartitionMetadata, TopicMetadata};

use crate::{ClientError, Connection, ConnectionError};
use links::Link;
use sillon_protocol::{
    messages::{LeaderIdAndEpoch, NodeEndpoint},
    wire::Request,
};
use sillon_runtime::{Monotonic, Runtime, Tasks};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::Notify;

/// What a connection is for. Answers come in the order of the requests, so that what waits long at the broker has to have
/// a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Records, offsets, metadata.
    Data,
    /// What a group's coordinator is asked.
    Coordinator,
}

/// Which topics the metadata shall tell of.
#[derive(Clone, Debug, Default)]
struct Interest {
    all: bool,
    topics: BTreeSet<Arc<str>>,
    auto_create: bool,
}

struct State {
    metadata: Arc<Metadata>,
    interest: Interest,
    /// Somebody wants metadata newer than what is there.
    wanted: bool,
    /// How many answers were taken in.
    answers: u64,
    /// How many attempts in a row failed, and how the last one did.
    failures: u32,
    last_error: Option<ClientError>,
    asked_at: Option<Monotonic>,
    links: BTreeMap<(i32, Channel), Link>,
    coordinators: BTreeMap<String, i32>,
}

struct Shared {
    runtime: Runtime,
    config: NetworkConfig,
    state: Mutex<State>,
    /// Wakes the refresher.
    wanted: Notify,
    /// Wakes those who wait for newer metadata.
    updated: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

/// A client's view of its cluster. Clone it freely; its background task ends with the last clone.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    _tasks: Arc<Tasks>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("bootstrap", &self.shared.config.tried()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// A view of the cluster that these brokers belong to. Connects when it is first asked something.
    ///
    /// # Errors
    /// [`ClientError::Config`].
    pub fn new(runtime: &Runtime, config: NetworkConfig) -> Result<Cluster, ClientError> {
        config.check()?;
        let state = State {
            metadata: Arc::default(),
            interest: Interest::default(),
            wanted: false,
            answers: 0,
            failures: 0,
            last_error: None,
            asked_at: None,
            links: BTreeMap::new(),
            coordinators: BTreeMap::new(),
        };
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            config,
            state: Mutex::new(state),
            wanted: Notify::new(),
            updated: Notify::new(),
        });
        let mut tasks = Tasks::default();
        tasks.push(runtime.spawn("metadata refresher", refresh::run(shared.clone())));
        Ok(Cluster { shared, _tasks: Arc::new(tasks) })
    }

    /// The runtime it lives on.
    pub fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }

    /// How it reaches its brokers.
    pub fn config(&self) -> &NetworkConfig {
        &self.shared.config
    }

    /// What is known now.
    pub fn metadata(&self) -> Arc<Metadata> {
        self.shared.lock().metadata.clone()
    }

    /// How many answers were taken in so far: what [`Cluster::newer_than`] compares with.
    pub fn answers(&self) -> u64 {
        self.shared.lock().answers
    }

    /// Wants metadata of this topic from now on. True where that is new.
    pub fn add_topic(&self, topic: &str) -> bool {
        let mut state = self.shared.lock();
        if state.interest.all || state.interest.topics.contains(topic) {
            return false;
        }
        state.interest.topics.insert(topic.into());
        state.wanted = true;
        drop(state);
        self.shared.wanted.notify_one();
        true
    }

    /// Wants metadata of exactly these topics from now on, or of all.
    pub fn set_topics<'a>(&self, topics: impl IntoIterator<Item = &'a str>, all: bool) {
        let topics: BTreeSet<Arc<str>> = topics.into_iter().map(Arc::from).collect();
        let mut state = self.shared.lock();
        let news =
            all && !state.interest.all || topics.iter().any(|topic| !state.interest.topics.contains(topic));
        state.interest.all = all;
        state.interest.topics = topics;
        if news {
            state.wanted = true;
            drop(state);
            self.shared.wanted.notify_one();
        }
    }

    /// Whether asking for a topic may create it, where the brokers permit that.
    pub fn allow_auto_create_topics(&self, allow: bool) {
        self.shared.lock().interest.auto_create = allow;
    }

    /// Wants newer metadata; asks at once, or after the backoff since it was last asked for.
    pub fn request_update(&self) {
        let mut state = self.shared.lock();
        if !state.wanted {
            state.wanted = true;
            drop(state);
            self.shared.wanted.notify_one();
        }
    }

    /// Takes in where a broker that is not the leader says to turn to (KIP-951). True where that is news; otherwise newer
    /// metadata is asked for.
    pub fn hint(
        &self,
        topic: &str,
        partition: i32,
        leader: &LeaderIdAndEpoch,
        endpoints: &[NodeEndpoint],
    ) -> bool {
        let mut state = self.shared.lock();
        let known = Arc::make_mut(&mut state.metadata).hint(topic, partition, leader, endpoints);
        drop(state);
        if known {
            self.shared.updated.notify_waiters();
        } else {
            self.request_update();
        }
        known
    }

    /// Waits until more than `answers` answers were taken in.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] or what keeps every broker from answering, at `deadline`.
    pub async fn newer_than(&self, answers: u64, deadline: Monotonic) -> Result<(), ClientError> {
        loop {
            let mut updated = pin!(self.shared.updated.notified());
            updated.as_mut().enable();
            let last = {
                let state = self.shared.lock();
                if state.answers > answers {
                    return Ok(());
                }
                state.last_error.clone()
            };
            let left = deadline - self.shared.runtime.now();
            if left.is_zero() || self.shared.runtime.timeout(left, updated).await.is_err() {
                return Err(last.unwrap_or_else(|| ClientError::TimedOut {
                    what: "learn of the cluster".to_owned(),
                    timeout_ms: millis(left),
                    last: "no broker has answered yet".to_owned(),
                }));
            }
        }
    }

    /// Waits until the metadata may have changed in any way since `version`.
    pub async fn changed_since(&self, version: u64) {
        loop {
            let mut updated = pin!(self.shared.updated.notified());
            updated.as_mut().enable();
            if self.shared.lock().metadata.version != version {
                return;
            }
            updated.await;
        }
    }

    /// Waits until the topic is known to exist.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where the topic does not exist at `deadline`, or its name cannot; else as
    /// [`Cluster::newer_than`].
    pub async fn topic(&self, topic: &str, deadline: Monotonic) -> Result<Arc<Metadata>, ClientError> {
        self.add_topic(topic);
        let mut code = sillon_protocol::ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        loop {
            let (answers, metadata) = {
                let state = self.shared.lock();
                (state.answers, state.metadata.clone())
            };
            match metadata.topics.get(topic) {
                Some(known) if known.error.is_none() && !known.partitions.is_empty() => return Ok(metadata),
                Some(known) if known.error.is_error() => {
                    code = known.error;
                    if !code.is_retriable() {
                        return Err(ClientError::refused(format!("use topic {topic}"), code, None));
                    }
                }
                _ => {}
            }
            self.request_update();
            if let Err(error) = self.newer_than(answers, deadline).await {
                return Err(match error {
                    ClientError::TimedOut { .. } if answers > 0 => {
                        ClientError::refused(format!("use topic {topic}"), code, None)
                    }
                    error => error,
                });
            }
        }
    }

    /// Sends a request to a broker and waits for the answer. A connection that gave none in time is given up.
    ///
    /// # Errors
    /// [`ClientError::Connection`], [`ClientError::Unreachable`].
    pub async fn send<R: Request>(&self, broker: i32, request: &R) -> Result<R::Response, ClientError> {
        let timeout = Duration::from_millis(self.shared.config.request_timeout_ms);
        self.send_within(broker, Channel::Data, request, timeout).await
    }

    /// As [`Cluster::send`], on the connection for a purpose and with a limit of its own.
    ///
    /// # Errors
    /// As [`Cluster::send`].
    pub async fn send_within<R: Request>(
        &self,
        broker: i32,
        channel: Channel,
        request: &R,
        timeout: Duration,
    ) -> Result<R::Response, ClientError> {
        let connection = self.connection(broker, channel).await?;
        let version =
            connection.common_versions::<R>().map_err(|source| ClientError::Connection { broker, source })?;
        let sent = connection.send_version(*version.end(), request, timeout).await;
        sent.map_err(|source| failed(broker, &connection, source))
    }
}

impl Cluster {
    /// Sends a request to any broker and waits for the answer.
    ///
    /// # Errors
    /// As [`Cluster::send`].
    pub async fn send_any<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        let connection = self.any_connection().await?;
        connection.send(request).await.map_err(|source| failed(-1, &connection, source))
    }
}

/// Gives up a connection that gave no answer in time: whatever is behind it may be dead.
pub(crate) fn failed(broker: i32, connection: &Connection, source: ConnectionError) -> ClientError {
    if matches!(source, ConnectionError::TimedOut { .. }) {
        connection.close();
    }
    ClientError::Connection { broker, source }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
