//! The header of a record batch (magic 2): the 61 bytes in front of the records. Owns the layout of the
//! fields and their meaning. Never looks at records and never computes a checksum.

use super::compression::Compression;
use super::error::RecordError;

/// Bytes of a batch up to its records.
pub const BATCH_OVERHEAD: usize = 61;
/// Bytes of a batch that the batch length field does not count: base offset and the length itself.
pub const LOG_OVERHEAD: usize = 12;
/// Bytes needed to tell the format and the size of a batch: up to and with the magic.
pub const MAGIC_END: usize = 17;
/// The only format that is read and written.
pub const MAGIC: i8 = 2;
/// Producer id of a batch of a producer that is neither idempotent nor transactional.
pub const NO_PRODUCER_ID: i64 = -1;
/// Producer epoch that goes with [`NO_PRODUCER_ID`].
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// Base sequence that goes with [`NO_PRODUCER_ID`].
pub const NO_SEQUENCE: i32 = -1;
/// Leader epoch of a batch that no leader has stamped.
pub const NO_LEADER_EPOCH: i32 = -1;
/// Timestamp of a batch or record that has none.
pub const NO_TIMESTAMP: i64 = -1;

/// Where the fields are.
pub(super) mod place {
    pub(crate) const BATCH_LENGTH: usize = 8;
    pub(crate) const LEADER_EPOCH: usize = 12;
    pub(crate) const MAGIC: usize = 16;
    pub(crate) const CRC: usize = 17;
    pub(crate) const ATTRIBUTES: usize = 21;
    pub(crate) const LAST_OFFSET_DELTA: usize = 23;
    pub(crate) const BASE_TIMESTAMP: usize = 27;
    pub(crate) const MAX_TIMESTAMP: usize = 35;
    pub(crate) const PRODUCER_ID: usize = 43;
    pub(crate) const PRODUCER_EPOCH: usize = 51;
    pub(crate) const BASE_SEQUENCE: usize = 53;
    pub(crate) const RECORD_COUNT: usize = 57;
}

/// Bits of the attributes.
pub(super) mod bits {
    pub(crate) const COMPRESSION: i16 = 0b111;
    pub(crate) const LOG_APPEND_TIME: i16 = 1 << 3;
    pub(crate) const TRANSACTIONAL: i16 = 1 << 4;
    pub(crate) const CONTROL: i16 = 1 << 5;
    pub(crate) const DELETE_HORIZON: i16 = 1 << 6;
}

/// What the timestamps of a batch mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TimestampType {
    /// The producer set them, record by record.
    #[default]
    CreateTime,
    /// The leader set one for the whole batch as it appended it.
    LogAppendTime,
}

/// The fields of a batch header, read once.
///
/// Existence of a value means: the magic is 2 and the batch length is at least that of a header. Nothing
/// else is checked here; see [`RecordBatch::validate_header`](super::RecordBatch::validate_header).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    base_offset: i64,
    batch_length: i32,
    leader_epoch: i32,
    crc: u32,
    attributes: i16,
    last_offset_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`; the records need not be there.
    ///
    /// # Errors
    /// [`RecordError::Truncated`], [`RecordError::BatchLength`], [`RecordError::OldFormat`],
    /// [`RecordError::UnknownMagic`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let size = batch_size(bytes)?;
        let Some(header) = bytes.first_chunk::<BATCH_OVERHEAD>() else {
            return Err(RecordError::Truncated { needed: size, available: bytes.len() });
        };
        Ok(Self {
            base_offset: i64::from_be_bytes(field(header, 0)),
            batch_length: i32::from_be_bytes(field(header, place::BATCH_LENGTH)),
            leader_epoch: i32::from_be_bytes(field(header, place::LEADER_EPOCH)),
            crc: u32::from_be_bytes(field(header, place::CRC)),
            attributes: i16::from_be_bytes(field(header, place::ATTRIBUTES)),
            last_offset_delta: i32::from_be_bytes(field(header, place::LAST_OFFSET_DELTA)),
            base_timestamp: i64::from_be_bytes(field(header, place::BASE_TIMESTAMP)),
            max_timestamp: i64::from_be_bytes(field(header, place::MAX_TIMESTAMP)),
            producer_id: i64::from_be_bytes(field(header, place::PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(field(header, place::PRODUCER_EPOCH)),
            base_sequence: i32::from_be_bytes(field(header, place::BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(field(header, place::RECORD_COUNT)),
        })
    }

    /// Offset of the first record (before compaction removed any).
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// Bytes of the whole batch, header included.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        LOG_OVERHEAD + usize::try_from(self.batch_length).expect("checked when the header was parsed")
    }

    /// Epoch of the leader that appended the batch.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Format of the batch: always 2.
    #[must_use]
    pub fn magic(&self) -> i8 {
        MAGIC
    }

    /// The stored CRC-32C of all bytes from the attributes on.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// All attribute bits.
    #[must_use]
    pub fn attributes(&self) -> i16 {
        self.attributes
    }

    /// Codec of the records.
    ///
    /// # Errors
    /// [`RecordError::UnknownCompression`] for the three values that no codec has.
    pub fn compression(&self) -> Result<Compression, RecordError> {
        let id = (self.attributes & bits::COMPRESSION) as u8;
        Compression::from_id(id).ok_or(RecordError::UnknownCompression { id })
    }

    /// What the timestamps mean.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & bits::LOG_APPEND_TIME != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & bits::TRANSACTIONAL != 0
    }

    /// Whether the batch holds control records, which consumers do not see.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & bits::CONTROL != 0
    }

    /// Whether the base timestamp is the time from which tombstones may be removed (KIP-534).
    #[must_use]
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & bits::DELETE_HORIZON != 0
    }

    /// Time from which tombstones and transaction markers of the batch may be removed, in ms, if set.
    #[must_use]
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// Last offset of the batch as a distance from the base offset.
    #[must_use]
    pub fn last_offset_delta(&self) -> i32 {
        self.last_offset_delta
    }

    /// Last offset of the batch (kept by compaction even if the record is gone). Saturates for fields that
    /// validation refuses.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Offset of the record after this batch.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Timestamp that the deltas of the records count from, in ms.
    #[must_use]
    pub fn base_timestamp(&self) -> i64 {
        self.base_timestamp
    }

    /// Largest timestamp of the records, or the append time, in ms. As the writer states it.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Producer id, or [`NO_PRODUCER_ID`].
    #[must_use]
    pub fn producer_id(&self) -> i64 {
        self.producer_id
    }

    /// Whether an idempotent or transactional producer wrote the batch.
    #[must_use]
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// Producer epoch, or [`NO_PRODUCER_EPOCH`].
    #[must_use]
    pub fn producer_epoch(&self) -> i16 {
        self.producer_epoch
    }

    /// Sequence of the first record, or [`NO_SEQUENCE`].
    #[must_use]
    pub fn base_sequence(&self) -> i32 {
        self.base_sequence
    }

    /// Sequence of the last record, or [`NO_SEQUENCE`]. After `i32::MAX` comes 0.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        increment_sequence(self.base_sequence, self.last_offset_delta)
    }

    /// Number of records, as the writer states it.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.record_count
    }
}

/// The sequence `increment` records after `sequence`; after `i32::MAX` comes 0. Meant for values that are
/// not negative; total for all.
#[must_use]
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    (i64::from(sequence) + i64::from(increment)).rem_euclid(1 << 31) as i32
}

/// Size in bytes of the batch at the front of `bytes`, from its first [`MAGIC_END`] bytes.
///
/// # Errors
/// As [`BatchHeader::parse`].
pub fn batch_size(bytes: &[u8]) -> Result<usize, RecordError> {
    let truncated = RecordError::Truncated { needed: BATCH_OVERHEAD, available: bytes.len() };
    let Some(prefix) = bytes.first_chunk::<LOG_OVERHEAD>() else { return Err(truncated) };
    let length = i32::from_be_bytes(field(prefix, place::BATCH_LENGTH));
    // The least that can hold a magic; what a header takes depends on the format.
    if length < (MAGIC_END - LOG_OVERHEAD) as i32 {
        return Err(RecordError::BatchLength { length });
    }
    let Some(magic) = bytes.get(place::MAGIC) else { return Err(truncated) };
    match magic.cast_signed() {
        MAGIC => {}
        magic @ 0..MAGIC => return Err(RecordError::OldFormat { magic }),
        magic => return Err(RecordError::UnknownMagic { magic }),
    }
    if length < (BATCH_OVERHEAD - LOG_OVERHEAD) as i32 {
        return Err(RecordError::BatchLength { length });
    }
    Ok(LOG_OVERHEAD + usize::try_from(length).expect("positive"))
}

fn field<const WIDTH: usize>(bytes: &[u8], place: usize) -> [u8; WIDTH] {
    *bytes[place..].first_chunk().expect("the caller has the bytes of the field")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap() {
        assert_eq!(increment_sequence(5, 3), 8);
        assert_eq!(increment_sequence(i32::MAX, 1), 0);
        assert_eq!(increment_sequence(i32::MAX - 1, 4), 2);
        assert_eq!(increment_sequence(i32::MAX, i32::MAX), i32::MAX - 1);
    }
}
