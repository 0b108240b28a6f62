//! What clients' writes do: checks in ZooKeeper's order, changes, events, replies.
//!
//! Owns the decisions. Each operation either succeeds and tells its events, or fails with one error and changes nothing.
//! Which of several errors wins is as visible to clients as the errors themselves.

use super::{
    TreeEvent,
    access::{self, Caller},
    acl_table::AclId,
    arena::NodeId,
    operation::{AclEntry, Create, Operation},
    owners::Owner,
    tree::{NewNode, Tree},
};
use crate::types::SessionId;
use sillon_protocol::zookeeper::{
    Create2Response, ErrorCode, ErrorResponse, EventType, Jute, OpCode, PathRecord, Stat, acl::permission,
    multi::MultiHeader, path,
};

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) zxid: i64,
    pub(super) time_ms: i64,
    pub(super) session: SessionId,
    pub(super) caller: Caller<'a>,
}

/// What a client is told of an operation that succeeded.
#[derive(Debug)]
pub(super) enum Reply {
    /// create.
    Path(String),
    /// create2, createContainer, createTTL.
    PathAndStat(String, Stat),
    /// setData, setACL.
    Stat(Stat),
    /// delete.
    Deleted,
    /// check.
    Checked,
}

impl Reply {
    /// The body of the reply, where the operation stood alone; `None` where it has no body.
    pub(super) fn body(&self) -> Option<Vec<u8>> {
        let mut body = match self {
            Reply::Path(path) | Reply::PathAndStat(path, _) => Vec::with_capacity(path.len() + 72),
            Reply::Stat(_) => Vec::with_capacity(68),
            Reply::Deleted | Reply::Checked => return None,
        };
        self.write(&mut body);
        Some(body)
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Path(path) => PathRecord { path }.write(out),
            Reply::PathAndStat(path, stat) => Create2Response { path, stat: *stat }.write(out),
            Reply::Stat(stat) => stat.write(out),
            Reply::Deleted | Reply::Checked => {}
        }
    }

    /// The operation that its result in a multi names.
    fn code(&self) -> OpCode {
        match self {
            Reply::Path(_) => OpCode::Create,
            Reply::PathAndStat(..) => OpCode::Create2,
            Reply::Stat(_) => OpCode::SetData,
            Reply::Deleted => OpCode::Delete,
            Reply::Checked => OpCode::Check,
        }
    }
}

/// What clients may never delete.
const SYSTEM: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

impl Tree {
    /// Does one operation.
    ///
    /// # Errors
    /// What the client is told; nothing has changed, and `events` has nothing new.
    pub(super) fn perform(
        &mut self,
        context: &Context<'_>,
        operation: &Operation<'_>,
        events: &mut Vec<TreeEvent>,
    ) -> Result<Reply, ErrorCode> {
        match operation {
            Operation::Create(create) => self.create(context, create, events),
            Operation::Delete { path, version } => {
                let path = path.as_deref().ok_or(ErrorCode::MarshallingError)?;
                self.delete(context, path, *version, events)
            }
            Operation::SetData { path, data, version } => {
                self.set_client_data(context, path.as_deref(), *data, *version, events)
            }
            Operation::SetAcl { path, acl, version } => {
                self.set_client_acl(context, path.as_deref(), acl, *version)
            }
            Operation::Check { path, version } => self.check(context, path.as_deref(), *version),
        }
    }

    /// Does all operations of a multi or none of them, and writes the results where they are wanted.
    pub(super) fn perform_all(
        &mut self,
        context: &Context<'_>,
        operations: &[Operation<'_>],
        events: &mut Vec<TreeEvent>,
        want_reply: bool,
    ) -> Option<Vec<u8>> {
        self.begin();
        let events_before = events.len();
        let mut body = Vec::new();
        for (done, operation) in operations.iter().enumerate() {
            match self.perform(context, operation, events) {
                Ok(reply) if want_reply => {
                    MultiHeader::succeeded(reply.code().number()).write(&mut body);
                    reply.write(&mut body);
                }
                Ok(_) => {}
                Err(error) => {
                    self.roll_back();
                    events.truncate(events_before);
                    return want_reply.then(|| failed(operations.len(), done, error));
                }
            }
        }
        self.commit();
        MultiHeader::END.write(&mut body);
        want_reply.then_some(body)
    }

    fn create(
        &mut self,
        context: &Context<'_>,
        create: &Create<'_>,
        events: &mut Vec<TreeEvent>,
    ) -> Result<Reply, ErrorCode> {
        let (kind, sequential) = create.kind?;
        let asked = create.path.as_deref().ok_or(ErrorCode::MarshallingError)?;
        let (above, _) =
            asked.rsplit_once('/').filter(|_| !asked.contains('\0')).ok_or(ErrorCode::BadArguments)?;
        let acl = Wanted::new(&create.acl, context.caller)?;
        let parent = self.find(above).ok_or(ErrorCode::NoNode)?;
        self.require(parent, permission::CREATE, context.caller)?;
        let mut path = asked.to_owned();
        if sequential {
            path.push_str(&format!("{:010}", self.arena.node(parent).creates));
        }
        path::validate(&path).map_err(|_| ErrorCode::BadArguments)?;
        let (directory, name) = path::split(&path).ok_or(ErrorCode::NodeExists)?;
        if self.child(parent, name).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(self.owners.owner(self.arena.node(parent).owned), Some(Owner::Session(_))) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let new = NewNode {
            data: create.data.map(Into::into),
            acl: acl.acquire(self),
            owner: kind.owner(context.session),
            zxid: context.zxid,
            time_ms: context.time_ms,
        };
        let id = self.insert(parent, name, new);
        events.push(self.event(EventType::NodeCreated, path.clone(), id));
        events.push(self.event(EventType::NodeChildrenChanged, directory.to_owned(), parent));
        let stat = self.stat(id);
        self.quota_after_create(&path, create.data.map_or(0, <[u8]>::len));
        Ok(if create.with_stat { Reply::PathAndStat(path, stat) } else { Reply::Path(path) })
    }

    fn delete(
        &mut self,
        context: &Context<'_>,
        path: &str,
        version: i32,
        events: &mut Vec<TreeEvent>,
    ) -> Result<Reply, ErrorCode> {
        let above = match path.rsplit_once('/') {
            Some((above, _)) if !path.contains('\0') && !SYSTEM.contains(&path) => above,
            _ => return Err(ErrorCode::BadArguments),
        };
        let parent = self.find(above).ok_or(ErrorCode::NoNode)?;
        self.require(parent, permission::DELETE, context.caller)?;
        let id = self.find(path).ok_or(ErrorCode::NoNode)?;
        let node = self.arena.node(id);
        next_version(node.version, version)?;
        if node.child_count > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        self.delete_now(id, path.to_owned(), context.zxid, events);
        Ok(Reply::Deleted)
    }

    /// Deletes a node without children, whatever was checked before.
    pub(super) fn delete_now(&mut self, id: NodeId, path: String, zxid: i64, events: &mut Vec<TreeEvent>) {
        let node = self.arena.node(id);
        let (parent, data_bytes) = (node.parent, node.data.as_ref().map_or(0, |data| data.len()));
        let (directory, _) = path::split(&path).expect("the root is never deleted");
        let directory = directory.to_owned();
        let deleted = self.event(EventType::NodeDeleted, path, id);
        self.remove(id, zxid);
        self.quota_after_delete(&deleted.path, data_bytes);
        events.push(deleted);
        events.push(self.event(EventType::NodeChildrenChanged, directory, parent));
    }

    fn set_client_data(
        &mut self,
        context: &Context<'_>,
        path: Option<&str>,
        data: Option<&[u8]>,
        version: i32,
        events: &mut Vec<TreeEvent>,
    ) -> Result<Reply, ErrorCode> {
        let (path, id) = self.legal(path)?;
        self.require(id, permission::WRITE, context.caller)?;
        let node = self.arena.node(id);
        let version = next_version(node.version, version)?;
        let bytes_before = node.data.as_ref().map_or(0, |data| data.len());
        self.set_data(id, data, version, context.zxid, context.time_ms);
        events.push(self.event(EventType::NodeDataChanged, path.to_owned(), id));
        let stat = self.stat(id);
        self.quota_after_write(path, bytes_before, data.map_or(0, <[u8]>::len));
        Ok(Reply::Stat(stat))
    }

    fn set_client_acl(
        &mut self,
        context: &Context<'_>,
        path: Option<&str>,
        acl: &[AclEntry<'_>],
        version: i32,
    ) -> Result<Reply, ErrorCode> {
        let path = path.filter(|path| path::validate(path).is_ok()).ok_or(ErrorCode::BadArguments)?;
        let acl = Wanted::new(acl, context.caller)?;
        let id = self.find(path).ok_or(ErrorCode::NoNode)?;
        self.require(id, permission::ADMIN, context.caller)?;
        let version = next_version(self.arena.node(id).aversion, version)?;
        let acl = acl.acquire(self);
        self.set_acl(id, acl, version);
        Ok(Reply::Stat(self.stat(id)))
    }

    fn check(&self, context: &Context<'_>, path: Option<&str>, version: i32) -> Result<Reply, ErrorCode> {
        let (_, id) = self.legal(path)?;
        self.require(id, permission::READ, context.caller)?;
        next_version(self.arena.node(id).version, version)?;
        Ok(Reply::Checked)
    }

    /// The node of a path that must be legal.
    fn legal<'a>(&self, path: Option<&'a str>) -> Result<(&'a str, NodeId), ErrorCode> {
        let path = path.filter(|path| path::validate(path).is_ok()).ok_or(ErrorCode::BadArguments)?;
        Ok((path, self.find(path).ok_or(ErrorCode::NoNode)?))
    }

    /// Fails unless the caller has one of these permissions on the node.
    pub(super) fn require(&self, id: NodeId, permissions: i32, caller: Caller<'_>) -> Result<(), ErrorCode> {
        if self.acls.permits(self.arena.node(id).acl, permissions, caller) {
            Ok(())
        } else {
            Err(ErrorCode::NoAuth)
        }
    }

    fn event(&self, kind: EventType, path: String, id: NodeId) -> TreeEvent {
        TreeEvent { kind, path, acl: self.acl(id).clone() }
    }
}

/// An access list that was checked, and is not in the table yet.
enum Wanted {
    Open,
    List(Vec<sillon_protocol::zookeeper::Acl>),
}

impl Wanted {
    fn new(requested: &[AclEntry<'_>], caller: Caller<'_>) -> Result<Wanted, ErrorCode> {
        match requested {
            // What nearly every node has.
            [AclEntry { permissions: permission::ALL, scheme: Some(scheme), id: Some(id) }]
                if scheme == "world" && id == "anyone" =>
            {
                Ok(Wanted::Open)
            }
            _ => access::settle(requested, caller).map(Wanted::List),
        }
    }

    fn acquire(self, tree: &mut Tree) -> AclId {
        match self {
            Wanted::Open => {
                tree.acls.acquire_again(AclId::OPEN);
                AclId::OPEN
            }
            Wanted::List(list) => tree.acls.acquire(&list),
        }
    }
}

/// The version after one that must be as expected; -1 expects any, and is itself never a version.
fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected != -1 && expected != current {
        return Err(ErrorCode::BadVersion);
    }
    Ok(match current.wrapping_add(1) {
        -1 => 0,
        next => next,
    })
}

/// The results of a multi of which one operation failed: no error for those before it, RuntimeInconsistency for those
/// behind it.
fn failed(operations: usize, done: usize, error: ErrorCode) -> Vec<u8> {
    let mut body = Vec::with_capacity(operations * 13 + 9);
    for position in 0..operations {
        let error = match position.cmp(&done) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => error.number(),
            std::cmp::Ordering::Greater => ErrorCode::RuntimeInconsistency.number(),
        };
        MultiHeader::failed(error).write(&mut body);
        ErrorResponse { error }.write(&mut body);
    }
    MultiHeader::END.write(&mut body);
    body
}
