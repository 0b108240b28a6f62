package suite;

import static suite.Servers.connect;
import static suite.Servers.connectString;
import static suite.Servers.makeRoot;
import static suite.Steps.bytes;
import static suite.Steps.closeLater;
import static suite.Steps.expect;
import static suite.Steps.expectEqual;
import static suite.Steps.expectError;
import static suite.Steps.note;
import static suite.Steps.step;
import static suite.Steps.text;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** Access lists and who a client is. */
final class AccessSteps {
  private AccessSteps() {}

  static void run() {
    step("acl", 30, AccessSteps::acl);
    step("digest", 30, AccessSteps::digest);
    step("whoami", 20, AccessSteps::whoami);
  }

  private static void acl() throws Exception {
    String root = makeRoot("acl");
    Client client = connect(), other = connect();
    Stat stat = new Stat();
    client.make(root + "/a", "0");
    expectEqual(client.getACL(root + "/a", stat), Ids.OPEN_ACL_UNSAFE, "default");
    expectEqual(stat.getAversion(), 0, "aversion");
    expectEqual(
        client.setACL(root + "/a", Ids.READ_ACL_UNSAFE, 0).getAversion(), 1, "aversion after");
    expectEqual(client.getACL(root + "/a", new Stat()), Ids.READ_ACL_UNSAFE, "read only");
    expectEqual(text(other.getData(root + "/a", false, null)), "0", "may read");
    expectError(Code.NOAUTH, () -> other.put(root + "/a", "1"));
    expectError(Code.NOAUTH, () -> other.make(root + "/a/k", null));
    expectError(Code.NOAUTH, () -> other.setACL(root + "/a", Ids.OPEN_ACL_UNSAFE, -1));
    other.delete(root + "/a", -1);
    client.make(root + "/n", "0");
    client.make(root + "/n/k", null);
    client.setACL(
        root + "/n", List.of(new ACL(Perms.ADMIN | Perms.CREATE, Ids.ANYONE_ID_UNSAFE)), -1);
    expectError(Code.NOAUTH, () -> other.getData(root + "/n", false, null));
    expectError(Code.NOAUTH, () -> other.getChildren(root + "/n", false));
    expectError(Code.NOAUTH, () -> other.delete(root + "/n/k", -1));
    try {
      expect(other.exists(root + "/n", false) != null, "exists");
      note = "exists without READ: allowed (as 3.8.0)";
    } catch (KeeperException.NoAuthException q) {
      note = "exists without READ: NoAuth (as 3.8.4)";
    }
    other.make(root + "/n/j", null);
    expectEqual(
        other.getACL(root + "/n", new Stat()).get(0).getPerms(),
        Perms.ADMIN | Perms.CREATE,
        "getACL with ADMIN only");
    expectError(Code.BADVERSION, () -> other.setACL(root + "/n", Ids.OPEN_ACL_UNSAFE, 0));
    other.setACL(root + "/n", Ids.OPEN_ACL_UNSAFE, 1);
    client.make(root + "/other", "0");
    client.setACL(root + "/other", List.of(new ACL(Perms.WRITE, Ids.ANYONE_ID_UNSAFE)), -1);
    expectError(Code.NOAUTH, () -> other.getACL(root + "/other", new Stat()));
    other.put(root + "/other", "1");
    expectError(
        Code.NOAUTH,
        () ->
            other.multi(
                List.of(
                    Op.setData(root + "/other", bytes("2"), -1),
                    Op.create(
                        root + "/other/k", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT))));
    other.delete(root + "/other", -1);
    client.create(
        root + "/ip",
        bytes("i"),
        List.of(new ACL(Perms.ALL, new Id("ip", "127.0.0.0/8"))),
        CreateMode.PERSISTENT);
    expectEqual(text(other.getData(root + "/ip", false, null)), "i", "ip scheme");
    client.create(
        root + "/ip2",
        bytes("i"),
        List.of(new ACL(Perms.ALL, new Id("ip", "10.1.2.3"))),
        CreateMode.PERSISTENT);
    expectError(Code.NOAUTH, () -> other.getData(root + "/ip2", false, null));
    other.delete(root + "/ip2", -1);
    expectError(
        Code.INVALIDACL,
        () -> client.create(root + "/x", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
    expectError(
        Code.INVALIDACL,
        () ->
            client.create(
                root + "/x",
                null,
                List.of(new ACL(Perms.ALL, new Id("nosuch", "x"))),
                CreateMode.PERSISTENT));
    expectError(
        Code.INVALIDACL,
        () ->
            client.create(
                root + "/x",
                null,
                List.of(new ACL(Perms.ALL, new Id("world", "somebody"))),
                CreateMode.PERSISTENT));
    expectError(Code.NONODE, () -> client.getACL(root + "/none", new Stat()));
  }

  private static void digest() throws Exception {
    String root = makeRoot("digest");
    Client client = connect(), other = connect();
    client.addAuthInfo("digest", bytes("bob:pw"));
    String id = DigestAuthenticationProvider.generateDigest("bob:pw");
    client.create(root + "/a", bytes("s"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
    expectEqual(
        client.getACL(root + "/a", new Stat()),
        List.of(new ACL(Perms.ALL, new Id("digest", id))),
        "auth becomes digest");
    expectError(Code.NOAUTH, () -> other.getData(root + "/a", false, null));
    expectError(Code.NOAUTH, () -> other.getACL(root + "/a", new Stat()));
    other.addAuthInfo("digest", bytes("bob:wrong"));
    expectError(Code.NOAUTH, () -> other.put(root + "/a", "x"));
    other.addAuthInfo("digest", bytes("bob:pw"));
    expectEqual(other.put(root + "/a", "x").getVersion(), 1, "second credential counts");
    Client r = connect();
    client.setACL(
        root + "/a",
        List.of(
            new ACL(Perms.ALL, new Id("digest", id)), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)),
        -1);
    expectEqual(
        r.getACL(root + "/a", new Stat()).get(0).getId(),
        new Id("digest", "bob:x"),
        "hash hidden from a reader");
    expectEqual(text(r.getData(root + "/a", false, null)), "x", "reader");
    expectError(Code.NOAUTH, () -> r.put(root + "/a", "y"));
    client.make(root + "/c", null);
    client.setACL(root + "/c", Ids.CREATOR_ALL_ACL, -1);
    expectError(Code.NOAUTH, () -> r.make(root + "/c/k", null));
    client.make(root + "/c/k", null);
    expectError(Code.NOAUTH, () -> r.delete(root + "/c/k", -1));
    client.delete(root + "/c/k", -1);
    client.delete(root + "/c", -1);
    client.delete(root + "/a", -1);
    Events events = new Events();
    Client x = closeLater(new Client(connectString, 10000, events));
    events.awaitState(KeeperState.SyncConnected, 10);
    x.addAuthInfo("nosuch", bytes("x"));
    events.awaitState(KeeperState.AuthFailed, 10);
  }

  private static void whoami() throws Exception {
    Client client = connect();
    Set<String> g = new TreeSet<>();
    client.whoAmI().forEach(c -> g.add(c.getAuthScheme() + "=" + c.getUser()));
    expectEqual(g, new TreeSet<>(List.of("ip=127.0.0.1")), "before");
    client.addAuthInfo("digest", bytes("ann:pw"));
    g.clear();
    client.whoAmI().forEach(c -> g.add(c.getAuthScheme() + "=" + c.getUser()));
    expectEqual(g, new TreeSet<>(List.of("ip=127.0.0.1", "digest=ann")), "after");
  }
}
