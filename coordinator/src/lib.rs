//! The coordinator: an ensemble that keeps ZooKeeper's tree and speaks its client protocol. Owns the list of its parts.
//!
//! ```text
//!   consensus  which entries are committed, in which order (pure)      storage  log and snapshots on disk (shell)
//!   frame      checked frames for log, snapshots and peers             types    ids and zxids
//! ```

pub mod consensus;
pub mod frame;
pub mod storage;
pub mod types;
