package suite;

import static suite.Servers.connect;
import static suite.Servers.makeRoot;
import static suite.Servers.server;
import static suite.Servers.servers;
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
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Transaction;
import org.apache.zookeeper.ZooDefs.Ids;

/** Several operations in one, and many in flight. */
final class MultiSteps {
  private MultiSteps() {}

  static void run() {
    step("multi-ok", 20, MultiSteps::multiOk);
    step("multi-fail", 20, MultiSteps::multiFail);
    step("multi-read", 20, MultiSteps::multiRead);
    step("pipelining", 40, MultiSteps::pipelining);
    step("sync", 30, MultiSteps::sync);
  }

  private static void multiOk() throws Exception {
    String root = makeRoot("multi");
    Client client = connect();
    client.make(root + "/a", "0");
    client.make(root + "/gone", null);
    List<OpResult> r =
        client.multi(
            List.of(
                Op.check(root + "/a", 0),
                Op.create(root + "/b", bytes("b"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.setData(root + "/b", bytes("bb"), 0),
                Op.create(
                    root + "/b/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL),
                Op.create(root + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER),
                Op.setData(root + "/a", bytes("1"), 0),
                Op.delete(root + "/gone", -1),
                Op.create(
                    root + "/gone", bytes("again"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL)));
    expectEqual(r.size(), 8, "results");
    expectEqual(((OpResult.CreateResult) r.get(1)).getPath(), root + "/b", "create path");
    expectEqual(((OpResult.SetDataResult) r.get(2)).getStat().getVersion(), 1, "setData version");
    expectEqual(
        ((OpResult.CreateResult) r.get(3)).getPath(),
        root + "/b/s-0000000000",
        "sequential in multi");
    long zx = ((OpResult.SetDataResult) r.get(5)).getStat().getMzxid();
    for (String p : List.of("/b", "/b/s-0000000000", "/c", "/gone"))
      expectEqual(client.exists(root + p, false).getCzxid(), zx, "one zxid for all: " + p);
    expectEqual(
        client.exists(root + "/gone", false).getEphemeralOwner(),
        client.getSessionId(),
        "ephemeral in multi");
    expectEqual(client.multi(List.of()).size(), 0, "empty multi");
    Transaction t = client.transaction();
    expectEqual(
        t.check(root + "/a", 1).setData(root + "/a", bytes("t"), 1).commit().size(),
        2,
        "transaction");
  }

  private static void multiFail() throws Exception {
    String root = makeRoot("mfail");
    Client client = connect();
    client.make(root + "/a", "0");
    KeeperException e =
        expectError(
            Code.BADVERSION,
            () ->
                client.multi(
                    List.of(
                        Op.create(root + "/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                        Op.setData(root + "/a", bytes("1"), -1),
                        Op.check(root + "/a", 9),
                        Op.delete(root + "/a", -1))));
    List<Integer> rc = new ArrayList<>();
    for (OpResult r : e.getResults()) rc.add(((OpResult.ErrorResult) r).getErr());
    expectEqual(rc, List.of(0, 0, -103, -2), "result codes");
    expectEqual(client.exists(root + "/b", false), null, "create undone");
    expectEqual(text(client.getData(root + "/a", false, null)), "0", "setData undone");
    expectEqual(client.exists(root + "/a", false).getVersion(), 0, "version");
    expectError(
        Code.NONODE,
        () ->
            client.multi(
                List.of(
                    Op.create(root + "/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    Op.delete(root + "/x", -1),
                    Op.create(root + "/x/y", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT))));
    expectError(
        Code.NODEEXISTS,
        () ->
            client.multi(
                List.of(
                    Op.create(root + "/y", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    Op.create(root + "/y", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT))));
    expectError(
        Code.NOTEMPTY,
        () ->
            client.multi(
                List.of(
                    Op.create(root + "/a/k", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    Op.delete(root + "/a", -1))));
    expectEqual(client.getChildren(root, false), List.of("a"), "nothing left over");
    expectEqual(
        client.make(root + "/s-", null, CreateMode.PERSISTENT_SEQUENTIAL),
        root + "/s-0000000001",
        "a failed multi does not move the sequence");
  }

  private static void multiRead() throws Exception {
    String root = makeRoot("mread");
    Client client = connect();
    client.make(root + "/a", "A");
    client.make(root + "/a/k", null);
    List<OpResult> r =
        client.multi(
            List.of(
                Op.getData(root + "/a"),
                Op.getChildren(root + "/a"),
                Op.getData(root + "/no"),
                Op.getChildren(root)));
    expectEqual(text(((OpResult.GetDataResult) r.get(0)).getData()), "A", "data");
    expectEqual(((OpResult.GetChildrenResult) r.get(1)).getChildren(), List.of("k"), "children");
    expectEqual(((OpResult.ErrorResult) r.get(2)).getErr(), -101, "missing node");
    expectEqual(
        ((OpResult.GetChildrenResult) r.get(3)).getChildren(), List.of("a"), "after the error");
  }

  private static void pipelining() throws Exception {
    String root = makeRoot("pipe");
    Client client = connect();
    client.make(root + "/a", null);
    int n = 2000;
    List<String> log = Collections.synchronizedList(new ArrayList<>());
    CountDownLatch l = new CountDownLatch(2 * n);
    for (int i = 1; i <= n; i++) {
      client.setData(
          root + "/a",
          bytes("" + i),
          -1,
          (rc, p, c, stat) -> {
            log.add("w" + (stat == null ? "?" + rc : stat.getVersion()));
            l.countDown();
          },
          null);
      client.getData(
          root + "/a",
          false,
          (rc, p, c, data, stat) -> {
            log.add("r" + text(data));
            l.countDown();
          },
          null);
    }
    expect(l.await(30, TimeUnit.SECONDS), "only " + log.size() + " replies");
    for (int i = 1; i <= n; i++) {
      expectEqual(log.get(2 * i - 2), "w" + i, "reply " + (2 * i - 2));
      expectEqual(log.get(2 * i - 1), "r" + i, "reply " + (2 * i - 1));
    }
  }

  private static void sync() throws Exception {
    String root = makeRoot("sync");
    Client client = connect(server(0), 10000), other = connect(server(servers.length - 1), 10000);
    client.make(root + "/a", "0");
    client.syncNow(root);
    for (int i = 1; i <= 100; i++) {
      Client x = i % 2 == 0 ? client : other, y = x == client ? other : client;
      x.put(root + "/a", "" + i);
      y.syncNow(root + "/a");
      expectEqual(text(y.getData(root + "/a", false, null)), "" + i, "read after sync");
    }
    try (RawConnection r = new RawConnection(servers[0], 0, null, 0, 10000)) {
      RawConnection.Reply q = r.call(9, root + "/nothing-here");
      expectEqual(q.error, 0, "sync of a missing path");
      expectEqual(
          RawConnection.stringAtStart(q.body),
          root + "/nothing-here",
          "sync reply path");
      r.call(-11);
    }
  }
}
