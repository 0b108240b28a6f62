//! Every node at every transaction. Owns the memory of the tree; knows nothing of what may be done to it.

use sillon_protocol::zookeeper::{Acl, EventType, Identity, Stat, acl::permission, records::open_acl};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// When a node goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never by itself.
    Persistent,
    /// With a session.
    Ephemeral { session: i64 },
    /// After its last child.
    Container,
    /// So long after it was last written.
    Ttl { ttl_ms: i64 },
}

/// A node at one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub data: Option<Arc<[u8]>>,
    pub acl: Arc<[Acl]>,
    pub kind: Kind,
    pub czxid: i64,
    pub mzxid: i64,
    pub pzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub aversion: i32,
    /// How many children were ever created: the next number of a sequential one.
    pub creates: i32,
    pub children: i32,
}

impl Node {
    /// What a client sees of it.
    pub fn stat(&self) -> Stat {
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            // Each deletion counts too, and as many children were deleted as were created and are not there.
            cversion: self.creates.wrapping_mul(2).wrapping_sub(self.children),
            aversion: self.aversion,
            ephemeral_owner: if let Kind::Ephemeral { session } = self.kind { session } else { 0 },
            data_length: self.data.as_ref().map_or(0, |data| data.len() as i32),
            num_children: self.children,
            pzxid: self.pzxid,
        }
    }

    /// Whether everybody may read it.
    pub fn is_public(&self) -> bool {
        self.acl.is_empty()
            || self.acl.iter().any(|entry| {
                entry.permissions & permission::READ != 0
                    && entry.identity.scheme == "world"
                    && entry.identity.id == "anyone"
            })
    }
}

/// Something that a watch could fire for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub zxid: i64,
    pub event: EventType,
    pub path: Arc<str>,
    /// Whether everybody may hear of it.
    pub public: bool,
}

/// One path, whatever nodes it had.
#[derive(Debug, Default)]
struct Line {
    /// Of each transaction that touched it: the node afterwards.
    nodes: Vec<(i64, Option<Node>)>,
    /// The names of its children now.
    names: BTreeSet<Arc<str>>,
    /// Each child that came or went.
    moves: Vec<(i64, Arc<str>, bool)>,
    /// Each change that a watch could fire for, and whether everybody may hear of it.
    changes: Vec<(i64, EventType, bool)>,
}

/// How to take a step of an unfinished transaction back.
#[derive(Debug)]
enum Undo {
    /// The last version goes, and this one comes back where it was replaced.
    Node(Arc<str>, Option<Option<Node>>),
    /// A child came or went.
    Move(Arc<str>, Arc<str>, bool),
}

/// The tree at every transaction.
#[derive(Debug)]
pub struct Versions {
    lines: BTreeMap<Arc<str>, Line>,
    /// All changes, in order.
    changes: Vec<Change>,
    zxid: i64,
    time_ms: i64,
    undo: Vec<Undo>,
    /// What the unfinished transaction has changed.
    pending: Vec<Change>,
    /// The ephemeral nodes of each session that has some.
    owned: BTreeMap<i64, BTreeSet<Arc<str>>>,
}

impl Versions {
    /// What a fresh ensemble holds: the root and ZooKeeper's own nodes.
    pub fn fresh() -> Versions {
        let mut versions = Versions {
            lines: BTreeMap::new(),
            changes: Vec::new(),
            zxid: 0,
            time_ms: 0,
            undo: Vec::new(),
            pending: Vec::new(),
            owned: BTreeMap::new(),
        };
        let open: Arc<[Acl]> = open_acl().into();
        let read_only: Arc<[Acl]> =
            [Acl { permissions: permission::READ, identity: Identity::anyone() }].into();
        for (path, children, acl) in [
            ("/", &["zookeeper"][..], &open),
            ("/zookeeper", &["config", "quota"][..], &open),
            ("/zookeeper/config", &[], &read_only),
            ("/zookeeper/quota", &[], &open),
        ] {
            let mut node = new_node(Some(Arc::from([])), acl.clone(), Kind::Persistent, 0, 0);
            node.children = children.len() as i32;
            let names = children.iter().map(|name| Arc::from(*name)).collect();
            let line = Line { nodes: vec![(0, Some(node))], names, ..Line::default() };
            versions.lines.insert(path.into(), line);
        }
        versions
    }

    pub fn zxid(&self) -> i64 {
        self.zxid
    }

    /// The leader's wall clock when the transaction was proposed.
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// The steps of this transaction follow.
    pub fn begin(&mut self, zxid: i64, time_ms: i64) {
        self.zxid = zxid;
        self.time_ms = time_ms;
    }

    /// The transaction is done.
    pub fn commit(&mut self) {
        self.undo.clear();
        for change in self.pending.drain(..) {
            if let Some(line) = self.lines.get_mut(&change.path) {
                line.changes.push((change.zxid, change.event, change.public));
            }
            self.changes.push(change);
        }
    }

    /// Nothing of the transaction has happened.
    pub fn roll_back(&mut self) {
        self.pending.clear();
        while let Some(step) = self.undo.pop() {
            match step {
                Undo::Node(path, replaced) => {
                    let line = self.lines.get_mut(&path).expect("it was written");
                    let undone = line.nodes.pop().and_then(|(_, node)| node);
                    line.nodes.extend(replaced.map(|node| (self.zxid, node)));
                    let back = line.nodes.last().and_then(|(_, node)| owner(node.as_ref()));
                    self.own(&path, owner(undone.as_ref()), back);
                }
                Undo::Move(parent, name, came) => {
                    let line = self.lines.get_mut(&parent).expect("it was written");
                    line.moves.pop();
                    if came {
                        line.names.remove(&name)
                    } else {
                        line.names.insert(name)
                    };
                }
            }
        }
    }

    /// A node as it is now.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.lines.get(key(path))?.nodes.last()?.1.as_ref()
    }

    /// A node as it was right after a transaction.
    pub fn get_at(&self, path: &str, zxid: i64) -> Option<&Node> {
        let line = self.lines.get(key(path))?;
        let versions = line.nodes.partition_point(|(at, _)| *at <= zxid);
        line.nodes[..versions].last()?.1.as_ref()
    }

    /// The last node that the path had up to a transaction, even where it was gone by then.
    pub fn last_node_at(&self, path: &str, zxid: i64) -> Option<&Node> {
        let line = self.lines.get(key(path))?;
        let versions = line.nodes.partition_point(|(at, _)| *at <= zxid);
        line.nodes[..versions].iter().rev().find_map(|(_, node)| node.as_ref())
    }

    /// The names of a node's children right after a transaction, in order.
    pub fn children_at(&self, path: &str, zxid: i64) -> Vec<Arc<str>> {
        let Some(line) = self.lines.get(key(path)) else { return Vec::new() };
        let later = line.moves.partition_point(|(at, ..)| *at <= zxid);
        let mut names = line.names.clone();
        for (_, name, came) in line.moves[later..].iter().rev() {
            if *came {
                names.remove(name);
            } else {
                names.insert(name.clone());
            }
        }
        names.into_iter().collect()
    }

    /// What changed at a path after a transaction, in order: transaction, event, and whether everybody may hear of it.
    pub fn changes_after(&self, path: &str, zxid: i64) -> &[(i64, EventType, bool)] {
        let Some(line) = self.lines.get(key(path)) else { return &[] };
        let from = line.changes.partition_point(|(at, ..)| *at <= zxid);
        &line.changes[from..]
    }

    /// All changes from a place in their order on.
    pub fn all_changes(&self, from: usize) -> &[Change] {
        &self.changes[from.min(self.changes.len())..]
    }

    /// The changes of one transaction.
    pub fn changes_of(&self, zxid: i64) -> &[Change] {
        &self.changes[self.changes_up_to(zxid - 1)..self.changes_up_to(zxid)]
    }

    /// How many changes the transactions up to this one have made.
    pub fn changes_up_to(&self, zxid: i64) -> usize {
        self.changes.partition_point(|change| change.zxid <= zxid)
    }

    /// Adds a node below one that is there.
    pub fn add(&mut self, path: &str, data: Option<&[u8]>, acl: Vec<Acl>, kind: Kind) -> &Node {
        let node = new_node(data.map(Arc::from), acl.into(), kind, self.zxid, self.time_ms);
        let (parent, name) = parent_and_name(path);
        let public = node.is_public();
        self.set(path, Some(node));
        self.tell(EventType::NodeCreated, path, public);
        self.move_child(parent, name, true);
        self.get(path).expect("it was just added")
    }

    /// Removes a node that has no children.
    pub fn remove(&mut self, path: &str) {
        let (parent, name) = parent_and_name(path);
        let public = self.get(path).is_some_and(Node::is_public);
        self.set(path, None);
        self.tell(EventType::NodeDeleted, path, public);
        self.move_child(parent, name, false);
    }

    fn move_child(&mut self, parent: &str, name: &str, came: bool) {
        let zxid = self.zxid;
        let public = self.change(parent, |node| {
            node.children += if came { 1 } else { -1 };
            node.creates += i32::from(came);
            node.pzxid = zxid;
        });
        let (parent, name): (Arc<str>, Arc<str>) = (Arc::from(key(parent)), Arc::from(name));
        let line = self.lines.get_mut(&parent).expect("a parent exists");
        if came {
            line.names.insert(name.clone())
        } else {
            line.names.remove(&name)
        };
        line.moves.push((zxid, name.clone(), came));
        self.undo.push(Undo::Move(parent.clone(), name, came));
        self.tell(EventType::NodeChildrenChanged, &parent, public);
    }

    /// Writes a node's data.
    pub fn write(&mut self, path: &str, data: Option<&[u8]>) -> &Node {
        let (zxid, time_ms) = (self.zxid, self.time_ms);
        let public = self.change(path, |node| {
            node.data = data.map(Arc::from);
            node.version = node.version.wrapping_add(1);
            node.mzxid = zxid;
            node.mtime = time_ms;
        });
        self.tell(EventType::NodeDataChanged, path, public);
        self.get(path).expect("it was just written")
    }

    /// Writes a node's access list.
    pub fn write_acl(&mut self, path: &str, acl: Vec<Acl>) -> &Node {
        self.change(path, |node| {
            node.acl = acl.into();
            node.aversion = node.aversion.wrapping_add(1);
        });
        self.get(path).expect("it was just written")
    }

    /// Changes a node that is there. Tells whether everybody may read it.
    fn change(&mut self, path: &str, change: impl FnOnce(&mut Node)) -> bool {
        let mut node = self.get(path).expect("it is there").clone();
        change(&mut node);
        let public = node.is_public();
        self.set(path, Some(node));
        public
    }

    fn set(&mut self, path: &str, node: Option<Node>) {
        let path: Arc<str> = Arc::from(key(path));
        let (before, after) = (owner(self.get(&path)), owner(node.as_ref()));
        let line = self.lines.entry(path.clone()).or_default();
        let replaced = line.nodes.pop_if(|(at, _)| *at == self.zxid).map(|(_, node)| node);
        line.nodes.push((self.zxid, node));
        self.own(&path, before, after);
        self.undo.push(Undo::Node(path, replaced));
    }

    /// The ephemeral nodes of a session.
    pub fn owned_by(&self, session: i64) -> Vec<Arc<str>> {
        self.owned.get(&session).into_iter().flatten().cloned().collect()
    }

    fn own(&mut self, path: &Arc<str>, before: Option<i64>, after: Option<i64>) {
        if before == after {
            return;
        }
        if let Some(paths) = before.and_then(|session| self.owned.get_mut(&session)) {
            paths.remove(path);
        }
        if let Some(session) = after {
            self.owned.entry(session).or_default().insert(path.clone());
        }
    }

    fn tell(&mut self, event: EventType, path: &str, public: bool) {
        self.pending.push(Change { zxid: self.zxid, event, path: Arc::from(key(path)), public });
    }
}

fn new_node(data: Option<Arc<[u8]>>, acl: Arc<[Acl]>, kind: Kind, zxid: i64, time_ms: i64) -> Node {
    Node {
        data,
        acl,
        kind,
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: time_ms,
        mtime: time_ms,
        version: 0,
        aversion: 0,
        creates: 0,
        children: 0,
    }
}

/// The session with which a node goes.
fn owner(node: Option<&Node>) -> Option<i64> {
    match node?.kind {
        Kind::Ephemeral { session } => Some(session),
        _ => None,
    }
}

/// The empty path is another name of the root.
fn key(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// Where a node hangs, and its name there.
fn parent_and_name(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
