//! A cleaned segment takes the place of those it was made from. Owns the names of the files, and what is made of them
//! when a log is opened after a crash.
//!
//! ```text
//!   0  .cleaned files, durable          a crash: they are removed, the log is the old one
//!   1  .log.cleaned → .log.swap, synced ── from here on the log is the new one; a crash: the rest is done when it opens
//!   2  the segments behind the first one go, the last one first; the first one's indexes go; synced
//!   3  .log.swap → .log, the cleaned indexes get their names, synced
//! ```
//! At each sync the names say either the old log or the new one, and an index never lies beside batches that it was not
//! made for: it is missing, and made anew.

use super::CleanError;
use crate::{
    log::{
        Log, LogError,
        inventory::Inventory,
        names,
        scan::{CHUNK_BYTES, ScanError, Scanner},
        segment::{SEGMENT_SUFFIXES, Segment},
    },
    types::Offset,
};
use sillon_runtime::{FileSystem, OpenOptions};
use std::{io, path::Path, sync::Arc};

impl Log {
    /// Puts `cleaned` in the place of `members`, which are neighbours.
    pub(super) async fn swap(
        &self,
        members: &[Arc<Segment>],
        cleaned: Arc<Segment>,
    ) -> Result<(), CleanError> {
        for member in members {
            // Who reads them goes on with the files they are now.
            let path = member.path(names::INDEX_SUFFIX);
            member.open_indexes(self.files()).await.map_err(LogError::io(path, "opening"))?;
        }
        let _writer = self.writer.lock().await;
        let _no_sync = self.flushing.lock().await;
        self.check_online()?;
        let (at, recovery_point) = {
            let view = self.view();
            let same = |window: &[Arc<Segment>]| {
                window.iter().zip(members).all(|(one, other)| Arc::ptr_eq(one, other))
            };
            let at = view.segments.windows(members.len()).position(same).ok_or(CleanError::Changed)?;
            (at, view.recovery_point)
        };
        let end = members.last().expect("a group has members").end_offset();
        assert!(end <= recovery_point, "B30: only what is durable takes the place of other records");
        assert_eq!(
            (cleaned.base_offset, cleaned.end_offset()),
            (members[0].base_offset, end),
            "the range stays"
        );
        // Recovery takes a gap between two batches for what compaction leaves below the recovery point only.
        if let Some(durable) = &self.durable {
            durable.raise_recovery_point(&self.partition, recovery_point).await?;
        }
        self.guarded("compacting", self.change_names(members)).await?;
        let mut view = self.view();
        let mut segments = view.segments.to_vec();
        segments.splice(at..at + members.len(), [cleaned]);
        view.segments = Arc::new(segments);
        view.check();
        Ok(())
    }

    async fn change_names(&self, members: &[Arc<Segment>]) -> Result<(), LogError> {
        let (files, first) = (self.files(), &members[0]);
        let rename = async |suffix: &str, from: &str, to: &str| {
            let (from, to) = (first.path_beside(suffix, from), first.path_beside(suffix, to));
            files.rename(&from, &to).await.map_err(LogError::io(from, "renaming"))
        };
        rename(names::LOG_SUFFIX, names::CLEANED_SUFFIX, names::SWAP_SUFFIX).await?;
        sync_names(files, &self.directory).await?;
        let replaced: Vec<Offset> = members.iter().map(|member| member.base_offset).collect();
        remove_replaced(files, &self.directory, &replaced).await?;
        rename(names::LOG_SUFFIX, names::SWAP_SUFFIX, "").await?;
        rename(names::INDEX_SUFFIX, names::CLEANED_SUFFIX, "").await?;
        rename(names::TIME_INDEX_SUFFIX, names::CLEANED_SUFFIX, "").await?;
        sync_names(files, &self.directory).await
    }
}

async fn sync_names(files: &dyn FileSystem, directory: &Path) -> Result<(), LogError> {
    files.sync_dir(directory).await.map_err(LogError::io(directory, "syncing"))
}

/// Removes the segments from the second one on, and the indexes of the first. May be repeated after it was interrupted.
async fn remove_replaced(files: &dyn FileSystem, directory: &Path, bases: &[Offset]) -> Result<(), LogError> {
    let remove = async |base: Offset, suffix: &str| {
        let path = directory.join(names::file_name(base, suffix));
        match files.remove(&path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LogError::io(path, "removing")(error))
            }
            _ => Ok(()),
        }
    };
    let (first, others) = bases.split_first().expect("there is a segment to be replaced");
    for base in others.iter().rev() {
        for suffix in SEGMENT_SUFFIXES {
            remove(*base, suffix).await?;
        }
        remove(*base, names::TRANSACTION_INDEX_SUFFIX).await?;
        remove(*base, names::SNAPSHOT_SUFFIX).await?;
    }
    remove(*first, names::INDEX_SUFFIX).await?;
    remove(*first, names::TIME_INDEX_SUFFIX).await?;
    sync_names(files, directory).await
}

/// Completes the swaps that a crash interrupted, ours or Kafka's. Gives whether there were any: the log's names have
/// changed then, and indexes are missing.
pub(in crate::log) async fn complete_swaps(
    files: &dyn FileSystem,
    directory: &Path,
    inventory: &Inventory,
) -> Result<bool, LogError> {
    for base in &inventory.swaps {
        let path = directory.join(names::file_name(*base, names::LOG_SUFFIX) + names::SWAP_SUFFIX);
        let end = end_of_swap(files, &path, *base).await?;
        if end == *base && inventory.segments.contains_key(base) {
            // Kafka may leave nothing of a segment. What it was made from says as much.
            files.remove(&path).await.map_err(LogError::io(&path, "removing"))?;
            continue;
        }
        tracing::info!(segment = %path.display(), %end, "completing an interrupted compaction");
        let behind = inventory.segments.keys().filter(|other| **other > *base && **other < end);
        let replaced: Vec<Offset> = [*base].into_iter().chain(behind.copied()).collect();
        remove_replaced(files, directory, &replaced).await?;
        let to = directory.join(names::file_name(*base, names::LOG_SUFFIX));
        files.rename(&path, &to).await.map_err(LogError::io(&path, "renaming"))?;
        sync_names(files, directory).await?;
    }
    Ok(!inventory.swaps.is_empty())
}

/// Where a swapped segment ends. It was synced before it got that name: what is damaged now was damaged since.
async fn end_of_swap(files: &dyn FileSystem, path: &Path, base: Offset) -> Result<Offset, LogError> {
    let file = files.open(path, OpenOptions::READ).await.map_err(LogError::io(path, "opening"))?;
    let length = file.len().map_err(LogError::io(path, "reading"))?;
    let mut scanner = Scanner::new(file, 0, length, CHUNK_BYTES);
    let mut end = base;
    loop {
        let sound = match scanner.next_batch().await {
            Ok(None) => return Ok(end),
            Ok(Some((_, batch))) if batch.base_offset() < end.0 => {
                Err(format!("a batch with offset {} is out of order", batch.base_offset()))
            }
            Ok(Some((_, batch))) => batch
                .validate_header()
                .map(|()| Offset(batch.next_offset()))
                .map_err(|error| error.to_string()),
            Err(ScanError::Io(source)) => return Err(LogError::io(path, "reading")(source)),
            Err(ScanError::Bad { source, .. }) => Err(source.to_string()),
        };
        end = sound.map_err(|problem| LogError::Corrupt { path: path.into(), problem })?;
    }
}
