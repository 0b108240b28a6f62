//! The rules a batch must keep to be appended. Owns the order and the depth of the checks: `validate_header`
//! for every batch from anywhere, `validate_produce` for what clients send, `validate_deep` for the records
//! themselves. Never changes a batch and knows no topic configuration.

use super::batch::RecordBatch;
use super::compression::Compression;
use super::crc::crc32c;
use super::error::{RecordError, RecordFault};
use super::header::{NO_TIMESTAMP, place};
use super::iterate::LEAST_RECORD;
use bytes::Bytes;

/// First version of the produce request that may carry zstd (KIP-110).
const FIRST_PRODUCE_VERSION_WITH_ZSTD: i16 = 7;

/// What [`RecordBatch::validate_deep`] learned about the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordsSummary {
    /// Smallest timestamp of the records in ms, [`NO_TIMESTAMP`] if there are none.
    pub min_timestamp: i64,
    /// Largest timestamp of the records in ms, [`NO_TIMESTAMP`] if there are none. May differ from
    /// what the header states: see [`set_max_timestamp`](super::set_max_timestamp).
    pub max_timestamp: i64,
    /// Offset of the first record with the largest timestamp, -1 if there are none.
    pub offset_of_max_timestamp: i64,
    /// Index of the first record without a key: compacted topics refuse those.
    pub first_null_key_index: Option<i32>,
    /// Bytes of the records, decompressed.
    pub records_bytes: usize,
}

/// The one batch of a partition in a produce request, header-validated by the rules for clients.
///
/// # Errors
/// As [`RecordBatch::parse`] and [`RecordBatch::validate_produce`].
pub fn produce_batch(records: &Bytes, produce_version: i16) -> Result<RecordBatch, RecordError> {
    let batch = RecordBatch::parse(records.clone())?;
    batch.validate_produce(produce_version)?;
    Ok(batch)
}

impl<B: AsRef<[u8]>> RecordBatch<B> {
    /// Checks the checksum.
    ///
    /// # Errors
    /// [`RecordError::Checksum`].
    pub fn validate_crc(&self) -> Result<(), RecordError> {
        let computed = crc32c(&self.as_bytes()[place::ATTRIBUTES..]);
        if computed != self.crc() {
            return Err(RecordError::Checksum { stored: self.crc(), computed });
        }
        Ok(())
    }

    /// Checks what can be told of any batch (produced, replicated, read from disk, compacted) without opening
    /// compressed records: the checksum, the codec, the count and the range of offsets.
    ///
    /// # Errors
    /// [`RecordError::Checksum`], [`RecordError::UnknownCompression`], [`RecordError::OffsetRange`],
    /// [`RecordError::RecordCount`].
    pub fn validate_header(&self) -> Result<(), RecordError> {
        self.validate_crc()?;
        let compression = self.compression()?;
        let count = self.record_count();
        let (base_offset, last_offset_delta) = (self.base_offset(), self.last_offset_delta());
        let past_the_end = i64::MAX - i64::from(last_offset_delta.max(0)) <= base_offset;
        // Compaction leaves fewer records than offsets, down to none, but never more.
        if base_offset < 0
            || last_offset_delta < 0
            || past_the_end
            || i64::from(count) > i64::from(last_offset_delta) + 1
        {
            return Err(RecordError::OffsetRange { base_offset, last_offset_delta, count });
        }
        let fits =
            |count: usize| compression != Compression::None || count <= self.body().len() / LEAST_RECORD;
        match usize::try_from(count) {
            Ok(count) if fits(count) => Ok(()),
            _ => Err(RecordError::RecordCount { count }),
        }
    }

    /// [`validate_header`](Self::validate_header) and the rules for what clients may send: records, one for
    /// every offset, from base offset 0; no control batch; a sequence if there is a producer id; a producer
    /// id if it is transactional; no zstd before version 7 of the request.
    ///
    /// # Errors
    /// Those of `validate_header`, and [`RecordError::ControlFromClient`], [`RecordError::BaseOffset`],
    /// [`RecordError::Sequence`], [`RecordError::TransactionalWithoutProducer`],
    /// [`RecordError::CompressionVersion`].
    pub fn validate_produce(&self, produce_version: i16) -> Result<(), RecordError> {
        self.validate_header()?;
        let (base_offset, count) = (self.base_offset(), self.record_count());
        if count == 0 {
            return Err(RecordError::RecordCount { count });
        }
        if self.last_offset_delta() != count - 1 {
            return Err(RecordError::OffsetRange {
                base_offset,
                last_offset_delta: self.last_offset_delta(),
                count,
            });
        }
        if base_offset != 0 {
            return Err(RecordError::BaseOffset { base_offset });
        }
        if self.is_control() {
            return Err(RecordError::ControlFromClient);
        }
        if self.has_producer_id() && self.base_sequence() < 0 {
            return Err(RecordError::Sequence {
                producer_id: self.producer_id(),
                base_sequence: self.base_sequence(),
            });
        }
        if self.is_transactional() && !self.has_producer_id() {
            return Err(RecordError::TransactionalWithoutProducer);
        }
        match self.compression()? {
            compression @ Compression::Zstd if produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD => {
                Err(RecordError::CompressionVersion { compression, version: produce_version })
            }
            _ => Ok(()),
        }
    }

    /// Opens the batch and checks every record: length, fields, number of records, and offsets that rise
    /// within the range of the batch (which makes them consecutive where there are as many records as
    /// offsets, as `validate_produce` demands). `limit_bytes` bounds the decompressed records.
    ///
    /// Does not include [`validate_header`](Self::validate_header): call that first.
    ///
    /// # Errors
    /// [`RecordError::Record`], [`RecordError::TrailingRecordBytes`], [`RecordError::RecordCount`],
    /// [`RecordError::UnknownCompression`], [`RecordError::Decompress`].
    pub fn validate_deep(&self, limit_bytes: usize) -> Result<RecordsSummary, RecordError> {
        let count = self.record_count();
        if count < 0 {
            return Err(RecordError::RecordCount { count });
        }
        let body = self.decompress(limit_bytes)?;
        let mut summary = RecordsSummary {
            min_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            offset_of_max_timestamp: -1,
            first_null_key_index: None,
            records_bytes: body.len(),
        };
        let mut last_delta = -1;
        for (index, record) in (0..).zip(self.records_in(&body)) {
            let record = record?;
            let offset_delta = record.offset_delta();
            if offset_delta <= last_delta || offset_delta > self.last_offset_delta() {
                return Err(RecordError::Record { index, fault: RecordFault::OffsetDelta { offset_delta } });
            }
            last_delta = offset_delta;
            if index == 0 || record.timestamp() < summary.min_timestamp {
                summary.min_timestamp = record.timestamp();
            }
            if index == 0 || record.timestamp() > summary.max_timestamp {
                summary.max_timestamp = record.timestamp();
                summary.offset_of_max_timestamp = record.offset();
            }
            if record.key().is_none() && summary.first_null_key_index.is_none() {
                summary.first_null_key_index = Some(index);
            }
        }
        Ok(summary)
    }
    /// The indexes of all records without a key, of a batch that [`validate_deep`](Self::validate_deep) found sound.
    ///
    /// # Errors
    /// As [`validate_deep`](Self::validate_deep).
    pub fn null_key_indexes(&self, limit_bytes: usize) -> Result<Vec<i32>, RecordError> {
        let body = self.decompress(limit_bytes)?;
        let mut indexes = Vec::new();
        for (index, record) in (0..).zip(self.records_in(&body)) {
            if record?.key().is_none() {
                indexes.push(index);
            }
        }
        Ok(indexes)
    }
}
