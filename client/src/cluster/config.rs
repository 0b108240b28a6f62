//! How a client reaches its cluster. Owns the values that producer and consumer share, and their checks.

use crate::{ClientError, ConnectionOptions, admin::Address};
use std::time::Duration;

/// How a client reaches its cluster. Names are Kafka's in snake case, and so are the defaults.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Brokers to learn of the others from.
    pub bootstrap_servers: Vec<Address>,
    /// The name that the brokers' logs and quotas know this client by.
    pub client_id: String,
    /// How long a request may wait for its answer; a connection that does not give it in time is given up.
    pub request_timeout_ms: u64,
    /// How old metadata may become before it is asked for again although nothing seems wrong.
    pub metadata_max_age_ms: u64,
    /// The wait after the first failure of a request, doubled after each further one.
    pub retry_backoff_ms: u64,
    /// The longest such wait.
    pub retry_backoff_max_ms: u64,
    /// The wait after the first connection to a broker that failed, doubled after each further one.
    pub reconnect_backoff_ms: u64,
    /// The longest such wait.
    pub reconnect_backoff_max_ms: u64,
    /// How long connecting and agreeing on versions may take together.
    pub socket_connection_setup_timeout_ms: u64,
    /// The largest response that is accepted, in bytes.
    pub max_response_bytes: usize,
}

impl Default for NetworkConfig {
    fn default() -> NetworkConfig {
        NetworkConfig {
            bootstrap_servers: Vec::new(),
            client_id: "sillon".to_owned(),
            request_timeout_ms: 30_000,
            metadata_max_age_ms: 300_000,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1_000,
            socket_connection_setup_timeout_ms: 10_000,
            max_response_bytes: 128 << 20,
        }
    }
}

impl NetworkConfig {
    /// The defaults, with these brokers.
    pub fn new(bootstrap_servers: Vec<Address>) -> NetworkConfig {
        NetworkConfig { bootstrap_servers, ..NetworkConfig::default() }
    }

    /// # Errors
    /// [`ClientError::Config`] with the first key that cannot be.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        if self.bootstrap_servers.is_empty() {
            return Err(ClientError::Config {
                key: "bootstrap_servers",
                problem: "at least one HOST:PORT is needed, such as 127.0.0.1:9092".to_owned(),
            });
        }
        for (key, value) in [
            ("request_timeout_ms", self.request_timeout_ms),
            ("metadata_max_age_ms", self.metadata_max_age_ms),
            ("socket_connection_setup_timeout_ms", self.socket_connection_setup_timeout_ms),
        ] {
            if value == 0 {
                return Err(ClientError::Config { key, problem: "it has to be above 0".to_owned() });
            }
        }
        Ok(())
    }

    pub(crate) fn connection_options(&self) -> ConnectionOptions {
        ConnectionOptions {
            client_id: self.client_id.as_str().into(),
            connect_timeout: Duration::from_millis(self.socket_connection_setup_timeout_ms),
            request_timeout: Duration::from_millis(self.request_timeout_ms),
            max_response_bytes: self.max_response_bytes,
            ..ConnectionOptions::default()
        }
    }

    pub(crate) fn tried(&self) -> String {
        self.bootstrap_servers.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
    }
}
