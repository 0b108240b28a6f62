//! Opening the log: what is durable, what is torn, what is damaged. Owns the order in which a start repairs it.
//!
//! 1. A last segment without a single record was being begun when the process died: it is removed.
//! 2. The segments from the one that continues the snapshot on are read; damage is refused.
//! 3. What was not yet known to be durable in the last one is written again, the torn tail is cut, and both are synced:
//!    bytes that are in the page cache after a failed sync would otherwise look durable and not be.
//! 4. A log that does not contain the snapshot's last entry (the snapshot came from another member, and the process died
//!    before the log was reset) is reset to begin after it.

use super::{
    StorageError, log,
    log::{Log, Terms},
    names,
    record::{self, Kind, Scan},
    replay::Replay,
};
use crate::consensus::{HardState, LogEntry, SnapshotMark};
use sillon_runtime::{File, OpenOptions, Runtime};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The largest segment that is read: a segment goes beyond its size by a batch at most, or by what replaces it.
const MAX_SEGMENT_BYTES: u64 = 1024 * 1024 * 1024;

/// Where the log is and how it is written.
pub(super) struct LogOptions<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) directory: &'a Path,
    pub(super) salt: u64,
    pub(super) segment_bytes: u64,
    pub(super) room_bytes: u64,
}

/// A segment that was read.
struct Segment {
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: Vec<u8>,
    scan: Scan,
}

impl LogOptions<'_> {
    fn path(&self, first: u64) -> PathBuf {
        self.directory.join(names::log(first))
    }

    /// The first indexes of all segments, in order.
    async fn segments(&self) -> Result<Vec<u64>, StorageError> {
        let listed = self.runtime.fs().list(self.directory).await;
        let entries = listed.map_err(StorageError::io(self.directory, "cannot be listed"))?;
        let mut segments: Vec<u64> =
            entries.iter().filter_map(|entry| names::parse_log(&entry.name)).collect();
        segments.sort_unstable();
        Ok(segments)
    }

    async fn remove(&self, first: u64) -> Result<(), StorageError> {
        let path = self.path(first);
        self.runtime.fs().remove(&path).await.map_err(StorageError::io(path, "cannot be removed"))
    }

    async fn sync_directory(&self) -> Result<(), StorageError> {
        let synced = self.runtime.fs().sync_dir(self.directory).await;
        synced.map_err(StorageError::io(self.directory, "cannot be synced"))
    }

    /// Makes the first segment, in place of any that a start before this one did not finish.
    pub(super) async fn create(&self) -> Result<Log, StorageError> {
        for first in self.segments().await? {
            self.remove(first).await?;
        }
        let file = log::create(self.runtime, self.path(1)).await?;
        let mut log = self.log(vec![1], file, HardState::default(), Terms::new(SnapshotMark::default()));
        log.start().await?;
        self.sync_directory().await?;
        Ok(log)
    }

    fn log(&self, segments: Vec<u64>, file: Arc<dyn File>, hard_state: HardState, terms: Terms) -> Log {
        Log {
            runtime: self.runtime.clone(),
            directory: self.directory.to_owned(),
            salt: self.salt,
            segment_bytes: self.segment_bytes,
            room_bytes: self.room_bytes,
            segments,
            file,
            end: 0,
            length: 0,
            hard_state,
            terms,
            buffer: Vec::new(),
        }
    }

    /// Opens the log and gives the entries after `snapshot`.
    pub(super) async fn open(
        &self,
        snapshot: Option<SnapshotMark>,
    ) -> Result<(Log, Vec<LogEntry>), StorageError> {
        let mut segments = self.segments().await?;
        let mut last = self.last_segment(&mut segments).await?;
        let covered = snapshot.unwrap_or_default();
        let start = segments.partition_point(|first| *first <= covered.index + 1);
        let Some(start) = start.checked_sub(1) else {
            return Err(self.gap(segments[0].saturating_sub(1), covered));
        };
        let mut replay = Replay::default();
        for first in &segments[start..segments.len() - 1] {
            let segment = self.read(*first).await?;
            if let Some((offset, error)) = &segment.scan.bad {
                return Err(StorageError::corrupt(&segment.path, *offset, error.to_string()));
            }
            take(&mut replay, segment, covered.index)?;
        }
        self.repair(&last).await?;
        let (end, file) = (last.scan.end, last.file.clone());
        last.bytes = Vec::new();
        take(&mut replay, last, covered.index)?;
        if replay.base.index > covered.index {
            return Err(self.gap(replay.base.index, covered));
        }
        let is_continued = replay.base == covered;
        let entries = if is_continued { Vec::from(replay.entries) } else { Vec::new() };
        let mut terms = Terms::new(covered);
        terms.append(&entries);
        let mut log = self.log(segments, file, replay.hard_state, terms);
        (log.end, log.length) = (end, end);
        log.hard_state.commit = log.hard_state.commit.max(covered.index);
        if is_continued {
            log.tell_durable().await?;
        } else {
            tracing::warn!(
                "{}: the log ends at {}, it goes on after the snapshot of {covered}",
                self.directory.display(),
                replay.base
            );
            log.reset(covered).await?;
        }
        let known = log.hard_state.commit;
        if known > log.terms.last().index {
            let problem =
                format!("entries up to {known} were committed, the log ends at {}", log.terms.last());
            return Err(StorageError::corrupt(self.directory, 0, problem));
        }
        Ok((log, entries))
    }

    fn gap(&self, base: u64, covered: SnapshotMark) -> StorageError {
        let problem =
            format!("the log begins after index {base}, and the newest readable snapshot ends at {covered}");
        StorageError::corrupt(self.directory, 0, problem)
    }

    /// The last segment; one that was being begun when the process died is removed.
    async fn last_segment(&self, segments: &mut Vec<u64>) -> Result<Segment, StorageError> {
        loop {
            let Some(first) = segments.last().copied() else {
                return Err(StorageError::corrupt(self.directory, 0, "the log is missing"));
            };
            let segment = self.read(first).await?;
            let was_used = !segment.scan.records.is_empty() || segment.scan.is_damage;
            if was_used || segments.len() == 1 {
                return Ok(segment);
            }
            tracing::warn!("{} was being begun at the last stop and is removed", segment.path.display());
            self.remove(first).await?;
            self.sync_directory().await?;
            segments.pop();
        }
    }

    async fn read(&self, first: u64) -> Result<Segment, StorageError> {
        let path = self.path(first);
        let options = OpenOptions { write: true, ..OpenOptions::READ };
        let opened = self.runtime.fs().open(&path, options).await;
        let file = opened.map_err(StorageError::io(&path, "cannot be opened"))?;
        let length = file.len().map_err(StorageError::io(&path, "cannot be measured"))?;
        if length > MAX_SEGMENT_BYTES {
            return Err(StorageError::corrupt(path, MAX_SEGMENT_BYTES, "no segment is as large"));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_exact_at(&mut bytes, 0).await;
        read.map_err(StorageError::io(&path, "cannot be read"))?;
        let scan = record::scan(&bytes, self.salt, first);
        Ok(Segment { path, file, bytes, scan })
    }

    /// Cuts the torn tail of the last segment, and makes durable what is not known to be.
    async fn repair(&self, last: &Segment) -> Result<(), StorageError> {
        let (path, scan) = (&last.path, &last.scan);
        if let Some((offset, error)) = &scan.bad {
            if scan.is_damage || scan.records.is_empty() {
                return Err(StorageError::corrupt(path, *offset, error.to_string()));
            }
            let torn = last.bytes.len() as u64 - offset;
            let path = path.display();
            tracing::warn!(
                "{path}: the last {torn} bytes, from offset {offset} on, are cut: never durable ({error})"
            );
        }
        let unproven = &last.bytes[scan.durable.min(scan.end) as usize..scan.end as usize];
        if !unproven.is_empty() {
            let written = last.file.write_all_at(unproven, scan.durable).await;
            written.map_err(StorageError::io(path, "cannot be written"))?;
        }
        if last.bytes.len() as u64 > scan.end {
            last.file.set_len(scan.end).map_err(StorageError::io(path, "cannot be cut"))?;
        }
        last.file.sync_data().await.map_err(StorageError::io(path, "cannot be synced"))
    }
}

/// Replays a segment.
fn take(replay: &mut Replay, segment: Segment, covered: u64) -> Result<(), StorageError> {
    let Some(first) = segment.scan.records.first().filter(|first| first.kind == Kind::Start) else {
        return Err(StorageError::corrupt(&segment.path, 0, "the segment has no beginning"));
    };
    debug_assert_eq!(first.place.position, 0, "scanned from the start");
    for record in segment.scan.records {
        let position = record.place.position;
        let taken = replay.take(record, covered);
        taken.map_err(|problem| StorageError::corrupt(&segment.path, position, problem))?;
    }
    Ok(())
}
