//! The two directories of a member: locked, and known to be its own. Owns the `lock` and `meta` files in both; never
//! looks into the log or a snapshot.
//!
//! A directory is marked as having a log only after the first segment is durable. So a start can tell a directory that
//! was never finished, which is made anew, from one whose log is gone, which is refused.

use super::{StorageError, names};
use crate::{
    frame,
    types::{EnsembleId, MemberId},
};
use serde::{Deserialize, Serialize};
use sillon_runtime::{FileLock, Runtime};
use std::{
    io,
    path::{Path, PathBuf},
};

const VERSION: u32 = 1;
const MAX_META_BYTES: usize = 1024;

/// Who a directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    version: u32,
    pub(super) member: MemberId,
    pub(super) ensemble: Option<EnsembleId>,
    /// In every record of the log: tells a record from bytes that a client made look like one.
    pub(super) salt: u64,
    /// Whether the first segment of the log was ever durable.
    pub(super) has_log: bool,
}

/// The directories, locked while this lives.
pub(super) struct Directories {
    runtime: Runtime,
    pub(super) log: PathBuf,
    pub(super) snapshots: PathBuf,
    pub(super) meta: Meta,
    _locks: Vec<Box<dyn FileLock>>,
}

impl Directories {
    /// Creates what is missing, takes the locks, and checks whose the directories are.
    pub(super) async fn open(
        runtime: &Runtime,
        data_dir: &Path,
        data_log_dir: &Path,
        member: MemberId,
        ensemble: Option<EnsembleId>,
    ) -> Result<Directories, StorageError> {
        let (snapshots, log) = (data_dir.join(names::DIRECTORY), data_log_dir.join(names::DIRECTORY));
        let mut paths = vec![snapshots.clone(), log.clone()];
        paths.dedup();
        let (mut locks, mut metas, mut holds_data) = (Vec::new(), Vec::new(), None);
        for path in &paths {
            create(runtime, path).await?;
            locks.push(lock(runtime, path).await?);
            // A process that was killed may have left names that are not durable; what is seen must stay.
            runtime.fs().sync_dir(path).await.map_err(StorageError::io(path, "cannot be synced"))?;
            metas.push(read_meta(runtime, path, member, ensemble).await?);
            let found = find_data(runtime, path).await?;
            holds_data = holds_data.or(found);
        }
        let known: Vec<Meta> = metas.iter().flatten().copied().collect();
        if let (true, Some(file)) = (known.len() < paths.len(), &holds_data) {
            return Err(StorageError::corrupt(
                file,
                0,
                "there is data, and a directory's meta file is missing",
            ));
        }
        if let [one, other] = known[..]
            && one.salt != other.salt
        {
            let problem = format!("{} and {} do not belong together", snapshots.display(), log.display());
            return Err(StorageError::corrupt(&log, 0, problem));
        }
        let found = known.iter().find_map(|meta| meta.ensemble);
        if let Some((found, expected)) = found.zip(ensemble).filter(|(found, expected)| found != expected) {
            return Err(StorageError::OtherEnsemble { path: paths[0].join(names::META), found, expected });
        }
        let meta = Meta {
            version: VERSION,
            member,
            ensemble: found.or(ensemble),
            salt: known.first().map_or_else(|| runtime.random_u64(), |meta| meta.salt),
            has_log: known.len() == paths.len() && known.iter().all(|meta| meta.has_log),
        };
        let directories = Directories { runtime: runtime.clone(), log, snapshots, meta, _locks: locks };
        if metas.iter().any(|on_disk| *on_disk != Some(meta)) {
            directories.write_meta().await?;
        }
        Ok(directories)
    }

    /// The log is durable from now on.
    pub(super) async fn set_has_log(&mut self) -> Result<(), StorageError> {
        self.meta.has_log = true;
        self.write_meta().await
    }

    /// The directories belong to this ensemble from now on.
    pub(super) async fn set_ensemble(&mut self, ensemble: EnsembleId) -> Result<(), StorageError> {
        match self.meta.ensemble {
            Some(found) if found == ensemble => Ok(()),
            Some(found) => {
                let path = self.snapshots.join(names::META);
                Err(StorageError::OtherEnsemble { path, found, expected: ensemble })
            }
            None => {
                self.meta.ensemble = Some(ensemble);
                self.write_meta().await
            }
        }
    }

    async fn write_meta(&self) -> Result<(), StorageError> {
        let mut bytes = Vec::new();
        frame::encode(&self.meta, &mut bytes).expect("a few numbers fit into a frame");
        let mut directories = vec![&self.log, &self.snapshots];
        directories.dedup();
        for directory in directories {
            let path = directory.join(names::META);
            let written = self.runtime.fs().replace(&path, &bytes).await;
            written.map_err(StorageError::io(path, "cannot be written"))?;
        }
        Ok(())
    }
}

/// Creates a directory, durably with those above it that are ours.
async fn create(runtime: &Runtime, path: &Path) -> Result<(), StorageError> {
    let fs = runtime.fs();
    fs.create_dir_all(path).await.map_err(StorageError::io(path, "cannot be created"))?;
    for above in path.ancestors().skip(1).take(2).filter(|above| !above.as_os_str().is_empty()) {
        fs.sync_dir(above).await.map_err(StorageError::io(above, "cannot be synced"))?;
    }
    Ok(())
}

async fn lock(runtime: &Runtime, directory: &Path) -> Result<Box<dyn FileLock>, StorageError> {
    let path = directory.join(names::LOCK);
    match runtime.lock(&path).await {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(StorageError::Locked { path }),
        Err(error) => Err(StorageError::io(path, "cannot be locked")(error)),
    }
}

/// A file of the log or a snapshot, if there is any.
async fn find_data(runtime: &Runtime, directory: &Path) -> Result<Option<PathBuf>, StorageError> {
    let entries =
        runtime.fs().list(directory).await.map_err(StorageError::io(directory, "cannot be listed"))?;
    let is_data = |name: &str| names::parse_log(name).or(names::parse_snapshot(name)).is_some();
    Ok(entries.iter().find(|entry| is_data(&entry.name)).map(|entry| directory.join(&entry.name)))
}

async fn read_meta(
    runtime: &Runtime,
    directory: &Path,
    expected: MemberId,
    ensemble: Option<EnsembleId>,
) -> Result<Option<Meta>, StorageError> {
    let path = directory.join(names::META);
    let bytes = match runtime.fs().read_small(&path, MAX_META_BYTES).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io(path, "cannot be read")(error)),
    };
    let payload = frame::checked_payload(&bytes, MAX_META_BYTES)
        .map_err(|error| StorageError::corrupt(&path, 0, error.to_string()))?;
    // The version comes first in every version.
    let found = payload.first_chunk().map_or(0, |version| u32::from_le_bytes(*version));
    if found != VERSION {
        return Err(StorageError::Version { path, found, known: VERSION });
    }
    let (meta, _) = frame::decode::<Meta>(&bytes, MAX_META_BYTES)
        .map_err(|error| StorageError::corrupt(&path, 0, error.to_string()))?;
    if meta.member != expected {
        return Err(StorageError::OtherMember { path, found: meta.member, expected });
    }
    match meta.ensemble.zip(ensemble) {
        Some((found, expected)) if found != expected => {
            Err(StorageError::OtherEnsemble { path, found, expected })
        }
        _ => Ok(Some(meta)),
    }
}
