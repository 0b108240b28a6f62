//! A producing client: makes batches at its rate, sends each to its partition's leader, wherever that moves, and tells the
//! oracle what came of each.

use super::{
    Chance, Shared, TopicPlan,
    directory::Directory,
    outbox::{Outbox, Outgoing, Resolution, Verdict},
    routes::BrokerNumber,
    topics, value,
};
use crate::oracle::{BatchId, ClientEvent, RecordId, SentBatch, Sequence};
use bytes::Bytes;
use sillon_broker::types::TopicPartition;
use sillon_client::{Connection, ConnectionError};
use sillon_protocol::{
    ErrorCode,
    messages::{InitProducerIdRequest, ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic},
    records::{BatchBuilder, RecordBatch},
};
use sillon_runtime::{Monotonic, Runtime};
use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Version from which topics are named by id.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;
/// The least version that allows zstd.
const FIRST_VERSION_WITH_ZSTD: i16 = 7;
/// How long a batch rests before it is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Kafka's sequence numbers have 31 bits.
const SEQUENCE_MASK: i64 = 0x7fff_ffff;

/// What came back for a batch.
struct Answer {
    partition: TopicPartition,
    id: BatchId,
    verdict: Verdict,
    /// The broker whose connection gave no answer: it is not to be trusted any more.
    silent: Option<BrokerNumber>,
    /// The broker's error.
    code: ErrorCode,
}

impl Answer {
    /// The topic is not there.
    fn is_unknown_topic(&self) -> bool {
        matches!(self.code, ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    }
}

/// The connections to those who lead the partitions that have something to send.
type Ways = BTreeMap<TopicPartition, (BrokerNumber, Arc<Connection>)>;

/// An idempotent producer's name and place in each partition.
#[derive(Debug, Default)]
struct Identity {
    /// Id and epoch; `None` before the broker gave them.
    name: Option<(i64, i16)>,
    next_sequence: BTreeMap<TopicPartition, i32>,
}

struct Producer {
    client: u32,
    shared: Arc<Shared>,
    chance: Chance,
    directory: Directory,
    outbox: Outbox,
    identity: Identity,
    answers: mpsc::UnboundedSender<Answer>,
    next_batch: Monotonic,
    /// Nothing is sent before this.
    resting_until: Monotonic,
}

/// Produces until the run says that it is enough and everything has its result.
pub(super) async fn run(runtime: Runtime, client: u32, shared: Arc<Shared>, chance: Chance) {
    let mut directory = Directory::new(runtime.clone(), shared.clone(), format!("producer-{client}"));
    if !topics::create(&mut directory, &shared).await {
        return;
    }
    directory.refresh().await;
    let (answers, mut received) = mpsc::unbounded_channel();
    let config = &shared.config;
    let mut producer = Producer {
        client,
        outbox: Outbox::new(config.is_idempotent(), config.in_flight.max(1) as usize),
        identity: Identity::default(),
        answers,
        next_batch: runtime.now(),
        resting_until: runtime.now(),
        directory,
        chance,
        shared: shared.clone(),
    };
    while !producer.is_done() {
        producer.step().await;
        let wake = producer.next_wake();
        tokio::select! {
            biased;
            Some(answer) = received.recv() => producer.on_answer(answer).await,
            () = runtime.sleep_until(wake) => {}
        }
    }
}

impl Producer {
    fn is_done(&self) -> bool {
        self.shared.is_stopped() || (self.shared.is_producing_over() && self.outbox.is_empty())
    }

    fn now(&self) -> Monotonic {
        self.directory.runtime.now()
    }

    /// Makes what is due and sends what can go.
    async fn step(&mut self) {
        let timeout = Duration::from_nanos(self.shared.config.delivery_timeout_ns);
        if self.outbox.has_expired(self.now(), timeout) {
            self.start_anew();
        }
        if self.now() < self.resting_until {
            return;
        }
        if !self.directory.keep_fresh().await.is_empty() {
            // Another topic of the same name: what was meant for the one before is not sent to it.
            self.start_anew();
        }
        if self.shared.config.is_idempotent() && self.identity.name.is_none() && !self.introduce().await {
            self.resting_until = self.now() + RETRY_PAUSE;
            return;
        }
        if self.now() >= self.next_batch && !self.shared.is_producing_over() {
            self.make_batch();
        }
        self.send_all().await;
    }

    fn next_wake(&self) -> Monotonic {
        // The flags that end the run are looked at once in a while.
        let idle = self.now() + RETRY_PAUSE;
        if self.shared.is_producing_over() { idle } else { idle.min(self.next_batch.max(self.resting_until)) }
    }

    /// Asks for a producer id.
    async fn introduce(&mut self) -> bool {
        let request = InitProducerIdRequest { transaction_timeout_ms: i32::MAX, ..Default::default() };
        match self.directory.ask_any(&request).await {
            Ok(response) if response.error_code == 0 => {
                self.identity = Identity {
                    name: Some((response.producer_id, response.producer_epoch)),
                    next_sequence: BTreeMap::new(),
                };
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    fn make_batch(&mut self) {
        let config = &self.shared.config;
        let rate = config.records_per_second / f64::from(config.producers.max(1));
        let partitions = self.directory.partitions();
        let index = self.chance.draw("partition", 0, partitions.len() as u64 - 1);
        let count =
            self.chance.draw("records", u64::from(config.batch_records.0), u64::from(config.batch_records.1));
        let share = self.chance.draw("pause", 500, 1500);
        let pause_ns = count as f64 / rate.max(0.001) * share as f64 * 1e6;
        self.next_batch = self.now() + Duration::from_nanos(pause_ns as u64);
        let partition = partitions[index as usize].clone();
        if self.outbox.has_room(&partition) {
            let batch = self.build(partition, count as u32);
            self.outbox.add(batch);
        }
    }

    fn build(&mut self, partition: TopicPartition, count: u32) -> Outgoing {
        let config = &self.shared.config;
        let compression =
            config.compression[self.chance.draw("codec", 0, config.compression.len() as u64 - 1) as usize];
        let first = self.shared.take_counters(self.client, count);
        let mut builder = BatchBuilder::new();
        let sequence = self.identity.name.map(|(producer_id, producer_epoch)| {
            let next = self.identity.next_sequence.entry(partition.clone()).or_insert(0);
            let first = *next;
            *next = ((i64::from(first) + i64::from(count)) & SEQUENCE_MASK) as i32;
            Sequence { producer_id, producer_epoch, first }
        });
        if let Some(sequence) = sequence {
            builder = builder.producer(sequence.producer_id, sequence.producer_epoch, sequence.first);
        }
        let timestamp_ms = self.directory.runtime.unix_time().0;
        // Each record has a key of its own: compaction may move it, and never remove it.
        let plan = self.shared.topics.iter().find(|plan| *plan.name == *partition.topic);
        let is_compacted = plan.is_some_and(TopicPlan::is_compacted);
        for counter in first..first + u64::from(count) {
            let length =
                self.chance.draw("bytes", u64::from(config.value_bytes.0), u64::from(config.value_bytes.1));
            let value = value::encode(RecordId { client: self.client, counter }, length as usize);
            let key = is_compacted.then_some(&value[..value::LEAST_BYTES]);
            builder.add(timestamp_ms, key, Some(&value), []);
        }
        let bytes = builder.build(compression.into());
        let crc = RecordBatch::parse(&bytes[..]).expect("it was just built").crc();
        let id = BatchId { client: self.client, first };
        let topic_id = self.directory.life(&partition.topic);
        Outgoing::new(SentBatch { id, partition, topic_id, count, crc, sequence, acks: config.acks }, bytes)
    }

    async fn send_all(&mut self) {
        // Without a connection to the leader nothing is taken from the outbox: it would only come back.
        let ways = self.ways().await;
        while let Some((mut sent, bytes, is_first)) =
            self.outbox.next_to_send(self.now(), |partition| ways.contains_key(partition))
        {
            if is_first {
                // It may have been made before anybody knew the topic.
                sent.topic_id = self.directory.life(&sent.partition.topic);
                (self.shared.events)(ClientEvent::Sending(sent.clone()));
            }
            let (leader, connection) = &ways[&sent.partition];
            self.send(*leader, connection, sent, bytes).await;
        }
    }

    async fn ways(&mut self) -> Ways {
        let mut ways = Ways::new();
        let mut unreachable = Vec::new();
        for partition in self.outbox.waiting() {
            let knows_id = self.directory.routes.ids().contains_key(&*partition.topic);
            let leader = self.directory.routes.leader(&partition);
            let Some(leader) = leader.filter(|_| knows_id || !self.shared.comes_and_goes(&partition.topic))
            else {
                self.directory.doubt();
                continue;
            };
            if unreachable.contains(&leader) {
                continue;
            }
            match self.directory.connection(leader).await {
                Some(connection) => {
                    ways.insert(partition, (leader, connection));
                }
                None => unreachable.push(leader),
            }
        }
        ways
    }

    async fn send(
        &mut self,
        leader: BrokerNumber,
        connection: &Arc<Connection>,
        sent: SentBatch,
        bytes: Bytes,
    ) {
        let version = connection
            .common_versions::<ProduceRequest>()
            .map(|common| self.version(&common, &sent.partition));
        let topic_id = self.directory.routes.ids().get(&*sent.partition.topic).copied().unwrap_or_default();
        let request = ProduceRequest {
            transactional_id: None,
            acks: sent.acks,
            timeout_ms: i32::try_from(self.shared.request_timeout().as_millis()).unwrap_or(i32::MAX),
            topic_data: vec![ProduceTopic {
                name: sent.partition.topic.to_string(),
                topic_id: Uuid::from_bytes(topic_id),
                partition_data: vec![ProducePartition {
                    index: sent.partition.partition,
                    records: Some(bytes),
                }],
            }],
        };
        if sent.acks == 0 {
            let result = match version {
                Ok(version) => connection.send_unanswered(version, &request).await,
                Err(error) => Err(error),
            };
            let verdict = result.map_or_else(|error| verdict_of_error(&error), |()| Verdict::Ambiguous);
            self.resolve(&sent.partition, sent.id, verdict);
            return;
        }
        let begun = match version {
            Ok(version) => connection.begin(version, &request, self.shared.request_timeout()).await,
            Err(error) => Err(error),
        };
        // Each answer is awaited in a task of its own, so that several requests are on their way at a time. The task
        // holds the connection: what was asked on it may still be answered after it was given up here.
        let (connection, answers) = (connection.clone(), self.answers.clone());
        self.directory.runtime.spawn("produce", async move {
            let result = match begun {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            drop(connection);
            // Nobody listens any more when the run is over.
            let _ = answers.send(judged(leader, sent, result));
        });
    }

    /// Any version that can say it: old and new clients meet in a run.
    fn version(&mut self, common: &RangeInclusive<i16>, partition: &TopicPartition) -> i16 {
        let low = (*common.start()).max(FIRST_VERSION_WITH_ZSTD).min(*common.end());
        let can_use_ids = self.directory.routes.ids().contains_key(&*partition.topic);
        let has_to = self.shared.comes_and_goes(&partition.topic);
        let low = if has_to { low.max(FIRST_VERSION_WITH_TOPIC_IDS.min(*common.end())) } else { low };
        let high =
            if can_use_ids { *common.end() } else { (*common.end()).min(FIRST_VERSION_WITH_TOPIC_IDS - 1) };
        self.chance.draw("version", low as u64, high.max(low) as u64) as i16
    }

    async fn on_answer(&mut self, answer: Answer) {
        if let Some(broker) = answer.silent {
            self.directory.give_up(broker);
        }
        if matches!(answer.verdict, Verdict::Ambiguous | Verdict::NotSent) {
            self.resting_until = self.now() + RETRY_PAUSE;
            self.directory.doubt();
        }
        let is_unknown_topic = answer.is_unknown_topic();
        self.resolve(&answer.partition, answer.id, answer.verdict);
        if is_unknown_topic && topics::create(&mut self.directory, &self.shared).await {
            self.directory.doubt();
        }
    }

    fn resolve(&mut self, partition: &TopicPartition, id: BatchId, verdict: Verdict) {
        let (resolution, is_broken) = self.outbox.answer(partition, id, verdict);
        if let Some(resolution) = resolution {
            self.tell(resolution);
        }
        if is_broken {
            self.start_anew();
        }
    }

    /// Gives up what is unresolved, and the producer id with it.
    fn start_anew(&mut self) {
        for resolution in self.outbox.start_anew() {
            self.tell(resolution);
        }
        self.identity = Identity::default();
    }

    fn tell(&self, resolution: Resolution) {
        (self.shared.events)(match resolution {
            Resolution::Confirmed(id, base_offset) => ClientEvent::Confirmed { id, base_offset },
            Resolution::Failed(id) => ClientEvent::Failed { id },
            Resolution::Unknown(id) => ClientEvent::Unknown { id },
        });
    }
}

/// What came back, as the producer takes it.
fn judged(leader: BrokerNumber, sent: SentBatch, result: Result<ProduceResponse, ConnectionError>) -> Answer {
    let (verdict, silent, code) = match result {
        Ok(response) => {
            let partition = response.responses.first().and_then(|topic| topic.partition_responses.first());
            let (code, base_offset) = partition.map_or((ErrorCode::UNKNOWN_SERVER_ERROR, -1), |partition| {
                (ErrorCode::from(partition.error_code), partition.base_offset)
            });
            (Verdict::of(code, base_offset), None, code)
        }
        Err(error) => (verdict_of_error(&error), Some(leader), ErrorCode::NONE),
    };
    Answer { partition: sent.partition, id: sent.id, verdict, silent, code }
}

fn verdict_of_error(error: &ConnectionError) -> Verdict {
    if error.is_definite() { Verdict::NotSent } else { Verdict::Ambiguous }
}
