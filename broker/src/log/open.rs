//! Opening and closing a log. Owns the partition's directory and its topic id; what is in the files is `recovery`'s.

use super::{
    Log, LogConfig, LogContext, LogError, View, Writer, checkpoint,
    durable_offsets::DurableOffsets,
    names,
    recovery::{self, Plan},
};
use crate::{
    observe::Observation,
    types::{Offset, TopicId, TopicPartition},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// Why a closed log takes no appends.
pub(super) const CLOSED: &str = "closed";
/// Why a deleted log takes none.
pub(super) const DELETED: &str = "deleted";

/// What is known of a log before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The last stop was clean: nothing needs to be checked.
    pub clean: bool,
    /// Everything below was proven durable.
    pub recovery_point: Offset,
    /// The log start offset that was noted; 0 where none was.
    pub log_start_offset: Offset,
}

impl Log {
    /// Opens the log in `directory`, creating it where there is none, and checks it where its last stop was unclean:
    /// every batch past the recovery point, cutting at the first bad one.
    ///
    /// # Errors
    /// [`LogError::InconsistentTopicId`] where the directory is another topic's, [`LogError::Corrupt`] where a file
    /// that nothing can stand in for is damaged, [`LogError::Io`].
    pub async fn open(
        context: LogContext,
        directory: PathBuf,
        partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        opening: Opening,
    ) -> Result<Arc<Log>, LogError> {
        Log::open_in(context, directory, partition, topic_id, config, opening, None).await
    }

    /// [`Log::open`] for a log whose recovery point is in a checkpoint that has to be lowered before the log is cut.
    pub(super) async fn open_in(
        context: LogContext,
        directory: PathBuf,
        partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        opening: Opening,
        durable: Option<Arc<DurableOffsets>>,
    ) -> Result<Arc<Log>, LogError> {
        let directory: Arc<Path> = directory.into();
        claim_directory(&context, &directory, topic_id).await?;
        let plan = Plan {
            clean: opening.clean,
            recovery_point: opening.recovery_point,
            log_start: opening.log_start_offset,
            log_end_at_most: None,
            rewrite: false,
        };
        let now = context.runtime.now();
        let loaded = recovery::load(context.runtime.fs(), &directory, &config, now, plan).await?;
        let first_dirty = noted_as_clean(durable.as_deref(), &partition, loaded.log_end).await?;
        let view = View {
            segments: Arc::new(loaded.segments),
            log_start: loaded.log_start,
            log_end: loaded.log_end,
            recovery_point: loaded.recovery_point,
            epochs: loaded.epochs,
            offline: None,
            names_changed: 1,
            names_synced: 0,
            sync_failed: loaded.sync_failed,
            last_flush: now,
            first_dirty,
            uncleanable: None,
        };
        view.check();
        let log = Arc::new(Log {
            context,
            directory,
            partition,
            topic_id,
            config: Mutex::new(Arc::new(config)),
            writer: tokio::sync::Mutex::new(Writer { producers: loaded.producers, active_since: now }),
            flushing: tokio::sync::Mutex::new(()),
            view: Mutex::new(view),
            durable,
        });
        let checked_from = if loaded.clean { loaded.log_end } else { loaded.recovery_point };
        log.tell_opened(&*log.writer.lock().await, loaded.clean, checked_from);
        Ok(log)
    }

    /// Makes everything durable and leaves the log as a clean stop does. It takes no appends afterwards; reads go on.
    ///
    /// # Errors
    /// [`LogError::Offline`] where the log is, or goes, offline: it then has to be checked when it is opened again.
    pub async fn close(&self) -> Result<(), LogError> {
        let writer = self.writer.lock().await;
        let _turn = self.flushing.lock().await;
        if self.is_offline().as_deref() == Some(CLOSED) {
            return Ok(());
        }
        self.check_online()?;
        let (active, log_end) = {
            let view = self.view();
            (view.active().clone(), view.log_end)
        };
        self.complete(&active).await.map_err(|error| self.failed("closing", error))?;
        self.write_snapshot(&writer, log_end).await.map_err(|error| self.failed("closing", error))?;
        self.view().names_changed += 1;
        self.sync_all(true).await?;
        self.view().offline = Some(CLOSED.into());
        Ok(())
    }

    /// Ends the log's life before its directory is removed: no append, no sync and no cut from here on.
    pub(super) async fn retire(&self) {
        let _writer = self.writer.lock().await;
        let _turn = self.flushing.lock().await;
        self.view().offline = Some(DELETED.into());
    }

    /// Tells observers what the log holds.
    pub(super) fn tell_opened(&self, writer: &Writer, clean: bool, checked_from: Offset) {
        let (epochs, log_start, log_end) = {
            let view = self.view();
            (view.epochs.entries().to_vec(), view.log_start, view.log_end)
        };
        let producers = writer.producers.summary();
        self.context.observers.tell(|| Observation::LogOpened {
            partition: &self.partition,
            topic_id: self.topic_id,
            clean,
            checked_from: checked_from.min(log_end),
            log_start,
            log_end,
            epochs: &epochs,
            producers: &producers,
        });
    }
}

/// Up to where the log was compacted, by the checkpoint. What a log has lost from its end is written anew, and is dirty
/// then: taken for clean, a tombstone among it would go before the records that it deletes.
async fn noted_as_clean(
    durable: Option<&DurableOffsets>,
    partition: &TopicPartition,
    log_end: Offset,
) -> Result<Option<Offset>, LogError> {
    let Some((durable, noted)) = durable.and_then(|durable| Some((durable, durable.cleaned.get(partition)?)))
    else {
        return Ok(None);
    };
    if noted > log_end {
        durable.lower(partition, log_end).await?;
    }
    Ok(Some(noted.min(log_end)))
}

/// Makes sure that the directory exists and is of this topic (I16).
async fn claim_directory(context: &LogContext, directory: &Path, topic_id: TopicId) -> Result<(), LogError> {
    let files = context.runtime.fs();
    let metadata = directory.join(names::PARTITION_METADATA);
    if let Some(bytes) = checkpoint::read(files, &metadata).await? {
        let found = checkpoint::decode_topic_id(&bytes)
            .map_err(|error| LogError::Corrupt { path: metadata.clone(), problem: error.to_string() })?;
        if found != topic_id {
            return Err(LogError::InconsistentTopicId { path: directory.into(), found, expected: topic_id });
        }
        return Ok(());
    }
    files.create_dir_all(directory).await.map_err(LogError::io(directory, "creating"))?;
    let content = checkpoint::encode_topic_id(topic_id);
    files.replace(&metadata, &content).await.map_err(LogError::io(metadata, "writing"))?;
    match directory.parent() {
        Some(parent) => files.sync_dir(parent).await.map_err(LogError::io(parent, "syncing")),
        None => Ok(()),
    }
}
