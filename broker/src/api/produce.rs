//! Produce (0): appends record batches and answers when they are as safe as the producer asked.
//!
//! All batches of a request are appended first, then they are waited for together: what they wait for (a sync, the
//! followers) goes on for all of them at the same time. While followers are waited for, the connection's next request
//! may be appended: [`begin`] ends where that is safe.

use super::current_leader::CurrentLeaders;
use crate::{
    broker::{Broker, Topic},
    join::join_all,
    log::AppendError,
    metadata::names,
    partition::{Appending, ProduceError},
    server::dispatch::Client,
    types::TopicId,
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{
        BatchIndexAndErrorMessage, ProducePartition, ProducePartitionResponse, ProduceRequest,
        ProduceResponse, ProduceTopic, ProduceTopicResponse,
    },
    records,
};
use sillon_runtime::{BoxFuture, Monotonic};
use std::{sync::Arc, time::Duration};

/// Version from which topics are named by id.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;
/// Version from which an answer can tell who leads.
const FIRST_VERSION_WITH_LEADERS: i16 = 10;
/// All in-sync replicas must have the records.
const ACKS_ALL: i16 = -1;

/// Why a batch was not taken.
#[derive(Clone)]
struct Refusal {
    code: ErrorCode,
    message: Option<String>,
    /// The records that are at fault, where it is some: their numbers in the batch (KIP-467).
    records: Vec<i32>,
}

impl Refusal {
    fn new(code: ErrorCode, message: impl Into<Option<String>>) -> Refusal {
        Refusal { code, message: message.into(), records: Vec::new() }
    }
}

/// What became of one partition's batch so far.
struct Progress {
    index: i32,
    result: Result<Appending, Refusal>,
}

/// The batches of one topic.
struct TopicProgress {
    name: String,
    /// The id that the request named.
    named_id: TopicId,
    id: Option<TopicId>,
    partitions: Vec<Progress>,
}

/// Batches that are appended, and what is left to do until they can be answered.
pub(crate) struct Produced<'a> {
    broker: &'a Broker,
    client: &'a Client,
    version: i16,
    acks: i16,
    deadline: Monotonic,
    topics: Vec<TopicProgress>,
}

/// Appends what a request brings, in the order of the connection's requests.
pub(crate) async fn begin<'a>(
    broker: &'a Broker,
    client: &'a Client,
    version: i16,
    request: ProduceRequest,
) -> Produced<'a> {
    let deadline =
        broker.runtime().now() + Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let acks = request.acks;
    let refusal = refuse_all(&request);
    let mut topics = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        topics.push(append_topic(broker, version, acks, topic, refusal.as_ref()).await);
    }
    make_stable(&mut topics).await;
    Produced { broker, client, version, acks, deadline, topics }
}

impl Produced<'_> {
    /// Whether followers have to have the batches before there is an answer.
    pub(crate) fn waits_for_commit(&self) -> bool {
        let parts = || self.topics.iter().flat_map(|topic| &topic.partitions);
        self.acks == ACKS_ALL
            && parts().any(|part| part.result.as_ref().is_ok_and(Appending::waits_for_commit))
    }

    /// Waits until the batches are as safe as the producer asked.
    pub(crate) async fn finish(mut self) -> ProduceResponse {
        if self.acks == ACKS_ALL {
            wait_for_commits(self.broker, &mut self.topics, self.deadline).await;
        }
        answer(self.broker, self.client, self.version, self.acks, self.topics)
    }
}

/// Whether any partition was refused.
pub(crate) fn has_error(response: &ProduceResponse) -> bool {
    response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses)
        .any(|partition| partition.error_code != 0)
}

/// What is wrong with the request as a whole.
fn refuse_all(request: &ProduceRequest) -> Option<Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return Some(Refusal::new(ErrorCode::INVALID_REQUIRED_ACKS, None));
    }
    let unavailable = || Some("Transactions are not available in this version.".to_owned());
    request.transactional_id.as_ref().map(|_| Refusal::new(ErrorCode::INVALID_TXN_STATE, unavailable()))
}

async fn append_topic(
    broker: &Broker,
    version: i16,
    acks: i16,
    request: ProduceTopic,
    refusal: Option<&Refusal>,
) -> TopicProgress {
    let topics = broker.topics();
    let by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS;
    let named_id = TopicId(request.topic_id);
    let topic = if by_id { topics.by_id(named_id) } else { topics.by_name(&request.name) };
    let unknown = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
    // The brokers' own topics hold what the brokers make of clients' requests, and nothing else.
    let internal = topic.is_some_and(|topic| names::is_internal(&topic.name));
    let internal = internal.then(|| Refusal::new(ErrorCode::INVALID_TOPIC_EXCEPTION, None));
    let refusal = refusal.or(internal.as_ref());
    let mut partitions = Vec::with_capacity(request.partition_data.len());
    for ProducePartition { index, records } in request.partition_data {
        let result = match (refusal, topic) {
            (Some(refusal), _) => Err(refusal.clone()),
            (None, None) => Err(Refusal::new(unknown, None)),
            (None, Some(topic)) => append(topic, version, acks, index, records).await,
        };
        partitions.push(Progress { index, result });
    }
    TopicProgress { name: request.name, named_id, id: topic.map(|topic| topic.id), partitions }
}

async fn append(
    topic: &Arc<Topic>,
    version: i16,
    acks: i16,
    index: i32,
    records: Option<Bytes>,
) -> Result<Appending, Refusal> {
    let partition = topic.partition(index).map_err(|code| Refusal::new(code, None))?;
    let batch = records::produce_batch(&records.unwrap_or_default(), version)
        .map_err(|error| refusal_for(&AppendError::Record(error)))?;
    if batch.is_transactional() {
        let message = "Transactions are not available in this version.".to_owned();
        return Err(Refusal::new(ErrorCode::INVALID_TXN_STATE, message));
    }
    partition.append(batch, acks == ACKS_ALL).await.map_err(|error| refusal_of(&error))
}

/// Waits until this broker keeps the batches as surely as their topics demand.
async fn make_stable(progress: &mut [TopicProgress]) {
    let unsynced = |part: &&mut Progress| part.result.as_ref().is_ok_and(Appending::must_sync);
    let unsynced = progress.iter_mut().flat_map(|topic| &mut topic.partitions).filter(unsynced);
    let syncs = unsynced.map(|part| async {
        let Ok(appending) = &part.result else { return };
        if let Err(error) = appending.stable().await {
            part.result = Err(refusal_of(&error));
        }
    });
    join_all(syncs.collect()).await;
}

/// Waits until every batch is on all in-sync replicas, or the time is over.
async fn wait_for_commits(broker: &Broker, progress: &mut [TopicProgress], deadline: Monotonic) {
    let mut timer: Option<BoxFuture<'static, ()>> = None;
    let mut is_over = false;
    for part in progress.iter_mut().flat_map(|topic| &mut topic.partitions) {
        let Some(appending) = part.result.as_mut().ok().filter(|appending| appending.waits_for_commit())
        else {
            continue;
        };
        let timer = timer.get_or_insert_with(|| broker.runtime().sleep_until(deadline));
        let verdict = tokio::select! {
            biased;
            verdict = appending.committed() => verdict,
            () = &mut *timer, if !is_over => Err(ErrorCode::REQUEST_TIMED_OUT),
            () = std::future::ready(()), if is_over => Err(ErrorCode::REQUEST_TIMED_OUT),
        };
        if let Err(code) = verdict {
            is_over |= code == ErrorCode::REQUEST_TIMED_OUT;
            part.result = Err(Refusal::new(code, None));
        }
    }
}

fn answer(
    broker: &Broker,
    client: &Client,
    version: i16,
    acks: i16,
    progress: Vec<TopicProgress>,
) -> ProduceResponse {
    let mut leaders = CurrentLeaders::default();
    let mut responses = Vec::with_capacity(progress.len());
    for topic in progress {
        let mut partition_responses = Vec::with_capacity(topic.partitions.len());
        for Progress { index, result } in topic.partitions {
            let mut response = partition_response(acks, index, result);
            if let (Some(id), ErrorCode::NOT_LEADER_OR_FOLLOWER) =
                (topic.id, ErrorCode::from(response.error_code))
                && version >= FIRST_VERSION_WITH_LEADERS
            {
                response.current_leader = leaders.of(broker, client, id, index);
            }
            partition_responses.push(response);
        }
        let (name, topic_id) = (topic.name, topic.named_id.0);
        responses.push(ProduceTopicResponse { name, topic_id, partition_responses });
    }
    let node_endpoints = leaders.endpoints();
    ProduceResponse { responses, node_endpoints, ..ProduceResponse::default() }
}

fn partition_response(acks: i16, index: i32, result: Result<Appending, Refusal>) -> ProducePartitionResponse {
    match result {
        Ok(appending) => {
            if acks != 0 {
                appending.acknowledged(acks);
            }
            ProducePartitionResponse {
                index,
                base_offset: appending.appended.base_offset.0,
                log_append_time_ms: appending.appended.log_append_time_ms.unwrap_or(-1),
                log_start_offset: appending.log_start.0,
                ..ProducePartitionResponse::default()
            }
        }
        Err(Refusal { code, message, records }) => ProducePartitionResponse {
            index,
            error_code: code.code(),
            base_offset: -1,
            record_errors: records.into_iter().map(|index| record_error(index, message.clone())).collect(),
            error_message: message,
            ..ProducePartitionResponse::default()
        },
    }
}

fn record_error(index: i32, message: Option<String>) -> BatchIndexAndErrorMessage {
    BatchIndexAndErrorMessage { batch_index: index, batch_index_error_message: message }
}

fn refusal_of(error: &ProduceError) -> Refusal {
    match error {
        ProduceError::Append(error) => refusal_for(error),
        ProduceError::Sync(error) => Refusal::new(ErrorCode::KAFKA_STORAGE_ERROR, error.to_string()),
        ProduceError::Refused(code) => Refusal::new(*code, None),
    }
}

/// What a producer is told of a refused append.
fn refusal_for(error: &AppendError) -> Refusal {
    let code = match error {
        AppendError::Record(error) => error.error_code(),
        AppendError::MissingKey { .. } => ErrorCode::INVALID_RECORD,
        AppendError::TooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        AppendError::LargerThanSegment { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
        AppendError::InvalidTimestamp { .. } => ErrorCode::INVALID_TIMESTAMP,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        AppendError::InvalidTransactionState { .. } => ErrorCode::INVALID_TXN_STATE,
        AppendError::CoordinatorFenced { .. } => ErrorCode::TRANSACTION_COORDINATOR_FENCED,
        AppendError::StaleLeaderEpoch { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        AppendError::OutOfOrderOffset { .. } => ErrorCode::UNKNOWN_SERVER_ERROR,
        AppendError::Offline(_) => ErrorCode::KAFKA_STORAGE_ERROR,
    };
    let records = match error {
        AppendError::MissingKey { indexes, .. } => indexes.clone(),
        _ => Vec::new(),
    };
    Refusal { code, message: Some(error.to_string()), records }
}
