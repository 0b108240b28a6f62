//! The task that sends: carries out what the accumulator plans, one request per broker at a time in the order of the
//! plans, and tells it what comes back. Decides nothing about batches by itself.

use super::{
    Acks, Shared,
    accumulator::{Completion, Departing, Plan, Verdict},
    batch::Identity,
    verdict,
};
use crate::{
    ClientError, Connection,
    backoff::backoff,
    cluster::{Channel, Metadata},
    flights::Flights,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        InitProducerIdRequest, InitProducerIdResponse, ProducePartition, ProduceRequest, ProduceResponse,
        ProduceTopic,
    },
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use uuid::Uuid;

/// The first version of Produce that names topics by id.
const TOPIC_IDS: i16 = 13;

/// A batch that flies.
struct Sent {
    queue: usize,
    id: u64,
    topic: Arc<str>,
    partition: i32,
}

/// What was waited for.
enum Event {
    /// The attempt to connect to a broker is over.
    Dialled(i32),
    Answered {
        broker: i32,
        sent: Vec<Sent>,
        result: Result<ProduceResponse, ClientError>,
    },
    Identified(Result<InitProducerIdResponse, ClientError>),
}

struct Sender {
    shared: Arc<Shared>,
    flights: Flights<Event>,
    in_flight: BTreeMap<i32, usize>,
    dialling: BTreeSet<i32>,
    identifying: bool,
    identity_failures: u32,
    /// The metadata that the accumulator knows of.
    learnt: Option<u64>,
}

/// Runs until it is aborted.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut sender = Sender {
        shared,
        flights: Flights::default(),
        in_flight: BTreeMap::new(),
        dialling: BTreeSet::new(),
        identifying: false,
        identity_failures: 0,
        learnt: None,
    };
    loop {
        let (due, version) = sender.send_all().await;
        let shared = sender.shared.clone();
        tokio::select! {
            biased;
            event = sender.flights.next() => sender.on(event),
            () = shared.wake.notified() => {}
            () = shared.cluster.changed_since(version) => {}
            () = sleep_until(&shared, due) => {}
        }
    }
}

async fn sleep_until(shared: &Shared, due: Option<Monotonic>) {
    match due {
        Some(due) => shared.runtime.sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Sender {
    /// Sends all that can be sent. Gives when there may be more, and which metadata that was decided by.
    async fn send_all(&mut self) -> (Option<Monotonic>, u64) {
        loop {
            let metadata = self.shared.cluster.metadata();
            self.learn(&metadata);
            let plan = self.plan(&metadata);
            let Plan { requests, held_up, leaderless, identity_wanted, completions, due } = plan;
            self.shared.tell(completions);
            if leaderless {
                self.shared.cluster.request_update();
            }
            if identity_wanted {
                self.identify();
            }
            for broker in held_up {
                self.dial(broker);
            }
            if requests.is_empty() {
                return (due, metadata.version);
            }
            for (broker, batches) in requests {
                self.send(broker, batches, &metadata).await;
            }
        }
    }

    fn plan(&self, metadata: &Metadata) -> Plan {
        let limit = self.shared.config.max_in_flight_requests_per_connection;
        let free = |broker| {
            self.in_flight.get(&broker).is_none_or(|count| *count < limit)
                && self.shared.cluster.connected(broker).is_some()
        };
        let now = self.shared.runtime.now();
        self.shared.core().plan(now, |topic, partition| metadata.leader(topic, partition), free)
    }

    fn learn(&mut self, metadata: &Metadata) {
        if self.learnt == Some(metadata.version) {
            return;
        }
        self.learnt = Some(metadata.version);
        let mut core = self.shared.core();
        let known: Vec<Arc<str>> = core.topics().cloned().collect();
        for name in known {
            if let Some(topic) = metadata.topic(&name) {
                core.learn(&name, topic.partitions.len(), super::available(topic));
            }
        }
    }

    fn dial(&mut self, broker: i32) {
        if self.shared.cluster.connected(broker).is_none() && self.dialling.insert(broker) {
            let cluster = self.shared.cluster_handle();
            self.flights.push(async move {
                // Its failure is remembered where the backoff is kept.
                let _ = cluster.connection(broker, Channel::Data).await;
                Event::Dialled(broker)
            });
        }
    }

    fn identify(&mut self) {
        if std::mem::replace(&mut self.identifying, true) {
            return;
        }
        let (cluster, failures) = (self.shared.cluster_handle(), self.identity_failures);
        self.flights.push(async move {
            let config = cluster.config();
            let (initial, max) = (config.retry_backoff_ms, config.retry_backoff_max_ms);
            if failures > 0 {
                let wait = backoff(initial, max, failures, cluster.runtime().random_u64());
                cluster.runtime().sleep(wait).await;
            }
            let request = InitProducerIdRequest {
                transaction_timeout_ms: i32::MAX,
                ..InitProducerIdRequest::default()
            };
            Event::Identified(cluster.send_any(&request).await)
        });
    }

    async fn send(&mut self, broker: i32, batches: Vec<Departing>, metadata: &Metadata) {
        let connection = self.shared.cluster.connected(broker);
        let mut sent = Vec::with_capacity(batches.len());
        let mut topics: BTreeMap<Arc<str>, Vec<ProducePartition>> = BTreeMap::new();
        for batch in batches {
            let Departing { queue, id, topic, partition, content, sequence } = batch;
            let bytes = content.build(sequence, self.shared.config.compression_type);
            self.shared.core().sent(queue, id, bytes.clone());
            let records = ProducePartition { index: partition, records: Some(bytes) };
            topics.entry(topic.clone()).or_default().push(records);
            sent.push(Sent { queue, id, topic, partition });
        }
        let topic_data = topics
            .into_iter()
            .map(|(name, partition_data)| ProduceTopic {
                topic_id: metadata.topic(&name).map_or(Uuid::nil(), |topic| topic.id),
                name: name.to_string(),
                partition_data,
            })
            .collect();
        let request = ProduceRequest {
            transactional_id: None,
            acks: self.shared.config.acks.code(),
            timeout_ms: i32::try_from(self.shared.config.network.request_timeout_ms).unwrap_or(i32::MAX),
            topic_data,
        };
        let lost = ClientError::Connection { broker, source: crate::ConnectionError::Closed };
        let begun = match &connection {
            Some(connection) => self.begin(broker, connection, &request, sent).await,
            None => Err((lost, sent)),
        };
        if let Err((error, sent)) = begun {
            self.answered(&sent, Err(error));
        }
    }

    /// Puts the request on its way.
    async fn begin(
        &mut self,
        broker: i32,
        connection: &Arc<Connection>,
        request: &ProduceRequest,
        sent: Vec<Sent>,
    ) -> Result<(), (ClientError, Vec<Sent>)> {
        let wrong = |source| ClientError::Connection { broker, source };
        let version = match connection.common_versions::<ProduceRequest>() {
            Ok(versions) => *versions.end(),
            Err(error) => return Err((wrong(error), sent)),
        };
        let by_name = request.topic_data.iter().any(|topic| topic.topic_id.is_nil());
        let version = if by_name { version.min(TOPIC_IDS - 1) } else { version };
        if self.shared.config.acks == Acks::None {
            if let Err(error) = connection.send_unanswered(version, request).await {
                return Err((wrong(error), sent));
            }
            self.unanswered(sent);
            return Ok(());
        }
        let timeout = Duration::from_millis(self.shared.config.network.request_timeout_ms);
        let answer = match connection.begin(version, request, timeout).await {
            Ok(answer) => answer,
            Err(error) => return Err((wrong(error), sent)),
        };
        let connection = connection.clone();
        *self.in_flight.entry(broker).or_default() += 1;
        self.flights.push(async move {
            let result = answer.await.map_err(|source| crate::cluster::failed(broker, &connection, source));
            Event::Answered { broker, sent, result }
        });
        Ok(())
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Dialled(broker) => {
                self.dialling.remove(&broker);
            }
            Event::Answered { broker, sent, result } => {
                let count = self.in_flight.get_mut(&broker).expect("what is answered was in flight");
                *count -= 1;
                self.answered(&sent, result);
            }
            Event::Identified(result) => self.identified(result),
        }
    }

    fn identified(&mut self, result: Result<InitProducerIdResponse, ClientError>) {
        self.identifying = false;
        let code = result.as_ref().map_or(ErrorCode::NONE, |response| response.error_code.into());
        let error = match result {
            Ok(response) if code.is_none() => {
                self.identity_failures = 0;
                let identity = Identity { id: response.producer_id, epoch: response.producer_epoch };
                return self.shared.core().identify(identity);
            }
            Ok(_) => ClientError::refused("get a producer id", code, None),
            Err(error) => error,
        };
        self.identity_failures = self.identity_failures.saturating_add(1);
        if !error.is_retriable() {
            let completions = self.shared.core().abort(&error);
            self.shared.tell(completions);
        }
    }

    fn unanswered(&self, sent: Vec<Sent>) {
        let verdict = Verdict::Written { base_offset: None, log_append_time: None };
        let now = self.shared.runtime.now();
        let done: Vec<Completion> = {
            let mut core = self.shared.core();
            sent.iter().filter_map(|sent| core.arrived(sent.queue, sent.id, verdict.clone(), now)).collect()
        };
        self.shared.tell(done);
    }

    fn answered(&self, sent: &[Sent], result: Result<ProduceResponse, ClientError>) {
        let metadata = self.shared.cluster.metadata();
        let now = self.shared.runtime.now();
        let mut completions = Vec::new();
        for batch in sent {
            let verdict = match &result {
                Ok(response) => self.verdict(batch, response, &metadata),
                Err(error) => verdict::of_failure(error),
            };
            completions.extend(self.shared.core().arrived(batch.queue, batch.id, verdict, now));
        }
        if result.is_err() {
            self.shared.cluster.request_update();
        }
        self.shared.tell(completions);
    }

    fn verdict(&self, batch: &Sent, response: &ProduceResponse, metadata: &Metadata) -> Verdict {
        let id = metadata.topic(&batch.topic).map_or(Uuid::nil(), |topic| topic.id);
        let partition = response
            .responses
            .iter()
            .filter(|topic| *topic.name == *batch.topic || topic.name.is_empty() && topic.topic_id == id)
            .flat_map(|topic| &topic.partition_responses)
            .find(|partition| partition.index == batch.partition);
        let Some(partition) = partition else {
            let what = format!("produce to {}-{}", batch.topic, batch.partition);
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return Verdict::TryAgain(ClientError::refused(
                what,
                code,
                Some("the broker's answer leaves it out"),
            ));
        };
        if verdict::concerns_leadership(partition.error_code.into()) {
            let endpoints = &response.node_endpoints;
            self.shared.cluster.hint(&batch.topic, batch.partition, &partition.current_leader, endpoints);
        }
        verdict::of_response(&batch.topic, batch.partition, partition)
    }
}
