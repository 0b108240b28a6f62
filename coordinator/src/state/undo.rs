//! What a multi has done so far, so that it can be undone when a later operation fails.
//!
//! Owns the journal and undoing: afterwards the tree is as it was, down to the slots of its nodes.

use super::{
    arena::{Node, NodeId},
    owners::Owned,
    tree::{Counts, Tree},
};

/// One step, with what is needed to take it back.
#[derive(Debug)]
pub(super) enum Undo {
    /// A node was created; `length` is how many slots there were.
    Created { id: NodeId, length: u32, parent_pzxid: i64 },
    /// A node was deleted. Its links still say where it was.
    Removed { id: NodeId, node: Node, place: Option<Owned>, parent_pzxid: i64 },
    /// Version, mzxid and mtime of a node were changed.
    Stamped { id: NodeId, before: (i32, i64, i64) },
    /// Data was replaced.
    Replaced { id: NodeId, data: Option<Box<[u8]>> },
    /// A path got a quota.
    QuotaAdded(String),
    /// A path lost its quota.
    QuotaRemoved(String),
}

/// The steps of a multi.
#[derive(Debug)]
pub(super) struct Journal {
    before: Counts,
    pub(super) steps: Vec<Undo>,
}

impl Tree {
    /// From here on every step is noted, until [`commit`](Tree::commit) or [`roll_back`](Tree::roll_back).
    pub(super) fn begin(&mut self) {
        assert!(self.journal.is_none(), "multis do not contain multis");
        self.journal = Some(Journal { before: self.counts, steps: Vec::new() });
    }

    /// Notes a step, where steps are noted.
    #[inline]
    pub(super) fn note(&mut self, step: impl FnOnce() -> Undo) {
        if let Some(journal) = &mut self.journal {
            journal.steps.push(step());
        }
    }

    /// Keeps everything.
    pub(super) fn commit(&mut self) {
        let journal = self.journal.take().expect("a multi has begun");
        for step in journal.steps {
            if let Undo::Removed { node, .. } = step {
                self.acls.release(node.acl);
            }
        }
    }

    /// Takes everything back, the last step first.
    pub(super) fn roll_back(&mut self) {
        let journal = self.journal.take().expect("a multi has begun");
        for step in journal.steps.into_iter().rev() {
            self.take_back(step);
        }
        self.counts = journal.before;
    }

    /// Changes nodes without capturing them: the step itself has done that.
    fn take_back(&mut self, step: Undo) {
        match step {
            Undo::Created { id, length, parent_pzxid } => {
                let node = self.arena.node(id);
                self.index.remove(node.path_hash, id);
                self.leave_owner(node.owned);
                let node = self.arena.undo_allocate(id, length);
                self.acls.release(node.acl);
                if let Some(next) = node.next.some() {
                    self.arena.node_mut(next).previous = NodeId::NONE;
                }
                let parent = self.arena.node_mut(node.parent);
                assert_eq!(parent.first_child, id, "the newest child is the first");
                parent.first_child = node.next;
                parent.child_count -= 1;
                parent.creates = parent.creates.wrapping_sub(1);
                parent.pzxid = parent_pzxid;
            }
            Undo::Removed { id, node, place, parent_pzxid } => {
                let (hash, parent, owned) = (node.path_hash, node.parent, node.owned);
                let (previous, next) = (node.previous.some(), node.next.some());
                self.arena.put_back(id, node);
                if let Some(place) = place {
                    self.rejoin_owner(id, owned, place);
                }
                let arena = &self.arena;
                self.index.insert(hash, id, |other| arena.node(other).path_hash);
                if let Some(next) = next {
                    self.arena.node_mut(next).previous = id;
                }
                match previous {
                    Some(previous) => self.arena.node_mut(previous).next = id,
                    None => self.arena.node_mut(parent).first_child = id,
                }
                let parent = self.arena.node_mut(parent);
                parent.child_count += 1;
                parent.pzxid = parent_pzxid;
            }
            Undo::Stamped { id, before } => {
                let node = self.arena.node_mut(id);
                (node.version, node.mzxid, node.mtime_ms) = before;
            }
            Undo::Replaced { id, data } => self.arena.node_mut(id).data = data,
            Undo::QuotaAdded(path) => assert!(self.quotas.remove(&path), "the quota of {path} was added"),
            Undo::QuotaRemoved(path) => assert!(self.quotas.insert(path), "a removed quota is put back once"),
        }
    }
}
