//! One segment: a file of batches, its two indexes, and what is known of them. Owns where batches are; never
//! decides when a segment is closed or removed, and knows nothing of epochs or producers.
//!
//! ```text
//!   file:    | batch | batch | batch | …  one writer appends, everybody reads what was published
//!   recent:                    └ the newest batches' places, in memory: reading the tail needs no search
//!   pending:                   └ the newest index entries, written out some at a time
//!   .index, .timeindex         the older entries, searched by positional reads, never held in memory
//! ```

mod cleaned;
mod memory;

pub(super) use cleaned::SEGMENT_SUFFIXES;

use super::{
    names,
    offset_index::{self, IndexEntry, last_where},
    scan::{HEADER_CHUNK_BYTES, ScanError, Scanner},
    time_index::{self, TimeIndexEntry},
};
use crate::types::Offset;
use memory::ReadEnd;
use sillon_protocol::records::{BatchHeader, NO_TIMESTAMP};
use sillon_runtime::{File, FileSystem, Monotonic, OpenOptions};
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::OnceCell;

/// How many of the newest batches' places are kept in memory.
const RECENT_BATCHES: usize = 128;
/// How many index entries wait in memory before they are written in one go.
const PENDING_ENTRIES: usize = 64;
/// A segment's size and positions are 31-bit numbers in Kafka's indexes and tools.
pub(super) const SEGMENT_LIMIT_BYTES: u64 = i32::MAX as u64;

/// A time stamp and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimestampPlace {
    /// In ms.
    pub(super) timestamp_ms: i64,
    /// Last offset of the batch.
    pub(super) last_offset: Offset,
}

/// Where a batch is, and what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchPlace {
    /// Its first byte.
    pub(super) position: u64,
    /// One past its last byte.
    pub(super) end_position: u64,
    /// Its base offset.
    pub(super) base_offset: Offset,
    /// One past its last offset; where records were compacted away, the next batch begins later.
    pub(super) next_offset: Offset,
}

#[derive(Debug)]
struct State {
    /// Bytes of whole batches; what lies beyond in the file is of no account.
    size_bytes: u64,
    /// One past the last offset.
    end_offset: Offset,
    recent: VecDeque<BatchPlace>,
    /// Where the latest reads ended, that is where the next ones begin; the oldest is overwritten.
    read_ends: VecDeque<ReadEnd>,
    pending: Vec<IndexEntry>,
    pending_times: Vec<TimeIndexEntry>,
    /// Entries in the files.
    written: u64,
    written_times: u64,
    bytes_since_entry: u64,
    last_time_entry_ms: i64,
    /// The largest time stamp; the outer none where it has not been looked up yet.
    largest: Option<Option<TimestampPlace>>,
    /// When it was closed, or loaded as a closed one; none for the active segment.
    closed_at: Option<Monotonic>,
}

impl State {
    fn empty(base_offset: Offset) -> State {
        State {
            size_bytes: 0,
            end_offset: base_offset,
            recent: VecDeque::new(),
            read_ends: VecDeque::new(),
            pending: Vec::new(),
            pending_times: Vec::new(),
            written: 0,
            written_times: 0,
            bytes_since_entry: 0,
            last_time_entry_ms: NO_TIMESTAMP,
            largest: Some(None),
            closed_at: None,
        }
    }
}

/// See the module.
pub(super) struct Segment {
    directory: Arc<Path>,
    /// The offset in its name.
    pub(super) base_offset: Offset,
    /// Its batches. Stays readable for whoever holds it when the segment is removed.
    pub(super) file: Arc<dyn File>,
    index: OnceCell<Arc<dyn File>>,
    time_index: OnceCell<Arc<dyn File>>,
    state: Mutex<State>,
}

impl Segment {
    /// Creates an empty segment, whatever was there under its name.
    pub(super) async fn create(
        files: &dyn FileSystem,
        directory: &Arc<Path>,
        base: Offset,
    ) -> io::Result<Arc<Segment>> {
        let path = directory.join(names::file_name(base, names::LOG_SUFFIX));
        let file = files.open(&path, OpenOptions::REWRITE).await?;
        let segment = Segment::with_state(directory, base, file, State::empty(base));
        segment.clear_indexes(files).await?;
        Ok(Arc::new(segment))
    }

    /// Takes a closed segment as it is on disk, with so many whole entries in its index files.
    pub(super) fn closed(
        directory: &Arc<Path>,
        base: Offset,
        file: Arc<dyn File>,
        size_bytes: u64,
        end_offset: Offset,
        entries: (u64, u64),
        now: Monotonic,
    ) -> Segment {
        let state = State {
            size_bytes,
            end_offset,
            written: entries.0,
            written_times: entries.1,
            largest: None,
            closed_at: Some(now),
            ..State::empty(base)
        };
        Segment::with_state(directory, base, file, state)
    }

    /// Takes a segment's file with nothing known of its content: to be scanned, with [`Segment::note`] for every
    /// batch found. Its indexes are emptied.
    pub(super) async fn unknown(
        files: &dyn FileSystem,
        directory: &Arc<Path>,
        base: Offset,
        file: Arc<dyn File>,
    ) -> io::Result<Segment> {
        let segment = Segment::with_state(directory, base, file, State::empty(base));
        segment.clear_indexes(files).await?;
        Ok(segment)
    }

    fn with_state(directory: &Arc<Path>, base_offset: Offset, file: Arc<dyn File>, state: State) -> Segment {
        assert!(base_offset.0 >= 0, "offsets are counted from 0");
        Segment {
            directory: directory.clone(),
            base_offset,
            file,
            index: OnceCell::new(),
            time_index: OnceCell::new(),
            state: Mutex::new(state),
        }
    }

    async fn clear_indexes(&self, files: &dyn FileSystem) -> io::Result<()> {
        for (cell, suffix) in
            [(&self.index, names::INDEX_SUFFIX), (&self.time_index, names::TIME_INDEX_SUFFIX)]
        {
            let file = files.open(&self.path(suffix), OpenOptions::REWRITE).await?;
            assert!(cell.set(file).is_ok(), "a new segment's indexes are opened once");
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding a segment's state")
    }

    /// The path of one of its files.
    pub(super) fn path(&self, suffix: &str) -> PathBuf {
        self.directory.join(names::file_name(self.base_offset, suffix))
    }

    /// Bytes of whole batches.
    pub(super) fn size_bytes(&self) -> u64 {
        self.state().size_bytes
    }

    /// One past the last offset.
    pub(super) fn end_offset(&self) -> Offset {
        self.state().end_offset
    }

    /// Whether it is the active one: nothing was closed.
    pub(super) fn is_active(&self) -> bool {
        self.state().closed_at.is_none()
    }

    /// When it was closed, or loaded as a closed one.
    pub(super) fn closed_at(&self) -> Option<Monotonic> {
        self.state().closed_at
    }

    /// Entries in both indexes, written or waiting.
    pub(super) fn index_entries(&self) -> (u64, u64) {
        let state = self.state();
        (state.written + state.pending.len() as u64, state.written_times + state.pending_times.len() as u64)
    }

    /// Takes note of a batch whose bytes are in the file at the segment's end: from here on it is published.
    /// Gives whether enough index entries are waiting to be written out.
    pub(super) fn note(&self, batch: &BatchHeader, index_interval_bytes: u32) -> bool {
        let (base, last) = (Offset(batch.base_offset()), Offset(batch.last_offset()));
        let mut state = self.state();
        assert!(state.closed_at.is_none(), "a closed segment takes no batch");
        assert!(base >= state.end_offset && last >= base, "I15: offsets increase and batches do not overlap");
        let relative = |offset: Offset| {
            u32::try_from(offset.0 - self.base_offset.0).ok().filter(|relative| *relative <= i32::MAX as u32)
        };
        let relative_offset = relative(last).expect("a segment is closed before its offsets pass 31 bits");
        let position = u32::try_from(state.size_bytes).expect("a segment is closed before it passes 31 bits");
        let timestamp_ms = largest_of_records(batch);
        if state.largest.flatten().is_none_or(|largest| timestamp_ms > largest.timestamp_ms)
            && timestamp_ms > NO_TIMESTAMP
        {
            state.largest = Some(Some(TimestampPlace { timestamp_ms, last_offset: last }));
        }
        if state.bytes_since_entry > u64::from(index_interval_bytes) {
            state.pending.push(IndexEntry { relative_offset, position });
            self.note_largest(&mut state);
            state.bytes_since_entry = 0;
        }
        if state.recent.len() == RECENT_BATCHES {
            state.recent.pop_front();
        }
        state.recent.push_back(BatchPlace::new(position.into(), batch));
        state.bytes_since_entry += batch.size_bytes() as u64;
        state.size_bytes += batch.size_bytes() as u64;
        state.end_offset = last.plus(1);
        state.pending.len() >= PENDING_ENTRIES
    }

    /// A time index entry for the largest time stamp so far, unless there is one.
    fn note_largest(&self, state: &mut State) {
        let Some(Some(largest)) = state.largest else { return };
        if largest.timestamp_ms > state.last_time_entry_ms {
            let relative_offset = u32::try_from(largest.last_offset.0 - self.base_offset.0)
                .expect("checked when the batch was noted");
            state.pending_times.push(TimeIndexEntry { timestamp_ms: largest.timestamp_ms, relative_offset });
            state.last_time_entry_ms = largest.timestamp_ms;
        }
    }

    /// Writes the waiting index entries. Only the segment's writer calls it. May be repeated after it failed.
    pub(super) async fn write_pending(&self, files: &dyn FileSystem) -> io::Result<()> {
        let (entries, at, times, times_at) = {
            let state = self.state();
            let entries: Vec<u8> = state.pending.iter().flat_map(|entry| entry.encode()).collect();
            let times: Vec<u8> = state.pending_times.iter().flat_map(|entry| entry.encode()).collect();
            (entries, state.written, times, state.written_times)
        };
        if !entries.is_empty() {
            self.index(files).await?.write_all_at(&entries, at * offset_index::ENTRY_BYTES as u64).await?;
        }
        if !times.is_empty() {
            self.time_index(files)
                .await?
                .write_all_at(&times, times_at * time_index::ENTRY_BYTES as u64)
                .await?;
        }
        let mut state = self.state();
        let (written, written_times) =
            (entries.len() / offset_index::ENTRY_BYTES, times.len() / time_index::ENTRY_BYTES);
        state.pending.drain(..written);
        state.pending_times.drain(..written_times);
        state.written += written as u64;
        state.written_times += written_times as u64;
        Ok(())
    }

    /// Completes the indexes, with the entry for the largest time stamp that a closed segment ends with. Only the
    /// segment's writer calls it. May be repeated after it failed, and batches may follow.
    pub(super) async fn complete_indexes(&self, files: &dyn FileSystem) -> io::Result<()> {
        self.note_largest(&mut self.state());
        self.write_pending(files).await
    }

    /// Makes it a closed segment.
    pub(super) fn close(&self, now: Monotonic) {
        let mut state = self.state();
        assert!(
            state.pending.is_empty() && state.pending_times.is_empty(),
            "the indexes were completed before"
        );
        state.recent = VecDeque::new();
        state.pending = Vec::new();
        state.pending_times = Vec::new();
        state.closed_at = Some(now);
    }

    /// Makes a closed segment the active one again, which ends at `end_offset`.
    pub(super) async fn make_active(&self, files: &dyn FileSystem, end_offset: Offset) {
        let largest = self.largest_timestamp(files).await;
        let mut state = self.state();
        state.end_offset = end_offset;
        state.last_time_entry_ms = largest.map_or(NO_TIMESTAMP, |largest| largest.timestamp_ms);
        state.closed_at = None;
    }

    /// Makes its batches durable, and its indexes where it takes no more entries.
    pub(super) async fn sync(&self, files: &dyn FileSystem, with_indexes: bool) -> io::Result<()> {
        self.file.sync_data().await?;
        if with_indexes {
            self.index(files).await?.sync_data().await?;
            self.time_index(files).await?.sync_data().await?;
        }
        Ok(())
    }

    async fn index(&self, files: &dyn FileSystem) -> io::Result<&Arc<dyn File>> {
        self.open_index(&self.index, names::INDEX_SUFFIX, files).await
    }

    async fn time_index(&self, files: &dyn FileSystem) -> io::Result<&Arc<dyn File>> {
        self.open_index(&self.time_index, names::TIME_INDEX_SUFFIX, files).await
    }

    async fn open_index<'a>(
        &self,
        cell: &'a OnceCell<Arc<dyn File>>,
        suffix: &str,
        files: &dyn FileSystem,
    ) -> io::Result<&'a Arc<dyn File>> {
        cell.get_or_try_init(async || files.open(&self.path(suffix), OpenOptions::READ_WRITE_CREATE).await)
            .await
    }

    /// The last index entry for which `holds` is true (of its batch's last offset and position), provided that it
    /// is true for some first entries and false for all that follow. An index that cannot be read, or was removed,
    /// has no entries: whoever searches then scans. `share` says what part of the segment lies before the answer, as
    /// far as the caller can guess.
    pub(super) async fn last_entry(
        &self,
        files: &dyn FileSystem,
        share: f64,
        holds: impl Fn(Offset, u64) -> bool,
    ) -> Option<(Offset, u64)> {
        let place = |entry: &IndexEntry| (entry.last_offset(self.base_offset), u64::from(entry.position));
        let holds = |entry: &IndexEntry| {
            let (offset, position) = place(entry);
            holds(offset, position)
        };
        let written = {
            let state = self.state();
            let held = state.pending.partition_point(&holds);
            if held > 0 {
                return Some(place(&state.pending[held - 1]));
            }
            state.written
        };
        let file = self.index(files).await.ok()?;
        let guess = (written as f64 * share) as u64;
        let found = last_where(&**file, written, guess, IndexEntry::decode, holds).await.ok()??;
        Some(place(&found))
    }

    /// The first batch that ends at or past `offset`, none where the segment ends before.
    pub(super) async fn find(
        &self,
        files: &dyn FileSystem,
        offset: Offset,
    ) -> Result<Option<BatchPlace>, ScanError> {
        if let Some(place) = self.find_recent(offset) {
            return Ok(Some(place));
        }
        if let Some(place) = self.find_where_a_read_ended(offset).await {
            return Ok(Some(place));
        }
        let share =
            self.share(|state| (offset.0 - self.base_offset.0, state.end_offset.0 - self.base_offset.0));
        if let Some((last_offset, position)) = self.last_entry(files, share, |last, _| last <= offset).await
            && let Some(mut scanner) = self.scanner(position, HEADER_CHUNK_BYTES)
            && let Ok(Some((_, header))) = scanner.next_header().await
            // Damage to the index, which has no checksum, must not lead anywhere else.
            && header.last_offset() == last_offset.0
        {
            let mut next = Some((position, header));
            while let Some((position, header)) = next {
                if header.last_offset() >= offset.0 {
                    return Ok(Some(BatchPlace::new(position, &header)));
                }
                next = scanner.next_header().await?;
            }
            return Ok(None);
        }
        let mut scanner = self.scanner(0, HEADER_CHUNK_BYTES).expect("0 is in every file");
        while let Some((position, header)) = scanner.next_header().await? {
            if header.last_offset() >= offset.0 {
                return Ok(Some(BatchPlace::new(position, &header)));
            }
        }
        Ok(None)
    }

    /// One number of the state as a part of another, from 0 to 1.
    fn share(&self, part_and_whole: impl Fn(&State) -> (i64, i64)) -> f64 {
        let (part, whole) = part_and_whole(&self.state());
        (part as f64 / whole.max(1) as f64).clamp(0.0, 1.0)
    }

    /// Where a read that begins with the batch at `first` ends: the last boundary between batches that is not past
    /// `limit` bytes and `up_to`, both of which lie behind `first`. Gives the position and the offset there.
    pub(super) async fn find_end(
        &self,
        files: &dyn FileSystem,
        first: BatchPlace,
        limit: u64,
        up_to: Offset,
    ) -> Result<(u64, Offset), ScanError> {
        assert!(
            first.end_position <= limit && first.next_offset <= up_to,
            "the first batch is part of the read"
        );
        if let Some(end) = self.find_recent_end(limit, up_to) {
            return Ok(end);
        }
        let mut end = (first.end_position, first.next_offset);
        let share = self.share(|state| {
            (i64::try_from(limit).unwrap_or(i64::MAX), i64::try_from(state.size_bytes).unwrap_or(i64::MAX))
        });
        let fits = |last, position| position <= limit && last < up_to;
        let entry = self.last_entry(files, share, fits).await;
        let mut scanner = self.scanner(end.0, HEADER_CHUNK_BYTES).expect("a batch ends in the file");
        if let Some((last_offset, position)) = entry
            && position > end.0
            && let Some(mut ahead) = self.scanner(position, HEADER_CHUNK_BYTES)
            && let Ok(Some((_, header))) = ahead.next_header().await
            && header.last_offset() == last_offset.0
        {
            end = (position, Offset(header.base_offset()));
            scanner = self.scanner(position, HEADER_CHUNK_BYTES).expect("it was there a moment ago");
        }
        while let Some((position, header)) = scanner.next_header().await? {
            let place = BatchPlace::new(position, &header);
            if place.end_position > limit || place.next_offset > up_to {
                break;
            }
            end = (place.end_position, place.next_offset);
        }
        self.note_read_end(end);
        Ok(end)
    }

    /// A pass from `position` to the published end; none where that lies before `position`.
    pub(super) fn scanner(&self, position: u64, chunk_bytes: usize) -> Option<Scanner> {
        let end = self.size_bytes();
        (position <= end).then(|| Scanner::new(self.file.clone(), position, end, chunk_bytes))
    }

    /// Where a scan for records as young as `timestamp_ms` begins: nothing before has a time stamp that large.
    pub(super) async fn find_time(
        &self,
        files: &dyn FileSystem,
        timestamp_ms: i64,
    ) -> Result<u64, ScanError> {
        let Some(place) = self.last_time_entry(files, |entry| entry.timestamp_ms <= timestamp_ms).await
        else {
            return Ok(0);
        };
        match self.find(files, place.last_offset).await? {
            // An entry that names no batch is damaged: the whole segment is scanned.
            Some(batch) if batch.next_offset == place.last_offset.plus(1) => Ok(batch.position),
            _ => Ok(0),
        }
    }

    async fn last_time_entry(
        &self,
        files: &dyn FileSystem,
        holds: impl Fn(&TimeIndexEntry) -> bool,
    ) -> Option<TimestampPlace> {
        let place = |entry: &TimeIndexEntry| TimestampPlace {
            timestamp_ms: entry.timestamp_ms,
            last_offset: entry.last_offset(self.base_offset),
        };
        let written = {
            let state = self.state();
            let held = state.pending_times.partition_point(&holds);
            if held > 0 {
                return Some(place(&state.pending_times[held - 1]));
            }
            state.written_times
        };
        let file = self.time_index(files).await.ok()?;
        let found = last_where(&**file, written, written / 2, TimeIndexEntry::decode, holds).await.ok()??;
        Some(place(&found))
    }

    /// The largest time stamp and the batch that has it; none where no batch has a time stamp.
    pub(super) async fn largest_timestamp(&self, files: &dyn FileSystem) -> Option<TimestampPlace> {
        if let Some(largest) = self.state().largest {
            return largest;
        }
        let largest = self.last_time_entry(files, |_| true).await;
        self.state().largest = Some(largest);
        largest
    }

    /// Removes its files: first the batches, so that nothing is left to take for a segment if this is interrupted.
    pub(super) async fn remove(&self, files: &dyn FileSystem) -> io::Result<()> {
        files.remove(&self.path(names::LOG_SUFFIX)).await?;
        for suffix in [names::INDEX_SUFFIX, names::TIME_INDEX_SUFFIX, names::TRANSACTION_INDEX_SUFFIX] {
            match files.remove(&self.path(suffix)).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The largest time stamp of a batch's records. Compaction leaves batches without records, which keep theirs.
pub(super) fn largest_of_records(batch: &BatchHeader) -> i64 {
    if batch.record_count() == 0 { NO_TIMESTAMP } else { batch.max_timestamp() }
}

impl BatchPlace {
    fn new(position: u64, header: &BatchHeader) -> BatchPlace {
        BatchPlace {
            position,
            end_position: position + header.size_bytes() as u64,
            base_offset: Offset(header.base_offset()),
            next_offset: Offset(header.next_offset()),
        }
    }
}
