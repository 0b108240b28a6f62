package suite;

import static suite.Servers.curator;
import static suite.Servers.curators;
import static suite.Servers.makeRoot;
import static suite.Servers.sync;
import static suite.Steps.Unexpected;
import static suite.Steps.bytes;
import static suite.Steps.closeLater;
import static suite.Steps.eventually;
import static suite.Steps.inParallel;
import static suite.Steps.note;
import static suite.Steps.step;
import static suite.Steps.text;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Curator's caches, filled while others write, against what the server has in the end. */
final class CacheSteps {
  private static final int WRITERS = 4;
  private static final int WRITES_EACH = 500;
  private static final int CUTS = 3;
  private static final long BETWEEN_CUTS_MS = 700;
  private static final int SESSION_TIMEOUT_MS = 12_000;

  private final boolean cutting;
  private final String top;
  private final Proxy.All proxies = new Proxy.All();
  private final AtomicInteger events = new AtomicInteger();
  private final TreeCache treeCache;
  private final CuratorCache curatorCache;
  private final PathChildrenCache childrenCache;
  private final NodeCache nodeCache;

  static void run() {
    step("caches", 90, () -> new CacheSteps(false).compareAfterWrites());
    step("caches-reconnect", 90, () -> new CacheSteps(true).compareAfterWrites());
  }

  /** Each cache that watches persistently has a client of its own: in ZooKeeper 3.8 a one-shot data watch replaces such a watch on the same path. */
  private CacheSteps(boolean cutting) throws Exception {
    this.cutting = cutting;
    top = makeRoot(cutting ? "caches-reconnect" : "caches") + "/top";
    curator().create().forPath(top, bytes("top"));
    treeCache = closeLater(new TreeCache(cachingClient(), top));
    curatorCache = closeLater(CuratorCache.build(cachingClient(), top));
    CuratorFramework shared = cachingClient();
    childrenCache = closeLater(new PathChildrenCache(shared, top, true));
    nodeCache = closeLater(new NodeCache(shared, top + "/n0"));
    treeCache.getListenable().addListener((client, event) -> events.incrementAndGet());
    curatorCache.listenable().addListener((type, before, after) -> events.incrementAndGet());
    treeCache.start();
    curatorCache.start();
    childrenCache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
    nodeCache.start(true);
  }

  private CuratorFramework cachingClient() throws Exception {
    CuratorFramework client = curator(proxies.connectString, SESSION_TIMEOUT_MS);
    sync(client);
    return client;
  }

  private void compareAfterWrites() throws Exception {
    List<CuratorFramework> clients = curators(WRITERS - 1);
    Thread cutter = new Thread(this::cutConnections);
    cutter.setDaemon(true);
    if (cutting) cutter.start();
    inParallel(WRITERS, number -> write(clients.get(number % clients.size()), number));
    cutter.interrupt();
    cutter.join();
    CuratorFramework reader = curator();
    sync(reader);
    TreeMap<String, String> wanted = new TreeMap<>();
    readAll(reader, top, wanted);
    String[] difference = {""};
    try {
      eventually(
          20,
          "caches",
          () -> {
            difference[0] = differenceFrom(wanted);
            return difference[0].isEmpty();
          });
    } catch (Unexpected late) {
      throw new Unexpected(difference[0]);
    }
    note = wanted.size() + " nodes, " + events.get() + " cache events";
  }

  private void cutConnections() {
    try {
      for (int i = 0; i < CUTS; i++) {
        Thread.sleep(BETWEEN_CUTS_MS);
        proxies.cut();
      }
    } catch (InterruptedException writersAreDone) {
      // No more cuts are needed.
    }
  }

  /**
   * Creates, sets and deletes at random, with the same numbers in every run. While connections are cut, only leaves are deleted: a parent that
   * is deleted and made again while CuratorCache is away can have its old cversion, and CuratorCache then overlooks its children.
   */
  private void write(CuratorFramework client, int number) throws Exception {
    Random random = new Random(42 + number);
    for (int i = 0; i < WRITES_EACH; i++) {
      String path = top + "/n" + random.nextInt(8);
      if (random.nextInt(3) > 0) {
        path += "/m" + random.nextInt(4);
        if (random.nextInt(3) == 0) path += "/k" + random.nextInt(3);
      }
      boolean mayDelete = !cutting || path.contains("/k");
      int choice = random.nextInt(mayDelete ? 10 : 8);
      try {
        if (choice < 4) {
          client.create().forPath(path, bytes("c" + number + "." + i));
        } else if (choice < 8) {
          client.setData().forPath(path, bytes("s" + number + "." + i));
        } else if (choice == 8) {
          client.delete().forPath(path);
        } else {
          client
              .transaction()
              .forOperations(
                  client.transactionOp().delete().forPath(path),
                  client.transactionOp().create().forPath(path, bytes("m" + number + "." + i)));
        }
      } catch (KeeperException.NoNodeException | KeeperException.NodeExistsException | KeeperException.NotEmptyException refused) {
        // What the others have done decides which of these is possible.
      }
    }
  }

  /** What the first cache that differs has otherwise; empty where all agree with the server. */
  private String differenceFrom(TreeMap<String, String> wanted) {
    TreeMap<String, String> tree = new TreeMap<>();
    walk(top, tree);
    if (!tree.equals(wanted)) return "TreeCache: " + difference(tree, wanted);
    TreeMap<String, String> curator = new TreeMap<>();
    curatorCache.stream().forEach(data -> curator.put(data.getPath(), shown(data.getStat(), data.getData())));
    if (!curator.equals(wanted)) return "CuratorCache: " + difference(curator, wanted);
    TreeMap<String, String> children = new TreeMap<>();
    childrenCache.getCurrentData().forEach(data -> children.put(data.getPath(), shown(data.getStat(), data.getData())));
    TreeMap<String, String> wantedChildren = new TreeMap<>(wanted);
    wantedChildren.keySet().removeIf(path -> path.lastIndexOf('/') != top.length());
    if (!children.equals(wantedChildren)) return "PathChildrenCache: " + difference(children, wantedChildren);
    ChildData node = nodeCache.getCurrentData();
    String shown = node == null ? null : shown(node.getStat(), node.getData());
    String wantedNode = wanted.get(top + "/n0");
    return Objects.equals(shown, wantedNode) ? "" : "NodeCache: has " + shown + ", server " + wantedNode;
  }

  private static String shown(Stat stat, byte[] data) {
    return stat.getMzxid() + " " + text(data);
  }

  private static String difference(Map<String, String> got, Map<String, String> wanted) {
    TreeSet<String> paths = new TreeSet<>(got.keySet());
    paths.addAll(wanted.keySet());
    paths.removeIf(path -> Objects.equals(got.get(path), wanted.get(path)));
    String first = paths.first();
    return paths.size() + " differ, first " + first + ": has " + got.get(first) + ", server " + wanted.get(first);
  }

  private static void readAll(CuratorFramework client, String path, Map<String, String> into) throws Exception {
    Stat stat = new Stat();
    byte[] data;
    try {
      data = client.getData().storingStatIn(stat).forPath(path);
    } catch (KeeperException.NoNodeException gone) {
      return;
    }
    into.put(path, shown(stat, data));
    for (String child : client.getChildren().forPath(path)) readAll(client, path + "/" + child, into);
  }

  private void walk(String path, Map<String, String> into) {
    ChildData data = treeCache.getCurrentData(path);
    if (data == null) return;
    into.put(path, shown(data.getStat(), data.getData()));
    Map<String, ChildData> children = treeCache.getCurrentChildren(path);
    if (children != null) children.keySet().forEach(name -> walk(path + "/" + name, into));
  }
}
