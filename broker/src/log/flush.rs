//! Making a log durable. Owns the recovery point; never moves it without a sync that succeeded for everything
//! between the old one and the new one (B27, I19).
//!
//! Group commit: who arrives while a sync runs waits for the next one, which covers all that was appended before it
//! began. A sync runs in a task of its own, so that a caller that goes away cannot make its error go unseen.

use super::{Log, LogError, checkpoint, epoch_cache::EpochCache, names};
use crate::{observe::Observation, types::Offset};
use sillon_runtime::OpenOptions;
use std::{io, sync::Arc, time::Duration};

impl Log {
    /// Waits until everything below `up_to` is durable, and gives the recovery point.
    ///
    /// # Errors
    /// [`LogError::Offline`] where the sync failed, now or before; [`LogError::OffsetOutOfRange`] where `up_to` is past
    /// the log's end; [`LogError::Stopping`].
    pub async fn flush(self: &Arc<Self>, up_to: Offset) -> Result<Offset, LogError> {
        {
            let view = self.view();
            if up_to > view.log_end {
                // A cut took them away.
                return Err(LogError::OffsetOutOfRange {
                    offset: up_to,
                    first: view.log_start,
                    last: view.log_end,
                });
            }
            if view.recovery_point >= up_to {
                return Ok(view.recovery_point);
            }
        }
        let log = self.clone();
        let sync = self.context.runtime.spawn("log-flush", async move { log.sync_up_to(up_to).await });
        sync.await.map_err(|_| LogError::Stopping)?
    }

    /// Flushes where records wait for a sync for longer than `flush.ms` allows, or a closed segment was not synced
    /// yet. To be called from time to time.
    ///
    /// # Errors
    /// As [`Log::flush`].
    pub async fn flush_if_due(self: &Arc<Self>) -> Result<(), LogError> {
        let config = self.config();
        let log_end = {
            let view = self.view();
            let waited = self.context.runtime.now().saturating_since(view.last_flush);
            let too_long =
                u64::try_from(config.flush_ms).is_ok_and(|limit| waited >= Duration::from_millis(limit));
            let due = too_long || view.recovery_point < view.active().base_offset;
            if view.offline.is_some() || view.recovery_point == view.log_end || !due {
                return Ok(());
            }
            view.log_end
        };
        self.flush(log_end).await.map(|_| ())
    }

    async fn sync_up_to(&self, up_to: Offset) -> Result<Offset, LogError> {
        let _turn = self.flushing.lock().await;
        self.check_online()?;
        let recovery_point = self.recovery_point();
        // Somebody else's sync may have covered it; a cut may have taken the records away.
        if recovery_point >= up_to.min(self.log_end_offset()) {
            return Ok(recovery_point);
        }
        self.sync_all(false).await
    }

    /// Syncs everything past the recovery point. The caller holds `flushing`. With `complete`, the active segment's
    /// indexes as well.
    pub(super) async fn sync_all(&self, complete: bool) -> Result<Offset, LogError> {
        let (target, segments, names_changed, names_synced) = {
            let view = self.view();
            // One that ends exactly at the recovery point may have been closed since: its indexes are not durable.
            let first = view.segments.partition_point(|segment| segment.end_offset() < view.recovery_point);
            (view.log_end, view.segments[first..].to_vec(), view.names_changed, view.names_synced)
        };
        for segment in &segments {
            let with_indexes = complete || !segment.is_active();
            if let Err(error) = segment.sync(self.files(), with_indexes).await {
                return Err(self.sync_failed("syncing", error).await);
            }
        }
        if names_changed != names_synced
            && let Err(error) = self.files().sync_dir(&self.directory).await
        {
            return Err(self.sync_failed("syncing the directory", error).await);
        }
        {
            let mut view = self.view();
            assert!(
                target >= view.recovery_point && target <= view.log_end,
                "a cut waits for the sync, and a sync for the cut"
            );
            view.recovery_point = target;
            view.names_synced = view.names_synced.max(names_changed);
            view.last_flush = self.context.runtime.now();
            view.check();
        }
        self.context.observers.tell(|| Observation::Flushed { partition: &self.partition, up_to: target });
        if self.view().sync_failed {
            self.remove_sync_failed().await;
        }
        Ok(target)
    }

    /// After a failed sync the page cache looks clean and the disk may hold anything. A process that starts before
    /// the machine does reads that cache: the marker tells it to write the bytes again. It need not be durable, for
    /// when the machine starts anew, the cache is gone too.
    async fn sync_failed(&self, action: &'static str, error: io::Error) -> LogError {
        let failed = self.failed(action, error);
        self.view().sync_failed = true;
        let marker = self.directory.join(names::SYNC_FAILED);
        if let Err(error) = self.files().open(&marker, OpenOptions::READ_WRITE_CREATE).await {
            tracing::error!(partition = %self.partition, %error, "cannot leave a marker of the failed sync");
        }
        failed
    }

    /// The bytes were written again and synced. A marker that stays costs time at the next start, nothing else.
    async fn remove_sync_failed(&self) {
        match self.files().remove(&self.directory.join(names::SYNC_FAILED)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(partition = %self.partition, %error, "the marker of a failed sync stays");
            }
            _ => self.view().sync_failed = false,
        }
    }

    /// Replaces `leader-epoch-checkpoint`, durably.
    pub(super) async fn persist_epochs(&self, epochs: &EpochCache) -> io::Result<()> {
        let path = self.directory.join(names::LEADER_EPOCH_CHECKPOINT);
        self.files().replace(&path, &checkpoint::encode_epochs(epochs.entries())).await
    }
}
