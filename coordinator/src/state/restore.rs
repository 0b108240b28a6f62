//! From a snapshot to a state machine.
//!
//! Owns reading what [`capture`](super::capture) writes, and all doubt about it: a tree whose links do not fit, or whose
//! digest is another than it says, is refused. Allocates no more than what arrives.

use super::{
    StateMachine,
    acl_table::AclId,
    arena::{NOT_OWNED, Node, NodeId, Slot},
    capture::{FORMAT, kind, owner},
    hash::hash_bytes,
    name::Name,
    owners::{List, Owned, Owner},
    sessions::{self, Sessions},
    tree::{ROOT_HASH, Tree},
};
use crate::{
    observe::Digest,
    types::{SessionId, Zxid},
};
use sillon_protocol::zookeeper::{Acl, Jute, JuteError, Reader, path};
use std::collections::BTreeMap;

/// A snapshot that cannot be used. What to do is the same in every case: take the one before it, or one of another member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It ends too early.
    #[error("the snapshot ends at byte {offset} in the middle of something")]
    Short {
        /// How many bytes there are.
        offset: u64,
    },
    /// A record that makes no sense.
    #[error("the snapshot's record at byte {offset} is damaged: {what}")]
    Record {
        /// Where the record begins.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Written by another version.
    #[error("the snapshot's format is {found}, this version reads {FORMAT}")]
    Format {
        /// What it says.
        found: i32,
    },
    /// Links that do not fit.
    #[error("the snapshot's slot {slot} does not fit the others: {what}")]
    Link {
        /// The slot.
        slot: u32,
        /// What does not fit.
        what: &'static str,
    },
    /// Something is missing, or there is too much.
    #[error("the snapshot says that it holds {said} {what}, but holds {found}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many it says.
        said: u64,
        /// How many it holds.
        found: u64,
    },
    /// Everything fits, but it is not what was written.
    #[error("the snapshot's digest is {found:x?}, it should be {said:x?}")]
    Digest {
        /// What it says.
        said: Digest,
        /// What was computed.
        found: Digest,
    },
}

/// The first record.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) zxid: Zxid,
    pub(super) ensemble: Option<u128>,
    pub(super) slots: u32,
    pub(super) free: NodeId,
    pub(super) nodes: u32,
    pub(super) sessions: u32,
    pub(super) digest: Digest,
}

impl Header {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        FORMAT.write(out);
        self.zxid.0.write(out);
        self.ensemble.is_some().write(out);
        out.extend_from_slice(&self.ensemble.unwrap_or(0).to_be_bytes());
        for count in [self.slots, self.free.0, self.nodes, self.sessions] {
            count.cast_signed().write(out);
        }
        self.digest.tree.cast_signed().write(out);
        self.digest.sessions.cast_signed().write(out);
    }

    /// Everything behind the format.
    fn read(reader: &mut Reader<'_>) -> Result<Header, JuteError> {
        let zxid = Zxid(i64::read(reader)?);
        let named = bool::read(reader)?;
        let name = u128::from_be_bytes(reader.take(16)?.try_into().expect("sixteen bytes"));
        let mut count = || i32::read(reader).map(i32::cast_unsigned);
        let (slots, free, nodes, sessions) = (count()?, NodeId(count()?), count()?, count()?);
        let mut half = || i64::read(reader).map(i64::cast_unsigned);
        let digest = Digest { tree: half()?, sessions: half()? };
        Ok(Header { zxid, ensemble: named.then_some(name), slots, free, nodes, sessions, digest })
    }
}

/// Takes in a snapshot, in pieces of any size.
#[derive(Debug)]
pub struct Restorer {
    /// The beginning of a record whose end has not arrived.
    rest: Vec<u8>,
    /// Where `rest` begins.
    offset: u64,
    header: Option<Header>,
    ended: bool,
    tree: Tree,
    /// Slots that came before others of lower numbers.
    early: BTreeMap<u32, Slot>,
    acls: Vec<AclId>,
    sessions: Sessions,
}

impl Restorer {
    pub(super) fn new() -> Restorer {
        Restorer {
            rest: Vec::new(),
            offset: 0,
            header: None,
            ended: false,
            tree: Tree::without_nodes(),
            early: BTreeMap::new(),
            acls: Vec::new(),
            sessions: Sessions::default(),
        }
    }

    /// Takes in the next piece.
    ///
    /// # Errors
    /// A piece of no snapshot. The restorer is of no use afterwards.
    pub fn chunk(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut used = 0;
        while let Some((length, behind)) = rest[used..].split_first_chunk::<4>() {
            let Ok(length) = usize::try_from(u32::from_be_bytes(*length)) else { break };
            let Some(record) = behind.get(..length) else { break };
            self.record(record)?;
            used += 4 + length;
            self.offset += 4 + length as u64;
        }
        rest.drain(..used);
        self.rest = rest;
        Ok(())
    }

    fn damaged(&self, what: impl ToString) -> StateError {
        StateError::Record { offset: self.offset, what: what.to_string() }
    }

    fn record(&mut self, record: &[u8]) -> Result<(), StateError> {
        let (&kind, fields) = record.split_first().ok_or_else(|| self.damaged("it is empty"))?;
        if self.ended || self.header.is_some() == (kind == kind::HEADER) {
            return Err(self.damaged("it is not in its place"));
        }
        let reader = &mut Reader::new(fields);
        let read = match kind {
            kind::HEADER => self.read_header(reader)?,
            kind::ACL => Vec::<Acl>::read(reader).map(|list| self.acls.push(self.tree.acls.acquire(&list))),
            kind::NODE => self.read_node(reader)?,
            kind::FREE => self.read_free(reader)?,
            kind::SESSION => self.read_session(reader)?,
            kind::END => {
                self.ended = true;
                Ok(())
            }
            _ => return Err(self.damaged("its kind is unknown")),
        };
        read.map_err(|error| self.damaged(error))?;
        if reader.is_empty() { Ok(()) } else { Err(self.damaged("it is too long")) }
    }

    fn read_header(&mut self, reader: &mut Reader<'_>) -> Result<Result<(), JuteError>, StateError> {
        match i32::read(reader) {
            Ok(FORMAT) => {}
            Ok(found) => return Err(StateError::Format { found }),
            Err(error) => return Ok(Err(error)),
        }
        Ok(Header::read(reader).map(|header| self.header = Some(header)))
    }

    fn read_session(&mut self, reader: &mut Reader<'_>) -> Result<Result<(), JuteError>, StateError> {
        let (id, session) = match sessions::read(reader) {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        if self.sessions.get(id).is_some() {
            return Err(self.damaged("its session came before"));
        }
        self.sessions.put(id, session);
        Ok(Ok(()))
    }

    fn read_free(&mut self, reader: &mut Reader<'_>) -> Result<Result<(), JuteError>, StateError> {
        let mut id = || i32::read(reader).map(|id| NodeId(id.cast_unsigned()));
        match (id(), id()) {
            (Ok(id), Ok(next)) => self.add(id, Slot::Free(next)).map(Ok),
            (Err(error), _) | (_, Err(error)) => Ok(Err(error)),
        }
    }

    fn read_node(&mut self, reader: &mut Reader<'_>) -> Result<Result<(), JuteError>, StateError> {
        let (id, mut node, acl, place) = match read_node_fields(reader) {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        let acl = usize::try_from(acl).ok().and_then(|acl| self.acls.get(acl));
        node.acl = *acl.ok_or_else(|| self.damaged("its access list is not there"))?;
        self.tree.acls.acquire_again(node.acl);
        node.owned = match place {
            Ok(None) => NOT_OWNED,
            Ok(Some(place)) => self.tree.owners.add_place(place),
            Err(kind) => {
                return Err(self.damaged(format!("it goes with something of the unknown kind {kind}")));
            }
        };
        self.add(id, Slot::Node(node)).map(Ok)
    }

    fn add(&mut self, id: NodeId, slot: Slot) -> Result<(), StateError> {
        let slots = self.header.as_ref().map_or(0, |header| header.slots);
        let length = self.tree.arena.length();
        if id.0 < length || id.0 >= slots || self.early.contains_key(&id.0) {
            return Err(self.damaged("its slot came before, or does not exist"));
        }
        if id.0 > length {
            self.early.insert(id.0, slot);
            return Ok(());
        }
        self.tree.arena.push(slot);
        while let Some(slot) = self.early.remove(&self.tree.arena.length()) {
            self.tree.arena.push(slot);
        }
        Ok(())
    }

    /// The state machine, once all pieces are in.
    ///
    /// # Errors
    /// A snapshot that is not complete, not consistent, or not the one that was written.
    pub fn finish(mut self) -> Result<StateMachine, StateError> {
        let short = StateError::Short { offset: self.offset + self.rest.len() as u64 };
        let (Some(header), true, true) = (self.header.take(), self.ended, self.rest.is_empty()) else {
            return Err(short);
        };
        equal("slots", header.slots, self.tree.arena.length())?;
        equal("sessions", header.sessions, u32::try_from(self.sessions.len()).unwrap_or(u32::MAX))?;
        for acl in std::mem::take(&mut self.acls) {
            self.tree.acls.release(acl);
        }
        self.tree.check_free(header.free, header.slots - header.nodes.min(header.slots))?;
        self.tree.grow(header.nodes)?;
        self.tree.rebuild_owners(&self.sessions)?;
        let ensemble = header.ensemble;
        let machine = StateMachine::assemble(header.zxid, ensemble, self.tree, self.sessions);
        let found = machine.digest();
        if found != header.digest {
            return Err(StateError::Digest { said: header.digest, found });
        }
        Ok(machine)
    }
}

fn equal(what: &'static str, said: u32, found: u32) -> Result<(), StateError> {
    if said == found {
        Ok(())
    } else {
        Err(StateError::Count { what, said: said.into(), found: found.into() })
    }
}

/// A node, the number of its list, and its place; or the number that should say what it goes with.
type NodeFields = (NodeId, Node, i32, Result<Option<Owned>, i32>);

fn read_node_fields(reader: &mut Reader<'_>) -> Result<NodeFields, JuteError> {
    let id_of = |reader: &mut Reader<'_>| i32::read(reader).map(|id| NodeId(id.cast_unsigned()));
    let id = id_of(reader)?;
    let mut node = Node {
        parent: id_of(reader)?,
        first_child: id_of(reader)?,
        previous: id_of(reader)?,
        next: id_of(reader)?,
        czxid: i64::read(reader)?,
        mzxid: i64::read(reader)?,
        pzxid: i64::read(reader)?,
        ctime_ms: i64::read(reader)?,
        mtime_ms: i64::read(reader)?,
        version: i32::read(reader)?,
        aversion: i32::read(reader)?,
        creates: i32::read(reader)?,
        child_count: i32::read(reader)?.cast_unsigned(),
        name: Name::new(""),
        data: None,
        path_hash: 0,
        acl: AclId::OPEN,
        owned: NOT_OWNED,
    };
    let acl = i32::read(reader)?;
    let (kind, value) = (i32::read(reader)?, i64::read(reader)?);
    let (previous, next) = (id_of(reader)?, id_of(reader)?);
    node.name = Name::new(<&str>::read(reader)?);
    node.data = Option::<&[u8]>::read(reader)?.map(Into::into);
    let owner = match kind {
        owner::NOTHING => Ok(None),
        owner::SESSION => Ok(Some(Owner::Session(SessionId(value)))),
        owner::CONTAINER => Ok(Some(Owner::Container)),
        owner::TIME_TO_LIVE => Ok(Some(Owner::TimeToLive(value))),
        unknown => Err(unknown),
    };
    let place = owner.map(|owner| owner.map(|owner| Owned { owner, previous, next }));
    Ok((id, node, acl, place))
}

fn link(id: NodeId, what: &'static str) -> StateError {
    StateError::Link { slot: id.0, what }
}

impl Tree {
    /// The node of a slot, if there is one.
    fn checked(&self, id: NodeId, from: NodeId) -> Result<&Node, StateError> {
        if id.0 >= self.arena.length() {
            return Err(link(from, "it refers to a slot that does not exist"));
        }
        match self.arena.slot(id) {
            Slot::Node(node) => Ok(node),
            Slot::Free(_) => Err(link(from, "it refers to a free slot")),
        }
    }

    /// Follows the list of free slots, which must have so many.
    fn check_free(&mut self, first: NodeId, count: u32) -> Result<(), StateError> {
        self.arena.set_free(first);
        let (mut at, mut found) = (first, 0);
        while at != NodeId::NONE {
            if at.0 >= self.arena.length() || found == count {
                return Err(link(at, "the list of free slots is wrong"));
            }
            let Slot::Free(next) = *self.arena.slot(at) else {
                return Err(link(at, "it is in the list of free slots, and is not free"));
            };
            (at, found) = (next, found + 1);
        }
        equal("free slots", count, found)
    }

    /// Goes through the tree from the root, checks all links, and enters each node where it must be known.
    fn grow(&mut self, nodes: u32) -> Result<(), StateError> {
        let root = self.checked(NodeId::ROOT, NodeId::ROOT)?;
        let alone = [root.parent, root.previous, root.next].iter().all(|id| *id == NodeId::NONE);
        if !alone || !root.name.as_bytes().is_empty() || root.owned != NOT_OWNED {
            return Err(link(NodeId::ROOT, "it is no root"));
        }
        self.enter_restored(NodeId::ROOT, ROOT_HASH, 1);
        // Nodes whose children are still to be visited, with the length of their path.
        let mut open = vec![(NodeId::ROOT, 0)];
        while let Some((parent, length)) = open.pop() {
            let (hash, children) = (self.arena.node(parent).path_hash, self.arena.node(parent).child_count);
            let (mut previous, mut at, mut found) = (NodeId::NONE, self.arena.node(parent).first_child, 0);
            while at != NodeId::NONE {
                let node = self.checked(at, parent)?;
                if node.parent != parent || node.previous != previous || found == children {
                    return Err(link(at, "its parent or its sibling does not know it"));
                }
                if node.name.as_bytes().contains(&b'/')
                    || path::validate(&format!("/{}", node.name.as_str())).is_err()
                {
                    return Err(link(at, "its name is not allowed"));
                }
                if self.counts.nodes == nodes || self.child(parent, node.name.as_str()).is_some() {
                    return Err(link(at, "it is there twice"));
                }
                let node = self.arena.node(at);
                let length = length + node.name.characters() + 1;
                let (next, below) = (node.next, node.child_count > 0 || node.first_child != NodeId::NONE);
                let hash = hash_bytes(hash, node.name.as_bytes());
                self.enter_restored(at, hash, length);
                if below {
                    open.push((at, length));
                }
                (previous, at, found) = (at, next, found + 1);
            }
            if found != children {
                return Err(link(parent, "it has another number of children"));
            }
        }
        equal("nodes", nodes, self.counts.nodes)
    }

    fn enter_restored(&mut self, id: NodeId, hash: u64, path_length: u64) {
        self.arena.node_mut(id).path_hash = hash;
        let node = self.arena.node(id);
        self.counts.nodes += 1;
        self.counts.data_bytes += path_length + node.data.as_ref().map_or(0, |data| data.len() as u64);
        self.counts.digest = self.counts.digest.wrapping_add(self.node_digest(node));
        if matches!(self.owners.owner(node.owned), Some(Owner::Session(_))) {
            self.counts.ephemerals += 1;
        }
        let arena = &self.arena;
        self.index.insert(hash, id, |other| arena.node(other).path_hash);
        self.quota_after_restore(id);
    }

    /// Finds the heads of the owners' lists, and follows each.
    fn rebuild_owners(&mut self, sessions: &Sessions) -> Result<(), StateError> {
        for slot in 0..self.arena.length() {
            let Slot::Node(node) = self.arena.slot(NodeId(slot)) else { continue };
            let Some(place) = self.owners.place(node.owned) else { continue };
            if let Owner::Session(session) = place.owner
                && sessions.get(session).is_none()
            {
                return Err(link(NodeId(slot), "its session is not there"));
            }
            if place.previous == NodeId::NONE {
                let list = self.owners.list_mut(place.owner);
                if list.first != NodeId::NONE {
                    return Err(link(NodeId(slot), "its owner's list has two heads"));
                }
                list.first = NodeId(slot);
            }
        }
        let mut lists: Vec<List> = self.owners.sessions.values().copied().collect();
        lists.extend([self.owners.containers, self.owners.times_to_live]);
        let mut found = 0;
        for list in lists {
            let Some(first) = list.first.some() else { continue };
            found += self.follow_owner(first)?;
        }
        equal("owned nodes", u32::try_from(self.owners.places.len()).unwrap_or(u32::MAX), found)
    }

    /// Follows the list of an owner from its head, and sets its count.
    fn follow_owner(&mut self, first: NodeId) -> Result<u32, StateError> {
        let owner_of = |tree: &Tree, id, from| {
            let place = tree.owners.place(tree.checked(id, from)?.owned);
            place.ok_or_else(|| link(from, "it is in a list of owned nodes with one that is none"))
        };
        let head = owner_of(self, first, first)?.owner;
        let (mut previous, mut at, mut count) = (NodeId::NONE, first, 0);
        while at != NodeId::NONE {
            let place = owner_of(self, at, first)?;
            let same = match (place.owner, head) {
                (Owner::TimeToLive(_), Owner::TimeToLive(_)) => true,
                (one, other) => one == other,
            };
            if !same || place.previous != previous {
                return Err(link(at, "its owner's list does not know it"));
            }
            (previous, at, count) = (at, place.next, count + 1);
        }
        self.owners.list_mut(head).count = count;
        Ok(count)
    }
}
