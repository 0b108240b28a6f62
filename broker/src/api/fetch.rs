//! Fetch (1): reads record batches, below the high watermark for clients, up to the log's end for followers; waits for
//! more where there is too little.
//!
//! Records stay where they are: the answer names slices of log files, which go from there to the socket.

use super::{
    current_leader::CurrentLeaders,
    fetch_read::{Budget, Fetch, Outcome, Reader, Seen, find},
    fetch_session::{INITIAL_EPOCH, NO_SESSION, PartitionKey, Plan, SessionRequest, Told, TopicKey, Wanted},
    fetch_watch::Watch,
};
use crate::{
    broker::Broker,
    log::LogSlice,
    partition::Bell,
    server::dispatch::Client,
    types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId, Uuid},
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{
        FetchEpochEndOffset, FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse,
        FetchTopicResponse,
    },
    wire::Records,
};
use sillon_runtime::Monotonic;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Version from which topics are named by id.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;
/// Version from which an answer can tell who leads, and where logs diverge.
const FIRST_VERSION_WITH_LEADERS: i16 = 12;
/// Slices below this are copied into the answer: one system call less beats no copy.
const COPY_BELOW_BYTES: usize = 16 * 1024;
/// In a request, for a high watermark that the fetcher does not tell.
const NOT_TOLD: i64 = i64::MAX;

pub(crate) async fn handle(
    broker: &Broker,
    client: &Client,
    version: i16,
    request: FetchRequest,
) -> (FetchResponse, Vec<LogSlice>) {
    let max_wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let fetch = Fetch {
        broker,
        version,
        min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(request.max_bytes).unwrap_or(0).min(broker.config().fetch_max_bytes),
        reader: reader(broker, &request),
    };
    let now = broker.runtime().now();
    let session_request = session_request(version, request);
    let (plan, watched) = match fetch.plan(session_request, now) {
        Ok(planned) => planned,
        Err(code) => {
            return (FetchResponse { error_code: code.code(), ..FetchResponse::default() }, Vec::new());
        }
    };
    let deadline = now + max_wait;
    let (mut outcomes, watched) = match watched {
        None => (fetch.until_enough(&plan.partitions, deadline).await, None),
        Some(mut watched) => {
            let outcomes = fetch.until_news(&plan, &mut watched.watch, deadline).await;
            (outcomes, Some(watched))
        }
    };
    if broker.observers().is_listening() && matches!(fetch.reader, Reader::Consumer { .. }) {
        outcomes.iter().for_each(|outcome| outcome.observe_serving(broker));
    }
    if let Reader::Follower { replica, .. } = fetch.reader {
        let topics = broker.topics();
        for outcome in outcomes.iter().filter(|outcome| outcome.slice.is_some()) {
            if let Ok(partition) = find(&topics, &outcome.key) {
                broker.leader_throttle_took(partition, replica, outcome.bytes(), broker.runtime().now());
            }
        }
    }
    fetch.note_in_session(plan.session_id, plan.incremental, &mut outcomes, watched);
    let mut answer = Answer { broker, client, version, leaders: CurrentLeaders::default() };
    let (responses, slices) = answer.build(outcomes).await;
    let node_endpoints = answer.leaders.endpoints();
    let response =
        FetchResponse { session_id: plan.session_id, responses, node_endpoints, ..FetchResponse::default() };
    (response, slices)
}

fn reader(broker: &Broker, request: &FetchRequest) -> Reader {
    let replica = BrokerId(request.replica_id.max(request.replica_state.replica_id));
    if replica.0 >= 0 {
        let image = broker.image();
        let registered = image.brokers.get(&replica).filter(|broker| !broker.shutting_down);
        Reader::Follower {
            replica,
            broker_epoch: BrokerEpoch(request.replica_state.replica_epoch),
            registered: registered.map(|broker| broker.broker_epoch),
        }
    } else {
        Reader::Consumer { rack: request.rack_id.clone() }
    }
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
        partitions
            .extend(topic.partitions.iter().map(|part| ((topic_key.clone(), part.partition), wanted(part))));
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

fn wanted(partition: &FetchPartition) -> Wanted {
    let log_start = Offset(partition.log_start_offset);
    let is_told = partition.high_watermark != NOT_TOLD;
    Wanted {
        fetch_offset: Offset(partition.fetch_offset),
        max_bytes: partition.partition_max_bytes,
        current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
        last_fetched_epoch: LeaderEpoch(partition.last_fetched_epoch),
        log_start,
        known: is_told.then_some(Told { high_watermark: Offset(partition.high_watermark), log_start }),
    }
}

/// The watch over a follower's session, with what the epoch of its next request is.
struct Watched {
    watch: Watch,
    next_epoch: i32,
}

impl Fetch<'_> {
    /// What to read for a request: for a follower that goes on with a session, only what may have changed.
    fn plan(&self, request: SessionRequest, now: Monotonic) -> Result<(Plan, Option<Watched>), ErrorCode> {
        let random_id = || self.broker.runtime().random_u64() as i32;
        let topics = self.broker.topics();
        let mut sessions = self.broker.sessions().lock().expect("no holder panics");
        let Reader::Follower { replica, broker_epoch, .. } = self.reader else {
            return Ok((sessions.plan(request, now, random_id)?, None));
        };
        let kept = if request.epoch > INITIAL_EPOCH { sessions.take_watch(request.session_id) } else { None };
        let (plan, watch) = match kept.filter(|watch| watch.is_of(replica, broker_epoch)) {
            Some(mut watch) => {
                let named: Vec<PartitionKey> =
                    request.partitions.iter().map(|(key, _)| key.clone()).collect();
                let forgotten = request.forgotten.clone();
                let session_id = sessions.plan_named(request, now)?;
                let due = watch.arrive(&topics, &named, &forgotten, now);
                let partitions = sessions.wanted_of(session_id, due.iter());
                (Plan { session_id, incremental: true, partitions }, watch)
            }
            None => {
                let plan = sessions.plan(request, now, random_id)?;
                if plan.session_id == NO_SESSION {
                    return Ok((plan, None));
                }
                sessions.drop_watches_before(replica, broker_epoch);
                let mut watch = Watch::new(replica, broker_epoch, self.interest(), now);
                let all: Vec<PartitionKey> = plan.partitions.iter().map(|(key, _)| key.clone()).collect();
                watch.arrive(&topics, &all, &[], now);
                (plan, watch)
            }
        };
        let next_epoch = sessions.next_epoch(plan.session_id).expect("the session was used just now");
        Ok((plan, Some(Watched { watch, next_epoch })))
    }

    /// As [`Fetch::until_enough`], for a session that is watched: what is not in the plan has nothing new to say until it
    /// rings.
    async fn until_news(&self, plan: &Plan, watch: &mut Watch, deadline: Monotonic) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(plan.partitions.len());
        self.look_at(&plan.partitions, watch, &mut outcomes, true).await;
        let mut timer = self.broker.runtime().sleep_until(deadline);
        while !watch.is_empty() && !self.has_news(&outcomes) && self.broker.runtime().now() < deadline {
            let (changed, is_over) = tokio::select! {
                biased;
                changed = watch.rung() => (changed, false),
                // It is told what is committed by now, although that alone did not end its wait.
                () = &mut timer => (watch.changed(), true),
            };
            let wanted = {
                let sessions = self.broker.sessions().lock().expect("no holder panics");
                sessions.wanted_of(plan.session_id, changed.iter())
            };
            self.look_at(&wanted, watch, &mut outcomes, false).await;
            if is_over {
                break;
            }
        }
        outcomes
    }

    async fn look_at(
        &self,
        wanted: &[(PartitionKey, Wanted)],
        watch: &mut Watch,
        outcomes: &mut Vec<Outcome>,
        arrival: bool,
    ) {
        let topics = self.broker.topics();
        for wanted in wanted {
            let known =
                if arrival { None } else { outcomes.iter().position(|outcome| outcome.key == wanted.0) };
            if let Some(known) = known {
                outcomes[known].slice = None;
            }
            let outcome = self.read(&topics, wanted, self.budget(outcomes), arrival).await;
            watch.looked_at(&topics, &outcome, arrival);
            match known {
                Some(known) => outcomes[known] = outcome,
                None => outcomes.push(outcome),
            }
        }
    }

    /// Reads until there is enough, something is wrong, or the time is over. Only partitions that changed are read again.
    async fn until_enough(&self, wanted: &[(PartitionKey, Wanted)], deadline: Monotonic) -> Vec<Outcome> {
        let topics = self.broker.topics();
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let outcome = self.read(&topics, wanted, self.budget(&outcomes), true).await;
            outcomes.push(outcome);
        }
        if self.is_enough(&outcomes) || self.broker.runtime().now() >= deadline {
            return outcomes;
        }
        let bell = Arc::new(Bell::default());
        let mut tickets = Vec::with_capacity(wanted.len());
        for (number, (key, _)) in wanted.iter().enumerate() {
            if let Ok(partition) = find(&topics, key) {
                tickets.push(partition.wait(bell.clone(), number, self.interest()));
            }
        }
        // What arrived between the reading and the waiting.
        let mut changed = self.changed_since(&outcomes);
        let mut timer = self.broker.runtime().sleep_until(deadline);
        loop {
            if !changed.is_empty() {
                self.read_again(wanted, &changed, &mut outcomes).await;
                if self.is_enough(&outcomes) {
                    return outcomes;
                }
            }
            changed = tokio::select! {
                biased;
                changed = bell.rung() => changed,
                () = &mut timer => {
                    // A follower is told what is committed by now, although that alone did not end its wait.
                    changed = self.changed_since(&outcomes);
                    self.read_again(wanted, &changed, &mut outcomes).await;
                    return outcomes;
                }
            };
        }
    }

    /// The partitions that have changed since they were read.
    fn changed_since(&self, outcomes: &[Outcome]) -> BTreeSet<usize> {
        let topics = self.broker.topics();
        let has_changed = |outcome: &Outcome| match find(&topics, &outcome.key) {
            Ok(partition) => Seen::of(partition) != outcome.seen,
            Err(_) => true,
        };
        let numbered = outcomes.iter().enumerate();
        numbered.filter(|(_, outcome)| has_changed(outcome)).map(|(number, _)| number).collect()
    }

    async fn read_again(
        &self,
        wanted: &[(PartitionKey, Wanted)],
        changed: &BTreeSet<usize>,
        outcomes: &mut [Outcome],
    ) {
        let topics = self.broker.topics();
        for number in changed {
            outcomes[*number].slice = None;
            let budget = self.budget(outcomes);
            outcomes[*number] = self.read(&topics, &wanted[*number], budget, false).await;
        }
    }

    /// The first records of an answer may be larger than allowed, so that a client can always go on.
    fn budget(&self, outcomes: &[Outcome]) -> Budget {
        let bytes: usize = outcomes.iter().map(Outcome::bytes).sum();
        Budget { left: self.max_bytes.saturating_sub(bytes), is_first: bytes == 0 }
    }

    fn is_enough(&self, outcomes: &[Outcome]) -> bool {
        outcomes.is_empty() || self.has_news(outcomes)
    }

    fn has_news(&self, outcomes: &[Outcome]) -> bool {
        let bytes: usize = outcomes.iter().map(Outcome::bytes).sum();
        let is_settled = |outcome: &Outcome| outcome.is_final() || outcome.is_news;
        bytes >= self.min_bytes || outcomes.iter().any(is_settled)
    }

    /// Notes in the session what is told, and leaves out what is not news.
    fn note_in_session(
        &self,
        session_id: i32,
        incremental: bool,
        outcomes: &mut Vec<Outcome>,
        watched: Option<Watched>,
    ) {
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
        if let Some(Watched { watch, next_epoch }) = watched {
            sessions.put_watch(session_id, next_epoch, watch);
        }
    }
}

impl Outcome {
    fn observe_serving(&self, broker: &Broker) {
        if let (Some(slice), Ok(partition)) = (&self.slice, find(&broker.topics(), &self.key)) {
            partition.served(self.fetch_offset, slice.next_offset, self.high_watermark, self.log_start);
        }
    }
}

/// Builds an answer.
struct Answer<'a> {
    broker: &'a Broker,
    client: &'a Client,
    version: i16,
    leaders: CurrentLeaders,
}

impl Answer<'_> {
    /// The answer's topics, and the slices of files in the order of their partitions.
    async fn build(&mut self, outcomes: Vec<Outcome>) -> (Vec<FetchTopicResponse>, Vec<LogSlice>) {
        let mut responses: Vec<FetchTopicResponse> = Vec::new();
        let mut slices = Vec::new();
        let mut last_topic: Option<TopicKey> = None;
        for mut outcome in outcomes {
            let slice = outcome.slice.take();
            let mut response = self.partition(&outcome);
            if let Some(slice) = slice {
                match copy_small(&slice).await {
                    Ok(Some(bytes)) => response.records = Records::Bytes(bytes),
                    Ok(None) => {
                        response.records = Records::Deferred(slice.length);
                        slices.push(slice);
                    }
                    Err(_) => response.error_code = ErrorCode::KAFKA_STORAGE_ERROR.code(),
                }
            }
            let topic = outcome.key.0;
            match responses.last_mut().filter(|_| last_topic.as_ref() == Some(&topic)) {
                Some(open) => open.partitions.push(response),
                None => responses.push(topic_response(&topic, response)),
            }
            last_topic = Some(topic);
        }
        (responses, slices)
    }

    fn partition(&mut self, outcome: &Outcome) -> FetchPartitionResponse {
        let mut response = FetchPartitionResponse {
            partition_index: outcome.key.1,
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
        if let Some(preferred) = outcome.preferred {
            response.preferred_read_replica = preferred.0;
        }
        let asks_elsewhere =
            [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::FENCED_LEADER_EPOCH].contains(&outcome.error);
        if asks_elsewhere && self.version >= FIRST_VERSION_WITH_LEADERS {
            let id = match &outcome.key.0 {
                TopicKey::Id(id) => Some(*id),
                TopicKey::Name(name) => self.broker.image().topic(name).map(|topic| topic.id),
            };
            if let Some(id) = id {
                response.current_leader = self.leaders.of(self.broker, self.client, id, outcome.key.1);
            }
        }
        response
    }
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
