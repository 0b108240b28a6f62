package suite;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/** Forwards TCP connections to one server; cuts them, and refuses new ones, when told to. */
final class Proxy implements Closeable {
  volatile boolean refuse;
  private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
  private final String server;
  private final Set<Socket> live = ConcurrentHashMap.newKeySet();

  Proxy(String server) throws IOException {
    this.server = server;
    inBackground(this::acceptAll);
  }

  String address() {
    return "127.0.0.1:" + listener.getLocalPort();
  }

  void cut() {
    for (Socket socket : live) shut(socket);
  }

  @Override
  public void close() {
    refuse = true;
    try {
      listener.close();
    } catch (IOException ignored) {
      // Nobody listens any more: that is what was wanted.
    }
    cut();
  }

  private static void inBackground(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    thread.start();
  }

  private void acceptAll() {
    while (!listener.isClosed()) {
      try {
        Socket client = listener.accept();
        if (refuse) {
          client.close();
          continue;
        }
        int colon = server.lastIndexOf(':');
        Socket upstream = new Socket(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1)));
        client.setTcpNoDelay(true);
        upstream.setTcpNoDelay(true);
        live.add(client);
        live.add(upstream);
        if (refuse) cut();
        inBackground(() -> pump(client, upstream));
        inBackground(() -> pump(upstream, client));
      } catch (IOException ended) {
        // One connection less.
      }
    }
  }

  private void pump(Socket from, Socket to) {
    byte[] buffer = new byte[65536];
    try {
      InputStream input = from.getInputStream();
      OutputStream output = to.getOutputStream();
      for (int count = input.read(buffer); count > 0; count = input.read(buffer)) output.write(buffer, 0, count);
    } catch (IOException ended) {
      // Both ends are shut below.
    } finally {
      shut(from);
      shut(to);
    }
  }

  private void shut(Socket socket) {
    live.remove(socket);
    try {
      socket.close();
    } catch (IOException ignored) {
      // It is gone.
    }
  }

  /** One before each server. */
  static final class All {
    final String connectString;
    private final List<Proxy> proxies = new ArrayList<>();

    All() throws IOException {
      for (String server : Servers.servers) proxies.add(Steps.closeLater(new Proxy(server)));
      connectString = proxies.stream().map(Proxy::address).collect(Collectors.joining(","));
    }

    void refuse(boolean refuse) {
      for (Proxy proxy : proxies) proxy.refuse = refuse;
    }

    void cut() {
      for (Proxy proxy : proxies) proxy.cut();
    }
  }
}
