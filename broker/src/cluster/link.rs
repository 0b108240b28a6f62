//! Connections to the controller, wherever it is: finding its address, and one connection for what is asked besides
//! following the metadata. Owns that connection.

use super::{
    ClusterError,
    session::insist,
    shared::{KnownController, Shared},
};
use crate::{controller::layout, types::BrokerId};
use sillon_client::{Connection, ConnectionError, ConnectionOptions};
use sillon_coordinator::client::Client;
use sillon_protocol::wire::Request;
use std::{io, sync::Arc, time::Duration};

/// How long connecting may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A controller's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether it is that of the very session that holds the office, so that a refusal proves that the office is held
    /// by nobody.
    pub(super) is_certain: bool,
}

/// Where a controller is: as it says at the coordinator, else as the metadata says.
pub(super) async fn address(shared: &Shared, known: &KnownController) -> Option<Address> {
    if known.broker == shared.broker_id() {
        let (host, port) = shared.settings.own_address.clone();
        return Some(Address { host, port, is_certain: false });
    }
    let registered = match shared.client() {
        Some(client) => registered(shared, &client, known).await,
        None => None,
    };
    let from_metadata = || {
        let image = shared.image();
        let endpoint = image.brokers.get(&known.broker)?.endpoint(&shared.settings.inter_broker_listener)?;
        Some(Address { host: endpoint.host.clone(), port: endpoint.port, is_certain: false })
    };
    registered.or_else(from_metadata)
}

async fn registered(shared: &Shared, client: &Client, known: &KnownController) -> Option<Address> {
    let path = layout::broker_path(known.broker);
    let node = insist(&shared.runtime, || client.get_data(&path)).await.ok()?.value;
    let broker = layout::decode_broker(&path, &node.data.unwrap_or_default(), node.stat.czxid).ok()?;
    let endpoint = broker.endpoint(&shared.settings.inter_broker_listener)?;
    let is_certain = node.stat.ephemeral_owner == known.owner;
    Some(Address { host: endpoint.host.clone(), port: endpoint.port, is_certain })
}

/// Connects to a broker.
pub(super) async fn connect(shared: &Shared, address: &Address) -> Result<Connection, ConnectionError> {
    let options = ConnectionOptions {
        client_id: format!("broker-{}", shared.broker_id()).into(),
        connect_timeout: CONNECT_TIMEOUT,
        ..ConnectionOptions::default()
    };
    Connection::connect(&shared.runtime, &address.host, address.port, options).await
}

/// Whether nobody listens there.
pub(super) fn is_refusal(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused)
}

/// The connection for what is asked besides following.
#[derive(Default)]
pub(super) struct Link(tokio::sync::Mutex<Option<(KnownController, Arc<Connection>)>>);

impl Link {
    /// Asks the controller.
    ///
    /// # Errors
    /// [`ClusterError::NoController`], [`ClusterError::Unreachable`].
    pub(super) async fn ask<R: Request>(
        &self,
        shared: &Shared,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> Result<R::Response, ClusterError> {
        // Where the coordinator does not answer, nobody says where the controller is.
        let connection = shared.runtime.timeout(timeout, self.connection(shared)).await;
        let (broker, connection) = connection.unwrap_or(Err(ClusterError::NoController))?;
        match connection.send_version(version, request, timeout).await {
            Ok(response) => Ok(response),
            Err(error) => {
                // Whatever is late must not hold up what comes after it.
                connection.close();
                Err(ClusterError::Unreachable { broker, reason: error.to_string() })
            }
        }
    }

    async fn connection(&self, shared: &Shared) -> Result<(BrokerId, Arc<Connection>), ClusterError> {
        let known = shared.controller().ok_or(ClusterError::NoController)?;
        let broker = known.broker;
        let mut link = self.0.lock().await;
        if let Some((of, connection)) = &*link
            && *of == known
            && connection.failure().is_none()
        {
            return Ok((broker, connection.clone()));
        }
        *link = None;
        let address = address(shared, &known).await.ok_or(ClusterError::NoController)?;
        match connect(shared, &address).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *link = Some((known, connection.clone()));
                Ok((broker, connection))
            }
            Err(error) => Err(ClusterError::Unreachable { broker, reason: error.to_string() }),
        }
    }
}
