//! Administration of a cluster: who is in it, topics and their partitions, configuration, groups and their offsets.
//!
//! Owns finding a broker that answers and finding the controller, and trying again while leadership moves. Never keeps
//! metadata for longer than a request needs it, and never decides what is printed.

mod configs;
mod error;
mod groups;
mod partitions;
mod topics;

pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource};
pub use error::AdminError;
pub use groups::{GroupDescription, GroupListing, GroupMember};
pub use partitions::{ElectionType, LogDirDescription, Reassignment};
pub use topics::{NewTopic, PartitionDescription, TopicConfigEntry, TopicDescription};

use crate::{Connection, ConnectionError, ConnectionOptions, cluster::Cluster};
use sillon_protocol::{
    ErrorCode,
    messages::{MetadataRequest, MetadataResponse},
    wire::Request,
};
use sillon_runtime::{Monotonic, Runtime};
use std::{fmt, str::FromStr, sync::Arc, time::Duration};

/// How long to wait before an attempt is repeated.
const BACKOFF: Duration = Duration::from_millis(100);

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// Reads `HOST:PORT,HOST:PORT,…`; an IPv6 address stands in brackets.
    ///
    /// # Errors
    /// [`AdminError::BootstrapServer`] where an entry is not that, or where there is none.
    pub fn parse_list(text: &str) -> Result<Vec<Address>, AdminError> {
        text.split(',').map(|entry| entry.trim().parse()).collect()
    }
}

impl FromStr for Address {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Address, AdminError> {
        let wrong = || AdminError::BootstrapServer { text: text.to_owned() };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner,
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        if host.is_empty() || port == 0 {
            return Err(wrong());
        }
        Ok(Address { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A living broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its number.
    pub id: i32,
    /// Where clients reach it.
    pub address: Address,
    /// Its rack, if it has one.
    pub rack: Option<String>,
}

/// Who is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The cluster's id, where it has one.
    pub cluster_id: Option<String>,
    /// The controller's broker id, `None` while there is none.
    pub controller_id: Option<i32>,
    /// The living brokers, by number.
    pub brokers: Vec<BrokerDescription>,
}

impl ClusterDescription {
    fn new(metadata: &MetadataResponse) -> ClusterDescription {
        let mut brokers: Vec<_> = metadata
            .brokers
            .iter()
            .map(|broker| BrokerDescription {
                id: broker.node_id,
                // A port that is none cannot be dialled; 0 says so without hiding the broker.
                address: Address { host: broker.host.clone(), port: u16::try_from(broker.port).unwrap_or(0) },
                rack: broker.rack.clone(),
            })
            .collect();
        brokers.sort_by_key(|broker| broker.id);
        let controller_id = (metadata.controller_id >= 0).then_some(metadata.controller_id);
        ClusterDescription { cluster_id: metadata.cluster_id.clone(), controller_id, brokers }
    }
}

/// How patient an [`Admin`] is.
#[derive(Clone, Debug)]
pub struct AdminOptions {
    /// How long a request may take with all its attempts.
    pub timeout: Duration,
    /// How each connection behaves.
    pub connection: ConnectionOptions,
}

impl Default for AdminOptions {
    fn default() -> AdminOptions {
        let connection = ConnectionOptions {
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(15),
            ..ConnectionOptions::default()
        };
        AdminOptions { timeout: Duration::from_secs(30), connection }
    }
}

/// Who has to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Any,
    Controller,
}

/// A broker that is connected to.
#[derive(Clone)]
struct Peer {
    /// As it is told to people.
    name: String,
    connection: Arc<Connection>,
}

/// An answer, with what errors about it have to tell.
struct Answer<T> {
    response: T,
    broker: String,
    /// Whether an earlier attempt got no answer.
    unanswered_before: bool,
}

/// How an attempt ended that may be repeated.
struct Repeatable {
    why: String,
    /// Whether it may have had an effect all the same.
    unanswered: bool,
    /// Set where not one broker could be connected to.
    unreachable: Option<ConnectionError>,
}

/// A client that administrates a cluster.
pub struct Admin {
    runtime: Runtime,
    bootstrap: Vec<Address>,
    options: AdminOptions,
    any: Option<Peer>,
    controller: Option<Peer>,
    /// For what is asked of a certain broker.
    cluster: Option<Cluster>,
}

impl Admin {
    /// A client that knows these brokers and learns of the others. Connects when it is first asked something.
    pub fn new(runtime: Runtime, bootstrap: Vec<Address>, options: AdminOptions) -> Admin {
        Admin { runtime, bootstrap, options, any: None, controller: None, cluster: None }
    }

    /// Who is in the cluster, as one broker sees it.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn describe_cluster(&mut self) -> Result<ClusterDescription, AdminError> {
        let request = MetadataRequest {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let answer = self
            .call(Target::Any, "describe the cluster", &request, |response| response.error_code.into())
            .await?;
        Ok(ClusterDescription::new(&answer.response))
    }

    /// Asks until there is an answer whose error code, as `code_of` finds it, is none that passes by itself.
    async fn call<R: Request>(
        &mut self,
        target: Target,
        what: &str,
        request: &R,
        code_of: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<Answer<R::Response>, AdminError> {
        let deadline = self.runtime.now() + self.options.timeout;
        let mut unanswered_before = false;
        loop {
            let failed = match self.attempt(target, what, request, &code_of).await? {
                Ok((response, broker)) => return Ok(Answer { response, broker, unanswered_before }),
                Err(failed) => failed,
            };
            unanswered_before |= failed.unanswered;
            if self.runtime.now() + BACKOFF >= deadline {
                return Err(self.given_up(what, failed));
            }
            self.runtime.sleep(BACKOFF).await;
        }
    }

    fn given_up(&self, what: &str, failed: Repeatable) -> AdminError {
        match failed.unreachable {
            Some(source) => AdminError::Unreachable { what: what.to_owned(), tried: self.tried(), source },
            None => AdminError::TimedOut {
                what: what.to_owned(),
                timeout_ms: u64::try_from(self.options.timeout.as_millis()).unwrap_or(u64::MAX),
                last: failed.why,
            },
        }
    }

    fn tried(&self) -> String {
        self.bootstrap.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
    }

    /// One attempt. The outer error is final, the inner one may be repeated.
    async fn attempt<R: Request>(
        &mut self,
        target: Target,
        what: &str,
        request: &R,
        code_of: &impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<Result<(R::Response, String), Repeatable>, AdminError> {
        let peer = match target {
            Target::Any => self.any_peer().await,
            Target::Controller => self.controller_peer().await,
        };
        let peer = match peer {
            Ok(peer) => peer,
            Err(failed) => return Ok(Err(failed)),
        };
        match peer.connection.send(request).await {
            Ok(response) => {
                let code = code_of(&response);
                if !passes_by_itself(code) {
                    return Ok(Ok((response, peer.name)));
                }
                self.controller = None;
                let why = format!("{} answers {code}: {}", peer.name, code.message());
                Ok(Err(Repeatable {
                    why,
                    unanswered: code == ErrorCode::REQUEST_TIMED_OUT,
                    unreachable: None,
                }))
            }
            Err(source @ (ConnectionError::NoCommonVersion { .. } | ConnectionError::Unsayable { .. })) => {
                Err(AdminError::Connection { what: what.to_owned(), broker: peer.name, source })
            }
            Err(error) => {
                self.any = None;
                self.controller = None;
                let why = format!("{}: {error}", peer.name);
                Ok(Err(Repeatable { why, unanswered: !error.is_definite(), unreachable: None }))
            }
        }
    }

    /// A broker that can be connected to: the one of last time, or the first of the bootstrap servers that answers.
    async fn any_peer(&mut self) -> Result<Peer, Repeatable> {
        if let Some(peer) = self.any.as_ref().filter(|peer| peer.connection.failure().is_none()) {
            return Ok(peer.clone());
        }
        let mut last = ConnectionError::Closed;
        for address in self.bootstrap.clone() {
            match self.connect(address.to_string(), &address).await {
                Ok(peer) => {
                    self.any = Some(peer.clone());
                    return Ok(peer);
                }
                Err(error) => last = error,
            }
        }
        Err(Repeatable { why: last.to_string(), unanswered: false, unreachable: Some(last) })
    }

    async fn controller_peer(&mut self) -> Result<Peer, Repeatable> {
        if let Some(peer) = self.controller.as_ref().filter(|peer| peer.connection.failure().is_none()) {
            return Ok(peer.clone());
        }
        let asked = self.any_peer().await?;
        let repeatable = |why: String| Repeatable { why, unanswered: false, unreachable: None };
        let request = MetadataRequest {
            topics: Some(Vec::new()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let metadata = match asked.connection.send(&request).await {
            Ok(metadata) => metadata,
            Err(error) => {
                self.any = None;
                return Err(repeatable(format!("{}: {error}", asked.name)));
            }
        };
        let cluster = ClusterDescription::new(&metadata);
        let controller =
            cluster.controller_id.and_then(|id| cluster.brokers.iter().find(|broker| broker.id == id));
        let Some(controller) = controller else {
            // Another broker may know more.
            self.any = None;
            self.bootstrap.rotate_left(1);
            return Err(repeatable(format!("{} knows of no controller", asked.name)));
        };
        let name = format!("broker {} ({}, the controller)", controller.id, controller.address);
        match self.connect(name.clone(), &controller.address).await {
            Ok(peer) => {
                self.controller = Some(peer.clone());
                Ok(peer)
            }
            Err(error) => Err(repeatable(format!("{name}: {error}"))),
        }
    }

    async fn connect(&self, name: String, address: &Address) -> Result<Peer, ConnectionError> {
        let options = self.options.connection.clone();
        let connection = Connection::connect(&self.runtime, &address.host, address.port, options).await?;
        Ok(Peer { name, connection: Arc::new(connection) })
    }

    fn now(&self) -> Monotonic {
        self.runtime.now()
    }
}

/// Errors of a cluster on its way from one leader to the next: the same request may succeed a moment later.
fn passes_by_itself(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NOT_CONTROLLER
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::BROKER_NOT_AVAILABLE
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::REQUEST_TIMED_OUT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_addresses_is_read_and_told_as_it_was() {
        let list = Address::parse_list("localhost:9092, [::1]:9093,10.0.0.1:65535").unwrap();
        let told: Vec<_> = list.iter().map(Address::to_string).collect();
        assert_eq!(told, ["localhost:9092", "[::1]:9093", "10.0.0.1:65535"]);
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in
            ["", "localhost", ":9092", "localhost:", "localhost:0", "localhost:65536", "a:1,,b:2", "::1:9092"]
        {
            let error = Address::parse_list(text).unwrap_err().to_string();
            assert!(error.contains("HOST:PORT is expected"), "{text}: {error}");
        }
    }
}
