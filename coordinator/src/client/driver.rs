//! The task behind a client: it holds the socket, turns the session's effects into deeds and what happens into calls.
//!
//! Owns the socket, the buffers and who listens. Never decides anything: that is the session's.

use super::{
    error::{ClientError, Loss},
    registry::WatchId,
    session::{Effect, RawReply, Request, Session, SessionCredentials, SessionEvent, Ticket},
    watch::WatchMessage,
};
use sillon_runtime::{BoxFuture, BoxStream, Monotonic, ReadHalf, Runtime, WriteHalf};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, oneshot},
};

/// How much is read at a time.
const READ_BYTES: usize = 16 * 1024;
/// How many commands are taken before the socket is looked at again.
const COMMANDS_AT_ONCE: usize = 1024;

type Answer = oneshot::Sender<Result<RawReply, ClientError>>;

/// Who is told of a watch.
pub(super) struct Watcher {
    pub(super) watch: WatchId,
    pub(super) sender: mpsc::UnboundedSender<WatchMessage>,
    pub(super) once: bool,
}

/// What a client asks its driver for.
pub(super) enum Command {
    Submit { request: Request, answer: Answer, watcher: Option<Watcher> },
    Prove { ticket: Ticket, scheme: String, proof: Vec<u8>, answer: Answer },
    Forget(WatchId),
    Subscribe(mpsc::UnboundedSender<SessionEvent>),
}

pub(super) struct Driver {
    session: Session,
    connection: Connection,
    max_reply_bytes: usize,
    answers: BTreeMap<Ticket, Answer>,
    watchers: BTreeMap<WatchId, Watcher>,
    subscribers: Vec<mpsc::UnboundedSender<SessionEvent>>,
    last_event: Option<SessionEvent>,
    credentials: Arc<Mutex<Option<SessionCredentials>>>,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        max_reply_bytes: usize,
        credentials: Arc<Mutex<Option<SessionCredentials>>>,
    ) -> Driver {
        Driver {
            session,
            connection: Connection::None,
            max_reply_bytes,
            answers: BTreeMap::new(),
            watchers: BTreeMap::new(),
            subscribers: Vec::new(),
            last_event: None,
            credentials,
        }
    }

    /// Runs until every clone of the client is dropped.
    pub(super) async fn run(mut self, runtime: Runtime, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut timer = Timer(None);
        loop {
            for _ in 0..COMMANDS_AT_ONCE {
                match commands.try_recv() {
                    Ok(command) => self.obey(runtime.now(), command),
                    Err(mpsc::error::TryRecvError::Empty) => break,
                    Err(mpsc::error::TryRecvError::Disconnected) => return,
                }
            }
            self.session.tick(runtime.now());
            self.perform_effects(&runtime);
            self.connection.queue(self.session.take_outgoing());
            timer.set(&runtime, self.session.deadline());
            tokio::select! {
                biased;
                happened = self.connection.next() => self.take_note(runtime.now(), happened),
                command = commands.recv() => match command {
                    Some(command) => self.obey(runtime.now(), command),
                    None => return,
                },
                () = timer.wait() => {}
            }
        }
    }

    fn obey(&mut self, now: Monotonic, command: Command) {
        match command {
            Command::Submit { request, answer, watcher } => {
                self.answers.insert(request.ticket, answer);
                if let Some(watcher) = watcher {
                    self.watchers.insert(watcher.watch, watcher);
                }
                self.session.submit(now, request);
            }
            Command::Prove { ticket, scheme, proof, answer } => {
                self.answers.insert(ticket, answer);
                self.session.prove(now, scheme, proof, Some(ticket));
            }
            Command::Forget(watch) => {
                self.watchers.remove(&watch);
                self.session.forget(watch);
            }
            Command::Subscribe(subscriber) => {
                let state = self.last_event.clone();
                if state.is_none_or(|state| subscriber.send(state).is_ok()) {
                    self.subscribers.push(subscriber);
                }
            }
        }
    }

    fn perform_effects(&mut self, runtime: &Runtime) {
        while let Some(effect) = self.session.next_effect() {
            match effect {
                Effect::Connect(server) => {
                    let runtime = runtime.clone();
                    let connecting = async move { runtime.connect(&server.host, server.port).await };
                    self.connection = Connection::Connecting(Box::pin(connecting));
                }
                Effect::Disconnect => self.connection = Connection::None,
                Effect::Complete(ticket, result) => {
                    let answer = self.answers.remove(&ticket).expect("a ticket is answered once");
                    // Whoever gave up waiting needs no answer.
                    let _ = answer.send(result);
                }
                Effect::Notify(watch, notice) => {
                    let once = self.watchers.get(&watch).is_some_and(|watcher| {
                        // Whoever dropped the watch needs no notice; that it did so is on its way here.
                        let _ = watcher.sender.send(Ok(notice));
                        watcher.once
                    });
                    if once {
                        self.watchers.remove(&watch);
                    }
                }
                Effect::EndWatch(watch, ended) => {
                    if let Some(watcher) = self.watchers.remove(&watch) {
                        let _ = watcher.sender.send(Err(ended));
                    }
                }
                Effect::Session(event) => {
                    tracing::debug!(?event, "the session with the coordinator");
                    *self.credentials.lock().expect("nothing panics while it holds this lock") =
                        self.session.credentials().cloned();
                    self.subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
                    self.last_event = Some(event);
                }
            }
        }
    }

    fn take_note(&mut self, now: Monotonic, happened: Happened) {
        match happened {
            Happened::Connected(stream) => {
                let (reader, writer) = stream.into_split();
                self.connection = Connection::Open(Box::new(Socket {
                    reader,
                    writer,
                    incoming: Vec::new(),
                    outgoing: Vec::new(),
                    written: 0,
                    flushed: true,
                }));
                self.session.connected(now);
            }
            Happened::Sent => {}
            Happened::Received => self.receive(now),
            Happened::Lost(loss) => {
                tracing::debug!(%loss, "no connection to the coordinator");
                self.session.lost(now, loss);
            }
        }
    }

    /// Hands the session all frames that are complete.
    fn receive(&mut self, now: Monotonic) {
        let Connection::Open(socket) = &mut self.connection else { return };
        let mut start = 0;
        while let Some(length) = socket.incoming[start..].first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let max = self.max_reply_bytes;
            let Some(size) = usize::try_from(length).ok().filter(|size| *size <= max) else {
                return self.session.lost(now, Loss::FrameLength { length, max });
            };
            let Some(frame) = socket.incoming.get(start + 4..start + 4 + size) else { break };
            self.session.received(now, frame);
            start += 4 + size;
        }
        socket.incoming.drain(..start);
    }
}

/// A deadline, and the sleep towards it. A sleep that ends early does no harm, so it is kept while deadlines only move
/// away.
struct Timer(Option<(Monotonic, BoxFuture<'static, ()>)>);

impl Timer {
    fn set(&mut self, runtime: &Runtime, deadline: Option<Monotonic>) {
        let Some(deadline) = deadline else {
            self.0 = None;
            return;
        };
        if self.0.as_ref().is_none_or(|(current, _)| *current > deadline) {
            self.0 = Some((deadline, runtime.sleep_until(deadline)));
        }
    }

    async fn wait(&mut self) {
        match &mut self.0 {
            None => std::future::pending().await,
            Some((_, sleep)) => {
                sleep.await;
                self.0 = None;
            }
        }
    }
}

/// The one connection there is.
enum Connection {
    None,
    Connecting(BoxFuture<'static, io::Result<BoxStream>>),
    Open(Box<Socket>),
}

struct Socket {
    reader: Box<dyn ReadHalf>,
    writer: Box<dyn WriteHalf>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// How much of `outgoing` has left.
    written: usize,
    flushed: bool,
}

enum Happened {
    Connected(BoxStream),
    Sent,
    Received,
    Lost(Loss),
}

impl Connection {
    fn queue(&mut self, bytes: Vec<u8>) {
        match self {
            Connection::Open(socket) if socket.outgoing.is_empty() => socket.outgoing = bytes,
            Connection::Open(socket) => socket.outgoing.extend_from_slice(&bytes),
            Connection::None | Connection::Connecting(_) => {
                assert!(bytes.is_empty(), "a session writes only where it is connected");
            }
        }
    }

    /// Waits for what happens next. Nothing is lost when this is cancelled: reading and writing are single steps.
    async fn next(&mut self) -> Happened {
        match self {
            Connection::None => std::future::pending().await,
            Connection::Connecting(connecting) => match connecting.await {
                Ok(stream) => Happened::Connected(stream),
                Err(error) => Happened::Lost(Loss::Connect(error.to_string())),
            },
            Connection::Open(socket) => socket.next().await,
        }
    }
}

impl Socket {
    async fn next(&mut self) -> Happened {
        let Socket { reader, writer, incoming, outgoing, written, flushed } = self;
        incoming.reserve(READ_BYTES);
        let broken = |error: io::Error| Happened::Lost(Loss::Broken(error.to_string()));
        tokio::select! {
            biased;
            read = reader.read_buf(incoming) => match read {
                Ok(0) => Happened::Lost(Loss::Closed),
                Ok(_) => Happened::Received,
                Err(error) => broken(error),
            },
            sent = send(writer, outgoing, written, flushed) => match sent {
                Ok(()) => Happened::Sent,
                Err(error) => broken(error),
            },
        }
    }
}

/// Sends what there is to send, one step; waits for ever where there is nothing.
async fn send(
    writer: &mut Box<dyn WriteHalf>,
    outgoing: &mut Vec<u8>,
    written: &mut usize,
    flushed: &mut bool,
) -> io::Result<()> {
    if *written < outgoing.len() {
        match writer.write(&outgoing[*written..]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => *written += count,
        }
        *flushed = false;
    } else if !*flushed {
        writer.flush().await?;
        *flushed = true;
    } else {
        return std::future::pending().await;
    }
    if *written == outgoing.len() {
        outgoing.clear();
        *written = 0;
    }
    Ok(())
}
