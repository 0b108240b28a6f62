package suite;

import static suite.Steps.bytes;
import static suite.Steps.expectEqual;
import static suite.Steps.text;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.data.Stat;

/** A connection whose frames are made by hand: for what a client library hides. */
final class RawConnection implements Closeable {
  private static final int CONNECT_REQUEST_BYTES = 45;
  private static final int PASSWORD_BYTES = 16;
  private static final int STAT_BYTES = 68;
  private static final int NOTIFICATION_XID = -1;
  private static final AtomicInteger CONNECTIONS = new AtomicInteger();

  final long session;
  final byte[] password;
  final int timeoutMs;
  final DataInputStream input;
  long zxid;
  private final Socket socket;
  private final DataOutputStream output;

  /** ZooKeeper matches a session's commits by xid, so two connections never use the same one. */
  private int xid = 1000 * CONNECTIONS.incrementAndGet();

  static final class Reply {
    int xid;
    int error;
    long zxid;
    byte[] body;
  }

  RawConnection(String server, long session, byte[] password, long lastZxid, int timeoutMs) throws IOException {
    int colon = server.lastIndexOf(':');
    socket = new Socket(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1)));
    socket.setSoTimeout(15000);
    socket.setTcpNoDelay(true);
    input = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
    output = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
    output.writeInt(CONNECT_REQUEST_BYTES);
    output.writeInt(0);
    output.writeLong(lastZxid);
    output.writeInt(timeoutMs);
    output.writeLong(session);
    output.writeInt(PASSWORD_BYTES);
    output.write(password == null ? new byte[PASSWORD_BYTES] : password);
    output.writeByte(0);
    output.flush();
    DataInputStream granted = frame();
    granted.readInt();
    this.timeoutMs = granted.readInt();
    this.session = granted.readLong();
    this.password = granted.readNBytes(granted.readInt());
  }

  private DataInputStream frame() throws IOException {
    return new DataInputStream(new ByteArrayInputStream(input.readNBytes(input.readInt())));
  }

  /** Strings with their length, numbers, booleans and bytes, one after the other. */
  private static byte[] joined(Object... parts) throws IOException {
    ByteArrayOutputStream joined = new ByteArrayOutputStream();
    DataOutputStream data = new DataOutputStream(joined);
    for (Object part : parts) {
      if (part instanceof String) {
        byte[] content = bytes((String) part);
        data.writeInt(content.length);
        data.write(content);
      } else if (part instanceof Integer) {
        data.writeInt((Integer) part);
      } else if (part instanceof Boolean) {
        data.writeBoolean((Boolean) part);
      } else {
        data.write((byte[]) part);
      }
    }
    return joined.toByteArray();
  }

  void send(int withXid, int operation, byte[] body) throws IOException {
    output.writeInt(8 + body.length);
    output.writeInt(withXid);
    output.writeInt(operation);
    output.write(body);
    output.flush();
  }

  /** The next reply; events before it are passed over. */
  Reply read() throws IOException {
    while (true) {
      DataInputStream frame = frame();
      Reply reply = new Reply();
      reply.xid = frame.readInt();
      reply.zxid = frame.readLong();
      reply.error = frame.readInt();
      reply.body = frame.readAllBytes();
      if (reply.xid == NOTIFICATION_XID) continue;
      if (reply.zxid > 0) zxid = reply.zxid;
      return reply;
    }
  }

  Reply call(int operation, Object... body) throws IOException {
    xid++;
    send(xid, operation, joined(body));
    Reply reply = read();
    expectEqual(reply.xid, xid, "xid of the reply");
    return reply;
  }

  Reply create(String path, String data, int flags) throws IOException {
    byte[] open = joined(1, 31, "world", "anyone");
    return call(1, path, data, open, flags);
  }

  static Stat stat(byte[] body) throws IOException {
    DataInputStream data = new DataInputStream(new ByteArrayInputStream(body, body.length - STAT_BYTES, STAT_BYTES));
    Stat stat = new Stat();
    stat.setCzxid(data.readLong());
    stat.setMzxid(data.readLong());
    stat.setCtime(data.readLong());
    stat.setMtime(data.readLong());
    stat.setVersion(data.readInt());
    stat.setCversion(data.readInt());
    stat.setAversion(data.readInt());
    stat.setEphemeralOwner(data.readLong());
    stat.setDataLength(data.readInt());
    stat.setNumChildren(data.readInt());
    stat.setPzxid(data.readLong());
    return stat;
  }

  static String stringAtStart(byte[] body) throws IOException {
    DataInputStream data = new DataInputStream(new ByteArrayInputStream(body));
    return text(data.readNBytes(data.readInt()));
  }

  /** Ends the connection as a machine that fails does: with a reset. */
  void abort() throws IOException {
    socket.setSoLinger(true, 0);
    socket.close();
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
