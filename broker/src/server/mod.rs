//! The shell around the broker: listening sockets and the tasks that serve connections.
//!
//! ```text
//!   accept loop (one per listener) ──► connection (one task per client) ──► dispatch ──► api/*
//! ```
//! Owns sockets and their tasks. Never interprets a request.

mod connection;
pub(crate) mod dispatch;
mod forward;
mod response;

use crate::{broker::Broker, config::listener::Listener as ListenerConfig};
use sillon_runtime::{BoxStream, JoinHandle, Listener, Runtime, Tasks};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How long to wait before accepting again where accepting failed (no file descriptors left, for one).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The open listening sockets.
pub(crate) struct Server {
    listeners: Vec<Box<dyn Listener>>,
}

/// A listening socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {listener}: {error}")]
pub struct ListenError {
    /// What was to be listened on.
    pub listener: ListenerConfig,
    /// What the operating system said.
    pub error: io::Error,
}

impl Server {
    /// Opens the sockets of all listeners.
    ///
    /// # Errors
    /// The first that cannot be opened.
    pub(crate) async fn bind(runtime: &Runtime, listeners: &[ListenerConfig]) -> Result<Server, ListenError> {
        let mut open = Vec::with_capacity(listeners.len());
        for listener in listeners {
            let failed = |error| ListenError { listener: listener.clone(), error };
            let address = SocketAddr::new(address_of(&listener.host), listener.port);
            open.push(runtime.listen(address).await.map_err(failed)?);
        }
        Ok(Server { listeners: open })
    }

    /// The addresses that are listened on, in the order of the listeners.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|listener| listener.local_addr()).collect()
    }

    /// Serves every connection until the returned tasks are dropped.
    pub(crate) fn serve(self, broker: &Arc<Broker>) -> Tasks {
        let mut tasks = Tasks::default();
        let numbers = Arc::new(AtomicU64::new(0));
        for listener in self.listeners {
            tasks.push(broker.runtime().spawn("accept", accept(broker.clone(), listener, numbers.clone())));
        }
        tasks
    }
}

/// A listener's host is an address, a name of this machine, or nothing for all addresses. Names are for clients: where
/// one is given, the socket listens on all addresses.
fn address_of(host: &str) -> IpAddr {
    match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        "::" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        host => host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    }
}

/// `numbers` gives every connection of the broker its number, whichever listener it came through.
async fn accept(broker: Arc<Broker>, listener: Box<dyn Listener>, numbers: Arc<AtomicU64>) {
    let connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok(stream) => connections.start(&broker, numbers.fetch_add(1, Ordering::Relaxed), stream),
            Err(error) => {
                tracing::warn!(address = %listener.local_addr(), %error, "cannot accept a connection");
                broker.runtime().sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

type TaskMap = Mutex<BTreeMap<u64, JoinHandle<()>>>;

/// The connections of one listener; they end with it.
#[derive(Default)]
struct Connections(Arc<TaskMap>);

impl Connections {
    fn start(&self, broker: &Arc<Broker>, number: u64, stream: BoxStream) {
        let peer = stream.peer_addr();
        let serving = connection::serve(broker.clone(), stream, number);
        let tasks = self.0.clone();
        // The lock is held until the task is in the map, so that it cannot remove itself before.
        let mut running = self.0.lock().expect("no holder panics");
        let task = broker.runtime().spawn("connection", async move {
            match serving.await {
                Ok(()) => {}
                // A defect of this broker, unlike everything else that can end a connection.
                Err(error) if error.is_own_fault() => tracing::error!(%peer, %error, "connection closed"),
                Err(error) => tracing::debug!(%peer, %error, "connection closed"),
            }
            tasks.lock().expect("no holder panics").remove(&number);
        });
        running.insert(number, task);
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        for task in self.0.lock().expect("no holder panics").values() {
            task.abort();
        }
    }
}
