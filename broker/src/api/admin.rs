//! What the handlers of changes to the cluster share: how they reach the controller, and how refusals are told.
//!
//! A change is decided on the controller alone (`controller`). Here a request becomes commands, and their outcomes an
//! answer. Owns no rule of the cluster.

use crate::{
    broker::Broker,
    cluster::{Cluster, ClusterError},
    config::{BrokerConfig, topic::Layers},
    controller::{Command, Outcome},
    metadata::{MetadataImage, MetadataPosition, image::ALL_BROKERS},
    types::{BrokerId, TopicId, Uuid},
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Runtime;
use std::{sync::Arc, time::Duration};

/// How long an answer is held back until this broker's own metadata shows the change. The change is certain before
/// that: a client that asks another broker next may have to wait for it in any case.
const SETTLE: Duration = Duration::from_secs(5);

/// Why something was refused: the code, and a text for people.
pub(super) type Refusal = (ErrorCode, String);

/// The surroundings of a request that changes the cluster.
pub(super) struct Admin<'a> {
    pub(super) cluster: &'a dyn Cluster,
    pub(super) config: &'a BrokerConfig,
    pub(super) runtime: &'a Runtime,
    /// Where the metadata has all that this request led to.
    reached: Option<MetadataPosition>,
}

impl<'a> Admin<'a> {
    pub(super) fn new(cluster: &'a dyn Cluster, config: &'a BrokerConfig, runtime: &'a Runtime) -> Admin<'a> {
        Admin { cluster, config, runtime, reached: None }
    }

    pub(super) fn of(broker: &'a Broker) -> Admin<'a> {
        Admin::new(&**broker.cluster(), broker.config(), broker.runtime())
    }

    /// The newest metadata that is certain: the controller's own where it is this broker.
    pub(super) fn image(&self) -> Arc<MetadataImage> {
        self.cluster.controller().map_or_else(|| self.cluster.image(), |controller| controller.image())
    }

    /// The layers of configuration under an image, as this broker's topics have them.
    pub(super) fn layers<'b>(&'b self, image: &'b MetadataImage) -> Layers<'b> {
        Layers {
            file: self.config,
            dynamic_broker: image.broker_config(self.config.broker_id),
            dynamic_default: image.broker_config(ALL_BROKERS),
        }
    }

    /// Has the controller, on this broker, carry a command out.
    ///
    /// # Errors
    /// The controller's refusal; NOT_CONTROLLER where it is not here.
    pub(super) async fn submit(&mut self, command: Command) -> Result<Outcome, Refusal> {
        let Some(controller) = self.cluster.controller() else {
            return Err(of_code(ErrorCode::NOT_CONTROLLER));
        };
        match controller.submit(command).await {
            Ok((outcome, position)) => {
                self.reached = self.reached.max(Some(position));
                Ok(outcome)
            }
            Err(error) => Err((error.code, error.message)),
        }
    }

    /// Waits until this broker's own metadata shows what the commands led to, though not for ever.
    pub(super) async fn settle(&mut self) {
        let Some(position) = self.reached.take() else { return };
        if !self.cluster.wait_for(position, SETTLE).await {
            tracing::warn!(%position, "a change is certain, but does not show in this broker's metadata yet");
        }
    }

    /// Decides where the placement of a topic's replicas starts.
    pub(super) fn placement_seed(&self) -> u64 {
        self.runtime.random_u64()
    }

    /// An id for a new topic.
    pub(super) fn new_topic_id(&self) -> TopicId {
        let mut bytes = [0; 16];
        self.runtime.fill_random(&mut bytes);
        // A version-4 UUID, as Kafka's; its ids must not begin with a dash, which command lines would take for an option.
        bytes[0] &= 0x7f;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        TopicId(Uuid::from_bytes(bytes))
    }
}

/// A refusal with the protocol's own text.
pub(super) fn of_code(code: ErrorCode) -> Refusal {
    (code, code.message().to_owned())
}

/// What a client is told where its request could not be handed to the controller. Both codes may be tried again.
pub(crate) fn unreachable(error: &ClusterError) -> (ErrorCode, String) {
    let code = match error {
        // Nothing was done. Clients look for the controller again and repeat the request.
        ClusterError::NoController | ClusterError::Coordinator(_) => ErrorCode::NOT_CONTROLLER,
        // Nobody knows whether it was done.
        ClusterError::Unreachable { .. } => ErrorCode::REQUEST_TIMED_OUT,
    };
    (code, error.to_string())
}

/// The code and text of a result on the wire.
pub(super) fn on_the_wire(result: Result<(), Refusal>) -> (i16, Option<String>) {
    match result {
        Ok(()) => (ErrorCode::NONE.code(), None),
        Err((code, text)) => (code.code(), Some(text)),
    }
}

/// Broker ids off the wire.
pub(super) fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

/// Broker ids for the wire.
pub(super) fn numbers(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}
