//! What a leader writes into a batch that it appends: base offset, leader epoch, append time. In place, or
//! as a new header in front of the untouched records, for a vectored write. Owns the rule which of it the
//! checksum covers (from the attributes on). Never touches records.

use super::batch::RecordBatch;
use super::crc::{crc32c, crc32c_of_parts};
use super::header::{BATCH_OVERHEAD, BatchHeader, NO_LEADER_EPOCH, bits, place};

/// Bytes of [`stamped_prefix`]: base offset, batch length, leader epoch.
pub const STAMPED_PREFIX: usize = place::MAGIC;

/// Writes base offset and leader epoch into the bytes of a batch. The checksum does not cover them.
///
/// # Panics
/// If `batch` is shorter than a header, `base_offset` negative or `leader_epoch` below -1.
pub fn stamp(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
    assert!(batch.len() >= BATCH_OVERHEAD, "only a parsed batch can be stamped");
    let prefix = stamped_prefix(batch, base_offset, leader_epoch);
    batch[..STAMPED_PREFIX].copy_from_slice(&prefix);
}

/// The first [`STAMPED_PREFIX`] bytes of `batch` as [`stamp`] would leave them: written before
/// `batch[STAMPED_PREFIX..]`, they give the stamped batch without a copy.
///
/// # Panics
/// As [`stamp`].
#[must_use]
pub fn stamped_prefix(batch: &[u8], base_offset: i64, leader_epoch: i32) -> [u8; STAMPED_PREFIX] {
    assert!(base_offset >= 0, "a log has no negative offsets: {base_offset}");
    assert!(leader_epoch >= NO_LEADER_EPOCH, "no leader has the epoch {leader_epoch}");
    let mut prefix: [u8; STAMPED_PREFIX] =
        *batch.first_chunk().expect("only a parsed batch can be stamped, and it is longer than this");
    prefix[..place::BATCH_LENGTH].copy_from_slice(&base_offset.to_be_bytes());
    prefix[place::LEADER_EPOCH..].copy_from_slice(&leader_epoch.to_be_bytes());
    prefix
}

/// The whole header of `batch` as [`stamp`] and then, if a time is given, [`set_log_append_time`] would leave
/// it. The records follow it unchanged. With a time, the checksum is computed anew over the records.
///
/// # Panics
/// As [`stamp`].
#[must_use]
pub fn stamped_header<B: AsRef<[u8]>>(
    batch: &RecordBatch<B>,
    base_offset: i64,
    leader_epoch: i32,
    log_append_time_ms: Option<i64>,
) -> [u8; BATCH_OVERHEAD] {
    let mut header: [u8; BATCH_OVERHEAD] =
        *batch.as_bytes().first_chunk().expect("a parsed batch has a whole header");
    stamp(&mut header, base_offset, leader_epoch);
    if let Some(timestamp_ms) = log_append_time_ms {
        set_timestamp(&mut header, batch.attributes() | bits::LOG_APPEND_TIME, timestamp_ms);
        let crc = crc32c_of_parts(&[&header[place::ATTRIBUTES..], batch.body()]);
        header[place::CRC..place::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    }
    header
}

/// Makes the batch one of this producer, from this sequence number on, and computes the checksum anew: what a producer does
/// to a batch that goes out again under a new epoch.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_producer(batch: &mut [u8], producer_id: i64, producer_epoch: i16, base_sequence: i32) {
    assert!(batch.len() >= BATCH_OVERHEAD, "only a parsed batch can be changed");
    batch[place::PRODUCER_ID..place::PRODUCER_EPOCH].copy_from_slice(&producer_id.to_be_bytes());
    batch[place::PRODUCER_EPOCH..place::BASE_SEQUENCE].copy_from_slice(&producer_epoch.to_be_bytes());
    batch[place::BASE_SEQUENCE..place::RECORD_COUNT].copy_from_slice(&base_sequence.to_be_bytes());
    refresh_crc(batch);
}

/// Gives all records of the batch the append time `timestamp_ms`, and computes the checksum anew.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_log_append_time(batch: &mut [u8], timestamp_ms: i64) {
    let attributes = attributes_of(batch) | bits::LOG_APPEND_TIME;
    set_timestamp(batch, attributes, timestamp_ms);
    refresh_crc(batch);
}

/// Corrects the largest timestamp of a batch whose records carry their create time, and computes the
/// checksum anew. Kafka's broker does so where the header does not agree with the records.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_max_timestamp(batch: &mut [u8], timestamp_ms: i64) {
    let attributes = attributes_of(batch) & !bits::LOG_APPEND_TIME;
    set_timestamp(batch, attributes, timestamp_ms);
    refresh_crc(batch);
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> RecordBatch<B> {
    /// [`stamp`] on this batch.
    ///
    /// # Panics
    /// As [`stamp`].
    pub fn stamp(&mut self, base_offset: i64, leader_epoch: i32) {
        stamp(self.bytes.as_mut(), base_offset, leader_epoch);
        self.reread_header();
    }

    /// [`set_log_append_time`] on this batch.
    pub fn set_log_append_time(&mut self, timestamp_ms: i64) {
        set_log_append_time(self.bytes.as_mut(), timestamp_ms);
        self.reread_header();
    }

    /// [`set_max_timestamp`] on this batch.
    pub fn set_max_timestamp(&mut self, timestamp_ms: i64) {
        set_max_timestamp(self.bytes.as_mut(), timestamp_ms);
        self.reread_header();
    }

    fn reread_header(&mut self) {
        self.header = BatchHeader::parse(self.bytes.as_ref()).expect("stamping keeps length and magic");
    }
}

fn attributes_of(batch: &[u8]) -> i16 {
    assert!(batch.len() >= BATCH_OVERHEAD, "only a parsed batch can be changed");
    i16::from_be_bytes([batch[place::ATTRIBUTES], batch[place::ATTRIBUTES + 1]])
}

fn set_timestamp(batch: &mut [u8], attributes: i16, timestamp_ms: i64) {
    batch[place::ATTRIBUTES..place::LAST_OFFSET_DELTA].copy_from_slice(&attributes.to_be_bytes());
    batch[place::MAX_TIMESTAMP..place::PRODUCER_ID].copy_from_slice(&timestamp_ms.to_be_bytes());
}

/// Computes the checksum of the batch and writes it.
pub(super) fn refresh_crc(batch: &mut [u8]) {
    let crc = crc32c(&batch[place::ATTRIBUTES..]);
    batch[place::CRC..place::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{BatchBuilder, Compression, TimestampType};

    fn sample() -> RecordBatch<Vec<u8>> {
        let mut builder = BatchBuilder::new();
        builder.add(500, Some(b"key"), Some(b"value"), []);
        builder.add(400, None, Some(b"other"), []);
        RecordBatch::parse(builder.build(Compression::None).to_vec()).unwrap()
    }

    #[test]
    fn stamping_keeps_the_checksum() {
        let mut batch = sample();
        let before = batch.clone();
        batch.stamp(1_000_000, 17);
        assert_eq!(
            (batch.base_offset(), batch.leader_epoch(), batch.last_offset()),
            (1_000_000, 17, 1_000_001)
        );
        batch.validate_header().unwrap();
        assert_eq!(batch.as_bytes()[STAMPED_PREFIX..], before.as_bytes()[STAMPED_PREFIX..]);
        assert_eq!(stamped_prefix(before.as_bytes(), 1_000_000, 17), batch.as_bytes()[..STAMPED_PREFIX]);
        assert_eq!(stamped_header(&before, 1_000_000, 17, None), batch.as_bytes()[..BATCH_OVERHEAD]);
    }

    #[test]
    fn append_time_replaces_the_time_of_every_record() {
        let mut batch = sample();
        let before = batch.clone();
        batch.stamp(9, 2);
        batch.set_log_append_time(77_000);
        batch.validate_header().unwrap();
        assert_eq!(batch.timestamp_type(), TimestampType::LogAppendTime);
        assert_eq!(batch.max_timestamp(), 77_000);
        let times: Vec<_> = batch.records().unwrap().map(|record| record.unwrap().timestamp()).collect();
        assert_eq!(times, [77_000, 77_000]);
        assert_eq!(stamped_header(&before, 9, 2, Some(77_000)), batch.as_bytes()[..BATCH_OVERHEAD]);
    }

    #[test]
    fn a_batch_goes_out_again_under_a_new_epoch() {
        let mut bytes = sample().into_bytes();
        set_producer(&mut bytes, 900, 4, 17);
        let batch = RecordBatch::parse(bytes).unwrap();
        batch.validate_header().unwrap();
        assert_eq!((batch.producer_id(), batch.producer_epoch()), (900, 4));
        assert_eq!((batch.base_sequence(), batch.record_count()), (17, 2));
    }

    #[test]
    fn the_largest_timestamp_can_be_corrected() {
        let mut batch = sample();
        batch.set_max_timestamp(123);
        assert_eq!(batch.max_timestamp(), 123);
        batch.validate_header().unwrap();
        batch.set_max_timestamp(500);
        assert_eq!(batch, sample());
    }

    #[test]
    #[should_panic(expected = "no negative offsets")]
    fn a_negative_offset_is_never_stamped() {
        sample().stamp(-1, 0);
    }
}
