package suite;

import static suite.Steps.expect;
import static suite.Steps.expectEqual;

import java.util.Arrays;
import java.util.TreeSet;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** A watcher that keeps its events and states until a step asks for them. */
final class Events implements Watcher {
  private static final int EVENT_LIMIT_SECONDS = 10;

  final LinkedBlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
  private final LinkedBlockingQueue<WatchedEvent> states = new LinkedBlockingQueue<>();
  private volatile Event.KeeperState last;

  @Override
  public void process(WatchedEvent event) {
    if (event.getType() == Event.EventType.None) {
      last = event.getState();
      states.add(event);
    } else {
      events.add(event);
    }
  }

  void expectNext(Event.EventType type, String path) throws Exception {
    expectWithin(EVENT_LIMIT_SECONDS, type, path);
  }

  void expectWithin(int limitSeconds, Event.EventType type, String path) throws Exception {
    WatchedEvent event = events.poll(limitSeconds, TimeUnit.SECONDS);
    expect(event != null, "no event, wanted " + type + " " + path);
    expectEqual(event.getType() + " " + event.getPath(), type + " " + path, "event");
  }

  /** The next events, in any order. */
  void expectAll(String... wanted) throws Exception {
    TreeSet<String> got = new TreeSet<>();
    for (int i = 0; i < wanted.length; i++) {
      WatchedEvent event = events.poll(EVENT_LIMIT_SECONDS, TimeUnit.SECONDS);
      if (event == null) break;
      got.add(event.getType() + " " + event.getPath());
    }
    expectEqual(got, new TreeSet<>(Arrays.asList(wanted)), "events");
  }

  void expectNone(long waitMs) throws Exception {
    WatchedEvent event = events.poll(waitMs, TimeUnit.MILLISECONDS);
    expect(event == null, "unexpected event " + event);
  }

  void awaitState(Event.KeeperState wanted, int limitSeconds) throws Exception {
    long end = System.nanoTime() + limitSeconds * 1_000_000_000L;
    while (true) {
      WatchedEvent event = states.poll(Math.max(1, end - System.nanoTime()), TimeUnit.NANOSECONDS);
      expect(event != null, "state " + wanted + " not within " + limitSeconds + " s (now " + last + ")");
      if (event.getState() == wanted) return;
    }
  }
}
