//! The ring of bytes that a pipe holds. Owns copying in and looking at parts of it.

use std::{collections::VecDeque, io::IoSlice};

/// Moves `count` bytes of `buffers` to the end of `buffer`, and gives their checksum.
pub(super) fn take(buffer: &mut VecDeque<u8>, buffers: &[IoSlice<'_>], count: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let mut left = count;
    for slice in buffers {
        let part = &slice[..slice.len().min(left)];
        hasher.update(part);
        buffer.extend(part);
        left -= part.len();
        if left == 0 {
            break;
        }
    }
    hasher.finalize()
}

/// `count` bytes of `buffer` from `start`, as two slices.
pub(super) fn window(buffer: &VecDeque<u8>, start: usize, count: usize) -> [&[u8]; 2] {
    let (first, second) = buffer.as_slices();
    let end = start + count;
    let in_first = start.min(first.len())..end.min(first.len());
    let in_second = start.saturating_sub(first.len())..end.saturating_sub(first.len());
    [&first[in_first], &second[in_second]]
}
