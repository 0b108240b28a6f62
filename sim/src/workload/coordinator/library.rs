//! A session through the product's own client library. Owns the use of its typed calls, and holds each of its answers
//! against the bytes that it got them from.

use super::{Shared, library_ear::Ear, link::Connecting};
use crate::oracle::coordinator::{ClientId, Outcome, Request, Response};
use sillon_coordinator::{
    client::{
        Client, ClientConfig, ClientError, Multi, MultiResult, NewNode, Pending, PersistentWatch, Watch,
    },
    config::members::HostPort,
};
use sillon_protocol::zookeeper::{AddWatchMode, ErrorCode, EventType};
use sillon_runtime::{BoxFuture, Runtime};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// A session of the library's. Dropping it closes the connection and leaves the session to expire.
pub(super) struct LibraryLink {
    ear: Arc<Ear>,
    client: Client,
    runtime: Runtime,
    events: mpsc::UnboundedReceiver<(EventType, String)>,
    /// Watches are forgotten where nobody holds them.
    watches: Arc<Mutex<Vec<Kept>>>,
}

/// A watch that is held, so that the library sets it again on its next connection.
#[allow(dead_code)] // Held, and never looked at: what it hears is heard by the ear.
enum Kept {
    Once(Watch),
    Stays(PersistentWatch),
}

/// What the library made of an answer; nothing where the request was never sent.
type Typed = (Option<Outcome>, Option<Kept>);

impl LibraryLink {
    /// Begins a session. It connects by itself, now and whenever the connection is lost.
    pub fn begin_session(runtime: &Runtime, shared: &Arc<Shared>, client: ClientId) -> LibraryLink {
        let (to_tell, events) = mpsc::unbounded_channel();
        let ear = Ear::new(client, shared.clone(), to_tell);
        let timeout_ms = u64::try_from(shared.timeout().as_millis()).unwrap_or(u64::MAX);
        let servers =
            shared.members.iter().map(|(_, host, port)| HostPort { host: host.clone(), port: *port });
        let first = shared.members.first().map(|(_, host, port)| format!("{host}:{port}"));
        let config =
            ClientConfig::new(&first.unwrap_or_default(), timeout_ms).expect("a member's address is legal");
        let config = ClientConfig { servers: servers.collect(), observer: Some(ear.clone()), ..config };
        let client = Client::connect(runtime, config);
        LibraryLink { ear, client, runtime: runtime.clone(), events, watches: Arc::default() }
    }

    /// Waits for a connection, as long as a session lasts.
    pub async fn wait(&self, patience: Duration) -> Connecting<()> {
        match self.runtime.timeout(patience, self.client.wait_connected()).await {
            Ok(Ok(())) => Connecting::Connected(()),
            Ok(Err(ClientError::SessionExpired | ClientError::Closed)) => Connecting::Refused,
            Ok(Err(_)) | Err(_) => Connecting::Failed,
        }
    }

    /// Whether there is a connection.
    pub fn is_open(&self) -> bool {
        self.ear.is_connected()
    }

    /// The session, or 0 before there is one.
    pub fn session(&self) -> i64 {
        self.ear.session()
    }

    /// Asks. The outcome is what the library says.
    pub fn begin(&self, request: Request) -> oneshot::Receiver<Outcome> {
        let (sender, outcome) = oneshot::channel();
        // In this order: the library may send at once.
        self.ear.expect(request.clone());
        let typed = self.call(&request);
        let (watches, ear) = (self.watches.clone(), self.ear.clone());
        self.runtime.spawn("library-answer", async move {
            let (typed, watch) = typed.await;
            watches.lock().unwrap_or_else(PoisonError::into_inner).extend(watch);
            if let Some(typed @ (Outcome::Ok { .. } | Outcome::Failed { .. })) = &typed {
                ear.assert_heard(&request, typed);
            }
            // Whoever asked may have gone.
            let _ = sender.send(typed.unwrap_or(Outcome::Unknown));
        });
        outcome
    }

    /// The next event of a watch that has arrived, or that arrives within `patience`.
    pub async fn next_event(&mut self, patience: Duration) -> Option<(EventType, String)> {
        self.runtime.timeout(patience, self.events.recv()).await.ok().flatten()
    }

    /// Forgets the events that have arrived.
    pub fn skip_events(&mut self) {
        while self.events.try_recv().is_ok() {}
    }

    fn call(&self, request: &Request) -> BoxFuture<'static, Typed> {
        let client = &self.client;
        match request {
            Request::Create { .. } => {
                plain(client.create2(&node(request)), |made| Response::PathStat(made.path, made.stat))
            }
            Request::Delete { path, version } => {
                plain(client.delete(path, known(*version)), |()| Response::Nothing)
            }
            Request::SetData { path, data, version } => {
                plain(client.set_data(path, data.as_deref(), known(*version)), Response::Stat)
            }
            Request::SetAcl { path, acl, version } => {
                plain(client.set_acl(path, acl, known(*version)), Response::Stat)
            }
            Request::Multi(requests) => plain(client.multi(&multi(requests)), |results| {
                Response::Multi(results.into_iter().map(|result| Ok(of_multi(result))).collect())
            }),
            Request::Sync { path } => {
                let path = path.clone();
                plain(client.sync(&path), |()| Response::Path(path))
            }
            Request::CloseSession => plain(client.close(), |()| Response::Nothing),
            Request::Check { .. } => panic!("a check stands in a multi"),
            Request::Exists { .. }
            | Request::GetData { .. }
            | Request::GetChildren { .. }
            | Request::AddWatch { .. } => self.call_read(request),
        }
    }

    fn call_read(&self, request: &Request) -> BoxFuture<'static, Typed> {
        let client = &self.client;
        match request {
            Request::Exists { path, watch: false } => typed(client.exists(path), |stat| (found(stat), None)),
            Request::Exists { path, .. } => {
                typed(client.exists_watched(path), |(stat, watch)| (found(stat), Some(Kept::Once(watch))))
            }
            Request::GetData { path, watch: false } => {
                plain(client.get_data(path), |read| Response::Data(read.data, read.stat))
            }
            Request::GetData { path, .. } => typed(client.get_data_watched(path), |(read, watch)| {
                (Ok(Response::Data(read.data, read.stat)), Some(Kept::Once(watch)))
            }),
            Request::GetChildren { path, watch: false } => {
                plain(client.get_children2(path), |read| Response::Children(read.names, read.stat))
            }
            Request::GetChildren { path, .. } => typed(client.get_children_watched(path), |(read, watch)| {
                (Ok(Response::Children(read.names, read.stat)), Some(Kept::Once(watch)))
            }),
            Request::AddWatch { path, recursive } => {
                let mode =
                    if *recursive { AddWatchMode::PersistentRecursive } else { AddWatchMode::Persistent };
                typed(client.add_watch(path, mode), |watch| (Ok(Response::Nothing), Some(Kept::Stays(watch))))
            }
            other => panic!("{other:?} is no read"),
        }
    }
}

impl Drop for LibraryLink {
    fn drop(&mut self) {
        self.ear.end();
    }
}

/// Any version, or this one.
fn known(version: i32) -> Option<i32> {
    (version != -1).then_some(version)
}

fn node(request: &Request) -> NewNode<'_> {
    let Request::Create { path, data, acl, mode, ttl_ms } = request else {
        panic!("{request:?} is no create")
    };
    let mut node = NewNode::new(path, *mode).acl(acl.clone());
    if let Some(data) = data {
        node = node.data(data);
    }
    if let Some(ttl_ms) = ttl_ms {
        node = node.ttl_ms(*ttl_ms);
    }
    node
}

fn multi(requests: &[Request]) -> Multi<'_> {
    requests.iter().fold(Multi::new(), |multi, request| match request {
        Request::Create { .. } => multi.create(node(request)),
        Request::Delete { path, version } => multi.delete(path, known(*version)),
        Request::SetData { path, data, version } => multi.set_data(path, data.as_deref(), known(*version)),
        Request::Check { path, version } => multi.check(path, known(*version)),
        other => panic!("{other:?} does not stand in a multi"),
    })
}

fn of_multi(result: MultiResult) -> Response {
    match result {
        MultiResult::Created(made) => Response::PathStat(made.path, made.stat),
        MultiResult::DataSet(stat) => Response::Stat(stat),
        MultiResult::Deleted | MultiResult::Checked => Response::Nothing,
    }
}

/// To the library it is an answer that there is no such node.
fn found(stat: Option<sillon_protocol::zookeeper::Stat>) -> Result<Response, i32> {
    stat.map(Response::Stat).ok_or(ErrorCode::NoNode.number())
}

fn plain<T: Send + Unpin + 'static>(
    pending: Pending<T>,
    convert: impl FnOnce(T) -> Response + Send + 'static,
) -> BoxFuture<'static, Typed> {
    typed(pending, |value| (Ok(convert(value)), None))
}

fn typed<T: Send + Unpin + 'static>(
    pending: Pending<T>,
    convert: impl FnOnce(T) -> (Result<Response, i32>, Option<Kept>) + Send + 'static,
) -> BoxFuture<'static, Typed> {
    Box::pin(async move {
        let outcome = match pending.await {
            Ok(reply) => {
                let (response, watch) = convert(reply.value);
                let zxid = reply.zxid.0;
                let outcome = match response {
                    Ok(response) => Outcome::Ok { zxid, response },
                    Err(error) => Outcome::Failed { zxid, error },
                };
                return (Some(outcome), watch);
            }
            Err(ClientError::Server { code, zxid }) => {
                Some(Outcome::Failed { zxid: zxid.0, error: code.number() })
            }
            Err(ClientError::MultiFailed { codes, zxid, .. }) => {
                let response = Response::Multi(codes.into_iter().map(Err).collect());
                Some(Outcome::Ok { zxid: zxid.0, response })
            }
            Err(ClientError::ConnectionLoss) => Some(Outcome::Unknown),
            Err(error @ ClientError::Malformed { .. }) => panic!("{error}"),
            Err(_) => None,
        };
        (outcome, None)
    })
}
