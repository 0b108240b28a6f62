package suite;

import static suite.Servers.curator;
import static suite.Servers.curators;
import static suite.Servers.endSession;
import static suite.Servers.makeRoot;
import static suite.Servers.server;
import static suite.Servers.sync;
import static suite.Steps.bytes;
import static suite.Steps.closeLater;
import static suite.Steps.eventually;
import static suite.Steps.expect;
import static suite.Steps.expectEqual;
import static suite.Steps.inParallel;
import static suite.Steps.step;
import static suite.Steps.text;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Curator's recipes that let one in, or a few: locks, semaphores, leaders, barriers. */
final class LockSteps {
  private LockSteps() {}

  static void run() {
    step("mutex", 60, LockSteps::mutex);
    step("rw-lock", 60, LockSteps::rwLock);
    step("semaphore", 60, LockSteps::semaphore);
    step("multi-lock", 30, LockSteps::multiLock);
    step("mutex-session-lost", 40, LockSteps::mutexSessionLost);
    step("leader-latch", 60, LockSteps::leaderLatch);
    step("leader-selector", 60, LockSteps::leaderSelector);
    step("barrier", 40, LockSteps::barrier);
    step("double-barrier", 60, LockSteps::doubleBarrier);
  }

  private static void mutex() throws Exception {
    String root = makeRoot("mutex");
    List<CuratorFramework> cs = curators(4);
    cs.get(0).create().forPath(root + "/n", bytes("0"));
    AtomicInteger in = new AtomicInteger(), max = new AtomicInteger();
    inParallel(
        8,
        i -> {
          CuratorFramework c = cs.get(i % 4);
          InterProcessMutex m = new InterProcessMutex(c, root + "/lock");
          for (int k = 0; k < 20; k++) {
            expect(m.acquire(50, TimeUnit.SECONDS), "no lock in 50 s");
            try {
              max.accumulateAndGet(in.incrementAndGet(), Math::max);
              if (k % 5 == 0) {
                m.acquire();
                m.release();
              }
              int v = Integer.parseInt(text(c.getData().forPath(root + "/n")));
              c.setData().forPath(root + "/n", bytes("" + (v + 1)));
              in.decrementAndGet();
            } finally {
              m.release();
            }
          }
        });
    expectEqual(text(cs.get(0).getData().forPath(root + "/n")), "160", "counter");
    expectEqual(max.get(), 1, "holders at once");
  }

  private static void rwLock() throws Exception {
    String root = makeRoot("rw");
    List<CuratorFramework> cs = curators(3);
    AtomicInteger r = new AtomicInteger(),
        w = new AtomicInteger(),
        bad = new AtomicInteger(),
        maxr = new AtomicInteger();
    inParallel(
        6,
        i -> {
          InterProcessReadWriteLock l = new InterProcessReadWriteLock(cs.get(i % 3), root + "/l");
          for (int k = 0; k < 12; k++)
            if ((i + k) % 4 == 0) {
              expect(l.writeLock().acquire(50, TimeUnit.SECONDS), "no write lock");
              try {
                if (w.incrementAndGet() != 1 || r.get() != 0) bad.incrementAndGet();
                Thread.sleep(3);
                w.decrementAndGet();
              } finally {
                l.writeLock().release();
              }
            } else {
              expect(l.readLock().acquire(50, TimeUnit.SECONDS), "no read lock");
              try {
                maxr.accumulateAndGet(r.incrementAndGet(), Math::max);
                if (w.get() != 0) bad.incrementAndGet();
                Thread.sleep(25);
                r.decrementAndGet();
              } finally {
                l.readLock().release();
              }
            }
        });
    expectEqual(bad.get(), 0, "readers beside a writer");
    expect(maxr.get() >= 2, "readers never shared");
    InterProcessReadWriteLock l = new InterProcessReadWriteLock(cs.get(0), root + "/l");
    l.writeLock().acquire();
    expect(l.readLock().acquire(5, TimeUnit.SECONDS), "downgrade");
    l.writeLock().release();
    l.readLock().release();
  }

  private static void semaphore() throws Exception {
    String root = makeRoot("sem");
    List<CuratorFramework> cs = curators(3);
    AtomicInteger in = new AtomicInteger(), max = new AtomicInteger();
    inParallel(
        8,
        i -> {
          InterProcessSemaphoreV2 m = new InterProcessSemaphoreV2(cs.get(i % 3), root + "/s", 3);
          for (int k = 0; k < 6; k++) {
            Lease l = m.acquire(50, TimeUnit.SECONDS);
            expect(l != null, "no lease");
            max.accumulateAndGet(in.incrementAndGet(), Math::max);
            Thread.sleep(40);
            in.decrementAndGet();
            m.returnLease(l);
          }
        });
    expect(max.get() <= 3, "leases at once " + max);
    expect(max.get() >= 2, "never shared");
    InterProcessSemaphoreV2 m = new InterProcessSemaphoreV2(cs.get(0), root + "/s", 3);
    Collection<Lease> all = m.acquire(3);
    expectEqual(m.acquire(300, TimeUnit.MILLISECONDS), null, "a fourth lease");
    endSession(server(1), cs.get(0).getZookeeperClient().getZooKeeper());
    InterProcessSemaphoreV2 o = new InterProcessSemaphoreV2(cs.get(1), root + "/s", 3);
    expect(o.acquire(3, 20, TimeUnit.SECONDS) != null, "leases of an ended session not free");
  }

  private static void multiLock() throws Exception {
    String root = makeRoot("mlock");
    CuratorFramework a = curator(), c = curator();
    InterProcessMultiLock m =
        new InterProcessMultiLock(a, List.of(root + "/1", root + "/2", root + "/3"));
    m.acquire();
    expect(!new InterProcessMutex(c, root + "/2").acquire(500, TimeUnit.MILLISECONDS), "held");
    m.release();
    InterProcessMutex x = new InterProcessMutex(c, root + "/2");
    expect(x.acquire(10, TimeUnit.SECONDS), "free");
    expect(!m.acquire(500, TimeUnit.MILLISECONDS), "all or nothing");
    InterProcessMutex y = new InterProcessMutex(c, root + "/1");
    expect(y.acquire(10, TimeUnit.SECONDS), "rolled back");
  }

  private static void mutexSessionLost() throws Exception {
    String root = makeRoot("mlost");
    CuratorFramework a = curator(), c = curator();
    InterProcessMutex m = new InterProcessMutex(a, root + "/l");
    m.acquire();
    CompletableFuture<Boolean> got = new CompletableFuture<>();
    new Thread(
            () -> {
              try {
                got.complete(new InterProcessMutex(c, root + "/l").acquire(30, TimeUnit.SECONDS));
              } catch (Exception e) {
                got.completeExceptionally(e);
              }
            })
        .start();
    Thread.sleep(500);
    expect(!got.isDone(), "two holders");
    endSession(server(1), a.getZookeeperClient().getZooKeeper());
    expectEqual(got.get(20, TimeUnit.SECONDS), true, "waiter gets the lock");
  }

  private static void leaderLatch() throws Exception {
    String root = makeRoot("latch");
    List<CuratorFramework> cs = curators(4);
    List<LeaderLatch> l = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      LeaderLatch x = new LeaderLatch(cs.get(i), root + "/l", "id" + i);
      l.add(x);
      x.start();
    }
    Callable<Integer> who =
        () -> {
          int n = 0, k = -1;
          for (int i = 0; i < 4; i++)
            if (l.get(i).getState() == LeaderLatch.State.STARTED && l.get(i).hasLeadership()) {
              n++;
              k = i;
            }
          expect(n <= 1, n + " leaders");
          return k;
        };
    Set<Integer> seen = new TreeSet<>();
    for (int round = 0; round < 4; round++) {
      int[] k = {-1};
      eventually(
          20, "a leader, round " + round, () -> (k[0] = who.call()) >= 0 && !seen.contains(k[0]));
      seen.add(k[0]);
      if (round == 0) {
        eventually(
            10,
            "all agree on the leader",
            () -> {
              for (LeaderLatch x : l) if (!x.getLeader().getId().equals("id" + k[0])) return false;
              return true;
            });
        eventually(10, "participants", () -> l.get(0).getParticipants().size() == 4);
      }
      l.get(k[0]).close();
    }
    LeaderLatch a = closeLater(new LeaderLatch(cs.get(0), root + "/m", "a")),
        c = closeLater(new LeaderLatch(cs.get(1), root + "/m", "c"));
    a.start();
    expect(a.await(10, TimeUnit.SECONDS), "a leads");
    c.start();
    endSession(server(1), cs.get(0).getZookeeperClient().getZooKeeper());
    expect(c.await(20, TimeUnit.SECONDS), "c leads after a's session ended");
    eventually(10, "a steps down", () -> !a.hasLeadership());
  }

  private static void leaderSelector() throws Exception {
    String root = makeRoot("selector");
    List<CuratorFramework> cs = curators(3);
    AtomicInteger in = new AtomicInteger(), bad = new AtomicInteger(), turns = new AtomicInteger();
    Set<Integer> led = ConcurrentHashMap.newKeySet();
    List<LeaderSelector> ls = new ArrayList<>();
    BlockingQueue<Integer> now = new LinkedBlockingQueue<>();
    for (int i = 0; i < 3; i++) {
      int j = i;
      LeaderSelector x =
          new LeaderSelector(
              cs.get(i),
              root + "/s",
              new LeaderSelectorListenerAdapter() {
                public void takeLeadership(CuratorFramework c) throws Exception {
                  if (in.incrementAndGet() != 1) bad.incrementAndGet();
                  led.add(j);
                  turns.incrementAndGet();
                  now.add(j);
                  try {
                    Thread.sleep(j == 0 ? 40 : 40);
                  } finally {
                    in.decrementAndGet();
                  }
                }
              });
      x.autoRequeue();
      ls.add(x);
      x.start();
    }
    eventually(20, "all three lead in turn", () -> led.size() == 3 && turns.get() >= 9);
    for (LeaderSelector x : ls) x.close();
    expectEqual(bad.get(), 0, "two leaders at once");
    List<LeaderSelector> hs = new ArrayList<>();
    BlockingQueue<Integer> lead = new LinkedBlockingQueue<>();
    for (int i = 0; i < 2; i++) {
      int j = i;
      LeaderSelector x =
          new LeaderSelector(
              cs.get(i),
              root + "/h",
              new LeaderSelectorListenerAdapter() {
                public void takeLeadership(CuratorFramework c) throws Exception {
                  lead.add(j);
                  Thread.sleep(60000);
                }
              });
      hs.add(x);
      x.start();
    }
    Integer f = lead.poll(15, TimeUnit.SECONDS);
    expect(f != null, "no leader");
    expectEqual(lead.poll(300, TimeUnit.MILLISECONDS), null, "second leader");
    hs.get(f).close();
    expectEqual(lead.poll(15, TimeUnit.SECONDS), 1 - f, "fail-over");
    hs.get(1 - f).close();
  }

  private static void barrier() throws Exception {
    String root = makeRoot("bar");
    List<CuratorFramework> cs = curators(3);
    DistributedBarrier bar = new DistributedBarrier(cs.get(0), root + "/b");
    bar.setBarrier();
    for (CuratorFramework c : cs) sync(c);
    AtomicInteger through = new AtomicInteger();
    CountDownLatch l = new CountDownLatch(6);
    for (int i = 0; i < 6; i++) {
      int j = i;
      Thread t =
          new Thread(
              () -> {
                try {
                  if (new DistributedBarrier(cs.get(j % 3), root + "/b")
                      .waitOnBarrier(30, TimeUnit.SECONDS)) through.incrementAndGet();
                } catch (Exception e) {
                }
                l.countDown();
              });
      t.setDaemon(true);
      t.start();
    }
    Thread.sleep(500);
    expectEqual(through.get(), 0, "through a closed barrier");
    bar.removeBarrier();
    expect(l.await(15, TimeUnit.SECONDS), "not released");
    expectEqual(through.get(), 6, "released");
  }

  private static void doubleBarrier() throws Exception {
    String root = makeRoot("dbar");
    List<CuratorFramework> cs = curators(5);
    AtomicInteger entered = new AtomicInteger(),
        left = new AtomicInteger(),
        bad = new AtomicInteger();
    inParallel(
        5,
        i -> {
          DistributedDoubleBarrier x = new DistributedDoubleBarrier(cs.get(i), root + "/b", 5);
          Thread.sleep(i * 60);
          entered.incrementAndGet();
          expect(x.enter(30, TimeUnit.SECONDS), "enter");
          if (entered.get() != 5) bad.incrementAndGet();
          Thread.sleep(i * 60);
          left.incrementAndGet();
          expect(x.leave(30, TimeUnit.SECONDS), "leave");
          if (left.get() != 5) bad.incrementAndGet();
        });
    expectEqual(bad.get(), 0, "passed before all came");
  }
}
