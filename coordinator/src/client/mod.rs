//! The client of a coordinator or of any ZooKeeper 3.6 or later: one session, with typed requests and watches.
//!
//! ```text
//!   Client ──► commands ──► driver task ──► Session (pure) ──► socket
//!   Pending, Watch, SessionEvents ◄── effects ──┘
//! ```
//! A request leaves when its function is called, in the order of the calls; what comes back is a [`Pending`] that can be
//! awaited at any time, or dropped. So any number of requests may be on their way. A request whose answer was lost
//! with its connection ends as [`ClientError::ConnectionLoss`], and is never sent again behind the caller's back.
//!
//! When the session expires, the client is over: whoever needs one makes another, knowing that the ephemeral nodes have
//! gone. When the last clone is dropped, the connection closes, and the session ends by its timeout unless somebody
//! resumes it.
//!
//! ```no_run
//! # async fn example(runtime: sillon_runtime::Runtime) -> Result<(), Box<dyn std::error::Error>> {
//! use sillon_coordinator::client::{Client, ClientConfig, NewNode};
//!
//! let client = Client::connect(&runtime, ClientConfig::new("n1:2181,n2:2181,n3:2181/sillon", 6000)?);
//! let created = client.create2(&NewNode::ephemeral("/me").data(b"here")).await?;
//! println!("my epoch is {}", created.value.stat.czxid);
//! let (data, mut watch) = client.get_data_watched("/controller").await?.value;
//! println!("{:?}, then {:?}", data.data, watch.changed().await?);
//! # Ok(()) }
//! ```
//!
//! Owns the handle and its configuration. The rules are in `session`, the socket in `driver`.

mod connect_string;
mod driver;
mod error;
mod multi;
mod node;
mod observe;
mod pending;
mod reads;
mod registry;
mod session;
#[cfg(test)]
mod tests;
mod watch;
mod writes;

pub use connect_string::{ConnectStringError, DEFAULT_PORT};
pub use error::{ClientError, Loss};
pub use multi::{Multi, MultiRead, MultiResult, ReadResult};
pub use node::{AclAndStat, Children, Created, DataAndStat, NewNode};
pub use observe::{ClientFact, ClientObserver};
pub use pending::{Pending, Reply};
pub use session::{Notice, SessionCredentials, SessionEvent, WatchEnded, WatchedEvent};
pub use watch::{PersistentWatch, SessionEvents, Watch};

use crate::config::members::HostPort;
use driver::Command;
use registry::{WatchId, WatchedThing};
use session::{Extra, RawReply, Request, Session, SessionSettings, Ticket};
use sillon_protocol::zookeeper::OpCode;
use sillon_runtime::Runtime;
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// How a client behaves.
#[derive(Clone)]
pub struct ClientConfig {
    /// The servers, of which one serves the session at a time.
    pub servers: Vec<HostPort>,
    /// The node that stands for the root, empty for none.
    pub chroot: String,
    /// The session timeout to ask for, in milliseconds. The server has the last word.
    pub session_timeout_ms: u64,
    /// A session to go on with. Where it has expired, the client is over before it began.
    pub credentials: Option<SessionCredentials>,
    /// Identities to prove, as scheme and proof, on each connection.
    pub identities: Vec<(String, Vec<u8>)>,
    /// How many requests may wait for an answer at a time; more are refused.
    pub max_outstanding: usize,
    /// The largest reply that is accepted, in bytes.
    pub max_reply_bytes: usize,
    /// The longest pause before the next server is tried while not all have been, in milliseconds.
    pub backoff_min_ms: u64,
    /// The longest pause between attempts at all, in milliseconds.
    pub backoff_max_ms: u64,
    /// Who is told of everything that happens.
    pub observer: Option<Arc<dyn ClientObserver>>,
}

impl ClientConfig {
    /// A configuration from a connect string, `host:port,host:port/chroot`, and a session timeout in milliseconds.
    ///
    /// # Errors
    /// What is wrong with the connect string.
    pub fn new(connect_string: &str, session_timeout_ms: u64) -> Result<ClientConfig, ConnectStringError> {
        let (servers, chroot) = connect_string::parse(connect_string)?;
        Ok(ClientConfig {
            servers,
            chroot,
            session_timeout_ms,
            credentials: None,
            identities: Vec::new(),
            max_outstanding: 10_000,
            max_reply_bytes: 64 << 20,
            backoff_min_ms: 50,
            backoff_max_ms: 1000,
            observer: None,
        })
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Proofs and passwords do not belong in logs.
        f.debug_struct("ClientConfig")
            .field("servers", &self.servers)
            .field("chroot", &self.chroot)
            .field("session_timeout_ms", &self.session_timeout_ms)
            .finish_non_exhaustive()
    }
}

/// What the clones of a client share.
struct Shared {
    commands: mpsc::UnboundedSender<Command>,
    chroot: Arc<str>,
    credentials: Arc<Mutex<Option<SessionCredentials>>>,
    next_number: AtomicU64,
}

/// A session with a coordinator. Clone it freely.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("chroot", &self.0.chroot).finish_non_exhaustive()
    }
}

impl Client {
    /// Begins a session. Returns at once; requests wait until there is a connection.
    ///
    /// # Panics
    /// Where the configuration names no server.
    pub fn connect(runtime: &Runtime, config: ClientConfig) -> Client {
        let settings = SessionSettings {
            servers: config.servers,
            timeout: Duration::from_millis(config.session_timeout_ms),
            credentials: config.credentials.clone(),
            max_outstanding: config.max_outstanding,
            backoff_min: Duration::from_millis(config.backoff_min_ms),
            backoff_max: Duration::from_millis(config.backoff_max_ms),
        };
        let random = {
            let runtime = runtime.clone();
            Box::new(move || runtime.random_u64())
        };
        let mut session = Session::new(settings, random, config.observer, runtime.now());
        for (scheme, proof) in config.identities {
            session.prove(runtime.now(), scheme, proof, None);
        }
        let (commands, received) = mpsc::unbounded_channel();
        let credentials = Arc::new(Mutex::new(config.credentials));
        let driver = driver::Driver::new(session, config.max_reply_bytes, credentials.clone());
        runtime.spawn("coordinator client", driver.run(runtime.clone(), received));
        let chroot = config.chroot.into();
        Client(Arc::new(Shared { commands, chroot, credentials, next_number: AtomicU64::new(0) }))
    }

    /// What proves the session, once there was a connection. Whoever keeps it can resume the session later.
    pub fn credentials(&self) -> Option<SessionCredentials> {
        self.0.credentials.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// What happens to the session from now on; the state that it is in comes first.
    pub fn session_events(&self) -> SessionEvents {
        let (sender, events) = mpsc::unbounded_channel();
        // Where the driver has gone with its node, the events simply end.
        let _ = self.0.commands.send(Command::Subscribe(sender));
        SessionEvents::new(events)
    }

    /// Waits until there is a connection.
    ///
    /// # Errors
    /// Where the client is over: the session has expired, an identity was not proven, or it was closed.
    pub async fn wait_connected(&self) -> Result<(), ClientError> {
        let mut events = self.session_events();
        loop {
            match events.next().await {
                Some(SessionEvent::Connected { .. }) => return Ok(()),
                Some(SessionEvent::Disconnected(_)) => {}
                Some(SessionEvent::Expired) => return Err(ClientError::SessionExpired),
                Some(SessionEvent::AuthFailed) => return Err(ClientError::AuthFailed),
                Some(SessionEvent::Closed) | None => return Err(ClientError::Closed),
            }
        }
    }

    /// Proves an identity, now and on each connection that follows: `digest` with `user:password`. A failure ends the
    /// client.
    pub fn add_auth(&self, scheme: &str, proof: &[u8]) -> Pending<()> {
        let (answer, receiver) = oneshot::channel();
        let (scheme, proof) = (scheme.to_owned(), proof.to_vec());
        let ticket = Ticket(self.number());
        self.command(Command::Prove { ticket, scheme, proof, answer });
        Pending::waiting(receiver, |_body| Ok(()))
    }

    /// Ends the session, once everything that was asked before is answered. Without a connection only the client ends,
    /// and the session by its timeout; the answer is [`ClientError::NotConnected`] then.
    pub fn close(&self) -> Pending<()> {
        let receiver = self.submit(OpCode::CloseSession, Vec::new(), Extra::Close, None);
        Pending::waiting(receiver, |_body| Ok(()))
    }

    /// Sends a request of any kind, as bytes, and gives the body of the answer. Paths in it are the server's, and
    /// watches that it sets are nobody's.
    pub fn raw_request(&self, operation: OpCode, body: Vec<u8>) -> Pending<Vec<u8>> {
        let receiver = self.submit(operation, body, Extra::Nothing, None);
        Pending::waiting(receiver, |body| Ok(body.to_vec()))
    }

    fn number(&self) -> u64 {
        self.0.next_number.fetch_add(1, Ordering::Relaxed)
    }

    fn command(&self, command: Command) {
        // Where the driver has gone with its node, so has whoever would wait for the answer.
        let _ = self.0.commands.send(command);
    }

    fn submit(
        &self,
        operation: OpCode,
        body: Vec<u8>,
        extra: Extra,
        watcher: Option<driver::Watcher>,
    ) -> oneshot::Receiver<Result<RawReply, ClientError>> {
        let (answer, receiver) = oneshot::channel();
        let request = Request { ticket: Ticket(self.number()), operation, body, extra };
        self.command(Command::Submit { request, answer, watcher });
        receiver
    }

    /// Sends a request that has nothing to do with watches.
    fn ask<T: 'static>(
        &self,
        operation: OpCode,
        body: Vec<u8>,
        decode: impl FnOnce(&[u8]) -> Result<T, ClientError> + Send + 'static,
    ) -> Pending<T> {
        Pending::waiting(self.submit(operation, body, Extra::Nothing, None), decode)
    }

    /// Sends a request that sets a watch. What comes back is the answer and the watch's end that listens.
    fn ask_watched(
        &self,
        operation: OpCode,
        body: Vec<u8>,
        thing: WatchedThing,
        path: String,
    ) -> (oneshot::Receiver<Result<RawReply, ClientError>>, watch::Listener) {
        let (sender, notices) = mpsc::unbounded_channel();
        let watch = WatchId(self.number());
        let watcher = driver::Watcher { watch, sender, once: !thing.is_persistent() };
        let receiver = self.submit(operation, body, Extra::Watch { watch, thing, path }, Some(watcher));
        let commands = self.0.commands.downgrade();
        (receiver, watch::Listener::new(watch, notices, self.0.chroot.clone(), commands))
    }

    /// A path as the server knows it.
    fn server_path(&self, path: &str) -> Result<String, ClientError> {
        to_server(&self.0.chroot, path)
    }
}

/// A path below the chroot, as the server knows it.
fn to_server(chroot: &str, path: &str) -> Result<String, ClientError> {
    if !path.starts_with('/') {
        return Err(ClientError::BadPath { path: path.to_owned() });
    }
    if path == "/" && !chroot.is_empty() {
        return Ok(chroot.to_owned());
    }
    Ok(format!("{chroot}{path}"))
}

/// A path of the server's, as it is below the chroot. One that is not below it stays as it is.
fn to_client(chroot: &str, path: &str) -> String {
    match path.strip_prefix(chroot) {
        Some("") => "/".to_owned(),
        Some(below) if below.starts_with('/') => below.to_owned(),
        _ => path.to_owned(),
    }
}

/// Whether a path of the server's is the chroot or below it.
fn is_below(chroot: &str, path: &str) -> bool {
    path.strip_prefix(chroot).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}
