//! Cutting a log at its end, and opening it again after a failure. Owns the order that keeps a crash at any moment
//! harmless: what a checkpoint claims is lowered before bytes go, bytes go from the end, names before new ones come.
//!
//! Both hold `writer` and `flushing`: nothing is appended or synced meanwhile. One that is abandoned half-way takes
//! the log offline.

use super::{
    Log, LogConfig, LogError, Writer,
    open::{CLOSED, DELETED},
    recovery::{self, Loaded, Plan},
    scan::HEADER_CHUNK_BYTES,
    segment::Segment,
};
use crate::{observe::Observation, types::Offset};
use std::sync::Arc;

/// Takes the log offline when it is dropped before the operation was finished.
struct Unfinished<'a> {
    log: &'a Log,
    operation: &'static str,
    finished: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.log.take_offline(self.operation, &"abandoned half-way");
        }
    }
}

impl Log {
    /// Removes all records from `offset` on, and gives the log's new end: `offset`, or the base offset of the batch
    /// that holds it. Does nothing where the log ends at or before `offset`.
    ///
    /// # Errors
    /// [`LogError::Offline`]; the log goes offline where a step fails.
    pub async fn truncate_to(&self, offset: Offset) -> Result<Offset, LogError> {
        let mut writer = self.writer.lock().await;
        let _no_sync = self.flushing.lock().await;
        self.check_online()?;
        let log_end = self.log_end_offset();
        if offset >= log_end {
            return Ok(log_end);
        }
        if offset < self.first_segment_offset() {
            return self.start_afresh(&mut writer, offset).await;
        }
        self.guarded("truncating", self.cut(&mut writer, offset)).await
    }

    /// Removes all records; the log starts and ends at `offset` then.
    ///
    /// # Errors
    /// [`LogError::Offline`]; the log goes offline where a step fails.
    pub async fn truncate_fully_and_start_at(&self, offset: Offset) -> Result<Offset, LogError> {
        let mut writer = self.writer.lock().await;
        let _no_sync = self.flushing.lock().await;
        self.check_online()?;
        self.start_afresh(&mut writer, offset).await
    }

    /// Brings an offline log back. Everything past the recovery point is read, checked and *written again*, so that
    /// the next sync really writes it: after a failed one the page cache looks clean. Bytes of appends that failed
    /// are cut off. Does nothing where the log is online; a closed log stays closed.
    ///
    /// # Errors
    /// Where the disk still fails: the log stays offline, and this may be tried again.
    pub async fn reopen(&self) -> Result<(), LogError> {
        let mut writer = self.writer.lock().await;
        let _no_sync = self.flushing.lock().await;
        match self.is_offline() {
            None => return Ok(()),
            Some(reason) if *reason == *CLOSED || *reason == *DELETED => {
                return Err(LogError::Offline { partition: self.partition.clone(), reason });
            }
            Some(_) => {}
        }
        let (recovery_point, log_start, log_end) = {
            let view = self.view();
            (view.recovery_point, view.log_start, view.log_end)
        };
        let plan =
            Plan { clean: false, recovery_point, log_start, log_end_at_most: Some(log_end), rewrite: true };
        let loaded = self.load(plan).await?;
        self.install(&mut writer, loaded);
        self.view().offline = None;
        self.tell_opened(&writer, false, recovery_point);
        Ok(())
    }

    async fn start_afresh(&self, writer: &mut Writer, offset: Offset) -> Result<Offset, LogError> {
        let work = async {
            self.lower_recovery_point(offset).await?;
            recovery::remove_everything(self.files(), &self.directory).await?;
            let plan = Plan {
                clean: false,
                recovery_point: offset,
                log_start: offset,
                log_end_at_most: None,
                rewrite: false,
            };
            let loaded = self.load(plan).await?;
            assert_eq!((loaded.log_start, loaded.log_end), (offset, offset), "nothing was left");
            self.install(writer, loaded);
            Ok(offset)
        };
        self.guarded("truncating", work).await
    }

    async fn cut(&self, writer: &mut Writer, offset: Offset) -> Result<Offset, LogError> {
        let segments = self.view().segments.clone();
        let holding = segments.partition_point(|segment| segment.base_offset <= offset) - 1;
        let found = segments[holding].find(self.files(), offset).await;
        let found = found.map_err(|error| LogError::Corrupt {
            path: segments[holding].path(super::names::LOG_SUFFIX),
            problem: format!("{error:?}"),
        })?;
        let log_end = match found {
            // Where records before it were compacted away, the log ends before that gap.
            Some(batch) => self.end_before(&segments[holding], batch.position).await?,
            None => segments[holding].end_offset(),
        };
        self.lower_recovery_point(log_end).await?;
        let (recovery_point, log_start) = {
            let view = self.view();
            (view.recovery_point, view.log_start.min(log_end))
        };
        let plan =
            Plan { clean: false, recovery_point, log_start, log_end_at_most: Some(log_end), rewrite: false };
        let loaded = self.load(plan).await?;
        // It may be less where a batch before turned out to be damaged.
        let log_end = loaded.log_end;
        self.install(writer, loaded);
        Ok(log_end)
    }

    /// Where the batch ends that precedes the one at `position` in a segment.
    async fn end_before(&self, segment: &Segment, position: u64) -> Result<Offset, LogError> {
        let mut end = segment.base_offset;
        let mut scanner = segment.scanner(0, HEADER_CHUNK_BYTES).expect("0 is in every file");
        loop {
            match scanner.next_header().await {
                Ok(Some((at, header))) if at < position => end = Offset(header.next_offset()),
                Ok(_) => return Ok(end),
                Err(error) => {
                    let path = segment.path(super::names::LOG_SUFFIX);
                    return Err(LogError::Corrupt { path, problem: format!("{error:?}") });
                }
            }
        }
    }

    /// The checkpoint must not vouch for offsets that will be written anew; nor what it is written from.
    async fn lower_recovery_point(&self, to: Offset) -> Result<(), LogError> {
        {
            let mut view = self.view();
            view.recovery_point = view.recovery_point.min(to);
        }
        match &self.durable {
            Some(durable) => durable.lower(&self.partition, to).await,
            None => Ok(()),
        }
    }

    async fn load(&self, plan: Plan) -> Result<Loaded, LogError> {
        let config: Arc<LogConfig> = self.config();
        let now = self.context.runtime.now();
        recovery::load(self.files(), &self.directory, &config, now, plan).await
    }

    /// Publishes what was loaded in place of what was there.
    fn install(&self, writer: &mut Writer, loaded: Loaded) {
        let mut view = self.view();
        let log_end = view.log_end;
        view.segments = Arc::new(loaded.segments);
        view.log_start = loaded.log_start;
        view.log_end = loaded.log_end;
        view.recovery_point = loaded.recovery_point;
        view.epochs = loaded.epochs;
        view.first_dirty = view.first_dirty.map(|first_dirty| first_dirty.min(loaded.log_end));
        view.uncleanable = None;
        view.names_changed += 1;
        view.sync_failed |= loaded.sync_failed;
        view.check();
        writer.producers = loaded.producers;
        writer.active_since = self.context.runtime.now();
        let to = loaded.log_end;
        drop(view);
        if to != log_end {
            self.context.observers.tell(|| Observation::Truncated { partition: &self.partition, to });
        }
    }

    /// Runs what must not stop half-way: where it fails or is abandoned, the log goes offline.
    pub(super) async fn guarded<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, LogError>>,
    ) -> Result<T, LogError> {
        let mut unfinished = Unfinished { log: self, operation, finished: false };
        let result = work.await;
        unfinished.finished = true;
        drop(unfinished);
        result.map_err(|error| {
            let reason = self.take_offline(operation, &error);
            LogError::Offline { partition: self.partition.clone(), reason }
        })
    }
}
