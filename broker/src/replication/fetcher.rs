//! One connection to one leader, and the fetches over it: for all partitions that this broker follows there, one request
//! at a time. Owns the order of a round and the pauses after errors; what an answer means for a log is the partition's.
//!
//! ```text
//!   sync what must be on disk ─► positions ─► session ─► Fetch ─► answers, partition by partition ─► next round
//! ```
//! A partition that fails pauses alone. A leader that cannot be reached is tried again after a pause, and complained of
//! once.

use super::{
    ReplicaKey,
    session::{Asked, FetchSession, SessionPart},
};
use crate::{
    broker::Broker,
    join::join_all,
    observe::EpochStart,
    partition::{ApplyError, Partition, follower::FetchedFrom, follower::LeaderAnswer},
    types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId},
};
use bytes::Bytes;
use sillon_client::{Connection, ConnectionError, ConnectionOptions};
use sillon_protocol::{
    ErrorCode,
    messages::{
        FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic,
        ReplicaState,
    },
    wire::Records,
};
use sillon_runtime::{Monotonic, Runtime};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::sync::Notify;

/// The first pause after an error; it doubles with each, up to `replica.fetch.backoff.ms`.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer may take beyond what the request allows the leader to wait.
const ANSWER_SLACK: Duration = Duration::from_secs(10);
/// A request that waits at the leader is given up for a new partition's sake at most this often.
const OVERTAKE_INTERVAL: Duration = Duration::from_millis(100);
/// All partitions are looked at this often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Answers are not larger than this beyond what was asked for: a first batch is sent whole.
const RESPONSE_SLACK_BYTES: usize = 100 << 20;

/// The partitions of a fetcher, as the broker gives and takes them.
#[derive(Default)]
pub(super) struct Assigned {
    set: Mutex<Set>,
    changed: Notify,
}

#[derive(Default)]
struct Set {
    slots: BTreeMap<ReplicaKey, Slot>,
    /// What the fetcher has not looked at since it was added, changed or removed.
    changed: BTreeSet<ReplicaKey>,
    /// Counts what was added or given a new epoch.
    additions: u64,
}

#[derive(Clone)]
struct Slot {
    partition: Arc<Partition>,
    following: Option<(BrokerId, LeaderEpoch)>,
    /// The addition that it came with: errors from before do not count.
    addition: u64,
}

impl Assigned {
    /// Adds a partition, or notes that it follows in a new epoch.
    pub(super) fn insert(&self, key: ReplicaKey, partition: Arc<Partition>) {
        let following = partition.following();
        let mut set = self.set.lock().expect("no holder panics");
        let is_known = |slot: &Slot| slot.following == following && Arc::ptr_eq(&slot.partition, &partition);
        if set.slots.get(&key).is_some_and(is_known) {
            return;
        }
        set.additions += 1;
        let addition = set.additions;
        set.slots.insert(key, Slot { partition, following, addition });
        set.changed.insert(key);
        drop(set);
        self.changed.notify_one();
    }

    /// Takes a partition away. Gives whether none is left.
    pub(super) fn remove(&self, key: &ReplicaKey) -> bool {
        let mut set = self.set.lock().expect("no holder panics");
        if set.slots.remove(key).is_some() {
            set.changed.insert(*key);
        }
        set.slots.is_empty()
    }

    /// Has the fetcher look around.
    pub(super) fn nudge(&self) {
        self.changed.notify_one();
    }

    /// What changed since the last time, with what is there now, and the count of additions.
    fn take_changes(&self) -> (Vec<(ReplicaKey, Option<Slot>)>, u64) {
        let mut set = self.set.lock().expect("no holder panics");
        let changed = std::mem::take(&mut set.changed);
        (changed.into_iter().map(|key| (key, set.slots.get(&key).cloned())).collect(), set.additions)
    }

    fn additions(&self) -> u64 {
        self.set.lock().expect("no holder panics").additions
    }
}

/// Where a leader is, and in which registration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    broker_epoch: BrokerEpoch,
}

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the broker is not registered")]
    NotRegistered,
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the leader answers {0}")]
    Refused(ErrorCode),
    /// Not a failure of the leader's: it is asked again at once.
    #[error("there is more to ask for")]
    Overtaken,
    #[error("this broker has stopped")]
    Stopped,
}

struct Pause {
    until: Monotonic,
    length: Duration,
    addition: u64,
}

/// See the module.
pub(super) struct Fetcher {
    broker: Weak<Broker>,
    runtime: Runtime,
    leader: BrokerId,
    assigned: Arc<Assigned>,
    connection: Option<(Address, Connection)>,
    session: FetchSession,
    /// What is assigned, as of the last look.
    slots: BTreeMap<ReplicaKey, Slot>,
    /// Those to look at before the next request: what is asked for them may be something else now.
    dirty: BTreeSet<ReplicaKey>,
    /// Those that are not fetched before that moment.
    waiting: BTreeMap<ReplicaKey, Monotonic>,
    /// When all are looked at: what changes without an answer (retention, a log that is online again) is seen then.
    next_sweep: Monotonic,
    pauses: BTreeMap<ReplicaKey, Pause>,
    overtaken_at: Option<Monotonic>,
    failures: u32,
}

/// What holds for one round.
struct Round {
    additions: u64,
    /// When something that waits now may go on.
    next: Option<Monotonic>,
}

impl Fetcher {
    pub(super) fn new(broker: &Arc<Broker>, leader: BrokerId, assigned: Arc<Assigned>) -> Fetcher {
        Fetcher {
            broker: Arc::downgrade(broker),
            runtime: broker.runtime().clone(),
            leader,
            assigned,
            connection: None,
            session: FetchSession::default(),
            slots: BTreeMap::new(),
            dirty: BTreeSet::new(),
            waiting: BTreeMap::new(),
            next_sweep: Monotonic(0),
            pauses: BTreeMap::new(),
            overtaken_at: None,
            failures: 0,
        }
    }

    /// Fetches until the task is dropped.
    pub(super) async fn run(mut self) {
        loop {
            match self.round().await {
                Ok(()) => self.failures = 0,
                Err(Failure::Stopped) => return,
                Err(Failure::Overtaken) => self.disconnect(),
                Err(failure) => {
                    if self.failures == 0 {
                        tracing::info!(leader = %self.leader, %failure, "cannot fetch; trying again");
                    }
                    self.suspect(&failure);
                    self.disconnect();
                    let pause = self.pause_length(FIRST_PAUSE * 2u32.pow(self.failures.min(10)));
                    self.failures = self.failures.saturating_add(1);
                    self.wait(Some(self.runtime.now() + pause)).await;
                }
            }
        }
    }

    fn broker(&self) -> Result<Arc<Broker>, Failure> {
        self.broker.upgrade().ok_or(Failure::Stopped)
    }

    /// Where the connection broke that had worked until now, the leader may be gone.
    fn suspect(&self, failure: &Failure) {
        if let (Failure::Connection(_), 0, Some((address, _)), Some(broker)) =
            (failure, self.failures, &self.connection, self.broker.upgrade())
        {
            broker.replication().suspect(self.leader, address.broker_epoch, self.runtime.now());
        }
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.session.lost();
    }

    fn pause_length(&self, wanted: Duration) -> Duration {
        let limit = self.broker.upgrade().map_or(0, |broker| broker.config().replication.fetch_backoff_ms);
        wanted.min(Duration::from_millis(limit)).max(Duration::from_millis(1))
    }

    /// Until something changes, or `deadline`.
    async fn wait(&self, deadline: Option<Monotonic>) {
        tokio::select! {
            biased;
            () = self.assigned.changed.notified() => {}
            () = self.runtime.sleep_until(deadline.unwrap_or(Monotonic(u64::MAX))), if deadline.is_some() => {}
        }
    }

    async fn round(&mut self) -> Result<(), Failure> {
        self.connect().await?;
        let round = self.prepare().await?;
        if self.session.wants_nothing() {
            let next = round.next.map_or(self.next_sweep, |next| next.min(self.next_sweep));
            self.wait(Some(next)).await;
            return Ok(());
        }
        let part = self.session.next();
        let request = self.request(&part, &round)?;
        let response = self.ask(&request, round.additions).await?;
        match ErrorCode::from(response.error_code) {
            ErrorCode::NONE => {}
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND
            | ErrorCode::INVALID_FETCH_SESSION_EPOCH
            | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR => {
                self.session.lost();
                return Ok(());
            }
            code => return Err(Failure::Refused(code)),
        }
        self.apply(response).await
    }

    fn address(&self) -> Result<Address, Failure> {
        let broker = self.broker()?;
        let image = broker.image();
        let registered = image.brokers.get(&self.leader).ok_or(Failure::NotRegistered)?;
        let listener = broker.config().cluster.inter_broker_listener.as_deref().unwrap_or_default();
        let endpoint = registered.endpoint(listener).ok_or(Failure::NotRegistered)?;
        Ok(Address {
            host: endpoint.host.clone(),
            port: endpoint.port,
            broker_epoch: registered.broker_epoch,
        })
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        let address = self.address()?;
        if self
            .connection
            .as_ref()
            .is_some_and(|(known, connection)| *known == address && connection.failure().is_none())
        {
            return Ok(());
        }
        self.disconnect();
        let options = {
            let broker = self.broker()?;
            let asked = broker.config().replication.fetch_response_max_bytes.max(0) as usize;
            ConnectionOptions {
                client_id: format!("broker-{}-fetcher", broker.config().broker_id).into(),
                connect_timeout: CONNECT_TIMEOUT,
                max_response_bytes: asked.saturating_add(RESPONSE_SLACK_BYTES),
                ..ConnectionOptions::default()
            }
        };
        let connection = Connection::connect(&self.runtime, &address.host, address.port, options).await?;
        if self.failures > 0 {
            tracing::info!(leader = %self.leader, "fetching again");
        }
        self.connection = Some((address, connection));
        Ok(())
    }

    /// Brings the session in line with what can be fetched now; looks only at what may have changed. A position is told
    /// only of records that are kept as surely as the topic demands.
    async fn prepare(&mut self) -> Result<Round, Failure> {
        let broker = self.broker()?;
        let additions = self.take_changes();
        let due = self.take_due(&broker);
        let slots = due.iter().filter_map(|key| Some((*key, self.slots.get(key)?.clone())));
        let slots: Vec<(ReplicaKey, Slot)> = slots.collect();
        // Whatever cuts this short leaves them to be looked at again.
        self.dirty.extend(due);
        let unsynced = slots.iter().filter(|(_, slot)| slot.partition.must_sync());
        join_all(unsynced.map(|(_, slot)| slot.partition.sync_where_demanded()).collect()).await;
        self.dirty.clear();
        let now = self.runtime.now();
        for (key, slot) in slots {
            if let Some(until) = self.waits_until(&broker, key, &slot, now) {
                self.waiting.insert(key, until);
                self.session.drop_wanted(&key);
                continue;
            }
            match self.asked(&slot.partition) {
                Some(asked) => self.session.want(key, asked),
                None => self.session.drop_wanted(&key),
            }
        }
        Ok(Round { additions, next: self.waiting.values().min().copied() })
    }

    /// Takes over what was assigned and what was taken away.
    fn take_changes(&mut self) -> u64 {
        let (changes, additions) = self.assigned.take_changes();
        for (key, slot) in changes {
            self.waiting.remove(&key);
            match slot {
                Some(slot) => {
                    self.slots.insert(key, slot);
                    self.dirty.insert(key);
                }
                None => {
                    self.slots.remove(&key);
                    self.dirty.remove(&key);
                    self.pauses.remove(&key);
                    self.session.drop_wanted(&key);
                }
            }
        }
        additions
    }

    /// The partitions to look at: all of them now and then, before a session begins, and while the throttle holds back.
    fn take_due(&mut self, broker: &Broker) -> BTreeSet<ReplicaKey> {
        let now = self.runtime.now();
        if now >= self.next_sweep || self.session.is_new() || broker.is_follower_throttle_closed(now) {
            self.next_sweep = now + SWEEP_INTERVAL;
            self.waiting.clear();
            self.dirty.clear();
            return self.slots.keys().copied().collect();
        }
        let mut due = std::mem::take(&mut self.dirty);
        if !self.waiting.is_empty() {
            let over = self.waiting.iter().filter(|(_, until)| **until <= now);
            due.extend(over.map(|(key, _)| *key));
            self.waiting.retain(|_, until| *until > now);
        }
        due
    }

    /// What is to be asked for a partition; none where it cannot be fetched from this leader now. A log that is offline
    /// comes back when it is opened again; one that could not be synced is offline.
    fn asked(&self, partition: &Partition) -> Option<Asked> {
        let (leader, leader_epoch) = partition.following()?;
        let is_usable = !partition.is_removed() && partition.log().is_offline().is_none();
        if !is_usable || leader != self.leader || partition.must_sync() {
            return None;
        }
        let position = partition.position();
        Some(Asked {
            leader_epoch,
            fetch_offset: position.log_end,
            last_epoch: position.last_epoch,
            log_start: position.log_start,
        })
    }

    fn waits_until(
        &mut self,
        broker: &Broker,
        key: ReplicaKey,
        slot: &Slot,
        now: Monotonic,
    ) -> Option<Monotonic> {
        if let Some(pause) = self.pauses.get(&key) {
            if pause.addition == slot.addition && pause.until > now {
                return Some(pause.until);
            }
            if pause.addition != slot.addition {
                self.pauses.remove(&key);
            }
        }
        broker.follower_throttled_until(&slot.partition, now)
    }

    fn request(&self, part: &SessionPart, round: &Round) -> Result<FetchRequest, Failure> {
        let broker = self.broker()?;
        let config = &broker.config().replication;
        let mut topics: Vec<FetchTopic> = Vec::new();
        for ((topic, index), asked) in &part.named {
            let partition = FetchPartition {
                partition: *index,
                current_leader_epoch: asked.leader_epoch.0,
                fetch_offset: asked.fetch_offset.0,
                last_fetched_epoch: asked.last_epoch.0,
                log_start_offset: asked.log_start.0,
                partition_max_bytes: config.fetch_max_bytes,
                high_watermark: self.slots[&(*topic, *index)].partition.high_watermark().0,
                ..FetchPartition::default()
            };
            match topics.last_mut().filter(|last| last.topic_id == topic.0) {
                Some(last) => last.partitions.push(partition),
                None => topics.push(FetchTopic {
                    topic_id: topic.0,
                    partitions: vec![partition],
                    ..FetchTopic::default()
                }),
            }
        }
        let forgotten = part.forgotten.iter().map(|(topic, index)| ForgottenTopic {
            topic_id: topic.0,
            partitions: vec![*index],
            ..ForgottenTopic::default()
        });
        let until_next = round.next.map_or(Duration::MAX, |next| next.saturating_since(self.runtime.now()));
        let until_next_ms = i32::try_from(until_next.as_millis()).unwrap_or(i32::MAX);
        Ok(FetchRequest {
            replica_state: ReplicaState {
                replica_id: broker.config().broker_id.0,
                replica_epoch: broker.cluster().broker_epoch().0,
            },
            max_wait_ms: config.fetch_wait_max_ms.min(until_next_ms),
            min_bytes: config.fetch_min_bytes,
            max_bytes: config.fetch_response_max_bytes,
            session_id: part.session_id,
            session_epoch: part.epoch,
            topics,
            forgotten_topics_data: forgotten.collect(),
            ..FetchRequest::default()
        })
    }

    /// Sends the request and waits for the answer; gives up where the leader is another process by now, or where
    /// partitions were added that it would keep waiting.
    async fn ask(&mut self, request: &FetchRequest, additions: u64) -> Result<FetchResponse, Failure> {
        let (address, connection) = self.connection.as_ref().expect("connected in this round");
        let version = *connection.common_versions::<FetchRequest>()?.end();
        let timeout = Duration::from_millis(request.max_wait_ms.max(0) as u64) + ANSWER_SLACK;
        let mut answer = pin!(connection.send_version(version, request, timeout));
        let overtake = loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer?),
                () = self.assigned.changed.notified() => {}
            }
            if self.address()? != *address {
                return Err(Failure::Overtaken);
            }
            if self.assigned.additions() != additions {
                break self.overtaken_at.map_or(Monotonic(0), |last| last + OVERTAKE_INTERVAL);
            }
        };
        tokio::select! {
            biased;
            answer = &mut answer => return Ok(answer?),
            () = self.runtime.sleep_until(overtake) => {}
        }
        self.overtaken_at = Some(self.runtime.now());
        Err(Failure::Overtaken)
    }

    async fn apply(&mut self, response: FetchResponse) -> Result<(), Failure> {
        let broker = self.broker()?;
        for topic in &response.responses {
            for answer in &topic.partitions {
                let key = (TopicId(topic.topic_id), answer.partition_index);
                if let (Some(asked), Some(slot)) = (self.session.asked(&key), self.slots.get(&key).cloned()) {
                    self.dirty.insert(key);
                    self.apply_one(&broker, key, &slot, asked, answer).await;
                }
            }
        }
        self.session.answered(response.session_id);
        Ok(())
    }

    async fn apply_one(
        &mut self,
        broker: &Broker,
        key: ReplicaKey,
        slot: &Slot,
        asked: Asked,
        response: &FetchPartitionResponse,
    ) {
        let partition = &slot.partition;
        let from = FetchedFrom {
            leader: self.leader,
            leader_epoch: asked.leader_epoch,
            fetch_offset: asked.fetch_offset,
            last_epoch: asked.last_epoch,
        };
        let records = match &response.records {
            Records::Bytes(bytes) => bytes.clone(),
            Records::Null | Records::Deferred(_) => Bytes::new(),
        };
        broker.follower_throttle_took(partition, records.len(), self.runtime.now());
        let result =
            partition.apply_answer(from, &leader_answer(response, !records.is_empty()), &records).await;
        match result {
            Ok(()) => drop(self.pauses.remove(&key)),
            Err(error) => self.pause(key, slot, &error),
        }
    }

    fn pause(&mut self, key: ReplicaKey, slot: &Slot, error: &ApplyError) {
        let known = self.pauses.get(&key).filter(|pause| pause.addition == slot.addition);
        let length = self.pause_length(known.map_or(FIRST_PAUSE, |pause| pause.length * 2));
        let is_first = known.is_none();
        let partition = slot.partition.name();
        match error {
            ApplyError::Obsolete | ApplyError::Refused(_) => {
                tracing::debug!(%partition, leader = %self.leader, %error, "not fetched");
            }
            ApplyError::Append(_) | ApplyError::Log(_) if is_first => {
                tracing::error!(%partition, leader = %self.leader, %error, "cannot follow; trying again");
            }
            ApplyError::Append(_) | ApplyError::Log(_) => {}
        }
        let until = self.runtime.now() + length;
        self.pauses.insert(key, Pause { until, length, addition: slot.addition });
    }
}

fn leader_answer(response: &FetchPartitionResponse, has_records: bool) -> LeaderAnswer {
    let diverging = &response.diverging_epoch;
    LeaderAnswer {
        error: ErrorCode::from(response.error_code),
        high_watermark: Offset(response.high_watermark),
        log_start: Offset(response.log_start_offset),
        diverging: (diverging.end_offset >= 0).then_some(EpochStart {
            epoch: LeaderEpoch(diverging.epoch),
            start_offset: Offset(diverging.end_offset),
        }),
        has_records,
    }
}
