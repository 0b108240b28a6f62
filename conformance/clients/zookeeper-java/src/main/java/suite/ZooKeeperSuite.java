package suite;

import static suite.Servers.ROOT;
import static suite.Servers.connect;
import static suite.Steps.bytes;
import static suite.Steps.expect;
import static suite.Steps.step;

import java.util.ArrayList;
import org.apache.zookeeper.ZKUtil;

/**
 * ZooKeeper's Java client, frames made by hand and Curator's recipes against the servers of HOST:PORT[,HOST:PORT...]. Prints `ok` or
 * `FAIL` for every step, then the sums. ONLY is a regular expression of step names; SHORT=1 leaves out the two steps that wait for a
 * sweep of the server; VERBOSE=1 shows where a step failed.
 */
public final class ZooKeeperSuite {
  private ZooKeeperSuite() {}

  public static void main(String[] arguments) throws Exception {
    Servers.connectString = arguments[0];
    Servers.servers = arguments[0].split(",");
    Steps.OPEN.set(new ArrayList<>());
    SweepSteps sweep;
    try {
      Client client = connect(Servers.connectString, 30000);
      client.make(ROOT, null);
      sweep = new SweepSteps(client);
    } catch (Exception error) {
      System.out.println("FAIL connect: " + error);
      System.out.println("0 passed, 1 failed");
      System.exit(1);
      return;
    }
    NodeSteps.run();
    MultiSteps.run();
    AccessSteps.run();
    WatchSteps.run();
    SessionSteps.run();
    LockSteps.run();
    RecipeSteps.run();
    CacheSteps.run();
    if (!"1".equals(System.getenv("SHORT"))) sweep.run();
    step("clean-up", 60, ZooKeeperSuite::cleanUp);
    sweep.close();
    System.out.println(Steps.passed + " passed, " + Steps.failed + " failed");
    System.out.flush();
    // Threads of clients that have failed may never end.
    Runtime.getRuntime().halt(Steps.failed == 0 ? 0 : 1);
  }

  private static void cleanUp() throws Exception {
    Client client = connect();
    client.addAuthInfo("digest", bytes("bob:pw"));
    client.addAuthInfo("digest", bytes("u:p"));
    ZKUtil.deleteRecursive(client, ROOT, 100);
    expect(client.exists(ROOT, false) == null, "the root is still there");
  }
}
