//! Whether a segment is as a clean stop, or a sync, left it. Looks at the ends only: owns the rules of what may be
//! believed without reading everything; never repairs.

use super::{
    scan::HEADER_CHUNK_BYTES,
    segment::{Segment, largest_of_records},
};
use crate::types::Offset;
use sillon_protocol::records::NO_TIMESTAMP;
use sillon_runtime::FileSystem;

impl Segment {
    /// Walks from the last index entry to the end of the file, and gives the offset there; none where anything is not
    /// as a clean stop leaves it.
    pub(super) async fn find_clean_end(&self, files: &dyn FileSystem) -> Option<Offset> {
        let largest =
            self.largest_timestamp(files).await.map_or(NO_TIMESTAMP, |largest| largest.timestamp_ms);
        let entry = self.last_entry(files, 1.0, |_, _| true).await;
        let mut scanner = self.scanner(entry.map_or(0, |(_, position)| position), HEADER_CHUNK_BYTES)?;
        let mut end = self.base_offset;
        let mut first = entry;
        loop {
            match scanner.next_header().await {
                Ok(None) if first.is_none() => return Some(end),
                Ok(Some((_, header))) => {
                    let expected = first.take().map(|(last_offset, _)| last_offset.0);
                    let in_order =
                        header.base_offset() >= end.0 && header.last_offset() >= header.base_offset();
                    let in_reach =
                        in_order && header.last_offset() - self.base_offset.0 <= i64::from(i32::MAX);
                    let known = largest_of_records(&header) <= largest;
                    if !in_reach || !known || expected.is_some_and(|last| last != header.last_offset()) {
                        return None;
                    }
                    end = Offset(header.next_offset());
                }
                _ => return None,
            }
        }
    }

    /// Whether the ends of both indexes of a closed segment fit its batches.
    pub(super) async fn indexes_make_sense(&self, files: &dyn FileSystem) -> bool {
        let (entries, time_entries) = self.index_entries();
        if entries > 0 {
            let Some((last_offset, position)) = self.last_entry(files, 1.0, |_, _| true).await else {
                return false;
            };
            let Some(mut scanner) = self.scanner(position, HEADER_CHUNK_BYTES) else { return false };
            let Ok(Some((_, header))) = scanner.next_header().await else { return false };
            if header.last_offset() != last_offset.0 {
                return false;
            }
        }
        if time_entries > 0 {
            let Some(largest) = self.largest_timestamp(files).await else { return false };
            let Ok(Some(batch)) = self.find(files, largest.last_offset).await else { return false };
            let Some(mut scanner) = self.scanner(batch.position, HEADER_CHUNK_BYTES) else { return false };
            let Ok(Some((_, header))) = scanner.next_header().await else { return false };
            return header.last_offset() == largest.last_offset.0
                && header.max_timestamp() == largest.timestamp_ms
                && largest.last_offset < self.end_offset();
        }
        // A segment has a time index entry as soon as a batch of it has a time stamp.
        let mut scanner = self.scanner(0, HEADER_CHUNK_BYTES).expect("0 is in every file");
        self.size_bytes() == 0
            || matches!(scanner.next_header().await, Ok(Some((_, header))) if largest_of_records(&header) <= NO_TIMESTAMP)
    }
}
