//! Access lists, each kept once however many nodes have it.
//!
//! Owns the lists and the counts of who uses them. Their numbers mean nothing outside of this process.

use super::{
    access::{Caller, grants, world_permissions},
    hash::{hash_bytes, mix},
};
use hashbrown::HashTable;
use sillon_protocol::zookeeper::{Acl, records::open_acl};
use std::sync::Arc;

/// The number of a list in this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AclId(pub(super) u32);

impl AclId {
    /// The list that permits everything to everybody. It never goes.
    pub(super) const OPEN: AclId = AclId(0);
}

#[derive(Debug)]
struct Entry {
    list: Arc<[Acl]>,
    hash: u64,
    uses: u32,
    /// What everybody may do: most checks end here.
    world: i32,
}

/// All lists in use.
#[derive(Debug)]
pub(super) struct AclTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_hash: HashTable<u32>,
}

/// The hash of a list's content.
fn hash_of(list: &[Acl]) -> u64 {
    list.iter().fold(list.len() as u64, |hash, entry| {
        let hash = mix(hash, u64::from(entry.permissions.cast_unsigned()), 0);
        hash_bytes(hash_bytes(hash, entry.identity.scheme.as_bytes()), entry.identity.id.as_bytes())
    })
}

impl AclTable {
    pub(super) fn new() -> AclTable {
        let mut table = AclTable { entries: Vec::new(), free: Vec::new(), by_hash: HashTable::new() };
        let open = table.acquire(&open_acl());
        assert_eq!(open, AclId::OPEN, "the open list comes first");
        table
    }

    /// The number of a list, which is used once more from now on.
    pub(super) fn acquire(&mut self, list: &[Acl]) -> AclId {
        let hash = hash_of(list);
        let entries = &mut self.entries;
        let same = |id: &u32| entries[*id as usize].hash == hash && *entries[*id as usize].list == *list;
        if let Some(id) = self.by_hash.find(hash, same) {
            let id = AclId(*id);
            self.acquire_again(id);
            return id;
        }
        let entry = Entry { list: list.into(), hash, uses: 1, world: world_permissions(list) };
        let id = match self.free.pop() {
            Some(id) => {
                entries[id as usize] = entry;
                id
            }
            None => {
                entries.push(entry);
                u32::try_from(entries.len() - 1).expect("fewer lists than nodes")
            }
        };
        self.by_hash.insert_unique(hash, id, |id| entries[*id as usize].hash);
        AclId(id)
    }

    /// Uses a list once more.
    pub(super) fn acquire_again(&mut self, id: AclId) {
        self.entries[id.0 as usize].uses += 1;
    }

    /// Uses a list once less; it goes with its last use.
    pub(super) fn release(&mut self, id: AclId) {
        let entry = &mut self.entries[id.0 as usize];
        entry.uses = entry.uses.checked_sub(1).expect("a list is released as often as it was acquired");
        if entry.uses > 0 {
            return;
        }
        assert_ne!(id, AclId::OPEN, "the open list stays");
        entry.list = Arc::new([]);
        match self.by_hash.find_entry(entry.hash, |other| *other == id.0) {
            Ok(found) => found.remove(),
            Err(_) => panic!("list {} is in the table", id.0),
        };
        self.free.push(id.0);
    }

    /// The list of a number.
    pub(super) fn list(&self, id: AclId) -> &Arc<[Acl]> {
        &self.entries[id.0 as usize].list
    }

    /// The hash of a list's content.
    #[inline]
    pub(super) fn hash(&self, id: AclId) -> u64 {
        self.entries[id.0 as usize].hash
    }

    /// Whether the list grants one of these permissions.
    #[inline]
    pub(super) fn permits(&self, id: AclId, permissions: i32, caller: Caller<'_>) -> bool {
        let entry = &self.entries[id.0 as usize];
        entry.world & permissions != 0 || grants(&entry.list, permissions, caller)
    }

    /// How many lists are in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// How often a list is used.
    #[cfg(test)]
    pub(super) fn uses(&self, id: u32) -> u32 {
        self.entries[id as usize].uses
    }
}
