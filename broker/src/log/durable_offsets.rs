//! The checkpoint files of a log directory: offsets by partition, kept whole in memory and on disk. Owns that the disk says
//! it before memory does; never what an offset means for a log.

use super::{
    checkpoint::{self, Offsets},
    error::LogError,
};
use crate::types::{Offset, TopicPartition};
use sillon_runtime::Runtime;
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

/// A checkpoint file, kept whole in memory: what it says of logs that are not open is never lost (B29).
pub(super) struct Checkpoint {
    runtime: Runtime,
    path: PathBuf,
    offsets: Mutex<Offsets>,
    writing: tokio::sync::Mutex<()>,
}

impl Checkpoint {
    /// Reads the file. One that is damaged counts as missing: every use of these offsets is safe without them.
    pub(super) async fn read(
        runtime: &Runtime,
        directory: &Path,
        name: &str,
    ) -> Result<Checkpoint, LogError> {
        let path = directory.join(name);
        let offsets = match checkpoint::read(runtime.fs(), &path).await? {
            None => Offsets::new(),
            Some(bytes) => checkpoint::decode_offsets(&bytes).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), %error, "damaged; taken as empty");
                Offsets::new()
            }),
        };
        Ok(Checkpoint {
            runtime: runtime.clone(),
            path,
            offsets: Mutex::new(offsets),
            writing: tokio::sync::Mutex::new(()),
        })
    }

    fn offsets(&self) -> MutexGuard<'_, Offsets> {
        self.offsets.lock().expect("nobody panics while holding a checkpoint")
    }

    pub(super) fn get(&self, partition: &TopicPartition) -> Option<Offset> {
        self.offsets().get(partition).copied()
    }

    /// Changes the offsets, on disk before in memory.
    pub(super) async fn change(&self, change: impl FnOnce(&mut Offsets)) -> Result<(), LogError> {
        let _turn = self.writing.lock().await;
        let old = self.offsets().clone();
        let mut new = old.clone();
        change(&mut new);
        if new != old {
            let content = checkpoint::encode_offsets(&new);
            self.runtime
                .fs()
                .replace(&self.path, &content)
                .await
                .map_err(LogError::io(&self.path, "writing"))?;
            *self.offsets() = new;
        }
        Ok(())
    }
}

/// What the disk says of where a directory's logs begin, and up to where they need no check.
pub(super) struct DurableOffsets {
    pub(super) recovery_points: Checkpoint,
    pub(super) log_starts: Checkpoint,
    /// Everything below was compacted.
    pub(super) cleaned: Checkpoint,
}

impl DurableOffsets {
    /// Makes sure that the records before `to` stay removed, whatever happens to their files.
    pub(super) async fn raise_log_start(
        &self,
        partition: &TopicPartition,
        to: Offset,
    ) -> Result<(), LogError> {
        let raise = |offsets: &mut Offsets| {
            let log_start = offsets.entry(partition.clone()).or_insert(to);
            *log_start = to.max(*log_start);
        };
        self.log_starts.change(raise).await
    }

    /// Makes sure that the files vouch for nothing past `to`, where the log is about to end.
    pub(super) async fn lower(&self, partition: &TopicPartition, to: Offset) -> Result<(), LogError> {
        let lower = |offsets: &mut Offsets| {
            if let Some(offset) = offsets.get_mut(partition) {
                *offset = (*offset).min(to);
            }
        };
        self.recovery_points.change(lower).await?;
        self.log_starts.change(lower).await?;
        self.cleaned.change(lower).await
    }

    /// Makes sure that recovery trusts everything below `to`, which was proven durable.
    pub(super) async fn raise_recovery_point(
        &self,
        partition: &TopicPartition,
        to: Offset,
    ) -> Result<(), LogError> {
        let raise = |offsets: &mut Offsets| {
            let recovery_point = offsets.entry(partition.clone()).or_insert(to);
            *recovery_point = to.max(*recovery_point);
        };
        self.recovery_points.change(raise).await
    }

    /// Notes that everything below `to` was compacted.
    pub(super) async fn note_cleaned(&self, partition: &TopicPartition, to: Offset) -> Result<(), LogError> {
        let note = |offsets: &mut Offsets| {
            offsets.insert(partition.clone(), to);
        };
        self.cleaned.change(note).await
    }
}
