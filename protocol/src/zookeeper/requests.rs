//! The body of each operation's request and reply, in the order of their numbers. Owns layouts, never meaning.

use super::{acl::Acl, records::Stat};

crate::jute! {
    /// create, create2, createContainer.
    pub struct CreateRequest<'a> {
        /// The node, without its number where one is added.
        path: &'a str,
        /// Its data.
        data: Option<&'a [u8]>,
        /// Its access list.
        acl: Vec<Acl>,
        /// A [`CreateMode`](super::CreateMode).
        flags: i32,
    }
    /// createTTL.
    pub struct CreateTtlRequest<'a> {
        /// The node, without its number where one is added.
        path: &'a str,
        /// Its data.
        data: Option<&'a [u8]>,
        /// Its access list.
        acl: Vec<Acl>,
        /// A [`CreateMode`](super::CreateMode).
        flags: i32,
        /// Its time to live, in milliseconds.
        ttl_ms: i64,
    }
    /// Reply to create, getACL's request, sync and others that are a path alone.
    pub struct PathRecord<'a> {
        /// The node.
        path: &'a str,
    }
    /// Reply to create2, createContainer and createTTL.
    pub struct Create2Response<'a> {
        /// The node, with its number.
        path: &'a str,
        /// What is known about it.
        stat: Stat,
    }
    /// delete, check, deleteContainer.
    pub struct PathVersionRequest<'a> {
        /// The node.
        path: &'a str,
        /// The version that it must have, or -1.
        version: i32,
    }
    /// exists, getData, getChildren, getChildren2.
    pub struct PathWatchRequest<'a> {
        /// The node.
        path: &'a str,
        /// Whether to set a watch.
        watch: bool,
    }
    /// Reply to exists, setData and setACL.
    pub struct StatResponse {
        /// What is known about the node.
        stat: Stat,
    }
    /// Reply to getData.
    pub struct GetDataResponse<'a> {
        /// The node's data.
        data: Option<&'a [u8]>,
        /// What is known about the node.
        stat: Stat,
    }
    /// setData.
    pub struct SetDataRequest<'a> {
        /// The node.
        path: &'a str,
        /// Its new data.
        data: Option<&'a [u8]>,
        /// The version that it must have, or -1.
        version: i32,
    }
    /// Reply to getACL.
    pub struct GetAclResponse {
        /// The access list.
        acl: Vec<Acl>,
        /// What is known about the node.
        stat: Stat,
    }
    /// setACL.
    pub struct SetAclRequest<'a> {
        /// The node.
        path: &'a str,
        /// Its new access list.
        acl: Vec<Acl>,
        /// The version that its access list must have, or -1.
        version: i32,
    }
    /// Reply to getChildren.
    pub struct GetChildrenResponse<'a> {
        /// Names, in no order.
        children: Vec<&'a str>,
    }
    /// Reply to getChildren2.
    pub struct GetChildren2Response<'a> {
        /// Names, in no order.
        children: Vec<&'a str>,
        /// What is known about the node.
        stat: Stat,
    }
    /// reconfig.
    pub struct ReconfigRequest<'a> {
        /// Members to add.
        joining: &'a str,
        /// Members to remove.
        leaving: &'a str,
        /// Or all members.
        members: &'a str,
        /// The version that the configuration must have, or -1.
        configuration: i64,
    }
    /// removeWatches, checkWatches.
    pub struct WatchesRequest<'a> {
        /// The node.
        path: &'a str,
        /// A [`WatcherType`](super::WatcherType).
        watcher_type: i32,
    }
    /// auth.
    pub struct AuthRequest<'a> {
        /// 0.
        kind: i32,
        /// The scheme.
        scheme: &'a str,
        /// The proof, in the scheme's own form.
        proof: Option<&'a [u8]>,
    }
    /// setWatches.
    pub struct SetWatchesRequest<'a> {
        /// The last transaction that the client has seen.
        relative_zxid: i64,
        /// Nodes with a watch on data.
        data_watches: Vec<&'a str>,
        /// Nodes that did not exist, with a watch on that.
        exist_watches: Vec<&'a str>,
        /// Nodes with a watch on children.
        child_watches: Vec<&'a str>,
    }
    /// setWatches2.
    pub struct SetWatches2Request<'a> {
        /// The last transaction that the client has seen.
        relative_zxid: i64,
        /// Nodes with a watch on data.
        data_watches: Vec<&'a str>,
        /// Nodes that did not exist, with a watch on that.
        exist_watches: Vec<&'a str>,
        /// Nodes with a watch on children.
        child_watches: Vec<&'a str>,
        /// Nodes with a persistent watch.
        persistent_watches: Vec<&'a str>,
        /// Nodes with a persistent recursive watch.
        persistent_recursive_watches: Vec<&'a str>,
    }
    /// Reply to getEphemerals.
    pub struct GetEphemeralsResponse<'a> {
        /// Paths, in no order.
        ephemerals: Vec<&'a str>,
    }
    /// Reply to getAllChildrenNumber.
    pub struct GetAllChildrenNumberResponse {
        /// How many nodes are below the node.
        total: i32,
    }
    /// addWatch.
    pub struct AddWatchRequest<'a> {
        /// The node.
        path: &'a str,
        /// An [`AddWatchMode`](super::AddWatchMode).
        mode: i32,
    }
    /// Reply to a request that has no other: addWatch's has this body.
    pub struct ErrorResponse {
        /// 0, or an error's number.
        error: i32,
    }
    /// One of a connection's identities.
    pub struct ClientInfo {
        /// How it was proven.
        scheme: String,
        /// Who, without what is secret.
        user: String,
    }
    /// Reply to whoAmI.
    pub struct WhoAmIResponse {
        /// The connection's identities, in no order.
        identities: Vec<ClientInfo>,
    }
}
