//! Control records: the markers that end a transaction in a partition (KIP-98). Owns their keys and
//! values. Never decides when a marker is written.

use super::batch::RecordBatch;
use super::builder::BatchBuilder;
use super::compression::Compression;
use super::header::NO_SEQUENCE;
use super::iterate::Record;
use bytes::Bytes;

/// Version of the keys and values of control records that is written.
pub const CONTROL_RECORD_VERSION: i16 = 0;

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkerKind {
    /// Its records stay hidden from consumers that read committed records only.
    Abort,
    /// Its records become visible.
    Commit,
}

/// The marker that ends a transaction of one producer in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// How it ends.
    pub kind: MarkerKind,
    /// Epoch of the transaction coordinator that decided so.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// Reads the marker from a record of a control batch. `None` for other kinds of control records, which
    /// readers skip.
    #[must_use]
    pub fn from_record(record: &Record<'_>) -> Option<Self> {
        // Later versions may add fields at the end.
        let key: &[u8; 4] = record.key()?.first_chunk()?;
        let value: &[u8; 6] = record.value()?.first_chunk()?;
        let kind = match i16::from_be_bytes([key[2], key[3]]) {
            0 => MarkerKind::Abort,
            1 => MarkerKind::Commit,
            _ => return None,
        };
        let coordinator_epoch = i32::from_be_bytes([value[2], value[3], value[4], value[5]]);
        Some(Self { kind, coordinator_epoch })
    }

    /// Reads the marker from a control batch. `None` if `batch` is no control batch or holds something else.
    #[must_use]
    pub fn from_batch<B: AsRef<[u8]>>(batch: &RecordBatch<B>) -> Option<Self> {
        if !batch.is_control() {
            return None;
        }
        Self::from_record(&batch.records().ok()?.next()?.ok()?)
    }

    /// A batch with just this marker.
    #[must_use]
    pub fn to_batch(self, timestamp_ms: i64, producer_id: i64, producer_epoch: i16) -> Bytes {
        let kind: i16 = match self.kind {
            MarkerKind::Abort => 0,
            MarkerKind::Commit => 1,
        };
        let version = CONTROL_RECORD_VERSION.to_be_bytes();
        let key = [version, kind.to_be_bytes()].concat();
        let value = [&version[..], &self.coordinator_epoch.to_be_bytes()].concat();
        let mut builder = BatchBuilder::new()
            .producer(producer_id, producer_epoch, NO_SEQUENCE)
            .transactional(true)
            .control(true);
        builder.add(timestamp_ms, Some(&key), Some(&value), []);
        builder.build(Compression::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_round_trip() {
        for kind in [MarkerKind::Abort, MarkerKind::Commit] {
            let marker = EndTransactionMarker { kind, coordinator_epoch: 12 };
            let batch = RecordBatch::parse(marker.to_batch(5000, 77, 3)).unwrap();
            batch.validate_header().unwrap();
            assert!(batch.is_control() && batch.is_transactional());
            assert_eq!((batch.producer_id(), batch.producer_epoch()), (77, 3));
            assert_eq!((batch.base_sequence(), batch.last_sequence()), (NO_SEQUENCE, NO_SEQUENCE));
            assert_eq!(EndTransactionMarker::from_batch(&batch), Some(marker));
        }
    }

    #[test]
    fn other_records_are_no_markers() {
        let mut builder = BatchBuilder::new().control(true);
        builder.add(0, Some(&[0, 0, 0, 2]), Some(&[0; 6]), []);
        let leader_change = RecordBatch::parse(builder.build(Compression::None)).unwrap();
        assert_eq!(EndTransactionMarker::from_batch(&leader_change), None);
        let mut builder = BatchBuilder::new();
        builder.add(0, Some(&[0, 0, 0, 1]), Some(&[0; 6]), []);
        let data = RecordBatch::parse(builder.build(Compression::None)).unwrap();
        assert_eq!(EndTransactionMarker::from_batch(&data), None);
    }
}
