//! The consumer.

pub mod assignor;
mod config;
mod fetched;
mod positions;
mod record;
mod requests;

pub use config::{ConsumerConfig, IsolationLevel, OffsetReset};
pub use positions::SeekTarget;
pub use record::{ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, RecordHeader, TopicPartition};
