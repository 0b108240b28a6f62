//! The tree: nodes, who is below whom, and what is counted and digested about them.
//!
//! Owns its consistency: links, index, counters and digest change together, here. Checks no permission and no version,
//! and reports no event: whoever calls has decided.

use super::{
    acl_table::{AclId, AclTable},
    arena::{Arena, NOT_OWNED, Node, NodeId},
    capture::Capture,
    hash::{hash_bytes, mix},
    index::Index,
    name::Name,
    owners::{Owner, Owners},
    undo::{Journal, Undo},
};
use sillon_protocol::zookeeper::{Acl, Stat, acl::permission};
use std::collections::BTreeSet;

/// What is counted about the tree; the digest is one of these counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Nodes, the root included.
    pub(super) nodes: u32,
    /// Ephemeral nodes.
    pub(super) ephemerals: u32,
    /// Characters of all paths and bytes of all data.
    pub(super) data_bytes: u64,
    /// A sum over all nodes of the hashes of what they hold.
    pub(super) digest: u64,
}

/// A node to be.
pub(super) struct NewNode {
    pub(super) data: Option<Box<[u8]>>,
    /// Acquired already.
    pub(super) acl: AclId,
    pub(super) owner: Option<Owner>,
    pub(super) zxid: i64,
    pub(super) time_ms: i64,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) arena: Arena,
    pub(super) index: Index,
    pub(super) acls: AclTable,
    pub(super) owners: Owners,
    /// Paths with a quota.
    pub(super) quotas: BTreeSet<String>,
    pub(super) counts: Counts,
    pub(super) capture: Option<Capture>,
    pub(super) journal: Option<Journal>,
}

/// The hash of the root's path, from which those of all others follow.
pub(super) const ROOT_HASH: u64 = 0x5111_0a11_5111_0a11;

impl Tree {
    /// A tree as ZooKeeper begins with.
    pub(super) fn new() -> Tree {
        let mut tree = Tree::without_nodes();
        tree.plant();
        let zookeeper = tree.insert_system(NodeId::ROOT, "zookeeper", AclId::OPEN);
        tree.insert_system(zookeeper, "quota", AclId::OPEN);
        let mut read_only = sillon_protocol::zookeeper::records::open_acl();
        read_only[0].permissions = permission::READ;
        let acl = tree.acls.acquire(&read_only);
        let config = tree.insert_system(zookeeper, "config", acl);
        tree.change(config, |node| node.aversion = -1);
        tree
    }

    /// Nothing at all, not even a root: for a snapshot to fill.
    pub(super) fn without_nodes() -> Tree {
        Tree {
            arena: Arena::new(),
            index: Index::new(),
            acls: AclTable::new(),
            owners: Owners::new(),
            quotas: BTreeSet::new(),
            counts: Counts::default(),
            capture: None,
            journal: None,
        }
    }

    fn plant(&mut self) {
        let root = Node {
            name: Name::new(""),
            data: Some([].into()),
            path_hash: ROOT_HASH,
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime_ms: 0,
            mtime_ms: 0,
            version: 0,
            aversion: 0,
            creates: 0,
            child_count: 0,
            parent: NodeId::NONE,
            first_child: NodeId::NONE,
            previous: NodeId::NONE,
            next: NodeId::NONE,
            acl: AclId::OPEN,
            owned: NOT_OWNED,
        };
        self.acls.acquire_again(AclId::OPEN);
        self.enter(NodeId::ROOT, root);
    }

    /// A node that is there from the beginning: it counts as no creation.
    fn insert_system(&mut self, parent: NodeId, name: &str, acl: AclId) -> NodeId {
        if acl == AclId::OPEN {
            self.acls.acquire_again(acl);
        }
        let new = NewNode { data: Some([].into()), acl, owner: None, zxid: 0, time_ms: 0 };
        let id = self.insert(parent, name, new);
        self.change(parent, |node| node.creates = 0);
        id
    }

    /// Puts a node into the next slot, which is `id`, and enters it everywhere but in its parent.
    fn enter(&mut self, id: NodeId, node: Node) {
        let hash = node.path_hash;
        self.counts.digest = self.counts.digest.wrapping_add(self.node_digest(&node));
        self.counts.nodes += 1;
        assert_eq!(self.arena.allocate(node), id, "the next slot was known");
        let arena = &self.arena;
        self.index.insert(hash, id, |other| arena.node(other).path_hash);
        let node = self.arena.node(id);
        self.counts.data_bytes +=
            node.data.as_ref().map_or(0, |data| data.len() as u64) + self.path_length(id);
        if matches!(self.owners.owner(node.owned), Some(Owner::Session(_))) {
            self.counts.ephemerals += 1;
        }
    }

    /// The node of a path. Both the empty path and `/` are the root; any other that is not legal has no node.
    pub(super) fn find(&self, path: &str) -> Option<NodeId> {
        if path.len() <= 1 {
            return matches!(path, "" | "/").then_some(NodeId::ROOT);
        }
        let names = path.strip_prefix('/')?;
        let hash = names.split('/').fold(ROOT_HASH, |hash, name| hash_bytes(hash, name.as_bytes()));
        self.index.find(hash, |id| self.has_path(id, path))
    }

    fn has_path(&self, mut id: NodeId, path: &str) -> bool {
        let mut rest = path.as_bytes();
        while id != NodeId::ROOT {
            let node = self.arena.node(id);
            let Some(parent) =
                rest.strip_suffix(node.name.as_bytes()).and_then(|rest| rest.strip_suffix(b"/"))
            else {
                return false;
            };
            rest = parent;
            id = node.parent;
        }
        rest.is_empty()
    }

    /// The child of a name.
    #[inline]
    pub(super) fn child(&self, parent: NodeId, name: &str) -> Option<NodeId> {
        let hash = hash_bytes(self.arena.node(parent).path_hash, name.as_bytes());
        self.index.find(hash, |id| {
            let node = self.arena.node(id);
            node.parent == parent && node.name.as_bytes() == name.as_bytes()
        })
    }

    /// The path of a node.
    pub(super) fn path(&self, id: NodeId) -> String {
        let mut names = Vec::with_capacity(8);
        let mut at = id;
        while at != NodeId::ROOT {
            let node = self.arena.node(at);
            names.push(node.name.as_str());
            at = node.parent;
        }
        if names.is_empty() {
            return "/".to_owned();
        }
        let mut path = String::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.into_iter().rev() {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    /// How many characters the path has. No legal one has a character of more than 16 bits, so Java counts the same.
    fn path_length(&self, id: NodeId) -> u64 {
        let mut length = u64::from(id == NodeId::ROOT);
        let mut at = id;
        while at != NodeId::ROOT {
            let node = self.arena.node(at);
            length += node.name.characters() + 1;
            at = node.parent;
        }
        length
    }

    /// Creates a child that is not there yet.
    pub(super) fn insert(&mut self, parent: NodeId, name: &str, new: NewNode) -> NodeId {
        let id = self.arena.next_slot();
        let length = self.arena.length();
        self.touch(id);
        let above = self.arena.node(parent);
        let (parent_pzxid, next) = (above.pzxid, above.first_child);
        let path_hash = hash_bytes(above.path_hash, name.as_bytes());
        if let Some(next) = next.some() {
            self.edit(next).previous = id;
        }
        let owned = new.owner.map_or(NOT_OWNED, |owner| self.join_owner(id, owner));
        let node = Node {
            name: Name::new(name),
            data: new.data,
            path_hash,
            czxid: new.zxid,
            mzxid: new.zxid,
            pzxid: new.zxid,
            ctime_ms: new.time_ms,
            mtime_ms: new.time_ms,
            version: 0,
            aversion: 0,
            creates: 0,
            child_count: 0,
            parent,
            first_child: NodeId::NONE,
            previous: NodeId::NONE,
            next,
            acl: new.acl,
            owned,
        };
        self.enter(id, node);
        self.change(parent, |node| {
            node.first_child = id;
            node.child_count += 1;
            node.creates = node.creates.wrapping_add(1);
            node.pzxid = new.zxid;
        });
        self.note(|| Undo::Created { id, length, parent_pzxid });
        id
    }

    /// Deletes a node that has no children.
    pub(super) fn remove(&mut self, id: NodeId, zxid: i64) {
        self.touch(id);
        let path_length = self.path_length(id);
        let node = self.arena.node(id);
        assert_eq!(node.child_count, 0, "only a node without children is deleted");
        let (parent, previous, next, owned) = (node.parent, node.previous, node.next, node.owned);
        let digest = self.node_digest(node);
        let data_bytes = node.data.as_ref().map_or(0, |data| data.len() as u64);
        self.index.remove(node.path_hash, id);
        self.counts.digest = self.counts.digest.wrapping_sub(digest);
        self.counts.nodes -= 1;
        self.counts.data_bytes -= data_bytes + path_length;
        let place = self.leave_owner(owned);
        if matches!(place.map(|place| place.owner), Some(Owner::Session(_))) {
            self.counts.ephemerals -= 1;
        }
        if let Some(previous) = previous.some() {
            self.edit(previous).next = next;
        }
        if let Some(next) = next.some() {
            self.edit(next).previous = previous;
        }
        let parent_pzxid = self.arena.node(parent).pzxid;
        self.change(parent, |node| {
            if previous == NodeId::NONE {
                node.first_child = next;
            }
            node.child_count -= 1;
            node.pzxid = node.pzxid.max(zxid);
        });
        let node = self.arena.release(id);
        match &mut self.journal {
            // The list is still in use: the node may come back.
            Some(journal) => journal.steps.push(Undo::Removed { id, node, place, parent_pzxid }),
            None => self.acls.release(node.acl),
        }
    }

    /// Writes a node's data as a client does.
    pub(super) fn set_data(
        &mut self,
        id: NodeId,
        data: Option<&[u8]>,
        version: i32,
        zxid: i64,
        time_ms: i64,
    ) {
        let node = self.arena.node(id);
        let before = (node.version, node.mzxid, node.mtime_ms);
        self.replace_data(id, data.map(Into::into));
        self.change(id, |node| (node.version, node.mzxid, node.mtime_ms) = (version, zxid, time_ms));
        self.note(|| Undo::Stamped { id, before });
    }

    /// Replaces a node's data and nothing else.
    pub(super) fn replace_data(&mut self, id: NodeId, data: Option<Box<[u8]>>) {
        let size = |data: &Option<Box<[u8]>>| data.as_ref().map_or(0, |data| data.len() as u64);
        let node = self.arena.node(id);
        let added = data_digest(node.path_hash, data.as_deref());
        let removed = data_digest(node.path_hash, node.data.as_deref());
        self.counts.digest = self.counts.digest.wrapping_add(added).wrapping_sub(removed);
        self.counts.data_bytes = self.counts.data_bytes + size(&data) - size(&node.data);
        let old = std::mem::replace(&mut self.edit(id).data, data);
        self.note(|| Undo::Replaced { id, data: old });
    }

    /// Replaces a node's access list by one that was acquired for it. Never part of a multi.
    pub(super) fn set_acl(&mut self, id: NodeId, acl: AclId, aversion: i32) {
        assert!(self.journal.is_none(), "access lists are not changed in a multi");
        let node = self.arena.node(id);
        let (hash, old) = (node.path_hash, node.acl);
        let (added, removed) = (acl_digest(hash, self.acls.hash(acl)), acl_digest(hash, self.acls.hash(old)));
        self.counts.digest = self.counts.digest.wrapping_add(added).wrapping_sub(removed);
        self.change(id, |node| (node.acl, node.aversion) = (acl, aversion));
        self.acls.release(old);
    }

    /// Changes numbers of a node, and the digest with them.
    pub(super) fn change(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let removed = self.numbers_digest(self.arena.node(id));
        change(self.edit(id));
        let added = self.numbers_digest(self.arena.node(id));
        self.counts.digest = self.counts.digest.wrapping_add(added).wrapping_sub(removed);
    }

    /// A node that is about to change: the only way to one, but for undoing.
    #[inline]
    pub(super) fn edit(&mut self, id: NodeId) -> &mut Node {
        self.touch(id);
        self.arena.node_mut(id)
    }

    /// What clients see of a node besides its data.
    pub(super) fn stat(&self, id: NodeId) -> Stat {
        let node = self.arena.node(id);
        let ephemeral_owner = match self.owners.owner(node.owned) {
            Some(Owner::Session(session)) => session.0,
            _ => 0,
        };
        let children = node.child_count.cast_signed();
        Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            ctime: node.ctime_ms,
            mtime: node.mtime_ms,
            version: node.version,
            // What is kept counts creations, what is shown counts deletions too.
            cversion: node.creates.wrapping_mul(2).wrapping_sub(children),
            aversion: node.aversion,
            ephemeral_owner,
            data_length: node.data.as_ref().map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX)),
            num_children: children,
            pzxid: node.pzxid,
        }
    }

    /// The access list of a node.
    pub(super) fn acl(&self, id: NodeId) -> &std::sync::Arc<[Acl]> {
        self.acls.list(self.arena.node(id).acl)
    }

    /// The children of a node, newest first.
    pub(super) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.arena.node(id).first_child.some();
        std::iter::successors(first, |id| self.arena.node(*id).next.some())
    }

    /// Calls back for each node below a node, not for the node itself.
    pub(super) fn for_each_below(&self, top: NodeId, mut visit: impl FnMut(&Node)) {
        let mut at = top;
        loop {
            let mut next = self.arena.node(at).first_child;
            while next == NodeId::NONE {
                if at == top {
                    return;
                }
                let node = self.arena.node(at);
                (next, at) = (node.next, if node.next == NodeId::NONE { node.parent } else { at });
            }
            at = next;
            visit(self.arena.node(at));
        }
    }

    /// The share of a node in the digest.
    pub(super) fn node_digest(&self, node: &Node) -> u64 {
        self.numbers_digest(node)
            .wrapping_add(data_digest(node.path_hash, node.data.as_deref()))
            .wrapping_add(acl_digest(node.path_hash, self.acls.hash(node.acl)))
    }

    /// The share of everything but data and access list.
    fn numbers_digest(&self, node: &Node) -> u64 {
        let word = |number: i64| number.cast_unsigned();
        let pair =
            |high: i32, low: i32| u64::from(high.cast_unsigned()) << 32 | u64::from(low.cast_unsigned());
        let (kind, owner) = match self.owners.owner(node.owned) {
            None => (0, 0),
            Some(Owner::Session(session)) => (1, session.0),
            Some(Owner::Container) => (2, 0),
            Some(Owner::TimeToLive(ttl_ms)) => (3, ttl_ms),
        };
        let mut hash = mix(node.path_hash, word(node.czxid), word(node.mzxid));
        hash = mix(hash, word(node.pzxid), word(node.ctime_ms));
        hash = mix(hash, word(node.mtime_ms), pair(node.version, node.aversion));
        hash = mix(hash, pair(node.creates, node.child_count.cast_signed()), word(owner));
        mix(hash, kind, 1)
    }
}

fn data_digest(path_hash: u64, data: Option<&[u8]>) -> u64 {
    match data {
        None => mix(path_hash, 0, 2),
        Some(data) => hash_bytes(mix(path_hash, 1, 2), data),
    }
}

fn acl_digest(path_hash: u64, acl_hash: u64) -> u64 {
    mix(path_hash, acl_hash, 3)
}
