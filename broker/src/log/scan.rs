//! Reads a segment's file batch by batch, in large pieces. Owns the buffer and the bounds; never decides what a bad
//! batch means.

use sillon_protocol::records::{
    BATCH_OVERHEAD, BatchHeader, BatchView, RecordBatch, RecordError, batch_size,
};
use sillon_runtime::File;
use std::{io, sync::Arc};

/// How much is read at a time where whole batches are wanted.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// How much is read at a time where only a few headers are wanted.
pub(super) const HEADER_CHUNK_BYTES: usize = 4096;

/// Why a scan cannot go on.
#[derive(Debug)]
pub(super) enum ScanError {
    /// The operating system refused.
    Io(io::Error),
    /// No batch begins at `position`.
    Bad {
        /// Where in the file.
        position: u64,
        /// What is wrong.
        source: RecordError,
    },
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> ScanError {
        ScanError::Io(error)
    }
}

/// One pass over a part of a file that begins at a batch.
pub(super) struct Scanner {
    file: Arc<dyn File>,
    position: u64,
    end: u64,
    chunk_bytes: usize,
    /// Bytes of the file from `buffer_at` on; the first `filled` are valid.
    buffer: Vec<u8>,
    buffer_at: u64,
    filled: usize,
}

impl Scanner {
    /// A pass from `position` (where a batch begins) to `end`, reading `chunk_bytes` at a time.
    pub(super) fn new(file: Arc<dyn File>, position: u64, end: u64, chunk_bytes: usize) -> Scanner {
        assert!(chunk_bytes >= BATCH_OVERHEAD, "a header fits into the buffer");
        Scanner { file, position, end, chunk_bytes, buffer: Vec::new(), buffer_at: position, filled: 0 }
    }

    /// The header of the next batch, and where it begins. The batch is whole as far as its size tells; nothing
    /// else is checked, and its records are not read where they lie beyond the buffer.
    ///
    /// # Errors
    /// [`ScanError::Bad`] where the bytes are no batch: the scan stays there.
    pub(super) async fn next_header(&mut self) -> Result<Option<(u64, BatchHeader)>, ScanError> {
        let header = self.peek().await?;
        Ok(header.map(|header| {
            let position = self.position;
            self.position += header.size_bytes() as u64;
            (position, header)
        }))
    }

    /// The next batch, whole, and where it begins. Only its size and format are checked.
    ///
    /// # Errors
    /// [`ScanError::Bad`] where the bytes are no batch: the scan stays there.
    pub(super) async fn next_batch(&mut self) -> Result<Option<(u64, BatchView<'_>)>, ScanError> {
        let position = self.position;
        // Nearly always the batch is in the buffer; its header is then read once.
        let size = match self.buffered_size() {
            Some(size) => size,
            None => {
                let Some(header) = self.peek().await? else { return Ok(None) };
                self.fill(header.size_bytes()).await?;
                header.size_bytes()
            }
        };
        let start = (position - self.buffer_at) as usize;
        let batch = RecordBatch::parse(&self.buffer[start..start + size]);
        let batch = batch.map_err(|source| ScanError::Bad { position, source })?;
        self.position += size as u64;
        Ok(Some((position, batch)))
    }

    /// The size of the next batch, if it is wholly in the buffer.
    fn buffered_size(&self) -> Option<usize> {
        let start = usize::try_from(self.position.checked_sub(self.buffer_at)?).ok()?;
        let bytes = self.buffer.get(start..self.filled)?;
        batch_size(bytes).ok().filter(|size| *size <= bytes.len())
    }

    async fn peek(&mut self) -> Result<Option<BatchHeader>, ScanError> {
        let position = self.position;
        let remaining = self.end - position;
        if remaining == 0 {
            return Ok(None);
        }
        let bad = |source| ScanError::Bad { position, source };
        let wanted = remaining.min(BATCH_OVERHEAD as u64) as usize;
        self.fill(wanted).await?;
        let start = (position - self.buffer_at) as usize;
        let header = BatchHeader::parse(&self.buffer[start..start + wanted]).map_err(bad)?;
        let needed = header.size_bytes();
        if needed as u64 > remaining {
            return Err(bad(RecordError::Truncated { needed, available: remaining as usize }));
        }
        Ok(Some(header))
    }

    /// Has `wanted` bytes from `position` on in the buffer. The caller has made sure that they are before `end`.
    async fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let buffered = self.buffer_at + self.filled as u64;
        if self.position >= self.buffer_at && self.position + wanted as u64 <= buffered {
            return Ok(());
        }
        if self.position >= self.buffer_at && self.position < buffered {
            let start = (self.position - self.buffer_at) as usize;
            self.buffer.copy_within(start..self.filled, 0);
            self.filled -= start;
        } else {
            self.filled = 0;
        }
        self.buffer_at = self.position;
        let target = ((self.end - self.position) as usize).min(wanted.max(self.chunk_bytes));
        if self.buffer.len() < target {
            self.buffer.resize(target, 0);
        }
        while self.filled < wanted {
            let at = self.buffer_at + self.filled as u64;
            match self.file.read_at(&mut self.buffer[self.filled..target], at).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.filled += read,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::testing::{batch, block_on, memory_file};
    use proptest::prelude::*;

    fn positions(bytes: &[u8], chunk: usize, whole: bool) -> (Vec<(u64, i64)>, Option<u64>) {
        let file = memory_file(bytes.to_vec());
        let mut scanner = Scanner::new(file, 0, bytes.len() as u64, chunk);
        let mut found = Vec::new();
        loop {
            let next = block_on(async {
                if whole {
                    Ok(scanner.next_batch().await?.map(|(position, batch)| (position, batch.base_offset())))
                } else {
                    Ok(scanner
                        .next_header()
                        .await?
                        .map(|(position, header)| (position, header.base_offset())))
                }
            });
            match next {
                Ok(Some(batch)) => found.push(batch),
                Ok(None) => return (found, None),
                Err(ScanError::Bad { position, .. }) => return (found, Some(position)),
                Err(ScanError::Io(error)) => panic!("memory never fails: {error}"),
            }
        }
    }

    proptest! {
        #[test]
        fn every_batch_is_found_whatever_the_chunk(
            sizes in proptest::collection::vec(0..300usize, 0..20),
            chunk in 61..2000usize,
            whole in any::<bool>(),
            cut in any::<proptest::sample::Index>(),
        ) {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for (index, size) in sizes.iter().enumerate() {
                expected.push((bytes.len() as u64, index as i64));
                bytes.extend_from_slice(&batch(index as i64, 0, 1, *size));
            }
            prop_assert_eq!(positions(&bytes, chunk, whole), (expected.clone(), None));
            let cut = cut.index(bytes.len() + 1);
            let (found, bad) = positions(&bytes[..cut], chunk, whole);
            prop_assert_eq!(&found[..], &expected[..found.len()]);
            let end = expected.get(found.len()).map_or(bytes.len() as u64, |next| next.0);
            prop_assert_eq!(bad, (end != cut as u64).then_some(end));
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500), whole in any::<bool>()) {
            positions(&bytes, 61, whole);
        }
    }
}
