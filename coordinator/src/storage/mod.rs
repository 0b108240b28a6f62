//! What a member has on its disks: the log and the snapshots. Owns durability: what was acknowledged is there at the next
//! start or the start is refused; never what entries and snapshots mean.
//!
//! ```text
//!   dataLogDir/sillon-1/  lock  meta  log.<first index> …      dataDir/sillon-1/  lock  meta  snapshot.<index> …
//!
//!   append   ──► one write, one sync for all that is to be persisted
//!   install  ──► (snapshot durable before) ──► one record: the log begins after the mark
//!   open     ──► newest readable snapshot ──► the entries after it, torn tail cut, damage refused
//! ```
//! A snapshot from another member is installed in an order that is safe at every moment: its file is finished (synced,
//! renamed, directory synced), then one record resets the log. A start in between finds a snapshot that the log does
//! not contain, and resets the log itself. A snapshot holds only what was committed, so to start from it is always right.
//!
//! An error is final: nothing is retried, nothing written afterwards; the member stops and opens again.

mod directories;
mod error;
mod log;
mod names;
mod record;
mod recovery;
mod replay;
mod snapshot;

#[cfg(test)]
mod tests;

pub use error::StorageError;
pub use snapshot::{CHUNK_BYTES, SnapshotReader, SnapshotWriter, Snapshots};

use crate::{
    consensus::{HardState, LogEntry, Persist, SnapshotMark},
    types::{EnsembleId, MemberId},
};
use directories::Directories;
use log::Log;
use recovery::LogOptions;
use sillon_runtime::Runtime;
use std::path::PathBuf;

/// The fewest snapshots that are kept, whatever is configured (ZooKeeper's own minimum of autopurge.snapRetainCount).
pub const MIN_KEPT_SNAPSHOTS: usize = 3;

/// Where a member keeps its data, and whose it is.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// For snapshots.
    pub data_dir: PathBuf,
    /// For the log; may be the same.
    pub data_log_dir: PathBuf,
    /// Whose they are.
    pub member: MemberId,
    /// Which ensemble's, where it is known.
    pub ensemble: Option<EnsembleId>,
    /// A segment of the log that has reached this size is followed by another, in bytes.
    pub segment_bytes: u64,
    /// How many zeros are written ahead of small batches, in bytes.
    pub room_bytes: u64,
}

impl StorageOptions {
    /// Segments of 64 MiB with a room of 256 KiB, of whatever ensemble.
    pub fn new(data_dir: PathBuf, data_log_dir: PathBuf, member: MemberId) -> StorageOptions {
        StorageOptions {
            data_dir,
            data_log_dir,
            member,
            ensemble: None,
            segment_bytes: 64 * 1024 * 1024,
            room_bytes: 256 * 1024,
        }
    }
}

/// What a start finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// As it was last durable, or a little later.
    pub hard_state: HardState,
    /// The entries after the snapshot.
    pub entries: Vec<LogEntry>,
    /// The newest snapshot that can be read, to be opened with [`Snapshots::read`].
    pub snapshot: Option<SnapshotMark>,
    /// The ensemble that the directories belong to.
    pub ensemble: Option<EnsembleId>,
}

/// The log and the snapshots of a member, in use by nobody else while this lives.
pub struct Storage {
    directories: Directories,
    snapshots: Snapshots,
    log: Log,
    failed: Option<String>,
}

impl Storage {
    /// Opens the directories of a member, or makes them.
    ///
    /// # Errors
    /// [`StorageError`]: in use, another member's or ensemble's, damaged, or not to be read or written.
    pub async fn open(
        runtime: &Runtime,
        options: &StorageOptions,
    ) -> Result<(Storage, Recovered), StorageError> {
        let StorageOptions { data_dir, data_log_dir, member, ensemble, .. } = options;
        let mut directories = Directories::open(runtime, data_dir, data_log_dir, *member, *ensemble).await?;
        let snapshots = Snapshots::open(runtime, directories.snapshots.clone()).await?;
        let (snapshot, damaged) = snapshots.newest_readable().await?;
        let log_directory = directories.log.clone();
        let log_options = LogOptions {
            runtime,
            directory: &log_directory,
            salt: directories.meta.salt,
            segment_bytes: options.segment_bytes,
            room_bytes: options.room_bytes,
        };
        let opened = if directories.meta.has_log {
            log_options.open(snapshot).await
        } else {
            log_options.create().await.map(|log| (log, Vec::new()))
        };
        let (log, entries) = match (opened, damaged.first()) {
            (Ok(opened), _) => opened,
            // The log does not reach back to an older snapshot: it is the newer one's damage that is in the way.
            (Err(error @ StorageError::Corrupt { .. }), Some((_, damage))) => {
                tracing::error!("{damage}; and without that snapshot: {error}");
                return Err(damaged.into_iter().next().map_or(error, |(_, damage)| damage));
            }
            (Err(error), _) => return Err(error),
        };
        for (index, error) in damaged {
            tracing::warn!("{error}. It is set aside: an older snapshot and the log have all that it had");
            snapshots.set_aside(index).await?;
        }
        if !directories.meta.has_log {
            directories.set_has_log().await?;
        }
        let (hard_state, ensemble) = (log.hard_state, directories.meta.ensemble);
        let storage = Storage { directories, snapshots, log, failed: None };
        Ok((storage, Recovered { hard_state, entries, snapshot, ensemble }))
    }

    /// A random number that no other member's directories have.
    pub fn directory(&self) -> u64 {
        self.directories.meta.salt
    }

    /// The snapshots; usable while the log is written.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }

    /// The last entry in the log, or that of the snapshot that it begins after.
    pub fn last(&self) -> SnapshotMark {
        self.log.terms.last()
    }

    /// The hard state that was last given to be persisted.
    pub fn hard_state(&self) -> HardState {
        self.log.hard_state
    }

    /// Makes all of it durable with one write and one sync. What need not be synced by itself goes with what must.
    ///
    /// # Errors
    /// [`StorageError::Io`]: final; none of it counts, and nothing more is taken.
    pub async fn append(&mut self, persists: Vec<Persist>) -> Result<(), StorageError> {
        self.check()?;
        let result = self.log.append(persists).await;
        self.remember(result)
    }

    /// Makes the hard state durable as it was last given, for a stop.
    ///
    /// # Errors
    /// [`StorageError::Io`]: final.
    pub async fn flush(&mut self) -> Result<(), StorageError> {
        self.check()?;
        let result = self.log.flush().await;
        self.remember(result)
    }

    /// The log is empty and goes on after the snapshot of `mark`, which is finished. What was to be persisted before
    /// is appended before or not at all; what comes with the same output, or later, is appended afterwards.
    ///
    /// # Errors
    /// [`StorageError::Io`] and [`StorageError::Corrupt`], also where there is no such snapshot: final.
    pub async fn install(&mut self, mark: SnapshotMark) -> Result<(), StorageError> {
        self.check()?;
        let result = match self.snapshots.read(mark.index).await {
            Ok(reader) if reader.mark() != mark => {
                let path = self.directories.snapshots.join(names::snapshot(mark.index));
                Err(StorageError::corrupt(path, 0, format!("it is of {}, not of {mark}", reader.mark())))
            }
            Ok(_) => self.log.reset(mark).await,
            Err(error) => Err(error),
        };
        self.remember(result)
    }

    /// Removes all snapshots but the newest `keep` ([`MIN_KEPT_SNAPSHOTS`] at least), and the part of the log that the
    /// oldest of these contains.
    ///
    /// # Errors
    /// [`StorageError::Io`]: final.
    pub async fn purge(&mut self, keep: usize) -> Result<(), StorageError> {
        self.check()?;
        let result = match self.snapshots.purge(keep.max(MIN_KEPT_SNAPSHOTS)).await {
            Ok(Some(oldest)) => self.log.purge(oldest).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        self.remember(result)
    }

    /// The directories belong to this ensemble from now on.
    ///
    /// # Errors
    /// [`StorageError::OtherEnsemble`] where they belong to another, and [`StorageError::Io`]: final.
    pub async fn set_ensemble(&mut self, ensemble: EnsembleId) -> Result<(), StorageError> {
        self.check()?;
        let result = self.directories.set_ensemble(ensemble).await;
        self.remember(result)
    }

    fn check(&self) -> Result<(), StorageError> {
        self.failed.clone().map_or(Ok(()), |reason| Err(StorageError::Offline { reason }))
    }

    fn remember(&mut self, result: Result<(), StorageError>) -> Result<(), StorageError> {
        if let Err(error) = &result {
            self.failed = Some(error.to_string());
        }
        result
    }
}
