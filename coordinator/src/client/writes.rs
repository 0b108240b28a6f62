//! Requests that change the tree. Owns their form; what they do is the server's.

use super::{
    Client, ClientError,
    node::{Created, NewNode},
    pending::{Pending, decode},
    session::Extra,
    to_client,
};
use sillon_protocol::zookeeper::{
    Acl, Create2Response, Jute, OpCode, PathRecord, PathVersionRequest, SetAclRequest, SetDataRequest, Stat,
    StatResponse, WatcherType, WatchesRequest,
};

/// What stands for any version.
pub(super) const ANY_VERSION: i32 = -1;

impl Client {
    /// Creates a node and gives its path, which differs from the one that was asked for where it has a number.
    pub fn create(&self, node: &NewNode<'_>) -> Pending<String> {
        let path = match self.server_path(node.path()) {
            Ok(path) => path,
            Err(error) => return Pending::refused(error),
        };
        let (operation, body) = node.request(&path, false);
        let chroot = self.0.chroot.clone();
        self.ask(operation, body, move |body| {
            // All answers to creations begin with the path.
            Ok(to_client(&chroot, decode::<PathRecord<'_>>(operation, body)?.path))
        })
    }

    /// Creates a node and gives its path and stat.
    pub fn create2(&self, node: &NewNode<'_>) -> Pending<Created> {
        let path = match self.server_path(node.path()) {
            Ok(path) => path,
            Err(error) => return Pending::refused(error),
        };
        let (operation, body) = node.request(&path, true);
        let chroot = self.0.chroot.clone();
        self.ask(operation, body, move |body| {
            let Create2Response { path, stat } = decode(operation, body)?;
            Ok(Created { path: to_client(&chroot, path), stat })
        })
    }

    /// Deletes a node that has no children, where its version is the given one or none is given.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let version = version.unwrap_or(ANY_VERSION);
        let body = |path: &str| PathVersionRequest { path, version }.to_bytes();
        self.write(OpCode::Delete, path, body, |_body| Ok(()))
    }

    /// Writes a node's data, where its version is the given one or none is given.
    pub fn set_data(&self, path: &str, data: Option<&[u8]>, version: Option<i32>) -> Pending<Stat> {
        let version = version.unwrap_or(ANY_VERSION);
        let body = |path: &str| SetDataRequest { path, data, version }.to_bytes();
        self.write(
            OpCode::SetData,
            path,
            body,
            |body| Ok(decode::<StatResponse>(OpCode::SetData, body)?.stat),
        )
    }

    /// Writes a node's access list, where that list's version is the given one or none is given.
    pub fn set_acl(&self, path: &str, acl: &[Acl], version: Option<i32>) -> Pending<Stat> {
        let version = version.unwrap_or(ANY_VERSION);
        let body = |path: &str| SetAclRequest { path, acl: acl.to_vec(), version }.to_bytes();
        self.write(OpCode::SetAcl, path, body, |body| Ok(decode::<StatResponse>(OpCode::SetAcl, body)?.stat))
    }

    /// Waits until the server has caught up with the leader, so that what is read afterwards is no older than this call.
    pub fn sync(&self, path: &str) -> Pending<()> {
        self.write(OpCode::Sync, path, |path| PathRecord { path }.to_bytes(), |_body| Ok(()))
    }

    /// Removes this client's watches of a node, on the server and here: they end as
    /// [`WatchEnded::Removed`](super::WatchEnded::Removed). Where one of them is persistent, all end whatever the type.
    pub fn remove_watches(&self, path: &str, watcher_type: WatcherType) -> Pending<()> {
        let path = match self.server_path(path) {
            Ok(path) => path,
            Err(error) => return Pending::refused(error),
        };
        let body = WatchesRequest { path: &path, watcher_type: watcher_type.number() }.to_bytes();
        let extra = Extra::RemoveWatches { path, watcher_type };
        Pending::waiting(self.submit(OpCode::RemoveWatches, body, extra, None), |_body| Ok(()))
    }

    fn write<T: 'static>(
        &self,
        operation: OpCode,
        path: &str,
        body: impl FnOnce(&str) -> Vec<u8>,
        decode: impl FnOnce(&[u8]) -> Result<T, ClientError> + Send + 'static,
    ) -> Pending<T> {
        match self.server_path(path) {
            Ok(path) => self.ask(operation, body(&path), decode),
            Err(error) => Pending::refused(error),
        }
    }
}
