//! A record batch as a view over its bytes, and the splitting of a byte run into batches. Owns the bounds:
//! a value of [`RecordBatch`] holds exactly the bytes of one batch. Never copies and never opens
//! compressed records unless asked to.

use super::compression::Compression;
use super::error::RecordError;
use super::header::{BATCH_OVERHEAD, BatchHeader, batch_size};
use super::iterate::RecordIterator;
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::Deref;

/// One record batch over bytes of the kind `B`: [`Bytes`] (shared), `&[u8]` (borrowed, see [`BatchView`])
/// or `Vec<u8>` / `BytesMut` (which can be stamped in place).
///
/// The bytes are exactly one batch: its size field, the magic and the length of the bytes are checked.
/// Whatever else is in it may be wrong until it is validated. The fields of the header are methods of
/// [`BatchHeader`], to which a batch dereferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordBatch<B = Bytes> {
    pub(super) header: BatchHeader,
    pub(super) bytes: B,
}

/// A batch over borrowed bytes.
pub type BatchView<'a> = RecordBatch<&'a [u8]>;

impl<B> Deref for RecordBatch<B> {
    type Target = BatchHeader;

    fn deref(&self) -> &BatchHeader {
        &self.header
    }
}

impl<B: AsRef<[u8]>> RecordBatch<B> {
    /// Views `bytes` as exactly one batch.
    ///
    /// # Errors
    /// As [`BatchHeader::parse`]; [`RecordError::NoBatch`] for no bytes; [`RecordError::Truncated`] and
    /// [`RecordError::MoreThanOneBatch`] if the size field and the number of bytes differ.
    pub fn parse(bytes: B) -> Result<Self, RecordError> {
        let slice = bytes.as_ref();
        if slice.is_empty() {
            return Err(RecordError::NoBatch);
        }
        let header = BatchHeader::parse(slice)?;
        let size = header.size_bytes();
        if slice.len() < size {
            return Err(RecordError::Truncated { needed: size, available: slice.len() });
        }
        if slice.len() > size {
            return Err(RecordError::MoreThanOneBatch { bytes: slice.len() - size });
        }
        Ok(Self { header, bytes })
    }

    /// The fields of the header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// All bytes of the batch.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Gives the bytes back.
    #[must_use]
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// The same batch over borrowed bytes.
    #[must_use]
    pub fn view(&self) -> BatchView<'_> {
        RecordBatch { header: self.header, bytes: self.bytes.as_ref() }
    }

    /// The bytes after the header: records, compressed if the batch is.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes.as_ref()[BATCH_OVERHEAD..]
    }

    /// The records as plain bytes: borrowed if they are not compressed.
    ///
    /// Memory grows with what the codec really produces, up to `limit_bytes`, whatever the compressed bytes
    /// claim. The limit does not concern records that are not compressed: they are there already.
    ///
    /// # Errors
    /// [`RecordError::UnknownCompression`], [`RecordError::Decompress`].
    pub fn decompress(&self, limit_bytes: usize) -> Result<Cow<'_, [u8]>, RecordError> {
        match self.header.compression()? {
            Compression::None => Ok(Cow::Borrowed(self.body())),
            compression => Ok(Cow::Owned(compression.decompress(self.body(), limit_bytes)?)),
        }
    }

    /// Iterates the records of a batch that is not compressed.
    ///
    /// # Errors
    /// [`RecordError::Compressed`] if it is: call [`decompress`](Self::decompress) and
    /// [`records_in`](Self::records_in).
    pub fn records(&self) -> Result<RecordIterator<'_>, RecordError> {
        match self.header.compression()? {
            Compression::None => Ok(self.records_in(self.body())),
            compression => Err(RecordError::Compressed { compression }),
        }
    }

    /// Iterates the records in `body`, which [`decompress`](Self::decompress) gave for this batch.
    #[must_use]
    pub fn records_in<'b>(&self, body: &'b [u8]) -> RecordIterator<'b> {
        RecordIterator::new(&self.header, body)
    }
}

/// Iterates the batches in `bytes`, sharing the bytes.
///
/// Ends after the first error. [`RecordError::Truncated`] is how a byte run ends that was cut by size, as
/// fetch responses are.
#[must_use]
pub fn split_batches(bytes: &Bytes) -> SplitBatches {
    SplitBatches { rest: bytes.clone() }
}

/// Iterates the batches in `bytes`, borrowing them. Otherwise as [`split_batches`].
#[must_use]
pub fn split_views(bytes: &[u8]) -> SplitViews<'_> {
    SplitViews { rest: bytes }
}

/// See [`split_batches`].
#[derive(Debug, Clone)]
pub struct SplitBatches {
    rest: Bytes,
}

/// See [`split_views`].
#[derive(Debug, Clone)]
pub struct SplitViews<'a> {
    rest: &'a [u8],
}

/// Size of the first batch in `bytes`, all of which is there.
fn first_size(bytes: &[u8]) -> Result<usize, RecordError> {
    let size = batch_size(bytes)?;
    if size > bytes.len() {
        return Err(RecordError::Truncated { needed: size, available: bytes.len() });
    }
    Ok(size)
}

impl Iterator for SplitBatches {
    type Item = Result<RecordBatch, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match first_size(&self.rest) {
            Ok(size) => Some(RecordBatch::parse(self.rest.split_to(size))),
            Err(error) => {
                self.rest.clear();
                Some(Err(error))
            }
        }
    }
}

impl<'a> Iterator for SplitViews<'a> {
    type Item = Result<BatchView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match first_size(self.rest) {
            Ok(size) => {
                let (batch, rest) = self.rest.split_at(size);
                self.rest = rest;
                Some(RecordBatch::parse(batch))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{BatchBuilder, NO_SEQUENCE, TimestampType};

    fn batch(base_offset: i64, values: &[&[u8]]) -> Bytes {
        let mut builder = BatchBuilder::new().base_offset(base_offset);
        for value in values {
            builder.add(1000, None, Some(value), []);
        }
        builder.build(Compression::None)
    }

    #[test]
    fn a_run_is_split_and_shares_its_bytes() {
        let run: Bytes = [batch(0, &[b"a", b"b"]), batch(2, &[b"c"])].concat().into();
        let batches: Vec<_> = split_batches(&run).map(Result::unwrap).collect();
        assert_eq!(batches.len(), 2);
        assert_eq!((batches[0].base_offset(), batches[0].last_offset(), batches[0].next_offset()), (0, 1, 2));
        assert_eq!((batches[1].base_offset(), batches[1].next_offset()), (2, 3));
        assert_eq!(batches[0].as_bytes().as_ptr(), run.as_ptr());
        let views: Vec<_> = split_views(&run).map(Result::unwrap).collect();
        assert_eq!(views[1], batches[1].view());
    }

    #[test]
    fn a_cut_run_yields_what_is_whole_and_then_the_cut() {
        let run: Bytes = [batch(0, &[b"a"]), batch(1, &[b"b"])].concat().into();
        let size = run.len() / 2;
        for cut in size + 1..run.len() {
            let results: Vec<_> = split_batches(&run.slice(..cut)).collect();
            assert_eq!(results.len(), 2);
            assert!(results[0].is_ok());
            assert!(matches!(results[1], Err(RecordError::Truncated { .. })), "{cut}: {:?}", results[1]);
            assert_eq!(split_views(&run[..cut]).count(), 2);
        }
        assert_eq!(split_batches(&run.slice(..size)).count(), 1);
    }

    #[test]
    fn exactly_one_batch() {
        let one = batch(0, &[b"a"]);
        assert!(RecordBatch::parse(one.clone()).is_ok());
        assert_eq!(RecordBatch::parse(Bytes::new()), Err(RecordError::NoBatch));
        let two: Bytes = [one.clone(), one.clone()].concat().into();
        assert_eq!(RecordBatch::parse(two), Err(RecordError::MoreThanOneBatch { bytes: one.len() }));
        assert!(matches!(
            RecordBatch::parse(one.slice(..one.len() - 1)),
            Err(RecordError::Truncated { needed, .. }) if needed == one.len()
        ));
    }

    #[test]
    fn old_and_unknown_formats_are_told_apart() {
        let mut bytes = batch(0, &[b"a"]).to_vec();
        for magic in [0u8, 1] {
            bytes[16] = magic;
            let error = RecordBatch::parse(&bytes[..]).unwrap_err();
            assert_eq!(error, RecordError::OldFormat { magic: magic.cast_signed() });
        }
        for magic in [3u8, 0x7f, 0xff] {
            bytes[16] = magic;
            let error = RecordBatch::parse(&bytes[..]).unwrap_err();
            assert_eq!(error, RecordError::UnknownMagic { magic: magic.cast_signed() });
        }
        // A message of format 1 is shorter than a header of format 2.
        let old = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 22, 1, 2, 3, 4, 1, 0];
        assert_eq!(RecordBatch::parse(&old[..]), Err(RecordError::OldFormat { magic: 1 }));
    }

    #[test]
    fn fields_are_where_kafka_has_them() {
        let mut builder =
            BatchBuilder::new().base_offset(7).leader_epoch(3).producer(900, 4, i32::MAX).transactional(true);
        builder.add(1_700_000_000_000, Some(b"k"), Some(b"v"), []);
        builder.add(1_700_000_000_005, None, None, []);
        let batch = RecordBatch::parse(builder.build(Compression::Zstd)).unwrap();
        assert_eq!(batch.base_offset(), 7);
        assert_eq!(batch.size_bytes(), batch.as_bytes().len());
        assert_eq!(batch.leader_epoch(), 3);
        assert_eq!(batch.magic(), 2);
        assert_eq!(batch.compression(), Ok(Compression::Zstd));
        assert_eq!(batch.attributes(), 4 | 1 << 4);
        assert_eq!(batch.timestamp_type(), TimestampType::CreateTime);
        assert!(batch.is_transactional() && !batch.is_control() && !batch.has_delete_horizon());
        assert_eq!(batch.last_offset_delta(), 1);
        assert_eq!(batch.base_timestamp(), 1_700_000_000_000);
        assert_eq!(batch.max_timestamp(), 1_700_000_000_005);
        assert_eq!((batch.producer_id(), batch.producer_epoch()), (900, 4));
        assert_eq!((batch.base_sequence(), batch.last_sequence()), (i32::MAX, 0));
        assert_eq!(batch.record_count(), 2);
        assert_eq!(batch.records().unwrap_err(), RecordError::Compressed { compression: Compression::Zstd });
    }

    #[test]
    fn a_batch_without_producer_has_no_sequence() {
        let batch = RecordBatch::parse(batch(0, &[b"a", b"b"])).unwrap();
        assert!(!batch.has_producer_id());
        assert_eq!(batch.last_sequence(), NO_SEQUENCE);
    }
}
