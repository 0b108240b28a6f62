//! Who watches one path, in one of the two tables. Owns the entries of that path; never knows the path.

use sillon_protocol::zookeeper::WatcherType;
use std::collections::BTreeMap;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Of creations, writes and deletions.
    Data,
    /// Of changes among the children, and deletions.
    Child,
}

impl Table {
    /// The tables that a type names.
    pub(super) fn of_type(watcher_type: WatcherType) -> &'static [Table] {
        match watcher_type {
            WatcherType::Children => &[Table::Child],
            WatcherType::Data => &[Table::Data],
            WatcherType::Any => &[Table::Child, Table::Data],
        }
    }
}

/// How long an entry stays and how far it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Until it has fired.
    OneShot,
    /// Until it is removed.
    Persistent,
    /// Until it is removed, and it sees what happens below.
    PersistentRecursive,
}

/// The entries of one path. Most paths have one watcher, which then needs no allocation.
#[derive(Debug, Default)]
pub(super) enum Watchers {
    #[default]
    None,
    One(u64, Mode),
    /// At least two while they are added; may shrink to fewer, but never to none.
    #[allow(
        clippy::box_collection,
        reason = "the map's three words would make every path's entry larger by half"
    )]
    Many(Box<BTreeMap<u64, Mode>>),
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Watchers::None)
    }

    pub(super) fn mode(&self, watcher: u64) -> Option<Mode> {
        match self {
            Watchers::One(one, mode) if *one == watcher => Some(*mode),
            Watchers::None | Watchers::One(..) => None,
            Watchers::Many(many) => many.get(&watcher).copied(),
        }
    }

    /// All watchers, in order.
    pub(super) fn watchers(&self) -> Vec<u64> {
        match self {
            Watchers::None => Vec::new(),
            Watchers::One(one, _) => vec![*one],
            Watchers::Many(many) => many.keys().copied().collect(),
        }
    }

    /// Sets an entry and gives the one that it replaces.
    pub(super) fn insert(&mut self, watcher: u64, mode: Mode) -> Option<Mode> {
        match self {
            Watchers::None => {
                *self = Watchers::One(watcher, mode);
                None
            }
            Watchers::One(one, before) if *one == watcher => Some(std::mem::replace(before, mode)),
            Watchers::One(one, theirs) => {
                let many = BTreeMap::from([(*one, *theirs), (watcher, mode)]);
                *self = Watchers::Many(Box::new(many));
                None
            }
            Watchers::Many(many) => many.insert(watcher, mode),
        }
    }

    /// Removes an entry and gives it.
    pub(super) fn remove(&mut self, watcher: u64) -> Option<Mode> {
        match self {
            Watchers::One(one, mode) if *one == watcher => {
                let mode = *mode;
                *self = Watchers::None;
                Some(mode)
            }
            Watchers::None | Watchers::One(..) => None,
            Watchers::Many(many) => {
                let removed = many.remove(&watcher);
                if many.is_empty() {
                    *self = Watchers::None;
                }
                removed
            }
        }
    }

    /// Appends the watchers that an event on this very path reaches, the recursive ones only where `recursive` says
    /// so. Removes the one-shot entries and gives whose they were.
    pub(super) fn fire(&mut self, recursive: bool, out: &mut Vec<u64>) -> Vec<u64> {
        let mut fired = Vec::new();
        let mut tell = |watcher: u64, mode: Mode| {
            if mode != Mode::PersistentRecursive || recursive {
                out.push(watcher);
            }
            if mode == Mode::OneShot {
                fired.push(watcher);
            }
            mode != Mode::OneShot
        };
        match self {
            Watchers::None => {}
            Watchers::One(watcher, mode) => {
                if !tell(*watcher, *mode) {
                    *self = Watchers::None;
                }
            }
            Watchers::Many(many) => {
                many.retain(|watcher, mode| tell(*watcher, *mode));
                if many.is_empty() {
                    *self = Watchers::None;
                }
            }
        }
        fired
    }

    /// Appends the watchers that an event on a path below this one reaches.
    pub(super) fn fire_from_below(&self, out: &mut Vec<u64>) {
        match self {
            Watchers::One(watcher, Mode::PersistentRecursive) => out.push(*watcher),
            Watchers::None | Watchers::One(..) => {}
            Watchers::Many(many) => {
                let recursive = many.iter().filter(|(_, mode)| **mode == Mode::PersistentRecursive);
                out.extend(recursive.map(|(watcher, _)| *watcher));
            }
        }
    }
}
