package suite;

import static suite.Steps.bytes;
import static suite.Steps.closeLater;
import static suite.Steps.expect;
import static suite.Steps.expectEqual;

import java.io.EOFException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** The servers under test, and connecting to them. */
final class Servers {
  static final int SYNC_REQUEST = 9;
  static final int CLOSE_REQUEST = -11;

  /** A node that no other run uses: everything happens below it. */
  static final String ROOT = "/suite-" + Long.toHexString(new Random().nextLong());

  static String connectString;
  static String[] servers;

  /** Whether TTL nodes can be made. */
  static boolean extendedTypes;

  private Servers() {}

  /** One of the servers: another for another number where there are several. */
  static String server(int number) {
    return servers[number % servers.length];
  }

  static Client connect(String to, int timeoutMs) throws Exception {
    Events events = new Events();
    Client client = closeLater(new Client(to, timeoutMs, events));
    events.awaitState(KeeperState.SyncConnected, 15);
    return client;
  }

  static Client connect() throws Exception {
    return connect(connectString, 10000);
  }

  static CuratorFramework curator(String to, int timeoutMs) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.builder()
            .connectString(to)
            .sessionTimeoutMs(timeoutMs)
            .connectionTimeoutMs(8000)
            .retryPolicy(new RetryNTimes(100, 100))
            .build();
    closeLater(client);
    client.start();
    expect(client.blockUntilConnected(15, TimeUnit.SECONDS), "Curator is not connected within 15 s");
    return client;
  }

  static CuratorFramework curator() throws Exception {
    return curator(connectString, 10000);
  }

  static List<CuratorFramework> curators(int count) throws Exception {
    List<CuratorFramework> clients = new ArrayList<>();
    for (int i = 0; i < count; i++) clients.add(curator());
    return clients;
  }

  /** Makes a node for one step and gives its path. */
  static String makeRoot(String name) throws Exception {
    String path = ROOT + "/" + name;
    Client client = connect();
    client.make(path, null);
    client.close();
    return path;
  }

  /** What the client reads from now on has all that was acknowledged before. */
  static void sync(CuratorFramework client) throws Exception {
    CompletableFuture<Integer> code = new CompletableFuture<>();
    client.getZookeeperClient().getZooKeeper().sync("/", (result, path, context) -> code.complete(result), null);
    expectEqual(code.get(10, TimeUnit.SECONDS), 0, "result of sync");
  }

  /** Every server has applied all that was acknowledged before. */
  static void syncAll() throws Exception {
    for (String server : servers) {
      try (RawConnection connection = new RawConnection(server, 0, null, 0, 10000)) {
        connection.call(SYNC_REQUEST, "/");
        connection.call(CLOSE_REQUEST);
      }
    }
  }

  /** Ends somebody's session from elsewhere: takes it up with its id and password, then closes it. */
  static void endSession(String at, ZooKeeper client) throws Exception {
    long session = client.getSessionId();
    for (int attempt = 0; ; attempt++) {
      try (RawConnection connection = new RawConnection(at, session, client.getSessionPasswd(), 0, 10000)) {
        if (connection.session != session) return;
        connection.send(1, CLOSE_REQUEST, new byte[0]);
        connection.read();
        return;
      } catch (EOFException notYetKnownThere) {
        if (attempt > 5) throw notYetKnownThere;
      }
    }
  }
}
