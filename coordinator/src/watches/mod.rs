//! The watches of one member's connections: who is told when a node changes.
//!
//! ```text
//!   add / remove / remove_watcher ──►  data table:  path ─► { watcher: mode }
//!                                      child table: path ─► { watcher: mode }
//!   fire(event, path) ──► the watchers to tell, each once; one-shot watches are gone afterwards
//! ```
//! As ZooKeeper 3.8 does it: a connection has at most one entry per path in each table, and whatever it sets last in a
//! table decides the entry's mode. A one-shot data watch thereby takes the place of a persistent one's data half, and a
//! one-shot child watch that of its child half; the other half stays. A recursive watch has both halves too, of which
//! the child half only ever tells of deletions that the data half has not told.
//!
//! Owns the tables; never sends anything, and never asks whether a watcher may see what it is told of.

mod catch_up;
mod table;
#[cfg(test)]
mod tests;

pub use catch_up::{CatchUp, NodeZxids, SetWatches, catch_up};

use hashbrown::HashMap;
use sillon_protocol::zookeeper::{EventType, WatcherType};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasherDefault, DefaultHasher},
    sync::Arc,
};
use table::{Mode, Table, Watchers};

/// What a client can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// Once, when the node is created, written or deleted: what getData and exists set.
    Data,
    /// Once, when a child comes or goes or the node is deleted: what getChildren sets.
    Child,
    /// Each time, for all that [`WatchKind::Data`] and [`WatchKind::Child`] tell.
    Persistent,
    /// Each time, when the node or any node below it is created, written or deleted.
    PersistentRecursive,
}

/// How many watches there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Connections with an entry in the data table.
    pub connections: usize,
    /// Paths in the data table.
    pub paths: usize,
    /// Entries of the data table: what `wchs` calls the total.
    pub data: usize,
    /// Entries of the child table. Together with those of the data table: what `mntr` calls `zk_watch_count`.
    pub child: usize,
}

/// The entries of one path.
#[derive(Debug, Default)]
struct PathEntry {
    data: Watchers,
    child: Watchers,
}

impl PathEntry {
    fn of(&mut self, table: Table) -> &mut Watchers {
        match table {
            Table::Data => &mut self.data,
            Table::Child => &mut self.child,
        }
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.child.is_empty()
    }

    fn contains(&self, watcher: u64) -> bool {
        self.data.mode(watcher).is_some() || self.child.mode(watcher).is_some()
    }
}

/// How much one table holds in all.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    entries: usize,
    /// Of them recursive: while there is none, nobody above a node needs to be asked.
    recursive: usize,
}

impl Totals {
    fn change(&mut self, before: Option<Mode>, after: Option<Mode>) {
        self.entries = self.entries + usize::from(after.is_some()) - usize::from(before.is_some());
        self.recursive = self.recursive + usize::from(after == Some(Mode::PersistentRecursive))
            - usize::from(before == Some(Mode::PersistentRecursive));
    }
}

/// Of fixed keys: its order never decides anything, and none is ever seen.
type PathMap = HashMap<Arc<str>, PathEntry, BuildHasherDefault<DefaultHasher>>;

/// All watches of one member. A watcher is a connection, by its number.
#[derive(Debug, Default)]
pub struct Watches {
    paths: PathMap,
    /// The paths of each watcher that has an entry in either table.
    watchers: BTreeMap<u64, BTreeSet<Arc<str>>>,
    data: Totals,
    child: Totals,
}

impl Watches {
    /// No watches.
    pub fn new() -> Watches {
        Watches::default()
    }

    /// Sets a watch. What the same watcher had on the same path is replaced in the tables that the new one stands in:
    /// the data table for [`WatchKind::Data`], the child table for [`WatchKind::Child`], both for the others.
    pub fn add(&mut self, watcher: u64, path: &str, kind: WatchKind) {
        match kind {
            WatchKind::Data => self.put(watcher, path, Table::Data, Mode::OneShot),
            WatchKind::Child => self.put(watcher, path, Table::Child, Mode::OneShot),
            WatchKind::Persistent => {
                self.put(watcher, path, Table::Data, Mode::Persistent);
                self.put(watcher, path, Table::Child, Mode::Persistent);
            }
            WatchKind::PersistentRecursive => {
                self.put(watcher, path, Table::Data, Mode::PersistentRecursive);
                self.put(watcher, path, Table::Child, Mode::PersistentRecursive);
            }
        }
    }

    /// Appends to `out` who is to be told of the event, each watcher once, in the order of their numbers. One-shot
    /// watches among them are gone afterwards.
    ///
    /// A creation or deletion concerns two nodes: the caller fires it for the node, then
    /// [`EventType::NodeChildrenChanged`] for its parent.
    pub fn fire(&mut self, event: EventType, path: &str, out: &mut Vec<u64>) {
        let start = out.len();
        match event {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                self.fire_table(Table::Data, path, true, out)
            }
            EventType::NodeChildrenChanged => self.fire_table(Table::Child, path, false, out),
            EventType::NodeDeleted => {
                self.fire_table(Table::Data, path, true, out);
                self.fire_table(Table::Child, path, true, out);
            }
        }
        let told = &mut out[start..];
        if !told.is_sorted_by(|earlier, later| earlier < later) {
            told.sort_unstable();
            let mut kept = start;
            for next in start..out.len() {
                if next == start || out[next] != out[kept - 1] {
                    out[kept] = out[next];
                    kept += 1;
                }
            }
            out.truncate(kept);
        }
    }

    /// Removes the watcher's entries of that path, one-shot or not, from the table or tables that the type names. Gives
    /// whether there were any; where not, the answer is `NoWatcher`.
    pub fn remove(&mut self, watcher: u64, path: &str, watcher_type: WatcherType) -> bool {
        let mut removed = false;
        for table in Table::of_type(watcher_type) {
            removed |= self.take(watcher, path, *table);
        }
        removed
    }

    /// What checkWatches asks. ZooKeeper 3.8 answers yes if anybody at all, not only this watcher, has an entry for the
    /// path in one of the tables that the type names; so does this.
    pub fn has(&self, _watcher: u64, path: &str, watcher_type: WatcherType) -> bool {
        let Some(entry) = self.paths.get(path) else { return false };
        match watcher_type {
            WatcherType::Data => !entry.data.is_empty(),
            WatcherType::Children => !entry.child.is_empty(),
            WatcherType::Any => !entry.is_empty(),
        }
    }

    /// Forgets a watcher, whose connection has ended.
    pub fn remove_watcher(&mut self, watcher: u64) {
        for path in self.watchers.remove(&watcher).unwrap_or_default() {
            let entry = self.paths.get_mut(&path).expect("a watcher's paths have entries");
            self.data.change(entry.data.remove(watcher), None);
            self.child.change(entry.child.remove(watcher), None);
            if entry.is_empty() {
                self.paths.remove(&path);
            }
        }
    }

    /// How many entries there are in both tables together.
    pub fn count(&self) -> usize {
        self.data.entries + self.child.entries
    }

    /// How many watches, connections and paths there are. Walks through all of them.
    pub fn counts(&self) -> WatchCounts {
        WatchCounts {
            connections: self.by_connection().len(),
            paths: self.paths.values().filter(|entry| !entry.data.is_empty()).count(),
            data: self.data.entries,
            child: self.child.entries,
        }
    }

    /// The data table by watcher, as `wchc` shows it. Sorted.
    pub fn by_connection(&self) -> Vec<(u64, Vec<&str>)> {
        let has_data = |watcher: u64, path: &Arc<str>| {
            self.paths.get(path).is_some_and(|entry| entry.data.mode(watcher).is_some())
        };
        let mut by_connection = Vec::new();
        for (watcher, paths) in &self.watchers {
            let paths: Vec<&str> =
                paths.iter().filter(|path| has_data(*watcher, path)).map(|path| &**path).collect();
            if !paths.is_empty() {
                by_connection.push((*watcher, paths));
            }
        }
        by_connection
    }

    /// The data table by path, as `wchp` shows it. Sorted.
    pub fn by_path(&self) -> Vec<(&str, Vec<u64>)> {
        let entries = self.paths.iter().filter(|(_, entry)| !entry.data.is_empty());
        let mut by_path: Vec<(&str, Vec<u64>)> =
            entries.map(|(path, entry)| (&**path, entry.data.watchers())).collect();
        by_path.sort_unstable();
        by_path
    }

    fn totals(&mut self, table: Table) -> &mut Totals {
        match table {
            Table::Data => &mut self.data,
            Table::Child => &mut self.child,
        }
    }

    fn put(&mut self, watcher: u64, path: &str, table: Table, mode: Mode) {
        let path: Arc<str> = match self.paths.get_key_value(path) {
            Some((path, _)) => path.clone(),
            None => path.into(),
        };
        let entry = self.paths.entry(path.clone()).or_default();
        let before = entry.of(table).insert(watcher, mode);
        self.totals(table).change(before, Some(mode));
        if before.is_none() {
            self.watchers.entry(watcher).or_default().insert(path);
        }
    }

    fn take(&mut self, watcher: u64, path: &str, table: Table) -> bool {
        let Some(entry) = self.paths.get_mut(path) else { return false };
        let Some(before) = entry.of(table).remove(watcher) else { return false };
        let (gone, empty) = (!entry.contains(watcher), entry.is_empty());
        self.totals(table).change(Some(before), None);
        if gone {
            forget_path(&mut self.watchers, watcher, path);
        }
        if empty {
            self.paths.remove(path);
        }
        true
    }

    /// Fires one table: the entries of the path itself, and the recursive ones above it where `recursive` says so.
    fn fire_table(&mut self, table: Table, path: &str, recursive: bool, out: &mut Vec<u64>) {
        if let Some(entry) = self.paths.get_mut(path) {
            let start = out.len();
            let fired = entry.of(table).fire(recursive, out);
            for watcher in &fired {
                if !entry.contains(*watcher) {
                    forget_path(&mut self.watchers, *watcher, path);
                }
            }
            if entry.is_empty() {
                self.paths.remove(path);
            }
            debug_assert!(fired.len() <= out.len() - start, "whoever is gone was told");
            self.totals(table).entries -= fired.len();
        }
        if recursive && self.totals(table).recursive > 0 {
            for ancestor in ancestors(path) {
                if let Some(entry) = self.paths.get_mut(ancestor) {
                    entry.of(table).fire_from_below(out);
                }
            }
        }
    }
}

fn forget_path(watchers: &mut BTreeMap<u64, BTreeSet<Arc<str>>>, watcher: u64, path: &str) {
    let paths = watchers.get_mut(&watcher).expect("a watcher with an entry has paths");
    paths.remove(path);
    if paths.is_empty() {
        watchers.remove(&watcher);
    }
}

/// The paths above a path, nearest first, the root last.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let parent = |path: &str| match path.rfind('/')? {
        0 if path.len() > 1 => Some(1),
        0 => None,
        position => Some(position),
    };
    std::iter::successors(parent(path), move |end| parent(&path[..*end])).map(move |end| &path[..end])
}
