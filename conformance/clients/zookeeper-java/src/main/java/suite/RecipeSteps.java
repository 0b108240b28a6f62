package suite;

import static suite.Servers.curator;
import static suite.Servers.curators;
import static suite.Servers.endSession;
import static suite.Servers.extendedTypes;
import static suite.Servers.makeRoot;
import static suite.Servers.server;
import static suite.Servers.sync;
import static suite.Steps.bytes;
import static suite.Steps.closeLater;
import static suite.Steps.eventually;
import static suite.Steps.expect;
import static suite.Steps.expectEqual;
import static suite.Steps.expectError;
import static suite.Steps.inParallel;
import static suite.Steps.note;
import static suite.Steps.step;
import static suite.Steps.text;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.data.Stat;

/** Curator itself, and its recipes that share data. */
final class RecipeSteps {
  private RecipeSteps() {}

  static void run() {
    step("curator-crud-txn", 30, RecipeSteps::curatorCrudTxn);
    step("atomic-long", 60, RecipeSteps::atomicLong);
    step("shared-count", 30, RecipeSteps::sharedCount);
    step("persistent-node", 60, RecipeSteps::persistentNode);
    step("persistent-ttl-node", 40, RecipeSteps::persistentTtlNode);
    step("queue", 40, RecipeSteps::queue);
    step("service-discovery", 60, RecipeSteps::serviceDiscovery);
  }

  private static void curatorCrudTxn() throws Exception {
    String root = makeRoot("txn");
    CuratorFramework c = curator();
    c.create()
        .creatingParentContainersIfNeeded()
        .withMode(CreateMode.PERSISTENT)
        .forPath(root + "/a/b/c", bytes("1"));
    expect(c.checkExists().forPath(root + "/a/b") != null, "parent container");
    String pr =
        c.create()
            .withProtection()
            .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
            .forPath(root + "/a/p-", bytes("1"));
    expect(pr.matches(".*/_c_[0-9a-f-]{36}-p-\\d{10}"), "protected name " + pr);
    c.create().orSetData().forPath(root + "/a/b/c", bytes("2"));
    expectEqual(text(c.getData().forPath(root + "/a/b/c")), "2", "orSetData");
    List<CuratorTransactionResult> r =
        c.transaction()
            .forOperations(
                c.transactionOp().check().withVersion(1).forPath(root + "/a/b/c"),
                c.transactionOp()
                    .create()
                    .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                    .forPath(root + "/s-", bytes("s")),
                c.transactionOp().setData().withVersion(1).forPath(root + "/a/b/c", bytes("3")),
                c.transactionOp().delete().forPath(pr));
    expectEqual(r.size(), 4, "results");
    expectEqual(r.get(1).getResultPath(), root + "/s-0000000001", "sequential");
    expectEqual(r.get(2).getResultStat().getVersion(), 2, "version");
    expectError(
        Code.NODEEXISTS,
        () ->
            c.transaction()
                .forOperations(
                    c.transactionOp().setData().forPath(root + "/a/b/c", bytes("4")),
                    c.transactionOp().create().forPath(root + "/a", bytes(""))));
    expectEqual(text(c.getData().forPath(root + "/a/b/c")), "3", "nothing done");
    c.delete().guaranteed().deletingChildrenIfNeeded().forPath(root + "/a");
    expectEqual(c.checkExists().forPath(root + "/a"), null, "deleted");
  }

  private static void atomicLong() throws Exception {
    String root = makeRoot("along");
    List<CuratorFramework> cs = curators(3);
    AtomicLong sum = new AtomicLong();
    inParallel(
        6,
        i -> {
          DistributedAtomicLong x =
              new DistributedAtomicLong(
                  cs.get(i % 3),
                  root + "/n",
                  new RetryNTimes(3, 5),
                  PromotedToLock.builder()
                      .lockPath(root + "/lock")
                      .retryPolicy(new RetryNTimes(10, 20))
                      .timeout(20, TimeUnit.SECONDS)
                      .build());
          for (int k = 1; k <= 25; k++) {
            AtomicValue<Long> v = x.add((long) k);
            if (v.succeeded()) {
              sum.addAndGet(k);
              expectEqual(v.postValue() - v.preValue(), (long) k, "pre/post");
            }
          }
        });
    DistributedAtomicLong x =
        new DistributedAtomicLong(cs.get(0), root + "/n", new RetryNTimes(1, 1));
    sync(cs.get(0));
    expectEqual(x.get().postValue(), sum.get(), "sum of what succeeded");
    expectEqual(sum.get(), 6L * 325, "all succeeded");
  }

  private static void sharedCount() throws Exception {
    String root = makeRoot("scount");
    List<CuratorFramework> cs = curators(2);
    SharedCount a = closeLater(new SharedCount(cs.get(0), root + "/n", 7)),
        c = closeLater(new SharedCount(cs.get(1), root + "/n", 7));
    BlockingQueue<Integer> seen = new LinkedBlockingQueue<>();
    c.addListener(
        new SharedCountListener() {
          public void countHasChanged(SharedCountReader r, int n) {
            seen.add(n);
          }

          public void stateChanged(CuratorFramework f, ConnectionState s) {}
        });
    a.start();
    c.start();
    expectEqual(a.getCount(), 7, "seed");
    a.setCount(8);
    eventually(10, "listener", () -> c.getCount() == 8);
    eventually(10, "listener called", () -> seen.contains(8));
    VersionedValue<Integer> old = c.getVersionedValue();
    expect(c.trySetCount(old, 9), "trySetCount");
    expect(!c.trySetCount(old, 10), "stale trySetCount");
    eventually(10, "a sees 9", () -> a.getCount() == 9);
  }

  private static void persistentNode() throws Exception {
    String root = makeRoot("pnode");
    CuratorFramework c = curator(), o = curator();
    PersistentNode n =
        closeLater(new PersistentNode(c, CreateMode.EPHEMERAL, false, root + "/x/n", bytes("v")));
    n.start();
    expect(n.waitForInitialCreate(10, TimeUnit.SECONDS), "created");
    long id = c.getZookeeperClient().getZooKeeper().getSessionId();
    sync(o);
    expectEqual(o.checkExists().forPath(root + "/x/n").getEphemeralOwner(), id, "owner");
    endSession(server(1), c.getZookeeperClient().getZooKeeper());
    eventually(
        30,
        "node back under a new session",
        () -> {
          Stat s = o.checkExists().forPath(root + "/x/n");
          return s != null && s.getEphemeralOwner() != id;
        });
    o.delete().forPath(root + "/x/n");
    eventually(
        15, "node back after a delete", () -> o.checkExists().forPath(root + "/x/n") != null);
    n.setData(bytes("w"));
    eventually(10, "data", () -> "w".equals(text(o.getData().forPath(root + "/x/n"))));
    n.close();
    eventually(10, "gone on close", () -> o.checkExists().forPath(root + "/x/n") == null);
    GroupMember g1 = closeLater(new GroupMember(c, root + "/g", "m1")),
        g2 = closeLater(new GroupMember(o, root + "/g", "m2"));
    g1.start();
    g2.start();
    eventually(10, "members", () -> g1.getCurrentMembers().keySet().equals(Set.of("m1", "m2")));
  }

  private static void persistentTtlNode() throws Exception {
    if (!extendedTypes) {
      note = "extendedTypes types off";
      return;
    }
    String root = makeRoot("pttl");
    CuratorFramework c = curator(), o = curator();
    PersistentTtlNode n = closeLater(new PersistentTtlNode(c, root + "/n", 3000, bytes("v")));
    n.start();
    expect(n.waitForInitialCreate(10, TimeUnit.SECONDS), "created");
    sync(o);
    eventually(
        10,
        "touch node",
        () ->
            o.checkExists().forPath(root + "/n/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME)
                != null);
    Stat s0 = o.checkExists().forPath(root + "/n/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME);
    eventually(
        15,
        "touched",
        () -> {
          Stat t =
              o.checkExists().forPath(root + "/n/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME);
          return t != null && t.getMzxid() > s0.getMzxid();
        });
  }

  private static void queue() throws Exception {
    String root = makeRoot("queue");
    List<CuratorFramework> cs = curators(3);
    SimpleDistributedQueue q = new SimpleDistributedQueue(cs.get(0), root + "/q");
    for (int i = 0; i < 60; i++) q.offer(bytes("" + i));
    for (CuratorFramework c : cs) sync(c);
    Set<String> got = ConcurrentHashMap.newKeySet();
    AtomicInteger dup = new AtomicInteger();
    inParallel(
        4,
        i -> {
          SimpleDistributedQueue x = new SimpleDistributedQueue(cs.get(i % 3), root + "/q");
          int last = -1;
          byte[] v;
          while ((v = x.poll(500, TimeUnit.MILLISECONDS)) != null) {
            if (!got.add(text(v))) dup.incrementAndGet();
            int k = Integer.parseInt(text(v));
            expect(k > last, "order");
            last = k;
          }
        });
    expectEqual(got.size(), 60, "items");
    expectEqual(dup.get(), 0, "taken twice");
  }

  private static void serviceDiscovery() throws Exception {
    String root = makeRoot("disc");
    List<CuratorFramework> cs = curators(3);
    List<ServiceDiscovery<Void>> sd = new ArrayList<>();
    List<ServiceInstance<Void>> in = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      ServiceInstance<Void> x =
          ServiceInstance.<Void>builder().name("svc").address("127.0.0.1").port(7000 + i).build();
      in.add(x);
      ServiceDiscovery<Void> y =
          closeLater(
              ServiceDiscoveryBuilder.builder(Void.class)
                  .client(cs.get(i))
                  .basePath(root + "/sd")
                  .thisInstance(x)
                  .build());
      y.start();
      sd.add(y);
    }
    eventually(10, "three instances", () -> sd.get(0).queryForInstances("svc").size() == 3);
    ServiceCache<Void> sc = closeLater(sd.get(1).serviceCacheBuilder().name("svc").build());
    sc.start();
    eventually(10, "cache", () -> sc.getInstances().size() == 3);
    sync(cs.get(2));
    expectEqual(
        sd.get(2).queryForInstance("svc", in.get(0).getId()).getPort(), 7000, "one instance");
    ServiceProvider<Void> sp =
        closeLater(sd.get(1).serviceProviderBuilder().serviceName("svc").build());
    sp.start();
    Set<Integer> ports = new TreeSet<>();
    eventually(
        10,
        "round robin",
        () -> {
          ServiceInstance<Void> x = sp.getInstance();
          if (x != null) ports.add(x.getPort());
          return ports.size() == 3;
        });
    sd.get(0).unregisterService(in.get(0));
    eventually(10, "cache drops it", () -> sc.getInstances().size() == 2);
    endSession(server(1), cs.get(2).getZookeeperClient().getZooKeeper());
    eventually(
        30,
        "registered again under a new session",
        () -> {
          Collection<ServiceInstance<Void>> q = sd.get(1).queryForInstances("svc");
          return q.size() == 2 && sc.getInstances().size() == 2;
        });
  }
}
