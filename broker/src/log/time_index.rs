//! The time index: from when on a segment's records can be at least as young as a given time stamp. Owns the
//! entries' format; never decides when an entry is made.
//!
//! An entry is twelve bytes, big-endian: the largest time stamp so far in the segment, and the last offset of the
//! batch that brought it, minus the segment's base offset. Both increase from entry to entry.

use crate::types::Offset;

/// Bytes of one entry.
pub(super) const ENTRY_BYTES: usize = 12;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeIndexEntry {
    /// The largest time stamp in the segment up to `relative_offset`, in ms.
    pub(super) timestamp_ms: i64,
    /// Last offset of the batch that brought it, relative to the segment's base offset.
    pub(super) relative_offset: u32,
}

impl TimeIndexEntry {
    /// As stored.
    pub(super) fn encode(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.relative_offset.to_be_bytes());
        bytes
    }

    /// From what is stored.
    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> TimeIndexEntry {
        let (timestamp, offset) = bytes.split_at(8);
        TimeIndexEntry {
            timestamp_ms: i64::from_be_bytes(timestamp.try_into().expect("eight bytes")),
            relative_offset: u32::from_be_bytes(offset.try_into().expect("four bytes")),
        }
    }

    /// The last offset of the batch.
    pub(super) fn last_offset(self, base: Offset) -> Offset {
        base.plus(i64::from(self.relative_offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_timestamp_then_offset() {
        let entry = TimeIndexEntry { timestamp_ms: 0x0102_0304_0506_0708, relative_offset: 9 };
        assert_eq!(entry.encode(), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9]);
        assert_eq!(TimeIndexEntry::decode(&entry.encode()), entry);
        assert_eq!(entry.last_offset(Offset(1)), Offset(10));
    }
}
