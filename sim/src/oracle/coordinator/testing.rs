//! A run as a short story, for the tests of the invariants: three members, the first of which leads, and clients. All go
//! well unless a test says otherwise: what is told is what the rules give.

use super::{
    ClientId, Conditions, CoordinatorContract, CoordinatorEvent, CoordinatorOracle, OperationId, Outcome,
    Request, Response,
    model::{Done, Effect, Model, Outcome as ModelOutcome},
};
use crate::oracle::{Invariant, Stop};
use sillon_coordinator::{
    command::{Action, Command},
    observe::{Digest, Observation, Promise, Role},
    types::{ConnectionKey, MemberId, SessionId, Term, Zxid},
};
use sillon_protocol::zookeeper::{
    CreateMode, CreateRequest, CreateTtlRequest, ErrorCode, EventType, Jute, OpCode, PathVersionRequest,
    SetAclRequest, SetDataRequest, multi::MultiHeader, records::open_acl,
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub const NODES: [u32; 3] = [1, 2, 3];
pub const SECOND: u64 = 1_000_000_000;
pub const TIMEOUT_MS: i32 = 6_000;

/// What the members' world is like.
pub struct TestWorld {
    pub connected: Mutex<Vec<u32>>,
    pub sound: AtomicBool,
}

impl Conditions for TestWorld {
    fn connected_to_leader(&self, node: u32) -> bool {
        self.connected.lock().unwrap().contains(&node)
    }

    fn majority_is_sound(&self) -> bool {
        self.sound.load(Ordering::Relaxed)
    }
}

/// A client as a test knows it.
#[derive(Clone, Copy, Default)]
struct TestClient {
    session: i64,
    connection: u64,
    xid: i32,
}

pub struct Run {
    pub oracle: Arc<CoordinatorOracle>,
    pub world: Arc<TestWorld>,
    now_ns: Arc<AtomicU64>,
    pub term: Cell<u64>,
    pub zxid: Cell<i64>,
    operations: Cell<u64>,
    connections: Cell<u64>,
    pub model: RefCell<Model>,
    clients: RefCell<BTreeMap<u32, TestClient>>,
    /// The error that the next command is told to give, where it is not the right one.
    pub wrong_error: Cell<Option<i32>>,
}

pub fn digest(zxid: i64) -> Digest {
    Digest { tree: zxid as u64, sessions: zxid as u64 + 7 }
}

pub fn create(path: &str) -> Request {
    create_mode(path, CreateMode::Persistent)
}

pub fn create_mode(path: &str, mode: CreateMode) -> Request {
    Request::Create { path: path.into(), data: Some(b"x".to_vec()), acl: open_acl(), mode, ttl_ms: None }
}

pub fn set(path: &str, data: &str) -> Request {
    Request::SetData { path: path.into(), data: Some(data.as_bytes().to_vec()), version: -1 }
}

pub fn delete(path: &str) -> Request {
    Request::Delete { path: path.into(), version: -1 }
}

pub fn get(path: &str) -> Request {
    Request::GetData { path: path.into(), watch: false }
}

pub fn watch(path: &str) -> Request {
    Request::GetData { path: path.into(), watch: true }
}

pub fn sync() -> Request {
    Request::Sync { path: "/".into() }
}

/// A request as it goes over the wire.
fn encode(request: &Request) -> (OpCode, Vec<u8>) {
    match request {
        Request::Create { path, data, acl, mode, ttl_ms } => {
            let (data, acl, flags) = (data.as_deref(), acl.clone(), mode.number());
            match ttl_ms {
                Some(ttl_ms) => {
                    let request = CreateTtlRequest { path, data, acl, flags, ttl_ms: *ttl_ms };
                    (OpCode::CreateTtl, request.to_bytes())
                }
                None => (OpCode::Create2, CreateRequest { path, data, acl, flags }.to_bytes()),
            }
        }
        Request::Delete { path, version } => {
            (OpCode::Delete, PathVersionRequest { path, version: *version }.to_bytes())
        }
        Request::Check { path, version } => {
            (OpCode::Check, PathVersionRequest { path, version: *version }.to_bytes())
        }
        Request::SetData { path, data, version } => {
            let request = SetDataRequest { path, data: data.as_deref(), version: *version };
            (OpCode::SetData, request.to_bytes())
        }
        Request::SetAcl { path, acl, version } => {
            let request = SetAclRequest { path, acl: acl.clone(), version: *version };
            (OpCode::SetAcl, request.to_bytes())
        }
        Request::Multi(parts) => {
            let mut body = Vec::new();
            for part in parts {
                let (code, bytes) = encode(part);
                MultiHeader::of(code.number()).write(&mut body);
                body.extend_from_slice(&bytes);
            }
            MultiHeader::END.write(&mut body);
            (OpCode::Multi, body)
        }
        other => panic!("{other:?} is no write"),
    }
}

fn response(done: &Done) -> Response {
    match done {
        Done::Created(path, stat) => Response::PathStat(path.clone(), *stat),
        Done::Written(stat) => Response::Stat(*stat),
        Done::Nothing => Response::Nothing,
    }
}

impl Run {
    /// Three members run, and the first leads term 1.
    pub fn new() -> Run {
        Run::with(CoordinatorContract::default())
    }

    pub fn with(contract: CoordinatorContract) -> Run {
        let run = Run::without_members(contract);
        for node in NODES {
            run.start(node, (0, None), (1, 0));
        }
        run.elect(1, 1);
        run
    }

    pub fn without_members(contract: CoordinatorContract) -> Run {
        let now_ns = Arc::new(AtomicU64::new(0));
        let clock = now_ns.clone();
        let world =
            Arc::new(TestWorld { connected: Mutex::new(NODES.to_vec()), sound: AtomicBool::new(true) });
        let ttl_nodes = contract.ttl_nodes;
        Run {
            oracle: CoordinatorOracle::new(
                Arc::new(move || clock.load(Ordering::Relaxed)),
                world.clone(),
                contract,
            ),
            world,
            now_ns,
            term: Cell::new(0),
            zxid: Cell::new(0),
            operations: Cell::new(0),
            connections: Cell::new(0),
            model: RefCell::new(Model::new(ttl_nodes)),
            clients: RefCell::default(),
            wrong_error: Cell::new(None),
        }
    }

    /// Nothing is wrong, and these were looked at.
    pub fn assert_legal(&self, evaluated: &[Invariant]) {
        self.oracle.finish();
        assert_eq!(self.oracle.violations(), []);
        let evaluations = self.oracle.evaluations();
        for invariant in evaluated {
            assert!(evaluations[invariant] > 0, "{invariant} was never evaluated");
        }
    }

    /// This is wrong, and nothing else.
    pub fn assert_violated(&self, invariant: Invariant) {
        self.oracle.finish();
        let violations = self.oracle.violations();
        assert!(!violations.is_empty(), "nothing is found wrong");
        assert!(violations.iter().all(|violation| violation.invariant == invariant), "{violations:#?}");
    }

    pub fn later(&self, by_ns: u64) {
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed);
    }

    pub fn tell(&self, node: u32, observation: Observation<'_>) {
        self.oracle.member_observation(node, &observation);
    }

    // ---- the members

    /// A member starts with this term, vote, and log: first and last index behind no snapshot.
    pub fn start(&self, node: u32, hard: (u64, Option<u64>), log: (u64, u64)) {
        self.start_from(node, hard, log, 0);
    }

    pub fn start_from(&self, node: u32, hard: (u64, Option<u64>), log: (u64, u64), snapshot: i64) {
        self.oracle.node_starting(node);
        self.tell(
            node,
            Observation::Started {
                member: MemberId(node.into()),
                term: Term(hard.0),
                vote: hard.1.map(MemberId),
                first_index: log.0,
                last_index: log.1,
                snapshot: Zxid(snapshot),
                digest: digest(snapshot),
            },
        );
    }

    pub fn stop(&self, node: u32, stop: Stop) {
        self.oracle.node_stopped(node, stop);
    }

    /// Everybody votes for a member, and it leads.
    pub fn elect(&self, node: u32, term: u64) {
        self.term.set(term);
        for voter in NODES {
            self.durable(voter, &[]);
            self.vote_durably(voter, node.into());
        }
        for voter in NODES.into_iter().filter(|voter| *voter != node) {
            self.promise(voter, node, Promise::Vote);
        }
        self.lead(node);
        for follower in NODES.into_iter().filter(|follower| *follower != node) {
            self.role(follower, Role::Follower, Some(node));
        }
    }

    pub fn lead(&self, node: u32) {
        self.role(node, Role::Leader, Some(node));
    }

    pub fn role(&self, node: u32, role: Role, leader: Option<u32>) {
        let leader = leader.map(|leader| MemberId(leader.into()));
        self.tell(node, Observation::RoleChanged { role, term: Term(self.term.get()), leader });
    }

    pub fn vote_durably(&self, node: u32, vote: u64) {
        let (term, vote) = (Term(self.term.get()), Some(MemberId(vote)));
        self.tell(node, Observation::Durable { term, vote, entries: &[] });
    }

    pub fn durable(&self, node: u32, entries: &[(u64, u64)]) {
        self.tell(node, Observation::Durable { term: Term(self.term.get()), vote: None, entries });
    }

    pub fn promise(&self, node: u32, to: u32, promise: Promise) {
        let (to, term) = (MemberId(to.into()), Term(self.term.get()));
        self.tell(node, Observation::Promised { to, term, promise });
    }

    pub fn apply(&self, node: u32, zxid: i64, command: Option<&Command>, error: i32) {
        let term = Term(self.term.get());
        self.tell(
            node,
            Observation::Applied {
                zxid: Zxid(zxid),
                term,
                command,
                error,
                changed: error == 0,
                digest: digest(zxid),
            },
        );
    }

    pub fn command(&self, action: Action) -> Command {
        Command { origin: None, time_ms: 1_000 + self.zxid.get(), action }
    }

    /// Every member gets an entry, and nobody applies it yet. Its index.
    pub fn replicate(&self) -> i64 {
        let zxid = self.zxid.get() + 1;
        self.zxid.set(zxid);
        for node in NODES {
            self.durable(node, &[(zxid as u64, self.term.get())]);
            self.promise(node, 1, Promise::Holds { index: zxid as u64 });
        }
        zxid
    }

    /// Every member gets and applies a command.
    pub fn commit(&self, action: Action) -> Effect {
        let command = self.command(action);
        let zxid = self.replicate();
        let effect = self.model.borrow_mut().apply(zxid, &command);
        let error = match &effect {
            Effect::Write { outcome, .. } => outcome.error(),
            Effect::Refused { .. } => ErrorCode::SystemError.number(),
            _ => 0,
        };
        let error = self.wrong_error.take().unwrap_or(error);
        for node in NODES {
            self.apply(node, zxid, Some(&command), error);
        }
        effect
    }

    /// Every member gets and applies the entry with which a term begins.
    pub fn begin_term(&self) {
        let zxid = self.replicate();
        self.model.borrow_mut().skip(zxid);
        NODES.into_iter().for_each(|node| self.apply(node, zxid, None, 0));
    }

    pub fn heard(&self, node: u32, session: i64) {
        let (session, connection) = (SessionId(session), ConnectionKey::default());
        self.tell(node, Observation::SessionHeard { session, connection });
    }

    pub fn found_silent(&self, leader: u32, session: i64) {
        let session = SessionId(session);
        self.tell(leader, Observation::SessionFoundSilent { session, timeout_ms: TIMEOUT_MS });
    }

    pub fn expire(&self, session: i64) -> Effect {
        self.commit(Action::ExpireSession { session: SessionId(session) })
    }

    // ---- the clients

    pub fn event(&self, event: CoordinatorEvent) {
        self.oracle.client_event(event);
    }

    /// A session begins in the log.
    pub fn open(&self, session: i64) {
        let (password, connection) = ([1; 16], ConnectionKey::default());
        self.commit(Action::OpenSession {
            session: SessionId(session),
            password,
            timeout_ms: TIMEOUT_MS,
            connection,
        });
    }

    /// A client with a new session. Client and session have the same number.
    pub fn join(&self, client: u32) {
        self.open(client.into());
        self.connected(client, client.into());
    }

    pub fn connected(&self, client: u32, session: i64) {
        self.connections.set(self.connections.get() + 1);
        let connection = self.connections.get();
        self.clients.borrow_mut().insert(client, TestClient { session, connection, xid: 0 });
        let (client, member, timeout_ms) = (ClientId(client), 1, TIMEOUT_MS);
        self.event(CoordinatorEvent::Connected { client, session, connection, member, timeout_ms });
    }

    fn of(&self, client: u32) -> TestClient {
        self.clients.borrow()[&client]
    }

    pub fn disconnected(&self, client: u32) {
        let connection = self.of(client).connection;
        self.event(CoordinatorEvent::Disconnected { client: ClientId(client), connection });
    }

    pub fn sent(&self, client: u32, xid: i32) {
        let connection = self.of(client).connection;
        self.event(CoordinatorEvent::Sent { client: ClientId(client), connection, xid });
    }

    pub fn replied(&self, client: u32, xid: i32, zxid: i64) {
        let connection = self.of(client).connection;
        let (client, error) = (ClientId(client), 0);
        self.event(CoordinatorEvent::Replied { client, connection, xid, zxid, error });
    }

    /// A ping is answered.
    pub fn pinged(&self, client: u32, zxid: i64) {
        self.replied(client, -2, zxid);
    }

    pub fn fired(&self, client: u32, event: EventType, path: &str) {
        let TestClient { session, connection, .. } = self.of(client);
        self.event(CoordinatorEvent::WatchEvent {
            client: ClientId(client),
            session,
            connection,
            zxid_before: 0,
            event: (event, path.to_owned()),
        });
    }

    pub fn invoke(&self, client: u32, request: &Request) -> (u32, OperationId) {
        self.operations.set(self.operations.get() + 1);
        let operation = OperationId(self.operations.get());
        let (session, request) = (self.of(client).session, request.clone());
        self.event(CoordinatorEvent::Invoked { client: ClientId(client), operation, session, request });
        (client, operation)
    }

    /// A request that was invoked is answered, by a reply of its own on the wire.
    pub fn complete(&self, (client, operation): (u32, OperationId), outcome: Outcome) {
        if let Outcome::Ok { zxid, .. } | Outcome::Failed { zxid, .. } = &outcome {
            let xid = {
                let mut clients = self.clients.borrow_mut();
                let known = clients.get_mut(&client).expect("it has joined");
                known.xid += 1;
                known.xid
            };
            self.sent(client, xid);
            self.replied(client, xid, *zxid);
        }
        self.event(CoordinatorEvent::Completed { client: ClientId(client), operation, outcome });
    }

    /// A write goes through the log. What is to be told of it.
    pub fn log(&self, client: u32, request: &Request) -> Outcome {
        let (code, body) = encode(request);
        let effect = self.commit(Action::Write {
            session: SessionId(self.of(client).session),
            connection: ConnectionKey::default(),
            identities: vec![("world".into(), "anyone".into())],
            operation: code.number(),
            body: body.into(),
        });
        let Effect::Write { outcome, .. } = effect else { panic!("a write comes to {effect:?}") };
        let zxid = self.zxid.get();
        let response = match outcome {
            ModelOutcome::Single(Ok(done)) => response(&done),
            ModelOutcome::All(all) => Response::Multi(all.iter().map(|done| Ok(response(done))).collect()),
            ModelOutcome::None(errors) => Response::Multi(errors.into_iter().map(Err).collect()),
            ModelOutcome::Single(Err(error)) | ModelOutcome::Refused(error) => {
                return Outcome::Failed { zxid, error };
            }
        };
        Outcome::Ok { zxid, response }
    }

    /// A write from its request to its reply.
    pub fn write(&self, client: u32, request: &Request) -> Outcome {
        let invoked = self.invoke(client, request);
        let outcome = self.log(client, request);
        self.complete(invoked, outcome.clone());
        outcome
    }

    /// What a read shows at a transaction.
    pub fn shown(&self, request: &Request, zxid: i64) -> Outcome {
        let model = self.model.borrow();
        let path = request.path().expect("a read has a path");
        let Some(node) = model.tree.get_at(path, zxid) else {
            return Outcome::Failed { zxid, error: ErrorCode::NoNode.number() };
        };
        let response = match request {
            Request::GetData { .. } => Response::Data(node.data.as_deref().map(<[u8]>::to_vec), node.stat()),
            Request::Exists { .. } => Response::Stat(node.stat()),
            Request::GetChildren { .. } => {
                let names = model.tree.children_at(path, zxid);
                Response::Children(names.iter().map(|name| name.to_string()).collect(), node.stat())
            }
            other => panic!("{other:?} is no read"),
        };
        Outcome::Ok { zxid, response }
    }

    /// A read of the newest state.
    pub fn read(&self, client: u32, request: &Request) -> Outcome {
        self.read_at(client, request, self.zxid.get())
    }

    pub fn read_at(&self, client: u32, request: &Request, zxid: i64) -> Outcome {
        let invoked = self.invoke(client, request);
        let outcome = self.shown(request, zxid);
        self.complete(invoked, outcome.clone());
        outcome
    }

    pub fn synced(&self, client: u32, zxid: i64) {
        let invoked = self.invoke(client, &sync());
        self.complete(invoked, Outcome::Ok { zxid, response: Response::Path("/".into()) });
    }
}
