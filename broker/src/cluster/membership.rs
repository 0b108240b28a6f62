//! A broker's membership, put together: the session and all that lives with it, following the metadata, and what the rest
//! of the broker asks for. Owns the order of joining and leaving.
//!
//! ```text
//!   join: session, nodes, cluster id ──► begin: registration, elections, following ──► prepare_stop ──► leave
//! ```

use super::{
    ActiveController, Cluster, ClusterError, MembershipError, MembershipSettings, Reconcile, credentials,
    election, follower,
    link::Link,
    registration,
    session::{self, insist},
    shared::Shared,
};
use crate::{
    controller::layout,
    metadata::{BrokerImage, MetadataImage, MetadataPosition},
    observe::Observers,
    types::{BrokerEpoch, BrokerId, ControllerEpoch},
};
use bytes::Bytes;
use sillon_coordinator::client::{Client, SessionEvent};
use sillon_protocol::{
    ErrorCode,
    messages::{AlterPartitionRequest, AlterPartitionResponse, ForwardRequest, PrepareShutdownRequest},
};
use sillon_runtime::{BoxFuture, Runtime, Tasks};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::oneshot;

/// How long a request that was handed on may take: as long as clients wait.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the metadata may take to tell what a request that was handed on led to.
const FORWARD_PATIENCE: Duration = Duration::from_secs(5);
/// How long a proposal of in-sync replicas may take.
const ALTER_TIMEOUT: Duration = Duration::from_secs(5);
/// The version of AlterPartition that brokers speak among themselves.
const ALTER_VERSION: i16 = 3;
/// How long the controller may take to let a broker go.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether others have taken over, at the most.
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(200);
/// The pause before a session is opened again.
const SESSION_PAUSE: Duration = Duration::from_millis(100);
/// How long the end of a session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// See the module. One per process.
pub struct Membership {
    shared: Arc<Shared>,
    link: Link,
    tasks: Mutex<Tasks>,
}

impl Membership {
    /// Opens a session, ends that of the process before, and creates the nodes that must exist. Gives also the cluster's
    /// id: the one at the coordinator, else `new_cluster_id`; where that is none, there must be one.
    ///
    /// # Errors
    /// [`MembershipError`].
    pub async fn join(
        runtime: Runtime,
        observers: Observers,
        settings: MembershipSettings,
        new_cluster_id: Option<&str>,
    ) -> Result<(Arc<Membership>, String), MembershipError> {
        let shared = Arc::new(Shared::new(runtime, observers, settings));
        session::end_previous(&shared).await?;
        let client = session::open(&shared).await?;
        let cluster_id = session::prepare(&shared, &client, new_cluster_id).await?;
        shared.set_client(Some(client));
        let membership = Membership { shared, link: Link::default(), tasks: Mutex::default() };
        Ok((Arc::new(membership), cluster_id))
    }

    /// Registers the broker, and takes part from now on. `reconcile` is called with every image. Connections must be
    /// served by now: the controller is reached over the network, even by itself.
    ///
    /// # Errors
    /// Why the broker cannot register.
    ///
    /// # Panics
    /// Where it is called a second time.
    pub async fn begin(&self, reconcile: Reconcile) -> Result<(), MembershipError> {
        let client = self.shared.client().expect("a membership begins once, after it joined");
        let (first, registered) = oneshot::channel();
        let following = Arc::new(follower::Following::default());
        {
            let runtime = &self.shared.runtime;
            let mut tasks = self.tasks.lock().expect("no holder panics");
            tasks.push(runtime.spawn("membership", live(self.shared.clone(), client, first)));
            let follow = follower::follow(self.shared.clone(), following.clone());
            tasks.push(runtime.spawn("metadata follower", follow));
            let apply = follower::apply(self.shared.clone(), following, reconcile);
            tasks.push(runtime.spawn("metadata", apply));
        }
        registered.await.unwrap_or(Ok(()))
    }

    /// Waits until the controller knows of this broker's registration and the broker is in line with that, or the time
    /// is over. Gives whether it has come to that.
    pub async fn wait_until_known(&self, timeout: Duration) -> bool {
        let known = self.shared.until(|shared| {
            let image = shared.image();
            let epoch = image.brokers.get(&shared.broker_id()).map(|broker| broker.broker_epoch);
            let known = epoch == Some(shared.broker_epoch()) && shared.applied() >= image.position;
            known.then_some(())
        });
        self.shared.runtime.timeout(timeout, known).await.is_ok()
    }

    /// The registration that a clean stop may name: the newest, where the controller has seen it, else
    /// [`BrokerEpoch::NONE`].
    pub fn seen_epoch(&self) -> BrokerEpoch {
        self.shared.seen_epoch()
    }

    /// Has the controller hand over what this broker leads, as far as others can take it. Asks again up to `retries`
    /// times. From now on the broker does not register again.
    pub async fn prepare_stop(&self, retries: u32, backoff: Duration) {
        self.shared.leave();
        let patience = backoff.saturating_mul(retries);
        let deadline = self.shared.runtime.now() + patience;
        loop {
            if !self.shares_partitions(|_other| true) {
                return;
            }
            match self.ask_to_stop().await {
                Ok(0) => return,
                Ok(remaining) => tracing::info!(remaining, "partitions still have no other leader"),
                Err(error) => tracing::info!(%error, "the controller did not let this broker go"),
            }
            // Who is about to stop itself takes nothing over: there is nothing to wait for.
            let could_lead = self.shares_partitions(|other| !other.shutting_down);
            if !could_lead || self.shared.runtime.now() >= deadline {
                return;
            }
            self.shared.runtime.sleep(SHUTDOWN_PAUSE.min(backoff)).await;
        }
    }

    /// Whether there is a partition of this broker that lies also on another one that is registered and is `meant`.
    fn shares_partitions(&self, meant: impl Fn(&BrokerImage) -> bool) -> bool {
        let (image, own) = (self.shared.image(), self.shared.broker_id());
        let mut partitions = image.topics.values().flat_map(|topic| &topic.partitions);
        partitions.any(|partition| {
            let is_other = |replica: &BrokerId| {
                *replica != own && image.brokers.get(replica).is_some_and(|other| meant(other))
            };
            partition.replicas.contains(&own) && partition.replicas.iter().any(is_other)
        })
    }

    async fn ask_to_stop(&self) -> Result<i32, ClusterError> {
        let broker_epoch = self.shared.broker_epoch().0;
        let request = PrepareShutdownRequest { broker_id: self.shared.broker_id().0, broker_epoch };
        let response = self.link.ask(&self.shared, 0, &request, SHUTDOWN_TIMEOUT).await?;
        match ErrorCode::from(response.error_code) {
            ErrorCode::NONE => Ok(response.remaining_partitions),
            // Nobody counts on a broker that is not registered. One that is will count once the controller has heard of it.
            ErrorCode::STALE_BROKER_EPOCH | ErrorCode::BROKER_ID_NOT_REGISTERED
                if self.shared.registration().is_none() =>
            {
                Ok(0)
            }
            code => Err(self.not_done(code)),
        }
    }

    fn not_done(&self, code: ErrorCode) -> ClusterError {
        match (code, self.shared.controller()) {
            (ErrorCode::NOT_CONTROLLER, _) | (_, None) => ClusterError::NoController,
            (code, Some(known)) => {
                ClusterError::Unreachable { broker: known.broker, reason: code.to_string() }
            }
        }
    }

    /// Ends everything without a word, as a process that is killed does.
    #[cfg(test)]
    pub(super) fn abandon(&self) {
        drop(std::mem::take(&mut *self.tasks.lock().expect("no holder panics")));
        self.shared.set_client(None);
    }

    /// Ends the membership and the session, and with it the registration.
    pub async fn leave(&self) {
        self.shared.leave();
        drop(std::mem::take(&mut *self.tasks.lock().expect("no holder panics")));
        let Some(client) = self.shared.client() else { return };
        self.shared.set_client(None);
        match self.shared.runtime.timeout(CLOSE_TIMEOUT, client.close()).await {
            Ok(Ok(_)) => {
                credentials::remove(&self.shared.runtime, &self.shared.settings.credentials_file).await;
            }
            Ok(Err(error)) => tracing::warn!(%error, "the session with the coordinator ends by its timeout"),
            Err(_elapsed) => tracing::warn!("the session with the coordinator ends by its timeout"),
        }
        self.shared.unregistered();
    }
}

/// Lives with one session after the other.
async fn live(shared: Arc<Shared>, mut client: Client, first: oneshot::Sender<Result<(), MembershipError>>) {
    let mut first = Some(first);
    loop {
        // Gives whether this was the first registration, whose failure ends the start.
        let mut told = |result| match first.take() {
            Some(first) => first.send(result).is_ok(),
            None => false,
        };
        tokio::select! {
            biased;
            () = session_end(&client) => {}
            () = registration::keep(&shared, &client, &mut told) => return,
            () = election::take_part(&shared, &client) => {}
        }
        tracing::warn!("the session with the coordinator has expired");
        shared.unregistered();
        shared.set_controller(None);
        shared.set_client(None);
        client = loop {
            match session::open(&shared).await {
                Ok(client) => break client,
                Err(error) => {
                    tracing::error!(%error, "no session with the coordinator");
                    shared.runtime.sleep(SESSION_PAUSE).await;
                }
            }
        };
        shared.set_client(Some(client.clone()));
    }
}

/// Returns when the session is over.
async fn session_end(client: &Client) {
    let mut events = client.session_events();
    while let Some(event) = events.next().await {
        if matches!(event, SessionEvent::Expired | SessionEvent::Closed | SessionEvent::AuthFailed) {
            return;
        }
    }
}

impl Cluster for Membership {
    fn broker_id(&self) -> BrokerId {
        self.shared.broker_id()
    }

    fn image(&self) -> Arc<MetadataImage> {
        self.shared.image()
    }

    fn broker_epoch(&self) -> BrokerEpoch {
        self.shared.broker_epoch()
    }

    fn is_known_to(&self, image: &MetadataImage) -> bool {
        let known = image.brokers.get(&self.shared.broker_id()).map(|broker| broker.broker_epoch);
        let first = self.shared.first_epoch();
        first.is_some_and(|first| known.is_some_and(|known| known >= first))
    }

    fn controller(&self) -> Option<Arc<dyn ActiveController>> {
        self.shared.office().map(|office| office as Arc<dyn ActiveController>)
    }

    fn wait_for(&self, position: MetadataPosition, timeout: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let reached = self.shared.until(|shared| (shared.applied() >= position).then_some(()));
            self.shared.runtime.timeout(timeout, reached).await.is_ok()
        })
    }

    fn forward(&self, frame: Bytes) -> BoxFuture<'_, Result<Bytes, ClusterError>> {
        Box::pin(async move {
            let request = ForwardRequest { broker_id: self.shared.broker_id().0, payload: frame };
            let response = self.link.ask(&self.shared, 0, &request, FORWARD_TIMEOUT).await?;
            match ErrorCode::from(response.error_code) {
                ErrorCode::NONE => {}
                code => return Err(self.not_done(code)),
            }
            let controller_epoch = ControllerEpoch(response.controller_epoch);
            let position = MetadataPosition { controller_epoch, version: response.version };
            if !self.wait_for(position, FORWARD_PATIENCE).await {
                tracing::warn!(%position, "the metadata does not tell yet what a client's request led to");
            }
            Ok(response.payload)
        })
    }

    fn alter_partitions(
        &self,
        request: AlterPartitionRequest,
    ) -> BoxFuture<'_, Result<AlterPartitionResponse, ClusterError>> {
        Box::pin(async move {
            let response = self.link.ask(&self.shared, ALTER_VERSION, &request, ALTER_TIMEOUT).await?;
            match ErrorCode::from(response.error_code) {
                ErrorCode::NOT_CONTROLLER => Err(ClusterError::NoController),
                _ => Ok(response),
            }
        })
    }

    fn allocate_producer_ids(&self, count: i64) -> BoxFuture<'_, Result<i64, ClusterError>> {
        Box::pin(allocate_producer_ids(&self.shared, count))
    }
}

/// Takes ids with a compare-and-set. Where it is not known whether that was written, the ids may be lost, and others are
/// taken.
async fn allocate_producer_ids(shared: &Shared, count: i64) -> Result<i64, ClusterError> {
    let said = |error: &dyn std::fmt::Display| ClusterError::Coordinator(error.to_string());
    let client = shared.client().ok_or_else(|| said(&"there is no session at present"))?;
    loop {
        let node = insist(&shared.runtime, || client.get_data(layout::PRODUCER_IDS)).await;
        let node = node.map_err(|error| said(&error))?.value;
        let taken = layout::decode_producer_ids(&node.data.unwrap_or_default());
        let first = taken.map_err(|error| said(&error))?.map_or(0, |last| last.saturating_add(1));
        let last = first.checked_add(count - 1).ok_or_else(|| said(&"producer ids are used up"))?;
        let content = layout::encode_producer_ids(shared.broker_id(), first, last);
        match client.set_data(layout::PRODUCER_IDS, Some(&content), Some(node.stat.version)).await {
            Ok(_) => return Ok(first),
            Err(error) if error.code() == Some(sillon_protocol::zookeeper::ErrorCode::BadVersion) => {}
            Err(error) if error.outcome_is_unknown() => {}
            Err(error) => return Err(said(&error)),
        }
    }
}
