//! A client of Kafka's wire protocol, on the abstract runtime: the same code runs against a real broker and
//! inside the simulator.
//!
//! [`producer`] and [`consumer`] are what a Kafka user looks for; [`cluster`] is what both stand on.
//!
//! ```no_run
//! use sillon_client::{
//!     ClientError,
//!     cluster::NetworkConfig,
//!     consumer::{Consumer, ConsumerConfig},
//!     producer::{Producer, ProducerConfig, ProducerRecord},
//! };
//! use std::time::Duration;
//!
//! # async fn example(runtime: sillon_runtime::Runtime) -> Result<(), ClientError> {
//! let network = NetworkConfig::new(vec!["127.0.0.1:9092".parse().expect("HOST:PORT")]);
//! let producer = Producer::new(&runtime, ProducerConfig::new(network.clone()))?;
//! let written = producer.send_and_wait(&ProducerRecord::new("orders", "a book").key("customer 7")).await?;
//! println!("{}-{} at {:?}", written.topic, written.partition, written.offset);
//!
//! let mut consumer = Consumer::new(&runtime, ConsumerConfig::in_group(network, "readers"))?;
//! consumer.subscribe(["orders"])?;
//! for record in consumer.poll(Duration::from_secs(1)).await? {
//!     println!("{:?}", record.value);
//! }
//! consumer.close(Duration::from_secs(10)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!   Connection  ── versions (what both sides speak)
//!       │
//!       ├─ sender task    frames out, in the order they were asked for
//!       └─ receiver task  frames in, each to the request that waits for it
//! ```
//! [`Connection`] owns one connection's requests and responses. It never retries, never looks for leaders, never decides
//! what an error code means: that belongs to whoever holds it. [`admin`] is one such holder: topics, groups, configuration, the cluster.

pub mod admin;
mod backoff;
mod client_error;
pub mod cluster;
mod connection;
pub mod consumer;
mod error;
mod flights;
pub mod producer;
mod versions;

pub use client_error::{ClientError, Remedy};
pub use connection::{Connection, ConnectionOptions};
pub use error::ConnectionError;
pub use versions::Versions;
