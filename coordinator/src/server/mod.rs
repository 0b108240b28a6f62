//! The shell towards clients: the listening socket, and a task for each direction of each connection.
//!
//! ```text
//!   accept loop ──► reader (frames) ──► events ──► member ──► outbox ──► writer
//! ```
//! Owns sockets, their tasks, and how much one client may have under way. Never interprets a request.

mod connection;

use crate::{
    config::CoordinatorConfig,
    member::{Event, Send},
};
use connection::{Limits, Outgoing, Sockets};
use sillon_runtime::{BoxStream, JoinHandle, Listener, Runtime};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

/// How long to wait before accepting again where accepting failed (no file descriptors left, for one).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The connections of clients.
pub(crate) struct Clients {
    shared: Arc<Shared>,
    accepting: Vec<JoinHandle<()>>,
}

struct Shared {
    runtime: Runtime,
    events: mpsc::Sender<Event>,
    limits: Limits,
    connections_per_address: Option<usize>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next_number: u64,
    connections: BTreeMap<u64, Sockets>,
    by_address: BTreeMap<IpAddr, usize>,
}

impl Clients {
    /// Serves connections from these listeners until it is dropped.
    pub fn serve(
        runtime: &Runtime,
        listeners: Vec<Box<dyn Listener>>,
        config: &CoordinatorConfig,
        events: mpsc::Sender<Event>,
    ) -> Clients {
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            events,
            limits: Limits::of(config),
            connections_per_address: config.connections_per_address,
            open: Mutex::default(),
        });
        let accepting = listeners
            .into_iter()
            .map(|listener| runtime.spawn("accept clients", accept(shared.clone(), listener)))
            .collect();
        Clients { shared, accepting }
    }

    /// Queues bytes for a connection, where it still exists.
    pub fn send(&self, send: Send) {
        let number = send.connection;
        let mut open = self.shared.lock();
        let Some(sockets) = open.connections.get(&number) else { return };
        if let Err(waiting_bytes) =
            sockets.queue(Outgoing::Bytes { bytes: send.bytes, replies: send.replies })
        {
            tracing::warn!(
                connection = number,
                waiting_bytes,
                "a client does not read what it is sent: it is cut off"
            );
            open.remove(number);
            drop(open);
            self.shared.tell_gone(number);
        }
    }

    /// Ends a connection once all that is queued has been sent.
    pub fn close(&self, number: u64) {
        if let Some(sockets) = self.shared.lock().connections.get(&number) {
            // It takes no room, so it always finds some.
            let _ = sockets.queue(Outgoing::Close);
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for task in &self.accepting {
            task.abort();
        }
        self.shared.lock().connections.clear();
    }
}

impl Open {
    fn remove(&mut self, number: u64) {
        let Some(sockets) = self.connections.remove(&number) else { return };
        let address = sockets.address();
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the member, even where its queue is full just now.
    fn tell_gone(self: &Arc<Shared>, number: u64) {
        let events = self.events.clone();
        self.runtime.spawn("tell that a client has gone", async move {
            // The queue is closed only when the member itself has ended.
            let _ = events.send(Event::Disconnected { connection: number }).await;
        });
    }

    async fn start(self: &Arc<Shared>, stream: BoxStream) {
        let peer = stream.peer_addr();
        let number = {
            let mut open = self.lock();
            let count = open.by_address.entry(peer.ip()).or_default();
            if let Some(limit) = self.connections_per_address
                && *count >= limit
            {
                tracing::warn!(%peer, limit, "too many connections from one address (maxClientCnxns)");
                return;
            }
            *count += 1;
            open.next_number += 1;
            open.next_number
        };
        // The member hears of the connection before any of its frames.
        if self.events.send(Event::Accepted { connection: number, peer }).await.is_err() {
            return;
        }
        let ended = {
            let shared = Arc::downgrade(self);
            move || {
                if let Some(shared) = shared.upgrade() {
                    shared.lock().remove(number);
                    shared.tell_gone(number);
                }
            }
        };
        // The lock is held until the connection is in the map, so that it cannot remove itself before.
        let mut open = self.lock();
        let sockets = Sockets::start(&self.runtime, number, stream, self.limits, self.events.clone(), ended);
        open.connections.insert(number, sockets);
    }
}

async fn accept(shared: Arc<Shared>, listener: Box<dyn Listener>) {
    loop {
        match listener.accept().await {
            Ok(stream) => shared.start(stream).await,
            Err(error) => {
                tracing::warn!(address = %listener.local_addr(), %error, "cannot accept a connection");
                shared.runtime.sleep(ACCEPT_RETRY).await;
            }
        }
    }
}
