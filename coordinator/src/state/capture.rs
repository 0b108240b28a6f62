//! Taking a snapshot while writes go on.
//!
//! Owns the picture of the slots as they were when the snapshot began: a slot is written when the scan reaches it, or
//! just before it changes, whichever comes first. Beginning costs the same however large the tree is. Owns the form of
//! what is written, too; [`restore`](super::restore) reads it.

use super::{
    acl_table::{AclId, AclTable},
    arena::{Arena, NodeId, Slot},
    owners::{Owner, Owners},
    tree::Tree,
};
use sillon_protocol::zookeeper::Jute;
use std::collections::BTreeMap;

/// The form of what is written.
pub(super) const FORMAT: i32 = 1;

/// What a record is.
pub(super) mod kind {
    pub(in super::super) const HEADER: u8 = b'H';
    pub(in super::super) const ACL: u8 = b'A';
    pub(in super::super) const NODE: u8 = b'N';
    pub(in super::super) const FREE: u8 = b'F';
    pub(in super::super) const SESSION: u8 = b'S';
    pub(in super::super) const END: u8 = b'E';
}

/// What a node goes with, as a number.
pub(super) mod owner {
    pub(in super::super) const NOTHING: i32 = 0;
    pub(in super::super) const SESSION: i32 = 1;
    pub(in super::super) const CONTAINER: i32 = 2;
    pub(in super::super) const TIME_TO_LIVE: i32 = 3;
}

/// Records that nobody has taken yet. A record is its length in four bytes, its kind in one, and its fields.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    taken: usize,
}

impl Output {
    /// Appends a record.
    pub(super) fn record(&mut self, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0, 0, 0, kind]);
        fields(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - start - 4).expect("a record is smaller than 4 GiB");
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Takes up to so many bytes. Records may be cut in two.
    pub(super) fn take(&mut self, budget: usize) -> Vec<u8> {
        if self.taken == 0 && self.bytes.len() <= budget {
            return std::mem::take(&mut self.bytes);
        }
        let end = self.bytes.len().min(self.taken + budget);
        let chunk = self.bytes[self.taken..end].to_vec();
        self.taken = end;
        if self.taken * 2 >= self.bytes.len() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        chunk
    }
}

/// A snapshot of the slots that is being taken.
#[derive(Debug)]
pub(super) struct Capture {
    /// The slots that there were when it began.
    limit: u32,
    /// The scan has written all before this, except those that were written early.
    next: u32,
    /// A bit for each slot: whether it was written before the scan came to it.
    early: Vec<u64>,
    /// The numbers of lists in the snapshot. A number in the table may be used again for another list meanwhile, but
    /// never one that a slot still to be written refers to.
    acls: BTreeMap<AclId, i32>,
    pub(super) output: Output,
}

impl Capture {
    fn was_early(&self, id: u32) -> bool {
        self.early[id as usize / 64] & (1 << (id % 64)) != 0
    }
}

impl Tree {
    /// Begins a snapshot of the slots, behind what `output` holds already.
    pub(super) fn begin_capture(&mut self, output: Output) {
        let limit = self.arena.length();
        let early = vec![0; limit as usize / 64 + 1];
        self.capture = Some(Capture { limit, next: 0, early, acls: BTreeMap::new(), output });
    }

    /// A slot is about to change.
    #[inline]
    pub(super) fn touch(&mut self, id: NodeId) {
        if self.capture.is_some() {
            self.touch_captured(id);
        }
    }

    fn touch_captured(&mut self, id: NodeId) {
        let Tree { arena, acls, owners, capture: Some(capture), .. } = self else { return };
        if id.0 >= capture.limit || id.0 < capture.next || capture.was_early(id.0) {
            return;
        }
        capture.early[id.0 as usize / 64] |= 1 << (id.0 % 64);
        write_slot(arena, acls, owners, id, capture);
    }

    /// Goes on with the scan until so many bytes wait to be taken, or until it is through; says whether it is.
    pub(super) fn scan(&mut self, budget: usize) -> bool {
        let Tree { arena, acls, owners, capture: Some(capture), .. } = self else { return true };
        while capture.next < capture.limit && capture.output.len() < budget {
            let id = capture.next;
            if !capture.was_early(id) {
                write_slot(arena, acls, owners, NodeId(id), capture);
            }
            capture.next += 1;
        }
        capture.next == capture.limit
    }
}

fn write_slot(arena: &Arena, acls: &AclTable, owners: &Owners, id: NodeId, capture: &mut Capture) {
    let number = |id: NodeId| id.0.cast_signed();
    let node = match arena.slot(id) {
        Slot::Node(node) => node,
        Slot::Free(next) => {
            return capture.output.record(kind::FREE, |out| {
                number(id).write(out);
                number(*next).write(out);
            });
        }
    };
    let known = i32::try_from(capture.acls.len()).expect("fewer lists than nodes");
    let acl = *capture.acls.entry(node.acl).or_insert(known);
    if acl == known {
        capture.output.record(kind::ACL, |out| acls.list(node.acl).to_vec().write(out));
    }
    capture.output.record(kind::NODE, |out| {
        for id in [id, node.parent, node.first_child, node.previous, node.next] {
            number(id).write(out);
        }
        for long in [node.czxid, node.mzxid, node.pzxid, node.ctime_ms, node.mtime_ms] {
            long.write(out);
        }
        for int in [node.version, node.aversion, node.creates, node.child_count.cast_signed(), acl] {
            int.write(out);
        }
        let place = owners.place(node.owned);
        let (kind, value) = match place.map(|place| place.owner) {
            None => (owner::NOTHING, 0),
            Some(Owner::Session(session)) => (owner::SESSION, session.0),
            Some(Owner::Container) => (owner::CONTAINER, 0),
            Some(Owner::TimeToLive(ttl_ms)) => (owner::TIME_TO_LIVE, ttl_ms),
        };
        kind.write(out);
        value.write(out);
        number(place.map_or(NodeId::NONE, |place| place.previous)).write(out);
        number(place.map_or(NodeId::NONE, |place| place.next)).write(out);
        node.name.as_str().write(out);
        node.data.as_deref().write(out);
    });
}
