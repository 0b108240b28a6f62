//! What the tests of the world have in common: a service that echoes and logs, and a client for it.
#![allow(dead_code)] // Each test file uses its own part.

pub mod runs;

use sillon_runtime::{BoxStream, File, OpenOptions, Runtime};
use sillon_sim::{
    decisions::Decisions,
    world::{NetworkConfig, World, WorldConfig, boot, run_seeded},
};
use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub const PORT: u16 = 9_000;

pub fn everywhere() -> SocketAddr {
    ([0, 0, 0, 0], PORT).into()
}

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Lines that simulated processes write and a test reads.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub fn add(&self, line: impl Into<String>) {
        self.0.lock().expect("no panic while noting").push(line.into());
    }
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic while noting"))
    }
}

/// A network without chance in it but for latency: writes and reads are whole.
pub fn plain_network() -> NetworkConfig {
    NetworkConfig { partial_read_ppm: 0, partial_write_ppm: 0, ..NetworkConfig::default() }
}

/// Runs `scenario` in a world with a plain network, and gives what was noted.
pub fn in_world<F, Fut>(scenario: F) -> Vec<String>
where
    F: FnOnce(Arc<World>, Notes) -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    run_seeded(11, move || async move {
        let config = WorldConfig { network: plain_network(), ..WorldConfig::default() };
        let world = World::new(config, Arc::new(Decisions::random(11, false)));
        let notes = Notes::default();
        scenario(world.clone(), notes.clone()).await;
        assert_eq!(world.panics(), [], "no process panics");
        notes.take()
    })
    .unwrap_or_else(|panic| panic!("{panic}"))
}

/// A process that accepts connections, holds them, and reads nothing.
pub async fn hold(runtime: Runtime) {
    let listener = runtime.listen(everywhere()).await.expect("the port is free");
    let mut held = Vec::new();
    loop {
        held.push(listener.accept().await.expect("the process is alive"));
    }
}

pub async fn read_frame(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

pub async fn write_frame(stream: &mut (impl AsyncWrite + Unpin + ?Sized), frame: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(frame.len() + 4);
    bytes.extend_from_slice(&(frame.len() as u32).to_be_bytes());
    bytes.extend_from_slice(frame);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// Echoes frames; appends each to a log where there is one, and syncs after each sixteenth.
pub async fn echo(runtime: Runtime, address: SocketAddr, log: Option<&'static str>) -> io::Result<()> {
    let listener = runtime.listen(address).await?;
    let file = match log {
        Some(path) => Some(open_log(&runtime, path).await?),
        None => None,
    };
    loop {
        let stream = listener.accept().await?;
        let file = file.clone();
        runtime.spawn("connection", async move {
            // A connection ends with its client.
            let _ = echo_connection(stream, file).await;
        });
    }
}

async fn open_log(runtime: &Runtime, path: &str) -> io::Result<Arc<dyn File>> {
    let path = Path::new(path);
    runtime.fs().create_dir_all(path.parent().expect("it is in a directory")).await?;
    runtime.fs().open(path, OpenOptions::READ_WRITE_CREATE).await
}

async fn echo_connection(stream: BoxStream, file: Option<Arc<dyn File>>) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    for count in 1u64.. {
        let frame = read_frame(&mut *reader).await?;
        if let Some(file) = &file {
            file.write_all_at(&frame, file.len()?).await?;
            if count.is_multiple_of(16) {
                file.sync_data().await?;
            }
        }
        write_frame(&mut *writer, &frame).await?;
    }
    Ok(())
}

/// Calls an echo service, with one connection that is opened anew after an error.
pub struct Client {
    pub runtime: Runtime,
    pub host: String,
    pub port: u16,
    pub stream: Option<BoxStream>,
}

impl Client {
    pub fn new(runtime: &Runtime, host: impl Into<String>, port: u16) -> Client {
        Client { runtime: runtime.clone(), host: host.into(), port, stream: None }
    }

    pub async fn call(&mut self, frame: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
        let runtime = self.runtime.clone();
        let answer = runtime.timeout(timeout, async {
            if self.stream.is_none() {
                self.stream = Some(self.runtime.connect(&self.host, self.port).await?);
            }
            let stream = self.stream.as_mut().expect("connected");
            write_frame(stream, frame).await?;
            read_frame(stream).await
        });
        let answer = answer.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if answer.is_err() {
            self.stream = None;
        }
        answer
    }
}

/// Adds a machine that runs `main`, and starts it.
pub fn run_on<F, Fut>(world: &Arc<World>, name: &str, main: F) -> sillon_sim::world::NodeId
where
    F: Fn(Runtime) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let node = world.add_node(name, boot(main));
    world.start(node);
    node
}
