//! Administration against two scripted brokers of which one is the controller, over real sockets of this machine.

use bytes::Bytes;
use sillon_client::admin::{Address, Admin, AdminError, AdminOptions, NewTopic};
use sillon_protocol::{
    ApiKey, ErrorCode,
    frame::{FrameReader, encode_response},
    messages::{
        ApiVersion, ApiVersionsRequest, ApiVersionsResponse, CreatableTopicResult, CreateTopicsRequest,
        CreateTopicsResponse, MetadataRequest, MetadataResponse, MetadataResponseBroker,
        MetadataResponsePartition, MetadataResponseTopic, decode_request_header,
    },
    wire::{Encoder, Message},
};
use sillon_runtime::{BoxStream, Runtime, Tasks, tokio_backend};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What both brokers know.
struct Cluster {
    ports: [u16; 2],
    /// Who the metadata names; the true controller is always broker 1.
    named_controller: AtomicI32,
    /// What the controller answers to CreateTopics, and what it shows afterwards.
    creation: ErrorCode,
    created: Mutex<Vec<String>>,
}

impl Cluster {
    fn metadata(&self) -> MetadataResponse {
        let broker = |(node_id, port): (i32, &u16)| MetadataResponseBroker {
            node_id,
            host: "127.0.0.1".into(),
            port: i32::from(*port),
            rack: Some(format!("r{node_id}")),
        };
        let partition =
            MetadataResponsePartition { leader_id: 1, replica_nodes: vec![1, 0], ..Default::default() };
        let topic = |name: &String| MetadataResponseTopic {
            name: Some(name.clone()),
            partitions: vec![partition.clone()],
            ..Default::default()
        };
        MetadataResponse {
            brokers: (0..).zip(&self.ports).map(broker).collect(),
            // The news reaches the metadata when it has been asked for once.
            controller_id: self.named_controller.swap(1, Ordering::SeqCst),
            topics: self.created.lock().expect("not poisoned").iter().map(topic).collect(),
            ..Default::default()
        }
    }

    fn create(&self, broker: i32) -> CreateTopicsResponse {
        let code = if broker == 1 { self.creation } else { ErrorCode::NOT_CONTROLLER };
        if code.is_none() {
            self.created.lock().expect("not poisoned").push("orders".into());
        }
        let topic =
            CreatableTopicResult { name: "orders".into(), error_code: code.code(), ..Default::default() };
        CreateTopicsResponse { topics: vec![topic], ..Default::default() }
    }

    fn answer(&self, broker: i32, frame: &Bytes) -> Encoder {
        let Ok((header, _body)) = decode_request_header(frame) else { panic!("the client asks properly") };
        let (version, id) = (header.api_version, header.correlation_id);
        let mut encoder = Encoder::new();
        let encoded = match header.api_key {
            ApiKey::ApiVersions => {
                encode_response::<ApiVersionsRequest>(&mut encoder, version, id, &spoken())
            }
            ApiKey::Metadata => {
                encode_response::<MetadataRequest>(&mut encoder, version, id, &self.metadata())
            }
            ApiKey::CreateTopics => {
                encode_response::<CreateTopicsRequest>(&mut encoder, version, id, &self.create(broker))
            }
            other => panic!("{other} is not asked here"),
        };
        encoded.expect("sayable");
        encoder
    }
}

fn spoken() -> ApiVersionsResponse {
    let api = |api: ApiKey, versions: std::ops::RangeInclusive<i16>| ApiVersion {
        api_key: api.code(),
        min_version: *versions.start(),
        max_version: *versions.end(),
    };
    let api_keys = vec![
        api(ApiKey::ApiVersions, 0..=3),
        api(ApiKey::Metadata, MetadataRequest::VERSIONS),
        api(ApiKey::CreateTopics, CreateTopicsRequest::VERSIONS),
    ];
    ApiVersionsResponse { api_keys, ..Default::default() }
}

async fn serve(cluster: Arc<Cluster>, broker: i32, mut stream: BoxStream) {
    let mut frames = FrameReader::new(1 << 20);
    loop {
        while let Some(frame) = frames.next_frame().expect("proper frames") {
            let answer = cluster.answer(broker, &frame);
            if stream.write_all(&answer.buffer).await.is_err() {
                return;
            }
        }
        if stream.read_buf(frames.buffer()).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// Starts both brokers, of which the metadata names `named` as the controller at first, and lets the client at them.
fn scenario<F: Future<Output = ()>>(named: i32, creation: ErrorCode, client: impl FnOnce(Admin) -> F) {
    tokio_backend::block_on(Some(1), async |runtime: Runtime| {
        let any = || "127.0.0.1:0".parse().expect("an address");
        let listeners =
            [runtime.listen(any()).await.expect("a port"), runtime.listen(any()).await.expect("a port")];
        let ports = [listeners[0].local_addr().port(), listeners[1].local_addr().port()];
        let cluster = Arc::new(Cluster {
            ports,
            named_controller: AtomicI32::new(named),
            creation,
            created: Mutex::default(),
        });
        let mut tasks = Tasks::default();
        for (broker, listener) in (0..).zip(listeners) {
            let (cluster, spawner) = (cluster.clone(), runtime.clone());
            tasks.push(runtime.spawn("fake broker", async move {
                let mut connections = Tasks::default();
                while let Ok(stream) = listener.accept().await {
                    connections
                        .push(spawner.spawn("fake connection", serve(cluster.clone(), broker, stream)));
                }
            }));
        }
        let options = AdminOptions { timeout: Duration::from_secs(5), ..AdminOptions::default() };
        let bootstrap = vec![Address { host: "127.0.0.1".into(), port: ports[0] }];
        client(Admin::new(runtime.clone(), bootstrap, options)).await;
    })
    .expect("tokio starts");
}

fn orders() -> NewTopic {
    NewTopic { name: "orders".into(), partitions: Some(1), ..NewTopic::default() }
}

#[test]
fn a_topic_is_created_at_the_controller_although_another_broker_is_asked_first() {
    scenario(1, ErrorCode::NONE, async |mut admin| {
        admin.create_topic(&orders()).await.expect("created");
        let names: Vec<_> =
            admin.list_topics().await.expect("listed").into_iter().map(|topic| topic.name).collect();
        assert_eq!(names, ["orders"]);
    });
}

#[test]
fn a_broker_that_is_the_controller_no_more_is_not_asked_for_ever() {
    scenario(0, ErrorCode::NONE, async |mut admin| {
        admin.create_topic(&orders()).await.expect("created, by the new controller");
    });
}

#[test]
fn no_controller_is_waited_for() {
    scenario(-1, ErrorCode::NONE, async |mut admin| {
        admin.create_topic(&orders()).await.expect("created, when there is one");
    });
}

#[test]
fn a_refusal_names_the_topic_the_broker_and_what_to_do() {
    scenario(1, ErrorCode::INVALID_REPLICATION_FACTOR, async |mut admin| {
        let error = admin.create_topic(&orders()).await.expect_err("refused");
        assert!(matches!(error, AdminError::Refused { code: ErrorCode::INVALID_REPLICATION_FACTOR, .. }));
        let told = error.to_string();
        assert!(told.starts_with("cannot create topic orders: broker 1 (127.0.0.1:"), "{told}");
        assert!(told.contains("sillon cluster describe"), "{told}");
    });
}

#[test]
fn the_cluster_is_told_with_racks_and_controller() {
    scenario(1, ErrorCode::NONE, async |mut admin| {
        let cluster = admin.describe_cluster().await.expect("told");
        assert_eq!(cluster.controller_id, Some(1));
        let racks: Vec<_> = cluster.brokers.iter().map(|broker| broker.rack.as_deref()).collect();
        assert_eq!(racks, [Some("r0"), Some("r1")]);
    });
}

#[test]
fn brokers_that_do_not_answer_are_named() {
    tokio_backend::block_on(Some(1), async |runtime: Runtime| {
        let closed = runtime.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a port");
        let port = closed.local_addr().port();
        drop(closed);
        let options = AdminOptions { timeout: Duration::from_millis(300), ..AdminOptions::default() };
        let bootstrap = vec![Address { host: "127.0.0.1".into(), port }];
        let error =
            Admin::new(runtime, bootstrap, options).describe_cluster().await.expect_err("nobody is there");
        assert!(error.to_string().contains(&format!("no broker answers at 127.0.0.1:{port}")), "{error}");
    })
    .expect("tokio starts");
}
