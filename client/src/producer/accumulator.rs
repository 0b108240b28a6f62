//! What a producer has taken on and not delivered yet: topics, their partitions' queues, the room they take, and what is
//! to be sent next. Pure: events in (a record, an answer, the time), decisions out; no clock, no socket, no task.
//!
//! Keeps I28: what is confirmed of one partition appears in the order of sending, also when it has to be sent again.

use super::{
    Partitioning, ProducerRecord,
    batch::{Batch, Content, Identity, Sequence},
    delivery::{Delivery, Outcome, Written},
    partitioner::{Chooser, Random},
    queue::{Departure, Queue},
};
use crate::{ClientError, backoff::backoff};
use bytes::Bytes;
use sillon_protocol::records::BATCH_OVERHEAD;
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What the accumulator goes by.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) idempotent: bool,
    pub(super) linger: Duration,
    pub(super) batch_size: usize,
    pub(super) buffer_memory: usize,
    pub(super) max_request_size: usize,
    /// Whether at most one batch of a partition may fly, as without idempotence order demands.
    pub(super) one_at_a_time: bool,
    pub(super) retries: u32,
    pub(super) retry_backoff_ms: u64,
    pub(super) retry_backoff_max_ms: u64,
    pub(super) delivery_timeout: Duration,
    pub(super) partitioner: Partitioning,
}

/// What became of a record that was to be added.
#[derive(Debug)]
pub(super) enum Added {
    /// It is in a batch.
    Done {
        delivery: Delivery,
        /// Whether the sender has something new to look at.
        wake: bool,
        /// How much of the room that was brought along is not needed.
        spare: usize,
    },
    /// A new batch is needed, and so is room for it.
    NeedsRoom(usize),
    /// Nothing is known of the topic.
    UnknownTopic,
}

/// What brokers say of a batch, or what is to be concluded.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    Written {
        base_offset: Option<i64>,
        log_append_time: Option<i64>,
    },
    /// It may be written if it is sent again.
    TryAgain(ClientError),
    OutOfOrder(ClientError),
    /// The broker knows nothing of the producer any more.
    UnknownProducer(ClientError),
    /// It is not written and never will be.
    Refused(ClientError),
}

/// A batch whose outcome is to be told, and whose room is free again.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) outcome: Arc<Outcome>,
    /// `None` where it was told before.
    pub(super) result: Option<Result<Written, ClientError>>,
    pub(super) room: usize,
}

/// A batch that departs.
#[derive(Debug)]
pub(super) struct Departing {
    pub(super) queue: usize,
    pub(super) id: u64,
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) content: Content,
    pub(super) sequence: Option<Sequence>,
}

/// What is to be done next.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// One request for each of these brokers, with at most one batch of each partition.
    pub(super) requests: BTreeMap<i32, Vec<Departing>>,
    /// Brokers for which something waits, but which cannot take it.
    pub(super) held_up: BTreeSet<i32>,
    /// Something waits for a partition without a leader.
    pub(super) leaderless: bool,
    /// Something waits for a producer id.
    pub(super) identity_wanted: bool,
    pub(super) completions: Vec<Completion>,
    /// When there may be more to do although nothing happens.
    pub(super) due: Option<Monotonic>,
}

struct Topic {
    /// Places of its partitions in `queues`.
    queues: Vec<usize>,
    /// Partitions with a leader.
    available: Vec<usize>,
    chooser: Chooser,
}

/// See the module.
pub(super) struct Accumulator {
    rules: Rules,
    topics: BTreeMap<Arc<str>, Topic>,
    queues: Vec<Queue>,
    /// Those that are not empty.
    busy: BTreeSet<usize>,
    next_id: u64,
    /// Batches with a lower id do not linger.
    flush_before: u64,
    /// How many wait for room: then nothing lingers.
    pub(super) starved: usize,
    identity: Option<Identity>,
    random: Random,
    /// Where the last plan began, so that no partition is always first.
    turn: usize,
}

impl Accumulator {
    pub(super) fn new(rules: Rules, seed: u64) -> Accumulator {
        Accumulator {
            rules,
            topics: BTreeMap::new(),
            queues: Vec::new(),
            busy: BTreeSet::new(),
            next_id: 0,
            flush_before: 0,
            starved: 0,
            identity: None,
            random: Random::new(seed),
            turn: 0,
        }
    }

    /// A topic has so many partitions, and these have a leader.
    pub(super) fn learn(&mut self, name: &str, partitions: usize, available: Vec<usize>) {
        let topic = match self.topics.get_mut(name) {
            Some(topic) => topic,
            None => {
                let topic = Topic { queues: Vec::new(), available: Vec::new(), chooser: Chooser::default() };
                self.topics.entry(name.into()).or_insert(topic)
            }
        };
        topic.available = available;
        for partition in topic.queues.len()..partitions {
            topic.queues.push(self.queues.len());
            let partition = i32::try_from(partition).expect("partitions are numbered with 31 bits");
            self.queues.push(Queue::new(name.into(), partition));
        }
    }

    /// The topics that were learnt of.
    pub(super) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    /// Adds a record; `room` is how much of the buffer was set aside for a new batch, if any was.
    ///
    /// # Errors
    /// [`ClientError::RecordTooLarge`], [`ClientError::NoSuchPartition`].
    pub(super) fn add(
        &mut self,
        record: &ProducerRecord<'_>,
        timestamp: i64,
        now: Monotonic,
        room: usize,
    ) -> Result<Added, ClientError> {
        let bytes = BATCH_OVERHEAD + record.bound();
        self.check_size(bytes)?;
        let Some(topic) = self.topics.get_mut(record.topic) else { return Ok(Added::UnknownTopic) };
        let partitions = topic.queues.len();
        let rule = &self.rules.partitioner;
        let chosen = topic.chooser.choose(rule, record, partitions, &topic.available, &mut self.random);
        let place = usize::try_from(chosen).ok().filter(|chosen| *chosen < partitions);
        let Some(place) = place else {
            let partition = i32::try_from(chosen).unwrap_or(-1);
            return Err(ClientError::NoSuchPartition {
                topic: record.topic.to_owned(),
                partition,
                partitions,
            });
        };
        let index = topic.queues[place];
        let queue = &mut self.queues[index];
        let mut wake = false;
        let mut spare = room;
        let last = queue.waiting.back_mut();
        let had_open = last.as_ref().is_some_and(|batch| batch.open);
        let added = last.and_then(|batch| Some((batch.add(record, timestamp)?, batch)));
        let (position, batch) = match added {
            Some(added) => added,
            None => {
                let needed = bytes.max(self.rules.batch_size);
                if room < needed {
                    return Ok(Added::NeedsRoom(needed));
                }
                // Either the one before is full, or there is a new time to wait for.
                wake = true;
                spare = room - needed;
                let mut batch = Batch::new(self.next_id, now, needed);
                self.next_id += 1;
                let position = batch.add(record, timestamp).expect("the first record always fits");
                queue.waiting.push_back(batch);
                self.busy.insert(index);
                (position, queue.waiting.back_mut().expect("it was just added"))
            }
        };
        let full = batch.size_bytes() >= self.rules.batch_size;
        if full {
            batch.open = false;
        }
        wake |= full || !had_open;
        let delivery = Delivery { outcome: batch.outcome.clone(), index: position, timestamp };
        topic.chooser.went(place, record.bound(), self.rules.batch_size);
        Ok(Added::Done { delivery, wake, spare })
    }

    fn check_size(&self, bytes: usize) -> Result<(), ClientError> {
        for (key, limit_bytes) in
            [("max_request_size", self.rules.max_request_size), ("buffer_memory", self.rules.buffer_memory)]
        {
            if bytes > limit_bytes {
                return Err(ClientError::RecordTooLarge { bytes, key, limit_bytes });
            }
        }
        Ok(())
    }

    /// The producer has an id.
    pub(super) fn identify(&mut self, identity: Identity) {
        self.identity = Some(identity);
    }

    /// Nothing that was added so far lingers. Gives the outcomes of all of it.
    pub(super) fn flush(&mut self) -> Vec<Arc<Outcome>> {
        self.flush_before = self.next_id;
        let batches = |queue: &Queue| {
            let waiting = queue.waiting.iter().map(|batch| batch.outcome.clone());
            let flying = queue.flying.values().filter(|batch| !batch.told).map(|batch| batch.outcome.clone());
            waiting.chain(flying).collect::<Vec<_>>()
        };
        self.busy.iter().flat_map(|queue| batches(&self.queues[*queue])).collect()
    }

    /// Everything fails.
    pub(super) fn abort(&mut self, error: &ClientError) -> Vec<Completion> {
        let mut completions = Vec::new();
        for index in std::mem::take(&mut self.busy) {
            let queue = &mut self.queues[index];
            let flying = std::mem::take(&mut queue.flying).into_values();
            for batch in flying.chain(std::mem::take(&mut queue.waiting)) {
                let result = (!batch.told).then(|| Err(error.clone()));
                completions.push(Completion { outcome: batch.outcome, result, room: batch.room });
            }
        }
        completions
    }

    /// What is to be done now. `leader` tells who leads a partition, `free` whether a broker can take a request.
    pub(super) fn plan(
        &mut self,
        now: Monotonic,
        leader: impl Fn(&str, i32) -> Option<i32>,
        free: impl Fn(i32) -> bool,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut sizes: BTreeMap<i32, usize> = BTreeMap::new();
        let turn = self.turn;
        let order: Vec<usize> = self.busy.range(turn..).chain(self.busy.range(..turn)).copied().collect();
        self.turn = order.get(1).copied().unwrap_or(0);
        for index in order {
            self.expire(index, now, &mut plan);
            match self.ready_at(index, now) {
                Some(at) if at <= now => {}
                at => {
                    plan.due = earlier(plan.due, at);
                    continue;
                }
            }
            let queue = &self.queues[index];
            let Some(broker) = leader(&queue.topic, queue.partition) else {
                plan.leaderless = true;
                continue;
            };
            if !self.numbered(index, &mut plan) {
                continue;
            }
            if !free(broker) {
                plan.held_up.insert(broker);
                continue;
            }
            let queue = &mut self.queues[index];
            let bytes = queue.waiting.front().map_or(0, Batch::size_bytes);
            let size = sizes.entry(broker).or_default();
            if *size > 0 && *size + bytes > self.rules.max_request_size {
                plan.held_up.insert(broker);
                continue;
            }
            *size += bytes;
            let (topic, partition) = (queue.topic.clone(), queue.partition);
            let batch = queue.depart(self.rules.idempotent);
            let content = batch.content.take().expect("a batch that waits has its content");
            let (id, sequence) = (batch.id, batch.sequence);
            let departing = Departing { queue: index, id, topic, partition, content, sequence };
            plan.requests.entry(broker).or_default().push(departing);
        }
        plan
    }

    /// When the front of a queue is ready to be sent as far as time is concerned, `None` if something has to happen first.
    fn ready_at(&self, index: usize, now: Monotonic) -> Option<Monotonic> {
        let queue = &self.queues[index];
        let front = queue.waiting.front()?;
        if self.rules.one_at_a_time && !queue.flying.is_empty() {
            return None;
        }
        if front.failures > 0 {
            return Some(front.retry_at);
        }
        let whole = !front.open || queue.waiting.len() > 1;
        if whole || front.id < self.flush_before || self.starved > 0 {
            Some(now)
        } else {
            Some(front.created + self.rules.linger)
        }
    }

    /// Whether the front of a queue may depart as far as sequence numbers are concerned.
    fn numbered(&mut self, index: usize, plan: &mut Plan) -> bool {
        if !self.rules.idempotent {
            return true;
        }
        loop {
            let Some(identity) = self.identity else {
                plan.identity_wanted = true;
                return false;
            };
            match self.queues[index].may_depart(identity) {
                Departure::Ready => return true,
                Departure::Later => return false,
                // Brokers take the next epoch of an idempotent producer from itself (KIP-360).
                Departure::NewEpoch => {
                    self.identity =
                        identity.epoch.checked_add(1).map(|epoch| Identity { id: identity.id, epoch });
                }
            }
        }
    }

    /// Fails what took too long.
    fn expire(&mut self, index: usize, now: Monotonic, plan: &mut Plan) {
        let limit = self.rules.delivery_timeout;
        let queue = &mut self.queues[index];
        for batch in queue.flying.values_mut().filter(|batch| !batch.told) {
            if batch.created + limit <= now {
                batch.told = true;
                // Its room is free once its bytes are not needed any more.
                let result = Some(Err(too_late(&queue.topic, queue.partition, limit)));
                plan.completions.push(Completion { outcome: batch.outcome.clone(), result, room: 0 });
            } else {
                plan.due = earlier(plan.due, Some(batch.created + limit));
            }
        }
        while let Some(front) = queue.waiting.front() {
            let at = front.created + limit;
            if at > now {
                plan.due = earlier(plan.due, Some(at));
                break;
            }
            let batch = queue.waiting.pop_front().expect("the front was there a moment ago");
            queue.perhaps_written(&batch);
            let result = Some(Err(too_late(&queue.topic, queue.partition, limit)));
            plan.completions.push(Completion { outcome: batch.outcome, result, room: batch.room });
        }
        if queue.is_empty() {
            self.busy.remove(&index);
        }
    }

    /// A batch was built and is being sent.
    pub(super) fn sent(&mut self, queue: usize, id: u64, bytes: Bytes) {
        let flying = self.queues.get_mut(queue).and_then(|queue| queue.flying.get_mut(&id));
        // Gone where everything was given up meanwhile.
        if let Some(batch) = flying {
            batch.content = Some(Content::Built(bytes, batch.sequence));
        }
    }

    /// There is an answer to a batch, or none will come. `None` where it was given up before, or is to be sent again.
    pub(super) fn arrived(
        &mut self,
        index: usize,
        id: u64,
        verdict: Verdict,
        now: Monotonic,
    ) -> Option<Completion> {
        let random = self.random.next();
        let queue = self.queues.get_mut(index)?;
        let mut batch = queue.flying.remove(&id)?;
        let again = batch.failures < self.rules.retries && batch.created + self.rules.delivery_timeout > now;
        let result = match verdict {
            Verdict::Written { base_offset, log_append_time } => {
                queue.written(&batch);
                let (topic, partition) = (queue.topic.clone(), queue.partition);
                Ok(Written { topic, partition, base_offset, log_append_time })
            }
            Verdict::Refused(error) => {
                queue.never_written(&batch);
                Err(error)
            }
            Verdict::TryAgain(error) | Verdict::OutOfOrder(error) | Verdict::UnknownProducer(error)
                if batch.told || !again =>
            {
                queue.perhaps_written(&batch);
                Err(error)
            }
            verdict => {
                match verdict {
                    Verdict::OutOfOrder(_) => queue.out_of_order(&batch),
                    Verdict::UnknownProducer(_) => queue.forgotten(&batch),
                    _ => {}
                }
                batch.failures += 1;
                let (initial, max) = (self.rules.retry_backoff_ms, self.rules.retry_backoff_max_ms);
                batch.retry_at = now + backoff(initial, max, batch.failures, random);
                queue.try_again(batch);
                return None;
            }
        };
        if queue.is_empty() {
            self.busy.remove(&index);
        }
        Some(Completion { outcome: batch.outcome, result: (!batch.told).then_some(result), room: batch.room })
    }
}

fn too_late(topic: &str, partition: i32, limit: Duration) -> ClientError {
    ClientError::TimedOut {
        what: format!("deliver to {topic}-{partition}"),
        timeout_ms: crate::cluster::millis(limit),
        last: "delivery_timeout_ms is over".to_owned(),
    }
}

fn earlier(one: Option<Monotonic>, other: Option<Monotonic>) -> Option<Monotonic> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
