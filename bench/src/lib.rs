//! Measurements of the broker and the coordinator as ratios: against floors that do only what cannot be left out, and
//! against Apache Kafka and ZooKeeper, in interleaved runs on the same machine. Wall times of a shared machine mean little; CPU
//! seconds per unit of work, and ratios of runs that alternate, mean more.
//!
//! ```text
//!   suites/*  what is measured and which bound it has to keep
//!     ├─ load     produces and fetches pre-built batches over raw sockets, with little CPU of its own
//!     ├─ process  starts servers, reads their CPU time and memory, pins them
//!     ├─ client   one blocking connection that speaks Kafka
//!     └─ report   medians, ratios, tables, JSON
//!   coordinator/*  the same for the coordinator against ZooKeeper
//!     └─ zookeeper  one blocking connection that speaks ZooKeeper's protocol, and its load
//!   cluster/*      the same for three brokers against three of Apache Kafka's, all started by scripts
//!   floor      the servers to compare with: one only appends, one only sends a file
//! ```
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It measures the real clock and real sockets.

pub mod client;
pub mod cluster;
pub mod coordinator;
pub mod floor;
pub mod load;
pub mod process;
pub mod report;
pub mod suites;
pub mod zookeeper;

/// What went wrong, in words: a measurement that fails is told and ends the program.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of everything that talks to a server.
pub type Result<T> = std::result::Result<T, Error>;
