//! What the cluster consists of: topics, their ids, partitions, leaders and configuration.
//!
//! ```text
//!   Change ──► image::apply (pure: old image + change = new image, or an error) ──► MetadataStore ──► everybody reads the image
//! ```
//! Owns the image and the rules of its changes, and the interface behind which a store keeps it. A single broker
//! keeps it in a file (`file_store`). Never touches a log.

pub mod change;
pub mod delta;
pub mod file_store;
pub mod image;
pub mod names;

pub use change::{Change, MetadataError};
pub use delta::{DeltaError, MetadataDelta};
pub use image::{BrokerImage, Endpoint, MetadataImage, MetadataPosition, PartitionImage, TopicImage};

use sillon_runtime::BoxFuture;
use std::sync::Arc;

/// Keeps the metadata. Changes are durable before they are seen, and are seen in one order by everybody.
pub trait MetadataStore: Send + Sync + 'static {
    /// The newest image. Cheap: called for every request.
    fn image(&self) -> Arc<MetadataImage>;

    /// Takes `count` producer ids out of circulation and gives the first.
    fn allocate_producer_ids(&self, count: i64) -> BoxFuture<'_, Result<i64, MetadataError>>;

    /// Makes a change and gives the image that holds it.
    fn submit(&self, change: Change) -> BoxFuture<'_, Result<Arc<MetadataImage>, MetadataError>>;
}
