//! Reading. Owns the bounds of a read; the places of batches are `segment`'s. Never copies a record: a read is a
//! slice of a file, for sendfile.

use super::{
    Log, ReadError, names,
    scan::ScanError,
    segment::{BatchPlace, Segment},
};
use crate::types::Offset;
use sillon_runtime::File;
use std::sync::Arc;

/// Whole batches in a segment's file. The file stays readable for as long as the slice lives, whatever retention does.
#[derive(Clone)]
pub struct LogSlice {
    /// The file.
    pub file: Arc<dyn File>,
    /// The first byte.
    pub position: u64,
    /// How many bytes; 0 where there is nothing to read yet.
    pub length: usize,
    /// Base offset of the first batch, which may lie before the offset asked for; the latter where there is no batch.
    pub first: Offset,
    /// One past the last record.
    pub next_offset: Offset,
}

impl std::fmt::Debug for LogSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "LogSlice({} to {}, {} bytes at {})",
            self.first, self.next_offset, self.length, self.position
        )
    }
}

impl Log {
    /// The batches from the one that holds `from` on: as many as fit into `max_bytes`, lie wholly below `up_to`, and
    /// are in one segment. With `min_one_batch`, the first one also where it is larger than `max_bytes`.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] where `from` is before the log's start or past its end; [`ReadError::Io`],
    /// [`ReadError::Damaged`].
    pub async fn read(
        &self,
        from: Offset,
        max_bytes: usize,
        up_to: Offset,
        min_one_batch: bool,
    ) -> Result<LogSlice, ReadError> {
        let (segments, log_start, log_end) = {
            let view = self.view();
            (view.segments.clone(), view.log_start, view.log_end)
        };
        if from < log_start || from > log_end {
            return Err(ReadError::OutOfRange { offset: from, log_start, log_end });
        }
        let up_to = up_to.min(log_end);
        let holding = segments.partition_point(|segment| segment.base_offset <= from);
        let holding = holding.checked_sub(1).expect("the log start is in a segment");
        if from < up_to {
            for segment in &segments[holding..] {
                let found =
                    segment.find(self.files(), from).await.map_err(|error| scan_error(segment, error))?;
                // A segment may end before the next one begins where records were compacted away.
                let Some(first) = found else { continue };
                return match self.end_of_read(segment, first, max_bytes, up_to, min_one_batch).await? {
                    Some((end_position, next_offset)) => Ok(LogSlice {
                        file: segment.file.clone(),
                        position: first.position,
                        length: usize::try_from(end_position - first.position)
                            .expect("bounded by what was asked for"),
                        first: first.base_offset,
                        next_offset,
                    }),
                    None => Ok(empty(segment, from)),
                };
            }
        }
        Ok(empty(&segments[holding], from))
    }

    /// Where a read ends that begins with the batch at `first`; none where not even that batch may be read.
    async fn end_of_read(
        &self,
        segment: &Segment,
        first: BatchPlace,
        max_bytes: usize,
        up_to: Offset,
        min_one_batch: bool,
    ) -> Result<Option<(u64, Offset)>, ReadError> {
        let limit = first.position.saturating_add(max_bytes as u64);
        if first.next_offset > up_to {
            return Ok(None);
        }
        if first.end_position > limit {
            return Ok(min_one_batch.then_some((first.end_position, first.next_offset)));
        }
        let end = segment.find_end(self.files(), first, limit, up_to).await;
        end.map(Some).map_err(|error| scan_error(segment, error))
    }
}

fn empty(segment: &Segment, from: Offset) -> LogSlice {
    LogSlice { file: segment.file.clone(), position: 0, length: 0, first: from, next_offset: from }
}

/// Gives a failed scan its place.
pub(super) fn scan_error(segment: &Segment, error: ScanError) -> ReadError {
    let path = segment.path(names::LOG_SUFFIX);
    match error {
        ScanError::Io(source) => ReadError::Io { path, source },
        ScanError::Bad { position, source } => ReadError::Damaged { path, position, source },
    }
}
