//! A broker's life from its first look at the disk to the marker of a clean stop. Owns the order of the steps.

use crate::{
    broker::{self, Broker},
    config::{BrokerConfig, listener::Listener},
    jobs,
    log::{LogDirectories, LogError},
    metadata::{MetadataError, MetadataStore, file_store},
    observe::Observers,
    server::{ListenError, Server},
    types::{TopicId, Uuid},
};
use sillon_runtime::{Runtime, Tasks};
use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc};

/// Why a broker could not start, or not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// A listening socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The log directories cannot be used, or a log cannot be closed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The metadata file cannot be opened.
    #[error(transparent)]
    OpenMetadata(#[from] file_store::OpenError),
    /// There are logs, but nothing says to which topics they belong.
    #[error("{path} is missing although there are logs beside it; restore it from a copy, or move the logs away",
        path = .path.display())]
    MetadataMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The metadata cannot be written.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

/// A broker that serves clients.
pub struct Running {
    broker: Arc<Broker>,
    addresses: Vec<SocketAddr>,
    serving: Tasks,
    jobs: Tasks,
}

impl Running {
    /// Opens the sockets, then the logs, and serves clients.
    ///
    /// # Errors
    /// What cannot be opened: a socket, a log directory, the metadata.
    pub async fn start(
        runtime: Runtime,
        config: BrokerConfig,
        observers: Observers,
    ) -> Result<Running, BrokerError> {
        let server = Server::bind(&runtime, &config.listeners).await?;
        let addresses = server.addresses();
        let context = broker::log_context(&runtime, &observers);
        let directories = LogDirectories::open(context, &config.log_dirs).await?;
        // A directory that was used before its first metadata was written belongs to that cluster already.
        let known = directories.identity().and_then(|meta| meta.cluster_id.clone());
        let cluster_id = known.unwrap_or_else(|| new_cluster_id(&runtime));
        let metadata = file_store::FileStore::open(runtime.clone(), &config.log_dirs[0], cluster_id).await?;
        if metadata.is_new() && !directories.unopened().await?.is_empty() {
            return Err(BrokerError::MetadataMissing {
                path: config.log_dirs[0].join(file_store::FILE_NAME),
            });
        }
        directories.identify(config.broker_id, &metadata.image().cluster_id).await?;
        let advertised = advertised(&config, &addresses);
        let metadata = Arc::new(metadata);
        let broker =
            Broker::start(runtime, config, advertised, observers, metadata.clone(), metadata, directories)
                .await?;
        let jobs = jobs::start(&broker);
        let serving = server.serve(&broker);
        for (listener, address) in broker.config().listeners.iter().zip(&addresses) {
            tracing::info!(%address, listener = %listener.name, broker = %broker.config().broker_id, "listening");
        }
        Ok(Running { broker, addresses, serving, jobs })
    }

    /// The addresses it listens on, in the order of the listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends every connection, closes every log and leaves the marker of a clean stop.
    ///
    /// # Errors
    /// Where something could not be made durable; the next start then recovers as after a crash.
    pub async fn stop(self) -> Result<(), BrokerError> {
        tracing::info!(broker = %self.broker.config().broker_id, "stopping");
        drop(self.serving);
        drop(self.jobs);
        self.broker.stop().await?;
        Ok(())
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
    let running = Running::start(runtime, config, observers).await?;
    stop.await;
    running.stop().await
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
