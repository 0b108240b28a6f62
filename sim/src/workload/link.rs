//! A client's way to one broker: one connection at a time, made again when it is lost. Owns the waiting between tries;
//! never repeats a request.

use super::Shared;
use sillon_client::{Connection, ConnectionError, ConnectionOptions};
use sillon_protocol::wire::Request;
use sillon_runtime::{Monotonic, Runtime};
use std::{sync::Arc, time::Duration};

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// The way to a broker.
pub(super) struct Link {
    pub runtime: Runtime,
    host: Arc<str>,
    port: u16,
    options: ConnectionOptions,
    connection: Option<Arc<Connection>>,
    backoff: Duration,
    /// No try before this.
    not_before: Monotonic,
}

impl Link {
    pub fn new(runtime: Runtime, shared: &Shared, name: &str, host: &str, port: u16) -> Link {
        let timeout = shared.request_timeout();
        let options = ConnectionOptions {
            client_id: name.into(),
            connect_timeout: timeout,
            request_timeout: timeout,
            max_in_flight: 256,
            max_response_bytes: 64 << 20,
        };
        let not_before = runtime.now();
        Link {
            runtime,
            host: host.into(),
            port,
            options,
            connection: None,
            backoff: FIRST_BACKOFF,
            not_before,
        }
    }

    /// Leads to this address from now on.
    pub fn lead_to(&mut self, host: &str, port: u16) {
        if (&*self.host, self.port) != (host, port) {
            self.drop_connection();
            (self.host, self.port) = (host.into(), port);
        }
    }

    /// The connection that lives, or a new one. Waits where the last try was a moment ago.
    pub async fn connection(&mut self) -> Result<Arc<Connection>, ConnectionError> {
        if let Some(connection) = self.connection.as_ref().filter(|connection| connection.failure().is_none())
        {
            return Ok(connection.clone());
        }
        self.connection = None;
        self.runtime.sleep_until(self.not_before).await;
        match Connection::connect(&self.runtime, &self.host, self.port, self.options.clone()).await {
            Ok(connection) => {
                self.backoff = FIRST_BACKOFF;
                let connection = Arc::new(connection);
                self.connection = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                self.not_before = self.runtime.now() + self.backoff;
                self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
                Err(error)
            }
        }
    }

    /// Gives up the connection: it may be one whose other end is gone.
    pub fn drop_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }

    /// Asks once, in the newest common version. After a failure the connection is given up.
    pub async fn ask<R: Request>(&mut self, request: &R) -> Result<R::Response, ConnectionError> {
        let connection = self.connection().await?;
        let answer = connection.send(request).await;
        if answer.is_err() {
            self.drop_connection();
        }
        answer
    }
}
