//! The offset index: where in a segment's file the batch with a given offset is. Owns the entries' format and the
//! search in a file of them; never decides when an entry is made.
//!
//! An entry is eight bytes, big-endian: the batch's *last* offset minus the segment's base offset, and the position
//! of the batch's first byte.

use crate::types::Offset;
use sillon_runtime::File;
use std::io;

/// Bytes of one entry.
pub(super) const ENTRY_BYTES: usize = 8;
/// How many bytes of an index are read at once when a search has come down to so few.
const BLOCK_BYTES: usize = 4096;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// Last offset of the batch, relative to the segment's base offset.
    pub(super) relative_offset: u32,
    /// Where the batch begins in the segment's file.
    pub(super) position: u32,
}

impl IndexEntry {
    /// As stored.
    pub(super) fn encode(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&self.relative_offset.to_be_bytes());
        bytes[4..].copy_from_slice(&self.position.to_be_bytes());
        bytes
    }

    /// From what is stored.
    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> IndexEntry {
        let (offset, position) = bytes.split_at(4);
        IndexEntry {
            relative_offset: u32::from_be_bytes(offset.try_into().expect("four bytes")),
            position: u32::from_be_bytes(position.try_into().expect("four bytes")),
        }
    }

    /// The last offset of the batch.
    pub(super) fn last_offset(self, base: Offset) -> Offset {
        base.plus(i64::from(self.relative_offset))
    }
}

/// The last of the first `count` entries of a file for which `holds` is true, provided that `holds` is true for
/// some first entries and false for all that follow. `N` is the width of an entry. The search begins around the entry
/// `guess`: batches of a log are much alike, so that a guess by proportion nearly always saves all steps but one.
pub(super) async fn last_where<const N: usize, E>(
    file: &dyn File,
    count: u64,
    guess: u64,
    decode: impl Fn(&[u8; N]) -> E,
    holds: impl Fn(&E) -> bool,
) -> io::Result<Option<E>> {
    // All before `low` hold, none from `high` on does.
    let (mut low, mut high) = (0, count);
    let block_entries = (BLOCK_BYTES / N) as u64;
    let half_block = block_entries / 2;
    // Where the answer is near the guess, these two narrow the search to a block at once.
    let mut probes = [guess.saturating_sub(half_block), guess.saturating_add(half_block)].into_iter();
    while high - low > block_entries {
        let probe = probes.next().filter(|probe| (low..high).contains(probe));
        let middle = probe.unwrap_or(low + (high - low) / 2);
        let mut bytes = [0; N];
        file.read_exact_at(&mut bytes, middle * N as u64).await?;
        if holds(&decode(&bytes)) { low = middle + 1 } else { high = middle }
    }
    // One entry before the block as well: it may be the answer.
    let first = low.saturating_sub(1);
    let mut block = [0; 2 * BLOCK_BYTES];
    let block = &mut block[..(high - first) as usize * N];
    file.read_exact_at(block, first * N as u64).await?;
    let entries = block.as_chunks::<N>().0;
    let held = entries.partition_point(|bytes| holds(&decode(bytes)));
    Ok(held.checked_sub(1).map(|index| decode(&entries[index])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::testing::{block_on, memory_file};
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_offset_then_position() {
        let entry = IndexEntry { relative_offset: 0x0102_0304, position: 0x0a0b_0c0d };
        assert_eq!(entry.encode(), [1, 2, 3, 4, 10, 11, 12, 13]);
        assert_eq!(IndexEntry::decode(&entry.encode()), entry);
        assert_eq!(entry.last_offset(Offset(1)).0, 0x0102_0305);
    }

    proptest! {
        #[test]
        fn finds_what_a_linear_search_finds(count in 0..3000u32, wanted in 0..9100u32, guess in 0..4000u64) {
            let entries: Vec<_> = (0..count).map(|i| IndexEntry { relative_offset: i * 3 + 1, position: i }).collect();
            let file = memory_file(entries.iter().flat_map(|entry| entry.encode()).collect());
            let expected = entries.iter().rev().find(|entry| entry.relative_offset <= wanted).copied();
            let found = block_on(last_where(&*file, count.into(), guess, IndexEntry::decode, |entry| entry.relative_offset <= wanted));
            prop_assert_eq!(found.expect("memory never fails"), expected);
        }

        /// Damage may give a wrong answer, which the reader checks; it never panics.
        #[test]
        fn random_bytes_are_searched_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9000), wanted in any::<u32>()) {
            let count = bytes.len() as u64 / ENTRY_BYTES as u64;
            let file = memory_file(bytes);
            let found = block_on(last_where(&*file, count, count / 3, IndexEntry::decode, |entry| entry.relative_offset <= wanted));
            prop_assert!(found.is_ok());
        }
    }
}
