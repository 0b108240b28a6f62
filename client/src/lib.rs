//! A client of Kafka's wire protocol, on the abstract runtime: the same code runs against a real broker and
//! inside the simulator.
//!
//! [`producer`] and [`consumer`] are what a Kafka user looks for; [`cluster`] is what both stand on.
//!
//! ```text
//!   Connection  ── versions (what both sides speak)
//!       │
//!       ├─ sender task    frames out, in the order they were asked for
//!       └─ receiver task  frames in, each to the request that waits for it
//! ```
//! [`Connection`] owns one connection's requests and responses. It never retries, never looks for leaders, never decides
//! what an error code means: that belongs to whoever holds it. [`admin`] is one such holder: topics and the cluster.

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
