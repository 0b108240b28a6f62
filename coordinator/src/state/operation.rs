//! Writes as clients send them: bytes become operations.
//!
//! Owns reading them, and what ZooKeeper makes of flags: which kind of node they ask for, and what the reply is. Decides
//! nothing that depends on the tree.

use super::owners::Owner;
use sillon_protocol::zookeeper::{CreateMode, ErrorCode, Jute, JuteError, OpCode, Reader, multi};
use std::borrow::Cow;

/// A text as it arrived: null is no text, bytes that are not UTF-8 are replaced as Java replaces them.
pub(super) type Text<'a> = Option<Cow<'a, str>>;

/// One entry of an access list that a client asks for.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AclEntry<'a> {
    pub(super) permissions: i32,
    pub(super) scheme: Text<'a>,
    pub(super) id: Text<'a>,
}

/// What kind of node to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Persistent,
    Ephemeral,
    Container,
    TimeToLive(i64),
}

impl Kind {
    /// What a node of this kind goes with, created by this session.
    pub(super) fn owner(self, session: crate::types::SessionId) -> Option<Owner> {
        match self {
            Kind::Persistent => None,
            Kind::Ephemeral => Some(Owner::Session(session)),
            Kind::Container => Some(Owner::Container),
            Kind::TimeToLive(ttl_ms) => Some(Owner::TimeToLive(ttl_ms)),
        }
    }
}

/// A create of any sort.
#[derive(Debug)]
pub(super) struct Create<'a> {
    pub(super) path: Text<'a>,
    pub(super) data: Option<&'a [u8]>,
    pub(super) acl: Vec<AclEntry<'a>>,
    /// The kind, and whether the name gets a number; or why the flags are not allowed, the first thing to be said.
    pub(super) kind: Result<(Kind, bool), ErrorCode>,
    /// Whether the reply holds the node's stat.
    pub(super) with_stat: bool,
}

/// A write.
#[derive(Debug)]
pub(super) enum Operation<'a> {
    Create(Create<'a>),
    Delete { path: Text<'a>, version: i32 },
    SetData { path: Text<'a>, data: Option<&'a [u8]>, version: i32 },
    SetAcl { path: Text<'a>, acl: Vec<AclEntry<'a>>, version: i32 },
    Check { path: Text<'a>, version: i32 },
}

/// Times to live are below this.
const TTL_LIMIT_MS: i64 = 1 << 40;

/// A text, as it arrived.
pub(super) fn read_text<'a>(reader: &mut Reader<'a>) -> Result<Text<'a>, JuteError> {
    Ok(Option::<&[u8]>::read(reader)?.map(String::from_utf8_lossy))
}

fn read_acl<'a>(reader: &mut Reader<'a>) -> Result<Vec<AclEntry<'a>>, JuteError> {
    // Any negative count is an empty list here, as it is in ZooKeeper.
    let count = usize::try_from(i32::read(reader)?).unwrap_or(0);
    let needed = count.saturating_mul(12);
    if needed > reader.rest().len() {
        return Err(JuteError::Short { needed, left: reader.rest().len() });
    }
    let entry = |reader: &mut Reader<'a>| {
        let permissions = i32::read(reader)?;
        Ok(AclEntry { permissions, scheme: read_text(reader)?, id: read_text(reader)? })
    };
    (0..count).map(|_| entry(reader)).collect()
}

/// A request that stands alone. Bytes behind it are ignored.
///
/// # Errors
/// MarshallingError where it cannot be read, BadArguments for what clients may not ask, Unimplemented for what is no write.
pub(super) fn read_single(code: OpCode, body: &[u8]) -> Result<Operation<'_>, ErrorCode> {
    let reader = &mut Reader::new(body);
    match code {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            let (mut create, flags, ttl_ms) = read_create(code, reader)?;
            create.kind = single_kind(code, flags, ttl_ms);
            create.with_stat = code != OpCode::Create;
            Ok(Operation::Create(create))
        }
        OpCode::DeleteContainer => Err(ErrorCode::BadArguments),
        _ => read_common(code, reader)?.ok_or(ErrorCode::Unimplemented),
    }
}

/// The operations of a multi.
///
/// # Errors
/// MarshallingError where they cannot be read, or where one may not stand in a multi.
pub(super) fn read_multi(body: &[u8]) -> Result<Vec<Operation<'_>>, ErrorCode> {
    let reader = &mut Reader::new(body);
    let mut operations = Vec::new();
    while let Some(header) = multi::next_header(reader).map_err(unreadable)? {
        operations.push(read_in_multi(header.operation, reader)?);
    }
    Ok(operations)
}

/// One operation of a multi, behind its header.
///
/// # Errors
/// As [`read_multi`].
pub(super) fn read_in_multi<'a>(number: i32, reader: &mut Reader<'a>) -> Result<Operation<'a>, ErrorCode> {
    let code = OpCode::from_number(number).ok_or(ErrorCode::MarshallingError)?;
    let operation = match code {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            let (mut create, flags, ttl_ms) = read_create(code, reader)?;
            (create.kind, create.with_stat) = multi_kind(code, flags, ttl_ms)?;
            Operation::Create(create)
        }
        OpCode::SetAcl => return Err(ErrorCode::MarshallingError),
        _ => read_common(code, reader)?.ok_or(ErrorCode::MarshallingError)?,
    };
    if operation.path().is_none() {
        return Err(ErrorCode::MarshallingError);
    }
    Ok(operation)
}

/// Every write but the creates; `None` for what is none.
fn read_common<'a>(code: OpCode, reader: &mut Reader<'a>) -> Result<Option<Operation<'a>>, ErrorCode> {
    let mut read = || -> Result<Option<Operation<'a>>, JuteError> {
        Ok(Some(match code {
            OpCode::Delete => Operation::Delete { path: read_text(reader)?, version: i32::read(reader)? },
            OpCode::Check => Operation::Check { path: read_text(reader)?, version: i32::read(reader)? },
            OpCode::SetData => Operation::SetData {
                path: read_text(reader)?,
                data: Option::read(reader)?,
                version: i32::read(reader)?,
            },
            OpCode::SetAcl => Operation::SetAcl {
                path: read_text(reader)?,
                acl: read_acl(reader)?,
                version: i32::read(reader)?,
            },
            _ => return Ok(None),
        }))
    };
    read().map_err(unreadable)
}

/// A create, its flags and its time to live; kind and reply are still to be decided.
fn read_create<'a>(code: OpCode, reader: &mut Reader<'a>) -> Result<(Create<'a>, i32, i64), ErrorCode> {
    let mut read = || -> Result<_, JuteError> {
        let create = Create {
            path: read_text(reader)?,
            data: Option::read(reader)?,
            acl: read_acl(reader)?,
            kind: Err(ErrorCode::BadArguments),
            with_stat: false,
        };
        let flags = i32::read(reader)?;
        let ttl_ms = if code == OpCode::CreateTtl { i64::read(reader)? } else { -1 };
        Ok((create, flags, ttl_ms))
    };
    read().map_err(unreadable)
}

fn time_to_live(ttl_ms: i64) -> Result<Kind, ErrorCode> {
    if (1..TTL_LIMIT_MS).contains(&ttl_ms) {
        Ok(Kind::TimeToLive(ttl_ms))
    } else {
        Err(ErrorCode::BadArguments)
    }
}

/// Kind and numbering of a create that stands alone: the operation decides, and flags that ask for a container make a
/// persistent node of a plain create.
fn single_kind(code: OpCode, flags: i32, ttl_ms: i64) -> Result<(Kind, bool), ErrorCode> {
    let mode = CreateMode::from_number(flags).ok_or(ErrorCode::BadArguments)?;
    if mode.has_ttl() != (code == OpCode::CreateTtl) {
        return Err(ErrorCode::BadArguments);
    }
    let kind = match code {
        OpCode::CreateContainer => Kind::Container,
        OpCode::CreateTtl => time_to_live(ttl_ms)?,
        _ if mode.is_ephemeral() => Kind::Ephemeral,
        _ => Kind::Persistent,
    };
    Ok((kind, mode.is_sequential()))
}

/// What [`multi_kind`] says: the kind as in [`Create::kind`], and whether the result holds the node's stat.
type MultiKind = (Result<(Kind, bool), ErrorCode>, bool);

/// Kind, numbering and reply of a create in a multi, where the flags decide more than the operation.
fn multi_kind(code: OpCode, flags: i32, ttl_ms: i64) -> Result<MultiKind, ErrorCode> {
    let mode = CreateMode::from_number(flags);
    if code != OpCode::CreateTtl && mode.is_none_or(CreateMode::has_ttl) {
        return Err(ErrorCode::MarshallingError);
    }
    let Some(mode) = mode else { return Ok((Err(ErrorCode::BadArguments), false)) };
    let sequential = mode.is_sequential();
    if mode == CreateMode::Container || code == OpCode::CreateContainer {
        return Ok((Ok((Kind::Container, sequential)), true));
    }
    if mode.has_ttl() {
        return Ok((time_to_live(ttl_ms).map(|kind| (kind, sequential)), true));
    }
    let kind = if mode.is_ephemeral() { Kind::Ephemeral } else { Kind::Persistent };
    Ok((Ok((kind, sequential)), code == OpCode::Create2))
}

pub(super) fn unreadable(_: JuteError) -> ErrorCode {
    ErrorCode::MarshallingError
}

impl Operation<'_> {
    fn path(&self) -> Option<&str> {
        match self {
            Operation::Create(Create { path, .. })
            | Operation::Delete { path, .. }
            | Operation::SetData { path, .. }
            | Operation::SetAcl { path, .. }
            | Operation::Check { path, .. } => path.as_deref(),
        }
    }
}

/// Whether a write asks for a node with a time to live, alone or in a multi: what a ZooKeeper without
/// `zookeeper.extendedTypesEnabled` answers with Unimplemented (-6) before it looks at anything else of the operation.
/// Bodies that cannot be read ask for nothing.
pub fn asks_for_time_to_live(operation: i32, body: &[u8]) -> bool {
    let create_asks = |code, reader: &mut Reader<'_>| {
        let flags = read_create(code, reader).map_or(0, |(_, flags, _)| flags);
        CreateMode::from_number(flags).is_some_and(CreateMode::has_ttl)
    };
    let reader = &mut Reader::new(body);
    match OpCode::from_number(operation) {
        Some(code @ (OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl)) => {
            create_asks(code, reader)
        }
        Some(OpCode::Multi) => {
            let is_ttl = |operation: &Operation<'_>| {
                matches!(operation, Operation::Create(Create { kind: Ok((Kind::TimeToLive(_), _)), .. }))
            };
            read_multi(body).is_ok_and(|operations| operations.iter().any(is_ttl))
        }
        _ => false,
    }
}
