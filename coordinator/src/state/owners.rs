//! Nodes that do not stay for ever: which session, container rule or time to live they go with.
//!
//! Owns the lists of such nodes: those of each session, all containers, all nodes with a time to live. A node joins and
//! leaves its list in constant time. Decides no deletion.

use super::{
    arena::{NOT_OWNED, NodeId},
    tree::Tree,
};
use crate::types::SessionId;
use std::collections::BTreeMap;

/// What a node goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The session.
    Session(SessionId),
    /// Its last child.
    Container,
    /// The time since it was written, in milliseconds.
    TimeToLive(i64),
}

/// A node's place in its owner's list. The newest is first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) owner: Owner,
    pub(super) previous: NodeId,
    pub(super) next: NodeId,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: NodeId,
    pub(super) count: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NodeId::NONE, count: 0 };
}

/// All lists.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) places: Vec<Owned>,
    free: Vec<u32>,
    /// Sessions that own nothing are not here.
    pub(super) sessions: BTreeMap<SessionId, List>,
    pub(super) containers: List,
    pub(super) times_to_live: List,
}

impl Owners {
    pub(super) fn new() -> Owners {
        Owners {
            places: Vec::new(),
            free: Vec::new(),
            sessions: BTreeMap::new(),
            containers: List::EMPTY,
            times_to_live: List::EMPTY,
        }
    }

    /// The place of a number; `None` for [`NOT_OWNED`].
    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<Owned> {
        (number != NOT_OWNED).then(|| self.places[number as usize])
    }

    /// Whom a number is about.
    #[inline]
    pub(super) fn owner(&self, number: u32) -> Option<Owner> {
        self.place(number).map(|place| place.owner)
    }

    pub(super) fn list_mut(&mut self, owner: Owner) -> &mut List {
        match owner {
            Owner::Session(session) => self.sessions.entry(session).or_insert(List::EMPTY),
            Owner::Container => &mut self.containers,
            Owner::TimeToLive(_) => &mut self.times_to_live,
        }
    }

    /// A session's list.
    pub(super) fn of_session(&self, session: SessionId) -> List {
        self.sessions.get(&session).copied().unwrap_or(List::EMPTY)
    }

    pub(super) fn add_place(&mut self, place: Owned) -> u32 {
        if let Some(number) = self.free.pop() {
            self.places[number as usize] = place;
            return number;
        }
        self.places.push(place);
        u32::try_from(self.places.len() - 1).expect("fewer places than nodes")
    }
}

impl Tree {
    /// Puts a node at the head of its owner's list and gives its place.
    pub(super) fn join_owner(&mut self, id: NodeId, owner: Owner) -> u32 {
        let list = self.owners.list_mut(owner);
        let next = std::mem::replace(&mut list.first, id);
        list.count += 1;
        if let Some(next) = next.some() {
            self.place_mut(next).previous = id;
        }
        self.owners.add_place(Owned { owner, previous: NodeId::NONE, next })
    }

    /// Takes a node out of its owner's list; its own links stay as they were, so that it can be put back.
    pub(super) fn leave_owner(&mut self, number: u32) -> Option<Owned> {
        let place = self.owners.place(number)?;
        match place.previous.some() {
            Some(previous) => self.place_mut(previous).next = place.next,
            None => self.owners.list_mut(place.owner).first = place.next,
        }
        if let Some(next) = place.next.some() {
            self.place_mut(next).previous = place.previous;
        }
        let list = self.owners.list_mut(place.owner);
        list.count -= 1;
        if let (0, Owner::Session(session)) = (list.count, place.owner) {
            self.owners.sessions.remove(&session);
        }
        self.owners.free.push(number);
        Some(place)
    }

    /// Undoes [`leave_owner`](Tree::leave_owner), the last one.
    pub(super) fn rejoin_owner(&mut self, id: NodeId, number: u32, place: Owned) {
        assert_eq!(self.owners.free.pop(), Some(number), "what left last is put back first");
        self.owners.places[number as usize] = place;
        let list = self.owners.list_mut(place.owner);
        list.count += 1;
        match place.previous.some() {
            None => list.first = id,
            Some(previous) => self.place_mut(previous).next = id,
        }
        if let Some(next) = place.next.some() {
            self.place_mut(next).previous = id;
        }
    }

    /// The place of a neighbour, which is about to change.
    fn place_mut(&mut self, id: NodeId) -> &mut Owned {
        self.touch(id);
        let number = self.arena.node(id).owned;
        assert_ne!(number, NOT_OWNED, "slot {} is in a list of owned nodes", id.0);
        &mut self.owners.places[number as usize]
    }

    /// The nodes of a list, newest first.
    pub(super) fn owned_nodes(&self, list: List) -> impl Iterator<Item = NodeId> {
        std::iter::successors(list.first.some(), |id| {
            self.owners.place(self.arena.node(*id).owned).and_then(|place| place.next.some())
        })
    }

    /// The nodes of a session, in the order in which they were created.
    pub(super) fn ephemerals(&self, session: SessionId) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.owned_nodes(self.owners.of_session(session)).collect();
        nodes.reverse();
        nodes
    }
}
