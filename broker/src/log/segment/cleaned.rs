//! A segment that compaction writes, under names of its own until it takes the place of those it was made from. Owns
//! its files and their names; never decides what is written into it.

use super::{Segment, State};
use crate::{log::names, types::Offset};
use sillon_protocol::records::{BATCH_OVERHEAD, BatchHeader, NO_TIMESTAMP, RecordError};
use sillon_runtime::{File, FileSystem, Monotonic, OpenOptions};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a segment consists of: its batches first.
pub(in crate::log) const SEGMENT_SUFFIXES: [&str; 3] =
    [names::LOG_SUFFIX, names::INDEX_SUFFIX, names::TIME_INDEX_SUFFIX];

impl Segment {
    /// Creates an empty segment in `.cleaned` files, whatever was there under their names.
    pub(in crate::log) async fn create_cleaned(
        files: &dyn FileSystem,
        directory: &Arc<Path>,
        base: Offset,
    ) -> io::Result<Segment> {
        let mut opened: Vec<Arc<dyn File>> = Vec::with_capacity(SEGMENT_SUFFIXES.len());
        for suffix in SEGMENT_SUFFIXES {
            let path = directory.join(names::file_name(base, suffix) + names::CLEANED_SUFFIX);
            opened.push(files.open(&path, OpenOptions::REWRITE).await?);
        }
        let mut opened = opened.into_iter();
        let mut next = || opened.next().expect("one was opened for each suffix");
        let segment = Segment::with_state(directory, base, next(), State::empty(base));
        assert!(segment.index.set(next()).is_ok(), "a new segment's indexes are opened once");
        assert!(segment.time_index.set(next()).is_ok(), "a new segment's indexes are opened once");
        Ok(segment)
    }

    /// The path of one of its files with something behind its name.
    pub(in crate::log) fn path_beside(&self, suffix: &str, beside: &str) -> PathBuf {
        self.directory.join(names::file_name(self.base_offset, suffix) + beside)
    }

    /// Whether a batch can be noted: positions and offsets of a segment are 31-bit numbers.
    ///
    /// # Errors
    /// What is wrong with it, in the terms of a batch.
    pub(in crate::log) fn check_room(&self, batch: &BatchHeader) -> Result<(), RecordError> {
        let relative = batch.last_offset() - self.base_offset.0;
        let end = self.size_bytes() + batch.size_bytes() as u64;
        let in_order = batch.base_offset() >= self.end_offset().0 && batch.last_offset_delta() >= 0;
        if !in_order || relative > i64::from(i32::MAX) || end > super::SEGMENT_LIMIT_BYTES {
            return Err(RecordError::OffsetRange {
                base_offset: batch.base_offset(),
                last_offset_delta: batch.last_offset_delta(),
                count: batch.record_count(),
            });
        }
        Ok(())
    }

    /// Makes it a closed segment that covers the offsets up to `end_offset`, as those did that it stands for.
    pub(in crate::log) fn close_cleaned(&self, end_offset: Offset, closed_at: Monotonic) {
        self.close(closed_at);
        let mut state = self.state();
        assert!(state.end_offset <= end_offset, "it holds no offset that was not there before");
        state.end_offset = end_offset;
    }

    /// Opens its indexes, so that whoever holds it reads its own ones even when their names are given to others.
    pub(in crate::log) async fn open_indexes(&self, files: &dyn FileSystem) -> io::Result<()> {
        self.index(files).await?;
        self.time_index(files).await?;
        Ok(())
    }

    /// The largest time stamp of its first batch, in ms.
    pub(in crate::log) async fn first_timestamp(&self) -> Option<i64> {
        let mut scanner = self.scanner(0, BATCH_OVERHEAD)?;
        let (_, header) = scanner.next_header().await.ok()??;
        (header.max_timestamp() > NO_TIMESTAMP).then_some(header.max_timestamp())
    }

    /// The sizes in bytes of its offset index and its time index.
    pub(in crate::log) fn index_bytes(&self) -> (u64, u64) {
        let (entries, times) = self.index_entries();
        (
            entries * crate::log::offset_index::ENTRY_BYTES as u64,
            times * crate::log::time_index::ENTRY_BYTES as u64,
        )
    }
}
