//! What the oracle is told of a coordinator ensemble besides the members' own facts: what its clients did and saw.
//! Owns the types, decides nothing.
//!
//! Events are told in the true order of simulated time.

use sillon_protocol::zookeeper::{Acl, CreateMode, EventType, Stat};

/// A client of the workload. It has at most one session at a time and at most one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u32);

/// A request, by a number that no other in the run has. One client's numbers rise in the order of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// What a client did or saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// A request is about to be sent.
    Invoked {
        /// Who asks.
        client: ClientId,
        /// Its number.
        operation: OperationId,
        /// In which session.
        session: i64,
        /// What is asked.
        request: Request,
    },
    /// What came of a request.
    Completed {
        /// Who asked.
        client: ClientId,
        /// Its number.
        operation: OperationId,
        /// What came of it.
        outcome: Outcome,
    },
    /// A watch fired.
    WatchEvent {
        /// Whose.
        client: ClientId,
        /// In which session.
        session: i64,
        /// On which connection.
        connection: u64,
        /// The latest transaction that a reply on this connection had named before.
        zxid_before: i64,
        /// What happened, and to which node.
        event: (EventType, String),
    },
    /// A connection has a session, a new one or the one that the client asked for.
    Connected {
        /// Whose.
        client: ClientId,
        /// The session.
        session: i64,
        /// The connection. No other in the run has this number.
        connection: u64,
        /// The member that serves it, by its `myid`.
        member: u32,
        /// The session's timeout as it was negotiated.
        timeout_ms: i32,
    },
    /// The client asked for its session, and was told that it has gone: a timeout of 0.
    Refused {
        /// Whose.
        client: ClientId,
        /// The session.
        session: i64,
    },
    /// A connection has ended, for whatever reason.
    Disconnected {
        /// Whose.
        client: ClientId,
        /// The connection.
        connection: u64,
    },
    /// The client has no use for its session any more: it was told that it is closed, or it leaves it to expire. To be
    /// told before the same client connects with another session.
    SessionClosed {
        /// Whose.
        client: ClientId,
        /// The session.
        session: i64,
    },
    /// A frame left on a connection.
    Sent {
        /// Whose.
        client: ClientId,
        /// The connection.
        connection: u64,
        /// Its number; negative for pings and the like.
        xid: i32,
    },
    /// A reply arrived on a connection. Events of watches are told apart.
    Replied {
        /// Whose.
        client: ClientId,
        /// The connection.
        connection: u64,
        /// The number of the frame that it answers.
        xid: i32,
        /// The transaction in its header.
        zxid: i64,
        /// The error in its header.
        error: i32,
    },
}

/// What came of a request, three-valued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Ok {
        /// The transaction in the reply's header.
        zxid: i64,
        /// The reply's body.
        response: Response,
    },
    /// The server says that it was not done.
    Failed {
        /// The transaction in the reply's header.
        zxid: i64,
        /// The error in the reply's header.
        error: i32,
    },
    /// Nobody knows: the connection was lost, or the session expired, before a reply came.
    Unknown,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// create, create2, createContainer or createTTL.
    Create {
        /// The node, without its number where one is added.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// Its access list.
        acl: Vec<Acl>,
        /// What kind of node.
        mode: CreateMode,
        /// Its time to live, for kinds that have one.
        ttl_ms: Option<i64>,
    },
    /// delete.
    Delete {
        /// The node.
        path: String,
        /// The version that it must have, or -1.
        version: i32,
    },
    /// setData.
    SetData {
        /// The node.
        path: String,
        /// Its new data.
        data: Option<Vec<u8>>,
        /// The version that it must have, or -1.
        version: i32,
    },
    /// setACL.
    SetAcl {
        /// The node.
        path: String,
        /// Its new access list.
        acl: Vec<Acl>,
        /// The version that its access list must have, or -1.
        version: i32,
    },
    /// multi, of writes and checks.
    Multi(Vec<Request>),
    /// check.
    Check {
        /// The node.
        path: String,
        /// The version that it must have, or -1.
        version: i32,
    },
    /// exists.
    Exists {
        /// The node.
        path: String,
        /// Whether a watch is set.
        watch: bool,
    },
    /// getData.
    GetData {
        /// The node.
        path: String,
        /// Whether a watch is set.
        watch: bool,
    },
    /// getChildren2.
    GetChildren {
        /// The node.
        path: String,
        /// Whether a watch is set.
        watch: bool,
    },
    /// sync.
    Sync {
        /// The node that it names.
        path: String,
    },
    /// addWatch.
    AddWatch {
        /// The node.
        path: String,
        /// Whether everything below it is watched too.
        recursive: bool,
    },
    /// closeSession.
    CloseSession,
}

/// The body of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Of create and sync: the node.
    Path(String),
    /// Of create2, createContainer and createTTL.
    PathStat(String, Stat),
    /// Of exists, setData and setACL.
    Stat(Stat),
    /// Of getData.
    Data(Option<Vec<u8>>, Stat),
    /// Of getChildren2: names in any order.
    Children(Vec<String>, Stat),
    /// Of multi: what came of each operation. In a failed one, 0 for each operation before the one that failed.
    Multi(Vec<Result<Response, i32>>),
    /// Of everything else: there is none.
    Nothing,
}

impl Request {
    /// Whether it is decided by an entry of the log.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Request::Create { .. }
                | Request::Delete { .. }
                | Request::SetData { .. }
                | Request::SetAcl { .. }
                | Request::Multi(_)
                | Request::Check { .. }
                | Request::CloseSession
        )
    }

    /// The node that it is about; nothing for those that are about several or none.
    pub fn path(&self) -> Option<&str> {
        match self {
            Request::Create { path, .. }
            | Request::Delete { path, .. }
            | Request::SetData { path, .. }
            | Request::SetAcl { path, .. }
            | Request::Check { path, .. }
            | Request::Exists { path, .. }
            | Request::GetData { path, .. }
            | Request::GetChildren { path, .. }
            | Request::Sync { path }
            | Request::AddWatch { path, .. } => Some(path),
            Request::Multi(_) | Request::CloseSession => None,
        }
    }
}
