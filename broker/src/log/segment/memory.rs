//! What a segment remembers of where batches are, so that reading its tail, or on from where a read ended, needs no
//! search. Owns the answers that memory alone can give; never goes to an index.

use super::{BatchPlace, Segment};
use crate::types::Offset;
use sillon_protocol::records::BATCH_OVERHEAD;

/// Of so many reads it is remembered where they ended: whoever reads a log goes on there.
const READ_ENDS: usize = 8;

/// Where a read ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadEnd {
    /// One past the last offset that was read.
    next_offset: Offset,
    /// One past the last byte.
    position: u64,
}

impl Segment {
    /// [`Segment::find`] among the newest batches, in memory.
    pub(super) fn find_recent(&self, offset: Offset) -> Option<BatchPlace> {
        let state = self.state();
        // What lies before the first of them is not known here.
        if offset < state.recent.front()?.base_offset {
            return None;
        }
        let found = state.recent.partition_point(|recent| recent.next_offset <= offset);
        state.recent.get(found).copied()
    }

    /// [`Segment::find`] where an earlier read ended right before `offset`: one header is read.
    pub(super) async fn find_where_a_read_ended(&self, offset: Offset) -> Option<BatchPlace> {
        let position = {
            let state = self.state();
            state.read_ends.iter().find(|end| end.next_offset == offset)?.position
        };
        let mut scanner = self.scanner(position, BATCH_OVERHEAD)?;
        let (position, header) = scanner.next_header().await.ok()??;
        // What was remembered may be of a log that was cut since.
        (header.base_offset() == offset.0).then(|| BatchPlace::new(position, &header))
    }

    pub(super) fn note_read_end(&self, (position, next_offset): (u64, Offset)) {
        let mut state = self.state();
        state.read_ends.retain(|end| end.next_offset != next_offset);
        if state.read_ends.len() == READ_ENDS {
            state.read_ends.pop_front();
        }
        state.read_ends.push_back(ReadEnd { next_offset, position });
    }

    /// [`Segment::find_end`] where memory tells: the whole rest is wanted, or the end lies among the newest batches.
    pub(super) fn find_recent_end(&self, limit: u64, up_to: Offset) -> Option<(u64, Offset)> {
        let state = self.state();
        if state.size_bytes <= limit && state.end_offset <= up_to {
            return Some((state.size_bytes, state.end_offset));
        }
        let fits = |recent: &BatchPlace| recent.end_position <= limit && recent.next_offset <= up_to;
        let fitting = state.recent.partition_point(fits);
        let last = state.recent.get(fitting.checked_sub(1)?)?;
        Some((last.end_position, last.next_offset))
    }
}
