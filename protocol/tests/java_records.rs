//! Batches that Kafka's Java client wrote are read as it meant them.

use sillon_protocol::records::{Compression, RecordBatch, TimestampType};

fn from_hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "two digits make a byte");
    (0..text.len()).step_by(2).map(|place| u8::from_str_radix(&text[place..place + 2], 16).unwrap()).collect()
}

#[test]
fn every_codec_of_java_is_read() {
    let lines = include_str!("data/java_batches.txt").lines().filter(|line| !line.starts_with('#'));
    let mut codecs = Vec::new();
    for line in lines {
        let (name, hex) = line.split_once(' ').unwrap();
        let compression = Compression::from_name(name).unwrap();
        codecs.push(compression);
        let batch = RecordBatch::parse(from_hex(hex)).unwrap();
        batch.validate_header().unwrap();
        assert_eq!(batch.compression(), Ok(compression));
        assert_eq!((batch.base_offset(), batch.last_offset(), batch.leader_epoch()), (5, 7, 3));
        assert_eq!((batch.producer_id(), batch.producer_epoch()), (4000, 7));
        assert_eq!((batch.base_sequence(), batch.last_sequence()), (11, 13));
        assert!(batch.is_transactional() && !batch.is_control());
        assert_eq!(batch.timestamp_type(), TimestampType::CreateTime);
        let summary = batch.validate_deep(1 << 10).unwrap();
        assert_eq!(summary.max_timestamp, batch.max_timestamp());
        assert_eq!(summary.first_null_key_index, Some(0));
        let body = batch.decompress(1 << 10).unwrap();
        let records: Vec<_> = batch.records_in(&body).map(Result::unwrap).collect();
        assert_eq!(records.len(), 3);
        for (index, record) in (0i64..).zip(&records) {
            assert_eq!((record.offset(), record.timestamp()), (5 + index, 1_700_000_000_000 + 2 * index));
            let key = (index > 0).then(|| format!("key{index}"));
            assert_eq!(record.key(), key.as_ref().map(String::as_bytes));
            assert_eq!(record.value(), Some(format!("value number {index} ").as_bytes()));
            let headers: Vec<_> = record.headers().map(|header| (header.key, header.value)).collect();
            let expected = [(&b"h"[..], Some(&b"1"[..])), (b"h", None)];
            assert_eq!(headers, if index == 1 { &expected[..] } else { &[] });
        }
    }
    assert_eq!(codecs, Compression::ALL);
}
