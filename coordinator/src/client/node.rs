//! Nodes as requests and answers describe them. Owns the description, and the requests that create one.

use sillon_protocol::zookeeper::{
    Acl, CreateMode, CreateRequest, CreateTtlRequest, Jute, OpCode, Stat, records::open_acl,
};

/// A node to create. Everybody may do everything with it unless [`NewNode::acl`] says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode<'a> {
    path: &'a str,
    data: Option<&'a [u8]>,
    acl: Vec<Acl>,
    mode: CreateMode,
    ttl_ms: i64,
}

impl<'a> NewNode<'a> {
    /// A node of any kind. For those with a time to live, see [`NewNode::ttl_ms`].
    pub fn new(path: &'a str, mode: CreateMode) -> NewNode<'a> {
        NewNode { path, data: None, acl: open_acl(), mode, ttl_ms: 0 }
    }

    /// A node that stays until it is deleted.
    pub fn persistent(path: &'a str) -> NewNode<'a> {
        NewNode::new(path, CreateMode::Persistent)
    }

    /// A node that goes with the session.
    pub fn ephemeral(path: &'a str) -> NewNode<'a> {
        NewNode::new(path, CreateMode::Ephemeral)
    }

    /// With data. Without, the node's data is null.
    pub fn data(mut self, data: &'a [u8]) -> NewNode<'a> {
        self.data = Some(data);
        self
    }

    /// With an access list.
    pub fn acl(mut self, acl: Vec<Acl>) -> NewNode<'a> {
        self.acl = acl;
        self
    }

    /// With a time to live in milliseconds, for the modes that have one.
    pub fn ttl_ms(mut self, ttl_ms: i64) -> NewNode<'a> {
        self.ttl_ms = ttl_ms;
        self
    }

    /// Its path.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// The operation that creates it, and the request's body. `with_stat` asks for the one that answers a stat, where
    /// there are two.
    pub(super) fn request(&self, server_path: &str, with_stat: bool) -> (OpCode, Vec<u8>) {
        let NewNode { path: _, data, acl, mode, ttl_ms } = self;
        let (acl, flags) = (acl.clone(), mode.number());
        if mode.has_ttl() {
            let request = CreateTtlRequest { path: server_path, data: *data, acl, flags, ttl_ms: *ttl_ms };
            return (OpCode::CreateTtl, request.to_bytes());
        }
        let operation = match mode {
            CreateMode::Container => OpCode::CreateContainer,
            _ if with_stat => OpCode::Create2,
            _ => OpCode::Create,
        };
        (operation, CreateRequest { path: server_path, data: *data, acl, flags }.to_bytes())
    }
}

/// A node that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its path, with its number where it has one.
    pub path: String,
    /// What is known about it.
    pub stat: Stat,
}

/// A node's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataAndStat {
    /// The data; null and empty are not the same.
    pub data: Option<Vec<u8>>,
    /// What is known about the node.
    pub stat: Stat,
}

/// A node's children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Children {
    /// Their names, in no order.
    pub names: Vec<String>,
    /// What is known about the node.
    pub stat: Stat,
}

/// A node's access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclAndStat {
    /// The list.
    pub acl: Vec<Acl>,
    /// What is known about the node.
    pub stat: Stat,
}
