//! The coordinator: an ensemble of members that together keep one tree of nodes, and that a ZooKeeper client cannot
//! tell from ZooKeeper 3.8.

pub mod client;
pub mod command;
pub mod config;
pub mod observe;
pub mod types;
pub mod watches;
