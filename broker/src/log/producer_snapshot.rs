//! The producer table on disk (`.snapshot`). Owns Kafka's format, version 1; never a rule about producers.
//!
//! Big-endian: version (2), CRC-32C of everything behind it (4), number of entries (4), and per entry: producer id
//! (8), producer epoch (2), last sequence (4), last offset (8), offset delta (4), time stamp (8), coordinator epoch
//! (4), first offset of the open transaction (8). Of a producer's batches only the last one is kept.

use super::producer_state::{BatchMetadata, ProducerEntry, ProducerStates};
use crate::types::{Offset, ProducerId};
use bytes::{Buf, BufMut};
use sillon_protocol::records::{NO_SEQUENCE, crc32c};
use sillon_runtime::Monotonic;
use std::collections::VecDeque;

const VERSION: i16 = 1;
const HEADER_BYTES: usize = 10;
const CRC_FROM: usize = 6;
const ENTRY_BYTES: usize = 46;

/// The bytes are not a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SnapshotError {
    /// Shorter or longer than its number of entries says.
    #[error("its length does not fit its number of entries")]
    Length,
    /// Another format.
    #[error("unknown version {0}")]
    Version(i16),
    /// Damaged.
    #[error("its checksum does not match")]
    Checksum,
    /// The checksum matches, the content makes no sense.
    #[error("an entry is invalid")]
    Entry,
}

/// The table as it is stored.
pub(super) fn encode(states: &ProducerStates) -> Vec<u8> {
    let entries = states.iter();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    bytes.put_i16(VERSION);
    bytes.put_u32(0);
    bytes.put_i32(i32::try_from(entries.len()).expect("fewer producers than 2^31"));
    for (producer_id, entry) in entries {
        let last = entry.batches.back();
        bytes.put_i64(producer_id.0);
        bytes.put_i16(entry.producer_epoch);
        bytes.put_i32(last.map_or(NO_SEQUENCE, |batch| batch.last_sequence));
        bytes.put_i64(last.map_or(-1, |batch| batch.last_offset.0));
        bytes.put_i32(last.map_or(0, |batch| batch.offset_delta));
        bytes.put_i64(entry.last_timestamp_ms);
        bytes.put_i32(entry.coordinator_epoch);
        bytes.put_i64(entry.transaction_start.map_or(-1, |offset| offset.0));
    }
    let crc = crc32c(&bytes[CRC_FROM..]);
    bytes[2..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// The table that `bytes` hold. Its producers count as having written `now`.
pub(super) fn decode(mut bytes: &[u8], now: Monotonic) -> Result<ProducerStates, SnapshotError> {
    if bytes.len() < HEADER_BYTES {
        return Err(SnapshotError::Length);
    }
    let covered = &bytes[CRC_FROM..];
    let version = bytes.get_i16();
    if version != VERSION {
        return Err(SnapshotError::Version(version));
    }
    if bytes.get_u32() != crc32c(covered) {
        return Err(SnapshotError::Checksum);
    }
    let count = usize::try_from(bytes.get_i32()).map_err(|_| SnapshotError::Length)?;
    if count.checked_mul(ENTRY_BYTES) != Some(bytes.len()) {
        return Err(SnapshotError::Length);
    }
    let mut states = ProducerStates::default();
    for _ in 0..count {
        let (producer_id, entry) = decode_entry(&mut bytes, now).ok_or(SnapshotError::Entry)?;
        states.insert(producer_id, entry);
    }
    Ok(states)
}

fn decode_entry(bytes: &mut &[u8], now: Monotonic) -> Option<(ProducerId, ProducerEntry)> {
    let producer_id = ProducerId(bytes.get_i64());
    let producer_epoch = bytes.get_i16();
    let last_sequence = bytes.get_i32();
    let last_offset = Offset(bytes.get_i64());
    let offset_delta = bytes.get_i32();
    let timestamp_ms = bytes.get_i64();
    let coordinator_epoch = bytes.get_i32();
    let transaction_start = bytes.get_i64();
    let mut batches = VecDeque::new();
    if last_offset.0 >= 0 {
        if offset_delta < 0
            || i64::from(offset_delta) > last_offset.0
            || last_offset.0 == i64::MAX
            || last_sequence < NO_SEQUENCE
        {
            return None;
        }
        batches.push_back(BatchMetadata { last_sequence, last_offset, offset_delta, timestamp_ms });
    }
    let entry = ProducerEntry {
        producer_epoch,
        coordinator_epoch,
        last_timestamp_ms: timestamp_ms,
        transaction_start: (transaction_start >= 0).then_some(Offset(transaction_start)),
        batches,
        touched: now,
    };
    (producer_id.0 >= 0).then_some((producer_id, entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Monotonic = Monotonic(3);

    fn table(producers: &[(i64, i16, i32, i64)]) -> ProducerStates {
        let mut states = ProducerStates::default();
        for &(producer_id, producer_epoch, last_sequence, last_offset) in producers {
            let batch = BatchMetadata {
                last_sequence,
                last_offset: Offset(last_offset),
                offset_delta: 0,
                timestamp_ms: 5,
            };
            states.insert(
                ProducerId(producer_id),
                ProducerEntry {
                    producer_epoch,
                    coordinator_epoch: -1,
                    last_timestamp_ms: 5,
                    transaction_start: (last_offset % 2 == 0).then_some(Offset(last_offset)),
                    batches: if last_offset < 0 { VecDeque::new() } else { [batch].into() },
                    touched: NOW,
                },
            );
        }
        states
    }

    #[test]
    fn the_layout_is_kafkas() {
        let bytes = encode(&table(&[(1, 2, 3, 5)]));
        assert_eq!(bytes.len(), 10 + 46);
        assert_eq!(bytes[..2], [0, 1]);
        assert_eq!(bytes[6..10], [0, 0, 0, 1]);
        let entry = "0000000000000001 0002 00000003 0000000000000005 00000000 0000000000000005 ffffffff ffffffffffffffff";
        let hex: String = bytes[10..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, entry.replace(' ', ""));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let states = table(&[(1, 2, 3, 5), (9, 0, i32::MAX, 70), (12, 4, -1, -1)]);
        let bytes = encode(&states);
        assert_eq!(decode(&bytes, NOW), Ok(states));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, NOW).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], NOW).is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_with_a_right_checksum_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if bytes.len() >= HEADER_BYTES {
                bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
                let count = ((bytes.len() - HEADER_BYTES) / ENTRY_BYTES) as i32;
                bytes.truncate(HEADER_BYTES + count as usize * ENTRY_BYTES);
                bytes[6..10].copy_from_slice(&count.to_be_bytes());
                let crc = crc32c(&bytes[CRC_FROM..]);
                bytes[2..6].copy_from_slice(&crc.to_be_bytes());
            }
            if let Ok(states) = decode(&bytes, NOW) {
                prop_assert_eq!(decode(&encode(&states), NOW), Ok(states));
            }
        }
    }
}
