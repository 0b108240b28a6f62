//! The producer: records go into batches, batches to the leaders of their partitions, and whoever cares hears of it.
//!
//! ```text
//!   send ─► partitioner ─► accumulator (pure: batches, sequence numbers, retries)
//!                               │ plan          ▲ verdicts
//!                               ▼               │
//!                            sender task ─► cluster ─► brokers
//! ```
//! Three ways to send: drop the [`Delivery`] (fire and forget), await it, or leave a callback. A record is encoded once,
//! straight into its batch. Never sends a record to a partition in another order than it was given, if the producer is
//! idempotent or has one request in flight.

mod accumulator;
#[cfg(test)]
mod accumulator_tests;
mod batch;
mod config;
mod delivery;
mod murmur2;
mod partitioner;
mod queue;
mod record;
mod sender;
mod serializer;
mod verdict;

pub use config::{Acks, Partitioning, ProducerConfig};
pub use delivery::Delivery;
pub use murmur2::{murmur2, partition_of_key};
pub use partitioner::Partitioner;
pub use record::{Header, ProducerRecord, RecordMetadata};
pub use serializer::{BytesSerializer, NumberSerializer, Serializer, TypedProducer};

use crate::{
    ClientError,
    cluster::{Cluster, TopicMetadata, millis},
};
use accumulator::{Accumulator, Added, Completion, Rules};
use sillon_runtime::{Monotonic, Runtime, Tasks};
use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, Semaphore};

/// What the producer and its sender share.
struct Shared {
    runtime: Runtime,
    cluster: Cluster,
    config: ProducerConfig,
    core: Mutex<Accumulator>,
    /// One permit for each byte of `buffer_memory` that is free.
    room: Semaphore,
    /// Wakes the sender.
    wake: Notify,
    closed: AtomicBool,
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Accumulator> {
        self.core.lock().expect("nothing panics while it holds this lock")
    }

    fn cluster_handle(&self) -> Cluster {
        self.cluster.clone()
    }

    /// Gives room back and tells outcomes, in the order in which they became known.
    fn tell(&self, completions: Vec<Completion>) {
        for Completion { outcome, result, room } in completions {
            self.room.add_permits(room);
            if let Some(result) = result {
                outcome.complete(result);
            }
        }
    }
}

/// Counts one who waits for room, so that nothing lingers meanwhile.
struct Starving<'a>(&'a Shared);

impl<'a> Starving<'a> {
    fn new(shared: &'a Shared) -> Starving<'a> {
        shared.core().starved += 1;
        shared.wake.notify_one();
        Starving(shared)
    }
}

impl Drop for Starving<'_> {
    fn drop(&mut self) {
        self.0.core().starved -= 1;
    }
}

/// A producer. Share it by reference or `Arc`: all of it works from many tasks at once.
///
/// [`Producer::close`] sends what is left. Dropping it gives up what is not delivered: those who wait hear
/// [`ClientError::Closed`].
pub struct Producer {
    shared: Arc<Shared>,
    _tasks: Tasks,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("cluster", &self.shared.cluster).finish_non_exhaustive()
    }
}

impl Producer {
    /// A producer. Connects when it is first used.
    ///
    /// # Errors
    /// [`ClientError::Config`].
    pub fn new(runtime: &Runtime, config: ProducerConfig) -> Result<Producer, ClientError> {
        config.check()?;
        let cluster = Cluster::new(runtime, config.network.clone())?;
        cluster.allow_auto_create_topics(config.allow_auto_create_topics);
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            cluster,
            core: Mutex::new(Accumulator::new(rules(&config), runtime.random_u64())),
            room: Semaphore::new(config.buffer_memory),
            wake: Notify::new(),
            closed: AtomicBool::new(false),
            config,
        });
        let mut tasks = Tasks::default();
        tasks.push(runtime.spawn("producer sender", sender::run(shared.clone())));
        Ok(Producer { shared, _tasks: tasks })
    }

    /// Sends a record. Waits for room and, the first time, for the topic's metadata, at most `max_block_ms`; not for the
    /// record to be written: that is what the [`Delivery`] is for. Drop it to fire and forget.
    ///
    /// # Errors
    /// [`ClientError::RecordTooLarge`], [`ClientError::NoSuchPartition`], [`ClientError::TimedOut`] where there was no room, what
    /// [`Cluster::topic`] says of an unknown topic, [`ClientError::Closed`].
    pub async fn send(&self, record: &ProducerRecord<'_>) -> Result<Delivery, ClientError> {
        match self.attempt(record)? {
            Ok(delivery) => Ok(delivery),
            Err(obstacle) => self.send_slowly(record, obstacle).await,
        }
    }

    /// Sends a record if that needs no waiting; `None` where there is no room, or the topic is not known yet.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub fn try_send(&self, record: &ProducerRecord<'_>) -> Result<Option<Delivery>, ClientError> {
        Ok(self.attempt(record)?.ok())
    }

    /// Sends a record and waits until it is written.
    ///
    /// # Errors
    /// As [`Producer::send`], and what became of the record.
    pub async fn send_and_wait(&self, record: &ProducerRecord<'_>) -> Result<RecordMetadata, ClientError> {
        self.send(record).await?.await
    }

    /// Sends a record, and calls back once its fate is known, from the sender's task: what takes long there holds up all
    /// sending. Callbacks of one partition are called in the order of its records.
    ///
    /// # Errors
    /// As [`Producer::send`]; then nothing calls back.
    pub async fn send_then(
        &self,
        record: &ProducerRecord<'_>,
        callback: impl FnOnce(Result<RecordMetadata, ClientError>) + Send + 'static,
    ) -> Result<(), ClientError> {
        self.send(record).await?.call(Box::new(callback));
        Ok(())
    }

    /// How many partitions a topic has.
    ///
    /// # Errors
    /// As [`Cluster::topic`].
    pub async fn partitions_for(&self, topic: &str) -> Result<usize, ClientError> {
        let deadline = self.block_deadline();
        let metadata = self.shared.cluster.topic(topic, deadline).await?;
        Ok(metadata.topic(topic).map_or(0, |topic| topic.partitions.len()))
    }

    /// Sends what lingers, and waits until the fate of all that was sent before is known.
    pub async fn flush(&self) {
        let outcomes = self.shared.core().flush();
        self.shared.wake.notify_one();
        for outcome in outcomes {
            // Its fate is for those who wait for it.
            let _ = Delivery { outcome, index: 0, timestamp: 0 }.await;
        }
    }

    /// Takes nothing more, and waits at most `timeout` until everything is delivered. What is not by then is given up.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] where something was given up.
    pub async fn close(self, timeout: Duration) -> Result<(), ClientError> {
        self.shared.closed.store(true, Ordering::Release);
        let flushed = self.shared.runtime.timeout(timeout, self.flush()).await;
        flushed.map_err(|_elapsed| ClientError::TimedOut {
            what: "deliver everything before closing".to_owned(),
            timeout_ms: millis(timeout),
            last: "the rest is given up".to_owned(),
        })
    }

    /// The cluster as this producer sees it.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    fn block_deadline(&self) -> Monotonic {
        self.shared.runtime.now() + Duration::from_millis(self.shared.config.max_block_ms)
    }

    /// One attempt that never waits; the inner error is what it would have to wait for.
    fn attempt(&self, record: &ProducerRecord<'_>) -> Result<Result<Delivery, Obstacle>, ClientError> {
        let shared = &*self.shared;
        let timestamp = record.timestamp.unwrap_or_else(|| shared.runtime.unix_time().0);
        // Without room no batch can begin, so the time does not matter.
        let needed = match self.add(record, timestamp, Monotonic::default(), 0)? {
            Err(Obstacle::Room(needed)) => needed,
            done => return Ok(done),
        };
        let permits = u32::try_from(needed).expect("buffer_memory is below 4 GiB");
        let Ok(permit) = shared.room.try_acquire_many(permits) else {
            return Ok(Err(Obstacle::Room(needed)));
        };
        let added = self.add(record, timestamp, shared.runtime.now(), needed)?;
        if added.is_ok() {
            permit.forget();
        }
        Ok(added)
    }

    /// Adds a record; of `room`, which the caller has set aside, what is not used is given back on success.
    fn add(
        &self,
        record: &ProducerRecord<'_>,
        timestamp: i64,
        now: Monotonic,
        room: usize,
    ) -> Result<Result<Delivery, Obstacle>, ClientError> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed);
        }
        let added = self.shared.core().add(record, timestamp, now, room)?;
        Ok(match added {
            Added::Done { delivery, wake, spare } => {
                if spare > 0 {
                    self.shared.room.add_permits(spare);
                }
                if wake {
                    self.shared.wake.notify_one();
                }
                Ok(delivery)
            }
            Added::NeedsRoom(needed) => Err(Obstacle::Room(needed)),
            Added::UnknownTopic => Err(Obstacle::Topic),
        })
    }

    async fn send_slowly(
        &self,
        record: &ProducerRecord<'_>,
        mut obstacle: Obstacle,
    ) -> Result<Delivery, ClientError> {
        let shared = &*self.shared;
        let deadline = self.block_deadline();
        loop {
            let added = match obstacle {
                Obstacle::Topic => {
                    let metadata = shared.cluster.topic(record.topic, deadline).await?;
                    let topic = metadata.topic(record.topic).expect("the cluster says that it exists");
                    shared.core().learn(record.topic, topic.partitions.len(), available(topic));
                    self.attempt(record)?
                }
                Obstacle::Room(needed) => {
                    let _starving = Starving::new(shared);
                    let permits = u32::try_from(needed).expect("buffer_memory is below 4 GiB");
                    let waiting = shared.room.acquire_many(permits);
                    let left = deadline - shared.runtime.now();
                    let permit =
                        shared.runtime.timeout(left, waiting).await.map_err(|_elapsed| self.full())?;
                    let permit = permit.expect("the semaphore is never closed");
                    let timestamp = record.timestamp.unwrap_or_else(|| shared.runtime.unix_time().0);
                    let added = self.add(record, timestamp, shared.runtime.now(), needed)?;
                    if added.is_ok() {
                        permit.forget();
                    }
                    added
                }
            };
            match added {
                Ok(delivery) => return Ok(delivery),
                Err(again) => obstacle = again,
            }
        }
    }

    fn full(&self) -> ClientError {
        ClientError::TimedOut {
            what: "find room in buffer_memory".to_owned(),
            timeout_ms: self.shared.config.max_block_ms,
            last: format!("{} bytes wait to be delivered", self.shared.config.buffer_memory),
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        let completions = self.shared.core().abort(&ClientError::Closed);
        self.shared.tell(completions);
    }
}

/// What a record has to wait for.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    Room(usize),
    Topic,
}

fn rules(config: &ProducerConfig) -> Rules {
    Rules {
        idempotent: config.enable_idempotence,
        linger: Duration::from_millis(config.linger_ms),
        batch_size: config.batch_size,
        buffer_memory: config.buffer_memory,
        max_request_size: config.max_request_size,
        one_at_a_time: config.max_in_flight_requests_per_connection == 1,
        retries: config.retries,
        retry_backoff_ms: config.network.retry_backoff_ms,
        retry_backoff_max_ms: config.network.retry_backoff_max_ms,
        delivery_timeout: Duration::from_millis(config.delivery_timeout_ms),
        partitioner: config.partitioner.clone(),
    }
}

/// The partitions that have a leader.
fn available(topic: &TopicMetadata) -> Vec<usize> {
    let led = topic.partitions.iter().enumerate().filter(|(_, partition)| partition.leader.leader.is_some());
    led.map(|(index, _)| index).collect()
}
