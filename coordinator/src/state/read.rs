//! What clients' reads answer, from the tree as it is.
//!
//! Owns the checks in ZooKeeper's order, and the bodies of the replies. Sets no watch: it says which one the request
//! would set.

use super::{
    access::{self, Caller},
    arena::NodeId,
    operation::{read_in_multi, read_text, unreadable},
    owners::Owner,
    tree::Tree,
};
use crate::types::SessionId;
use sillon_protocol::zookeeper::{
    ErrorCode, ErrorResponse, GetAllChildrenNumberResponse, GetDataResponse, Identity, Jute, OpCode, Reader,
    acl::permission,
    multi::{self, MultiHeader},
};

/// Which watch a read sets, where its flag asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// On the data of a node that exists.
    Data,
    /// On a node that does not exist. ZooKeeper keeps it with those on data.
    Exists,
    /// On the children of a node.
    Child,
}

/// What a read answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// 0, or the error for the reply's header.
    pub error: i32,
    /// The reply's body. Empty after an error, but for a multiRead of writes.
    pub body: Vec<u8>,
    /// The watch that the request sets if its watch flag is on; `None` where it sets none whatever the flag says.
    pub watch: Option<WatchKind>,
}

impl ReadOutcome {
    fn answer(body: Vec<u8>, watch: Option<WatchKind>) -> ReadOutcome {
        ReadOutcome { error: 0, body, watch }
    }

    fn error(error: ErrorCode) -> ReadOutcome {
        ReadOutcome { error: error.number(), body: Vec::new(), watch: None }
    }
}

impl Tree {
    /// Answers a read of [`StateMachine::read`](super::StateMachine::read).
    pub(super) fn read(
        &self,
        operation: OpCode,
        body: &[u8],
        identities: &[Identity],
        session: SessionId,
    ) -> ReadOutcome {
        if operation == OpCode::MultiRead {
            return self.multi_read(body, identities);
        }
        let path = match read_text(&mut Reader::new(body)) {
            Ok(path) => path,
            Err(error) => return ReadOutcome::error(unreadable(error)),
        };
        let caller = Caller::Identities(identities);
        if operation == OpCode::GetEphemerals {
            return ReadOutcome::answer(self.get_ephemerals(path.as_deref().unwrap_or(""), session), None);
        }
        let Some(path) = path else { return ReadOutcome::error(ErrorCode::MarshallingError) };
        let has_flag = matches!(
            operation,
            OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2
        );
        if has_flag && body.len() < 4 + path.len() + 1 && !flag_is_there(body) {
            return ReadOutcome::error(ErrorCode::MarshallingError);
        }
        let (answer, watch) = match operation {
            OpCode::Exists => return self.exists(&path, caller),
            OpCode::GetData => (self.get_data(&path, caller), Some(WatchKind::Data)),
            OpCode::GetAcl => (self.get_acl(&path, caller), None),
            OpCode::GetChildren => (self.get_children(&path, caller, false), Some(WatchKind::Child)),
            OpCode::GetChildren2 => (self.get_children(&path, caller, true), Some(WatchKind::Child)),
            OpCode::GetAllChildrenNumber => (self.get_all_children_number(&path, caller), None),
            _ => (Err(ErrorCode::Unimplemented), None),
        };
        match answer {
            Ok(body) => ReadOutcome::answer(body, watch),
            Err(error) => ReadOutcome::error(error),
        }
    }

    /// The node of a path that the caller may read.
    fn readable(&self, path: &str, caller: Caller<'_>) -> Result<NodeId, ErrorCode> {
        let id = self.find(path).ok_or(ErrorCode::NoNode)?;
        self.require(id, permission::READ, caller)?;
        Ok(id)
    }

    fn exists(&self, path: &str, caller: Caller<'_>) -> ReadOutcome {
        if path.contains('\0') {
            return ReadOutcome::error(ErrorCode::BadArguments);
        }
        match self.readable(path, caller) {
            Ok(id) => {
                let mut body = Vec::with_capacity(68);
                self.stat(id).write(&mut body);
                ReadOutcome::answer(body, Some(WatchKind::Data))
            }
            Err(error) => {
                let watch = (error == ErrorCode::NoNode).then_some(WatchKind::Exists);
                ReadOutcome { watch, ..ReadOutcome::error(error) }
            }
        }
    }

    fn get_data(&self, path: &str, caller: Caller<'_>) -> Result<Vec<u8>, ErrorCode> {
        let id = self.readable(path, caller)?;
        let data = self.arena.node(id).data.as_deref();
        let mut body = Vec::with_capacity(72 + data.map_or(0, <[u8]>::len));
        GetDataResponse { data, stat: self.stat(id) }.write(&mut body);
        Ok(body)
    }

    fn get_acl(&self, path: &str, caller: Caller<'_>) -> Result<Vec<u8>, ErrorCode> {
        let id = self.find(path).ok_or(ErrorCode::NoNode)?;
        self.require(id, permission::READ | permission::ADMIN, caller)?;
        let list = self.acl(id);
        let shown = match self.require(id, permission::ADMIN, caller) {
            Ok(()) => list.to_vec(),
            Err(_) => access::redacted(list),
        };
        let mut body = shown.to_bytes();
        self.stat(id).write(&mut body);
        Ok(body)
    }

    fn get_children(&self, path: &str, caller: Caller<'_>, with_stat: bool) -> Result<Vec<u8>, ErrorCode> {
        let id = self.readable(path, caller)?;
        let count = self.arena.node(id).child_count;
        let mut body = Vec::with_capacity(72 + 16 * count as usize);
        count.cast_signed().write(&mut body);
        for child in self.children(id) {
            Some(self.arena.node(child).name.as_bytes()).write(&mut body);
        }
        if with_stat {
            self.stat(id).write(&mut body);
        }
        Ok(body)
    }

    fn get_all_children_number(&self, path: &str, caller: Caller<'_>) -> Result<Vec<u8>, ErrorCode> {
        let id = self.readable(path, caller)?;
        let total = match path {
            // ZooKeeper counts the root among the nodes below the empty path.
            "" => self.counts.nodes,
            "/" => self.counts.nodes - 1,
            _ => {
                let mut count = 0;
                self.for_each_below(id, |_| count += 1);
                count
            }
        };
        Ok(GetAllChildrenNumberResponse { total: total.cast_signed() }.to_bytes())
    }

    /// The session's ephemeral nodes whose paths begin with a text.
    fn get_ephemerals(&self, prefix: &str, session: SessionId) -> Vec<u8> {
        let prefix = if matches!(prefix.trim(), "" | "/") { "" } else { prefix };
        let paths = self.ephemerals(session).into_iter().map(|id| self.path(id));
        let paths: Vec<String> = paths.filter(|path| path.starts_with(prefix)).collect();
        paths.to_bytes()
    }

    /// Several getData and getChildren. Each fails for itself, and none sets a watch.
    fn multi_read(&self, body: &[u8], identities: &[Identity]) -> ReadOutcome {
        let caller = Caller::Identities(identities);
        let mut out = Vec::new();
        let reads = match read_reads(body) {
            Ok(reads) => reads,
            Err(error) => return ReadOutcome::error(error),
        };
        let Some(reads) = reads else {
            // ZooKeeper has begun its answer when it finds that the operations are writes.
            return ReadOutcome {
                body: MultiHeader::END.to_bytes(),
                ..ReadOutcome::error(ErrorCode::MarshallingError)
            };
        };
        for (code, path) in reads {
            let answer = match code {
                OpCode::GetData => self.get_data(&path, caller),
                _ => self.get_children(&path, caller, false),
            };
            match answer {
                Ok(body) => {
                    MultiHeader::succeeded(code.number()).write(&mut out);
                    out.extend_from_slice(&body);
                }
                Err(error) => {
                    MultiHeader::failed(error.number()).write(&mut out);
                    ErrorResponse { error: error.number() }.write(&mut out);
                }
            }
        }
        MultiHeader::END.write(&mut out);
        ReadOutcome::answer(out, None)
    }

    /// Whether a node goes with this session.
    pub(super) fn is_owned_by(&self, id: NodeId, session: SessionId) -> bool {
        self.owners.owner(self.arena.node(id).owned) == Some(Owner::Session(session))
    }
}

/// Whether a request of a path and a flag has its flag.
fn flag_is_there(body: &[u8]) -> bool {
    let reader = &mut Reader::new(body);
    read_text(reader).is_ok() && bool::read(reader).is_ok()
}

type Read<'a> = (OpCode, std::borrow::Cow<'a, str>);

/// The operations of a multiRead; `None` where they are all writes.
fn read_reads(body: &[u8]) -> Result<Option<Vec<Read<'_>>>, ErrorCode> {
    let reader = &mut Reader::new(body);
    let mut reads = Vec::new();
    let mut writes = 0;
    while let Some(header) = multi::next_header(reader).map_err(unreadable)? {
        match OpCode::from_number(header.operation) {
            Some(code @ (OpCode::GetData | OpCode::GetChildren)) => {
                let path = read_text(reader).map_err(unreadable)?.ok_or(ErrorCode::MarshallingError)?;
                bool::read(reader).map_err(unreadable)?;
                reads.push((code, path));
            }
            _ => {
                read_in_multi(header.operation, reader)?;
                writes += 1;
            }
        }
    }
    match (reads.len(), writes) {
        (_, 0) => Ok(Some(reads)),
        (0, _) => Ok(None),
        _ => Err(ErrorCode::MarshallingError),
    }
}
