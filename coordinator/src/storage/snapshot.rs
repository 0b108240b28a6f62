//! Snapshots on disk: written under another name, whole or not there, read back with every checksum verified. Owns their
//! files; never knows what is in them, and never removes one but the oldest.
//!
//! A snapshot is a stream of bytes in chunks, then a trailer that says what it contains and how much there must have
//! been. Chunks carry their number and the number of their file, so that none can stand in for another.

use super::{StorageError, names};
use crate::{
    consensus::SnapshotMark,
    frame::{self, FrameError, HEADER_BYTES},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sillon_runtime::{File, OpenOptions, Runtime};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The bytes of a snapshot in one chunk.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// The largest frame of a snapshot: a chunk and what stands around it.
const MAX_FRAME_BYTES: usize = CHUNK_BYTES + 256;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Part {
    Chunk {
        file: u64,
        number: u64,
        #[serde(with = "frame::payload")]
        data: Bytes,
    },
    Trailer(Trailer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trailer {
    file: u64,
    mark: SnapshotMark,
    chunks: u64,
    bytes: u64,
}

/// A trailer in its frame: its numbers, and which part it is.
const TRAILER_BYTES: u64 = HEADER_BYTES as u64 + 4 + 5 * 8;

/// The snapshots of a member. Clones speak of the same ones; they may be used while the log is written.
#[derive(Clone)]
pub struct Snapshots {
    runtime: Runtime,
    directory: PathBuf,
    unfinished: Arc<AtomicU64>,
}

impl Snapshots {
    /// Removes what was never finished.
    pub(super) async fn open(runtime: &Runtime, directory: PathBuf) -> Result<Snapshots, StorageError> {
        let snapshots = Snapshots { runtime: runtime.clone(), directory, unfinished: Arc::default() };
        let fs = runtime.fs();
        for entry in snapshots.entries().await? {
            if names::is_temporary(&entry) {
                let path = snapshots.directory.join(entry);
                fs.remove(&path).await.map_err(StorageError::io(path, "cannot be removed"))?;
            }
        }
        Ok(snapshots)
    }

    async fn entries(&self) -> Result<Vec<String>, StorageError> {
        let listed = self.runtime.fs().list(&self.directory).await;
        let entries = listed.map_err(StorageError::io(&self.directory, "cannot be listed"))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    async fn sync_directory(&self) -> Result<(), StorageError> {
        let synced = self.runtime.fs().sync_dir(&self.directory).await;
        synced.map_err(StorageError::io(&self.directory, "cannot be synced"))
    }

    /// The indexes of all snapshots, oldest first.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub async fn indexes(&self) -> Result<Vec<u64>, StorageError> {
        let entries = self.entries().await?;
        let mut indexes: Vec<u64> = entries.iter().filter_map(|name| names::parse_snapshot(name)).collect();
        indexes.sort_unstable();
        Ok(indexes)
    }

    /// Begins a snapshot, taken here or received from another member.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub async fn create(&self) -> Result<SnapshotWriter, StorageError> {
        let name = names::unfinished_snapshot(self.unfinished.fetch_add(1, Ordering::Relaxed));
        let path = self.directory.join(name);
        let opened = self.runtime.fs().open(&path, OpenOptions::REWRITE).await;
        let output = opened.map_err(StorageError::io(&path, "cannot be created"))?;
        Ok(SnapshotWriter {
            snapshots: self.clone(),
            output,
            path,
            file: self.runtime.random_u64(),
            position: 0,
            chunk: Vec::new(),
            chunks: 0,
            bytes: 0,
            frame: Vec::new(),
        })
    }

    /// Opens the snapshot of what was applied up to this index.
    ///
    /// # Errors
    /// [`StorageError::Io`], and [`StorageError::Corrupt`] where its end is damaged.
    pub async fn read(&self, index: u64) -> Result<SnapshotReader, StorageError> {
        let path = self.directory.join(names::snapshot(index));
        let opened = self.runtime.fs().open(&path, OpenOptions::READ).await;
        let input = opened.map_err(StorageError::io(&path, "cannot be opened"))?;
        let length = input.len().map_err(StorageError::io(&path, "cannot be measured"))?;
        let Some(position) = length.checked_sub(TRAILER_BYTES) else {
            return Err(StorageError::corrupt(path, length, "the file ends too early"));
        };
        let mut bytes = [0; TRAILER_BYTES as usize];
        let read = input.read_exact_at(&mut bytes, position).await;
        read.map_err(StorageError::io(&path, "cannot be read"))?;
        match frame::decode::<Part>(&bytes, MAX_FRAME_BYTES) {
            Ok((Part::Trailer(trailer), _)) if trailer.mark.index == index => {
                Ok(SnapshotReader { input, path, trailer, length, position: 0, chunks: 0, bytes: 0 })
            }
            Ok((part, _)) => Err(StorageError::corrupt(path, position, format!("not its trailer: {part:?}"))),
            Err(error) => Err(StorageError::corrupt(path, position, error.to_string())),
        }
    }

    /// The newest snapshot that can be read to its end, and what is wrong with the newer ones. Those are given another
    /// name once it is known that the log does without them: [`Snapshots::set_aside`].
    pub(super) async fn newest_readable(
        &self,
    ) -> Result<(Option<SnapshotMark>, Vec<(u64, StorageError)>), StorageError> {
        let mut damaged = Vec::new();
        for index in self.indexes().await?.into_iter().rev() {
            match self.verify(index).await {
                Ok(mark) => return Ok((Some(mark), damaged)),
                Err(error @ StorageError::Corrupt { .. }) => damaged.push((index, error)),
                Err(error) => return Err(error),
            }
        }
        Ok((None, damaged))
    }

    async fn verify(&self, index: u64) -> Result<SnapshotMark, StorageError> {
        let mut reader = self.read(index).await?;
        while reader.next().await?.is_some() {}
        Ok(reader.mark())
    }

    /// Keeps a damaged snapshot out of the way of what comes next.
    pub(super) async fn set_aside(&self, index: u64) -> Result<(), StorageError> {
        let from = self.directory.join(names::snapshot(index));
        let to = self.directory.join(names::corrupt_snapshot(index));
        let renamed = self.runtime.fs().rename(&from, &to).await;
        renamed.map_err(StorageError::io(from, "cannot be renamed"))?;
        self.sync_directory().await
    }

    /// Removes all but the newest `keep` and gives the oldest that is left.
    pub(super) async fn purge(&self, keep: usize) -> Result<Option<u64>, StorageError> {
        let indexes = self.indexes().await?;
        let removed = indexes.len().saturating_sub(keep);
        for index in &indexes[..removed] {
            let path = self.directory.join(names::snapshot(*index));
            self.runtime.fs().remove(&path).await.map_err(StorageError::io(path, "cannot be removed"))?;
        }
        if removed > 0 {
            self.sync_directory().await?;
        }
        Ok(indexes.get(removed).copied())
    }
}

/// A snapshot that is being written. Dropped unfinished, it leaves a file that the next start removes.
pub struct SnapshotWriter {
    snapshots: Snapshots,
    output: Arc<dyn File>,
    path: PathBuf,
    file: u64,
    position: u64,
    chunk: Vec<u8>,
    chunks: u64,
    bytes: u64,
    frame: Vec<u8>,
}

impl SnapshotWriter {
    /// Appends bytes.
    ///
    /// # Errors
    /// [`StorageError::Io`]; the snapshot is then of no use.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == CHUNK_BYTES {
                self.write_chunk().await?;
            }
        }
        Ok(())
    }

    async fn write_chunk(&mut self) -> Result<(), StorageError> {
        let data = Bytes::copy_from_slice(&self.chunk);
        self.bytes += data.len() as u64;
        self.chunk.clear();
        let part = Part::Chunk { file: self.file, number: self.chunks, data };
        self.chunks += 1;
        self.write_part(&part).await
    }

    async fn write_part(&mut self, part: &Part) -> Result<(), StorageError> {
        self.frame.clear();
        frame::encode(part, &mut self.frame).expect("a chunk fits into a frame");
        let written = self.output.write_all_at(&self.frame, self.position).await;
        written.map_err(StorageError::io(&self.path, "cannot be written"))?;
        self.position += self.frame.len() as u64;
        Ok(())
    }

    /// Ends the snapshot of what was applied up to `mark` and makes it durable under its name.
    ///
    /// # Errors
    /// [`StorageError::Io`]; the snapshot is then there whole or not at all, which of the two the next start tells.
    pub async fn finish(mut self, mark: SnapshotMark) -> Result<(), StorageError> {
        if !self.chunk.is_empty() {
            self.write_chunk().await?;
        }
        let trailer = Trailer { file: self.file, mark, chunks: self.chunks, bytes: self.bytes };
        self.write_part(&Part::Trailer(trailer)).await?;
        self.output.sync_data().await.map_err(StorageError::io(&self.path, "cannot be synced"))?;
        let path = self.snapshots.directory.join(names::snapshot(mark.index));
        let renamed = self.snapshots.runtime.fs().rename(&self.path, &path).await;
        renamed.map_err(StorageError::io(path, "cannot be renamed"))?;
        self.snapshots.sync_directory().await
    }

    /// Removes what was written.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub async fn abandon(self) -> Result<(), StorageError> {
        let removed = self.snapshots.runtime.fs().remove(&self.path).await;
        removed.map_err(StorageError::io(self.path, "cannot be removed"))
    }
}

/// A snapshot that is being read. It stays readable while it is purged.
pub struct SnapshotReader {
    input: Arc<dyn File>,
    path: PathBuf,
    trailer: Trailer,
    length: u64,
    position: u64,
    chunks: u64,
    bytes: u64,
}

impl SnapshotReader {
    /// What it contains the effect of.
    pub fn mark(&self) -> SnapshotMark {
        self.trailer.mark
    }

    /// How many bytes there are in all its chunks.
    pub fn total_bytes(&self) -> u64 {
        self.trailer.bytes
    }

    fn corrupt(&self, problem: impl Into<String>) -> StorageError {
        StorageError::corrupt(&self.path, self.position, problem)
    }

    /// The next chunk of at most [`CHUNK_BYTES`]; nothing after the last, which is only said once all of them were
    /// there.
    ///
    /// # Errors
    /// [`StorageError::Io`], and [`StorageError::Corrupt`]: nothing that was read of it may then be used.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        let trailer = self.trailer;
        if self.position + TRAILER_BYTES == self.length {
            if (self.chunks, self.bytes) != (trailer.chunks, trailer.bytes) {
                let problem = format!("{} of {} chunks are there", self.chunks, trailer.chunks);
                return Err(self.corrupt(problem));
            }
            return Ok(None);
        }
        let (data, length) = match self.read_part().await? {
            Ok((Part::Chunk { file, number, data }, length))
                if (file, number) == (trailer.file, self.chunks) && !data.is_empty() =>
            {
                (data, length)
            }
            Ok(_) => return Err(self.corrupt("not the chunk that should be here")),
            Err(error) => return Err(self.corrupt(error.to_string())),
        };
        self.position += length as u64;
        self.chunks += 1;
        self.bytes += data.len() as u64;
        Ok(Some(data))
    }

    async fn read_part(&self) -> Result<Result<(Part, usize), FrameError>, StorageError> {
        let rest = self.length.saturating_sub(self.position);
        let mut bytes = vec![0; rest.min((MAX_FRAME_BYTES + HEADER_BYTES) as u64) as usize];
        let read = self.input.read_exact_at(&mut bytes, self.position).await;
        read.map_err(StorageError::io(&self.path, "cannot be read"))?;
        Ok(frame::decode::<Part>(&bytes, MAX_FRAME_BYTES))
    }
}
