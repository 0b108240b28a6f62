//! One connection to each broker that is needed. Owns dialling, at most one attempt per broker at a time, and how long
//! to leave a broker alone after one that failed.

use super::{Broker, Channel, Cluster, Metadata, NetworkConfig, State};
use crate::{ClientError, Connection, ConnectionError, backoff::backoff};
use sillon_runtime::{Monotonic, Runtime};
use std::sync::Arc;

/// What is known of the way to one broker.
#[derive(Default)]
pub(super) struct Link {
    connection: Option<Arc<Connection>>,
    /// Where it leads to: a broker that moved is dialled anew.
    address: Option<(Arc<str>, u16)>,
    /// Held while somebody dials.
    dialling: Arc<tokio::sync::Mutex<()>>,
    failures: u32,
    retry_at: Monotonic,
}

impl State {
    /// The living connection to a broker, if there is one and it still leads to where the broker is.
    fn live(&self, broker: &Broker, channel: Channel) -> Option<Arc<Connection>> {
        let link = self.links.get(&(broker.id, channel))?;
        let there =
            link.address.as_ref().is_some_and(|(host, port)| (host, *port) == (&broker.host, broker.port));
        link.connection.clone().filter(|connection| there && connection.failure().is_none())
    }
}

impl Cluster {
    /// The connection to a broker for records if there is one that lives. Never waits.
    pub fn connected(&self, broker: i32) -> Option<Arc<Connection>> {
        let state = self.shared.lock();
        state.metadata.brokers.get(&broker).and_then(|broker| state.live(broker, Channel::Data))
    }

    /// The connection to a broker, made if there is none, after the backoff if the last attempt failed.
    ///
    /// # Errors
    /// [`ClientError::Connection`], also where the metadata knows no such broker, which newer metadata may mend: it is asked
    /// for.
    pub async fn connection(&self, broker: i32, channel: Channel) -> Result<Arc<Connection>, ClientError> {
        let dialling = {
            let mut state = self.shared.lock();
            let state = &mut *state;
            match state.metadata.brokers.get(&broker) {
                Some(known) => match state.live(known, channel) {
                    Some(connection) => return Ok(connection),
                    None => Some(state.links.entry((broker, channel)).or_default().dialling.clone()),
                },
                None => None,
            }
        };
        let Some(dialling) = dialling else { return Err(self.gone(broker)) };
        let _turn = dialling.lock().await;
        let (known, retry_at) = {
            let state = self.shared.lock();
            let Some(known) = state.metadata.brokers.get(&broker).cloned() else {
                drop(state);
                return Err(self.gone(broker));
            };
            if let Some(connection) = state.live(&known, channel) {
                return Ok(connection);
            }
            (known, state.links.get(&(broker, channel)).map_or(Monotonic::default(), |link| link.retry_at))
        };
        if retry_at > self.shared.runtime.now() {
            self.shared.runtime.sleep_until(retry_at).await;
        }
        self.dial(&known, channel).await
    }

    fn gone(&self, broker: i32) -> ClientError {
        self.request_update();
        ClientError::Connection { broker, source: ConnectionError::Closed }
    }

    async fn dial(&self, broker: &Broker, channel: Channel) -> Result<Arc<Connection>, ClientError> {
        let runtime = &self.shared.runtime;
        let dialled =
            Connection::connect(runtime, &broker.host, broker.port, self.shared.config.connection_options())
                .await;
        let random = runtime.random_u64();
        let mut state = self.shared.lock();
        let link = state.links.entry((broker.id, channel)).or_default();
        match dialled {
            Ok(connection) => {
                let connection = Arc::new(connection);
                link.connection = Some(connection.clone());
                link.address = Some((broker.host.clone(), broker.port));
                link.failures = 0;
                link.retry_at = Monotonic::default();
                Ok(connection)
            }
            Err(source) => {
                link.connection = None;
                link.failures = link.failures.saturating_add(1);
                let NetworkConfig { reconnect_backoff_ms, reconnect_backoff_max_ms, .. } = self.shared.config;
                let wait = backoff(reconnect_backoff_ms, reconnect_backoff_max_ms, link.failures, random);
                link.retry_at = runtime.now() + wait;
                drop(state);
                // Whoever leads now may be somebody else.
                self.request_update();
                Err(ClientError::Connection { broker: broker.id, source })
            }
        }
    }

    /// Any broker that can be connected to: who is connected already, then those known, then the bootstrap servers.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`].
    pub(super) async fn any_connection(&self) -> Result<Arc<Connection>, ClientError> {
        let (metadata, connected) = {
            let state = self.shared.lock();
            let connected =
                state.metadata.brokers.values().find_map(|broker| state.live(broker, Channel::Data));
            (state.metadata.clone(), connected)
        };
        if let Some(connection) = connected {
            return Ok(connection);
        }
        self.dial_any(&metadata).await
    }

    async fn dial_any(&self, metadata: &Metadata) -> Result<Arc<Connection>, ClientError> {
        let runtime: &Runtime = &self.shared.runtime;
        let now = runtime.now();
        for broker in metadata.brokers.values() {
            let free = {
                let mut state = self.shared.lock();
                let link = state.links.entry((broker.id, Channel::Data)).or_default();
                if link.retry_at > now { None } else { link.dialling.clone().try_lock_owned().ok() }
            };
            // Somebody else dials this one already.
            let Some(_turn) = free else { continue };
            if let Ok(connection) = self.dial(broker, Channel::Data).await {
                return Ok(connection);
            }
        }
        let mut last = ConnectionError::Closed;
        for address in &self.shared.config.bootstrap_servers {
            let options = self.shared.config.connection_options();
            match Connection::connect(runtime, &address.host, address.port, options).await {
                Ok(connection) => return Ok(Arc::new(connection)),
                Err(error) => last = error,
            }
        }
        Err(ClientError::Unreachable { tried: self.shared.config.tried(), source: last })
    }
}
