//! The log on disk: segments that are only appended to, one write and one sync for each batch. Owns the segment files
//! and what is durable in them; never what an entry means, and never when to sync: always, before a batch counts.
//!
//! A batch is in one record, or several where it is very large. The hard state is in every record. Right after each
//! sync a record without entries is written (not synced) that tells how much is durable; the next batch takes its place.
//!
//! A segment is named by the first index in it, and names increase: the next one is begun only by a batch whose first
//! index is larger. So an entry from the next segment's first index on is never in an earlier segment.

use super::{
    StorageError, names,
    record::{self, Kind, Place},
};
use crate::consensus::{HardState, LogEntry, Persist, SnapshotMark};
use sillon_runtime::{File, OpenOptions, Runtime};
use std::{io, mem, path::PathBuf, sync::Arc};

/// The entries in one record, in bytes of data; a single larger one is a record by itself.
const RECORD_BYTES: usize = 16 * 1024 * 1024;
/// A batch up to this size is written over zeros that lie there already, in bytes: a sync of bytes in the midst of a file
/// waits for the disk once, one that also makes the file longer waits for the file system's journal too. For a large
/// batch that makes no difference, and the zeros would double what is written.
const SMALL_BATCH_BYTES: u64 = 64 * 1024;
/// A buffer that grew beyond this is given back.
const KEPT_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The log, open for appending.
pub(super) struct Log {
    pub(super) runtime: Runtime,
    pub(super) directory: PathBuf,
    pub(super) salt: u64,
    pub(super) segment_bytes: u64,
    pub(super) room_bytes: u64,
    /// The first indexes of all segments; the last is the one that is appended to.
    pub(super) segments: Vec<u64>,
    pub(super) file: Arc<dyn File>,
    /// Where the next record goes; all before it is durable.
    pub(super) end: u64,
    /// How long the file is: what lies behind the end, and behind the record that tells how much is durable, is zeros.
    pub(super) length: u64,
    pub(super) hard_state: HardState,
    pub(super) terms: Terms,
    pub(super) buffer: Vec<u8>,
}

/// The terms of the entries in the log: for each term, the first entry that has it.
#[derive(Debug)]
pub(super) struct Terms {
    /// The entry before the first, then the first of each later term.
    starts: Vec<SnapshotMark>,
    last_index: u64,
}

impl Terms {
    pub(super) fn new(base: SnapshotMark) -> Terms {
        Terms { starts: vec![base], last_index: base.index }
    }

    pub(super) fn last(&self) -> SnapshotMark {
        self.at(self.last_index)
    }

    fn at(&self, index: u64) -> SnapshotMark {
        let after = self.starts.partition_point(|start| start.index <= index);
        assert!(after > 0 && index <= self.last_index, "entry {index} is not within the log: {self:?}");
        SnapshotMark { index, term: self.starts[after - 1].term }
    }

    pub(super) fn append(&mut self, entries: &[LogEntry]) {
        let Some(first) = entries.first() else { return };
        let before = self.at(first.index - 1);
        self.starts.truncate(self.starts.partition_point(|start| start.index <= before.index));
        for entry in entries {
            if self.starts.last().is_none_or(|start| start.term != entry.term) {
                self.starts.push(SnapshotMark { index: entry.index, term: entry.term });
            }
            self.last_index = entry.index;
        }
    }
}

/// Several things to persist, as one.
#[derive(Default)]
struct Batch {
    hard_state: Option<HardState>,
    entries: Vec<LogEntry>,
    must_sync: bool,
}

impl Batch {
    fn of(persists: Vec<Persist>) -> Batch {
        let mut batch = Batch::default();
        for persist in persists {
            batch.hard_state = persist.hard_state.or(batch.hard_state);
            batch.must_sync |= persist.must_sync;
            if let (Some(first), Some(batched)) = (persist.entries.first(), batch.entries.first()) {
                let kept = first.index.saturating_sub(batched.index);
                assert!(kept <= batch.entries.len() as u64, "a gap before entry {}", first.index);
                batch.entries.truncate(kept as usize);
            }
            if batch.entries.is_empty() {
                batch.entries = persist.entries;
            } else {
                batch.entries.extend(persist.entries);
            }
        }
        batch
    }
}

impl Log {
    /// Makes a batch durable, all of it or, after an error, nobody knows how much.
    pub(super) async fn append(&mut self, persists: Vec<Persist>) -> Result<(), StorageError> {
        let batch = Batch::of(persists);
        if let Some(new) = batch.hard_state {
            let old = self.hard_state;
            assert!(new.term >= old.term && new.commit >= old.commit, "{old:?} goes back to {new:?}");
            self.hard_state = new;
        }
        if !batch.must_sync {
            // Only the commit index moved: it goes with the next batch.
            return Ok(());
        }
        self.write_batch(&batch.entries).await
    }

    /// Makes the latest hard state durable, where it did not have to be.
    pub(super) async fn flush(&mut self) -> Result<(), StorageError> {
        self.write_batch(&[]).await
    }

    async fn write_batch(&mut self, entries: &[LogEntry]) -> Result<(), StorageError> {
        let mut buffer = mem::take(&mut self.buffer);
        buffer.clear();
        let new_segment =
            entries.first().map(|first| first.index).filter(|first| self.begins(*first, entries));
        if let Some(first) = new_segment {
            let before = self.terms.at(first - 1);
            // Also what tells how much is durable: in a segment that is not the last, nothing may be torn, or be left over.
            let cut = self.file.set_len(self.end).map_err(StorageError::io(self.path(), "cannot be cut"));
            cut?;
            self.tell_durable().await?;
            self.file.sync_data().await.map_err(StorageError::io(self.path(), "cannot be synced"))?;
            self.segments.push(first);
            self.end = 0;
            self.length = 0;
            self.file = create(&self.runtime, self.path()).await?;
            self.encode(Kind::Start, before, &[], &mut buffer)?;
        }
        let mut rest = entries;
        loop {
            let (now, later) = rest.split_at(fitting(rest));
            let before =
                now.first().map_or_else(|| self.terms.last(), |first| self.terms.at(first.index - 1));
            self.encode(Kind::Append, before, now, &mut buffer)?;
            self.terms.append(now);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        self.write(&buffer).await?;
        if new_segment.is_some() {
            let synced = self.runtime.fs().sync_dir(&self.directory).await;
            synced.map_err(StorageError::io(&self.directory, "cannot be synced"))?;
        }
        if buffer.capacity() <= KEPT_BUFFER_BYTES {
            self.buffer = buffer;
        }
        Ok(())
    }

    /// Whether a batch with this first index begins a new segment.
    fn begins(&self, first: u64, entries: &[LogEntry]) -> bool {
        let bytes: usize = entries.iter().map(|entry| entry.data.len()).sum();
        self.end + bytes as u64 > self.segment_bytes && first > self.segment()
    }

    fn segment(&self) -> u64 {
        self.segments.last().copied().unwrap_or_default()
    }

    fn path(&self) -> PathBuf {
        self.directory.join(names::log(self.segment()))
    }

    fn encode(
        &self,
        kind: Kind,
        before: SnapshotMark,
        entries: &[LogEntry],
        into: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        let position = self.end + into.len() as u64;
        let place = Place { salt: self.salt, segment: self.segment(), position, durable: self.end };
        record::encode(place, kind, self.hard_state, before, entries, into)
            .map(drop)
            .map_err(|error| StorageError::io(self.path(), "cannot take a record")(io::Error::other(error)))
    }

    /// Writes the beginning of the very first segment.
    pub(super) async fn start(&mut self) -> Result<(), StorageError> {
        let mut buffer = Vec::new();
        self.encode(Kind::Start, self.terms.last(), &[], &mut buffer)?;
        self.write(&buffer).await
    }

    /// Writes at the end, syncs, and tells that it is durable.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let written = self.file.write_all_at(bytes, self.end).await;
        written.map_err(StorageError::io(self.path(), "cannot be written"))?;
        self.length = self.length.max(self.end + bytes.len() as u64);
        self.make_room(bytes.len() as u64).await?;
        self.file.sync_data().await.map_err(StorageError::io(self.path(), "cannot be synced"))?;
        self.end += bytes.len() as u64;
        self.tell_durable().await
    }

    /// Writes, without a sync, that all up to the end is durable.
    pub(super) async fn tell_durable(&mut self) -> Result<(), StorageError> {
        let mut bytes = Vec::with_capacity(256);
        self.encode(Kind::Durable, self.terms.last(), &[], &mut bytes)?;
        let written = self.file.write_all_at(&bytes, self.end).await;
        self.length = self.length.max(self.end + bytes.len() as u64);
        written.map_err(StorageError::io(self.path(), "cannot be written"))
    }

    /// Where small batches come and the file is about to end, zeros for the next ones go to the disk with this one.
    async fn make_room(&mut self, batch_bytes: u64) -> Result<(), StorageError> {
        if batch_bytes > SMALL_BATCH_BYTES || self.end + 2 * batch_bytes < self.length {
            return Ok(());
        }
        let zeros = vec![0; self.room_bytes as usize];
        let written = self.file.write_all_at(&zeros, self.length).await;
        written.map_err(StorageError::io(self.path(), "cannot be written"))?;
        self.length += zeros.len() as u64;
        Ok(())
    }

    /// The log is empty and continues after `mark`: one record says so, there before a crash or not.
    pub(super) async fn reset(&mut self, mark: SnapshotMark) -> Result<(), StorageError> {
        self.terms = Terms::new(mark);
        self.hard_state.commit = self.hard_state.commit.max(mark.index);
        let mut buffer = Vec::new();
        self.encode(Kind::Reset, mark, &[], &mut buffer)?;
        self.write(&buffer).await
    }

    /// Removes segments in which all entries are in the snapshot of `index`.
    pub(super) async fn purge(&mut self, index: u64) -> Result<(), StorageError> {
        let needed = self.segments.partition_point(|first| *first <= index + 1).saturating_sub(1);
        for first in self.segments.drain(..needed) {
            let path = self.directory.join(names::log(first));
            self.runtime.fs().remove(&path).await.map_err(StorageError::io(path, "cannot be removed"))?;
        }
        if needed > 0 {
            let synced = self.runtime.fs().sync_dir(&self.directory).await;
            synced.map_err(StorageError::io(&self.directory, "cannot be synced"))?;
        }
        Ok(())
    }
}

/// Creates the file of a segment, which must not be there.
pub(super) async fn create(runtime: &Runtime, path: PathBuf) -> Result<Arc<dyn File>, StorageError> {
    let options = OpenOptions { create_new: true, create: true, ..OpenOptions::READ_WRITE_CREATE };
    let opened = runtime.fs().open(&path, options).await;
    opened.map_err(StorageError::io(path, "cannot be created"))
}

/// How many of the entries go into the next record.
fn fitting(entries: &[LogEntry]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&LogEntry| {
        bytes += entry.data.len();
        bytes <= RECORD_BYTES
    };
    entries.iter().take_while(fits).count().max(1).min(entries.len())
}
