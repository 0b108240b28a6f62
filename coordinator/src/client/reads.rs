//! Requests that read, with and without watches. Owns their form; what they find is the server's.

use super::{
    Client, ClientError, is_below,
    node::{AclAndStat, Children, DataAndStat},
    pending::{Pending, Reply, decode},
    registry::WatchedThing,
    session::RawReply,
    to_client,
    watch::{PersistentWatch, Watch},
};
use sillon_protocol::zookeeper::{
    AddWatchMode, AddWatchRequest, ErrorCode, GetAclResponse, GetAllChildrenNumberResponse,
    GetChildren2Response, GetChildrenResponse, GetDataResponse, GetEphemeralsResponse, Jute, OpCode,
    PathRecord, PathWatchRequest, Stat, StatResponse, WhoAmIResponse, requests::ClientInfo,
};

impl Client {
    /// Tells whether a node exists.
    pub fn exists(&self, path: &str) -> Pending<Option<Stat>> {
        match self.server_path(path) {
            Ok(path) => {
                let body = PathWatchRequest { path: &path, watch: false }.to_bytes();
                let receiver = self.submit(OpCode::Exists, body, super::Extra::Nothing, None);
                Pending::deciding(receiver, existing)
            }
            Err(error) => Pending::refused(error),
        }
    }

    /// The same, and watches for the node's creation, deletion, or next write.
    pub fn exists_watched(&self, path: &str) -> Pending<(Option<Stat>, Watch)> {
        let path = match self.server_path(path) {
            Ok(path) => path,
            Err(error) => return Pending::refused(error),
        };
        let body = PathWatchRequest { path: &path, watch: true }.to_bytes();
        let (receiver, listener) = self.ask_watched(OpCode::Exists, body, WatchedThing::Data, path);
        Pending::deciding(receiver, move |outcome| {
            let Reply { zxid, value } = existing(outcome)?;
            Ok(Reply { zxid, value: (value, Watch::new(listener)) })
        })
    }

    /// Reads a node.
    pub fn get_data(&self, path: &str) -> Pending<DataAndStat> {
        self.read(OpCode::GetData, path, data)
    }

    /// The same, and watches for the node's next write or its deletion.
    pub fn get_data_watched(&self, path: &str) -> Pending<(DataAndStat, Watch)> {
        self.read_watched(OpCode::GetData, path, WatchedThing::Data, data)
    }

    /// Lists a node's children.
    pub fn get_children(&self, path: &str) -> Pending<Vec<String>> {
        self.read(OpCode::GetChildren, path, |body| {
            let GetChildrenResponse { children } = decode(OpCode::GetChildren, body)?;
            Ok(owned(&children))
        })
    }

    /// Lists a node's children, with its stat.
    pub fn get_children2(&self, path: &str) -> Pending<Children> {
        self.read(OpCode::GetChildren2, path, children)
    }

    /// The same, and watches for a child that comes or goes, or for the node's deletion.
    pub fn get_children_watched(&self, path: &str) -> Pending<(Children, Watch)> {
        self.read_watched(OpCode::GetChildren2, path, WatchedThing::Children, children)
    }

    /// Reads a node's access list.
    pub fn get_acl(&self, path: &str) -> Pending<AclAndStat> {
        self.read_path(OpCode::GetAcl, path, |body| {
            let GetAclResponse { acl, stat } = decode(OpCode::GetAcl, body)?;
            Ok(AclAndStat { acl, stat })
        })
    }

    /// Lists the session's ephemeral nodes whose paths begin with that path.
    pub fn get_ephemerals(&self, prefix: &str) -> Pending<Vec<String>> {
        let chroot = self.0.chroot.clone();
        self.read_path(OpCode::GetEphemerals, prefix, move |body| {
            let GetEphemeralsResponse { ephemerals } = decode(OpCode::GetEphemerals, body)?;
            // The server compares text: /chroot is the beginning of /chrooted too.
            let below = ephemerals.into_iter().filter(|path| is_below(&chroot, path));
            Ok(below.map(|path| to_client(&chroot, path)).collect())
        })
    }

    /// Counts all nodes below a node.
    pub fn get_all_children_number(&self, path: &str) -> Pending<i32> {
        self.read_path(OpCode::GetAllChildrenNumber, path, |body| {
            let GetAllChildrenNumberResponse { total } = decode(OpCode::GetAllChildrenNumber, body)?;
            Ok(total)
        })
    }

    /// Tells who the server takes this client for.
    pub fn who_am_i(&self) -> Pending<Vec<ClientInfo>> {
        self.ask(OpCode::WhoAmI, Vec::new(), |body| {
            Ok(decode::<WhoAmIResponse>(OpCode::WhoAmI, body)?.identities)
        })
    }

    /// Adds a watch that stays. It does not matter whether the node exists.
    pub fn add_watch(&self, path: &str, mode: AddWatchMode) -> Pending<PersistentWatch> {
        let path = match self.server_path(path) {
            Ok(path) => path,
            Err(error) => return Pending::refused(error),
        };
        let thing = match mode {
            AddWatchMode::Persistent => WatchedThing::Persistent,
            AddWatchMode::PersistentRecursive => WatchedThing::PersistentRecursive,
        };
        let body = AddWatchRequest { path: &path, mode: mode.number() }.to_bytes();
        let (receiver, listener) = self.ask_watched(OpCode::AddWatch, body, thing, path);
        Pending::waiting(receiver, move |_body| Ok(PersistentWatch::new(listener)))
    }

    /// A read whose request is a path and a flag for a watch.
    fn read<T: 'static>(
        &self,
        operation: OpCode,
        path: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, ClientError> + Send + 'static,
    ) -> Pending<T> {
        match self.server_path(path) {
            Ok(path) => {
                self.ask(operation, PathWatchRequest { path: &path, watch: false }.to_bytes(), decode)
            }
            Err(error) => Pending::refused(error),
        }
    }

    fn read_watched<T: 'static>(
        &self,
        operation: OpCode,
        path: &str,
        thing: WatchedThing,
        decode: impl FnOnce(&[u8]) -> Result<T, ClientError> + Send + 'static,
    ) -> Pending<(T, Watch)> {
        let path = match self.server_path(path) {
            Ok(path) => path,
            Err(error) => return Pending::refused(error),
        };
        let body = PathWatchRequest { path: &path, watch: true }.to_bytes();
        let (receiver, listener) = self.ask_watched(operation, body, thing, path);
        Pending::waiting(receiver, move |body| Ok((decode(body)?, Watch::new(listener))))
    }

    /// A read whose request is a path alone.
    fn read_path<T: 'static>(
        &self,
        operation: OpCode,
        path: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, ClientError> + Send + 'static,
    ) -> Pending<T> {
        match self.server_path(path) {
            Ok(path) => self.ask(operation, PathRecord { path: &path }.to_bytes(), decode),
            Err(error) => Pending::refused(error),
        }
    }
}

/// What exists answers: that there is no such node is an answer too.
fn existing(outcome: Result<RawReply, ClientError>) -> Result<Reply<Option<Stat>>, ClientError> {
    match outcome {
        Ok(reply) => {
            let StatResponse { stat } = decode(OpCode::Exists, &reply.body)?;
            Ok(Reply { zxid: reply.zxid, value: Some(stat) })
        }
        Err(ClientError::Server { code: ErrorCode::NoNode, zxid }) => Ok(Reply { zxid, value: None }),
        Err(error) => Err(error),
    }
}

fn data(body: &[u8]) -> Result<DataAndStat, ClientError> {
    let GetDataResponse { data, stat } = decode(OpCode::GetData, body)?;
    Ok(DataAndStat { data: data.map(<[u8]>::to_vec), stat })
}

fn children(body: &[u8]) -> Result<Children, ClientError> {
    let GetChildren2Response { children, stat } = decode(OpCode::GetChildren2, body)?;
    Ok(Children { names: owned(&children), stat })
}

pub(super) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
