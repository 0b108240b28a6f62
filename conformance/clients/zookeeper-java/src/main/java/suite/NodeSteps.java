package suite;

import static org.apache.zookeeper.Watcher.Event.EventType.NodeChildrenChanged;
import static suite.Servers.connect;
import static suite.Servers.connectString;
import static suite.Servers.extendedTypes;
import static suite.Servers.makeRoot;
import static suite.Servers.server;
import static suite.Servers.servers;
import static suite.Steps.bytes;
import static suite.Steps.closeLater;
import static suite.Steps.eventually;
import static suite.Steps.expect;
import static suite.Steps.expectEqual;
import static suite.Steps.expectError;
import static suite.Steps.note;
import static suite.Steps.step;
import static suite.Steps.text;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Creating, reading, changing and listing nodes. */
final class NodeSteps {
  private NodeSteps() {}

  static void run() {
    step("connect-each", 30, NodeSteps::connectEach);
    step("create-modes", 30, NodeSteps::createModes);
    step("ttl", 20, NodeSteps::ttl);
    step("get-set-delete", 20, NodeSteps::getSetDelete);
    step("large-value", 30, NodeSteps::largeValue);
    step("children-10000", 60, NodeSteps::children10000);
    step("get-ephemerals", 20, NodeSteps::getEphemerals);
    step("all-children-number", 20, NodeSteps::allChildrenNumber);
    step("config-node", 20, NodeSteps::configNode);
  }

  private static void connectEach() throws Exception {
    Set<Long> ids = new HashSet<>();
    for (String s : servers)
      for (int i = 0; i < 2; i++) {
        Client client = connect(s, 10000);
        expect(
            client.getSessionId() != 0 && ids.add(client.getSessionId()),
            "session ids not distinct");
        expectEqual(client.getSessionTimeout(), 10000, "negotiated timeout");
        expectEqual(client.getSessionPasswd().length, 16, "password length");
        expect(client.getChildren("/", false).contains("zookeeper"), "no /zookeeper");
      }
    ZooKeeper ro = new ZooKeeper(connectString, 10000, new Events(), true);
    closeLater(
        () -> {
          try {
            ro.close();
          } catch (InterruptedException e) {
          }
        });
    eventually(
        10, "connected with canBeReadOnly", () -> ro.getState() == ZooKeeper.States.CONNECTED);
  }

  private static void createModes() throws Exception {
    String root = makeRoot("modes");
    Client client = connect();
    Stat stat = new Stat();
    expectEqual(
        client.create(root + "/p", bytes("v"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat),
        root + "/p",
        "path");
    expectEqual(stat.getCzxid(), stat.getMzxid(), "czxid/mzxid");
    expectEqual(stat.getPzxid(), stat.getCzxid(), "pzxid");
    expectEqual(stat.getVersion(), 0, "version");
    expectEqual(stat.getDataLength(), 1, "dataLength");
    expectEqual(stat.getEphemeralOwner(), 0L, "owner");
    expect(Math.abs(stat.getCtime() - System.currentTimeMillis()) < 300000, "ctime");
    expectEqual(stat.getCtime(), stat.getMtime(), "mtime");
    expectEqual(
        client.make(root + "/s-", "v", CreateMode.PERSISTENT_SEQUENTIAL),
        root + "/s-0000000001",
        "sequence counts all creates");
    client.make(root + "/q", null);
    expectEqual(
        client.make(root + "/s-", "v", CreateMode.PERSISTENT_SEQUENTIAL),
        root + "/s-0000000003",
        "sequence");
    client.delete(root + "/q", -1);
    expectEqual(
        client.make(root + "/e-", "v", CreateMode.EPHEMERAL_SEQUENTIAL),
        root + "/e-0000000004",
        "a delete does not move the sequence");
    expectEqual(
        client.make(root + "/", null, CreateMode.PERSISTENT_SEQUENTIAL),
        root + "/0000000005",
        "bare sequence");
    expectEqual(client.exists(root, false).getCversion(), 7, "cversion = creates + deletes");
    expectEqual(client.exists(root, false).getNumChildren(), 5, "numChildren");
    client.create(root + "/e", bytes("v"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, stat);
    expectEqual(stat.getEphemeralOwner(), client.getSessionId(), "owner");
    expectError(Code.NOCHILDRENFOREPHEMERALS, () -> client.make(root + "/e/x", null));
    client.create(root + "/c", bytes("v"), Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
    expectEqual(stat.getEphemeralOwner(), 0L, "a container's ephemeralOwner reads as 0");
    client.make(root + "/c/x", null);
    expectError(Code.NODEEXISTS, () -> client.make(root + "/p", null));
    expectError(Code.NONODE, () -> client.make(root + "/no/x", null));
    expectError(
        Code.INVALIDACL,
        () -> client.create(root + "/client", null, new ArrayList<>(), CreateMode.PERSISTENT));
    expectError(Code.NODEEXISTS, () -> client.make("/", null));
    expectError(Code.BADARGUMENTS, () -> client.delete("/zookeeper", -1));
    client.make(root + "/null", null);
    client.make(root + "/empty", "");
    expectEqual(client.getData(root + "/null", false, stat), null, "null data");
    expectEqual(stat.getDataLength(), 0, "null length");
    expectEqual(text(client.getData(root + "/empty", false, stat)), "", "empty data");
    client.make(root + "/\u00fcn\u00efc\u00f6d\u00e9-\u65e5\u672c", "\u65e5");
    expectEqual(
        text(client.getData(root + "/\u00fcn\u00efc\u00f6d\u00e9-\u65e5\u672c", false, null)),
        "\u65e5",
        "unicode");
  }

  private static void ttl() throws Exception {
    String root = makeRoot("ttl");
    Client client = connect();
    Stat stat = new Stat();
    if (!extendedTypes) {
      expectError(
          Code.UNIMPLEMENTED,
          () ->
              client.create(
                  root + "/t",
                  bytes("v"),
                  Ids.OPEN_ACL_UNSAFE,
                  CreateMode.PERSISTENT_WITH_TTL,
                  stat,
                  5000));
      note = "extendedTypes types off: Unimplemented, as it must be";
      return;
    }
    client.create(
        root + "/t", bytes("v"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 300000);
    expectEqual(stat.getEphemeralOwner(), 0L, "a TTL node's ephemeralOwner reads as 0");
    expectEqual(
        client.create(
            root + "/t-",
            bytes("v"),
            Ids.OPEN_ACL_UNSAFE,
            CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
            stat,
            300000),
        root + "/t-0000000001",
        "seq");
    client.make(root + "/t/x", null);
    expect(!client.getEphemerals().contains(root + "/t"), "TTL node among ephemerals");
  }

  private static void getSetDelete() throws Exception {
    String root = makeRoot("crud");
    Client client = connect();
    client.make(root + "/a", "0");
    Stat s0 = client.exists(root + "/a", false);
    Stat s1 = client.setData(root + "/a", bytes("11"), 0);
    expectEqual(s1.getVersion(), 1, "version");
    expect(
        s1.getMzxid() > s0.getMzxid()
            && s1.getCzxid() == s0.getCzxid()
            && s1.getPzxid() == s0.getPzxid(),
        "zxids");
    expectError(Code.BADVERSION, () -> client.setData(root + "/a", bytes("x"), 0));
    expectError(Code.NONODE, () -> client.setData(root + "/no", bytes("x"), -1));
    Stat stat = new Stat();
    expectEqual(text(client.getData(root + "/a", false, stat)), "11", "data");
    expectEqual(stat, s1, "stat");
    client.make(root + "/a/b", null);
    Stat s2 = client.exists(root + "/a", false);
    expectEqual(s2.getCversion(), 1, "cversion");
    expectEqual(s2.getMzxid(), s1.getMzxid(), "mzxid moved by a child");
    expect(s2.getPzxid() > s1.getMzxid(), "pzxid");
    expectError(Code.NOTEMPTY, () -> client.delete(root + "/a", -1));
    expectError(Code.BADVERSION, () -> client.delete(root + "/a/b", 7));
    client.delete(root + "/a/b", 0);
    expectError(Code.NONODE, () -> client.delete(root + "/a/b", -1));
    expectError(Code.NONODE, () -> client.getData(root + "/a/b", false, null));
    expectError(Code.NONODE, () -> client.getChildren(root + "/a/b", false));
    expectEqual(client.exists(root + "/a/b", false), null, "exists");
    expectEqual(client.exists(root + "/a", false).getCversion(), 2, "cversion after delete");
    Stat cs = new Stat();
    expectEqual(
        new TreeSet<>(client.getChildren(root, false, cs)),
        new TreeSet<>(List.of("a")),
        "children");
    expectEqual(cs.getNumChildren(), 1, "numChildren");
  }

  private static void largeValue() throws Exception {
    String root = makeRoot("large");
    Client client = connect(server(0), 10000), other = connect(server(1), 10000);
    byte[] v = new byte[900000];
    new Random(1).nextBytes(v);
    client.create(root + "/a", v, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    Stat stat = new Stat();
    other.syncNow(root);
    expect(Arrays.equals(other.getData(root + "/a", false, stat), v), "bytes differ");
    expectEqual(stat.getDataLength(), v.length, "dataLength");
    v[7]++;
    other.setData(root + "/a", v, 0);
    client.syncNow(root);
    expect(Arrays.equals(client.getData(root + "/a", false, stat), v), "bytes differ after set");
    expectError(Code.CONNECTIONLOSS, () -> client.setData(root + "/a", new byte[1100000], -1));
    client.events.awaitState(KeeperState.SyncConnected, 15);
    expectEqual(
        client.exists(root + "/a", false).getVersion(), 1, "session survives, nothing written");
  }

  private static void children10000() throws Exception {
    String root = makeRoot("many");
    Client client = connect();
    client.make(root + "/m", null);
    String m = root + "/m";
    Semaphore s = new Semaphore(400);
    AtomicInteger bad = new AtomicInteger();
    int n = 10000;
    Events events = new Events();
    client.getChildren(m, events);
    for (int i = 0; i < n; i++) {
      s.acquire();
      client.create(
          m + String.format("/child-%05d", i),
          null,
          Ids.OPEN_ACL_UNSAFE,
          CreateMode.PERSISTENT,
          (rc, p, c, nm) -> {
            if (rc != 0) bad.incrementAndGet();
            s.release();
          },
          null);
    }
    s.acquire(400);
    s.release(400);
    expectEqual(bad.get(), 0, "failed creates");
    Stat stat = new Stat();
    List<String> k = client.getChildren(m, false, stat);
    expectEqual(new HashSet<>(k).size(), n, "children");
    expectEqual(stat.getNumChildren(), n, "numChildren");
    expectEqual(stat.getCversion(), n, "cversion");
    events.expectNext(NodeChildrenChanged, m);
    for (int i = 0; i < n; i += 500) {
      List<Op> o = new ArrayList<>();
      for (String c : k.subList(i, i + 500)) o.add(Op.delete(m + "/" + c, -1));
      client.multi(o);
    }
    expectEqual(client.getChildren(m, false, stat).size(), 0, "after delete");
    expectEqual(stat.getCversion(), 2 * n, "cversion after delete");
  }

  private static void getEphemerals() throws Exception {
    String root = makeRoot("eph");
    Client client = connect(), o = connect();
    client.make(root + "/p", null);
    for (String x : List.of("/a1", "/a2", "/p/b"))
      client.make(root + x, null, CreateMode.EPHEMERAL);
    o.make(root + "/o", null, CreateMode.EPHEMERAL);
    expectEqual(
        new TreeSet<>(client.getEphemerals()),
        new TreeSet<>(List.of(root + "/a1", root + "/a2", root + "/p/b")),
        "all");
    expectEqual(
        new TreeSet<>(client.getEphemerals(root + "/a")),
        new TreeSet<>(List.of(root + "/a1", root + "/a2")),
        "prefix");
    expectEqual(client.getEphemerals("/no-such"), List.of(), "none");
    client.delete(root + "/a1", -1);
    expectEqual(client.getEphemerals().size(), 2, "after delete");
  }

  private static void allChildrenNumber() throws Exception {
    String root = makeRoot("count");
    Client client = connect();
    for (String x : List.of("/a", "/a/b", "/a/b/c", "/ab", "/a-")) client.make(root + x, null);
    expectEqual(client.getAllChildrenNumber(root), 5, "below the root");
    expectEqual(client.getAllChildrenNumber(root + "/a"), 2, "below a (not a-, ab)");
    expectEqual(client.getAllChildrenNumber(root + "/a/b/c"), 0, "leaf");
    expect(client.getAllChildrenNumber("/") >= 6, "below /");
    expectError(Code.NONODE, () -> client.getAllChildrenNumber(root + "/none"));
  }

  private static void configNode() throws Exception {
    Client client = connect();
    Stat stat = new Stat();
    byte[] c = client.getConfig(false, stat);
    String t = text(c);
    note = t == null ? "null" : t.isEmpty() ? "empty" : t.split("\n").length + " lines";
    if (servers.length > 1) {
      expect(
          t != null && t.split("server\\.[0-9]+=").length == servers.length + 1,
          "one server.N line for each: " + t);
      expect(t.contains("version="), "no version line");
    }
    expectError(Code.NOAUTH, () -> client.setData("/zookeeper/config", bytes("x"), -1));
    expectEqual(
        new TreeSet<>(client.getChildren("/zookeeper", false)),
        new TreeSet<>(List.of("config", "quota")),
        "/zookeeper");
  }
}
