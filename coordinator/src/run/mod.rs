//! A member's life from its first look at the disk to its last answer. Owns the order of the steps, and the loop that
//! turns what happens into events and the member's decisions into deeds.
//!
//! ```text
//!   clients ─┐                                        ┌─► clients
//!   peers  ──┼─► events ─► Member::on ─► Effects ─────┼─► peers
//!   clock  ──┘               ▲                        └─► disk task ──┐
//!                            └────────── "durable up to here" ◄───────┘
//! ```
//! Never decides anything about the tree or the consensus.

mod disk;
mod looping;
mod snapshot;
mod start;

pub use start::Running;

use crate::{config::CoordinatorConfig, observe::Observers, state::StateError, storage::StorageError};
use sillon_runtime::Runtime;
use std::{future::Future, io, net::SocketAddr};

/// Why a member could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// A listening socket cannot be opened.
    #[error("cannot listen on {address} for {purpose}: {error}")]
    Listen {
        /// Where.
        address: String,
        /// For whom.
        purpose: &'static str,
        /// What the operating system said.
        error: io::Error,
    },
    /// The data cannot be read or written. After a failed write nothing is known about what is durable, so the member
    /// stops; what it had acknowledged before is safe.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What lies on the disk does not fit together.
    #[error("the data does not fit together: {0}; restore the directory from a copy, or replace this member")]
    Restore(#[from] crate::consensus::RestoreError),
    /// A snapshot that is whole cannot be understood.
    #[error("snapshot of {zxid}: {error}")]
    Snapshot {
        /// Which.
        zxid: crate::types::Zxid,
        /// What is wrong with it.
        error: StateError,
    },
}

/// Runs a member until `stop` completes, then stops it cleanly.
///
/// # Errors
/// Why it could not start, or could not go on.
pub async fn run(
    runtime: Runtime,
    config: CoordinatorConfig,
    observers: Observers,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), CoordinatorError> {
    let running = Running::start(runtime, config, observers).await?;
    running.until(stop).await
}

/// Opens a listening socket.
async fn listen(
    runtime: &Runtime,
    address: SocketAddr,
    purpose: &'static str,
) -> Result<Box<dyn sillon_runtime::Listener>, CoordinatorError> {
    let listening = runtime.listen(address).await;
    listening.map_err(|error| CoordinatorError::Listen { address: address.to_string(), purpose, error })
}
