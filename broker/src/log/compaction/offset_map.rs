//! The newest offset of each key in the dirty part of a log. Pure: owns the map and its bound in memory.
//!
//! Keys are kept as they are, not as hashes of them (Kafka keeps MD5 sums): two keys never count as one. What a key
//! takes is counted with an allowance for the tree that holds it, so that the map is as large as
//! `log.cleaner.dedupe.buffer.size` allows, and no larger but for the batch that filled it: whoever fills it stops
//! there, and the log is cleaned up to that place.

use std::collections::BTreeMap;

/// What a key takes beside its bytes: the pointer, the length, the offset, and its part of the tree.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct OffsetMap {
    newest: BTreeMap<Box<[u8]>, i64>,
    bytes: usize,
    limit_bytes: usize,
    end: i64,
}

impl OffsetMap {
    /// An empty map for a log that is dirty from `first_dirty` on.
    pub(super) fn new(first_dirty: i64, limit_bytes: usize) -> OffsetMap {
        OffsetMap { newest: BTreeMap::new(), bytes: 0, limit_bytes, end: first_dirty }
    }

    /// Takes note of a record.
    pub(super) fn put(&mut self, key: &[u8], offset: i64) {
        match self.newest.get_mut(key) {
            Some(newest) => *newest = offset.max(*newest),
            None => {
                self.bytes += key.len() + ENTRY_OVERHEAD_BYTES;
                self.newest.insert(key.into(), offset);
            }
        }
    }

    /// Whether no further batch is to be taken in. One fits in any case: every cleaning gets ahead.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.limit_bytes.max(1)
    }

    /// Everything below `next` was taken note of.
    pub(super) fn note_end(&mut self, next: i64) {
        assert!(next >= self.end, "batches are read in their order");
        self.end = next;
    }

    /// One past the last offset that the map covers.
    pub(super) fn end(&self) -> i64 {
        self.end
    }

    /// Whether a newer record has the same key.
    pub(super) fn is_superseded(&self, key: &[u8], offset: i64) -> bool {
        self.newest.get(key).is_some_and(|newest| *newest > offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_record_of_a_key_supersedes_the_others() {
        let mut map = OffsetMap::new(10, 1 << 20);
        for (key, offset) in [(&b"a"[..], 10), (b"b", 11), (b"a", 12), (b"", 13)] {
            map.put(key, offset);
        }
        map.note_end(14);
        assert!(map.is_superseded(b"a", 10) && map.is_superseded(b"a", 3));
        assert!(!map.is_superseded(b"a", 12) && !map.is_superseded(b"b", 11) && !map.is_superseded(b"c", 0));
        assert!(map.is_superseded(b"", 2), "an empty key is a key");
        assert_eq!(map.end(), 14);
    }

    #[test]
    fn it_is_full_when_the_keys_take_what_they_may() {
        let mut map = OffsetMap::new(0, 3 * (ENTRY_OVERHEAD_BYTES + 4));
        for (offset, key) in ["key1", "key2", "key1", "key2"].iter().enumerate() {
            map.put(key.as_bytes(), offset as i64);
        }
        assert!(!map.is_full(), "a key counts once");
        map.put(b"key3", 4);
        assert!(map.is_full());
    }
}
