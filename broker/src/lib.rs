//! Sillon's broker: a commit log that speaks Apache Kafka's wire protocol, on the abstract runtime.
//!
//! ```text
//!   server (frames in, frames out)
//!     └─ api/* (one file per request kind)
//!          ├─ partition  (leader or follower, high watermark, those who wait)  ──  log/* (segments, indexes, recovery)
//!          ├─ replication (fetches from leaders, proposes in-sync replicas)
//!          ├─ metadata   (topics, their ids and configuration)
//!          ├─ cluster    (sessions, elections, following the metadata)  ──  controller (who leads what)
//!          └─ config     (server.properties, topic configuration)
//! ```
//! Owns everything between a client's socket and the log directory. Never touches a clock, a socket, a file or
//! a task but through [`sillon_runtime::Runtime`].

mod api;
pub mod broker;
pub mod cluster;
pub mod config;
pub mod controller;
mod embedded;
#[doc(hidden)]
pub mod fuzzing;
mod jobs;
mod join;
pub mod log;
pub mod metadata;
pub mod observe;
pub mod partition;
mod producer_ids;
pub mod replication;
mod run;
mod server;
pub mod types;

pub use run::{BrokerError, Running, run};
