//! Where nodes live: slots in chunks, named by small numbers.
//!
//! Owns slots and the list of free ones. Which slot a new node gets depends on the slots alone, so members that applied
//! the same commands, or took over a snapshot of one that did, have the same nodes in the same slots. Knows nothing of
//! what the nodes mean.

use super::{acl_table::AclId, name::Name};

/// A node's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    /// No node.
    pub(super) const NONE: NodeId = NodeId(u32::MAX);
    /// The root of the tree.
    pub(super) const ROOT: NodeId = NodeId(0);

    /// The node, where there is one.
    #[inline]
    pub(super) fn some(self) -> Option<NodeId> {
        (self != NodeId::NONE).then_some(self)
    }
}

/// A node of the tree. Only its data and a long name are allocations of their own. The fields fill two lines of a cache:
/// what it takes to find a node and to read it is in the first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Node {
    /// The hash of the whole path.
    pub(super) path_hash: u64,
    /// The last name of its path; empty for the root.
    pub(super) name: Name,
    pub(super) data: Option<Box<[u8]>>,
    pub(super) parent: NodeId,
    pub(super) acl: AclId,
    /// Where the [`Owners`](super::owners::Owners) say what it goes with; [`NOT_OWNED`] for a persistent node.
    pub(super) owned: u32,
    pub(super) first_child: NodeId,
    pub(super) previous: NodeId,
    pub(super) next: NodeId,
    pub(super) child_count: u32,
    /// How many children were ever created in it: the next sequence number.
    pub(super) creates: i32,
    pub(super) version: i32,
    pub(super) aversion: i32,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime_ms: i64,
    pub(super) mtime_ms: i64,
}

/// The place of a node that goes with nothing.
pub(super) const NOT_OWNED: u32 = u32::MAX;

/// One slot, aligned to a line of a cache.
#[derive(Debug)]
#[repr(align(64))]
pub(super) enum Slot {
    /// A node is here.
    Node(Node),
    /// Nothing is here; the next free slot.
    Free(NodeId),
}

const _: () = assert!(size_of::<Slot>() == 128, "a slot fills two lines");

const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;

/// All slots. They never move, so growing costs the same at any size.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Vec<Vec<Slot>>,
    length: u32,
    free: NodeId,
}

impl Arena {
    pub(super) fn new() -> Arena {
        Arena { chunks: Vec::new(), length: 0, free: NodeId::NONE }
    }

    /// How many slots there are, free ones included.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// The first free slot.
    pub(super) fn free(&self) -> NodeId {
        self.free
    }

    /// Sets the first free slot, of slots that came from a snapshot.
    pub(super) fn set_free(&mut self, free: NodeId) {
        self.free = free;
    }

    #[inline]
    pub(super) fn slot(&self, id: NodeId) -> &Slot {
        &self.chunks[(id.0 >> CHUNK_BITS) as usize][id.0 as usize % CHUNK]
    }

    #[inline]
    fn slot_mut(&mut self, id: NodeId) -> &mut Slot {
        &mut self.chunks[(id.0 >> CHUNK_BITS) as usize][id.0 as usize % CHUNK]
    }

    /// A node that is known to be there.
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        match self.slot(id) {
            Slot::Node(node) => node,
            Slot::Free(_) => panic!("slot {} holds no node", id.0),
        }
    }

    /// A node that is known to be there.
    #[inline]
    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        match self.slot_mut(id) {
            Slot::Node(node) => node,
            Slot::Free(_) => panic!("slot {} holds no node", id.0),
        }
    }

    /// The slot that the next node will get.
    pub(super) fn next_slot(&self) -> NodeId {
        self.free.some().unwrap_or(NodeId(self.length))
    }

    /// Adds a slot at the end.
    pub(super) fn push(&mut self, slot: Slot) -> NodeId {
        let id = NodeId(self.length);
        assert_ne!(id, NodeId::NONE, "a tree has fewer than 2^32 - 1 nodes");
        if self.chunks.len() == (id.0 >> CHUNK_BITS) as usize {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[(id.0 >> CHUNK_BITS) as usize].push(slot);
        self.length += 1;
        id
    }

    /// Puts a node into the next slot.
    pub(super) fn allocate(&mut self, node: Node) -> NodeId {
        match self.free.some() {
            Some(id) => {
                self.put_back(id, node);
                id
            }
            None => self.push(Slot::Node(node)),
        }
    }

    /// Takes a node out of its slot, which is then the first free one.
    pub(super) fn release(&mut self, id: NodeId) -> Node {
        let free = Slot::Free(self.free);
        match std::mem::replace(self.slot_mut(id), free) {
            Slot::Node(node) => {
                self.free = id;
                node
            }
            Slot::Free(_) => panic!("slot {} holds no node", id.0),
        }
    }

    /// Undoes the release that was the last.
    pub(super) fn put_back(&mut self, id: NodeId, node: Node) {
        assert_eq!(self.free, id, "what was released last is put back first");
        match std::mem::replace(self.slot_mut(id), Slot::Node(node)) {
            Slot::Free(next) => self.free = next,
            Slot::Node(_) => panic!("slot {} holds a node already", id.0),
        }
    }

    /// Undoes an allocation, the last one; `length` is how many slots there were before it.
    pub(super) fn undo_allocate(&mut self, id: NodeId, length: u32) -> Node {
        if self.length == length {
            return self.release(id);
        }
        assert_eq!((id.0, self.length), (length, length + 1), "what was added last goes first");
        self.length = length;
        match self.chunks[(length >> CHUNK_BITS) as usize].pop() {
            Some(Slot::Node(node)) => node,
            _ => panic!("slot {length} holds no node"),
        }
    }
}
