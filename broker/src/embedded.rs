//! A coordinator inside the broker's process, for a broker without `zookeeper.connect`. Owns where its data lies and
//! where it listens: on the loopback address only.

use crate::config::BrokerConfig;
use sillon_coordinator::{
    CoordinatorError, Running,
    config::{CoordinatorConfig, members::HostPort},
    observe::Observers,
};
use sillon_runtime::{JoinHandle, Runtime};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tokio::sync::oneshot;

const HOST: &str = "127.0.0.1";
/// The shortest session that it grants, in milliseconds.
const MIN_SESSION_TIMEOUT_MS: i32 = 500;

/// A coordinator that runs.
pub(crate) struct Embedded {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), CoordinatorError>>,
}

/// Where its data lies: the key's value, or beside the first log directory.
fn data_directory(config: &BrokerConfig) -> PathBuf {
    if let Some(directory) = &config.cluster.coordinator_data_dir {
        return directory.into();
    }
    let first: &Path = &config.log_dirs[0];
    let mut beside = first.as_os_str().to_owned();
    beside.push(".coordinator");
    beside.into()
}

impl Embedded {
    /// Starts it.
    ///
    /// # Errors
    /// Why it cannot start.
    pub(crate) async fn start(
        runtime: &Runtime,
        config: &BrokerConfig,
    ) -> Result<Embedded, CoordinatorError> {
        let directory = data_directory(config);
        let mut coordinator = CoordinatorConfig::default();
        coordinator.client_addresses =
            vec![HostPort { host: HOST.to_owned(), port: config.cluster.coordinator_port }];
        coordinator.min_session_timeout_ms = MIN_SESSION_TIMEOUT_MS;
        coordinator.max_session_timeout_ms = i32::MAX;
        coordinator.data_directory.clone_from(&directory);
        coordinator.log_directory = directory;
        let running = Running::start(runtime.clone(), coordinator, Observers::NONE).await?;
        let address = running.addresses()[0];
        let (stop, stopped) = oneshot::channel();
        // Whoever drops the other end wants it to stop as well.
        let until = running.until(async move { drop(stopped.await) });
        let running = runtime.spawn("embedded coordinator", until);
        tracing::info!(%address, "a coordinator runs inside this broker (zookeeper.connect is not set)");
        Ok(Embedded { address, stop, running })
    }

    /// Where brokers reach it.
    pub(crate) fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Waits until it has ended by itself, which it does only where its disk fails.
    ///
    /// # Errors
    /// Why it ended.
    pub(crate) async fn ended(&mut self) -> Result<(), CoordinatorError> {
        (&mut self.running).await.unwrap_or(Ok(()))
    }

    /// Stops it.
    ///
    /// # Errors
    /// What it could not do to the end.
    pub(crate) async fn stop(self) -> Result<(), CoordinatorError> {
        // Where it has ended, nobody listens.
        let _ = self.stop.send(());
        self.running.await.unwrap_or(Ok(()))
    }
}
