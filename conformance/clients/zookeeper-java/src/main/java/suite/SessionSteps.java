package suite;

import static org.apache.zookeeper.Watcher.Event.EventType.NodeDeleted;
import static suite.Servers.connect;
import static suite.Servers.endSession;
import static suite.Servers.makeRoot;
import static suite.Servers.server;
import static suite.Servers.servers;
import static suite.Servers.syncAll;
import static suite.Steps.Unexpected;
import static suite.Steps.closeLater;
import static suite.Steps.eventually;
import static suite.Steps.expect;
import static suite.Steps.expectEqual;
import static suite.Steps.expectError;
import static suite.Steps.inParallel;
import static suite.Steps.note;
import static suite.Steps.step;

import java.io.EOFException;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** Sessions: negotiated, moved, resumed, expired. */
final class SessionSteps {
  private SessionSteps() {}

  static void run() {
    step("timeout-negotiation", 20, SessionSteps::timeoutNegotiation);
    step("many-sessions", 60, SessionSteps::manySessions);
    step("session-move", 40, SessionSteps::sessionMove);
    step("session-resume", 60, SessionSteps::sessionResume);
    step("session-expired-elsewhere", 60, SessionSteps::sessionExpiredElsewhere);
    step("session-bad-password", 30, SessionSteps::sessionBadPassword);
    step("session-timeout", 60, SessionSteps::sessionTimeout);
    step("reconnect-storm", 60, SessionSteps::reconnectStorm);
  }

  private static void timeoutNegotiation() throws Exception {
    RawConnection a = closeLater(new RawConnection(servers[0], 0, null, 0, 1)),
        c = closeLater(new RawConnection(servers[0], 0, null, 0, 10000000));
    expect(a.timeoutMs >= 100 && a.timeoutMs <= 10000, "minimum " + a.timeoutMs);
    expect(c.timeoutMs > a.timeoutMs && c.timeoutMs < 10000000, "maximum " + c.timeoutMs);
    note = "min " + a.timeoutMs + " max " + c.timeoutMs;
    a.send(1, -11, new byte[0]);
    c.send(1, -11, new byte[0]);
    a.read();
    c.read();
  }

  private static void manySessions() throws Exception {
    String root = makeRoot("sess");
    Client client = connect();
    int n = 100;
    List<Client> l = Collections.synchronizedList(new ArrayList<>());
    inParallel(
        8,
        i -> {
          for (int j = i; j < n; j += 8) {
            Client x = connect();
            x.make(root + "/e-" + j, null, CreateMode.EPHEMERAL);
            l.add(x);
          }
        });
    client.syncNow(root);
    expectEqual(client.getChildren(root, false).size(), n, "ephemerals");
    inParallel(
        8,
        i -> {
          for (int j = i; j < n; j += 8) l.get(j).close();
        });
    client.syncNow(root);
    expectEqual(client.getChildren(root, false).size(), 0, "left after close");
  }

  private static void sessionMove() throws Exception {
    String root = makeRoot("move");
    RawConnection a = closeLater(new RawConnection(server(0), 0, null, 0, 10000));
    expectEqual(a.create(root + "/e", "0", 1).error, 0, "create");
    syncAll();
    RawConnection c =
        closeLater(new RawConnection(server(1), a.session, a.password, a.zxid, 10000));
    expectEqual(c.session, a.session, "session id");
    expectEqual(c.timeoutMs, 10000, "timeout");
    expect(Arrays.equals(c.password, a.password), "password");
    RawConnection.Reply g = c.call(4, root + "/e", false);
    expectEqual(g.error, 0, "read on the new server");
    expectEqual(RawConnection.stat(g.body).getEphemeralOwner(), a.session, "owner");
    String how;
    try {
      RawConnection.Reply r = a.call(5, root + "/e", "old", -1);
      how = "error " + r.error;
      expect(r.error == -118, "write through the old connection: " + r.error);
    } catch (EOFException | SocketException e) {
      how = "closed";
    }
    note = "write through the old connection: " + how;
    RawConnection.Reply s = c.call(5, root + "/e", "new", 0);
    expectEqual(s.error, 0, "write on the new server");
    expectEqual(RawConnection.stat(s.body).getVersion(), 1, "old write not applied");
    c.call(-11);
    Client client = connect();
    client.syncNow(root);
    expectEqual(client.exists(root + "/e", false), null, "gone after close");
  }

  private static void sessionResume() throws Exception {
    String root = makeRoot("resume");
    Proxy p = closeLater(new Proxy(server(0)));
    Client client = connect(p.address(), 6000);
    client.make(root + "/e", "0", CreateMode.EPHEMERAL);
    p.refuse = true;
    p.cut();
    client.events.awaitState(KeeperState.Disconnected, 5);
    Events e2 = new Events();
    Client y =
        closeLater(
            new Client(server(1), 6000, e2, client.getSessionId(), client.getSessionPasswd()));
    e2.awaitState(KeeperState.SyncConnected, 10);
    expectEqual(y.getSessionId(), client.getSessionId(), "session id");
    expectEqual(y.exists(root + "/e", false).getEphemeralOwner(), client.getSessionId(), "owner");
    Thread.sleep(8000);
    expectEqual(y.put(root + "/e", "1").getVersion(), 1, "still alive after 1.3 timeouts");
    y.close();
    p.refuse = false;
    client.events.awaitState(KeeperState.Expired, 15);
    expectError(Code.SESSIONEXPIRED, () -> client.exists(root, false));
    Client other = connect();
    other.syncNow(root);
    expectEqual(other.exists(root + "/e", false), null, "ephemeral gone");
  }

  private static void sessionExpiredElsewhere() throws Exception {
    String root = makeRoot("expire");
    Client client = connect(server(0), 10000), other = connect();
    client.make(root + "/events", null, CreateMode.EPHEMERAL);
    other.syncNow(root);
    Events events = new Events();
    other.exists(root + "/events", events);
    endSession(server(1), client);
    client.events.awaitState(KeeperState.Expired, 20);
    events.expectNext(NodeDeleted, root + "/events");
    expectEqual(client.getState(), ZooKeeper.States.CLOSED, "state");
  }

  private static void sessionBadPassword() throws Exception {
    String root = makeRoot("badpw");
    Client client = connect();
    client.make(root + "/events", null, CreateMode.EPHEMERAL);
    Events events = new Events();
    byte[] pw = client.getSessionPasswd().clone();
    pw[3] ^= 1;
    closeLater(new Client(server(1), 10000, events, client.getSessionId(), pw));
    events.awaitState(KeeperState.Expired, 10);
    Thread.sleep(300);
    eventually(15, "owner still connected", () -> client.getState() == ZooKeeper.States.CONNECTED);
    expectEqual(
        client.exists(root + "/events", false).getEphemeralOwner(),
        client.getSessionId(),
        "the owner's ephemeral");
    RawConnection r =
        closeLater(new RawConnection(servers[0], 0x123456789L, new byte[16], 0, 10000));
    expectEqual(r.timeoutMs, 0, "unknown session: timeout");
    expectEqual(r.session, 0L, "unknown session: id");
  }

  private static void sessionTimeout() throws Exception {
    String root = makeRoot("timeout");
    Client other = connect();
    RawConnection open = closeLater(new RawConnection(server(0), 0, null, 0, 4000)),
        cut = closeLater(new RawConnection(server(1), 0, null, 0, 4000));
    Client idle = connect(server(2), 4000);
    expect(open.timeoutMs <= 6000, "server's minimum timeout is " + open.timeoutMs);
    open.create(root + "/open", "", 1);
    cut.create(root + "/cut", "", 1);
    idle.make(root + "/idle", null, CreateMode.EPHEMERAL);
    long t = System.nanoTime();
    cut.abort();
    other.syncNow(root);
    Events a = new Events(), c = new Events();
    other.exists(root + "/open", a);
    other.exists(root + "/cut", c);
    int to = open.timeoutMs;
    a.events.clear();
    AtomicLong ta = new AtomicLong(), tc = new AtomicLong();
    eventually(
        25,
        "ephemerals of silent sessions gone",
        () -> {
          if (ta.get() == 0 && !a.events.isEmpty()) ta.set(System.nanoTime());
          if (tc.get() == 0 && !c.events.isEmpty()) tc.set(System.nanoTime());
          return ta.get() > 0 && tc.get() > 0;
        });
    long ma = (ta.get() - t) / 1000000, mc = (tc.get() - t) / 1000000;
    note = "timeout " + to + ": silent " + ma + " ms, cut " + mc + " ms";
    expect(ma > to - 500 && mc > to - 500, "too early: " + note);
    expect(ma < to + 8000 && mc < to + 8000, "too late: " + note);
    expect(other.exists(root + "/idle", false) != null, "an idle session that pings was expired");
    RawConnection r = closeLater(new RawConnection(server(0), cut.session, cut.password, 0, 4000));
    expectEqual(r.session, 0L, "expired session re-attached");
    try {
      open.input.readInt();
      throw new Unexpected("silent connection not closed");
    } catch (EOFException | SocketException e) {
    }
  }

  private static void reconnectStorm() throws Exception {
    String root = makeRoot("storm");
    Proxy.All proxies = new Proxy.All();
    Client client = connect(proxies.connectString, 12000);
    client.make(root + "/e", null, CreateMode.EPHEMERAL);
    client.make(root + "/n", "0");
    long id = client.getSessionId();
    int acked = 0, lost = 0;
    for (int r = 0; r < 4; r++) {
      for (int i = 0; i < 20; i++) {
        if (i == 10) proxies.cut();
        try {
          client.put(root + "/n", "x");
          acked++;
        } catch (KeeperException.ConnectionLossException q) {
          lost++;
          Thread.sleep(50);
        }
      }
      eventually(15, "connected again", () -> client.getState() == ZooKeeper.States.CONNECTED);
    }
    expectEqual(client.getSessionId(), id, "session id");
    client.syncNow(root);
    int v = client.exists(root + "/n", false).getVersion();
    expect(
        v >= acked && v <= acked + lost,
        "version " + v + " with " + acked + " acknowledged, " + lost + " unknown");
    expectEqual(client.exists(root + "/e", false).getEphemeralOwner(), id, "ephemeral");
  }
}
