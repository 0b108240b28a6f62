package suite;

import static suite.Steps.bytes;
import static suite.Steps.expectEqual;

import java.io.Closeable;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * ZooKeeper's own client. A read may be behind another client's write (ZooKeeper promises no more), so this one syncs before its first
 * read after such a write.
 */
final class Client extends ZooKeeper implements Closeable {
  /** The writes of all clients. */
  private static final AtomicLong WRITES = new AtomicLong();

  final Events events;
  private long syncedAt = WRITES.get();
  private long ownWritesSince;

  Client(String to, int timeoutMs, Events events) throws Exception {
    super(to, timeoutMs, events);
    this.events = events;
  }

  Client(String to, int timeoutMs, Events events, long session, byte[] password) throws Exception {
    super(to, timeoutMs, events, session, password);
    this.events = events;
  }

  @Override
  public void close() {
    WRITES.incrementAndGet();
    try {
      super.close();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  String make(String path, String data) throws Exception {
    return make(path, data, CreateMode.PERSISTENT);
  }

  String make(String path, String data, CreateMode mode) throws Exception {
    return create(path, data == null ? null : bytes(data), Ids.OPEN_ACL_UNSAFE, mode);
  }

  Stat put(String path, String data) throws Exception {
    return setData(path, bytes(data), -1);
  }

  /** What this client reads from now on has all that was acknowledged before. */
  void syncNow(String path) throws Exception {
    CompletableFuture<Integer> code = new CompletableFuture<>();
    sync(path, (result, of, context) -> code.complete(result), null);
    expectEqual(code.get(10, TimeUnit.SECONDS), 0, "result of sync");
  }

  private void noteWrite() {
    WRITES.incrementAndGet();
    ownWritesSince++;
  }

  private void syncAfterOthers() {
    long writes = WRITES.get();
    if (Servers.servers.length == 1 || writes - syncedAt == ownWritesSince) return;
    try {
      syncNow("/");
      syncedAt = writes;
      ownWritesSince = 0;
    } catch (Exception failed) {
      // The read that follows tells what is wrong.
    }
  }

  @Override
  public String create(String path, byte[] data, List<ACL> acl, CreateMode mode) throws KeeperException, InterruptedException {
    try {
      return super.create(path, data, new ArrayList<>(acl), mode);
    } finally {
      noteWrite();
    }
  }

  @Override
  public String create(String path, byte[] data, List<ACL> acl, CreateMode mode, Stat stat, long ttlMs)
      throws KeeperException, InterruptedException {
    try {
      return super.create(path, data, new ArrayList<>(acl), mode, stat, ttlMs);
    } finally {
      noteWrite();
    }
  }

  @Override
  public void delete(String path, int version) throws KeeperException, InterruptedException {
    try {
      super.delete(path, version);
    } finally {
      noteWrite();
    }
  }

  @Override
  public Stat setData(String path, byte[] data, int version) throws KeeperException, InterruptedException {
    try {
      return super.setData(path, data, version);
    } finally {
      noteWrite();
    }
  }

  @Override
  public Stat setACL(String path, List<ACL> acl, int version) throws KeeperException, InterruptedException {
    try {
      return super.setACL(path, new ArrayList<>(acl), version);
    } finally {
      noteWrite();
    }
  }

  @Override
  public List<OpResult> multi(Iterable<Op> operations) throws KeeperException, InterruptedException {
    syncAfterOthers();
    try {
      return super.multi(operations);
    } finally {
      noteWrite();
    }
  }

  @Override
  public byte[] getData(String path, boolean watch, Stat stat) throws KeeperException, InterruptedException {
    syncAfterOthers();
    return super.getData(path, watch, stat);
  }

  @Override
  public byte[] getData(String path, Watcher watcher, Stat stat) throws KeeperException, InterruptedException {
    if (watcher != null) syncAfterOthers();
    return super.getData(path, watcher, stat);
  }

  @Override
  public Stat exists(String path, boolean watch) throws KeeperException, InterruptedException {
    syncAfterOthers();
    return super.exists(path, watch);
  }

  @Override
  public Stat exists(String path, Watcher watcher) throws KeeperException, InterruptedException {
    if (watcher != null) syncAfterOthers();
    return super.exists(path, watcher);
  }

  @Override
  public List<String> getChildren(String path, boolean watch) throws KeeperException, InterruptedException {
    syncAfterOthers();
    return super.getChildren(path, watch);
  }

  @Override
  public List<String> getChildren(String path, boolean watch, Stat stat) throws KeeperException, InterruptedException {
    syncAfterOthers();
    return super.getChildren(path, watch, stat);
  }

  @Override
  public List<String> getChildren(String path, Watcher watcher) throws KeeperException, InterruptedException {
    if (watcher != null) syncAfterOthers();
    return super.getChildren(path, watcher);
  }

  @Override
  public List<ACL> getACL(String path, Stat stat) throws KeeperException, InterruptedException {
    syncAfterOthers();
    return super.getACL(path, stat);
  }

  @Override
  public void addWatch(String path, Watcher watcher, AddWatchMode mode) throws KeeperException, InterruptedException {
    syncAfterOthers();
    super.addWatch(path, watcher, mode);
  }
}
