//! Writing of record batches: for producers, compaction, transaction markers and tests. Owns the encoding of
//! a record. Records are encoded once, as they are added; `build` compresses, adds the header and the
//! checksum.

use super::compression::Compression;
use super::header::{
    BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC, NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    NO_TIMESTAMP, TimestampType, bits,
};
use super::iterate::{Header, Record};
use super::stamp::refresh_crc;
use super::varint::{put_varint, varint_size};
use bytes::{BufMut, Bytes, BytesMut};

/// Builds one record batch.
///
/// ```
/// use sillon_protocol::records::{BatchBuilder, Compression, Header, RecordBatch};
/// let mut builder = BatchBuilder::new();
/// builder.add(1_700_000_000_000, Some(b"key"), Some(b"value"), [Header::new("trace", b"17")]);
/// let batch = RecordBatch::parse(builder.build(Compression::Lz4)).unwrap();
/// assert_eq!(batch.record_count(), 1);
/// ```
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    base_offset: i64,
    leader_epoch: i32,
    /// All bits but those of the compression.
    attributes: i16,
    /// Set with the first record, or before.
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    record_count: i32,
    last_offset_delta: i32,
    /// Room for the header, and the records. The room saves a copy where nothing is compressed.
    buffer: BytesMut,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// A batch without records, at base offset 0, of no producer id, with create time.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// As [`new`](Self::new), with room for `records_bytes` bytes of records.
    #[must_use]
    pub fn with_capacity(records_bytes: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(BATCH_OVERHEAD + records_bytes);
        buffer.put_bytes(0, BATCH_OVERHEAD);
        Self {
            base_offset: 0,
            leader_epoch: NO_LEADER_EPOCH,
            attributes: 0,
            base_timestamp: None,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
            last_offset_delta: -1,
            buffer,
        }
    }

    /// Sets the base offset. Producers leave it 0.
    #[must_use]
    pub fn base_offset(mut self, base_offset: i64) -> Self {
        self.base_offset = base_offset;
        self
    }

    /// Sets the leader epoch. Producers leave it -1.
    #[must_use]
    pub fn leader_epoch(mut self, leader_epoch: i32) -> Self {
        self.leader_epoch = leader_epoch;
        self
    }

    /// Makes the batch one of an idempotent or transactional producer.
    #[must_use]
    pub fn producer(mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        self.producer_id = producer_id;
        self.producer_epoch = producer_epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Sets whether the batch is part of a transaction.
    #[must_use]
    pub fn transactional(mut self, transactional: bool) -> Self {
        self.set(bits::TRANSACTIONAL, transactional);
        self
    }

    /// Sets whether the batch holds control records.
    #[must_use]
    pub fn control(mut self, control: bool) -> Self {
        self.set(bits::CONTROL, control);
        self
    }

    /// Sets what the timestamps mean.
    #[must_use]
    pub fn timestamp_type(mut self, timestamp_type: TimestampType) -> Self {
        self.set(bits::LOG_APPEND_TIME, timestamp_type == TimestampType::LogAppendTime);
        self
    }

    /// Sets the time from which tombstones may be removed (KIP-534); it takes the place of the base
    /// timestamp.
    ///
    /// # Panics
    /// If records were added already: their timestamps count from the base timestamp.
    #[must_use]
    pub fn delete_horizon_ms(mut self, timestamp_ms: i64) -> Self {
        assert_eq!(self.record_count, 0, "the delete horizon is set before records are added");
        self.set(bits::DELETE_HORIZON, true);
        self.base_timestamp = Some(timestamp_ms);
        self
    }

    /// Sets the last offset delta, where compaction removed the last records.
    ///
    /// # Panics
    /// If a record was added at a higher one.
    #[must_use]
    pub fn last_offset_delta(mut self, last_offset_delta: i32) -> Self {
        assert!(last_offset_delta >= self.last_offset_delta, "records were added past {last_offset_delta}");
        self.last_offset_delta = last_offset_delta;
        self
    }

    fn set(&mut self, bit: i16, on: bool) {
        if on {
            self.attributes |= bit;
        } else {
            self.attributes &= !bit;
        }
    }

    /// Number of records added.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Size of the batch in bytes if it is built without compression now.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Adds a record at the next offset. `timestamp_ms` is its create time.
    ///
    /// # Panics
    /// If the batch would pass 2 GiB, which its size field cannot say.
    pub fn add<'h, H>(&mut self, timestamp_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>, headers: H)
    where
        H: IntoIterator<Item = Header<'h>, IntoIter: ExactSizeIterator + Clone>,
    {
        let offset_delta = self.last_offset_delta.checked_add(1).expect("a batch holds at most 2^31 records");
        self.add_at(offset_delta, timestamp_ms, key, value, headers);
    }

    /// Adds a record at a distance from the base offset: for batches with gaps, as compaction leaves them.
    ///
    /// # Panics
    /// If `offset_delta` is not above the one before, and as [`add`](Self::add).
    pub fn add_at<'h, H>(
        &mut self,
        offset_delta: i32,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: H,
    ) where
        H: IntoIterator<Item = Header<'h>, IntoIter: ExactSizeIterator + Clone>,
    {
        assert!(offset_delta > self.last_offset_delta, "offsets of a batch rise");
        let base_timestamp = *self.base_timestamp.get_or_insert(timestamp_ms);
        let timestamp_delta = timestamp_ms.wrapping_sub(base_timestamp);
        let headers = headers.into_iter();
        let header_count = i64::try_from(headers.len()).expect("a length fits 63 bits");
        let size = 1
            + varint_size(timestamp_delta)
            + varint_size(i64::from(offset_delta))
            + nullable_size(key)
            + nullable_size(value)
            + varint_size(header_count)
            + headers
                .clone()
                .map(|header| nullable_size(Some(header.key)) + nullable_size(header.value))
                .sum::<usize>();
        assert!(self.buffer.len() + size + 5 <= i32::MAX as usize, "a batch is at most 2 GiB");
        self.buffer.reserve(size + 5);
        put_varint(&mut self.buffer, length(size));
        let start = self.buffer.len();
        self.buffer.put_u8(0);
        put_varint(&mut self.buffer, timestamp_delta);
        put_varint(&mut self.buffer, i64::from(offset_delta));
        put_nullable(&mut self.buffer, key);
        put_nullable(&mut self.buffer, value);
        put_varint(&mut self.buffer, header_count);
        for header in headers {
            put_nullable(&mut self.buffer, Some(header.key));
            put_nullable(&mut self.buffer, header.value);
        }
        assert_eq!(self.buffer.len() - start, size, "the record is as long as was computed");
        self.max_timestamp =
            if self.record_count == 0 { timestamp_ms } else { self.max_timestamp.max(timestamp_ms) };
        self.record_count += 1;
        self.last_offset_delta = offset_delta;
    }

    /// Adds a record of another batch at the same distance from the base offset, with its timestamp and
    /// headers.
    ///
    /// # Panics
    /// As [`add_at`](Self::add_at).
    pub fn add_record(&mut self, record: &Record<'_>) {
        self.add_at(
            record.offset_delta(),
            record.timestamp(),
            record.key(),
            record.value(),
            record.headers(),
        );
    }

    /// The batch. Batches of compaction and tests may have no records; the largest timestamp is then -1.
    ///
    /// # Panics
    /// If a codec makes more than 2 GiB of it.
    #[must_use]
    pub fn build(mut self, compression: Compression) -> Bytes {
        let mut batch = match compression {
            Compression::None => std::mem::take(&mut self.buffer),
            codec => {
                let body = codec.compress(&self.buffer[BATCH_OVERHEAD..]);
                let mut batch = BytesMut::with_capacity(BATCH_OVERHEAD + body.len());
                batch.put_bytes(0, BATCH_OVERHEAD);
                batch.put_slice(&body);
                batch
            }
        };
        self.put_header(&mut batch, compression);
        batch.freeze()
    }

    fn put_header(&self, batch: &mut [u8], compression: Compression) {
        let batch_length = i32::try_from(batch.len() - LOG_OVERHEAD).expect("a batch is at most 2 GiB");
        let mut header = &mut batch[..BATCH_OVERHEAD];
        header.put_i64(self.base_offset);
        header.put_i32(batch_length);
        header.put_i32(self.leader_epoch);
        header.put_i8(MAGIC);
        header.put_u32(0);
        header.put_i16(self.attributes | i16::from(compression.id()));
        header.put_i32(self.last_offset_delta);
        header.put_i64(self.base_timestamp.unwrap_or(NO_TIMESTAMP));
        header.put_i64(self.max_timestamp);
        header.put_i64(self.producer_id);
        header.put_i16(self.producer_epoch);
        header.put_i32(self.base_sequence);
        header.put_i32(self.record_count);
        assert!(header.is_empty(), "the header is as long as it is");
        refresh_crc(batch);
    }
}

fn length(length: usize) -> i64 {
    i64::try_from(length).expect("a length fits 63 bits")
}

fn nullable_size(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint_size(length(bytes.len())) + bytes.len())
}

fn put_nullable(buffer: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(buffer, -1),
        Some(bytes) => {
            put_varint(buffer, length(bytes.len()));
            buffer.put_slice(bytes);
        }
    }
}
