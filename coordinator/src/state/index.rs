//! From the hash of a path to the nodes that may have it.
//!
//! Owns the tables. They are many small ones, so that none takes long to grow. The order of what they hold decides
//! nothing.

use super::arena::NodeId;
use hashbrown::HashTable;

const SHARDS: usize = 256;

/// All nodes by the hash of their path.
#[derive(Debug)]
pub(super) struct Index {
    shards: Vec<HashTable<NodeId>>,
}

impl Index {
    pub(super) fn new() -> Index {
        Index { shards: std::iter::repeat_with(HashTable::new).take(SHARDS).collect() }
    }

    /// Bits that neither the place in a table nor its tags depend on.
    #[inline]
    fn shard(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    /// The node of this hash that `is_it` agrees to.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(NodeId) -> bool) -> Option<NodeId> {
        self.shards[Self::shard(hash)].find(hash, |id| is_it(*id)).copied()
    }

    /// Adds a node; `hash_of` tells the hash of any that is there.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, id: NodeId, hash_of: impl Fn(NodeId) -> u64) {
        self.shards[Self::shard(hash)].insert_unique(hash, id, |other| hash_of(*other));
    }

    /// Removes a node that is there.
    pub(super) fn remove(&mut self, hash: u64, id: NodeId) {
        match self.shards[Self::shard(hash)].find_entry(hash, |other| *other == id) {
            Ok(entry) => {
                entry.remove();
            }
            Err(_) => panic!("slot {} is in the index", id.0),
        }
    }
}
