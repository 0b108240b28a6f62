//! What a client missed while it was not connected: setWatches and setWatches2, as ZooKeeper 3.8 answers them.
//!
//! Owns the comparison; never sets a watch itself, so that it stays a pure function of the tree.

use super::{WatchKind, Watches};
use sillon_protocol::zookeeper::{EventType, SetWatches2Request, SetWatchesRequest};

/// What a client asks to have set again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatches<'a> {
    /// The last transaction that it has seen.
    pub relative_zxid: i64,
    /// Nodes with a watch on data.
    pub data: Vec<&'a str>,
    /// Nodes that did not exist, with a watch on that.
    pub exist: Vec<&'a str>,
    /// Nodes with a watch on children.
    pub child: Vec<&'a str>,
    /// Nodes with a persistent watch.
    pub persistent: Vec<&'a str>,
    /// Nodes with a persistent recursive watch.
    pub persistent_recursive: Vec<&'a str>,
}

impl<'a> From<SetWatchesRequest<'a>> for SetWatches<'a> {
    fn from(request: SetWatchesRequest<'a>) -> SetWatches<'a> {
        SetWatches {
            relative_zxid: request.relative_zxid,
            data: request.data_watches,
            exist: request.exist_watches,
            child: request.child_watches,
            persistent: Vec::new(),
            persistent_recursive: Vec::new(),
        }
    }
}

impl<'a> From<SetWatches2Request<'a>> for SetWatches<'a> {
    fn from(request: SetWatches2Request<'a>) -> SetWatches<'a> {
        SetWatches {
            relative_zxid: request.relative_zxid,
            data: request.data_watches,
            exist: request.exist_watches,
            child: request.child_watches,
            persistent: request.persistent_watches,
            persistent_recursive: request.persistent_recursive_watches,
        }
    }
}

/// The transactions of a node that tell what has happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeZxids {
    /// The one that created it. ZooKeeper does not look at it: a node that was deleted and created anew counts as written.
    pub czxid: i64,
    /// The one that wrote it last.
    pub mzxid: i64,
    /// The one that changed its children last.
    pub pzxid: i64,
}

/// The answer to a client that asks to have its watches set again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatchUp<'a> {
    /// What to tell it at once, in this order, before the reply. Those watches are over.
    pub events: Vec<(EventType, &'a str)>,
    /// What to set.
    pub set: Vec<(WatchKind, &'a str)>,
}

impl CatchUp<'_> {
    /// Sets the watches for that watcher.
    pub fn apply(&self, watcher: u64, watches: &mut Watches) {
        for (kind, path) in &self.set {
            watches.add(watcher, path, *kind);
        }
    }
}

/// Compares what a client knows with what there is. `lookup` gives a node's transactions, or `None` where there is no
/// such node. Persistent watches are set without a look: nothing of what they missed is told.
pub fn catch_up<'a>(
    request: &SetWatches<'a>,
    mut lookup: impl FnMut(&str) -> Option<NodeZxids>,
) -> CatchUp<'a> {
    let mut answer = CatchUp::default();
    for path in &request.data {
        match lookup(path) {
            None => answer.events.push((EventType::NodeDeleted, path)),
            Some(node) if node.mzxid > request.relative_zxid => {
                answer.events.push((EventType::NodeDataChanged, path));
            }
            Some(_) => answer.set.push((WatchKind::Data, path)),
        }
    }
    for path in &request.exist {
        match lookup(path) {
            Some(_) => answer.events.push((EventType::NodeCreated, path)),
            None => answer.set.push((WatchKind::Data, path)),
        }
    }
    for path in &request.child {
        match lookup(path) {
            None => answer.events.push((EventType::NodeDeleted, path)),
            Some(node) if node.pzxid > request.relative_zxid => {
                answer.events.push((EventType::NodeChildrenChanged, path));
            }
            Some(_) => answer.set.push((WatchKind::Child, path)),
        }
    }
    answer.set.extend(request.persistent.iter().map(|path| (WatchKind::Persistent, *path)));
    let recursive = request.persistent_recursive.iter();
    answer.set.extend(recursive.map(|path| (WatchKind::PersistentRecursive, *path)));
    answer
}
