//! The segment that a cleaning writes, beside the log, under names that no log uses. Owns its bytes until they are
//! durable; never decides what is left of a batch.

use super::{
    CleanError,
    filter::{Filtered, Left},
};
use crate::{
    log::{
        Log, LogError, names,
        segment::{SEGMENT_SUFFIXES, Segment},
    },
    types::Offset,
};
use sillon_protocol::records::{BatchHeader, BatchView, RecordError};
use sillon_runtime::Monotonic;
use std::{io, sync::Arc};

/// See the module.
pub(super) struct Output {
    segment: Segment,
    /// What is not in the file yet.
    buffer: Vec<u8>,
    written: u64,
    buffer_bytes: usize,
    /// Records that were left.
    pub(super) records_kept: u64,
    /// Records that were not.
    pub(super) records_removed: u64,
}

impl Output {
    /// An empty segment at `base`.
    pub(super) async fn create(log: &Log, base: Offset, buffer_bytes: usize) -> Result<Output, CleanError> {
        let path = log.directory.join(names::file_name(base, names::LOG_SUFFIX) + names::CLEANED_SUFFIX);
        let segment = Segment::create_cleaned(log.files(), &log.directory, base).await;
        let segment = segment.map_err(LogError::io(path, "creating"))?;
        Ok(Output {
            segment,
            buffer: Vec::new(),
            written: 0,
            buffer_bytes,
            records_kept: 0,
            records_removed: 0,
        })
    }

    /// Its size.
    pub(super) fn size_bytes(&self) -> u64 {
        self.segment.size_bytes()
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> CleanError {
        let failed = LogError::io(self.segment.path_beside(names::LOG_SUFFIX, names::CLEANED_SUFFIX), action);
        move |error| failed(error).into()
    }

    /// Takes what is left of a batch. Gives how many bytes that is, or why it cannot follow.
    pub(super) async fn take(
        &mut self,
        log: &Log,
        batch: &BatchView<'_>,
        filtered: Filtered,
        index_interval_bytes: u32,
    ) -> Result<Result<usize, RecordError>, CleanError> {
        self.records_kept += filtered.kept;
        self.records_removed += filtered.removed;
        let bytes = match &filtered.left {
            Left::Nothing => return Ok(Ok(0)),
            Left::Everything => batch.as_bytes(),
            Left::Part(bytes) => &bytes[..],
        };
        let header = match BatchHeader::parse(bytes)
            .and_then(|header| self.segment.check_room(&header).map(|()| header))
        {
            Ok(header) => header,
            Err(error) => return Ok(Err(error)),
        };
        self.buffer.extend_from_slice(bytes);
        if self.segment.note(&header, index_interval_bytes) {
            self.segment.write_pending(log.files()).await.map_err(self.failed("indexing"))?;
        }
        if self.buffer.len() >= self.buffer_bytes {
            self.write().await?;
        }
        Ok(Ok(bytes.len()))
    }

    async fn write(&mut self) -> Result<(), CleanError> {
        let written = self.segment.file.write_all_at(&self.buffer, self.written).await;
        written.map_err(self.failed("writing"))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes it durable, as a closed segment that goes on to `end`.
    pub(super) async fn finish(
        mut self,
        log: &Log,
        end: Offset,
        closed_at: Option<Monotonic>,
    ) -> Result<Arc<Segment>, CleanError> {
        self.write().await?;
        assert_eq!(self.written, self.segment.size_bytes(), "what was noted was written");
        self.segment.complete_indexes(log.files()).await.map_err(self.failed("indexing"))?;
        self.segment.close_cleaned(end, closed_at.unwrap_or(log.context.runtime.now()));
        self.segment.sync(log.files(), true).await.map_err(self.failed("syncing"))?;
        Ok(Arc::new(self.segment))
    }

    /// Removes its files.
    pub(super) async fn discard(self, log: &Log) -> Result<(), CleanError> {
        for suffix in SEGMENT_SUFFIXES {
            let path = self.segment.path_beside(suffix, names::CLEANED_SUFFIX);
            log.files().remove(&path).await.map_err(LogError::io(&path, "removing"))?;
        }
        Ok(())
    }
}
