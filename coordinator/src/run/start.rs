//! How a member starts: sockets, disk, state, consensus, tasks. Owns that order; everything that can fail for reasons
//! outside fails here, before a client is served.

use super::{CoordinatorError, disk, listen, looping::Looping};
use crate::{
    config::{CoordinatorConfig, members::HostPort},
    consensus::{ConsensusConfig, RaftConsensus, SnapshotMark},
    member::{Member, Moment, Start},
    metrics,
    observe::{Digest, Observation, Observers},
    peer::{Identity, Links, Peers},
    server::Clients,
    state::StateMachine,
    storage::{Recovered, Snapshots, Storage, StorageOptions},
    types::{MemberId, Zxid},
};
use sillon_runtime::{JoinHandle, Listener, Runtime, Tasks};
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc;

/// How many events may wait for the member.
const WAITING_EVENTS: usize = 1024;
/// How many elections' time a silent link lasts.
const LINK_SILENCE_ELECTIONS: u64 = 2;

/// A member that takes part.
pub struct Running {
    looping: Looping,
    addresses: Vec<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    log: JoinHandle<()>,
    tasks: Tasks,
}

struct Sockets {
    clients: Vec<Box<dyn Listener>>,
    peers: Option<Box<dyn Listener>>,
    metrics: Option<Box<dyn Listener>>,
}

impl Sockets {
    async fn open(runtime: &Runtime, config: &CoordinatorConfig) -> Result<Sockets, CoordinatorError> {
        let mut clients = Vec::new();
        for address in &config.client_addresses {
            clients.push(listen(runtime, resolve(address), "clients").await?);
        }
        let peers = match config.peer_address() {
            Some(address) if !config.is_standalone() => {
                Some(listen(runtime, resolve(&address), "other members").await?)
            }
            _ => None,
        };
        let metrics = match &config.metrics_address {
            Some(address) => Some(listen(runtime, resolve(address), "metrics").await?),
            None => None,
        };
        Ok(Sockets { clients, peers, metrics })
    }
}

/// An address to listen on. Where a name is given, the socket listens on all addresses: names are for those who dial.
fn resolve(address: &HostPort) -> SocketAddr {
    let ip = match address.host.as_str() {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    SocketAddr::new(ip, address.port)
}

/// The state that a snapshot holds.
pub(super) async fn load(store: &Snapshots, mark: SnapshotMark) -> Result<StateMachine, CoordinatorError> {
    let broken = |error| CoordinatorError::Snapshot { zxid: Zxid::of_index(mark.index), error };
    let mut reader = store.read(mark.index).await?;
    let mut restorer = StateMachine::restore();
    while let Some(piece) = reader.next().await? {
        restorer.chunk(&piece).map_err(broken)?;
    }
    restorer.finish().map_err(broken)
}

impl Running {
    /// Opens the sockets and the data, and takes part.
    ///
    /// # Errors
    /// What cannot be opened, and why.
    pub async fn start(
        runtime: Runtime,
        config: CoordinatorConfig,
        observers: Observers,
    ) -> Result<Running, CoordinatorError> {
        let sockets = Sockets::open(&runtime, &config).await?;
        let addresses = sockets.clients.iter().map(|listener| listener.local_addr()).collect();
        let metrics_address = sockets.metrics.as_ref().map(|listener| listener.local_addr());
        let options =
            StorageOptions::new(config.data_directory.clone(), config.log_directory.clone(), config.member);
        let (storage, recovered) = Storage::open(&runtime, &options).await?;
        let snapshots = storage.snapshots();
        let state = match recovered.snapshot {
            Some(mark) => load(&snapshots, mark).await?,
            None => StateMachine::new(),
        };
        tell_started(&observers, &config, &recovered, state.digest());
        let (events_sender, events) = mpsc::channel(WAITING_EVENTS);
        let (disk_sender, disk_requests) = mpsc::unbounded_channel();
        let (answer_sender, answers) = mpsc::unbounded_channel();
        let (saved_sender, saved) = mpsc::unbounded_channel();
        let (scrape_sender, scrapes) = mpsc::channel(16);
        let links = Arc::new(Links {
            runtime: runtime.clone(),
            identity: Mutex::new(Identity {
                member: config.member,
                directory: storage.directory(),
                ensemble: recovered.ensemble,
            }),
            members: config.members.clone(),
            events: events_sender.clone(),
            snapshots,
            silence: Duration::from_millis(config.election_timeout_ms * LINK_SILENCE_ELECTIONS),
        });
        let member = member(&runtime, &config, &observers, recovered, state)?;
        let mut tasks = Tasks::default();
        let serving = disk::serve(storage, disk_requests, answer_sender, observers.clone());
        let log = runtime.spawn("log", serving);
        if let Some(listener) = sockets.metrics {
            tasks.push(metrics::serve(&runtime, listener, scrape_sender));
        }
        let peers = Peers::start(&links, sockets.peers);
        let clients = Clients::serve(&runtime, sockets.clients, &config, events_sender);
        let looping = Looping {
            member,
            observers,
            tick: Duration::from_millis(config.heartbeat_interval_ms),
            keep_snapshots: config.snapshots_retained,
            events,
            answers,
            saved,
            saved_sender,
            scrapes,
            disk: disk_sender,
            clients,
            peers,
            links,
            saving: None,
            next_tick: runtime.now(),
            asked_ticket: 0,
            durable_ticket: 0,
            postponed: None,
            runtime,
        };
        Ok(Running { looping, addresses, metrics_address, log, tasks })
    }

    /// The addresses on which clients are served.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address on which metrics are served, where they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Takes part until `stop` completes or the disk fails.
    ///
    /// # Errors
    /// Why it could not go on.
    pub async fn until(self, stop: impl Future<Output = ()> + Send) -> Result<(), CoordinatorError> {
        for address in &self.addresses {
            tracing::info!(%address, "listening for clients");
        }
        let ended = self.looping.until(stop).await;
        drop(self.tasks);
        // The loop has ended and with it the last who asks: the log's task finishes what it was asked, and ends.
        if self.log.await.is_err() {
            tracing::warn!("the log's task was cut off");
        }
        ended
    }
}

fn tell_started(observers: &Observers, config: &CoordinatorConfig, recovered: &Recovered, digest: Digest) {
    let snapshot_index = recovered.snapshot.map_or(0, |mark| mark.index);
    observers.tell(|| Observation::Started {
        member: config.member,
        term: recovered.hard_state.term,
        vote: recovered.hard_state.vote,
        first_index: recovered.entries.first().map_or(snapshot_index + 1, |entry| entry.index),
        last_index: recovered.entries.last().map_or(snapshot_index, |entry| entry.index),
        snapshot: Zxid::of_index(snapshot_index),
        digest,
    });
}

fn member(
    runtime: &Runtime,
    config: &CoordinatorConfig,
    observers: &Observers,
    recovered: Recovered,
    state: StateMachine,
) -> Result<Member, CoordinatorError> {
    let ticks =
        |duration_ms: u64| usize::try_from(duration_ms / config.heartbeat_interval_ms.max(1)).unwrap_or(1);
    let voters: Vec<MemberId> = if config.members.is_empty() {
        vec![config.member]
    } else {
        config.members.keys().copied().collect()
    };
    let consensus_config = ConsensusConfig {
        election_ticks: ticks(config.election_timeout_ms).max(2),
        heartbeat_ticks: 1,
        memory_bytes: config.log_memory_bytes,
        // Together no more than 32 MiB on the way to a member that takes nothing just now.
        max_size_per_message: 256 * 1024,
        max_inflight: 128,
        ..ConsensusConfig::new(config.member, voters, runtime.random_u64())
    };
    let consensus = RaftConsensus::restore(
        consensus_config,
        recovered.hard_state,
        recovered.entries,
        recovered.snapshot,
    )?;
    let mut secret = [0; 32];
    runtime.fill_random(&mut secret);
    Ok(Member::new(Start {
        config: config.clone(),
        consensus: Box::new(consensus),
        state,
        known_ensemble: recovered.ensemble,
        incarnation: runtime.random_u64(),
        secret,
        observers: observers.clone(),
        moment: Moment { now: runtime.now(), unix: runtime.unix_time() },
    }))
}
