//! Memberships with a real coordinator, each with a server that knows only what brokers ask each other.

use super::super::{
    ActiveController, Cluster, Membership, MembershipError, MembershipSettings, Reconcile, serve,
};
use crate::{
    config::BrokerConfig,
    controller::{Command, ConfigEdit, ConfigOperation, ControllerSettings},
    metadata::{Endpoint, MetadataImage, image::ALL_BROKERS},
    observe::Observers,
    types::BrokerId,
};
use bytes::Bytes;
use sillon_coordinator::{CoordinatorError, config::CoordinatorConfig};
use sillon_protocol::{
    ApiKey,
    frame::{self, FrameReader},
    messages::{
        AlterPartitionRequest, AlterPartitionResponse, ApiVersionsRequest, ApiVersionsResponse,
        FetchMetadataRequest, ForwardRequest, ForwardResponse, PrepareShutdownRequest, decode_request_header,
    },
    wire::{Encoder, Message},
};
use sillon_runtime::{BoxStream, JoinHandle, ReadHalf, Runtime, Tasks, tokio_backend};
use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runs a scenario on two threads.
pub fn scenario<F: Future>(run: impl FnOnce(Runtime) -> F) -> F::Output {
    tokio_backend::block_on(Some(2), run).expect("threads can be started")
}

/// A coordinator of one member.
pub struct Coordinator {
    pub port: u16,
    _running: JoinHandle<Result<(), CoordinatorError>>,
}

impl Coordinator {
    pub async fn start(runtime: &Runtime, directory: &Path) -> Coordinator {
        let text = format!(
            "clientPort=0\nclientPortAddress=127.0.0.1\ndataDir={}\ntickTime=200\n",
            directory.join("coordinator").display()
        );
        let config = CoordinatorConfig::from_text(&text, "test", None).expect("legal").0;
        let running = sillon_coordinator::Running::start(
            runtime.clone(),
            config,
            sillon_coordinator::observe::Observers::NONE,
        )
        .await
        .expect("the coordinator starts");
        let port = running.addresses()[0].port();
        let running = runtime.spawn("coordinator", running.until(std::future::pending()));
        Coordinator { port, _running: running }
    }
}

/// A broker that has nothing but a membership.
pub struct Member {
    pub membership: Arc<Membership>,
    pub cluster_id: String,
    /// The images that it was to be brought in line with.
    pub images: Arc<Mutex<Vec<Arc<MetadataImage>>>>,
    serving: Option<Tasks>,
}

/// How a member starts.
pub struct Start<'a> {
    pub runtime: &'a Runtime,
    pub directory: PathBuf,
    pub id: i32,
    pub coordinator_port: u16,
    pub session_timeout_ms: u64,
    pub unclean: bool,
}

impl<'a> Start<'a> {
    pub fn new(runtime: &'a Runtime, directory: &Path, id: i32, coordinator: &Coordinator) -> Start<'a> {
        Start {
            runtime,
            directory: directory.join(format!("broker-{id}")),
            id,
            coordinator_port: coordinator.port,
            session_timeout_ms: 2000,
            unclean: false,
        }
    }

    pub async fn start(self) -> Result<Member, MembershipError> {
        let runtime = self.runtime;
        runtime.fs().create_dir_all(&self.directory).await.expect("it can be created");
        let listener = runtime.listen(([127, 0, 0, 1], 0).into()).await.expect("a free port");
        let port = listener.local_addr().port();
        let settings = MembershipSettings {
            broker_id: BrokerId(self.id),
            endpoints: vec![Endpoint { listener: "PLAINTEXT".into(), host: "127.0.0.1".into(), port }],
            inter_broker_listener: "PLAINTEXT".into(),
            own_address: ("127.0.0.1".into(), port),
            rack: None,
            connect: format!("127.0.0.1:{}/sillon/test", self.coordinator_port),
            session_timeout_ms: self.session_timeout_ms,
            credentials_file: self.directory.join(super::super::credentials::FILE_NAME),
            unclean: self.unclean,
            controller: ControllerSettings { file: Arc::new(BrokerConfig::default()) },
            balance_interval: None,
        };
        let joined = Membership::join(runtime.clone(), Observers::NONE, settings, Some("new-id")).await?;
        let (membership, cluster_id) = joined;
        let mut serving = Tasks::default();
        serving.push(runtime.spawn("accept", accept(runtime.clone(), membership.clone(), listener)));
        let images = Arc::new(Mutex::new(Vec::new()));
        let heard = images.clone();
        let reconcile: Reconcile = Arc::new(move |image| {
            heard.lock().unwrap().push(image);
            Box::pin(async {})
        });
        membership.begin(reconcile).await?;
        Ok(Member { membership, cluster_id, images, serving: Some(serving) })
    }
}

impl Member {
    /// As if the process were killed: nothing is said, and the sockets close.
    pub fn kill(mut self) -> Arc<Membership> {
        drop(self.serving.take());
        self.membership.abandon();
        self.membership.clone()
    }

    pub fn image(&self) -> Arc<MetadataImage> {
        self.membership.image()
    }

    pub fn brokers(&self) -> Vec<i32> {
        self.image().brokers.keys().map(|id| id.0).collect()
    }
}

/// Waits until something is so, or fails.
pub async fn eventually(runtime: &Runtime, what: &str, within: Duration, is_so: impl Fn() -> bool) {
    let deadline = runtime.now() + within;
    while !is_so() {
        assert!(runtime.now() < deadline, "not within {within:?}: {what}");
        runtime.sleep(Duration::from_millis(2)).await;
    }
}

/// A change that shows in the metadata.
pub fn mark(value: &str) -> Command {
    Command::EditBrokerConfigs {
        broker: ALL_BROKERS,
        edits: vec![ConfigEdit {
            key: "log.retention.ms".to_owned(),
            operation: ConfigOperation::Set(value.to_owned()),
        }],
        replace_all: true,
        validate_only: false,
    }
}

/// The value that [`mark`] has set.
pub fn marked(image: &MetadataImage) -> Option<&str> {
    image.broker_config(ALL_BROKERS).get("log.retention.ms").map(String::as_str)
}

async fn accept(runtime: Runtime, membership: Arc<Membership>, listener: Box<dyn sillon_runtime::Listener>) {
    let mut connections = Tasks::default();
    while let Ok(stream) = listener.accept().await {
        let membership = membership.clone();
        connections.push(runtime.spawn("connection", async move {
            serve_connection(membership, stream).await;
        }));
    }
}

async fn serve_connection(membership: Arc<Membership>, stream: BoxStream) -> Option<()> {
    let (mut reader, mut writer) = stream.into_split();
    let mut frames = FrameReader::new(1 << 20);
    loop {
        let frame = loop {
            match frames.next_frame().ok()? {
                Some(frame) => break frame,
                None => read(&mut reader, &mut frames).await?,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = handle(&membership, &frame) => answer,
            () = async { while read(&mut reader, &mut frames).await.is_some() {} } => return None,
        };
        writer.write_all(&answer).await.ok()?;
        writer.flush().await.ok()?;
    }
}

async fn read(reader: &mut Box<dyn ReadHalf>, frames: &mut FrameReader) -> Option<()> {
    match reader.read_buf(frames.buffer()).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}

async fn handle(membership: &Arc<Membership>, frame: &Bytes) -> Bytes {
    let (header, mut body) = decode_request_header(frame).expect("brokers speak sense");
    let (version, id) = (header.api_version, header.correlation_id);
    let mut encoder = Encoder::new();
    match header.api_key {
        ApiKey::ApiVersions => frame::encode_response::<ApiVersionsRequest>(
            &mut encoder,
            version,
            id,
            &ApiVersionsResponse::default(),
        ),
        ApiKey::Private(10_000) => {
            let request = FetchMetadataRequest::decode(version, &mut body).expect("sense");
            let response = serve::fetch_metadata(&**membership, request).await;
            frame::encode_response::<FetchMetadataRequest>(&mut encoder, version, id, &response)
        }
        ApiKey::Private(10_001) => {
            let request = ForwardRequest::decode(version, &mut body).expect("sense");
            let response = forwarded(membership.controller(), &request.payload).await;
            frame::encode_response::<ForwardRequest>(&mut encoder, version, id, &response)
        }
        ApiKey::Private(10_002) => {
            let request = PrepareShutdownRequest::decode(version, &mut body).expect("sense");
            let response = serve::prepare_shutdown(&**membership, request).await;
            frame::encode_response::<PrepareShutdownRequest>(&mut encoder, version, id, &response)
        }
        ApiKey::AlterPartition => frame::encode_response::<AlterPartitionRequest>(
            &mut encoder,
            version,
            id,
            &AlterPartitionResponse { error_code: 0, ..AlterPartitionResponse::default() },
        ),
        other => panic!("{other} is not spoken here"),
    }
    .expect("it can be said");
    encoder.buffer.freeze()
}

/// A request that was handed on: its payload is what [`mark`] is to set.
async fn forwarded(controller: Option<Arc<dyn ActiveController>>, payload: &Bytes) -> ForwardResponse {
    let Some(controller) = controller else {
        return ForwardResponse { error_code: 41, ..ForwardResponse::default() };
    };
    let value = String::from_utf8(payload.to_vec()).expect("text");
    let (_, position) = controller.submit(mark(&value)).await.expect("it is carried out");
    ForwardResponse {
        error_code: 0,
        controller_epoch: position.controller_epoch.0,
        version: position.version,
        payload: payload.clone(),
    }
}
