//! Real members in directories of their own, and a client that speaks bare frames, for tests over real sockets.
#![allow(dead_code)] // Each test binary uses a part of it.

use sillon_coordinator::{CoordinatorError, Running, config::CoordinatorConfig, observe::Observers};
use sillon_protocol::zookeeper::{
    ConnectRequest, CreateRequest, Jute, OpCode, Reader, ReplyHeader, RequestHeader, records::open_acl,
};
use sillon_runtime::{BoxStream, JoinHandle, Runtime, tokio_backend};
use std::{future::Future, net::SocketAddr, path::Path, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::oneshot,
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a scenario on two threads.
pub fn scenario<F: Future>(run: impl FnOnce(Runtime) -> F) -> F::Output {
    tokio_backend::block_on(Some(2), run).expect("threads can be started")
}

/// A standalone server's configuration in `directory`, on a free port.
pub fn config(directory: &Path, more: &str) -> CoordinatorConfig {
    let text = format!(
        "clientPort=0\nclientPortAddress=127.0.0.1\ndataDir={}\ntickTime=400\n4lw.commands.whitelist=*\n{more}",
        directory.display()
    );
    CoordinatorConfig::from_text(&text, "test.cfg", None).expect("the configuration is legal").0
}

/// A member that runs.
pub struct Server {
    pub address: SocketAddr,
    pub metrics: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), CoordinatorError>>,
}

impl Server {
    /// Starts a server that has to start.
    pub async fn start(runtime: &Runtime, config: CoordinatorConfig) -> Server {
        Server::try_start(runtime, config).await.unwrap_or_else(|error| panic!("it does not start: {error}"))
    }

    pub async fn try_start(runtime: &Runtime, config: CoordinatorConfig) -> Result<Server, CoordinatorError> {
        let running = Running::start(runtime.clone(), config, Observers::NONE).await?;
        let (address, metrics) = (running.addresses()[0], running.metrics_address());
        let (stop, stopped) = oneshot::channel();
        let running = runtime.spawn("server", running.until(async move { drop(stopped.await) }));
        Ok(Server { address, metrics, stop, running })
    }

    /// Stops it cleanly.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.running.await.expect("it ends").expect("it ends cleanly");
    }
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub xid: i32,
    pub zxid: i64,
    pub error: i32,
    pub body: Vec<u8>,
}

/// A client that does as it is told.
pub struct Wire {
    runtime: Runtime,
    stream: BoxStream,
    pub session: i64,
    pub password: Vec<u8>,
    next_xid: i32,
}

impl Wire {
    /// Connects, and says nothing.
    pub async fn dial(runtime: &Runtime, address: SocketAddr) -> Wire {
        let stream = runtime.connect(&address.ip().to_string(), address.port()).await.expect("it listens");
        Wire { runtime: runtime.clone(), stream, session: 0, password: vec![0; 16], next_xid: 1 }
    }

    /// Opens a session, as soon as the server serves.
    pub async fn open(runtime: &Runtime, address: SocketAddr) -> Wire {
        loop {
            let mut wire = Wire::dial(runtime, address).await;
            if wire.greet(0, 0, 4_000, vec![0; 16]).await.is_some_and(|timeout_ms| timeout_ms > 0) {
                return wire;
            }
            runtime.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Shakes hands; the negotiated timeout, or nothing where the server closes the connection.
    pub async fn greet(
        &mut self,
        session_id: i64,
        last_zxid_seen: i64,
        timeout_ms: i32,
        password: Vec<u8>,
    ) -> Option<i32> {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen,
            timeout_ms,
            session_id,
            password: Some(&password),
            read_only: Some(false),
        };
        self.send_frame(&request.to_bytes()).await;
        let reply = self.frame().await?;
        let mut reader = Reader::new(&reply);
        let _version = i32::read(&mut reader).expect("a version");
        let timeout_ms = i32::read(&mut reader).expect("a timeout");
        self.session = i64::read(&mut reader).expect("a session");
        self.password = Option::<&[u8]>::read(&mut reader).expect("a password").unwrap_or_default().to_vec();
        Some(timeout_ms)
    }

    pub async fn send_raw(&mut self, bytes: &[u8]) {
        // The server may close the connection while this still writes.
        let _ = self.stream.write_all(bytes).await;
    }

    pub async fn send_frame(&mut self, body: &[u8]) {
        let mut bytes = i32::try_from(body.len()).expect("short").to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        self.send_raw(&bytes).await;
    }

    /// Sends a request and does not wait.
    pub async fn send(&mut self, operation: i32, body: &[u8]) -> i32 {
        let xid = self.next_xid;
        self.next_xid += 1;
        let mut bytes = RequestHeader { xid, operation }.to_bytes();
        bytes.extend_from_slice(body);
        self.send_frame(&bytes).await;
        xid
    }

    /// The next frame, or nothing where the connection ends.
    pub async fn frame(&mut self) -> Option<Vec<u8>> {
        let read = async {
            let length = self.stream.read_i32().await.ok()?;
            let mut bytes = vec![0; usize::try_from(length).expect("a length")];
            self.stream.read_exact(&mut bytes).await.ok()?;
            Some(bytes)
        };
        self.runtime.timeout(TIMEOUT, read).await.expect("the server does not keep a client waiting")
    }

    /// Everything until the server closes the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = self.stream.read_to_end(&mut bytes);
        let _ = self.runtime.timeout(TIMEOUT, read).await.expect("the server closes the connection");
        bytes
    }

    /// The next reply or event.
    pub async fn reply(&mut self) -> Option<Reply> {
        let frame = self.frame().await?;
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::read(&mut reader).expect("a header");
        Some(Reply { xid: header.xid, zxid: header.zxid, error: header.error, body: reader.rest().to_vec() })
    }

    /// Sends a request and waits for its reply.
    pub async fn ask(&mut self, operation: OpCode, body: &[u8]) -> Option<Reply> {
        self.send(operation.number(), body).await;
        self.reply().await
    }

    /// Creates a persistent node, and gives the error's number.
    pub async fn create(&mut self, path: &str, data: &[u8]) -> Option<i32> {
        let request = CreateRequest { path, data: Some(data), acl: open_acl(), flags: 0 };
        self.ask(OpCode::Create, &request.to_bytes()).await.map(|reply| reply.error)
    }
}
