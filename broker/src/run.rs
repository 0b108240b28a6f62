//! A broker's life from its first look at the disk to the marker of a clean stop. Owns the order of the steps.
//!
//! ```text
//!   sockets ► logs' directories ► coordinator, if it is inside ► session ► broker ► serving ► registered, known
//!   handed over ► connections end ► logs closed, marker ► session closed ► coordinator, if it is inside
//! ```

use crate::{
    broker::{self, Broker},
    cluster::{Cluster, Membership, MembershipError, MembershipSettings, Reconcile, credentials},
    config::{BrokerConfig, listener::Listener},
    controller::ControllerSettings,
    embedded::Embedded,
    jobs,
    log::{LogDirectories, LogError},
    metadata::Endpoint,
    observe::Observers,
    server::{ListenError, Server},
    types::{TopicId, Uuid},
};
use sillon_coordinator::CoordinatorError;
use sillon_runtime::{Runtime, Tasks};
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// How long a broker that starts waits for the controller to know it. Then it serves what it can.
const KNOWN_PATIENCE: Duration = Duration::from_secs(10);

/// Why a broker could not start, or not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// A listening socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The log directories cannot be used, or a log cannot be closed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The broker cannot be a member of its cluster.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The coordinator inside the broker cannot start, or had to stop.
    #[error("the embedded coordinator: {0}")]
    Coordinator(#[from] CoordinatorError),
}

/// A broker that serves clients.
pub struct Running {
    broker: Arc<Broker>,
    membership: Arc<Membership>,
    embedded: Option<Embedded>,
    addresses: Vec<SocketAddr>,
    serving: Tasks,
    jobs: Tasks,
}

impl Running {
    /// Opens the sockets, then the logs, joins the cluster and serves clients.
    ///
    /// # Errors
    /// What cannot be opened: a socket, a log directory; and why the broker cannot be a member of its cluster.
    pub async fn start(
        runtime: Runtime,
        config: BrokerConfig,
        observers: Observers,
    ) -> Result<Running, BrokerError> {
        let server = Server::bind(&runtime, &config.listeners).await?;
        let addresses = server.addresses();
        let context = broker::log_context(&runtime, &observers);
        let directories = LogDirectories::open(context, &config.log_dirs).await?;
        let mut embedded = match &config.cluster.coordinator_connect {
            Some(_) => None,
            None => Some(Embedded::start(&runtime, &config).await?),
        };
        let advertised = advertised(&config, &addresses);
        let settings =
            settings(&config, embedded.as_ref(), &advertised, &addresses, directories.is_unclean());
        // Logs belong to a cluster: a coordinator that knows none must not make one, in which they would be strays.
        let new_id = match directories.unopened().await?.is_empty() {
            true => Some(known_cluster_id(&directories).unwrap_or_else(|| new_cluster_id(&runtime))),
            false => None,
        };
        let joining = Membership::join(runtime.clone(), observers.clone(), settings, new_id.as_deref());
        let (membership, cluster_id) = unless_failed(&mut embedded, joining).await?;
        directories.identify(config.broker_id, &cluster_id).await?;
        let cluster: Arc<dyn Cluster> = membership.clone();
        let broker = Broker::start(runtime, config, advertised, observers, cluster, directories).await;
        let mut jobs = jobs::start(&broker);
        let serving = server.serve(&broker);
        unless_failed(&mut embedded, membership.begin(reconcile(&broker))).await?;
        if !membership.wait_until_known(KNOWN_PATIENCE).await {
            tracing::warn!("no controller knows this broker yet");
        }
        let (known, of) = (membership.clone(), broker.clone());
        jobs.push(broker.runtime().spawn("boot id", note_known(known, of)));
        for (listener, address) in broker.config().listeners.iter().zip(&addresses) {
            tracing::info!(%address, listener = %listener.name, broker = %broker.config().broker_id, "listening");
        }
        Ok(Running { broker, membership, embedded, addresses, serving, jobs })
    }

    /// The addresses it listens on, in the order of the listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where other brokers and tools reach the coordinator inside this broker, where there is one.
    pub fn coordinator(&self) -> Option<String> {
        self.embedded.as_ref().map(Embedded::connect_string)
    }

    /// Waits until the broker cannot go on: the coordinator inside it has failed.
    async fn failed(&mut self) -> Result<(), BrokerError> {
        match &mut self.embedded {
            Some(embedded) => Ok(embedded.ended().await?),
            None => std::future::pending().await,
        }
    }

    /// Hands over what others can lead, ends every connection, closes every log, leaves the marker of a clean stop, and
    /// ends the session with the coordinator.
    ///
    /// # Errors
    /// Where something could not be made durable; the next start then recovers as after a crash.
    pub async fn stop(self) -> Result<(), BrokerError> {
        tracing::info!(broker = %self.broker.config().broker_id, "stopping");
        let cluster = &self.broker.config().cluster;
        if cluster.controlled_shutdown {
            let backoff = Duration::from_millis(cluster.controlled_shutdown_retry_backoff_ms);
            self.membership.prepare_stop(cluster.controlled_shutdown_max_retries, backoff).await;
        }
        drop(self.serving);
        drop(self.jobs);
        self.broker.directories().note_broker_epoch(self.membership.seen_epoch());
        let stopped = self.broker.stop().await;
        self.membership.leave().await;
        let coordinator = match self.embedded {
            Some(embedded) => embedded.stop().await,
            None => Ok(()),
        };
        stopped?;
        Ok(coordinator?)
    }
}

/// Runs a broker until `stop` completes, then stops it cleanly.
///
/// # Errors
/// Why it could not start, or could not stop cleanly (it then recovers at the next start as after a crash).
pub async fn run(
    runtime: Runtime,
    config: BrokerConfig,
    observers: Observers,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), BrokerError> {
    let mut running = Running::start(runtime, config, observers).await?;
    tokio::select! {
        biased;
        () = stop => running.stop().await,
        failed = running.failed() => failed,
    }
}

/// Does `work`, which needs the coordinator, as long as the one inside this broker has not failed.
async fn unless_failed<T>(
    embedded: &mut Option<Embedded>,
    work: impl Future<Output = Result<T, MembershipError>>,
) -> Result<T, BrokerError> {
    let Some(embedded) = embedded else { return Ok(work.await?) };
    tokio::select! {
        biased;
        done = work => Ok(done?),
        Err(error) = embedded.ended() => Err(error.into()),
    }
}

/// Once the controller knows of this process, and has drawn its conclusions from how the last one ended, this one's end
/// alone is no reason to doubt the logs.
async fn note_known(membership: Arc<Membership>, broker: Arc<Broker>) {
    while !membership.wait_until_known(KNOWN_PATIENCE).await {}
    if let Err(error) = broker.directories().note_known().await {
        tracing::warn!(%error, "should this process be killed, the next one counts as uncleanly stopped");
    }
}

/// What the membership calls with every image.
fn reconcile(broker: &Arc<Broker>) -> Reconcile {
    let broker = Arc::downgrade(broker);
    Arc::new(move |image| {
        let broker = broker.upgrade();
        Box::pin(async move {
            if let Some(broker) = broker {
                broker.reconcile(&image).await;
            }
        })
    })
}

fn settings(
    config: &BrokerConfig,
    embedded: Option<&Embedded>,
    advertised: &[Listener],
    addresses: &[SocketAddr],
    unclean: bool,
) -> MembershipSettings {
    let cluster = &config.cluster;
    let first = &advertised[0].name;
    let inter_broker_listener = cluster.inter_broker_listener.as_ref().unwrap_or(first).clone();
    let own = config.listeners.iter().position(|listener| listener.name == inter_broker_listener);
    let own = addresses[own.unwrap_or(0)];
    let endpoint = |listener: &Listener| Endpoint {
        listener: listener.name.clone(),
        host: reachable(listener, own),
        port: listener.port,
    };
    let connect = embedded.map(Embedded::connect_string).or_else(|| cluster.coordinator_connect.clone());
    let interval = Duration::from_millis(cluster.leader_imbalance_check_interval_ms);
    MembershipSettings {
        broker_id: config.broker_id,
        endpoints: advertised.iter().map(endpoint).collect(),
        inter_broker_listener,
        own_address: (own_ip(own.ip()).to_string(), own.port()),
        rack: cluster.rack.as_deref().map(Arc::from),
        connect: connect.expect("a broker without a coordinator to connect to has one inside"),
        session_timeout_ms: cluster.coordinator_session_timeout_ms,
        credentials_file: config.log_dirs[0].join(credentials::FILE_NAME),
        unclean,
        controller: ControllerSettings { file: Arc::new(config.clone()) },
        balance_interval: cluster.leader_rebalance.then_some(interval),
    }
}

/// The host by which others reach a listener. One that is empty, or stands for all addresses, is this machine's own: only
/// brokers and clients on it can use it then, as the advertised listener says nothing better.
fn reachable(listener: &Listener, own: SocketAddr) -> String {
    match listener.host.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => own_ip(own.ip()).to_string(),
        Err(_) if listener.host.is_empty() => own_ip(own.ip()).to_string(),
        _ => listener.host.clone(),
    }
}

/// The address under which a socket of this machine is reached from this machine.
fn own_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    }
}

fn known_cluster_id(directories: &LogDirectories) -> Option<String> {
    directories.identity().and_then(|meta| meta.cluster_id.clone())
}

fn new_cluster_id(runtime: &Runtime) -> String {
    let mut bytes = [0; 16];
    runtime.fill_random(&mut bytes);
    TopicId(Uuid::from_bytes(bytes)).to_string()
}

/// The advertised listeners; a port of 0 becomes the one that the socket was given.
fn advertised(config: &BrokerConfig, addresses: &[SocketAddr]) -> Vec<Listener> {
    let mut advertised = config.advertised_listeners.clone();
    for (listener, address) in advertised.iter_mut().zip(addresses) {
        if listener.port == 0 {
            listener.port = address.port();
        }
    }
    advertised
}
