//! The coordinator: an ensemble of members that together keep one tree of nodes, and that a ZooKeeper client cannot
//! tell from ZooKeeper 3.8.

pub mod client;
pub mod command;
pub mod config;
pub mod consensus;
pub mod four_letter_word;
pub mod frame;
pub mod member;
pub mod metrics;
pub mod observe;
mod peer;
pub mod run;
mod server;
pub mod state;
pub mod storage;
pub mod types;
pub mod watches;

pub use run::{CoordinatorError, Running, run};
