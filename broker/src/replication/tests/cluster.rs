//! Brokers in one process, each with its own directory and port, and the metadata that a test tells them.

use crate::{
    broker::{self, Broker},
    cluster::{ActiveController, Cluster, ClusterError},
    config::BrokerConfig,
    jobs,
    log::LogDirectories,
    metadata::{
        BrokerImage, Endpoint, MetadataDelta, MetadataImage, MetadataPosition, PartitionImage, TopicImage,
    },
    observe::Observers,
    partition::Partition,
    server::Server,
    types::{BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, Uuid},
};
use bytes::Bytes;
use sillon_client::{Connection, ConnectionOptions};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterPartitionPartitionResponse, AlterPartitionRequest, AlterPartitionResponse,
        AlterPartitionTopicResponse, DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
        FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic, ProducePartition,
        ProducePartitionResponse, ProduceRequest, ProduceTopic, ReplicaState,
    },
    records::{BatchBuilder, Compression, split_batches},
};
use sillon_runtime::{BoxFuture, JoinHandle, Runtime, Tasks};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

pub(super) const TOPIC: &str = "t";
const PATIENCE: Duration = Duration::from_secs(20);

fn topic_id() -> TopicId {
    TopicId(Uuid::from_u128(77))
}

/// The truth, and what each broker has heard of it.
#[derive(Default)]
struct Truth {
    image: Arc<MetadataImage>,
    heard: BTreeMap<BrokerId, Arc<MetadataImage>>,
}

impl Truth {
    fn apply(&mut self, deltas: &[MetadataDelta]) {
        let version = self.image.position.version + 1;
        let position = MetadataPosition { controller_epoch: ControllerEpoch(1), version };
        self.image = Arc::new(self.image.after(deltas, position).unwrap());
    }

    fn state(&self) -> PartitionImage {
        self.image.topic(TOPIC).unwrap().partitions[0].clone()
    }

    fn set_state(&mut self, state: PartitionImage) {
        self.apply(&[MetadataDelta::Partitions { id: topic_id(), partitions: vec![(0, state)] }]);
    }

    /// The controller's side of AlterPartition for the one partition that there is.
    fn alter(&mut self, request: &AlterPartitionRequest) -> AlterPartitionPartitionResponse {
        let asked = &request.topics[0].partitions[0];
        let mut state = self.state();
        let current = (state.leader, state.leader_epoch.0, state.partition_epoch.0);
        if current != (Some(BrokerId(request.broker_id)), asked.leader_epoch, asked.partition_epoch) {
            let error_code = ErrorCode::INVALID_UPDATE_VERSION.code();
            return AlterPartitionPartitionResponse { error_code, ..Default::default() };
        }
        state.isr = asked.new_isr_with_epochs.iter().map(|member| BrokerId(member.broker_id)).collect();
        state.partition_epoch.0 += 1;
        self.set_state(state.clone());
        AlterPartitionPartitionResponse {
            leader_id: request.broker_id,
            leader_epoch: state.leader_epoch.0,
            isr: state.isr.iter().map(|broker| broker.0).collect(),
            partition_epoch: state.partition_epoch.0,
            ..Default::default()
        }
    }
}

struct Membership {
    me: BrokerId,
    truth: Arc<Mutex<Truth>>,
}

impl Membership {
    fn heard(&self) -> Arc<MetadataImage> {
        self.truth.lock().unwrap().heard[&self.me].clone()
    }
}

impl Cluster for Membership {
    fn broker_id(&self) -> BrokerId {
        self.me
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.heard()
    }

    fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch(100 + i64::from(self.me.0))
    }

    fn is_known_to(&self, image: &MetadataImage) -> bool {
        let registered = image.brokers.get(&self.broker_id());
        registered.is_some_and(|registered| registered.broker_epoch == self.broker_epoch())
    }

    fn controller(&self) -> Option<Arc<dyn ActiveController>> {
        None
    }

    fn wait_for(&self, position: MetadataPosition, _: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.heard().position >= position })
    }

    fn forward(&self, _: Bytes) -> BoxFuture<'_, Result<Bytes, ClusterError>> {
        Box::pin(async { Err(ClusterError::NoController) })
    }

    fn alter_partitions(
        &self,
        request: AlterPartitionRequest,
    ) -> BoxFuture<'_, Result<AlterPartitionResponse, ClusterError>> {
        Box::pin(async move {
            let partition = self.truth.lock().unwrap().alter(&request);
            let topic = AlterPartitionTopicResponse { topic_id: topic_id().0, partitions: vec![partition] };
            Ok(AlterPartitionResponse { topics: vec![topic], ..Default::default() })
        })
    }

    fn allocate_producer_ids(&self, _: i64) -> BoxFuture<'_, Result<i64, ClusterError>> {
        Box::pin(async { Ok(0) })
    }
}

struct Node {
    broker: Arc<Broker>,
    port: u16,
    _tasks: [Tasks; 2],
    _directory: tempfile::TempDir,
}

/// Brokers 1, 2, … with one topic of one partition.
pub(super) struct Nodes {
    runtime: Runtime,
    truth: Arc<Mutex<Truth>>,
    nodes: Vec<Node>,
}

impl Nodes {
    pub(super) async fn start(runtime: &Runtime, count: i32, more: &str) -> Nodes {
        let truth = Arc::new(Mutex::new(Truth::default()));
        let mut bound = Vec::new();
        for id in 1..=count {
            let directory = tempfile::tempdir().unwrap();
            let text = format!(
                "broker.id={id}\nbroker.rack=rack-{id}\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={}\n{more}",
                directory.path().display()
            );
            let config = BrokerConfig::from_properties(&text, "test").unwrap().0;
            let server = Server::bind(runtime, &config.listeners).await.unwrap();
            let port = server.addresses()[0].port();
            let endpoint = Endpoint { listener: "PLAINTEXT".into(), host: "127.0.0.1".into(), port };
            let broker = Arc::new(BrokerImage {
                broker_epoch: BrokerEpoch(100 + i64::from(id)),
                endpoints: vec![endpoint],
                rack: Some(format!("rack-{id}").into()),
                unclean: false,
                registration: 0,
                shutting_down: false,
            });
            truth.lock().unwrap().apply(&[MetadataDelta::Broker { id: BrokerId(id), broker }]);
            bound.push((directory, config, server, port));
        }
        {
            let mut truth = truth.lock().unwrap();
            let image = truth.image.clone();
            truth.heard = (1..=count).map(|id| (BrokerId(id), image.clone())).collect();
        }
        let mut nodes = Vec::new();
        for (directory, config, server, port) in bound {
            let me = config.broker_id;
            let context = broker::log_context(runtime, &Observers::NONE);
            let directories = LogDirectories::open(context, &config.log_dirs).await.unwrap();
            let membership = Arc::new(Membership { me, truth: truth.clone() });
            let advertised = config.advertised_listeners.clone();
            let broker =
                Broker::start(runtime.clone(), config, advertised, Observers::NONE, membership, directories);
            let broker = broker.await;
            let tasks = [jobs::start(&broker), server.serve(&broker)];
            nodes.push(Node { broker, port, _tasks: tasks, _directory: directory });
        }
        Nodes { runtime: runtime.clone(), truth, nodes }
    }

    fn node(&self, id: i32) -> &Node {
        &self.nodes[id as usize - 1]
    }

    /// Creates the topic; every broker hears who leads.
    pub(super) async fn lead(&self, leader: i32, isr: &[i32]) {
        let replicas: Vec<BrokerId> = (1..=self.nodes.len() as i32).map(BrokerId).collect();
        let state = PartitionImage {
            leader: Some(BrokerId(leader)),
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(0),
            replicas: replicas.clone(),
            adding: Vec::new(),
            removing: Vec::new(),
            isr: isr.iter().copied().map(BrokerId).collect(),
            eligible_leader_replicas: Vec::new(),
            last_known_leader: None,
            unproven: Vec::new(),
        };
        let topic = TopicImage { id: topic_id(), partitions: vec![state], configs: BTreeMap::new() };
        self.truth
            .lock()
            .unwrap()
            .apply(&[MetadataDelta::Topic { name: TOPIC.into(), topic: Arc::new(topic) }]);
        for replica in replicas {
            self.tell(replica.0).await;
        }
    }

    /// The controller changes the partition's state, in a new leader epoch; nobody hears of it yet.
    pub(super) fn change(&self, change: impl FnOnce(&mut PartitionImage)) {
        let mut truth = self.truth.lock().unwrap();
        let mut state = truth.state();
        state.leader_epoch.0 += 1;
        state.partition_epoch.0 += 1;
        change(&mut state);
        truth.set_state(state);
    }

    /// A broker hears the truth.
    pub(super) async fn tell(&self, id: i32) {
        let image = {
            let mut truth = self.truth.lock().unwrap();
            let image = truth.image.clone();
            truth.heard.insert(BrokerId(id), image.clone());
            image
        };
        self.node(id).broker.reconcile(&image).await;
    }

    /// A broker stops fetching: in what it hears, nobody leads. The truth stays what it was.
    pub(super) async fn silence(&self, id: i32) {
        let image = {
            let mut truth = self.truth.lock().unwrap();
            let mut state = truth.state();
            state.leader = None;
            let deltas = [MetadataDelta::Partitions { id: topic_id(), partitions: vec![(0, state)] }];
            let image = Arc::new(truth.image.after(&deltas, truth.image.position).unwrap());
            truth.heard.insert(BrokerId(id), image.clone());
            image
        };
        self.node(id).broker.reconcile(&image).await;
    }

    pub(super) fn held(&self, id: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topics = self.node(id).broker.topics();
        topics.by_name(TOPIC).unwrap().partition(0).cloned()
    }

    pub(super) fn partition(&self, id: i32) -> Arc<Partition> {
        self.held(id).unwrap()
    }

    pub(super) async fn until(&self, id: i32, what: &str, reached: impl Fn(&Partition) -> bool) {
        let deadline = self.runtime.now() + PATIENCE;
        while !reached(&self.partition(id)) {
            assert!(self.runtime.now() < deadline, "broker {id} never comes to {what}");
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
    }

    async fn connect(&self, id: i32) -> Connection {
        let options = ConnectionOptions::default();
        Connection::connect(&self.runtime, "127.0.0.1", self.node(id).port, options).await.unwrap()
    }

    /// Produces one batch of the values between commas.
    pub(super) async fn begin_produce(
        &self,
        id: i32,
        value: &str,
        acks: i16,
    ) -> JoinHandle<ProducePartitionResponse> {
        let connection = self.connect(id).await;
        let mut builder = BatchBuilder::new();
        for value in value.split(',') {
            builder.add(self.runtime.unix_time().0, None, Some(value.as_bytes()), []);
        }
        let records = Some(builder.build(Compression::None));
        let request = ProduceRequest {
            acks,
            timeout_ms: 10_000,
            topic_data: vec![ProduceTopic {
                name: TOPIC.into(),
                partition_data: vec![ProducePartition { index: 0, records }],
                ..ProduceTopic::default()
            }],
            ..ProduceRequest::default()
        };
        self.runtime.spawn("produce", async move {
            let answer = connection.send_version(12, &request, PATIENCE).await.unwrap();
            answer.responses.into_iter().next().unwrap().partition_responses.remove(0)
        })
    }

    pub(super) async fn produce(&self, id: i32, value: &str, acks: i16) -> ProducePartitionResponse {
        self.begin_produce(id, value, acks).await.await.unwrap()
    }

    /// A consumer's fetch, from a rack, that waits for up to ten seconds: the partition's answer and its records' size.
    pub(super) async fn fetch(&self, id: i32, offset: i64, rack: &str) -> (FetchPartitionResponse, usize) {
        let partition =
            FetchPartition { fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
        let topic = FetchTopic { topic: TOPIC.into(), partitions: vec![partition], ..Default::default() };
        let request = FetchRequest {
            max_wait_ms: 10_000,
            min_bytes: 1,
            session_epoch: -1,
            rack_id: rack.into(),
            topics: vec![topic],
            ..FetchRequest::default()
        };
        let connection = self.connect(id).await;
        let mut answer = connection.send_version(12, &request, PATIENCE).await.unwrap();
        let partition = answer.responses.remove(0).partitions.remove(0);
        let bytes = partition.records.length();
        (partition, bytes)
    }

    /// What a leader says to a follower that claims an epoch and holds one record.
    pub(super) async fn fetch_as_follower(&self, id: i32, replica: i32, epoch: i32) -> ErrorCode {
        let partition = FetchPartition {
            fetch_offset: 1,
            current_leader_epoch: epoch,
            last_fetched_epoch: 1,
            log_start_offset: 0,
            ..FetchPartition::default()
        };
        let topic =
            FetchTopic { topic_id: topic_id().0, partitions: vec![partition], ..FetchTopic::default() };
        let replica_state = ReplicaState { replica_id: replica, replica_epoch: 100 + i64::from(replica) };
        let request =
            FetchRequest { replica_state, session_epoch: -1, topics: vec![topic], ..Default::default() };
        let mut answer = self.connect(id).await.send(&request).await.unwrap();
        ErrorCode::from(answer.responses.remove(0).partitions.remove(0).error_code)
    }

    /// Deletes records before an offset; gives the low watermark and the code.
    pub(super) async fn delete_records(&self, id: i32, offset: i64) -> (i64, i16) {
        let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset }];
        let topics = vec![DeleteRecordsTopic { name: TOPIC.into(), partitions }];
        let request = DeleteRecordsRequest { topics, timeout_ms: 5000 };
        let answer = self.connect(id).await.send(&request).await.unwrap();
        let result = &answer.topics[0].partitions[0];
        (result.low_watermark, result.error_code)
    }

    /// The values of all records in a broker's log.
    pub(super) async fn values(&self, id: i32) -> Vec<String> {
        let log = self.partition(id).log().clone();
        let slice = log.read(log.log_start_offset(), 1 << 20, log.log_end_offset(), true).await.unwrap();
        let mut bytes = vec![0; slice.length];
        slice.file.read_exact_at(&mut bytes, slice.position).await.unwrap();
        let mut values = Vec::new();
        for batch in split_batches(&bytes.into()) {
            for record in batch.unwrap().records().unwrap() {
                values.push(String::from_utf8_lossy(record.unwrap().value().unwrap()).into_owned());
            }
        }
        values
    }

    pub(super) async fn stop(self) {
        for node in &self.nodes {
            node.broker.stop().await.unwrap();
        }
    }
}
