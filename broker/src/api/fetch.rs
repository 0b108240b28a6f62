//! Fetch (1): reads record batches below the high watermark; waits for more where there is too little.
//!
//! Records stay where they are: the answer names slices of log files, which go from there to the socket.

use super::{
    check_leader_epoch,
    fetch_session::{PartitionKey, SessionRequest, Told, TopicKey, Wanted},
};
use crate::{
    broker::{Broker, Topics},
    log::{LogSlice, ReadError},
    partition::{Partition, Ticket},
    types::{LeaderEpoch, Offset, TopicId, Uuid},
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{
        FetchEpochEndOffset, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse,
        LeaderIdAndEpoch,
    },
    records::Compression,
    wire::Records,
};
use sillon_runtime::Monotonic;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Version from which topics are named by id.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;
/// Version from which an answer can tell who leads, and where logs diverge.
const FIRST_VERSION_WITH_LEADERS: i16 = 12;
/// Version from which clients know zstd.
const FIRST_VERSION_WITH_ZSTD: i16 = 10;
/// Slices below this are copied into the answer: one system call less beats no copy.
const COPY_BELOW_BYTES: usize = 16 * 1024;

/// What a partition has to say.
struct Outcome {
    key: PartitionKey,
    fetch_offset: Offset,
    error: ErrorCode,
    leader_epoch: Option<LeaderEpoch>,
    high_watermark: Offset,
    log_start: Offset,
    diverging: Option<(LeaderEpoch, Offset)>,
    slice: Option<LogSlice>,
}

/// One request, with what does not change while it waits.
struct Fetch<'a> {
    broker: &'a Broker,
    version: i16,
    min_bytes: usize,
    max_bytes: usize,
    is_follower: bool,
}

pub(crate) async fn handle(
    broker: &Broker,
    version: i16,
    request: FetchRequest,
) -> (FetchResponse, Vec<LogSlice>) {
    let max_wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let fetch = Fetch {
        broker,
        version,
        min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(request.max_bytes).unwrap_or(0).min(broker.config().fetch_max_bytes),
        is_follower: request.replica_id.max(request.replica_state.replica_id) >= 0,
    };
    let now = broker.runtime().now();
    let session_request = session_request(version, request);
    let plan = {
        let random_id = || broker.runtime().random_u64() as i32;
        broker.sessions().lock().expect("no holder panics").plan(session_request, now, random_id)
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(code) => {
            return (FetchResponse { error_code: code.code(), ..FetchResponse::default() }, Vec::new());
        }
    };
    let mut outcomes = fetch.until_enough(&plan.partitions, now + max_wait).await;
    if broker.observers().is_listening() {
        outcomes.iter().for_each(|outcome| outcome.observe_serving(broker));
    }
    fetch.note_in_session(plan.session_id, plan.incremental, &mut outcomes);
    let (responses, slices) = answer(version, outcomes).await;
    (FetchResponse { session_id: plan.session_id, responses, ..FetchResponse::default() }, slices)
}

/// The part of the request that belongs to its session.
fn session_request(version: i16, request: FetchRequest) -> SessionRequest {
    let uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS;
    let key = |name: &str, id: Uuid| {
        if uses_topic_ids { TopicKey::Id(TopicId(id)) } else { TopicKey::Name(name.into()) }
    };
    let mut partitions = Vec::new();
    for topic in &request.topics {
        let topic_key = key(&topic.topic, topic.topic_id);
        partitions.extend(topic.partitions.iter().map(|partition| {
            let wanted = Wanted {
                fetch_offset: Offset(partition.fetch_offset),
                max_bytes: partition.partition_max_bytes,
                current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
                last_fetched_epoch: LeaderEpoch(partition.last_fetched_epoch),
            };
            ((topic_key.clone(), partition.partition), wanted)
        }));
    }
    let mut forgotten = Vec::new();
    for topic in &request.forgotten_topics_data {
        let topic_key = key(&topic.topic, topic.topic_id);
        forgotten.extend(topic.partitions.iter().map(|partition| (topic_key.clone(), *partition)));
    }
    SessionRequest {
        session_id: request.session_id,
        epoch: request.session_epoch,
        uses_topic_ids,
        partitions,
        forgotten,
    }
}

fn find<'a>(topics: &'a Topics, key: &PartitionKey) -> Result<&'a Arc<Partition>, ErrorCode> {
    let topic = match &key.0 {
        TopicKey::Name(name) => topics.by_name(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?,
        TopicKey::Id(id) => topics.by_id(*id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?,
    };
    topic.partition(key.1)
}

impl Fetch<'_> {
    /// Reads until there is enough, something is wrong, or the time is over.
    async fn until_enough(&self, wanted: &[(PartitionKey, Wanted)], deadline: Monotonic) -> Vec<Outcome> {
        let mut waiting: Option<(Arc<Notify>, Vec<Ticket>)> = None;
        loop {
            let topics = self.broker.topics();
            let outcomes = self.read_all(&topics, wanted).await;
            let bytes: usize = outcomes.iter().map(Outcome::bytes).sum();
            let settled = outcomes.iter().any(Outcome::is_final);
            if bytes >= self.min_bytes || settled || self.broker.runtime().now() >= deadline {
                return outcomes;
            }
            let Some((notify, _)) = &waiting else {
                // What arrives between the reading and the waiting is seen by reading once more.
                let notify = Arc::new(Notify::new());
                let partitions = wanted.iter().filter_map(|(key, _)| find(&topics, key).ok());
                let tickets = partitions.map(|partition| partition.wait(notify.clone())).collect();
                waiting = Some((notify, tickets));
                continue;
            };
            tokio::select! {
                biased;
                () = notify.notified() => {}
                () = self.broker.runtime().sleep_until(deadline) => {}
            }
        }
    }

    async fn read_all(&self, topics: &Topics, wanted: &[(PartitionKey, Wanted)]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(wanted.len());
        let mut left = self.max_bytes;
        for (key, wanted) in wanted {
            // The first records of an answer may be larger than allowed, so that a client can always go on.
            let is_first = left == self.max_bytes;
            let outcome = match find(topics, key) {
                Ok(partition) => self.read(key, wanted, partition, left, is_first).await,
                Err(code) => Outcome::error(key, code),
            };
            left = left.saturating_sub(outcome.bytes());
            outcomes.push(outcome);
        }
        outcomes
    }

    async fn read(
        &self,
        key: &PartitionKey,
        wanted: &Wanted,
        partition: &Partition,
        left: usize,
        is_first: bool,
    ) -> Outcome {
        let log = partition.log();
        let leader_epoch = partition.leader_epoch();
        let mut outcome = Outcome {
            fetch_offset: wanted.fetch_offset,
            leader_epoch: Some(leader_epoch),
            high_watermark: partition.high_watermark(),
            log_start: log.log_start_offset(),
            ..Outcome::error(key, ErrorCode::NONE)
        };
        if let Err(code) = check_leader_epoch(wanted.current_leader_epoch.0, leader_epoch) {
            return Outcome { error: code, ..outcome };
        }
        if self.is_follower {
            // No other broker holds a replica.
            return Outcome { error: ErrorCode::NOT_LEADER_OR_FOLLOWER, ..outcome };
        }
        if self.version < FIRST_VERSION_WITH_ZSTD && log.config().compression == Some(Compression::Zstd) {
            return Outcome { error: ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, ..outcome };
        }
        if wanted.last_fetched_epoch != LeaderEpoch::NONE {
            let (epoch, end_offset) = log.end_offset_for_epoch(wanted.last_fetched_epoch);
            if epoch < wanted.last_fetched_epoch || end_offset < wanted.fetch_offset {
                return Outcome { diverging: Some((epoch, end_offset)), ..outcome };
            }
        }
        let max_bytes = usize::try_from(wanted.max_bytes).unwrap_or(0).min(left);
        match log.read(wanted.fetch_offset, max_bytes, outcome.high_watermark, is_first).await {
            Ok(slice) => outcome.slice = (slice.length > 0).then_some(slice),
            Err(error) => outcome.error = read_error_code(partition, &error),
        }
        outcome
    }

    /// Notes in the session what is told, and leaves out what is not news.
    fn note_in_session(&self, session_id: i32, incremental: bool, outcomes: &mut Vec<Outcome>) {
        let mut sessions = self.broker.sessions().lock().expect("no holder panics");
        let mut served = BTreeSet::new();
        outcomes.retain(|outcome| {
            let told = Told { high_watermark: outcome.high_watermark, log_start: outcome.log_start };
            if outcome.bytes() > 0 {
                served.insert(outcome.key.clone());
            }
            let must_send = outcome.bytes() > 0 || outcome.is_final();
            let send = sessions.tell(session_id, &outcome.key, told, must_send);
            send || !incremental
        });
        sessions.served(session_id, &served);
    }
}

fn read_error_code(partition: &Partition, error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Io { .. } | ReadError::Damaged { .. } => {
            tracing::error!(partition = %partition.name(), %error, "the log cannot be read");
            ErrorCode::KAFKA_STORAGE_ERROR
        }
    }
}

impl Outcome {
    fn error(key: &PartitionKey, error: ErrorCode) -> Outcome {
        Outcome {
            key: key.clone(),
            fetch_offset: Offset(-1),
            error,
            leader_epoch: None,
            high_watermark: Offset(-1),
            log_start: Offset(-1),
            diverging: None,
            slice: None,
        }
    }

    fn bytes(&self) -> usize {
        self.slice.as_ref().map_or(0, |slice| slice.length)
    }

    /// Whether waiting cannot change it.
    fn is_final(&self) -> bool {
        self.error != ErrorCode::NONE || self.diverging.is_some()
    }

    fn observe_serving(&self, broker: &Broker) {
        if let (Some(slice), Ok(partition)) = (&self.slice, find(&broker.topics(), &self.key)) {
            partition.served(self.fetch_offset, slice.next_offset, self.high_watermark, self.log_start);
        }
    }
}

/// The answer's topics, and the slices of files in the order of their partitions.
async fn answer(version: i16, outcomes: Vec<Outcome>) -> (Vec<FetchTopicResponse>, Vec<LogSlice>) {
    let mut responses: Vec<FetchTopicResponse> = Vec::new();
    let mut slices = Vec::new();
    let mut last_topic: Option<TopicKey> = None;
    for outcome in outcomes {
        let (topic, partition_index) = outcome.key;
        let mut response = FetchPartitionResponse {
            partition_index,
            error_code: outcome.error.code(),
            high_watermark: outcome.high_watermark.0,
            last_stable_offset: outcome.high_watermark.0,
            log_start_offset: outcome.log_start.0,
            records: Records::Bytes(Bytes::new()),
            ..FetchPartitionResponse::default()
        };
        if let Some((epoch, end_offset)) = outcome.diverging {
            response.diverging_epoch = FetchEpochEndOffset { epoch: epoch.0, end_offset: end_offset.0 };
        }
        let fenced = outcome.error == ErrorCode::FENCED_LEADER_EPOCH && version >= FIRST_VERSION_WITH_LEADERS;
        if let (true, Some(epoch)) = (fenced, outcome.leader_epoch) {
            response.current_leader =
                LeaderIdAndEpoch { leader_epoch: epoch.0, ..LeaderIdAndEpoch::default() };
        }
        if let Some(slice) = outcome.slice {
            match copy_small(&slice).await {
                Ok(Some(bytes)) => response.records = Records::Bytes(bytes),
                Ok(None) => {
                    response.records = Records::Deferred(slice.length);
                    slices.push(slice);
                }
                Err(_) => response.error_code = ErrorCode::KAFKA_STORAGE_ERROR.code(),
            }
        }
        match responses.last_mut().filter(|_| last_topic.as_ref() == Some(&topic)) {
            Some(open) => open.partitions.push(response),
            None => responses.push(topic_response(&topic, response)),
        }
        last_topic = Some(topic);
    }
    (responses, slices)
}

fn topic_response(key: &TopicKey, partition: FetchPartitionResponse) -> FetchTopicResponse {
    let (topic, topic_id) = match key {
        TopicKey::Name(name) => (name.to_string(), Uuid::nil()),
        TopicKey::Id(id) => (String::new(), id.0),
    };
    FetchTopicResponse { topic, topic_id, partitions: vec![partition] }
}

async fn copy_small(slice: &LogSlice) -> std::io::Result<Option<Bytes>> {
    if slice.length >= COPY_BELOW_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; slice.length];
    slice.file.read_exact_at(&mut bytes, slice.position).await?;
    Ok(Some(bytes.into()))
}
