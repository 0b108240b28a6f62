//! The same behaviour, written naively: a map from paths to nodes, copied before each multi.

use super::{
    random::{List, Operation, Step, proven},
    *,
};
use sillon_protocol::zookeeper::{Create2Response, ErrorResponse, PathRecord, path};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    Never,
    With(SessionId),
    Container,
    After(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelNode {
    pub(super) data: Option<Vec<u8>>,
    pub(super) acl: Vec<Acl>,
    /// Of this, what depends on children is filled in by [`Model::stat`].
    pub(super) stat: Stat,
    pub(super) creates: i32,
    pub(super) goes: Goes,
}

pub(super) struct Model {
    pub(super) nodes: BTreeMap<String, ModelNode>,
    /// The number of the connection of each session.
    pub(super) sessions: BTreeMap<SessionId, ConnectionKey>,
}

/// What happened to which node, and the access list that says who hears of it.
pub(super) type Events = Vec<(EventType, String, Vec<Acl>)>;

/// What a write comes to.
pub(super) struct Outcome {
    pub(super) error: i32,
    pub(super) body: Option<Vec<u8>>,
    pub(super) events: Events,
}

type Done = Result<(i32, Vec<u8>), ErrorCode>;

struct Moment {
    zxid: i64,
    time_ms: i64,
    session: SessionId,
}

fn parent_of(path: &str) -> String {
    match path.rsplit_once('/').expect("checked").0 {
        "" => "/".to_owned(),
        parent => parent.to_owned(),
    }
}

impl Model {
    pub(super) fn new() -> Model {
        let node = ModelNode {
            data: Some(vec![]),
            acl: open_acl(),
            stat: Stat::default(),
            creates: 0,
            goes: Goes::Never,
        };
        let paths = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
        let mut nodes: BTreeMap<_, _> = paths.map(|path| (path.to_owned(), node.clone())).into();
        let config = nodes.get_mut("/zookeeper/config").unwrap();
        (config.acl[0].permissions, config.stat.aversion) = (1, -1);
        Model { nodes, sessions: BTreeMap::new() }
    }

    pub(super) fn children(&self, path: &str) -> Vec<&str> {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let below = self.nodes.keys().filter_map(|other| other.strip_prefix(&prefix));
        below.filter(|name| !name.is_empty() && !name.contains('/')).collect()
    }

    pub(super) fn stat(&self, path: &str) -> Stat {
        let node = &self.nodes[path];
        let children = self.children(path).len() as i32;
        let owner = if let Goes::With(session) = node.goes { session.0 } else { 0 };
        Stat {
            cversion: node.creates * 2 - children,
            num_children: children,
            data_length: node.data.as_ref().map_or(0, Vec::len) as i32,
            ephemeral_owner: owner,
            ..node.stat
        }
    }

    fn may(&self, path: &str, permission: i32, session: SessionId) -> Result<(), ErrorCode> {
        let proven = proven(session);
        let granted = self.nodes[path].acl.iter().any(|entry| {
            let who = (entry.identity.scheme.clone(), entry.identity.id.clone());
            entry.permissions & permission != 0 && (who.0 == "world" || proven.contains(&who))
        });
        if granted { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    fn settled(list: List, session: SessionId) -> Result<Vec<Acl>, ErrorCode> {
        let own = proven(session).into_iter().find(|(scheme, _)| scheme == "digest");
        let own = own.map(|(scheme, id)| acl(31, &scheme, &id)).ok_or(ErrorCode::InvalidAcl);
        match list {
            List::Open => Ok(open_acl()),
            List::Own => Ok(vec![own?]),
            List::ReadOnly => Ok(vec![acl(1, "world", "anyone")]),
            List::OwnAndReadOnly => Ok(vec![own?, acl(1, "world", "anyone")]),
            List::NotValid => Err(ErrorCode::InvalidAcl),
        }
    }

    /// Applies a step as one transaction; sweeps are given one by one.
    pub(super) fn apply(&mut self, step: &Step, zxid: i64, time_ms: i64) -> Outcome {
        let (session, operations, alone) = match step {
            Step::Write { session, operation } => (*session, std::slice::from_ref(operation), true),
            Step::Multi { session, operations } => (*session, operations.as_slice(), false),
            _ => unreachable!("only writes have replies"),
        };
        let failed = |error: ErrorCode| Outcome { error: error.number(), body: None, events: vec![] };
        match self.sessions.get(&session) {
            None => return failed(ErrorCode::SessionExpired),
            Some(connection) if *connection != connection_of(session) => {
                return failed(ErrorCode::SessionMoved);
            }
            Some(_) => {}
        }
        let moment = Moment { zxid, time_ms, session };
        let before = self.nodes.clone();
        let (mut events, mut body) = (vec![], vec![]);
        for (position, operation) in operations.iter().enumerate() {
            match (self.perform(operation, &moment, &mut events), alone) {
                (Ok((_, reply)), true) => {
                    let body = (!reply.is_empty()).then_some(reply);
                    return Outcome { error: 0, body, events };
                }
                (Ok((code, reply)), false) => {
                    MultiHeader::succeeded(code).write(&mut body);
                    body.extend(reply);
                }
                (Err(error), true) => return failed(error),
                (Err(error), false) => {
                    self.nodes = before;
                    let mut errors = vec![0; position];
                    errors.push(error.number());
                    errors.resize(operations.len(), -2);
                    body.clear();
                    for error in errors {
                        MultiHeader::failed(error).write(&mut body);
                        ErrorResponse { error }.write(&mut body);
                    }
                    events.clear();
                    break;
                }
            }
        }
        MultiHeader::END.write(&mut body);
        Outcome { error: 0, body: Some(body), events }
    }

    fn perform(&mut self, operation: &Operation, moment: &Moment, events: &mut Events) -> Done {
        match operation {
            Operation::Create { .. } => self.create(operation, moment, events),
            Operation::Delete { path, version } => {
                if !path.contains('/')
                    || path.contains('\0')
                    || ["/", "/zookeeper", "/zookeeper/config"].contains(&&**path)
                {
                    return Err(ErrorCode::BadArguments);
                }
                let parent = parent_of(path);
                self.exists(&parent)?;
                self.may(&parent, permission::DELETE, moment.session)?;
                self.exists(path)?;
                Self::same(self.nodes[path].stat.version, *version)?;
                if !self.children(path).is_empty() {
                    return Err(ErrorCode::NotEmpty);
                }
                self.remove(path, moment.zxid, events);
                Ok((2, vec![]))
            }
            Operation::SetData { path, data, version } => {
                path::validate(path).map_err(|_| ErrorCode::BadArguments)?;
                self.exists(path)?;
                self.may(path, permission::WRITE, moment.session)?;
                Self::same(self.nodes[path].stat.version, *version)?;
                let node = self.nodes.get_mut(path).unwrap();
                node.data = data.clone();
                (node.stat.mzxid, node.stat.mtime) = (moment.zxid, moment.time_ms);
                node.stat.version += 1;
                self.tell(EventType::NodeDataChanged, path, events);
                Ok((5, self.stat(path).to_bytes()))
            }
            Operation::SetAcl { path, acl, version } => {
                path::validate(path).map_err(|_| ErrorCode::BadArguments)?;
                let acl = Self::settled(*acl, moment.session)?;
                self.exists(path)?;
                self.may(path, permission::ADMIN, moment.session)?;
                Self::same(self.nodes[path].stat.aversion, *version)?;
                let node = self.nodes.get_mut(path).unwrap();
                node.acl = acl;
                node.stat.aversion += 1;
                Ok((7, self.stat(path).to_bytes()))
            }
            Operation::Check { path, version } => {
                path::validate(path).map_err(|_| ErrorCode::BadArguments)?;
                self.exists(path)?;
                self.may(path, permission::READ, moment.session)?;
                Self::same(self.nodes[path].stat.version, *version)?;
                Ok((13, vec![]))
            }
        }
    }

    fn exists(&self, path: &str) -> Result<(), ErrorCode> {
        if self.nodes.contains_key(path) { Ok(()) } else { Err(ErrorCode::NoNode) }
    }

    fn same(current: i32, expected: i32) -> Result<(), ErrorCode> {
        if expected == -1 || expected == current { Ok(()) } else { Err(ErrorCode::BadVersion) }
    }

    fn create(&mut self, operation: &Operation, moment: &Moment, events: &mut Events) -> Done {
        let Operation::Create { code, path, data, flags, ttl_ms, acl } = operation else { unreachable!() };
        if !path.contains('/') || path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let acl = Self::settled(*acl, moment.session)?;
        let parent = parent_of(path);
        self.exists(&parent)?;
        self.may(&parent, permission::CREATE, moment.session)?;
        let numbered = [2, 3, 6].contains(flags);
        let path = if numbered { format!("{path}{:010}", self.nodes[&parent].creates) } else { path.clone() };
        path::validate(&path).map_err(|_| ErrorCode::BadArguments)?;
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(self.nodes[&parent].goes, Goes::With(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let goes = match (code, flags) {
            (OpCode::CreateContainer, _) => Goes::Container,
            (OpCode::CreateTtl, _) => Goes::After(*ttl_ms),
            (_, 1 | 3) => Goes::With(moment.session),
            _ => Goes::Never,
        };
        let (zxid, time) = (moment.zxid, moment.time_ms);
        let stat =
            Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: time, mtime: time, ..Stat::default() };
        self.nodes.insert(path.clone(), ModelNode { data: data.clone(), acl, stat, creates: 0, goes });
        let above = self.nodes.get_mut(&parent).unwrap();
        above.creates += 1;
        above.stat.pzxid = zxid;
        self.tell(EventType::NodeCreated, &path, events);
        self.tell(EventType::NodeChildrenChanged, &parent, events);
        Ok(match code {
            OpCode::Create => (1, PathRecord { path: &path }.to_bytes()),
            _ => (15, Create2Response { path: &path, stat: self.stat(&path) }.to_bytes()),
        })
    }

    pub(super) fn remove(&mut self, path: &str, zxid: i64, events: &mut Events) {
        self.tell(EventType::NodeDeleted, path, events);
        self.nodes.remove(path).expect("it is there");
        let parent = parent_of(path);
        self.nodes.get_mut(&parent).unwrap().stat.pzxid = zxid;
        self.tell(EventType::NodeChildrenChanged, &parent, events);
    }

    fn tell(&self, kind: EventType, path: &str, events: &mut Events) {
        events.push((kind, path.to_owned(), self.nodes[path].acl.clone()));
    }

    /// The ephemeral nodes of a session, sorted.
    pub(super) fn ephemerals(&self, session: SessionId) -> Vec<String> {
        let own = self.nodes.iter().filter(|(_, node)| node.goes == Goes::With(session));
        own.map(|(path, _)| path.clone()).collect()
    }

    /// What is to be swept, sorted.
    pub(super) fn due(&self, now_ms: i64) -> Vec<String> {
        let due = self.nodes.iter().filter(|(path, node)| {
            self.children(path).is_empty()
                && match node.goes {
                    Goes::Container => node.creates > 0,
                    Goes::After(ttl_ms) => now_ms - node.stat.mtime > ttl_ms,
                    _ => false,
                }
        });
        due.map(|(path, _)| path.clone()).collect()
    }
}
