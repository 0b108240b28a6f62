//! The watches that a client has set and that have not fired: whom an event concerns, and what to set again after a
//! reconnect. Owns no channel: a watch is a number.

use sillon_protocol::zookeeper::{EventType, Jute, SetWatches2Request, WatcherType};
use std::collections::{BTreeMap, BTreeSet};

/// How many bytes of paths go into one request that sets watches again, so that no server refuses it for its length.
const SET_WATCHES_BYTES: usize = 128 * 1024;

/// A watch, by the number that its owner gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchId(pub u64);

/// A watch whose owner lost interest before it was set.
pub(super) const NOBODYS_WATCH: WatchId = WatchId(u64::MAX);

/// What a watch is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchedThing {
    /// A node's data, once.
    Data,
    /// A node that does not exist, once.
    Absence,
    /// A node's children, once.
    Children,
    /// A node's data and children, each time.
    Persistent,
    /// A node and all below it, each time.
    PersistentRecursive,
}

impl WatchedThing {
    const ALL: [WatchedThing; 5] = [
        WatchedThing::Data,
        WatchedThing::Absence,
        WatchedThing::Children,
        WatchedThing::Persistent,
        WatchedThing::PersistentRecursive,
    ];

    /// Whether the watch stays after it fired.
    pub fn is_persistent(self) -> bool {
        matches!(self, WatchedThing::Persistent | WatchedThing::PersistentRecursive)
    }
}

/// All watches of a client. Paths are the server's.
#[derive(Debug, Default)]
pub(super) struct Registry {
    tables: BTreeMap<WatchedThing, BTreeMap<String, BTreeSet<WatchId>>>,
    homes: BTreeMap<WatchId, (WatchedThing, String)>,
}

impl Registry {
    /// Adds a watch, unless it is nobody's.
    pub(super) fn add(&mut self, watch: WatchId, thing: WatchedThing, path: &str) {
        if watch == NOBODYS_WATCH {
            return;
        }
        self.tables.entry(thing).or_default().entry(path.to_owned()).or_default().insert(watch);
        self.homes.insert(watch, (thing, path.to_owned()));
    }

    /// Removes one watch and gives whether it was there.
    pub(super) fn forget(&mut self, watch: WatchId) -> bool {
        let Some((thing, path)) = self.homes.remove(&watch) else { return false };
        let table = self.tables.get_mut(&thing).expect("a watch is in its table");
        let watches = table.get_mut(&path).expect("a watch is at its path");
        watches.remove(&watch);
        if watches.is_empty() {
            table.remove(&path);
        }
        true
    }

    /// Whether a one-shot watch of that very path needs none on the server, because a watch that stays tells all that it
    /// would. On the server, where each path has one entry of a connection's, the two would displace each other.
    pub(super) fn covers(&self, path: &str) -> bool {
        self.has(WatchedThing::Persistent, path) || self.has(WatchedThing::PersistentRecursive, path)
    }

    pub(super) fn has(&self, thing: WatchedThing, path: &str) -> bool {
        self.tables.get(&thing).is_some_and(|table| table.contains_key(path))
    }

    /// Whom an event concerns, one-shot watches first; those are gone afterwards.
    pub(super) fn fire(&mut self, event: EventType, path: &str) -> Vec<WatchId> {
        let once: &[WatchedThing] = match event {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                &[WatchedThing::Data, WatchedThing::Absence]
            }
            EventType::NodeDeleted => &[WatchedThing::Data, WatchedThing::Absence, WatchedThing::Children],
            EventType::NodeChildrenChanged => &[WatchedThing::Children],
        };
        let mut told = Vec::new();
        for thing in once {
            told.extend(self.take(*thing, path));
        }
        told.extend(self.at(WatchedThing::Persistent, path));
        if event != EventType::NodeChildrenChanged {
            let mut above = Some(path);
            while let Some(path) = above {
                told.extend(self.at(WatchedThing::PersistentRecursive, path));
                above = parent(path);
            }
        }
        told
    }

    /// The node above one that was created or deleted, and who watches its children, where the server tells the latter
    /// nothing because there is a recursive watch. They are gone afterwards.
    pub(super) fn fire_above<'a>(
        &mut self,
        event: EventType,
        path: &'a str,
    ) -> Option<(&'a str, BTreeSet<WatchId>)> {
        let came_or_went = matches!(event, EventType::NodeCreated | EventType::NodeDeleted);
        let above = parent(path)
            .filter(|above| came_or_went && self.has(WatchedThing::PersistentRecursive, above))?;
        Some((above, self.take(WatchedThing::Children, above)))
    }

    /// Removes all watches of a path that the server forgets with removeWatches, and gives them. Where there are watches
    /// that stay, the server has at least half forgotten them, so all end.
    pub(super) fn remove(&mut self, path: &str, watcher_type: WatcherType) -> Vec<WatchId> {
        let things: &[WatchedThing] = match watcher_type {
            _ if self.covers(path) => &WatchedThing::ALL,
            WatcherType::Children => &[WatchedThing::Children],
            WatcherType::Data => &[WatchedThing::Data, WatchedThing::Absence],
            WatcherType::Any => &WatchedThing::ALL,
        };
        things.iter().flat_map(|thing| self.take(*thing, path)).collect()
    }

    /// Removes all watches and gives them.
    pub(super) fn take_all(&mut self) -> Vec<WatchId> {
        self.tables.clear();
        std::mem::take(&mut self.homes).into_keys().collect()
    }

    /// All watches that stay after they fired.
    pub(super) fn persistent(&self) -> Vec<WatchId> {
        let persistent = self.homes.iter().filter(|(_, (thing, _))| thing.is_persistent());
        persistent.map(|(watch, _)| *watch).collect()
    }

    /// The bodies of the requests that set all watches again; none where there are no watches.
    pub(super) fn set_watches(&self, relative_zxid: i64) -> Vec<Vec<u8>> {
        let mut bodies = Vec::new();
        let mut batch = Batch::new(relative_zxid);
        for thing in WatchedThing::ALL {
            for path in self.tables.get(&thing).into_iter().flat_map(BTreeMap::keys) {
                if batch.bytes > SET_WATCHES_BYTES {
                    bodies.push(std::mem::replace(&mut batch, Batch::new(relative_zxid)).request.to_bytes());
                }
                batch.add(thing, path);
            }
        }
        if batch.bytes > 0 {
            bodies.push(batch.request.to_bytes());
        }
        bodies
    }

    fn at(&self, thing: WatchedThing, path: &str) -> impl Iterator<Item = WatchId> {
        self.tables.get(&thing).and_then(|table| table.get(path)).into_iter().flatten().copied()
    }

    fn take(&mut self, thing: WatchedThing, path: &str) -> BTreeSet<WatchId> {
        let watches = self.tables.get_mut(&thing).and_then(|table| table.remove(path)).unwrap_or_default();
        for watch in &watches {
            self.homes.remove(watch);
        }
        watches
    }
}

struct Batch<'a> {
    request: SetWatches2Request<'a>,
    bytes: usize,
}

impl<'a> Batch<'a> {
    fn new(relative_zxid: i64) -> Batch<'a> {
        let request = SetWatches2Request {
            relative_zxid,
            data_watches: Vec::new(),
            exist_watches: Vec::new(),
            child_watches: Vec::new(),
            persistent_watches: Vec::new(),
            persistent_recursive_watches: Vec::new(),
        };
        Batch { request, bytes: 0 }
    }

    fn add(&mut self, thing: WatchedThing, path: &'a str) {
        let list = match thing {
            WatchedThing::Data => &mut self.request.data_watches,
            WatchedThing::Absence => &mut self.request.exist_watches,
            WatchedThing::Children => &mut self.request.child_watches,
            WatchedThing::Persistent => &mut self.request.persistent_watches,
            WatchedThing::PersistentRecursive => &mut self.request.persistent_recursive_watches,
        };
        list.push(path);
        self.bytes += 4 + path.len();
    }
}

/// The node above, `None` above the root.
fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() > 1 => Some("/"),
        0 => None,
        position => Some(&path[..position]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::zookeeper::Reader;

    #[test]
    fn one_shot_watches_fire_once_and_persistent_ones_each_time() {
        let mut registry = Registry::default();
        for (number, thing) in WatchedThing::ALL.into_iter().enumerate() {
            registry.add(WatchId(number as u64), thing, "/a");
        }
        let ids = |watches: Vec<WatchId>| watches.into_iter().map(|watch| watch.0).collect::<Vec<_>>();
        assert_eq!(ids(registry.fire(EventType::NodeCreated, "/a")), [0, 1, 3, 4]);
        assert_eq!(ids(registry.fire(EventType::NodeChildrenChanged, "/a")), [2, 3]);
        assert_eq!(ids(registry.fire(EventType::NodeDeleted, "/a")), [3, 4]);
        assert_eq!(ids(registry.fire(EventType::NodeDeleted, "/a/b/c")), [4]);
        assert_eq!(ids(registry.fire(EventType::NodeChildrenChanged, "/a/b")), [0; 0]);
        registry.forget(WatchId(4));
        registry.forget(WatchId(4));
        assert_eq!(ids(registry.take_all()), [3]);
        assert!(registry.homes.is_empty() && registry.tables.is_empty());
    }

    #[test]
    fn many_watches_are_set_again_in_several_requests() {
        let mut registry = Registry::default();
        assert!(registry.set_watches(7).is_empty());
        for number in 0..5000 {
            registry.add(WatchId(number), WatchedThing::Data, &format!("/{number:0100}"));
            registry.add(
                WatchId(number + 5000),
                WatchedThing::PersistentRecursive,
                &format!("/{number:0100}"),
            );
        }
        let bodies = registry.set_watches(7);
        assert!(bodies.len() > 2 && bodies.iter().all(|body| body.len() < 140_000));
        let requests: Vec<_> =
            bodies.iter().map(|body| SetWatches2Request::read(&mut Reader::new(body)).unwrap()).collect();
        assert!(requests.iter().all(|request| request.relative_zxid == 7));
        assert_eq!(requests.iter().map(|request| request.data_watches.len()).sum::<usize>(), 5000);
        assert_eq!(
            requests.iter().map(|request| request.persistent_recursive_watches.len()).sum::<usize>(),
            5000
        );
    }
}
