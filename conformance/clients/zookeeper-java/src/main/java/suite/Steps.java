package suite;


import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;

/** Runs named steps one after the other, each with a limit of time, and what they use to check. A failed step does not stop the next. */
final class Steps {
  private static final String ONLY = System.getenv().getOrDefault("ONLY", ".*");

  static int passed;
  static int failed;

  /** What the running step has to say beside that it passed. */
  static String note;

  /** What is closed when the step ends; shared by the step's thread and those that it starts. */
  static final InheritableThreadLocal<List<Closeable>> OPEN = new InheritableThreadLocal<>();

  interface Body {
    void run() throws Exception;
  }

  interface IndexedBody {
    void run(int index) throws Exception;
  }

  /** A check that did not hold. */
  static class Unexpected extends RuntimeException {
    Unexpected(String what) {
      super(what);
    }
  }

  private Steps() {}

  static void step(String name, int limitSeconds, Body body) {
    if (!name.matches(ONLY)) return;
    note = null;
    long start = System.nanoTime();
    List<Closeable> opened = new ArrayList<>();
    Throwable error = runWithin(name, limitSeconds, body, opened);
    synchronized (opened) {
      for (int i = opened.size() - 1; i >= 0; i--) closeQuietly(opened.get(i));
    }
    if (error == null) {
      passed++;
      System.out.printf("ok   %s (%.1f s)%s%n", name, (System.nanoTime() - start) / 1e9, note == null ? "" : "  # " + note);
    } else {
      failed++;
      if (System.getenv("VERBOSE") != null) error.printStackTrace();
      String told = error instanceof Unexpected ? error.getMessage() : error.toString();
      System.out.println("FAIL " + name + ": " + told.replace('\n', ' ') + placeIn(error.getStackTrace()));
    }
    System.out.flush();
  }

  /** Runs the body in a thread of its own; gives what it threw, or that it took too long. */
  private static Throwable runWithin(String name, int limitSeconds, Body body, List<Closeable> opened) {
    AtomicReference<Throwable> error = new AtomicReference<>();
    OPEN.set(opened);
    Thread thread =
        new Thread(
            () -> {
              OPEN.set(opened);
              try {
                body.run();
              } catch (Throwable thrown) {
                error.set(thrown);
              }
            },
            name);
    thread.setDaemon(true);
    thread.start();
    try {
      thread.join(limitSeconds * 1000L);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    if (thread.isAlive()) {
      error.set(new Unexpected("not done within " + limitSeconds + " s" + placeIn(thread.getStackTrace())));
      thread.interrupt();
    }
    return error.get();
  }

  /** The first place in a step's own code. */
  private static String placeIn(StackTraceElement[] trace) {
    for (StackTraceElement element : trace) {
      if (element.getClassName().matches("suite\\.\\w+Steps(\\$.*)?")) return " (" + element.getFileName() + ":" + element.getLineNumber() + ")";
    }
    return "";
  }

  private static void closeQuietly(Closeable one) {
    try {
      one.close();
    } catch (Throwable alreadyClosed) {
      // It may have ended in the step.
    }
  }

  static <T extends Closeable> T closeLater(T one) {
    List<Closeable> opened = OPEN.get();
    synchronized (opened) {
      opened.add(one);
    }
    return one;
  }

  static void expect(boolean holds, String what) {
    if (!holds) throw new Unexpected(what);
  }

  static void expectEqual(Object got, Object wanted, String what) {
    if (!Objects.equals(got, wanted)) throw new Unexpected(what + ": got " + got + ", wanted " + wanted);
  }

  static KeeperException expectError(Code code, Body body) throws Exception {
    try {
      body.run();
    } catch (KeeperException error) {
      if (error.code() != code) throw new Unexpected("error " + error.code() + ", wanted " + code);
      return error;
    }
    throw new Unexpected("no error, wanted " + code);
  }

  static void eventually(int limitSeconds, String what, Callable<Boolean> holds) throws Exception {
    long end = System.nanoTime() + limitSeconds * 1_000_000_000L;
    while (!holds.call()) {
      if (System.nanoTime() > end) throw new Unexpected("not within " + limitSeconds + " s: " + what);
      Thread.sleep(20);
    }
  }

  /** Runs so many copies at the same time; throws what the first that failed threw. */
  static void inParallel(int copies, IndexedBody body) throws Exception {
    ExecutorService executor =
        Executors.newFixedThreadPool(
            copies,
            work -> {
              Thread thread = new Thread(work);
              thread.setDaemon(true);
              return thread;
            });
    try {
      List<Future<?>> futures = new ArrayList<>();
      for (int i = 0; i < copies; i++) {
        int index = i;
        futures.add(
            executor.submit(
                () -> {
                  body.run(index);
                  return null;
                }));
      }
      for (Future<?> future : futures) {
        try {
          future.get();
        } catch (ExecutionException error) {
          throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
        }
      }
    } finally {
      executor.shutdownNow();
    }
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }
}
