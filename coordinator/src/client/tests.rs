//! The client over real sockets, against a server that does as much as the tests need: one tree, one-shot watches,
//! sessions that outlive their connections.

use super::*;
use crate::types::{SessionId, Zxid};
use sillon_protocol::zookeeper::{
    AddWatchMode, ConnectRequest, ConnectResponse, Create2Response, CreateMode, CreateRequest, ErrorCode,
    EventType, GetChildren2Response, GetDataResponse, Jute, PathVersionRequest, PathWatchRequest, Reader,
    ReplyHeader, RequestHeader, SetDataRequest, SetWatches2Request, Stat, StatResponse, WatcherEvent,
    WatcherType,
    multi::{MultiHeader, next_header},
    records::EVENT_XID,
};
use sillon_runtime::{BoxStream, tokio_backend};
use std::{collections::BTreeMap, future::Future};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the server knows.
#[derive(Default)]
struct Tree {
    nodes: BTreeMap<String, (Vec<u8>, Stat)>,
    watched: Vec<String>,
    sessions: i64,
    zxid: i64,
    /// After so many more requests the connection is dropped, the last one carried out but not answered.
    drop_after: Option<usize>,
    seen: Vec<OpCode>,
    set_again: Vec<String>,
    open: usize,
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Tree>>);

impl Server {
    fn tree(&self) -> std::sync::MutexGuard<'_, Tree> {
        self.0.lock().unwrap()
    }

    /// Listens, and serves whoever connects. Gives the port.
    async fn start(&self, runtime: &Runtime) -> u16 {
        let listener = runtime.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().port();
        let (server, spawner) = (self.clone(), runtime.clone());
        runtime.spawn("server", async move {
            while let Ok(stream) = listener.accept().await {
                spawner.spawn("connection", server.clone().serve(stream));
            }
        });
        port
    }

    async fn serve(self, mut stream: BoxStream) {
        let Some(frame) = read_frame(&mut stream).await else { return };
        let greeting = self.greet(&frame);
        write_frame(&mut stream, &greeting).await;
        self.tree().open += 1;
        self.serve_session(&mut stream).await;
        self.tree().open -= 1;
    }

    async fn serve_session(&self, stream: &mut BoxStream) {
        while let Some(frame) = read_frame(stream).await {
            let (answers, go_on) = self.answer(&frame);
            for answer in answers {
                write_frame(stream, &answer).await;
            }
            if !go_on {
                return;
            }
        }
    }

    fn greet(&self, frame: &[u8]) -> Vec<u8> {
        let request = ConnectRequest::read(&mut Reader::new(frame)).unwrap();
        let mut tree = self.tree();
        let known = request.session_id <= tree.sessions;
        let session_id = if request.session_id == 0 { tree.sessions + 1 } else { request.session_id };
        tree.sessions = tree.sessions.max(if known { session_id } else { 0 });
        let (timeout_ms, session_id) = if known { (request.timeout_ms, session_id) } else { (0, 0) };
        let password = Some(&[1; 16][..]);
        let mut greeting =
            ConnectResponse { protocol_version: 0, timeout_ms, session_id, password }.to_bytes();
        greeting.push(0);
        greeting
    }

    /// The events and the reply, and whether the connection stays.
    fn answer(&self, frame: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut reader = Reader::new(frame);
        let RequestHeader { xid, operation } = RequestHeader::read(&mut reader).unwrap();
        let operation = OpCode::from_number(operation).unwrap();
        let mut tree = self.tree();
        tree.seen.push(operation);
        let (result, mut answers) = tree.carry_out(operation, &mut reader);
        if let Some(left) = &mut tree.drop_after {
            *left -= 1;
            if *left == 0 {
                tree.drop_after = None;
                return (Vec::new(), false);
            }
        }
        let (error, body) = match result {
            Ok(body) => (0, body),
            Err(code) => (code.number(), Vec::new()),
        };
        let mut reply = ReplyHeader { xid, zxid: tree.zxid, error }.to_bytes();
        reply.extend(body);
        answers.push(reply);
        (answers, operation != OpCode::CloseSession)
    }
}

impl Tree {
    fn carry_out(
        &mut self,
        operation: OpCode,
        reader: &mut Reader<'_>,
    ) -> (Result<Vec<u8>, ErrorCode>, Vec<Vec<u8>>) {
        let mut events = Vec::new();
        let result = match operation {
            OpCode::Create | OpCode::Create2 => {
                let CreateRequest { path, data, .. } = CreateRequest::read(reader).unwrap();
                self.create(path, data).inspect(|_| self.fire(EventType::NodeCreated, path, &mut events))
            }
            OpCode::SetData => {
                let SetDataRequest { path, data, version } = SetDataRequest::read(reader).unwrap();
                self.check(path, version).map(|()| {
                    self.zxid += 1;
                    self.fire(EventType::NodeDataChanged, path, &mut events);
                    let (old, stat) = self.nodes.get_mut(path).unwrap();
                    *old = data.unwrap_or_default().to_vec();
                    stat.version += 1;
                    StatResponse { stat: *stat }.to_bytes()
                })
            }
            OpCode::GetData | OpCode::Exists | OpCode::GetChildren2 => {
                let PathWatchRequest { path, watch } = PathWatchRequest::read(reader).unwrap();
                if watch {
                    self.watched.push(path.to_owned());
                }
                self.read(operation, path)
            }
            OpCode::Multi => Ok(self.multi(reader)),
            OpCode::SetWatches2 => {
                let request = SetWatches2Request::read(reader).unwrap();
                for path in request.data_watches.iter().chain(&request.exist_watches) {
                    self.set_again.push((*path).to_owned());
                    self.watched.push((*path).to_owned());
                }
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        };
        (result, events)
    }

    fn create(&mut self, path: &str, data: Option<&[u8]>) -> Result<Vec<u8>, ErrorCode> {
        if self.nodes.contains_key(path) {
            return Err(ErrorCode::NodeExists);
        }
        self.zxid += 1;
        let stat = Stat { czxid: self.zxid, ..Stat::default() };
        self.nodes.insert(path.to_owned(), (data.unwrap_or_default().to_vec(), stat));
        Ok(Create2Response { path, stat }.to_bytes())
    }

    fn check(&self, path: &str, version: i32) -> Result<(), ErrorCode> {
        let (_, stat) = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        if version == -1 || version == stat.version { Ok(()) } else { Err(ErrorCode::BadVersion) }
    }

    fn read(&self, operation: OpCode, path: &str) -> Result<Vec<u8>, ErrorCode> {
        let (data, stat) = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        let stat = *stat;
        Ok(match operation {
            OpCode::GetData => GetDataResponse { data: Some(data), stat }.to_bytes(),
            OpCode::Exists => StatResponse { stat }.to_bytes(),
            _ => {
                let prefix = format!("{path}/");
                let children = self.nodes.keys().filter_map(|name| name.strip_prefix(&prefix)).collect();
                GetChildren2Response { children, stat }.to_bytes()
            }
        })
    }

    /// A multi of checks and creations: the first check that fails ends it.
    fn multi(&mut self, reader: &mut Reader<'_>) -> Vec<u8> {
        let mut results: Vec<(OpCode, Result<Vec<u8>, ErrorCode>)> = Vec::new();
        while let Some(header) = next_header(reader).unwrap() {
            let operation = OpCode::from_number(header.operation).unwrap();
            let result = if operation == OpCode::Check {
                let PathVersionRequest { path, version } = PathVersionRequest::read(reader).unwrap();
                self.check(path, version).map(|()| Vec::new())
            } else {
                let CreateRequest { path, data, .. } = CreateRequest::read(reader).unwrap();
                self.create(path, data)
            };
            results.push((operation, result));
        }
        let failure = results.iter().position(|(_, result)| result.is_err());
        let mut out = Vec::new();
        for (index, (operation, result)) in results.into_iter().enumerate() {
            let error = match (failure, &result) {
                (None, Ok(body)) => {
                    MultiHeader::succeeded(operation.number()).write(&mut out);
                    out.extend_from_slice(body);
                    continue;
                }
                (_, Err(code)) => code.number(),
                (Some(failure), Ok(_)) if index < failure => 0,
                (Some(_), Ok(_)) => -2,
            };
            MultiHeader::failed(error).write(&mut out);
            error.write(&mut out);
        }
        MultiHeader::END.write(&mut out);
        out
    }

    fn fire(&mut self, event_type: EventType, path: &str, events: &mut Vec<Vec<u8>>) {
        let before = self.watched.len();
        self.watched.retain(|watched| watched != path);
        if self.watched.len() < before {
            let mut event = ReplyHeader { xid: EVENT_XID, zxid: -1, error: 0 }.to_bytes();
            WatcherEvent { event_type: event_type.number(), state: 3, path }.write(&mut event);
            events.push(event);
        }
    }
}

async fn read_frame(stream: &mut BoxStream) -> Option<Vec<u8>> {
    let length = stream.read_i32().await.ok()?;
    let mut frame = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut frame).await.ok()?;
    Some(frame)
}

async fn write_frame(stream: &mut BoxStream, frame: &[u8]) {
    let mut bytes = i32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(frame);
    // A client that has gone is the test's business.
    let _ = stream.write_all(&bytes).await;
}

fn run<F: Future<Output = ()>>(test: impl FnOnce(Runtime, Server, Client) -> F) {
    run_with(|_config| {}, test);
}

fn run_with<F: Future<Output = ()>>(
    configure: impl FnOnce(&mut ClientConfig),
    test: impl FnOnce(Runtime, Server, Client) -> F,
) {
    tokio_backend::block_on(Some(2), |runtime| async move {
        let server = Server::default();
        let port = server.start(&runtime).await;
        let mut config = ClientConfig::new(&format!("127.0.0.1:{port}/root"), 5000).unwrap();
        configure(&mut config);
        let client = Client::connect(&runtime, config);
        runtime
            .timeout(Duration::from_secs(20), test(runtime.clone(), server, client))
            .await
            .expect("in time");
    })
    .unwrap();
}

#[test]
fn nodes_are_created_read_and_written_below_the_chroot() {
    run(|_runtime, server, client| async move {
        let created = client.create2(&NewNode::ephemeral("/a").data(b"x")).await.unwrap();
        assert_eq!((created.zxid, created.value.path.as_str(), created.value.stat.czxid), (Zxid(1), "/a", 1));
        assert_eq!(client.create(&NewNode::persistent("/a/b")).await.unwrap().value, "/a/b");
        assert_eq!(client.get_data("/a").await.unwrap().value.data, Some(b"x".to_vec()));
        assert_eq!(client.set_data("/a", Some(b"y"), Some(0)).await.unwrap().value.version, 1);
        assert_eq!(client.get_children2("/a").await.unwrap().value.names, ["b"]);
        assert_eq!(client.exists("/none").await.unwrap(), Reply { zxid: Zxid(3), value: None });
        let error = client.set_data("/a", None, Some(0)).await.unwrap_err();
        assert_eq!((error.code(), error.outcome_is_unknown()), (Some(ErrorCode::BadVersion), false));
        assert!(matches!(client.get_data("a").await, Err(ClientError::BadPath { .. })));
        assert!(server.tree().nodes.contains_key("/root/a/b"));
    });
}

#[test]
fn many_requests_are_on_their_way_at_once_and_answered_in_order() {
    run(|_runtime, _server, client| async move {
        let paths: Vec<String> = (0..2000).map(|number| format!("/{number}")).collect();
        let pending: Vec<_> = paths.iter().map(|path| client.create(&NewNode::persistent(path))).collect();
        for (number, (pending, path)) in pending.into_iter().zip(&paths).enumerate() {
            let reply = pending.await.unwrap();
            assert_eq!((&reply.value, reply.zxid), (path, Zxid(number as i64 + 1)));
        }
    });
}

#[test]
fn a_watch_fires_once_and_survives_a_lost_connection() {
    run(|_runtime, server, client| async move {
        let (stat, mut watch) = client.exists_watched("/a").await.unwrap().value;
        assert_eq!(stat, None);
        let mut events = client.session_events();
        assert!(matches!(events.next().await, Some(SessionEvent::Connected { resumed: false, .. })));
        server.tree().drop_after = Some(1);
        let lost = client.create(&NewNode::persistent("/b")).await.unwrap_err();
        assert!(lost.outcome_is_unknown(), "{lost}");
        assert!(server.tree().nodes.contains_key("/root/b"), "it did happen, but once");
        assert!(matches!(events.next().await, Some(SessionEvent::Disconnected(Loss::Closed))));
        assert!(matches!(events.next().await, Some(SessionEvent::Connected { resumed: true, .. })));
        client.create(&NewNode::persistent("/a")).await.unwrap();
        let event = watch.changed().await.unwrap();
        assert_eq!(event, WatchedEvent { event_type: EventType::NodeCreated, path: "/a".into() });
        assert_eq!(watch.changed().await, Err(WatchEnded::Fired));
        let tree = server.tree();
        assert_eq!(tree.set_again, ["/root/a"]);
        assert_eq!(tree.seen.iter().filter(|operation| **operation == OpCode::Create).count(), 2);
    });
}

#[test]
fn a_multi_gives_one_result_for_each_operation_or_the_failure() {
    run(|_runtime, _server, client| async move {
        client.create(&NewNode::persistent("/epoch")).await.unwrap();
        let node = NewNode::new("/a", CreateMode::Persistent);
        let multi = Multi::new().check("/epoch", Some(0)).create(node.clone());
        let results = client.multi(&multi).await.unwrap();
        assert_eq!(results.value[0], MultiResult::Checked);
        assert!(matches!(&results.value[1], MultiResult::Created(created) if created.path == "/a"));
        let multi =
            Multi::new().check("/epoch", None).check("/epoch", Some(7)).create(NewNode::persistent("/c"));
        let error = client.multi(&multi).await.unwrap_err();
        let codes = vec![0, ErrorCode::BadVersion.number(), -2];
        assert_eq!(
            error,
            ClientError::MultiFailed { index: 1, code: ErrorCode::BadVersion, codes, zxid: Zxid(3) }
        );
        assert_eq!(client.multi(&Multi::new()).await.unwrap().value, []);
    });
}

#[test]
fn persistent_watches_tell_each_event_until_they_are_removed() {
    run(|_runtime, server, client| async move {
        let mut watch = client.add_watch("/a", AddWatchMode::Persistent).await.unwrap().value;
        for round in 0..2 {
            server.tree().watched.push("/root/a".into());
            match round {
                0 => drop(client.create(&NewNode::persistent("/a")).await.unwrap()),
                _ => drop(client.set_data("/a", None, None).await.unwrap()),
            }
            assert!(matches!(watch.next().await, Ok(Notice::Changed(event)) if event.path == "/a"));
        }
        client.remove_watches("/a", WatcherType::Any).await.unwrap();
        assert_eq!(watch.next().await, Err(WatchEnded::Removed));
    });
}

#[test]
fn closing_ends_the_session_and_the_watches() {
    run(|_runtime, server, client| async move {
        let (_, mut watch) = client.exists_watched("/a").await.unwrap().value;
        let before = client.create(&NewNode::persistent("/b"));
        client.close().await.unwrap();
        assert!(before.await.is_ok());
        assert_eq!(watch.changed().await, Err(WatchEnded::Closed));
        assert_eq!(client.sync("/").await, Err(ClientError::Closed));
        assert_eq!(client.wait_connected().await, Err(ClientError::Closed));
        assert_eq!(server.tree().seen.last(), Some(&OpCode::CloseSession));
    });
}

#[test]
fn an_expired_session_is_reported() {
    let credentials = SessionCredentials { id: SessionId(99), password: vec![1; 16] };
    let configure = |config: &mut ClientConfig| config.credentials = Some(credentials);
    run_with(configure, |_runtime, _server, client| async move {
        let pending = client.sync("/");
        assert_eq!(client.wait_connected().await, Err(ClientError::SessionExpired));
        assert_eq!(pending.await, Err(ClientError::SessionExpired));
    });
}

#[test]
fn a_client_that_everybody_dropped_closes_its_connection() {
    run(|runtime, server, client| async move {
        let (_, mut watch) = client.exists_watched("/a").await.unwrap().value;
        let credentials = client.credentials().expect("there is a session");
        assert_eq!(credentials.id, SessionId(1));
        drop(client);
        assert_eq!(watch.changed().await, Err(WatchEnded::Closed));
        while server.tree().open > 0 {
            runtime.sleep(Duration::from_millis(1)).await;
        }
    });
}

/// Writes down the order of what it is told.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl ClientObserver for Diary {
    fn observe(&self, fact: ClientFact<'_>) {
        let line = match fact {
            ClientFact::Connecting { .. } => "connecting".to_owned(),
            ClientFact::Lost { in_flight, .. } => format!("lost with {in_flight}"),
            ClientFact::Session(SessionEvent::Connected { session, .. }) => format!("session {session}"),
            ClientFact::Session(event) => format!("{event:?}"),
            ClientFact::RequestSent { xid, operation, .. } => format!("sent {xid}: {operation}"),
            ClientFact::ReplyReceived { xid, zxid, error, .. } => format!("reply {xid}: {zxid} {error:?}"),
            ClientFact::EventReceived { event_type, path, .. } => format!("event {event_type:?} {path}"),
        };
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn an_observer_is_told_everything_in_order() {
    let diary = Arc::new(Diary::default());
    let observer = diary.clone();
    run_with(
        |config| config.observer = Some(observer),
        |_runtime, _server, client| async move {
            let (_, _watch) = client.exists_watched("/a").await.unwrap().value;
            client.create(&NewNode::persistent("/a")).await.unwrap();
            client.close().await.unwrap();
        },
    );
    let lines = diary.0.lock().unwrap().clone();
    assert_eq!(
        lines,
        [
            "connecting",
            "session 0x1",
            "sent 1: 3",
            "reply 1: 0 Some(NoNode)",
            "sent 2: 1",
            "event NodeCreated /root/a",
            "reply 2: 1 None",
            "sent 3: -11",
            "reply 3: 1 None",
            "Closed",
        ]
    );
}

#[test]
fn paths_go_through_the_chroot_both_ways() {
    assert_eq!(to_server("", "/").unwrap(), "/");
    assert_eq!(to_server("/r", "/").unwrap(), "/r");
    assert_eq!(to_server("/r", "/a").unwrap(), "/r/a");
    assert_eq!(to_client("/r", "/r"), "/");
    assert_eq!(to_client("/r", "/r/a"), "/a");
    assert_eq!(to_client("", "/a"), "/a");
    assert_eq!(to_client("/r", "/rs/a"), "/rs/a");
    assert!(is_below("/r", "/r/a") && is_below("/r", "/r") && is_below("", "/a") && !is_below("/r", "/rs"));
}
