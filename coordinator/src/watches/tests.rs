//! Watches as scenarios, as a ZooKeeper 3.8.4 was seen to behave, and against a model that knows no shortcut.

use super::*;
use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
use proptest::prelude::*;

/// Fires an event and gives who is told.
fn told(watches: &mut Watches, event: EventType, path: &str) -> Vec<u64> {
    let mut out = Vec::new();
    watches.fire(event, path, &mut out);
    out
}

/// A node comes: what it and its parent tell.
fn create(watches: &mut Watches, path: &str) -> (Vec<u64>, Vec<u64>) {
    let node = told(watches, NodeCreated, path);
    (node, told(watches, NodeChildrenChanged, ancestors(path).next().unwrap()))
}

/// A node goes: what it and its parent tell.
fn delete(watches: &mut Watches, path: &str) -> (Vec<u64>, Vec<u64>) {
    let node = told(watches, NodeDeleted, path);
    (node, told(watches, NodeChildrenChanged, ancestors(path).next().unwrap()))
}

const NOBODY: Vec<u64> = Vec::new();

#[test]
fn a_one_shot_watch_fires_once() {
    let mut watches = Watches::new();
    watches.add(7, "/a", WatchKind::Data);
    watches.add(7, "/a", WatchKind::Data);
    assert_eq!(watches.count(), 1);
    assert_eq!(told(&mut watches, NodeChildrenChanged, "/a"), NOBODY);
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [7]);
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), NOBODY);
    assert_eq!(watches.count(), 0);
}

#[test]
fn watchers_are_told_in_the_order_of_their_numbers() {
    let mut watches = Watches::new();
    for watcher in [9, 3, 200, 5] {
        watches.add(watcher, "/a/b", WatchKind::Data);
    }
    watches.add(4, "/", WatchKind::PersistentRecursive);
    watches.add(3, "/a", WatchKind::PersistentRecursive);
    let mut out = vec![1000];
    watches.fire(NodeDataChanged, "/a/b", &mut out);
    assert_eq!(out, [1000, 3, 4, 5, 9, 200]);
}

#[test]
fn a_deletion_is_told_once_to_who_watches_data_and_children() {
    let mut watches = Watches::new();
    watches.add(1, "/a/b", WatchKind::Data);
    watches.add(1, "/a/b", WatchKind::Child);
    watches.add(2, "/a/b", WatchKind::Child);
    watches.add(2, "/a", WatchKind::Child);
    assert_eq!(delete(&mut watches, "/a/b"), (vec![1, 2], vec![2]));
    assert_eq!(watches.count(), 0);
}

#[test]
fn a_persistent_watch_tells_of_data_and_children_each_time() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::Persistent);
    for _ in 0..2 {
        assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [1]);
        assert_eq!(create(&mut watches, "/a/b"), (NOBODY, vec![1]));
    }
    assert_eq!(told(&mut watches, NodeDeleted, "/a"), [1]);
    assert_eq!(told(&mut watches, NodeCreated, "/a"), [1]);
}

#[test]
fn a_recursive_watch_tells_of_everything_below_but_not_of_lists_of_children() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::PersistentRecursive);
    assert_eq!(create(&mut watches, "/a/b/c"), (vec![1], NOBODY));
    assert_eq!(create(&mut watches, "/a/b"), (vec![1], NOBODY));
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [1]);
    assert_eq!(told(&mut watches, NodeDataChanged, "/ab"), NOBODY);
    assert_eq!(delete(&mut watches, "/a/b/c"), (vec![1], NOBODY));
}

#[test]
fn a_one_shot_data_watch_takes_the_place_of_a_persistent_ones_data_half() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::Persistent);
    watches.add(1, "/a", WatchKind::Data);
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [1]);
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), NOBODY);
    assert_eq!(create(&mut watches, "/a/b"), (NOBODY, vec![1]));
    assert_eq!(create(&mut watches, "/a/c"), (NOBODY, vec![1]));
}

#[test]
fn a_one_shot_child_watch_takes_the_place_of_a_persistent_ones_child_half() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::Persistent);
    watches.add(1, "/a", WatchKind::Child);
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [1]);
    assert_eq!(create(&mut watches, "/a/b"), (NOBODY, vec![1]));
    assert_eq!(create(&mut watches, "/a/c"), (NOBODY, NOBODY));
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [1]);
}

#[test]
fn a_recursive_watch_overtaken_by_a_data_watch_tells_of_deletions_alone() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::PersistentRecursive);
    watches.add(1, "/a", WatchKind::Data);
    assert_eq!(create(&mut watches, "/a/b"), (NOBODY, NOBODY));
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [1]);
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), NOBODY);
    assert_eq!(delete(&mut watches, "/a/b"), (vec![1], NOBODY));
}

#[test]
fn a_recursive_watch_overtaken_by_a_child_watch_goes_on() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::PersistentRecursive);
    watches.add(1, "/a", WatchKind::Child);
    assert_eq!(create(&mut watches, "/a/b"), (vec![1], vec![1]));
    assert_eq!(create(&mut watches, "/a/c"), (vec![1], NOBODY));
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [1]);
    assert_eq!(delete(&mut watches, "/a/c"), (vec![1], NOBODY));
}

#[test]
fn watches_are_removed_by_type() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::Persistent);
    watches.add(2, "/a", WatchKind::Data);
    assert!(!watches.remove(2, "/a", WatcherType::Children));
    assert!(!watches.remove(1, "/b", WatcherType::Any));
    assert!(watches.remove(1, "/a", WatcherType::Data));
    assert_eq!(told(&mut watches, NodeDataChanged, "/a"), [2]);
    assert_eq!(create(&mut watches, "/a/b"), (NOBODY, vec![1]));
    assert!(watches.remove(1, "/a", WatcherType::Any));
    assert!(!watches.remove(1, "/a", WatcherType::Any));
    assert_eq!(watches.count(), 0);
}

#[test]
fn check_watches_is_satisfied_by_anybodys_watch() {
    let mut watches = Watches::new();
    watches.add(1, "/a", WatchKind::Data);
    assert!(watches.has(1, "/a", WatcherType::Data));
    assert!(watches.has(2, "/a", WatcherType::Any));
    assert!(!watches.has(1, "/a", WatcherType::Children));
    assert!(!watches.has(1, "/", WatcherType::Any));
}

#[test]
fn a_connection_that_ends_leaves_nothing_behind() {
    let mut watches = Watches::new();
    for watcher in 0..100 {
        watches.add(watcher, "/", WatchKind::PersistentRecursive);
        watches.add(watcher, &format!("/{watcher}"), WatchKind::Child);
        watches.add(watcher, "/x", WatchKind::Persistent);
    }
    assert_eq!(watches.count(), 500);
    let counts = watches.counts();
    assert_eq!(counts, WatchCounts { connections: 100, paths: 2, data: 200, child: 300 });
    for watcher in 0..100 {
        watches.remove_watcher(watcher);
        watches.remove_watcher(watcher);
    }
    assert!(watches.paths.is_empty() && watches.watchers.is_empty());
    assert_eq!((watches.count(), watches.data.recursive, watches.child.recursive), (0, 0, 0));
}

#[test]
fn dumps_are_sorted_and_show_the_data_table() {
    let mut watches = Watches::new();
    watches.add(2, "/b", WatchKind::Data);
    watches.add(1, "/b", WatchKind::Persistent);
    watches.add(1, "/a", WatchKind::Data);
    watches.add(3, "/c", WatchKind::Child);
    assert_eq!(watches.by_connection(), [(1, vec!["/a", "/b"]), (2, vec!["/b"])]);
    assert_eq!(watches.by_path(), [("/a", vec![1]), ("/b", vec![1, 2])]);
}

#[test]
fn the_paths_above_a_path() {
    assert_eq!(ancestors("/a/bc/d").collect::<Vec<_>>(), ["/a/bc", "/a", "/"]);
    assert_eq!(ancestors("/a").collect::<Vec<_>>(), ["/"]);
    assert_eq!(ancestors("/").count(), 0);
    assert_eq!(ancestors("").count(), 0);
}

#[test]
fn a_client_that_comes_back_hears_what_it_missed() {
    let lookup = |path: &str| match path {
        "/old" => Some(NodeZxids { czxid: 1, mzxid: 1, pzxid: 1 }),
        "/written" => Some(NodeZxids { czxid: 1, mzxid: 8, pzxid: 1 }),
        "/grown" => Some(NodeZxids { czxid: 1, mzxid: 1, pzxid: 8 }),
        _ => None,
    };
    let all = vec!["/old", "/written", "/grown", "/none"];
    let request = SetWatches {
        relative_zxid: 7,
        data: all.clone(),
        exist: all.clone(),
        child: all.clone(),
        persistent: vec!["/written"],
        persistent_recursive: vec!["/none"],
    };
    let answer = catch_up(&request, lookup);
    assert_eq!(
        answer.events,
        [
            (NodeDataChanged, "/written"),
            (NodeDeleted, "/none"),
            (NodeCreated, "/old"),
            (NodeCreated, "/written"),
            (NodeCreated, "/grown"),
            (NodeChildrenChanged, "/grown"),
            (NodeDeleted, "/none"),
        ]
    );
    assert_eq!(
        answer.set,
        [
            (WatchKind::Data, "/old"),
            (WatchKind::Data, "/grown"),
            (WatchKind::Data, "/none"),
            (WatchKind::Child, "/old"),
            (WatchKind::Child, "/written"),
            (WatchKind::Persistent, "/written"),
            (WatchKind::PersistentRecursive, "/none"),
        ]
    );
    let mut watches = Watches::new();
    answer.apply(1, &mut watches);
    assert_eq!(watches.count(), 7, "what comes later takes the place of what was set before");
}

/// One table of the model: everything in one ordered map.
#[derive(Default)]
struct ModelTable(BTreeMap<(String, u64), Mode>);

impl ModelTable {
    fn fire(&mut self, event: EventType, path: &str) -> BTreeSet<u64> {
        let mut told = BTreeSet::new();
        self.0.retain(|(watched, watcher), mode| {
            let below = watched == "/" || path.starts_with(&format!("{watched}/"));
            let reached = match mode {
                Mode::PersistentRecursive => (watched == path || below) && event != NodeChildrenChanged,
                _ => watched == path,
            };
            if reached {
                told.insert(*watcher);
            }
            !(reached && *mode == Mode::OneShot)
        });
        told
    }
}

#[derive(Default)]
struct Model {
    data: ModelTable,
    child: ModelTable,
}

impl Model {
    fn tables(&mut self, watcher_type: WatcherType) -> Vec<&mut ModelTable> {
        match watcher_type {
            WatcherType::Data => vec![&mut self.data],
            WatcherType::Children => vec![&mut self.child],
            WatcherType::Any => vec![&mut self.data, &mut self.child],
        }
    }

    fn add(&mut self, watcher: u64, path: &str, kind: WatchKind) {
        let (watcher_type, mode) = match kind {
            WatchKind::Data => (WatcherType::Data, Mode::OneShot),
            WatchKind::Child => (WatcherType::Children, Mode::OneShot),
            WatchKind::Persistent => (WatcherType::Any, Mode::Persistent),
            WatchKind::PersistentRecursive => (WatcherType::Any, Mode::PersistentRecursive),
        };
        for table in self.tables(watcher_type) {
            table.0.insert((path.to_owned(), watcher), mode);
        }
    }

    fn fire(&mut self, event: EventType, path: &str) -> Vec<u64> {
        let mut told = match event {
            NodeChildrenChanged => self.child.fire(event, path),
            _ => self.data.fire(event, path),
        };
        if event == NodeDeleted {
            told.extend(self.child.fire(event, path));
        }
        told.into_iter().collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, &'static str, WatchKind),
    Fire(EventType, &'static str),
    Remove(u64, &'static str, WatcherType),
    RemoveWatcher(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let path = || prop::sample::select(vec!["/", "/a", "/a/b", "/a/b/c", "/ab", "/b"]);
    let kinds =
        vec![WatchKind::Data, WatchKind::Child, WatchKind::Persistent, WatchKind::PersistentRecursive];
    let types = vec![WatcherType::Any, WatcherType::Children, WatcherType::Data];
    let events = vec![NodeCreated, NodeDeleted, NodeDataChanged, NodeChildrenChanged];
    let step = prop_oneof![
        6 => (0..5u64, path(), prop::sample::select(kinds)).prop_map(|(w, p, k)| Step::Add(w, p, k)),
        4 => (prop::sample::select(events), path()).prop_map(|(e, p)| Step::Fire(e, p)),
        2 => (0..5u64, path(), prop::sample::select(types)).prop_map(|(w, p, t)| Step::Remove(w, p, t)),
        1 => (0..5u64).prop_map(Step::RemoveWatcher),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn watches_behave_as_the_model(steps in steps()) {
        let (mut watches, mut model) = (Watches::new(), Model::default());
        for step in steps {
            match step {
                Step::Add(watcher, path, kind) => {
                    watches.add(watcher, path, kind);
                    model.add(watcher, path, kind);
                }
                Step::Fire(event, path) => {
                    prop_assert_eq!(told(&mut watches, event, path), model.fire(event, path));
                }
                Step::Remove(watcher, path, watcher_type) => {
                    let key = (path.to_owned(), watcher);
                    let mut had = false;
                    for table in model.tables(watcher_type) {
                        had |= table.0.remove(&key).is_some();
                    }
                    prop_assert_eq!(watches.remove(watcher, path, watcher_type), had);
                }
                Step::RemoveWatcher(watcher) => {
                    watches.remove_watcher(watcher);
                    for table in model.tables(WatcherType::Any) {
                        table.0.retain(|(_, theirs), _| *theirs != watcher);
                    }
                }
            }
            prop_assert_eq!(watches.count(), model.data.0.len() + model.child.0.len());
            let paths = |watches: &Watches| watches.by_path().iter().map(|(_, all)| all.len()).sum::<usize>();
            prop_assert_eq!(paths(&watches), model.data.0.len());
            let recursive = |t: &ModelTable| t.0.values().filter(|m| **m == Mode::PersistentRecursive).count();
            prop_assert_eq!(watches.data.recursive, recursive(&model.data));
            prop_assert_eq!(watches.child.recursive, recursive(&model.child));
        }
        for watcher in 0..5 {
            watches.remove_watcher(watcher);
        }
        prop_assert!(watches.paths.is_empty() && watches.watchers.is_empty());
    }
}
