//! Sillon's broker: a commit log that speaks Apache Kafka's wire protocol, on the abstract runtime.
//!
//! ```text
//!   server (frames in, frames out)
//!     └─ api/* (one file per request kind)
//!          ├─ group        (consumer groups and their offsets)
//!          ├─ partition    (a replica: leader or follower)  ──  log/* (segments, indexes, recovery)
//!          ├─ replication  (fetching from leaders)
//!          ├─ cluster      (session, registration, metadata)  ──  controller (who leads, where replicas lie)
//!          └─ config       (server.properties, topic configuration)
//! ```
//! Owns everything between a client's socket and the log directory. Never touches a clock, a socket, a file or
//! a task but through [`sillon_runtime::Runtime`].

mod api;
pub mod broker;
mod cleaner;
pub mod cluster;
pub mod config;
pub mod controller;
mod embedded;
#[doc(hidden)]
pub mod fuzzing;
pub mod group;
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
