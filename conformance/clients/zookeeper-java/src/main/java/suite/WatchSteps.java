package suite;

import static org.apache.zookeeper.Watcher.Event.EventType.ChildWatchRemoved;
import static org.apache.zookeeper.Watcher.Event.EventType.DataWatchRemoved;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeChildrenChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeCreated;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDataChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDeleted;
import static org.apache.zookeeper.Watcher.Event.EventType.None;
import static org.apache.zookeeper.Watcher.Event.EventType.PersistentWatchRemoved;
import static suite.Servers.connect;
import static suite.Servers.makeRoot;
import static suite.Servers.servers;
import static suite.Servers.syncAll;
import static suite.Steps.bytes;
import static suite.Steps.expect;
import static suite.Steps.expectEqual;
import static suite.Steps.expectError;
import static suite.Steps.step;
import static suite.Steps.text;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.AsyncCallback.StatCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooDefs.Ids;

/** Watches: which events come, and in which order. */
final class WatchSteps {
  private WatchSteps() {}

  static void run() {
    step("watch-one-shot", 30, WatchSteps::watchOneShot);
    step("watch-order", 30, WatchSteps::watchOrder);
    step("watch-persistent", 20, WatchSteps::watchPersistent);
    step("watch-recursive", 20, WatchSteps::watchRecursive);
    step("remove-watches", 30, WatchSteps::removeWatches);
    step("reconnect-watches", 60, WatchSteps::reconnectWatches);
  }

  private static void watchOneShot() throws Exception {
    String root = makeRoot("watch");
    Client client = connect(), other = connect();
    Events events = new Events();
    expectEqual(client.exists(root + "/a", events), null, "exists");
    other.make(root + "/a", "0");
    events.expectNext(NodeCreated, root + "/a");
    client.getData(root + "/a", events, null);
    other.put(root + "/a", "1");
    events.expectNext(NodeDataChanged, root + "/a");
    other.put(root + "/a", "2");
    events.expectNone(300);
    client.exists(root + "/a", events);
    client.getChildren(root, events);
    other.make(root + "/b", null);
    events.expectNext(NodeChildrenChanged, root);
    client.getChildren(root, events);
    other.delete(root + "/a", -1);
    events.expectAll("NodeDeleted " + root + "/a", "NodeChildrenChanged " + root);
    Events e2 = new Events();
    client.getData(root + "/b", events, null);
    client.getChildren(root + "/b", e2);
    other.delete(root + "/b", -1);
    events.expectNext(NodeDeleted, root + "/b");
    e2.expectNext(NodeDeleted, root + "/b");
    events.expectNone(200);
    e2.expectNone(10);
    client.getChildren(root, events);
    Client x = connect();
    x.make(root + "/events", null, CreateMode.EPHEMERAL);
    events.expectNext(NodeChildrenChanged, root);
    client.exists(root + "/events", events);
    x.close();
    events.expectNext(NodeDeleted, root + "/events");
    try {
      client.getData(root + "/none", events, null);
    } catch (KeeperException.NoNodeException q) {
    }
    other.make(root + "/none", null);
    events.expectNone(300);
    client.getData(root + "/none", events, null);
    other.multi(
        List.of(
            Op.setData(root + "/none", bytes("1"), -1),
            Op.setData(root + "/none", bytes("2"), -1),
            Op.delete(root + "/none", -1)));
    events.expectNext(NodeDataChanged, root + "/none");
    events.expectNone(200);
  }

  private static void watchOrder() throws Exception {
    String root = makeRoot("order");
    Client client = connect(), other = connect();
    client.make(root + "/a", "0");
    List<String> log = Collections.synchronizedList(new ArrayList<>());
    CountDownLatch l = new CountDownLatch(4);
    Watcher ww =
        ev -> {
          if (ev.getType() != None) {
            log.add("event");
            l.countDown();
          }
        };
    client.getData(root + "/a", ww, null);
    client.setData(
        root + "/a",
        bytes("1"),
        -1,
        (rc, p, c, stat) -> {
          log.add("set");
          l.countDown();
        },
        null);
    client.getData(
        root + "/a",
        false,
        (rc, p, c, data, stat) -> {
          log.add("get " + text(data));
          l.countDown();
        },
        null);
    client.exists(
        root + "/zz",
        false,
        (rc, p, c, stat) -> {
          log.add("exists");
          l.countDown();
        },
        null);
    expect(l.await(10, TimeUnit.SECONDS), "callbacks missing: " + log);
    expectEqual(
        log, List.of("event", "set", "get 1", "exists"), "own write: event before its reply");
    // another's writes: who sees the flag's event must read the data written before it
    client.make(root + "/data", "0");
    client.make(root + "/flag", "0");
    for (int i = 1; i <= 50; i++) {
      Events events = new Events();
      client.getData(root + "/flag", events, null);
      other.setData(root + "/data", bytes("" + i), -1, (StatCallback) (rc, p, c, stat) -> {}, null);
      other.setData(root + "/flag", bytes("" + i), -1, (StatCallback) (rc, p, c, stat) -> {}, null);
      events.expectNext(NodeDataChanged, root + "/flag");
      expectEqual(
          text(client.getData(root + "/data", false, null)),
          "" + i,
          "data behind the flag's event");
    }
  }

  private static void watchPersistent() throws Exception {
    String root = makeRoot("pers");
    Client client = connect(), other = connect();
    Events events = new Events();
    client.addWatch(root + "/a", events, AddWatchMode.PERSISTENT);
    other.make(root + "/a", "0");
    events.expectNext(NodeCreated, root + "/a");
    for (int i = 0; i < 3; i++) {
      other.put(root + "/a", "" + i);
      events.expectNext(NodeDataChanged, root + "/a");
    }
    other.make(root + "/a/k", null);
    events.expectNext(NodeChildrenChanged, root + "/a");
    other.put(root + "/a/k", "x");
    other.delete(root + "/a/k", -1);
    events.expectNext(NodeChildrenChanged, root + "/a");
    other.delete(root + "/a", -1);
    events.expectNext(NodeDeleted, root + "/a");
    other.make(root + "/a", "0");
    events.expectNext(NodeCreated, root + "/a");
    events.expectNone(200);
  }

  private static void watchRecursive() throws Exception {
    String root = makeRoot("rec");
    Client client = connect(), other = connect();
    Events events = new Events();
    client.addWatch(root, events, AddWatchMode.PERSISTENT_RECURSIVE);
    other.make(root + "/a", "0");
    events.expectNext(NodeCreated, root + "/a");
    other.make(root + "/a/b", "0");
    events.expectNext(NodeCreated, root + "/a/b");
    other.put(root + "/a/b", "1");
    events.expectNext(NodeDataChanged, root + "/a/b");
    other.put(root, "1");
    events.expectNext(NodeDataChanged, root);
    other.multi(List.of(Op.delete(root + "/a/b", -1), Op.delete(root + "/a", -1)));
    events.expectNext(NodeDeleted, root + "/a/b");
    events.expectNext(NodeDeleted, root + "/a");
    Client x = connect();
    x.make(root + "/events", null, CreateMode.EPHEMERAL);
    events.expectNext(NodeCreated, root + "/events");
    x.close();
    events.expectNext(NodeDeleted, root + "/events");
    events.expectNone(300);
    // one-shot child watch of the same client beside the recursive one
    Events c = new Events();
    client.getChildren(root, c);
    other.make(root + "/n", null);
    events.expectNext(NodeCreated, root + "/n");
    c.expectNext(NodeChildrenChanged, root);
    c.expectNone(100); // (a 3.8 client hands that event to the recursive watcher too: its own bug,
    // ZOOKEEPER-4475)
  }

  private static void removeWatches() throws Exception {
    String root = makeRoot("rm");
    Client client = connect(), other = connect();
    client.make(root + "/a", "0");
    Events events = new Events(),
        f = new Events(),
        c = new Events(),
        p = new Events(),
        q = new Events();
    client.getData(root + "/a", events, null);
    client.removeWatches(root + "/a", events, WatcherType.Data, false);
    events.expectNext(DataWatchRemoved, root + "/a");
    other.put(root + "/a", "1");
    events.expectNone(200);
    client.getData(root + "/a", events, null);
    client.getData(root + "/a", f, null);
    client.removeWatches(root + "/a", events, WatcherType.Any, false);
    events.expectNext(DataWatchRemoved, root + "/a");
    other.put(root + "/a", "2");
    f.expectNext(NodeDataChanged, root + "/a");
    events.expectNone(100);
    client.getChildren(root + "/a", c);
    client.removeWatches(root + "/a", c, WatcherType.Children, false);
    c.expectNext(ChildWatchRemoved, root + "/a");
    other.make(root + "/a/k", null);
    c.expectNone(200);
    client.addWatch(root + "/a", p, AddWatchMode.PERSISTENT);
    client.removeWatches(root + "/a", p, WatcherType.Any, false);
    p.expectNext(PersistentWatchRemoved, root + "/a");
    other.put(root + "/a", "3");
    p.expectNone(200);
    client.addWatch(root + "/a", q, AddWatchMode.PERSISTENT_RECURSIVE);
    client.removeAllWatches(root + "/a", WatcherType.Any, false);
    q.expectNext(PersistentWatchRemoved, root + "/a");
    other.put(root + "/a/k", "3");
    q.expectNone(200);
    client.getChildren(root + "/a", c);
    client.getData(root + "/a", events, null);
    client.removeAllWatches(root + "/a", WatcherType.Children, false);
    c.expectNext(ChildWatchRemoved, root + "/a");
    other.put(root + "/a", "4");
    events.expectNext(NodeDataChanged, root + "/a");
    expectError(
        Code.NOWATCHER, () -> client.removeWatches(root + "/a", events, WatcherType.Any, false));
    try (RawConnection r = new RawConnection(servers[0], 0, null, 0, 10000)) {
      expectEqual(r.call(18, root + "/a", 3).error, -121, "removeWatches without a watch");
      expectEqual(r.call(17, root + "/a", 1).error, -121, "checkWatches without a watch");
      r.call(3, root + "/a", true);
      expectEqual(r.call(17, root + "/a", 2).error, 0, "checkWatches with a data watch");
      expectEqual(r.call(18, root + "/a", 2).error, 0, "removeWatches data");
      expectEqual(r.call(17, root + "/a", 2).error, -121, "checkWatches afterwards");
      r.call(-11);
    }
  }

  private static void reconnectWatches() throws Exception {
    String root = makeRoot("rewatch");
    Proxy.All proxies = new Proxy.All();
    Client client = connect(proxies.connectString, 12000), other = connect();
    for (String x : List.of("/d1", "/d2", "/c1", "/c2", "/same", "/p", "/r"))
      client.make(root + x, "0");
    client.addAuthInfo("digest", bytes("u:p"));
    client.create(root + "/auth", bytes("s"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
    client.make(root + "/eph", null, CreateMode.EPHEMERAL);
    Events events = new Events(),
        same = new Events(),
        per = new Events(),
        rec = new Events(),
        bulk = new Events();
    long id = client.getSessionId();
    client.getData(root + "/d1", events, null);
    client.getData(root + "/d2", events, null);
    client.exists(root + "/new", events);
    client.getChildren(root + "/c1", events);
    client.getChildren(root + "/c2", events);
    client.getData(root + "/same", same, null);
    client.addWatch(root + "/p", per, AddWatchMode.PERSISTENT);
    client.addWatch(root + "/r", rec, AddWatchMode.PERSISTENT_RECURSIVE);
    CountDownLatch l = new CountDownLatch(2000);
    String pad = "x".repeat(90);
    for (int i = 0; i < 2000; i++)
      client.exists(root + "/" + pad + i, bulk, (rc, p, c, stat) -> l.countDown(), null);
    expect(l.await(15, TimeUnit.SECONDS), "bulk watches");
    proxies.refuse(true);
    proxies.cut();
    client.events.awaitState(KeeperState.Disconnected, 5);
    other.put(root + "/d1", "1");
    other.delete(root + "/d2", -1);
    other.make(root + "/new", null);
    other.make(root + "/c1/k", null);
    other.delete(root + "/c2", -1);
    other.put(root + "/p", "1");
    other.make(root + "/r/k", null);
    syncAll();
    proxies.refuse(false);
    client.events.awaitState(KeeperState.SyncConnected, 20);
    expectEqual(client.getSessionId(), id, "session id");
    events.expectAll(
        "NodeDataChanged " + root + "/d1",
        "NodeDeleted " + root + "/d2",
        "NodeCreated " + root + "/new",
        "NodeChildrenChanged " + root + "/c1",
        "NodeDeleted " + root + "/c2");
    client.exists(root, false);
    same.expectNone(200);
    other.put(root + "/same", "2");
    same.expectNext(NodeDataChanged, root + "/same");
    per.expectNone(50);
    rec.expectNone(50);
    other.make(root + "/p/k", null);
    per.expectNext(NodeChildrenChanged, root + "/p");
    other.put(root + "/r/k", "2");
    rec.expectNext(NodeDataChanged, root + "/r/k");
    other.make(root + "/" + pad + 1999, null);
    bulk.expectNext(NodeCreated, root + "/" + pad + 1999);
    other.make(root + "/" + pad + 0, null);
    bulk.expectNext(NodeCreated, root + "/" + pad + 0);
    bulk.expectNone(50);
    expectEqual(text(client.getData(root + "/auth", false, null)), "s", "auth after reconnect");
    expectEqual(client.exists(root + "/eph", false).getEphemeralOwner(), id, "ephemeral");
    client.delete(root + "/auth", -1);
  }
}
