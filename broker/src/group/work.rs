//! A shard at work: loads it, appends what it wants written, tells it what became of that, and wakes it when a timer is due.
//!
//! ```text
//!   requests ─► with / ask ─► shard ─► answers, at once ─► whoever waits
//!                                └───► records ─► one batch for all that wait ─► partition ─► committed ─► shard
//! ```
//! Owns who waits for which answer. The lock is held for one step of the shard, and never across a suspension point.

use super::{
    Answer, GroupRecord, Now, Output, Shard, Token, Verdict, WriteId,
    facts::GroupFact,
    reading::{LoadError, read_partition},
};
use crate::{
    config::group::GroupConfig,
    log::AppendError,
    observe::{Observation, Observers},
    partition::{Appending, Partition, ProduceError},
    types::{LeaderEpoch, Offset},
};
use sillon_protocol::{
    ErrorCode,
    records::{BatchBuilder, RecordBatch},
};
use sillon_runtime::{BoxFuture, Monotonic, Runtime};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::{Notify, oneshot};

/// Records are put together in batches of at most this, and of what the topic permits.
const BATCH_BYTES: usize = 1 << 20;
/// What a record takes beyond its key and value, at most; and a batch beyond its records.
const OVERHEAD_BYTES: usize = 70;

type Queue = VecDeque<(WriteId, Vec<GroupRecord>)>;

/// One partition of the offsets topic that this broker leads, in one epoch.
pub(crate) struct Work {
    pub(super) partition: Arc<Partition>,
    pub(super) leader_epoch: LeaderEpoch,
    runtime: Runtime,
    observers: Observers,
    settings: Arc<GroupConfig>,
    state: Mutex<State>,
    /// There is something to append, or a timer is due earlier than was known.
    to_do: Notify,
}

enum State {
    /// The log is being read. Topics that were deleted meanwhile are told afterwards.
    Loading(Vec<String>),
    Active(Box<Active>),
    Closed,
}

struct Active {
    shard: Shard,
    waiting: BTreeMap<Token, oneshot::Sender<Answer>>,
    next_token: u64,
    queue: Queue,
}

/// Records that were handed to the partition.
struct UnderWay {
    /// Which writes, and where the first record of each is.
    writes: Vec<(WriteId, Offset)>,
    /// Whether they count; an error where this broker can say nothing more about the partition.
    end: BoxFuture<'static, Result<Fate, ErrorCode>>,
}

/// What became of a batch.
#[derive(Clone, Copy)]
enum Fate {
    /// It is committed; with a code where too few replicas were in sync by then.
    Committed(ErrorCode),
    /// It is not in the log.
    Refused(ErrorCode),
}

impl Work {
    pub(super) fn new(
        partition: Arc<Partition>,
        leader_epoch: LeaderEpoch,
        runtime: Runtime,
        observers: Observers,
        settings: Arc<GroupConfig>,
    ) -> Arc<Work> {
        let (state, to_do) = (Mutex::new(State::Loading(Vec::new())), Notify::new());
        Arc::new(Work { partition, leader_epoch, runtime, observers, settings, state, to_do })
    }

    fn now(&self) -> Now {
        Now { monotonic: self.runtime.now(), unix_ms: self.runtime.unix_time().0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Whether this broker leads the partition still, in the same epoch.
    pub(super) fn is_current(&self) -> bool {
        self.partition.is_leader()
            && self.partition.leader_epoch() == self.leader_epoch
            && !self.partition.is_removed()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.state(), State::Closed)
    }

    /// Does something with the shard.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Shard, Now) -> T) -> Result<T, ErrorCode> {
        self.act(|active, now| act(&mut active.shard, now))
    }

    /// Does something with the shard that somebody waits for.
    ///
    /// # Errors
    /// As [`Work::with`].
    pub(crate) fn ask<T>(
        &self,
        act: impl FnOnce(&mut Shard, Token, Now) -> T,
    ) -> Result<(T, oneshot::Receiver<Answer>), ErrorCode> {
        self.act(|active, now| {
            let token = Token(active.next_token);
            active.next_token += 1;
            let (sender, receiver) = oneshot::channel();
            active.waiting.insert(token, sender);
            (act(&mut active.shard, token, now), receiver)
        })
    }

    fn act<T>(&self, act: impl FnOnce(&mut Active, Now) -> T) -> Result<T, ErrorCode> {
        if !self.is_current() {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        let now = self.now();
        let mut state = self.state();
        let active = match &mut *state {
            State::Loading(_) => return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
            State::Closed => return Err(ErrorCode::NOT_COORDINATOR),
            State::Active(active) => active,
        };
        let timer = active.shard.next_timer();
        let result = act(active, now);
        self.carry_out(active);
        if !active.queue.is_empty() || active.shard.next_timer() < timer {
            self.to_do.notify_one();
        }
        Ok(result)
    }

    /// Sends off what the shard wants done.
    fn carry_out(&self, active: &mut Active) {
        let Output { answers, writes, facts } = active.shard.take_output();
        facts.iter().for_each(|fact| self.tell(fact));
        active.queue.extend(writes);
        for (token, answer) in answers {
            // Whoever waits no longer needs no answer.
            if let Some(sender) = active.waiting.remove(&token) {
                let _ = sender.send(answer);
            }
        }
    }

    fn tell(&self, fact: &GroupFact) {
        self.observers.tell(|| Observation::Group {
            partition: self.partition.name(),
            leader_epoch: self.leader_epoch,
            fact,
        });
    }

    /// A topic is gone.
    pub(super) fn on_topic_deleted(&self, topic: &str) {
        if let State::Loading(deleted) = &mut *self.state() {
            return deleted.push(topic.to_owned());
        }
        // A shard that is closed has nothing to forget.
        let _ = self.with(|shard, now| shard.on_topic_deleted(topic, now));
    }

    /// Answers nobody any more. Whoever waits is told NOT_COORDINATOR.
    pub(super) fn close(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Closed);
        if matches!(before, State::Active(_)) {
            self.tell(&GroupFact::Unloaded);
        }
        self.to_do.notify_one();
    }

    /// Works until this broker does not lead any more, or this is closed. An append that is under way then comes to its end:
    /// a log is never left in the middle of one.
    pub(super) async fn run(self: Arc<Self>) {
        let (partition, epoch) = (self.partition.name().clone(), self.leader_epoch);
        match self.load().await {
            Ok(up_to) => tracing::info!(%partition, %epoch, %up_to, "coordinating groups"),
            Err(error) => {
                tracing::warn!(%partition, %epoch, %error, "groups cannot be loaded");
                return self.close();
            }
        }
        if let Err(code) = self.serve().await {
            tracing::info!(%partition, %epoch, %code, "coordinating groups no longer");
        }
        self.close();
    }

    async fn load(&self) -> Result<Offset, LoadError> {
        let buffer_bytes = self.settings.load_buffer_bytes;
        let (loader, up_to) = read_partition(&self.partition, self.leader_epoch, buffer_bytes).await?;
        let now = self.now();
        let shard = loader.finish(self.settings.clone(), self.observers.is_listening(), up_to, now);
        let mut active =
            Box::new(Active { shard, waiting: BTreeMap::new(), next_token: 0, queue: Queue::new() });
        let mut state = self.state();
        let State::Loading(deleted) = &*state else { return Err(LoadError::NotLeader) };
        deleted.iter().for_each(|topic| active.shard.on_topic_deleted(topic, now));
        self.carry_out(&mut active);
        *state = State::Active(active);
        Ok(up_to)
    }

    /// Appends, waits for commits and timers. Ends with an error where the partition is not this broker's any more.
    async fn serve(&self) -> Result<(), ErrorCode> {
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        loop {
            self.append_queued(&mut under_way).await?;
            let Some(timer) = self.next_timer() else { return Ok(()) };
            tokio::select! {
                biased;
                fate = oldest(&mut under_way) => {
                    let done = under_way.pop_front().expect("its fate was told");
                    self.on_fate(&done.writes, fate?);
                }
                () = self.to_do.notified() => {}
                () = self.runtime.sleep_until(timer) => {
                    self.with(Shard::on_tick)?;
                }
            }
        }
    }

    fn next_timer(&self) -> Option<Monotonic> {
        match &*self.state() {
            State::Active(active) => Some(active.shard.next_timer()),
            State::Loading(_) | State::Closed => None,
        }
    }

    fn on_fate(&self, writes: &[(WriteId, Offset)], fate: Fate) {
        let now = self.now();
        let State::Active(active) = &mut *self.state() else { return };
        for (id, offset) in writes {
            let verdict = match fate {
                Fate::Committed(code) => Verdict::Committed(*offset, code),
                Fate::Refused(code) => Verdict::Refused(code),
            };
            active.shard.on_written(*id, verdict, now);
        }
        self.carry_out(active);
    }

    fn take_queue(&self) -> Queue {
        match &mut *self.state() {
            State::Active(active) => std::mem::take(&mut active.queue),
            State::Loading(_) | State::Closed => Queue::new(),
        }
    }

    /// Appends all that waits, in as few batches as it takes.
    async fn append_queued(&self, under_way: &mut VecDeque<UnderWay>) -> Result<(), ErrorCode> {
        let mut queue = self.take_queue();
        let limit = BATCH_BYTES.min(self.partition.log().config().max_message_bytes as usize);
        while !queue.is_empty() {
            let mut builder = BatchBuilder::new();
            let mut writes = Vec::new();
            let timestamp_ms = self.runtime.unix_time().0;
            while let Some((id, records)) = queue.pop_front() {
                if !writes.is_empty() && builder.size_bytes() + size_of(&records) > limit {
                    queue.push_front((id, records));
                    break;
                }
                writes.push((id, Offset(i64::from(builder.record_count()))));
                for record in &records {
                    builder.add(timestamp_ms, Some(&record.key), record.value.as_deref(), []);
                }
            }
            let batch = RecordBatch::parse(builder.build(self.settings.compression));
            let batch = batch.expect("a batch that was just built is sound");
            under_way.push_back(self.append(batch, writes).await?);
        }
        Ok(())
    }

    async fn append(
        &self,
        batch: RecordBatch,
        mut writes: Vec<(WriteId, Offset)>,
    ) -> Result<UnderWay, ErrorCode> {
        match self.partition.append_in(self.leader_epoch, batch, true).await {
            Ok(appending) => {
                let base = appending.appended.base_offset;
                writes.iter_mut().for_each(|(_, offset)| *offset = base.plus(offset.0));
                Ok(UnderWay { writes, end: Box::pin(fate_of(appending)) })
            }
            Err(error) => {
                let code = refusal(&error)?;
                tracing::warn!(partition = %self.partition.name(), %error, "records of groups were refused");
                Ok(UnderWay { writes, end: Box::pin(std::future::ready(Ok(Fate::Refused(code)))) })
            }
        }
    }
}

fn size_of(records: &[GroupRecord]) -> usize {
    let size = |record: &GroupRecord| record.key.len() + record.value.as_ref().map_or(0, |value| value.len());
    records.iter().map(|record| size(record) + OVERHEAD_BYTES).sum::<usize>() + OVERHEAD_BYTES
}

/// The fate of the batch that was appended first; never, where there is none.
async fn oldest(under_way: &mut VecDeque<UnderWay>) -> Result<Fate, ErrorCode> {
    match under_way.front_mut() {
        Some(oldest) => (&mut oldest.end).await,
        None => std::future::pending().await,
    }
}

async fn fate_of(mut appending: Appending) -> Result<Fate, ErrorCode> {
    if let Err(error) = appending.stable().await {
        tracing::warn!(%error, "records of groups could not be made durable");
        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
    }
    match appending.committed().await {
        Ok(()) => Ok(Fate::Committed(ErrorCode::NONE)),
        Err(code @ ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND) => Ok(Fate::Committed(code)),
        Err(code) => Err(code),
    }
}

/// Why a batch is certainly not in the log; an error where that is not certain, or nothing will be any more.
fn refusal(error: &ProduceError) -> Result<ErrorCode, ErrorCode> {
    match error {
        ProduceError::Refused(ErrorCode::NOT_ENOUGH_REPLICAS) => Ok(ErrorCode::NOT_ENOUGH_REPLICAS),
        ProduceError::Refused(code) => Err(*code),
        ProduceError::Append(AppendError::TooLarge { .. }) => Ok(ErrorCode::MESSAGE_TOO_LARGE),
        ProduceError::Append(AppendError::LargerThanSegment { .. }) => Ok(ErrorCode::RECORD_LIST_TOO_LARGE),
        ProduceError::Append(AppendError::InvalidTimestamp { .. } | AppendError::Record(_)) => {
            Ok(ErrorCode::UNKNOWN_SERVER_ERROR)
        }
        ProduceError::Append(_) | ProduceError::Sync(_) => Err(ErrorCode::KAFKA_STORAGE_ERROR),
    }
}
