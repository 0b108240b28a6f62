//! The coordinator: an ensemble of members that together keep one tree of nodes, and that a ZooKeeper client cannot
//! tell from ZooKeeper 3.8.

pub mod command;
pub mod consensus;
pub mod four_letter_word;
pub mod frame;
pub mod observe;
pub mod types;
pub mod watches;
