package suite;

import static org.apache.zookeeper.Watcher.Event.EventType.NodeDeleted;
import static suite.Servers.ROOT;
import static suite.Steps.bytes;
import static suite.Steps.expect;
import static suite.Steps.step;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.data.Stat;

/**
 * The sweep of containers that have become empty and of TTL nodes whose time is over. A server does it once a minute, so the nodes are made
 * at the start of the suite and looked at in the end.
 */
final class SweepSteps {
  private static final int SWEEP_LIMIT_SECONDS = 150;
  private static final long SHORT_TTL_MS = 1_000;
  private static final long LONG_TTL_MS = 600_000;

  private final Client client;
  private final String root = ROOT + "/sweep";
  private final Events container = new Events();
  private final Events ttl = new Events();
  private final long start = System.nanoTime();

  SweepSteps(Client client) throws Exception {
    this.client = client;
    client.make(root, null);
    client.make(root + "/emptied", null, CreateMode.CONTAINER);
    client.make(root + "/never-used", null, CreateMode.CONTAINER);
    client.make(root + "/full", null, CreateMode.CONTAINER);
    client.make(root + "/full/child", null);
    client.make(root + "/emptied/child", null);
    client.delete(root + "/emptied/child", -1);
    client.exists(root + "/emptied", container);
    try {
      makeWithTtl("/expiring", SHORT_TTL_MS);
      Servers.extendedTypes = true;
    } catch (KeeperException.UnimplementedException off) {
      Servers.extendedTypes = false;
      return;
    }
    client.exists(root + "/expiring", ttl);
    makeWithTtl("/long", LONG_TTL_MS);
    makeWithTtl("/parent", SHORT_TTL_MS);
    client.make(root + "/parent/child", null);
  }

  private void makeWithTtl(String name, long ttlMs) throws Exception {
    client.create(root + name, bytes("x"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, new Stat(), ttlMs);
  }

  void run() {
    step("container-swept", SWEEP_LIMIT_SECONDS, this::containerSwept);
    step("ttl-swept", SWEEP_LIMIT_SECONDS, this::ttlSwept);
  }

  void close() {
    client.close();
  }

  private void containerSwept() throws Exception {
    container.expectWithin(SWEEP_LIMIT_SECONDS, NodeDeleted, root + "/emptied");
    Steps.note = "after " + (System.nanoTime() - start) / 1_000_000_000L + " s";
    expect(client.exists(root + "/never-used", false) != null, "a container that never had a child was removed");
    expect(client.exists(root + "/full", false) != null, "a container with a child was removed");
  }

  private void ttlSwept() throws Exception {
    if (!Servers.extendedTypes) {
      Steps.note = "extended types are off";
      return;
    }
    ttl.expectWithin(SWEEP_LIMIT_SECONDS, NodeDeleted, root + "/expiring");
    expect(client.exists(root + "/long", false) != null, "a TTL node was removed before its time");
    expect(client.exists(root + "/parent", false) != null, "a TTL node with a child was removed");
  }
}
