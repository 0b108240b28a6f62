//! Writes as the model takes them, whether they come from an entry of the log or from a client's history. Owns the
//! decoding of the bodies of requests; decides nothing.

use crate::oracle::coordinator::events::Request;
use sillon_protocol::zookeeper::{
    Acl, CreateMode, CreateRequest, CreateTtlRequest, Jute, JuteError, OpCode, PathVersionRequest, Reader,
    SetAclRequest, SetDataRequest, multi,
};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Create(Create),
    Delete {
        path: String,
        version: i32,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
    Multi(Vec<Operation>),
    /// Something that is no write, by its number.
    Other(i32),
}

/// create and its relatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    pub path: String,
    pub data: Option<Vec<u8>>,
    pub acl: Vec<Acl>,
    pub flags: i32,
    /// -1 where the request has no place for it.
    pub ttl_ms: i64,
    /// By which operation.
    pub code: OpCode,
}

impl Operation {
    /// Reads the body of a request; `None` where it cannot be read, or holds a multi of what may not be in one.
    pub fn decode(number: i32, body: &[u8]) -> Option<Operation> {
        let mut reader = Reader::new(body);
        if OpCode::from_number(number) != Some(OpCode::Multi) {
            return Operation::read(number, &mut reader).ok();
        }
        let mut operations = Vec::new();
        while let Some(header) = multi::next_header(&mut reader).ok()? {
            let mut operation = Operation::read(header.operation, &mut reader).ok()?;
            match &mut operation {
                Operation::SetAcl { .. } | Operation::Other(_) => return None,
                Operation::Create(create) if create.code != OpCode::CreateTtl => {
                    // There, the flags alone say what is a container, and no others are even read.
                    let mode = CreateMode::from_number(create.flags).filter(|mode| !mode.has_ttl())?;
                    if mode == CreateMode::Container {
                        create.code = OpCode::CreateContainer;
                    }
                }
                Operation::Create(create) => {
                    let mode = CreateMode::from_number(create.flags);
                    if mode == Some(CreateMode::Container) {
                        create.code = OpCode::CreateContainer;
                    } else if mode.is_some_and(|mode| !mode.has_ttl()) {
                        (create.code, create.ttl_ms) = (OpCode::Create2, -1);
                    }
                }
                _ => {}
            }
            operations.push(operation);
        }
        Some(Operation::Multi(operations))
    }

    fn read(number: i32, reader: &mut Reader<'_>) -> Result<Operation, JuteError> {
        let Some(code) = OpCode::from_number(number) else { return Ok(Operation::Other(number)) };
        Ok(match code {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => {
                let CreateRequest { path, data, acl, flags } = CreateRequest::read(reader)?;
                Operation::create(path, data, acl, flags, -1, code)
            }
            OpCode::CreateTtl => {
                let CreateTtlRequest { path, data, acl, flags, ttl_ms } = CreateTtlRequest::read(reader)?;
                Operation::create(path, data, acl, flags, ttl_ms, code)
            }
            OpCode::Delete => {
                let PathVersionRequest { path, version } = PathVersionRequest::read(reader)?;
                Operation::Delete { path: path.to_owned(), version }
            }
            OpCode::Check => {
                let PathVersionRequest { path, version } = PathVersionRequest::read(reader)?;
                Operation::Check { path: path.to_owned(), version }
            }
            OpCode::SetData => {
                let SetDataRequest { path, data, version } = SetDataRequest::read(reader)?;
                Operation::SetData { path: path.to_owned(), data: data.map(<[u8]>::to_vec), version }
            }
            OpCode::SetAcl => {
                let SetAclRequest { path, acl, version } = SetAclRequest::read(reader)?;
                Operation::SetAcl { path: path.to_owned(), acl, version }
            }
            _ => Operation::Other(number),
        })
    }

    fn create(
        path: &str,
        data: Option<&[u8]>,
        acl: Vec<Acl>,
        flags: i32,
        ttl_ms: i64,
        code: OpCode,
    ) -> Operation {
        let data = data.map(<[u8]>::to_vec);
        Operation::Create(Create { path: path.to_owned(), data, acl, flags, ttl_ms, code })
    }

    /// What a client's request asks for; `None` for those that are no writes.
    pub fn of_request(request: &Request) -> Option<Operation> {
        Some(match request {
            Request::Create { path, data, mode, ttl_ms, acl } => Operation::Create(Create {
                path: path.clone(),
                data: data.clone(),
                acl: acl.clone(),
                flags: mode.number(),
                ttl_ms: ttl_ms.filter(|_| mode.has_ttl()).unwrap_or(-1),
                code: OpCode::Create2,
            }),
            Request::Delete { path, version } => Operation::Delete { path: path.clone(), version: *version },
            Request::SetData { path, data, version } => {
                Operation::SetData { path: path.clone(), data: data.clone(), version: *version }
            }
            Request::SetAcl { path, acl, version } => {
                Operation::SetAcl { path: path.clone(), acl: acl.clone(), version: *version }
            }
            Request::Check { path, version } => Operation::Check { path: path.clone(), version: *version },
            Request::Multi(requests) => {
                Operation::Multi(requests.iter().map(Operation::of_request).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// A number for what is asked. Creates that differ only in what they are answered have the same.
    pub fn content(&self) -> u64 {
        // The standard library's hasher has a fixed key where it is made this way: the same in each run.
        let mut hasher = DefaultHasher::new();
        self.hash_into(&mut hasher);
        hasher.finish()
    }

    fn hash_into(&self, hasher: &mut DefaultHasher) {
        std::mem::discriminant(self).hash(hasher);
        match self {
            Operation::Create(create) => {
                (&create.path, &create.data, create.flags, create.ttl_ms).hash(hasher);
                hash_acl(&create.acl, hasher);
            }
            Operation::Delete { path, version } | Operation::Check { path, version } => {
                (path, version).hash(hasher);
            }
            Operation::SetData { path, data, version } => (path, data, version).hash(hasher),
            Operation::SetAcl { path, acl, version } => {
                (path, version).hash(hasher);
                hash_acl(acl, hasher);
            }
            Operation::Multi(operations) => {
                operations.len().hash(hasher);
                operations.iter().for_each(|operation| operation.hash_into(hasher));
            }
            Operation::Other(number) => number.hash(hasher),
        }
    }
}

fn hash_acl(acl: &[Acl], hasher: &mut DefaultHasher) {
    acl.len().hash(hasher);
    for entry in acl {
        (entry.permissions, &entry.identity.scheme, &entry.identity.id).hash(hasher);
    }
}

/// A write in a few words, for people.
impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Operation::Create(create) => write!(f, "create {} with flags {}", create.path, create.flags),
            Operation::Delete { path, version } => write!(f, "delete {path} of version {version}"),
            Operation::SetData { path, version, .. } => write!(f, "setData {path} of version {version}"),
            Operation::SetAcl { path, version, .. } => write!(f, "setACL {path} of version {version}"),
            Operation::Check { path, version } => write!(f, "check {path} of version {version}"),
            Operation::Multi(operations) => {
                f.write_str("multi of")?;
                for (number, operation) in operations.iter().enumerate() {
                    write!(f, "{} {operation}", if number == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Operation::Other(number) => write!(f, "operation {number}"),
        }
    }
}
