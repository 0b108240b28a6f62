//! Removing records at the start of a log. Owns the order: first nobody may read them any more, then their files go,
//! one by one from the oldest, so that a crash leaves no gap. The decisions are `retention`'s.

use super::{
    Log, LogError, names,
    retention::{self, Candidate},
    segment::Segment,
};
use crate::{
    observe::{LogStartReason, Observation},
    types::Offset,
};
use std::{io, sync::Arc, time::Duration};

impl Log {
    /// Makes `to` the log start offset, durably, where it is larger. Segments that only hold records before it are
    /// removed by the next [`Log::enforce_retention`]. Gives the log start offset.
    ///
    /// # Errors
    /// [`LogError::OffsetOutOfRange`] where `to` is past the high watermark; [`LogError::Offline`]; [`LogError::Io`].
    pub async fn delete_records(
        self: &Arc<Self>,
        to: Offset,
        high_watermark: Offset,
    ) -> Result<Offset, LogError> {
        if to <= high_watermark && to > self.log_start_offset() {
            // The log on disk must not end before it starts.
            self.flush(to).await?;
        }
        let _writer = self.writer.lock().await;
        self.check_online()?;
        let (log_start, log_end) = {
            let view = self.view();
            (view.log_start, view.log_end)
        };
        let high_watermark = high_watermark.clamp(log_start, log_end);
        if to.0 < 0 || to > high_watermark {
            return Err(LogError::OffsetOutOfRange { offset: to, first: log_start, last: high_watermark });
        }
        if to > log_start {
            self.move_start(to, high_watermark, LogStartReason::DeleteRecords).await?;
        }
        Ok(self.log_start_offset())
    }

    /// Removes segments that are older than `retention.ms` or beyond `retention.bytes`, or lie before the log start;
    /// never a record at or above the high watermark. Forgets idle producers as well. To be called from time to time.
    ///
    /// # Errors
    /// [`LogError::Offline`], [`LogError::Io`].
    pub async fn enforce_retention(&self, high_watermark: Offset) -> Result<(), LogError> {
        let config = self.config();
        let mut writer = self.writer.lock().await;
        self.check_online()?;
        let now = self.context.runtime.now();
        let expiration = u64::try_from(config.producer_id_expiration_ms).unwrap_or(0);
        writer.producers.expire(now, Duration::from_millis(expiration));

        let now_ms = self.context.runtime.unix_time().0;
        let (mut candidates, log_start, log_end) = self.candidates().await;
        // The caller's may be a moment old.
        let high_watermark = high_watermark.clamp(log_start, log_end);
        let active = *candidates.last().expect("a log has an active segment");
        // The active segment goes too where all it holds has had its time, and every one before it.
        let all_expired =
            config.delete && candidates.iter().all(|segment| retention::is_expired(segment, now_ms, &config));
        if active.size_bytes > 0
            && active.end_offset <= high_watermark
            && (all_expired || active.end_offset <= log_start)
        {
            self.roll(&mut writer).await.map_err(|error| self.failed("closing a segment", error))?;
            candidates = self.candidates().await.0;
        }
        let (active, closed) = candidates.split_last().expect("a log has an active segment");
        let decided =
            retention::removable(closed, active.size_bytes, log_start, high_watermark, now_ms, &config);
        self.remove_oldest(decided, high_watermark).await
    }

    /// What retention needs to know of every segment, the active one last.
    async fn candidates(&self) -> (Vec<Candidate>, Offset, Offset) {
        let (segments, log_start, log_end) = {
            let view = self.view();
            (view.segments.clone(), view.log_start, view.log_end)
        };
        let now = self.context.runtime.now();
        let mut candidates = Vec::with_capacity(segments.len());
        for segment in segments.iter() {
            let largest = segment.largest_timestamp(self.files()).await;
            candidates.push(Candidate {
                end_offset: segment.end_offset(),
                size_bytes: segment.size_bytes(),
                largest_timestamp_ms: largest.map(|largest| largest.timestamp_ms),
                closed_for: segment.closed_at().map_or(Duration::ZERO, |closed| now.saturating_since(closed)),
            });
        }
        (candidates, log_start, log_end)
    }

    async fn remove_oldest(
        &self,
        (count, reason): (usize, Option<LogStartReason>),
        high_watermark: Offset,
    ) -> Result<(), LogError> {
        if count == 0 {
            return Ok(());
        }
        let segments = self.view().segments.clone();
        assert!(count < segments.len(), "the active segment stays");
        let new_start = segments[count].base_offset;
        if let Some(reason) = reason {
            self.move_start(new_start, high_watermark, reason).await?;
        }
        {
            let mut view = self.view();
            view.segments = Arc::new(segments[count..].to_vec());
            view.names_changed += 1;
            view.check();
        }
        for segment in &segments[..count] {
            // A file that cannot be removed now is found and removed when the log is opened the next time.
            self.remove_files(segment)
                .await
                .map_err(LogError::io(segment.path(names::LOG_SUFFIX), "removing"))?;
        }
        Ok(())
    }

    /// Moves the log start up, and the epochs with it: on disk in this order, so that no record that a crash brings
    /// back is without its epoch.
    async fn move_start(
        &self,
        to: Offset,
        high_watermark: Offset,
        reason: LogStartReason,
    ) -> Result<(), LogError> {
        assert!(to <= high_watermark, "I40: the log start never passes the high watermark");
        if let Some(durable) = &self.durable {
            durable.raise_log_start(&self.partition, to).await?;
        }
        let mut epochs = self.view().epochs.clone();
        if epochs.truncate_start(to) {
            self.persist_epochs(&epochs)
                .await
                .map_err(|error| self.failed("writing the leader epochs", error))?;
        }
        {
            let mut view = self.view();
            assert!(to > view.log_start, "the log start only moves up");
            view.log_start = to;
            view.epochs = epochs;
            view.check();
        }
        self.context.observers.tell(|| Observation::LogStartMoved {
            partition: &self.partition,
            to,
            high_watermark,
            reason,
        });
        Ok(())
    }

    async fn remove_files(&self, segment: &Segment) -> io::Result<()> {
        segment.remove(self.files()).await?;
        match self.files().remove(&segment.path(names::SNAPSHOT_SUFFIX)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.files().sync_dir(&self.directory).await
    }
}
