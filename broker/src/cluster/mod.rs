//! This broker as a member of its cluster: what it knows of the others, and how it reaches the controller.
//!
//! ```text
//!   session ──┬── registration   /brokers/ids/N, kept while the session lasts
//!             └── election       /controller ──► office: load, then command ──► plan ──► multi ──► commit ──► metadata log
//!   follower  ◄── FetchMetadata (serve) ◄───────────────────────────────────────────────────────────────────┘
//!      └────► image ──► reconcile (the broker's partitions)
//! ```
//! Owns the interface behind which the membership lies. The rest of the broker sees metadata, its own registration and
//! the controller only through it. Pure: `metadata_log`, `codec`.

pub mod codec;
mod compare;
pub mod credentials;
mod dial;
mod election;
mod error;
mod follower;
mod link;
mod load;
mod membership;
pub mod metadata_log;
mod office;
mod polls;
mod registration;
pub mod serve;
mod session;
mod shared;
#[cfg(test)]
mod tests;

pub use error::MembershipError;
pub use follower::Reconcile;
pub use membership::Membership;
pub use shared::MembershipSettings;

use crate::{
    controller::{Command, ControllerError, Outcome},
    metadata::{MetadataImage, MetadataPosition},
    types::{BrokerEpoch, BrokerId},
};
use bytes::Bytes;
use sillon_protocol::messages::{
    AlterPartitionRequest, AlterPartitionResponse, FetchMetadataRequest, FetchMetadataResponse,
};
use sillon_runtime::BoxFuture;
use std::{sync::Arc, time::Duration};

/// The membership. One per broker.
pub trait Cluster: Send + Sync + 'static {
    /// This broker.
    fn broker_id(&self) -> BrokerId;

    /// The newest metadata. Cheap: called for every request.
    fn image(&self) -> Arc<MetadataImage>;

    /// This broker's registration; [`BrokerEpoch::NONE`] where it has none at present.
    fn broker_epoch(&self) -> BrokerEpoch;

    /// Whether an image knows a registration of this process. Where it does not, what it gives this broker to lead was
    /// meant for a process before, which may have had more records than are left.
    fn is_known_to(&self, image: &MetadataImage) -> bool;

    /// The controller, where it is this broker at present.
    fn controller(&self) -> Option<Arc<dyn ActiveController>>;

    /// Waits until the metadata has come to `position`, or the time is over. Gives whether it has.
    fn wait_for(&self, position: MetadataPosition, timeout: Duration) -> BoxFuture<'_, bool>;

    /// Has the controller, another broker, handle a client's request. `frame` is the request as it came, its header
    /// included and its length not; so is the answer.
    fn forward(&self, frame: Bytes) -> BoxFuture<'_, Result<Bytes, ClusterError>>;

    /// Proposes in-sync replicas to the controller, wherever it is.
    fn alter_partitions(
        &self,
        request: AlterPartitionRequest,
    ) -> BoxFuture<'_, Result<AlterPartitionResponse, ClusterError>>;

    /// Takes `count` producer ids out of circulation and gives the first.
    fn allocate_producer_ids(&self, count: i64) -> BoxFuture<'_, Result<i64, ClusterError>>;
}

/// The controller, on the broker that it is.
pub trait ActiveController: Send + Sync + 'static {
    /// Carries a command out. What it led to is at the coordinator, and is in the metadata from the given position on.
    ///
    /// # Errors
    /// Why it was refused; NOT_CONTROLLER where this broker ceased to be controller before it was certain.
    fn submit(&self, command: Command)
    -> BoxFuture<'_, Result<(Outcome, MetadataPosition), ControllerError>>;

    /// The newest metadata that is certain: ahead of what brokers have heard.
    fn image(&self) -> Arc<MetadataImage>;

    /// Answers a broker that follows the metadata: at once, or when there is something new.
    fn follow(&self, request: FetchMetadataRequest) -> BoxFuture<'_, FetchMetadataResponse> {
        let _ = request;
        Box::pin(async { serve::metadata_error(sillon_protocol::ErrorCode::NOT_CONTROLLER) })
    }
}

/// Why something that needs others did not work. All of these may be tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// Nobody is controller at present, or it is not known who.
    #[error("there is no controller at present")]
    NoController,
    /// The controller cannot be reached, or the connection to it was lost: nobody knows whether it did what was asked.
    #[error("the controller, broker {broker}, cannot be reached: {reason}")]
    Unreachable {
        /// Which broker.
        broker: BrokerId,
        /// What the connection said.
        reason: String,
    },
    /// The coordinator cannot be reached, or refused.
    #[error("the coordinator: {0}")]
    Coordinator(String),
}
