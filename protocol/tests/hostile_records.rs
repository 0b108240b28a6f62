//! Batches made to hurt: each claims much in few bytes. Every one must be refused with a typed error, and no
//! single allocation on the way may be out of proportion to the input.

use bytes::{BufMut, Bytes, BytesMut};
use sillon_protocol::records::{
    BatchBuilder, Compression, CompressionError, RecordBatch, RecordError, RecordFault, crc32c,
    produce_batch, split_batches,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Notes the largest allocation of each thread: tests run side by side.
struct Counting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    LARGEST.with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller keeps to the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and gives its result with the size of its largest allocation.
fn largest_allocation<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.with(|largest| largest.set(0));
    let result = work();
    (result, LARGEST.with(Cell::get))
}

/// A batch from the attributes on, with a right length and checksum.
fn batch(attributes: i16, last_offset_delta: i32, count: i32, body: &[u8]) -> Bytes {
    let mut covered = BytesMut::new();
    covered.put_i16(attributes);
    covered.put_i32(last_offset_delta);
    covered.put_i64(0);
    covered.put_i64(0);
    covered.put_i64(-1);
    covered.put_i16(-1);
    covered.put_i32(-1);
    covered.put_i32(count);
    covered.put_slice(body);
    let mut bytes = BytesMut::new();
    bytes.put_i64(0);
    bytes.put_i32(9 + i32::try_from(covered.len()).unwrap());
    bytes.put_i32(0);
    bytes.put_i8(2);
    bytes.put_u32(crc32c(&covered));
    bytes.put_slice(&covered);
    bytes.freeze()
}

/// The start of a batch: length and magic, then `rest`.
fn start(length: i32, magic: i8, rest: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i64(0);
    bytes.put_i32(length);
    bytes.put_i32(0);
    bytes.put_i8(magic);
    bytes.put_slice(rest);
    bytes.freeze()
}

/// All that a broker could do with produced bytes, with a limit that does not help.
fn open(bytes: &Bytes) -> Result<(), RecordError> {
    for batch in split_batches(bytes) {
        batch?;
    }
    let batch = produce_batch(bytes, 9)?;
    batch.validate_deep(i32::MAX as usize)?;
    Ok(())
}

fn refused(bytes: &Bytes) -> RecordError {
    let (result, largest) = largest_allocation(|| open(bytes));
    let error = result.expect_err("hostile bytes are refused");
    let allowed = 16 * bytes.len() + (64 << 10);
    assert!(largest <= allowed, "{largest} bytes allocated for {}: {error}", bytes.len());
    error
}

#[test]
fn case_11_record_count_of_two_billion() {
    assert!(matches!(refused(&batch(0, 0, i32::MAX, &[])), RecordError::OffsetRange { .. }));
    assert_eq!(refused(&batch(0, i32::MAX - 1, i32::MAX, &[])), RecordError::RecordCount { count: i32::MAX });
    // Compressed: only opening it tells.
    let nothing = Compression::Gzip.compress(&[]);
    assert_eq!(
        refused(&batch(1, i32::MAX - 1, i32::MAX, &nothing)),
        RecordError::Record { index: 0, fault: RecordFault::Truncated { needed: 1, available: 0 } }
    );
}

#[test]
fn case_12_negative_record_count() {
    assert_eq!(refused(&batch(0, 0, -1, &[])), RecordError::RecordCount { count: -1 });
    let view = batch(0, 0, -1, &[]);
    let view = RecordBatch::parse(&view[..]).unwrap();
    assert_eq!(view.validate_deep(1 << 20), Err(RecordError::RecordCount { count: -1 }));
    assert_eq!(view.records().unwrap().count(), 0);
}

#[test]
fn case_13_negative_batch_length() {
    assert_eq!(refused(&start(-10, 2, &[])), RecordError::BatchLength { length: -10 });
    assert_eq!(refused(&start(i32::MIN, 2, &[])), RecordError::BatchLength { length: i32::MIN });
}

#[test]
fn case_14_batch_length_within_the_header() {
    assert_eq!(refused(&start(4, 2, &[])), RecordError::BatchLength { length: 4 });
    assert_eq!(refused(&start(48, 2, &[0; 60])), RecordError::BatchLength { length: 48 });
}

#[test]
fn case_15_a_few_bytes() {
    for length in 1..17 {
        let error = refused(&Bytes::from(vec![0; length]));
        assert!(matches!(error, RecordError::Truncated { .. } | RecordError::BatchLength { .. }), "{error}");
    }
    let error = refused(&start(i32::MAX, 2, &[0; 60]));
    assert_eq!(error, RecordError::Truncated { needed: 12 + i32::MAX as usize, available: 77 });
}

#[test]
fn case_16_header_count_of_two_billion() {
    let record = [0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    let body = [&[2 * record.len() as u8], &record[..]].concat();
    let fault = RecordFault::HeaderCount { count: i32::MAX, available: 0 };
    assert_eq!(refused(&batch(0, 0, 1, &body)), RecordError::Record { index: 0, fault });
}

#[test]
fn record_and_field_lengths_of_two_billion() {
    let huge = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let fault = |needed, available| RecordError::Record {
        index: 0,
        fault: RecordFault::Truncated { needed, available },
    };
    let padded = [&huge[..], &[0; 9]].concat();
    assert_eq!(refused(&batch(0, 0, 1, &padded)), fault(i32::MAX as usize, 9));
    let key = [&[20, 0, 0, 0][..], &huge, &[0; 2]].concat();
    assert_eq!(refused(&batch(0, 0, 1, &key)), fault(i32::MAX as usize, 2));
}

#[test]
fn case_17_garbage_for_every_codec() {
    for compression in 1..=4 {
        let error = refused(&batch(compression, 0, 1, &[1, 2, 3]));
        assert!(matches!(error, RecordError::Decompress(CompressionError::Corrupt { .. })), "{error}");
    }
    for compression in 5..=7 {
        let error = refused(&batch(compression, 0, 1, &[1, 2, 3]));
        assert_eq!(error, RecordError::UnknownCompression { id: compression as u8 });
    }
}

#[test]
fn case_18_old_magic() {
    assert_eq!(refused(&start(49, 1, &[0; 60])), RecordError::OldFormat { magic: 1 });
}

#[test]
fn case_19_snappy_lengths() {
    let framing = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let long_block = [&framing[..], &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    // A block that is there, but claims to hold 4 GiB.
    let long_claim = [&framing[..], &[0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    let raw_claim = vec![0xff, 0xff, 0xff, 0xff, 0x07, 0, b'a'];
    for body in [long_block, long_claim, raw_claim] {
        let error = refused(&batch(2, 0, 1, &body));
        assert!(matches!(error, RecordError::Decompress(CompressionError::Corrupt { .. })), "{error}");
    }
}

#[test]
fn a_claimed_content_size_allocates_nothing() {
    // zstd: single segment with a content size of 2 GiB, then a raw block of one byte that is the last.
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0b1010_0000, 0, 0, 0, 0x80, 0b1001, 0, 0, b'a'];
    // lz4: content size of 2^62 in the descriptor, one stored block.
    let mut lz4 = vec![0x04, 0x22, 0x4d, 0x18, 0x68, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x40];
    lz4.push(0); // Checksum of the descriptor, all values of which are tried.
    lz4.extend_from_slice(&[1, 0, 0, 0x80, b'a', 0, 0, 0, 0]);
    assert!(matches!(refused(&batch(4, 0, 1, &zstd)), RecordError::Decompress(_)));
    for checksum in 0..=255 {
        lz4[14] = checksum;
        assert!(matches!(refused(&batch(3, 0, 1, &lz4)), RecordError::Decompress(_)));
    }
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let limit = 1 << 20;
    let mut builder = BatchBuilder::new();
    builder.add(0, None, Some(&vec![0; 16 << 20]), []);
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let batch = produce_batch(&builder.clone().build(compression), 9).unwrap();
        let (result, largest) = largest_allocation(|| batch.validate_deep(limit).unwrap_err());
        assert_eq!(result, RecordError::Decompress(CompressionError::LimitExceeded { limit_bytes: limit }));
        assert!(largest <= 2 * limit, "{compression}: {largest}");
    }
}

#[test]
fn records_are_read_without_allocating() {
    let mut builder = BatchBuilder::new();
    for _ in 0..1000 {
        builder.add(0, Some(b"key"), Some(b"value"), [sillon_protocol::records::Header::new("header", b"1")]);
    }
    let bytes = builder.build(Compression::None);
    let (headers, largest) = largest_allocation(|| {
        let batch = produce_batch(&bytes, 9).unwrap();
        batch.validate_deep(0).unwrap();
        batch.records().unwrap().map(|record| record.unwrap().headers().count()).sum::<usize>()
    });
    assert_eq!((headers, largest), (1000, 0));
}
