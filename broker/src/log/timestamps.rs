//! Finding records by time (ListOffsets). Owns the search over segments and inside a batch, which it opens where it
//! is compressed; the indexes are `segment`'s.

use super::{
    Log, ReadError,
    append::DECOMPRESSED_LIMIT_BYTES,
    names,
    read::scan_error,
    scan::{HEADER_CHUNK_BYTES, ScanError},
    segment::{Segment, TimestampPlace, largest_of_records},
};
use crate::types::{LeaderEpoch, Offset};
use sillon_protocol::records::{BatchHeader, NO_TIMESTAMP, RecordBatch, RecordError};
use std::{io, sync::Arc};

/// A record found by its time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Its time stamp in ms.
    pub timestamp: i64,
    /// Its offset.
    pub offset: Offset,
    /// The epoch it was written in.
    pub leader_epoch: LeaderEpoch,
}

impl Log {
    /// The earliest record below `up_to` whose time stamp is `timestamp_ms` or later.
    ///
    /// # Errors
    /// [`ReadError::Io`], [`ReadError::Damaged`].
    pub async fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
        up_to: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let (segments, log_start) = self.bounds();
        for segment in segments.iter().filter(|segment| segment.end_offset() > log_start) {
            if segment.base_offset >= up_to {
                break;
            }
            let largest = segment.largest_timestamp(self.files()).await;
            if largest.is_none_or(|largest| largest.timestamp_ms < timestamp_ms) {
                continue;
            }
            let wanted = |timestamp: i64| timestamp >= timestamp_ms;
            let from = segment
                .find_time(self.files(), timestamp_ms)
                .await
                .map_err(|error| scan_error(segment, error))?;
            let mut scanner = segment.scanner(from, HEADER_CHUNK_BYTES).expect("a batch begins in the file");
            while let Some((position, header)) =
                scanner.next_header().await.map_err(|error| scan_error(segment, error))?
            {
                if header.base_offset() >= up_to.0 {
                    return Ok(None);
                }
                if header.max_timestamp() < timestamp_ms || header.last_offset() < log_start.0 {
                    continue;
                }
                let range = (log_start, up_to);
                if let Some(found) = self.first_record(segment, position, &header, range, wanted).await? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The record below `up_to` with the largest time stamp, the earliest where several have it (KIP-734).
    ///
    /// # Errors
    /// [`ReadError::Io`], [`ReadError::Damaged`].
    pub async fn max_timestamp(&self, up_to: Offset) -> Result<Option<TimestampOffset>, ReadError> {
        let (segments, log_start) = self.bounds();
        let mut best: Option<(Arc<Segment>, TimestampPlace)> = None;
        for segment in segments.iter() {
            if segment.end_offset() <= log_start {
                continue;
            }
            if segment.base_offset >= up_to {
                break;
            }
            let whole = segment.base_offset >= log_start && segment.end_offset() <= up_to;
            let largest = if whole {
                segment.largest_timestamp(self.files()).await
            } else {
                self.largest_within(segment, log_start, up_to).await?
            };
            if let Some(largest) = largest
                && best.as_ref().is_none_or(|(_, best)| largest.timestamp_ms > best.timestamp_ms)
            {
                best = Some((segment.clone(), largest));
            }
        }
        let Some((segment, place)) = best else { return Ok(None) };
        let found = segment
            .find(self.files(), place.last_offset)
            .await
            .map_err(|error| scan_error(&segment, error))?;
        let Some(batch) = found else { return Ok(None) };
        let header = self.header_at(&segment, batch.position).await?;
        let wanted = |timestamp: i64| timestamp >= place.timestamp_ms;
        self.first_record(&segment, batch.position, &header, (log_start, up_to), wanted).await
    }

    fn bounds(&self) -> (Arc<Vec<Arc<Segment>>>, Offset) {
        let view = self.view();
        (view.segments.clone(), view.log_start)
    }

    /// The largest time stamp of the batches of a segment that lie between two offsets.
    async fn largest_within(
        &self,
        segment: &Segment,
        from: Offset,
        up_to: Offset,
    ) -> Result<Option<TimestampPlace>, ReadError> {
        let mut largest: Option<TimestampPlace> = None;
        let mut scanner = segment.scanner(0, HEADER_CHUNK_BYTES).expect("0 is in every file");
        while let Some((position, header)) =
            scanner.next_header().await.map_err(|error| scan_error(segment, error))?
        {
            if header.base_offset() >= up_to.0 {
                break;
            }
            if header.last_offset() < from.0 {
                continue;
            }
            let whole = header.base_offset() >= from.0 && header.next_offset() <= up_to.0;
            let timestamp_ms = if whole {
                largest_of_records(&header)
            } else {
                let timestamps = self.timestamps_within(segment, position, &header, (from, up_to)).await?;
                timestamps.into_iter().max().unwrap_or(NO_TIMESTAMP)
            };
            if timestamp_ms > largest.map_or(NO_TIMESTAMP, |largest| largest.timestamp_ms) {
                largest = Some(TimestampPlace { timestamp_ms, last_offset: Offset(header.last_offset()) });
            }
        }
        Ok(largest)
    }

    /// The time stamps of the records of a batch that are in `range`.
    async fn timestamps_within(
        &self,
        segment: &Segment,
        position: u64,
        header: &BatchHeader,
        range: (Offset, Offset),
    ) -> Result<Vec<i64>, ReadError> {
        let mut timestamps = Vec::new();
        let collect = |timestamp: i64| {
            timestamps.push(timestamp);
            false
        };
        self.first_record(segment, position, header, range, collect).await?;
        Ok(timestamps)
    }

    async fn header_at(&self, segment: &Segment, position: u64) -> Result<BatchHeader, ReadError> {
        let mut scanner = segment.scanner(position, HEADER_CHUNK_BYTES).expect("a batch begins in the file");
        let next = scanner.next_header().await.map_err(|error| scan_error(segment, error))?;
        let (_, header) =
            next.ok_or_else(|| scan_error(segment, ScanError::Io(io::ErrorKind::UnexpectedEof.into())))?;
        Ok(header)
    }

    /// The first record of a batch that is in `range` and whose time stamp is `wanted`.
    async fn first_record(
        &self,
        segment: &Segment,
        position: u64,
        header: &BatchHeader,
        range: (Offset, Offset),
        mut wanted: impl FnMut(i64) -> bool,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let damaged = |source: RecordError| ReadError::Damaged {
            path: segment.path(names::LOG_SUFFIX),
            position,
            source,
        };
        // Its size was compared with the file's by the scan that found it.
        let mut bytes = vec![0; header.size_bytes()];
        let read = segment.file.read_exact_at(&mut bytes, position).await;
        read.map_err(|error| scan_error(segment, ScanError::Io(error)))?;
        let batch = RecordBatch::parse(bytes).map_err(damaged)?;
        let body = batch.decompress(DECOMPRESSED_LIMIT_BYTES).map_err(damaged)?;
        for record in batch.records_in(&body) {
            let record = record.map_err(damaged)?;
            let offset = Offset(record.offset());
            if offset >= range.0 && offset < range.1 && wanted(record.timestamp()) {
                let leader_epoch = LeaderEpoch(header.leader_epoch());
                return Ok(Some(TimestampOffset { timestamp: record.timestamp(), offset, leader_epoch }));
            }
        }
        Ok(None)
    }
}
