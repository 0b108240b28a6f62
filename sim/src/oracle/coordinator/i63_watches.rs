//! I63 and K11: a client hears of a change by its watch before any reply can show it the state after that change, no
//! watch is lost over a reconnect, and none fires twice or for nothing.

use super::{
    events::Request,
    model::versions::{Change, Versions},
};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_protocol::zookeeper::EventType;
use std::collections::BTreeMap;

/// What a watch that fires once waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// For a node that was there: data, or its end.
    Data,
    /// For a node that was not there.
    Existence,
    /// For children, or the end of the node.
    Children,
}

impl Waits {
    fn includes(self, event: EventType) -> bool {
        match event {
            EventType::NodeCreated | EventType::NodeDataChanged => self != Waits::Children,
            EventType::NodeDeleted => true,
            EventType::NodeChildrenChanged => self == Waits::Children,
        }
    }

    /// Whether both are one for the server.
    fn is_same_place(self, other: Waits) -> bool {
        (self == Waits::Children) == (other == Waits::Children)
    }
}

/// A watch that fires once.
#[derive(Debug)]
struct Once {
    path: String,
    waits: Waits,
    /// The state that its client saw when it was set.
    set_zxid: i64,
    /// The connection that it was set on.
    connection: u64,
    /// Whether it is set cannot be told.
    doubtful: bool,
}

/// A watch that stays, as long as its connection does.
#[derive(Debug)]
struct Lasting {
    path: String,
    recursive: bool,
    set_zxid: i64,
    connection: u64,
    doubtful: bool,
}

impl Lasting {
    fn covers(&self, event: EventType, path: &str) -> bool {
        if !self.recursive {
            return path == self.path;
        }
        let below = |rest: &str| self.path == "/" || rest.is_empty() || rest.starts_with('/');
        event != EventType::NodeChildrenChanged && path.strip_prefix(self.path.as_str()).is_some_and(below)
    }
}

/// The watches of one client's session.
#[derive(Debug, Default)]
pub(super) struct Watches {
    once: Vec<Once>,
    lasting: Vec<Lasting>,
    connection: u64,
    /// The client has asked the member on this connection to set its watches again.
    set_again: bool,
    /// The newest transaction that a reply on this connection has named.
    replied_zxid: i64,
    /// How many of all changes have been looked at for the lasting watches.
    looked_at: usize,
    /// Events for lasting watches that came before the replies that show their changes.
    heard: BTreeMap<(EventType, String), u32>,
    /// Nodes of which one more deletion may be told: their two watches were set again on this connection.
    twice: Vec<String>,
}

impl Watches {
    /// The client has a connection. Its watches are there once it has set them again, and those that stay may then have
    /// missed changes.
    pub fn on_connected(&mut self, connection: u64) {
        self.forget_lost();
        self.connection = connection;
        self.set_again = false;
        self.replied_zxid = 0;
        self.heard.clear();
        self.twice.clear();
        self.lasting.iter_mut().for_each(|watch| watch.doubtful = true);
    }

    /// The client asks for its watches to be set again, before anything else.
    pub fn on_setting_again(&mut self) {
        self.set_again = true;
    }

    /// Watches of earlier connections that were not set again are no more.
    fn forget_lost(&mut self) {
        if !self.set_again {
            let connection = self.connection;
            self.once.retain(|watch| watch.connection == connection);
            self.lasting.retain(|watch| watch.connection == connection);
        }
    }

    /// A read that asked for a watch on this connection is answered. `found` is whether the node was there, `doubtful`
    /// whether the watch may be gone already.
    pub fn on_read(&mut self, request: &Request, found: bool, zxid: i64, connection: u64, doubtful: bool) {
        let (path, waits) = match request {
            Request::Exists { path, watch: true } if found => (path, Waits::Data),
            Request::Exists { path, watch: true } => (path, Waits::Existence),
            Request::GetData { path, watch: true } if found => (path, Waits::Data),
            Request::GetChildren { path, watch: true } if found => (path, Waits::Children),
            _ => return,
        };
        for lasting in self.lasting.iter_mut().filter(|watch| watch.path == *path) {
            // A server of this version puts the one in the place of the other.
            lasting.doubtful = true;
        }
        let is_there = |watch: &&mut Once| watch.path == *path && watch.waits.is_same_place(waits);
        if let Some(known) = self.once.iter_mut().find(is_there) {
            if known.doubtful && !doubtful {
                (known.waits, known.set_zxid, known.connection, known.doubtful) =
                    (waits, zxid, connection, false);
            }
            return;
        }
        self.once.push(Once { path: path.clone(), waits, set_zxid: zxid, connection, doubtful });
    }

    /// A watch that stays is set.
    pub fn on_added(&mut self, tree: &Versions, path: &str, recursive: bool, zxid: i64) {
        let path = path.to_owned();
        if self.lasting.iter().all(|watch| watch.doubtful) {
            self.looked_at = tree.changes_up_to(zxid);
        }
        self.lasting.push(Lasting {
            path,
            recursive,
            set_zxid: zxid,
            connection: self.connection,
            doubtful: false,
        });
    }

    /// Whether a read that is under way, and asked for a watch, can explain an event.
    pub fn explains(request: &Request, event: EventType, path: &str) -> bool {
        let waits = match request {
            Request::Exists { watch: true, .. } | Request::GetData { watch: true, .. } => Waits::Data,
            Request::GetChildren { watch: true, .. } => Waits::Children,
            Request::AddWatch { path: watched, recursive } => {
                let (path_of, recursive) = (watched.clone(), *recursive);
                let watch = Lasting { path: path_of, recursive, set_zxid: 0, connection: 0, doubtful: true };
                return watch.covers(event, path);
            }
            _ => return false,
        };
        request.path() == Some(path) && waits.includes(event)
    }

    /// A watch has fired. `explained` is whether a read under way can be the reason. Tells whether nothing else can.
    pub fn on_event(
        &mut self,
        judge: &mut Judge,
        tree: &Versions,
        (event, path): (EventType, &str),
        connection: u64,
        explained: bool,
    ) -> bool {
        self.forget_lost();
        let mut fired = Vec::new();
        let (connection_now, mut place) = (self.connection, 0);
        while place < self.once.len() {
            let watch = &self.once[place];
            if watch.path == path && watch.waits.includes(event) {
                fired.push(self.once.swap_remove(place));
            } else {
                place += 1;
            }
        }
        let lasting = self.lasting.iter().filter(|watch| watch.covers(event, path));
        let lasting = lasting.map(|watch| (watch.set_zxid, watch.doubtful)).min();
        if lasting.is_some() {
            *self.heard.entry((event, path.to_owned())).or_default() += 1;
        }
        let again = self.twice.iter().position(|twice| twice == path && event == EventType::NodeDeleted);
        if let Some(again) = again.filter(|_| fired.is_empty()) {
            self.twice.swap_remove(again);
            return false;
        }
        let known = !fired.is_empty() || lasting.is_some();
        judge.demand(Invariant::K11, known || explained, || {
            format!("{event:?} of {path} is told, though no watch of the client waits for it")
        });
        if fired.len() > 1 && fired.iter().any(|watch| watch.connection != connection_now) {
            self.twice.push(path.to_owned());
        }
        for watch in fired.iter().filter(|watch| !watch.doubtful) {
            let is_new = watch.connection != connection;
            check_event(judge, tree, watch, event, (is_new, self.replied_zxid));
        }
        if let (true, Some((set_zxid, _))) = (fired.is_empty(), lasting) {
            let happened = tree.changes_after(path, set_zxid).iter().any(|(_, change, _)| *change == event);
            judge.demand(Invariant::K11, happened, || {
                format!("{event:?} of {path} is told, which has not happened since {set_zxid}")
            });
        }
        explained && !known
    }

    /// A reply names this transaction: whatever happened up to it must have been told.
    pub fn on_replied(&mut self, judge: &mut Judge, tree: &Versions, zxid: i64) {
        if zxid <= 0 {
            return;
        }
        self.forget_lost();
        self.replied_zxid = self.replied_zxid.max(zxid);
        let connection = self.connection;
        for watch in self.once.iter_mut().filter(|watch| !watch.doubtful) {
            let Some((at, event, public)) = due(tree, watch, watch.connection != connection, zxid) else {
                continue;
            };
            // Told or not, it is not asked for again.
            watch.doubtful = true;
            if public {
                judge.violated(
                    Invariant::I63,
                    format!(
                        "a reply shows transaction {zxid}, but {event:?} of {} in transaction {at} was not told, \
                         for which a watch was set at {}",
                        watch.path, watch.set_zxid
                    ),
                );
            }
        }
        self.look_at_lasting(judge, tree, zxid);
    }

    fn look_at_lasting(&mut self, judge: &mut Judge, tree: &Versions, zxid: i64) {
        if self.lasting.iter().all(|watch| watch.doubtful) {
            return;
        }
        let up_to = tree.changes_up_to(zxid);
        if up_to <= self.looked_at {
            return;
        }
        for change in &tree.all_changes(self.looked_at)[..up_to - self.looked_at] {
            let Change { zxid: at, event, path, public } = change;
            let waits = |watch: &&Lasting| watch.set_zxid < *at && watch.covers(*event, path);
            let certain = self.lasting.iter().filter(waits).any(|watch| !watch.doubtful);
            let mut heard = false;
            if let Some(count) = self.heard.get_mut(&(*event, path.to_string())).filter(|count| **count > 0) {
                *count -= 1;
                heard = true;
            }
            if certain && *public {
                judge.demand(Invariant::I63, heard, || {
                    format!(
                        "a reply shows transaction {zxid}, but {event:?} of {path} in transaction {at} was not told \
                         to the lasting watch"
                    )
                });
            }
        }
        self.looked_at = up_to;
    }
}

/// The change that must have been told by the time a reply names `zxid`.
fn due(tree: &Versions, watch: &Once, set_again: bool, zxid: i64) -> Option<(i64, EventType, bool)> {
    let changes = tree.changes_after(&watch.path, watch.set_zxid);
    let mut changes = changes.iter().take_while(|(at, ..)| *at <= zxid);
    if set_again && watch.waits == Waits::Existence {
        // While nobody looked, the node may have come and gone.
        let node = tree.get_at(&watch.path, zxid)?;
        return (node.czxid > watch.set_zxid).then(|| (node.czxid, EventType::NodeCreated, node.is_public()));
    }
    let found = changes.find(|(_, event, _)| watch.waits.includes(*event))?;
    // A watch that is set again is judged by what the node is then.
    let hidden = set_again && tree.get_at(&watch.path, zxid).is_some_and(|node| !node.is_public());
    Some((found.0, found.1, found.2 && !hidden))
}

/// A watch has fired: was that its first change, and before any reply that shows it?
fn check_event(
    judge: &mut Judge,
    tree: &Versions,
    watch: &Once,
    event: EventType,
    (set_again, replied_zxid): (bool, i64),
) {
    let path = &watch.path;
    let changes = tree.changes_after(path, watch.set_zxid);
    let mut matching = changes.iter().filter(|(_, event, _)| watch.waits.includes(*event));
    let first = match set_again && watch.waits == Waits::Existence {
        true => matching.rfind(|(_, event, _)| *event == EventType::NodeCreated),
        false => matching.next(),
    };
    judge.demand(Invariant::K11, first.is_some(), || {
        format!("{event:?} of {path} is told, which has not happened since {}", watch.set_zxid)
    });
    let Some((at, due, _)) = first else { return };
    judge.demand(Invariant::K11, set_again || event == *due, || {
        format!("{event:?} of {path} is told, but the first change was {due:?} in transaction {at}")
    });
    judge.demand(Invariant::I63, replied_zxid < *at, || {
        format!("{event:?} of {path} in transaction {at} is told after a reply that shows {replied_zxid}")
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        coordinator::{
            Outcome, Request, Response,
            testing::{Run, create, delete, set, watch},
        },
    };
    use sillon_protocol::zookeeper::EventType::{
        NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted,
    };

    fn with_node() -> Run {
        let run = Run::new();
        run.join(7);
        run.join(8);
        run.write(7, &create("/a"));
        run
    }

    fn exists(path: &str) -> Request {
        Request::Exists { path: path.into(), watch: true }
    }

    fn children(path: &str) -> Request {
        Request::GetChildren { path: path.into(), watch: true }
    }

    fn set_again(run: &Run, client: u32) {
        run.disconnected(client);
        run.connected(client, client.into());
        run.sent(client, -8);
    }

    fn add(run: &Run, path: &str, recursive: bool) {
        let invoked = run.invoke(8, &Request::AddWatch { path: path.into(), recursive });
        run.complete(invoked, Outcome::Ok { zxid: run.zxid.get(), response: Response::Nothing });
    }

    #[test]
    fn each_kind_fires_for_what_it_waits_for() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.read(8, &children("/a"));
        run.read(8, &exists("/b"));
        run.write(7, &set("/a", "1"));
        run.fired(8, NodeDataChanged, "/a");
        run.write(7, &create("/a/k"));
        run.fired(8, NodeChildrenChanged, "/a");
        run.write(7, &create("/b"));
        run.fired(8, NodeCreated, "/b");
        run.read(8, &watch("/a/k"));
        run.read(8, &children("/a/k"));
        run.write(7, &delete("/a/k"));
        run.fired(8, NodeDeleted, "/a/k");
        run.pinged(8, run.zxid.get());
        run.assert_legal(&[Invariant::I63, Invariant::K11]);
    }

    #[test]
    fn a_reply_comes_before_the_event() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.write(7, &set("/a", "1"));
        run.pinged(8, run.zxid.get());
        run.assert_violated(Invariant::I63);
    }

    #[test]
    fn an_older_reply_may_come_before_the_event() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.write(7, &set("/a", "1"));
        run.pinged(8, run.zxid.get() - 1);
        run.fired(8, NodeDataChanged, "/a");
        run.pinged(8, run.zxid.get());
        run.assert_legal(&[Invariant::I63]);
    }

    #[test]
    fn a_watch_fires_twice() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.write(7, &set("/a", "1"));
        run.fired(8, NodeDataChanged, "/a");
        run.write(7, &set("/a", "2"));
        run.fired(8, NodeDataChanged, "/a");
        run.assert_violated(Invariant::K11);
    }

    #[test]
    fn a_watch_fires_for_nothing() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.fired(8, NodeDataChanged, "/a");
        run.assert_violated(Invariant::K11);
        let run = with_node();
        run.fired(8, NodeDeleted, "/a");
        run.assert_violated(Invariant::K11);
    }

    #[test]
    fn a_watch_tells_the_second_change_first() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.write(7, &set("/a", "1"));
        run.write(7, &delete("/a"));
        run.fired(8, NodeDeleted, "/a");
        run.assert_violated(Invariant::K11);
    }

    #[test]
    fn watches_are_set_again_and_catch_up() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.read(8, &children("/a"));
        run.read(8, &exists("/b"));
        run.read(8, &exists("/c"));
        run.write(7, &delete("/a"));
        run.write(7, &create("/a"));
        run.write(7, &create("/b"));
        run.write(7, &delete("/b"));
        run.write(7, &create("/c"));
        set_again(&run, 8);
        run.fired(8, NodeDataChanged, "/a");
        run.fired(8, NodeChildrenChanged, "/a");
        run.fired(8, NodeCreated, "/c");
        run.replied(8, -8, run.zxid.get());
        run.assert_legal(&[Invariant::I63, Invariant::K11]);
        run.write(7, &create("/b"));
        run.pinged(8, run.zxid.get());
        run.assert_violated(Invariant::I63);
    }

    #[test]
    fn a_watch_is_lost_over_a_reconnect() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.write(7, &set("/a", "1"));
        set_again(&run, 8);
        run.replied(8, -8, run.zxid.get());
        run.assert_violated(Invariant::I63);
    }

    #[test]
    fn a_client_that_does_not_set_them_again_has_none() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.disconnected(8);
        run.connected(8, 8);
        run.write(7, &set("/a", "1"));
        run.pinged(8, run.zxid.get());
        run.assert_legal(&[]);
        run.fired(8, NodeDataChanged, "/a");
        run.assert_violated(Invariant::K11);
    }

    #[test]
    fn a_deletion_may_be_told_for_both_watches_after_a_reconnect() {
        let run = with_node();
        run.read(8, &watch("/a"));
        run.read(8, &children("/a"));
        run.write(7, &delete("/a"));
        set_again(&run, 8);
        run.fired(8, NodeDeleted, "/a");
        run.fired(8, NodeDeleted, "/a");
        run.replied(8, -8, run.zxid.get());
        run.assert_legal(&[Invariant::I63]);
        run.fired(8, NodeDeleted, "/a");
        run.assert_violated(Invariant::K11);
    }

    #[test]
    fn a_lasting_watch_tells_every_change() {
        let run = with_node();
        add(&run, "/a", false);
        for (request, event) in [
            (set("/a", "1"), NodeDataChanged),
            (set("/a", "2"), NodeDataChanged),
            (create("/a/k"), NodeChildrenChanged),
        ] {
            run.write(7, &request);
            run.fired(8, event, "/a");
        }
        run.pinged(8, run.zxid.get());
        run.assert_legal(&[Invariant::I63]);
        run.write(7, &set("/a", "3"));
        run.pinged(8, run.zxid.get());
        run.assert_violated(Invariant::I63);
    }

    #[test]
    fn a_recursive_watch_tells_what_happens_below() {
        let run = with_node();
        add(&run, "/a", true);
        run.write(7, &create("/a/k"));
        run.fired(8, NodeCreated, "/a/k");
        run.write(7, &create("/ab"));
        run.pinged(8, run.zxid.get());
        run.assert_legal(&[Invariant::I63]);
        run.fired(8, NodeChildrenChanged, "/a");
        run.assert_violated(Invariant::K11);
    }

    #[test]
    fn an_event_that_comes_while_its_read_is_under_way() {
        let run = with_node();
        let zxid = run.zxid.get();
        let invoked = run.invoke(8, &watch("/a"));
        run.write(7, &set("/a", "1"));
        run.fired(8, NodeDataChanged, "/a");
        let shown = run.shown(&watch("/a"), zxid);
        run.complete(invoked, shown);
        run.pinged(8, run.zxid.get());
        run.assert_legal(&[Invariant::K11]);
    }
}
