//! One blocking connection that speaks ZooKeeper's protocol, and loads with many requests in flight. It checks what
//! ZooKeeper promises each client: answers in the order of the requests, and zxids that never go back.
//! Never retries.

use crate::Result;
use std::{
    collections::VecDeque,
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

/// How long an answer may take before the measurement is given up.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How long a connection may take; servers on the same machine either answer at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
const SESSION_TIMEOUT_MS: i32 = 30_000;
const CLOSE_SESSION: i32 = -11;
/// Bytes of a reply's header: xid, zxid, error.
const REPLY_HEADER_BYTES: usize = 16;
/// No answer to what is asked here is longer; a longer one is not ZooKeeper's protocol.
const LONGEST_FRAME: usize = 4 << 20;
const ALL_PERMISSIONS: i32 = 31;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates a persistent node.
    Create,
    /// Sets its data, whatever its version.
    Set,
    /// Reads data and Stat.
    Get,
    /// Reads the Stat.
    Exists,
    /// Deletes it, whatever its version.
    Delete,
}

impl Operation {
    /// All, in an order in which they find what they need.
    pub const ALL: [Self; 5] = [Self::Create, Self::Set, Self::Get, Self::Exists, Self::Delete];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Set => "set",
            Self::Get => "get",
            Self::Exists => "exists",
            Self::Delete => "delete",
        }
    }

    fn number(self) -> i32 {
        match self {
            Self::Create => 1,
            Self::Delete => 2,
            Self::Exists => 3,
            Self::Get => 4,
            Self::Set => 5,
        }
    }

    fn put_body(self, out: &mut Vec<u8>, path: &str, data: &[u8]) {
        put_buffer(out, path.as_bytes());
        match self {
            Self::Create => {
                put_buffer(out, data);
                out.extend(1_i32.to_be_bytes()); // one entry of the access list
                out.extend(ALL_PERMISSIONS.to_be_bytes());
                put_buffer(out, b"world");
                put_buffer(out, b"anyone");
                out.extend(0_i32.to_be_bytes()); // no flags
            }
            Self::Set => {
                put_buffer(out, data);
                out.extend((-1_i32).to_be_bytes());
            }
            Self::Delete => out.extend((-1_i32).to_be_bytes()),
            Self::Get | Self::Exists => out.push(0),
        }
    }
}

fn put_buffer(out: &mut Vec<u8>, content: &[u8]) {
    let length = i32::try_from(content.len()).expect("far below 2 GiB");
    out.extend(length.to_be_bytes());
    out.extend(content);
}

/// A session as a client keeps it over connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct Session {
    id: i64,
    password: [u8; 16],
    last_zxid: i64,
}

/// A connection with a session.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    /// The session, with the last zxid that this client has seen.
    pub session: Session,
    last_xid: i32,
}

impl Connection {
    /// Connects with a new session.
    ///
    /// # Errors
    /// Those of the operating system, and a server that refuses the session.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Self::resume(address, Session::default(), ANSWER_LIMIT)
    }

    /// Connects with a session that exists, or with a new one where it is the default. An answer that takes longer than
    /// the limit is given up.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and a session that has expired.
    pub fn resume(address: SocketAddr, session: Session, answer_limit: Duration) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(answer_limit))?;
        let reader = BufReader::with_capacity(1 << 16, stream.try_clone()?);
        let mut connection = Self { stream, reader, session, last_xid: 0 };
        let mut request = Vec::new();
        request.extend(0_i32.to_be_bytes()); // protocol version
        request.extend(session.last_zxid.to_be_bytes());
        request.extend(SESSION_TIMEOUT_MS.to_be_bytes());
        request.extend(session.id.to_be_bytes());
        put_buffer(&mut request, &session.password);
        request.push(0); // not read-only
        let mut frame = Vec::new();
        put_buffer(&mut frame, &request);
        connection.stream.write_all(&frame)?;
        let granted = connection.read_frame()?;
        let granted = granted.get(4..36).ok_or("a short answer to the handshake")?;
        let timeout_ms = i32::from_be_bytes(granted[..4].try_into()?);
        if timeout_ms <= 0 {
            return Err(format!("{address} refuses the session").into());
        }
        connection.session.id = i64::from_be_bytes(granted[4..12].try_into()?);
        connection.session.password = granted[16..].try_into()?;
        Ok(connection)
    }

    /// Asks once; gives the answer's error code, 0 where there is none.
    ///
    /// # Errors
    /// Those of the operating system, and an answer out of order.
    pub fn call(&mut self, operation: Operation, path: &str, data: &[u8]) -> Result<i32> {
        let mut out = Vec::new();
        self.put_request(&mut out, operation, path, data);
        self.stream.write_all(&out)?;
        self.read_reply(self.last_xid)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn close(mut self) -> Result<()> {
        self.last_xid += 1;
        let mut request = self.last_xid.to_be_bytes().to_vec();
        request.extend(CLOSE_SESSION.to_be_bytes());
        let mut out = Vec::new();
        put_buffer(&mut out, &request);
        self.stream.write_all(&out)?;
        self.read_reply(self.last_xid)?;
        Ok(())
    }

    /// Asks `count` times with up to `depth` requests in flight; gives how long each answer took, in microseconds, in
    /// the order of the requests.
    fn pipeline(
        &mut self,
        operation: Operation,
        count: usize,
        depth: usize,
        path: &dyn Fn(usize) -> String,
        data: &[u8],
    ) -> Result<Vec<u64>> {
        let mut taken = Vec::with_capacity(count);
        let mut sent_at = VecDeque::with_capacity(depth);
        let mut out = Vec::new();
        let first_xid = self.last_xid + 1;
        while taken.len() < count {
            while taken.len() + sent_at.len() < count && sent_at.len() < depth {
                self.put_request(&mut out, operation, &path(taken.len() + sent_at.len()), data);
                sent_at.push_back(Instant::now());
            }
            self.stream.write_all(&out)?;
            out.clear();
            // One answer, and those that came with it.
            loop {
                let error = self.read_reply(first_xid + i32::try_from(taken.len())?)?;
                if error != 0 {
                    return Err(format!("{} was answered with error {error}", operation.name()).into());
                }
                let sent = sent_at.pop_front().ok_or("an answer to nothing")?;
                taken.push(u64::try_from(sent.elapsed().as_micros())?);
                if sent_at.is_empty() || self.reader.buffer().len() < REPLY_HEADER_BYTES + 4 {
                    break;
                }
            }
        }
        Ok(taken)
    }

    fn put_request(&mut self, out: &mut Vec<u8>, operation: Operation, path: &str, data: &[u8]) {
        self.last_xid += 1;
        let start = out.len();
        out.extend([0; 4]);
        out.extend(self.last_xid.to_be_bytes());
        out.extend(operation.number().to_be_bytes());
        operation.put_body(out, path, data);
        let length = i32::try_from(out.len() - start - 4).expect("far below 2 GiB");
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn read_frame(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.reader.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length))?;
        if length > LONGEST_FRAME {
            return Err(format!("a frame of {length} bytes").into());
        }
        let mut frame = vec![0; length];
        self.reader.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Reads an answer and checks its place in the order; gives its error code.
    fn read_reply(&mut self, xid: i32) -> Result<i32> {
        let frame = self.read_frame()?;
        let header = frame.get(..REPLY_HEADER_BYTES).ok_or("a short answer")?;
        let answered = i32::from_be_bytes(header[..4].try_into()?);
        if answered != xid {
            return Err(
                format!("the order is broken: request {answered} was answered instead of {xid}").into()
            );
        }
        let zxid = i64::from_be_bytes(header[4..12].try_into()?);
        if zxid < self.session.last_zxid {
            return Err(format!("the zxid went back from {} to {zxid}", self.session.last_zxid).into());
        }
        self.session.last_zxid = zxid;
        Ok(i32::from_be_bytes(header[12..16].try_into()?))
    }
}

/// How a load is spread.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How many clients there are, each with a connection of its own.
    pub connections: usize,
    /// How many requests each has in flight.
    pub depth: usize,
    /// How many requests each makes.
    pub requests_each: usize,
    /// Bytes of data, where the operation takes data.
    pub data_bytes: usize,
}

impl Load {
    /// The requests of all clients.
    pub fn requests(&self) -> usize {
        self.connections * self.requests_each
    }
}

/// What a load gave.
#[derive(Debug)]
pub struct Ran {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// How long each answer took, in microseconds, sorted.
    pub taken_us: Vec<u64>,
}

/// Runs one operation on many nodes, `path(client, index)` each, from clients that are spread over the servers.
///
/// # Errors
/// Those of [`Connection`], and answers with an error.
pub fn run(
    servers: &[SocketAddr],
    operation: Operation,
    load: &Load,
    path: &(dyn Fn(usize, usize) -> String + Sync),
) -> Result<Ran> {
    let barrier = Barrier::new(load.connections + 1);
    let data = vec![b'x'; load.data_bytes];
    let (elapsed, results) = thread::scope(|scope| {
        let clients: Vec<_> = (0..load.connections)
            .map(|client| {
                let (barrier, data) = (&barrier, &data);
                let server = servers[client % servers.len()];
                scope.spawn(move || -> Result<Vec<u64>> {
                    let connected = Connection::connect(server);
                    barrier.wait();
                    let ran = connected.and_then(|mut connection| {
                        let path = |index| path(client, index);
                        let taken =
                            connection.pipeline(operation, load.requests_each, load.depth, &path, data)?;
                        Ok((connection, taken))
                    });
                    barrier.wait();
                    let (connection, taken) = ran?;
                    connection.close()?;
                    Ok(taken)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        let elapsed = start.elapsed();
        let results: Vec<_> =
            clients.into_iter().map(|client| client.join().expect("a client panicked")).collect();
        (elapsed, results)
    });
    let mut taken_us = Vec::with_capacity(load.requests());
    for result in results {
        taken_us.extend(result?);
    }
    taken_us.sort_unstable();
    Ok(Ran { elapsed, taken_us })
}
