//! Everything that can go wrong on the disks of a member. Owns the error type; never decides what the member does then
//! (it stops: nothing here is retried).

use crate::types::{EnsembleId, MemberId};
use std::{io, path::PathBuf};

/// The log or the snapshots cannot be opened, written or read.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The operating system refused. After a failed write or sync nothing that was not durable before counts.
    #[error("{path}: {action}: {source}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process uses the directory.
    #[error("{path} is in use by another process: two members cannot share a directory", path = .path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The directory belongs to another member.
    #[error(
        "{path} belongs to member {found}, this is member {expected}: check myid and the data directories",
        path = .path.display()
    )]
    OtherMember {
        /// The file that says so.
        path: PathBuf,
        /// The member in it.
        found: MemberId,
        /// The member that was to be started.
        expected: MemberId,
    },
    /// The directory belongs to another ensemble.
    #[error(
        "{path} belongs to ensemble {found}, not to {expected}: check the data directories and the member list",
        path = .path.display()
    )]
    OtherEnsemble {
        /// The file that says so.
        path: PathBuf,
        /// The ensemble in it.
        found: EnsembleId,
        /// The ensemble expected.
        expected: EnsembleId,
    },
    /// The files are of a version that this program does not know.
    #[error("{path} has format version {found}, this program knows {known}", path = .path.display())]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// The version in it.
        found: u32,
        /// The version known.
        known: u32,
    },
    /// Something that was durable is damaged or missing, and nothing else can stand in for it.
    #[error(
        "{path} at offset {offset}: {problem}. The member does not start from it: restore the directory from a backup, \
         or empty both data directories so that the member fetches everything from the others",
        path = .path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// A write or sync failed before; only opening again helps.
    #[error("the storage takes nothing more since this failed: {reason}")]
    Offline {
        /// What failed.
        reason: String,
    },
}

impl StorageError {
    /// Wraps an error of the operating system.
    pub(super) fn io(
        path: impl Into<PathBuf>,
        action: &'static str,
    ) -> impl FnOnce(io::Error) -> StorageError {
        let path = path.into();
        move |source| StorageError::Io { path, action, source }
    }

    /// Reports damage.
    pub(super) fn corrupt(path: impl Into<PathBuf>, offset: u64, problem: impl Into<String>) -> StorageError {
        StorageError::Corrupt { path: path.into(), offset, problem: problem.into() }
    }
}
