//! Handlers against a controller that does as it is told: which commands a request becomes, and what is made of their
//! outcomes. The rules of the cluster have tests of their own (`controller`).

mod changes;
mod seen;

use super::{admin::Admin, check_leader_epoch};
use crate::{
    cluster::{ActiveController, Cluster, ClusterError},
    config::BrokerConfig,
    controller::{Command, ControllerError, Outcome},
    metadata::{
        BrokerImage, Endpoint, MetadataDelta, MetadataImage, MetadataPosition, PartitionImage, TopicImage,
    },
    types::{BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, Uuid},
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{AlterPartitionRequest, AlterPartitionResponse},
};
use sillon_runtime::{BoxFuture, tokio_backend};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

type Outcomes = VecDeque<Result<Outcome, ControllerError>>;
type Answer = Result<Bytes, ClusterError>;

/// A broker's membership, and the controller with it, as a test wants them.
pub(crate) struct FakeCluster {
    image: Arc<MetadataImage>,
    /// None where another broker is controller.
    controller: Option<Arc<FakeController>>,
    /// What the other broker answers.
    answer: Mutex<Box<dyn FnMut(Bytes) -> Answer + Send>>,
    waited_for: Mutex<Vec<MetadataPosition>>,
}

struct FakeController {
    image: Arc<MetadataImage>,
    outcomes: Mutex<Outcomes>,
    commands: Mutex<Vec<Command>>,
}

impl FakeCluster {
    /// This broker is controller, and commands lead to these outcomes, one after the other.
    pub(crate) fn controlling(
        image: MetadataImage,
        outcomes: impl IntoIterator<Item = Result<Outcome, ControllerError>>,
    ) -> FakeCluster {
        let image = Arc::new(image);
        let outcomes = Mutex::new(outcomes.into_iter().collect());
        let controller = FakeController { image: image.clone(), outcomes, commands: Mutex::default() };
        let mut cluster = FakeCluster::elsewhere(|_| Err(ClusterError::NoController));
        cluster.image = image;
        cluster.controller = Some(Arc::new(controller));
        cluster
    }

    /// Another broker is controller.
    pub(crate) fn elsewhere(answer: impl FnMut(Bytes) -> Answer + Send + 'static) -> FakeCluster {
        FakeCluster {
            image: Arc::default(),
            controller: None,
            answer: Mutex::new(Box::new(answer)),
            waited_for: Mutex::default(),
        }
    }

    /// The commands that came, in their order.
    fn commands(&self) -> Vec<Command> {
        self.controller.as_ref().expect("the test made it controller").commands.lock().unwrap().clone()
    }

    fn waited_for(&self) -> Vec<i64> {
        self.waited_for.lock().unwrap().iter().map(|position| position.version).collect()
    }
}

impl Cluster for FakeCluster {
    fn broker_id(&self) -> BrokerId {
        BrokerId(1)
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.image.clone()
    }

    fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch(1)
    }

    fn is_known_to(&self, image: &MetadataImage) -> bool {
        let registered = image.brokers.get(&self.broker_id());
        registered.is_some_and(|registered| registered.broker_epoch == self.broker_epoch())
    }

    fn controller(&self) -> Option<Arc<dyn ActiveController>> {
        self.controller.clone().map(|controller| controller as Arc<dyn ActiveController>)
    }

    fn wait_for(&self, position: MetadataPosition, _: Duration) -> BoxFuture<'_, bool> {
        self.waited_for.lock().unwrap().push(position);
        Box::pin(async { true })
    }

    fn forward(&self, frame: Bytes) -> BoxFuture<'_, Answer> {
        let answer = (self.answer.lock().unwrap())(frame);
        Box::pin(async { answer })
    }

    fn alter_partitions(
        &self,
        _: AlterPartitionRequest,
    ) -> BoxFuture<'_, Result<AlterPartitionResponse, ClusterError>> {
        Box::pin(async { Err(ClusterError::NoController) })
    }

    fn allocate_producer_ids(&self, _: i64) -> BoxFuture<'_, Result<i64, ClusterError>> {
        Box::pin(async { Err(ClusterError::NoController) })
    }
}

impl ActiveController for FakeController {
    fn submit(
        &self,
        command: Command,
    ) -> BoxFuture<'_, Result<(Outcome, MetadataPosition), ControllerError>> {
        let mut commands = self.commands.lock().unwrap();
        commands.push(command);
        let version = commands.len() as i64;
        let position = MetadataPosition { controller_epoch: ControllerEpoch(1), version };
        let outcome = self.outcomes.lock().unwrap().pop_front().expect("the test has an outcome for each");
        Box::pin(async move { outcome.map(|outcome| (outcome, position)) })
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.image.clone()
    }
}

/// Runs a handler with such a membership.
fn with_admin<T>(cluster: &FakeCluster, run: impl AsyncFnOnce(&mut Admin<'_>) -> T) -> T {
    let config = BrokerConfig::from_properties("broker.id=1", "test").expect("it is legal").0;
    tokio_backend::block_on(Some(1), |runtime| async move {
        run(&mut Admin::new(cluster, &config, &runtime)).await
    })
    .expect("threads can be started")
}

fn topic_id(number: u128) -> TopicId {
    TopicId(Uuid::from_u128(number))
}

/// A partition; no leader below 0.
fn partition(leader: i32, replicas: &[i32], isr: &[i32]) -> PartitionImage {
    let ids = |ids: &[i32]| -> Vec<BrokerId> { ids.iter().copied().map(BrokerId).collect() };
    PartitionImage {
        leader: (leader >= 0).then_some(BrokerId(leader)),
        leader_epoch: LeaderEpoch(7),
        partition_epoch: PartitionEpoch(9),
        replicas: ids(replicas),
        adding: Vec::new(),
        removing: Vec::new(),
        isr: ids(isr),
        eligible_leader_replicas: Vec::new(),
        last_known_leader: None,
        unproven: Vec::new(),
    }
}

/// A cluster of these brokers, each on `nI:9092`, with one topic `t`; broker 2 is controller.
fn cluster_of(brokers: &[i32], partitions: Vec<PartitionImage>) -> MetadataImage {
    let registered = brokers.iter().map(|id| MetadataDelta::Broker {
        id: BrokerId(*id),
        broker: Arc::new(BrokerImage {
            broker_epoch: BrokerEpoch(i64::from(*id)),
            endpoints: vec![Endpoint {
                listener: "PLAINTEXT".to_owned(),
                host: format!("n{id}"),
                port: 9092,
            }],
            rack: Some(format!("rack-{id}").into()),
            unclean: false,
            registration: 0,
            shutting_down: false,
        }),
    });
    let topic = TopicImage { id: topic_id(5), partitions, configs: BTreeMap::new() };
    let mut deltas: Vec<_> = registered.collect();
    deltas.push(MetadataDelta::Cluster { cluster_id: "c".to_owned() });
    deltas.push(MetadataDelta::Controller { broker: BrokerId(2) });
    deltas.push(MetadataDelta::Topic { name: "t".into(), topic: Arc::new(topic) });
    MetadataImage::default().after(&deltas, MetadataPosition::default()).expect("the deltas fit")
}

#[test]
fn a_claimed_leader_epoch_is_compared() {
    assert_eq!(check_leader_epoch(-1, LeaderEpoch(3)), Ok(()));
    assert_eq!(check_leader_epoch(3, LeaderEpoch(3)), Ok(()));
    assert_eq!(check_leader_epoch(2, LeaderEpoch(3)), Err(ErrorCode::FENCED_LEADER_EPOCH));
    assert_eq!(check_leader_epoch(4, LeaderEpoch(3)), Err(ErrorCode::UNKNOWN_LEADER_EPOCH));
}
