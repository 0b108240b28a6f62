//! Round trips, refusals, and the comparison with the independent crate kafka-protocol.

use super::*;
use crate::ErrorCode;
use bytes::{Bytes, BytesMut};
use kafka_protocol::records as oracle;
use proptest::prelude::*;

const LIMIT: usize = 16 << 20;

/// A record as plain data.
#[derive(Debug, Clone, PartialEq)]
struct Plain {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

fn nullable(length: usize) -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..length))
}

fn plain() -> impl Strategy<Value = Plain> {
    let headers = proptest::collection::vec(("[a-c]{0,2}", nullable(6)), 0..4);
    (0i64..1 << 45, nullable(20), nullable(200), headers).prop_map(|(timestamp, key, value, headers)| Plain {
        timestamp,
        key,
        value,
        headers,
    })
}

/// The settings of a batch.
#[derive(Debug, Clone)]
struct Settings {
    base_offset: i64,
    leader_epoch: i32,
    producer: Option<(i64, i16, i32)>,
    transactional: bool,
    control: bool,
    log_append_time: bool,
    compression: Compression,
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        0i64..1 << 60,
        -1..i32::MAX,
        proptest::option::of((0..i64::MAX, 0..i16::MAX, 0..1_000_000)),
        any::<[bool; 3]>(),
        proptest::sample::select(&Compression::ALL[..]),
    )
        .prop_map(|(base_offset, leader_epoch, producer, flags, compression)| Settings {
            base_offset,
            leader_epoch,
            producer,
            transactional: producer.is_some() && flags[0],
            control: flags[1],
            log_append_time: flags[2],
            compression,
        })
}

fn build(settings: &Settings, records: &[Plain]) -> Bytes {
    let mut builder = BatchBuilder::new()
        .base_offset(settings.base_offset)
        .leader_epoch(settings.leader_epoch)
        .transactional(settings.transactional)
        .control(settings.control);
    if let Some((id, epoch, sequence)) = settings.producer {
        builder = builder.producer(id, epoch, sequence);
    }
    if settings.log_append_time {
        builder = builder.timestamp_type(TimestampType::LogAppendTime);
    }
    for record in records {
        let headers: Vec<Header<'_>> = record
            .headers
            .iter()
            .map(|(key, value)| Header { key: key.as_bytes(), value: value.as_deref() })
            .collect();
        builder.add(record.timestamp, record.key.as_deref(), record.value.as_deref(), headers);
    }
    builder.build(settings.compression)
}

fn to_plain(record: &Record<'_>) -> Plain {
    Plain {
        timestamp: record.timestamp(),
        key: record.key().map(<[u8]>::to_vec),
        value: record.value().map(<[u8]>::to_vec),
        headers: record
            .headers()
            .map(|header| (header.key_text().into_owned(), header.value.map(<[u8]>::to_vec)))
            .collect(),
    }
}

fn produced() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.add(1000, Some(b"key"), Some(b"value"), []);
    builder.add(1001, None, Some(b"value"), [Header::new("a", b"1"), Header::new("a", b"2")]);
    builder.build(Compression::None).to_vec()
}

/// A valid produced batch, changed, with its checksum made right again.
fn changed(change: impl FnOnce(&mut [u8])) -> Bytes {
    let mut bytes = produced();
    change(&mut bytes);
    stamp::refresh_crc(&mut bytes);
    bytes.into()
}

#[test]
fn a_produced_batch_is_accepted() {
    let batch = produce_batch(&produced().into(), 3).unwrap();
    let summary = batch.validate_deep(0).unwrap();
    assert_eq!((summary.min_timestamp, summary.max_timestamp), (1000, 1001));
    assert_eq!(summary.offset_of_max_timestamp, 1);
    assert_eq!(summary.first_null_key_index, Some(1));
    assert_eq!(batch.null_key_indexes(0), Ok(vec![1]));
    assert_eq!(summary.records_bytes, batch.body().len());
    let records: Vec<_> = batch.records().unwrap().map(Result::unwrap).collect();
    let headers: Vec<_> = records[1].headers().map(|header| (header.key_text(), header.value)).collect();
    assert_eq!(headers, [("a".into(), Some(&b"1"[..])), ("a".into(), Some(&b"2"[..]))]);
}

#[test]
fn what_clients_may_not_send() {
    let refused = |bytes: Bytes| produce_batch(&bytes, 9).unwrap_err();
    let put = |place: usize, field: &'static [u8]| {
        changed(move |bytes| bytes[place..place + field.len()].copy_from_slice(field))
    };
    let last_offset_delta = 1;
    for (error, expected, code) in [
        (refused(Bytes::new()), RecordError::NoBatch, ErrorCode::INVALID_RECORD),
        (
            refused([produced(), produced()].concat().into()),
            RecordError::MoreThanOneBatch { bytes: produced().len() },
            ErrorCode::INVALID_RECORD,
        ),
        (refused(put(16, &[1])), RecordError::OldFormat { magic: 1 }, ErrorCode::INVALID_RECORD),
        (refused(put(16, &[3])), RecordError::UnknownMagic { magic: 3 }, ErrorCode::CORRUPT_MESSAGE),
        (
            refused(put(8, &[0, 0, 0, 48])),
            RecordError::BatchLength { length: 48 },
            ErrorCode::CORRUPT_MESSAGE,
        ),
        (refused(put(57, &[0; 4])), RecordError::RecordCount { count: 0 }, ErrorCode::INVALID_RECORD),
        (refused(put(57, &[0xff; 4])), RecordError::RecordCount { count: -1 }, ErrorCode::INVALID_RECORD),
        (
            refused(put(57, &[0, 0, 0, 1])),
            RecordError::OffsetRange { base_offset: 0, last_offset_delta, count: 1 },
            ErrorCode::INVALID_RECORD,
        ),
        (
            refused(put(57, &[0, 0, 0, 3])),
            RecordError::OffsetRange { base_offset: 0, last_offset_delta, count: 3 },
            ErrorCode::INVALID_RECORD,
        ),
        (
            refused(put(0, &[0xff; 8])),
            RecordError::OffsetRange { base_offset: -1, last_offset_delta, count: 2 },
            ErrorCode::INVALID_RECORD,
        ),
        (
            refused(put(0, &[0, 0, 0, 0, 0, 0, 0, 9])),
            RecordError::BaseOffset { base_offset: 9 },
            ErrorCode::INVALID_RECORD,
        ),
        (refused(put(21, &[0, 0x20])), RecordError::ControlFromClient, ErrorCode::INVALID_RECORD),
        (refused(put(21, &[0, 0x10])), RecordError::TransactionalWithoutProducer, ErrorCode::INVALID_RECORD),
        (
            refused(put(21, &[0, 5])),
            RecordError::UnknownCompression { id: 5 },
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        ),
        (
            refused(put(43, &[0, 0, 0, 0, 0, 0, 0, 8])),
            RecordError::Sequence { producer_id: 8, base_sequence: -1 },
            ErrorCode::INVALID_RECORD,
        ),
    ] {
        assert_eq!(error, expected);
        assert_eq!(error.error_code(), code, "{error}");
    }
    let mut damaged = produced();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(refused(damaged.into()), RecordError::Checksum { .. }));
}

#[test]
fn zstd_needs_a_recent_request() {
    let mut builder = BatchBuilder::new();
    builder.add(0, None, Some(b"value"), []);
    let bytes = builder.build(Compression::Zstd);
    assert!(produce_batch(&bytes, 7).is_ok());
    let error = produce_batch(&bytes, 6).unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
}

#[test]
fn a_count_that_the_bytes_cannot_hold_is_refused_without_reading_them() {
    let bytes = changed(|bytes| {
        bytes[23..27].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
        bytes[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
    });
    assert_eq!(produce_batch(&bytes, 9), Err(RecordError::RecordCount { count: i32::MAX }));
}

#[test]
fn deep_validation_finds_what_the_header_hides() {
    let deep = |bytes: Bytes| {
        let batch = RecordBatch::parse(bytes).unwrap();
        batch.validate_header().unwrap();
        batch.validate_deep(LIMIT).unwrap_err()
    };
    // First record: length, attributes, timestamp delta, offset delta, key length.
    let first = BATCH_OVERHEAD;
    assert_eq!(
        deep(changed(|bytes| bytes[first + 3] = 4)),
        RecordError::Record { index: 0, fault: RecordFault::OffsetDelta { offset_delta: 2 } }
    );
    assert_eq!(
        deep(changed(|bytes| bytes[first + 3] = 2)),
        RecordError::Record { index: 1, fault: RecordFault::OffsetDelta { offset_delta: 1 } }
    );
    assert_eq!(
        deep(changed(|bytes| bytes[first + 4] = 3)),
        RecordError::Record { index: 0, fault: RecordFault::Length { length: -2 } }
    );
    assert!(matches!(deep(changed(|bytes| bytes[first] += 2)), RecordError::Record { .. }));
    assert_eq!(
        deep(changed(|bytes| bytes[first] -= 2)),
        RecordError::Record { index: 0, fault: RecordFault::Truncated { needed: 1, available: 0 } }
    );
    // One record fewer than there are, where compaction could have left a gap.
    assert!(matches!(
        deep(changed(|bytes| bytes[57..61].copy_from_slice(&1i32.to_be_bytes()))),
        RecordError::TrailingRecordBytes { .. }
    ));
}

#[test]
fn compaction_keeps_gaps_timestamps_and_headers() {
    let source = produced();
    let source = RecordBatch::parse(&source[..]).unwrap();
    let mut builder = BatchBuilder::new().base_offset(40).delete_horizon_ms(990);
    builder.add_record(&source.records().unwrap().nth(1).unwrap().unwrap());
    let kept = RecordBatch::parse(builder.last_offset_delta(5).build(Compression::Gzip)).unwrap();
    kept.validate_header().unwrap();
    kept.validate_deep(LIMIT).unwrap();
    assert_eq!(kept.delete_horizon_ms(), Some(990));
    assert_eq!((kept.base_offset(), kept.last_offset(), kept.record_count()), (40, 45, 1));
    let body = kept.decompress(LIMIT).unwrap();
    let record = kept.records_in(&body).next().unwrap().unwrap();
    assert_eq!((record.offset(), record.timestamp()), (41, 1001));
    assert_eq!(record.headers().count(), 2);
    let empty = BatchBuilder::new().base_offset(9).last_offset_delta(3).build(Compression::None);
    let empty = RecordBatch::parse(empty).unwrap();
    empty.validate_header().unwrap();
    assert_eq!(empty.validate_deep(LIMIT).unwrap().records_bytes, 0);
    assert!(empty.validate_produce(9).is_err());
}

/// Calls all there is on bytes that may be anything.
fn exercise(bytes: &Bytes) {
    let _ = produce_batch(bytes, 9);
    let _ = BatchHeader::parse(bytes);
    for batch in split_batches(bytes).flatten() {
        let _ = batch.validate_header();
        let _ = batch.validate_produce(9);
        let _ = batch.validate_deep(1 << 20);
        let _ = (batch.last_offset(), batch.next_offset(), batch.last_sequence(), batch.delete_horizon_ms());
        let _ = EndTransactionMarker::from_batch(&batch);
        if let Ok(body) = batch.decompress(1 << 20) {
            for record in batch.records_in(&body).flatten() {
                let _ = to_plain(&record);
            }
        }
        let mut writable = RecordBatch::parse(batch.as_bytes().to_vec()).unwrap();
        writable.stamp(5, 6);
        writable.set_log_append_time(7);
        writable.validate_crc().unwrap();
        assert_eq!(stamped_header(&batch, 5, 6, Some(7)), writable.as_bytes()[..BATCH_OVERHEAD]);
    }
    assert_eq!(split_batches(bytes).count(), split_views(bytes).count());
}

fn to_oracle(settings: &Settings, index: usize, record: &Plain) -> oracle::Record {
    let (producer_id, producer_epoch, base_sequence) = settings.producer.unwrap_or((-1, -1, -1));
    oracle::Record {
        transactional: settings.transactional,
        control: settings.control,
        delete_horizon: false,
        partition_leader_epoch: settings.leader_epoch,
        producer_id,
        producer_epoch,
        timestamp_type: if settings.log_append_time {
            oracle::TimestampType::LogAppend
        } else {
            oracle::TimestampType::Creation
        },
        offset: settings.base_offset + index as i64,
        sequence: base_sequence.wrapping_add(index as i32),
        timestamp: record.timestamp,
        key: record.key.clone().map(Into::into),
        value: record.value.clone().map(Into::into),
        headers: record
            .headers
            .iter()
            .map(|(key, value)| {
                (kafka_protocol::protocol::StrBytes::from(key.clone()), value.clone().map(Into::into))
            })
            .collect(),
    }
}

fn oracle_compression(compression: Compression) -> oracle::Compression {
    match compression {
        Compression::None => oracle::Compression::None,
        Compression::Gzip => oracle::Compression::Gzip,
        Compression::Snappy => oracle::Compression::Snappy,
        Compression::Lz4 => oracle::Compression::Lz4,
        Compression::Zstd => oracle::Compression::Zstd,
    }
}

/// The other crate keeps headers in a map: it cannot hold a key twice.
fn without_repeated_headers(records: &mut [Plain]) {
    for record in records {
        let mut seen = std::collections::BTreeSet::new();
        record.headers.retain(|(key, _)| seen.insert(key.clone()));
    }
}

proptest! {
    #[test]
    fn what_is_built_is_read(
        settings in settings(),
        mut records in proptest::collection::vec(plain(), 1..30),
    ) {
        let batch = RecordBatch::parse(build(&settings, &records)).unwrap();
        batch.validate_header().unwrap();
        let summary = batch.validate_deep(LIMIT).unwrap();
        let newest = records.iter().map(|record| record.timestamp).max().unwrap();
        prop_assert_eq!(summary.max_timestamp, newest);
        prop_assert_eq!(batch.max_timestamp(), newest);
        let body = batch.decompress(LIMIT).unwrap();
        let read: Vec<_> = batch.records_in(&body).map(Result::unwrap).collect();
        if settings.log_append_time {
            records.iter_mut().for_each(|record| record.timestamp = newest);
        }
        prop_assert_eq!(read.iter().map(to_plain).collect::<Vec<_>>(), records);
        for (index, record) in read.iter().enumerate() {
            prop_assert_eq!(record.offset(), settings.base_offset + index as i64);
        }
    }

    #[test]
    fn what_is_built_is_read_by_the_other_crate(
        settings in settings(),
        mut records in proptest::collection::vec(plain(), 1..20),
    ) {
        without_repeated_headers(&mut records);
        let mut bytes = build(&settings, &records);
        let decoded = oracle::RecordBatchDecoder::decode(&mut bytes).unwrap();
        prop_assert_eq!(decoded.compression, oracle_compression(settings.compression));
        prop_assert_eq!(decoded.records.len(), records.len());
        for (index, (theirs, ours)) in decoded.records.iter().zip(&records).enumerate() {
            prop_assert_eq!(theirs, &to_oracle(&settings, index, ours));
        }
    }

    #[test]
    fn what_the_other_crate_builds_is_read(
        settings in settings(),
        mut records in proptest::collection::vec(plain(), 1..20),
    ) {
        // It never writes the flag of the append time.
        let settings = Settings { log_append_time: false, ..settings };
        without_repeated_headers(&mut records);
        let theirs: Vec<_> =
            records.iter().enumerate().map(|(index, record)| to_oracle(&settings, index, record)).collect();
        let mut bytes = BytesMut::new();
        let options =
            oracle::RecordEncodeOptions { version: 2, compression: oracle_compression(settings.compression) };
        oracle::RecordBatchEncoder::encode(&mut bytes, &theirs, &options).unwrap();
        let mut index = 0;
        // Without a producer it makes one batch for each record, as their sequences do not follow.
        for batch in split_batches(&bytes.freeze()) {
            let batch = batch.unwrap();
            batch.validate_header().unwrap();
            batch.validate_deep(LIMIT).unwrap();
            prop_assert_eq!(batch.compression(), Ok(settings.compression));
            prop_assert_eq!(batch.leader_epoch(), settings.leader_epoch);
            prop_assert_eq!(batch.is_control(), settings.control);
            prop_assert_eq!(batch.is_transactional(), settings.transactional);
            prop_assert_eq!(batch.producer_id(), theirs[0].producer_id);
            let body = batch.decompress(LIMIT).unwrap();
            for record in batch.records_in(&body) {
                let record = record.unwrap();
                prop_assert_eq!(record.offset(), theirs[index].offset);
                prop_assert_eq!(&to_plain(&record), &records[index]);
                index += 1;
            }
        }
        prop_assert_eq!(index, records.len());
    }

    #[test]
    fn damaged_batches_never_panic(
        settings in settings(),
        records in proptest::collection::vec(plain(), 0..6),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
        make_checksum_right in any::<bool>(),
    ) {
        let mut bytes = build(&settings, &records).to_vec();
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if make_checksum_right {
            stamp::refresh_crc(&mut bytes);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        exercise(&bytes.into());
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes.into());
    }
}
