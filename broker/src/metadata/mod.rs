//! What the cluster consists of: brokers, topics, their ids, partitions, leaders and configuration.
//!
//! ```text
//!   coordinator ──► controller ──► deltas (`delta`) ──► image (`image`), immutable and shared, on every broker
//! ```
//! Owns the image, the deltas that change it, and what names topics may have. Never touches a log, and never decides
//! anything (`controller`).

pub mod delta;
pub mod departed;
pub mod image;
pub mod names;

pub use delta::{DeltaError, MetadataDelta};
pub use image::{BrokerImage, Endpoint, MetadataImage, MetadataPosition, PartitionImage, TopicImage};
