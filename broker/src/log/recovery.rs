//! From the files of a directory to a log that may serve. Owns what is trusted and what is checked:
//!
//! ```text
//!   start ─────────── recovery point ─────────────────── end of the last file
//!     trusted: synced once      every batch is checked (checksum, offsets, epoch); the first bad one and
//!                               everything after it is cut off; indexes and producer table are made anew
//! ```
//! Never moves the recovery point up (B27): what was found whole in the page cache need not be on the disk.
//! After a clean stop nothing is checked but that everything is in its place; the slightest doubt makes it unclean.

use super::{
    LogConfig, LogError,
    check::{Bad, Progress, continues},
    checkpoint,
    compaction::complete_swaps,
    epoch_cache::EpochCache,
    inventory::{Inventory, SegmentFiles},
    names, producer_snapshot,
    producer_state::ProducerStates,
    replay::Replay,
    scan::{CHUNK_BYTES, HEADER_CHUNK_BYTES, ScanError, Scanner},
    segment::{SEGMENT_LIMIT_BYTES, Segment},
};
use crate::types::{LeaderEpoch, Offset};
use sillon_protocol::records::{BatchHeader, EndTransactionMarker};
use sillon_runtime::{File, FileSystem, Monotonic, OpenOptions};
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How to load a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The last stop was clean.
    pub(super) clean: bool,
    /// Everything below was proven durable.
    pub(super) recovery_point: Offset,
    /// The log start offset that was noted.
    pub(super) log_start: Offset,
    /// Nothing past this is kept, however whole it looks.
    pub(super) log_end_at_most: Option<Offset>,
    /// Write again what lies past the recovery point.
    pub(super) rewrite: bool,
}

/// A log as it was found or made.
pub(super) struct Loaded {
    /// In order, never empty; the last one is active.
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) log_start: Offset,
    pub(super) log_end: Offset,
    pub(super) recovery_point: Offset,
    pub(super) epochs: EpochCache,
    pub(super) producers: ProducerStates,
    /// Whether the clean stop was believed.
    pub(super) clean: bool,
    /// A marker says that the last sync failed; to be removed after the next one that succeeds.
    pub(super) sync_failed: bool,
}

/// Loads the log in `directory`, creating its first segment where there is none.
pub(super) async fn load(
    files: &dyn FileSystem,
    directory: &Arc<Path>,
    config: &LogConfig,
    now: Monotonic,
    plan: Plan,
) -> Result<Loaded, LogError> {
    let list = async || {
        let listing = files.list(directory).await.map_err(LogError::io(&**directory, "listing"))?;
        Ok::<_, LogError>(Inventory::of(&listing))
    };
    let mut inventory = list().await?;
    let mut loader = Loader { files, directory, config, now, plan };
    if complete_swaps(files, directory, &inventory).await? {
        loader.plan.clean = false;
        inventory = list().await?;
    }
    for name in &inventory.leftovers {
        loader.remove(name).await?;
    }
    loader.plan.rewrite |= inventory.sync_failed;
    loader.plan.clean &= !inventory.sync_failed;
    loader.remove_below_start(&mut inventory).await?;
    let epochs = loader.read_epochs().await?;
    let loaded = match &epochs {
        _ if inventory.segments.is_empty() => None,
        Some(epochs) if loader.plan.clean => loader.load_clean(&inventory, epochs).await?,
        _ => None,
    };
    let mut loaded = match loaded {
        Some(loaded) => loaded,
        None => loader.recover(&inventory, epochs.clone()).await?,
    };
    if loaded.log_end < plan.log_start {
        // The start was noted durably, the records up to it were lost: nothing that may be read is left.
        remove_everything(files, directory).await?;
        loaded = loader.create(plan.log_start).await?;
    }
    loaded.sync_failed = inventory.sync_failed;
    loaded.epochs.truncate_start(loaded.log_start);
    if epochs.unwrap_or_default() != loaded.epochs {
        let path = directory.join(names::LEADER_EPOCH_CHECKPOINT);
        let content = checkpoint::encode_epochs(loaded.epochs.entries());
        files.replace(&path, &content).await.map_err(LogError::io(path, "writing"))?;
    }
    if loader.plan.rewrite {
        loader.rewrite(&loaded).await?;
    }
    Ok(loaded)
}

/// Removes all that a log consists of, but not the topic's id. From the end, so that what an interruption leaves is
/// a log that ends earlier.
pub(super) async fn remove_everything(files: &dyn FileSystem, directory: &Path) -> Result<(), LogError> {
    let listing = files.list(directory).await.map_err(LogError::io(directory, "listing"))?;
    let inventory = Inventory::of(&listing);
    let remove = async |name: &str| {
        let path = directory.join(name);
        files.remove(&path).await.map_err(LogError::io(&path, "removing"))
    };
    for base in inventory.segments.keys().rev() {
        remove(&names::file_name(*base, names::LOG_SUFFIX)).await?;
        files.sync_dir(directory).await.map_err(LogError::io(directory, "syncing"))?;
    }
    let log = |name: &str| names::parse_file_name(name, names::LOG_SUFFIX).is_some();
    for entry in listing.iter().filter(|entry| !entry.is_directory && !log(&entry.name)) {
        if entry.name != names::PARTITION_METADATA {
            remove(&entry.name).await?;
        }
    }
    files.sync_dir(directory).await.map_err(LogError::io(directory, "syncing"))
}

struct Loader<'a> {
    files: &'a dyn FileSystem,
    directory: &'a Arc<Path>,
    config: &'a LogConfig,
    now: Monotonic,
    plan: Plan,
}

impl Loader<'_> {
    async fn remove(&self, name: &str) -> Result<(), LogError> {
        let path = self.directory.join(name);
        self.files.remove(&path).await.map_err(LogError::io(&path, "removing"))
    }

    async fn sync_names(&self) -> Result<(), LogError> {
        self.files.sync_dir(self.directory).await.map_err(LogError::io(&**self.directory, "syncing"))
    }

    fn segment_path(&self, base: Offset) -> PathBuf {
        self.directory.join(names::file_name(base, names::LOG_SUFFIX))
    }

    async fn open(&self, base: Offset) -> Result<Arc<dyn File>, LogError> {
        let path = self.segment_path(base);
        let options = OpenOptions { write: true, ..OpenOptions::READ };
        self.files.open(&path, options).await.map_err(LogError::io(path, "opening"))
    }

    fn scan_error(&self, base: Offset, error: ScanError) -> LogError {
        let path = self.segment_path(base);
        match error {
            ScanError::Io(source) => LogError::Io { path, action: "reading", source },
            ScanError::Bad { position, source } => {
                LogError::Corrupt { path, problem: format!("damaged at byte {position}: {source}") }
            }
        }
    }

    fn out_of_order(&self, base: Offset, batch: &BatchHeader) -> LogError {
        let problem = format!("damaged: a batch with offset {} is out of order", batch.base_offset());
        LogError::Corrupt { path: self.segment_path(base), problem }
    }

    /// Segments that end at or before the log start were about to be removed.
    async fn remove_below_start(&self, inventory: &mut Inventory) -> Result<(), LogError> {
        let bases: Vec<Offset> = inventory.segments.keys().copied().collect();
        for pair in bases.windows(2).take_while(|pair| pair[1] <= self.plan.log_start) {
            self.remove_segment(pair[0], inventory).await?;
        }
        Ok(())
    }

    /// Removes a segment that no log uses yet. The names are synced, so that an interruption leaves no gap.
    async fn remove_segment(&self, base: Offset, inventory: &mut Inventory) -> Result<(), LogError> {
        let files = inventory.segments.remove(&base).expect("the segment is in the listing");
        self.remove(&names::file_name(base, names::LOG_SUFFIX)).await?;
        for (suffix, there) in [
            (names::INDEX_SUFFIX, files.index_bytes.is_some()),
            (names::TIME_INDEX_SUFFIX, files.time_index_bytes.is_some()),
            (names::SNAPSHOT_SUFFIX, inventory.snapshots.remove(&base)),
        ] {
            if there {
                self.remove(&names::file_name(base, suffix)).await?;
            }
        }
        self.sync_names().await
    }

    /// The epochs in the checkpoint; none where it is missing or damaged.
    async fn read_epochs(&self) -> Result<Option<EpochCache>, LogError> {
        let path = self.directory.join(names::LEADER_EPOCH_CHECKPOINT);
        let Some(bytes) = checkpoint::read(self.files, &path).await? else { return Ok(None) };
        let epochs = checkpoint::decode_epochs(&bytes).ok().and_then(EpochCache::from_entries);
        if epochs.is_none() {
            tracing::warn!(path = %path.display(), "damaged; the leader epochs are collected from the log");
        }
        Ok(epochs)
    }

    /// An empty log.
    async fn create(&self, at: Offset) -> Result<Loaded, LogError> {
        let segment = Segment::create(self.files, self.directory, at).await;
        let segment = segment.map_err(LogError::io(self.segment_path(at), "creating"))?;
        Ok(Loaded {
            segments: vec![segment],
            log_start: at,
            log_end: at,
            recovery_point: at.min(self.plan.recovery_point),
            epochs: EpochCache::default(),
            producers: ProducerStates::default(),
            clean: self.plan.clean,
            sync_failed: false,
        })
    }

    /// The log after a clean stop; none where something is not as a clean stop leaves it.
    async fn load_clean(
        &self,
        inventory: &Inventory,
        epochs: &EpochCache,
    ) -> Result<Option<Loaded>, LogError> {
        let mut segments = Vec::with_capacity(inventory.segments.len());
        let mut bases = inventory.segments.iter().peekable();
        while let Some((base, files)) = bases.next() {
            let Some(entries) = files.index_entries() else { return Ok(None) };
            if files.log_bytes > SEGMENT_LIMIT_BYTES {
                return Ok(None);
            }
            let file = self.open(*base).await?;
            let end = bases.peek().map_or(*base, |(next, _)| **next);
            segments.push(Segment::closed(
                self.directory,
                *base,
                file,
                files.log_bytes,
                end,
                entries,
                self.now,
            ));
        }
        let last = segments.last().expect("there is a segment");
        let Some(log_end) = last.find_clean_end(self.files).await else { return Ok(None) };
        last.make_active(self.files, log_end).await;
        let segments: Vec<_> = segments.into_iter().map(Arc::new).collect();
        let log_start = self.plan.log_start.max(segments[0].base_offset);
        if log_end < log_start {
            return Ok(None);
        }
        let mut epochs = epochs.clone();
        epochs.truncate_end(log_end);
        let mut replay = self.start_replay(inventory, log_start, log_end, None).await?;
        self.replay_segments(&mut replay, &segments).await?;
        Ok(Some(Loaded {
            log_start,
            log_end,
            recovery_point: self.plan.recovery_point.min(log_end),
            epochs,
            producers: replay.producers,
            segments,
            clean: true,
            sync_failed: false,
        }))
    }

    /// The log after any other stop.
    async fn recover(&self, inventory: &Inventory, epochs: Option<EpochCache>) -> Result<Loaded, LogError> {
        let bases: Vec<Offset> = inventory.segments.keys().copied().collect();
        let Some(first) = bases.first() else { return self.create(self.plan.log_start).await };
        let log_start = self.plan.log_start.max(*first);
        // One that ends exactly at the recovery point may have been closed after the last sync: its indexes are not
        // proven.
        let trusted = bases.partition_point(|base| *base < self.plan.recovery_point).saturating_sub(1);
        let mut segments = Vec::with_capacity(bases.len());
        for (index, base) in bases[..trusted].iter().enumerate() {
            segments.push(self.trusted(*base, &inventory.segments[base], bases[index + 1]).await?);
        }
        let collected = epochs.is_none().then(EpochCache::default);
        let snapshot_limit = self.plan.recovery_point;
        let mut replay = self.start_replay(inventory, log_start, snapshot_limit, collected).await?;
        self.replay_segments(&mut replay, &segments).await?;

        let mut expected = None;
        let mut cut_from = bases.len();
        for (index, base) in bases.iter().enumerate().skip(trusted) {
            // Below the recovery point nothing is lost: Kafka's compaction leaves gaps between segments.
            let is_gap = |expected: Offset| {
                expected != *base && !(expected < *base && *base <= self.plan.recovery_point)
            };
            if expected.is_some_and(is_gap) {
                tracing::warn!(segment = %self.segment_path(*base).display(), "does not continue the log; removed");
                cut_from = index;
                break;
            }
            let (segment, whole) = self.check_segment(*base, epochs.as_ref(), &mut replay).await?;
            expected = Some(segment.end_offset());
            segments.push(Arc::new(segment));
            if !whole {
                cut_from = index + 1;
                break;
            }
        }
        self.remove_cut(&bases[cut_from..], inventory).await?;
        let log_end = segments.last().expect("one was checked at least").end_offset();
        if replay.from > log_end {
            // The log ends before the snapshot: below the recovery point there is damage.
            replay = self.start_replay(inventory, log_start, log_end, replay.epochs).await?;
            self.replay_segments(&mut replay, &segments).await?;
        }
        self.finish_recovery(segments, epochs, replay, log_start, &inventory.snapshots).await
    }

    async fn finish_recovery(
        &self,
        segments: Vec<Arc<Segment>>,
        epochs: Option<EpochCache>,
        replay: Replay,
        log_start: Offset,
        snapshots: &BTreeSet<Offset>,
    ) -> Result<Loaded, LogError> {
        let (active, closed) = segments.split_last().expect("one was checked at least");
        for segment in closed {
            if segment.is_active() {
                segment
                    .complete_indexes(self.files)
                    .await
                    .map_err(LogError::io(segment.path(""), "indexing"))?;
                segment.close(self.now);
            }
        }
        let log_end = active.end_offset();
        let recovery_point = self.plan.recovery_point.min(log_end);
        // A snapshot past it may be of records that are not these.
        let mut removed = false;
        for snapshot in snapshots.iter().filter(|snapshot| **snapshot > recovery_point) {
            let path = self.directory.join(names::file_name(*snapshot, names::SNAPSHOT_SUFFIX));
            match self.files.remove(&path).await {
                // It went with its segment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(LogError::io(path, "removing"))?,
            }
            removed = true;
        }
        if removed {
            self.sync_names().await?;
        }
        let mut epochs = epochs.or(replay.epochs).unwrap_or_default();
        epochs.truncate_end(log_end);
        Ok(Loaded {
            log_start: log_start.min(log_end),
            log_end,
            recovery_point,
            epochs,
            producers: replay.producers,
            segments,
            clean: false,
            sync_failed: false,
        })
    }

    /// A closed segment below the recovery point: taken as it is, its indexes made anew where they are not in order.
    async fn trusted(
        &self,
        base: Offset,
        files: &SegmentFiles,
        end: Offset,
    ) -> Result<Arc<Segment>, LogError> {
        let file = self.open(base).await?;
        if let Some(entries) = files.index_entries() {
            let segment =
                Segment::closed(self.directory, base, file.clone(), files.log_bytes, end, entries, self.now);
            if segment.indexes_make_sense(self.files).await {
                return Ok(Arc::new(segment));
            }
        }
        tracing::warn!(segment = %self.segment_path(base).display(), "its indexes are made anew");
        let segment = Segment::unknown(self.files, self.directory, base, file.clone()).await;
        let segment = segment.map_err(LogError::io(self.segment_path(base), "indexing"))?;
        let mut scanner = Scanner::new(file, 0, files.log_bytes.min(SEGMENT_LIMIT_BYTES), CHUNK_BYTES);
        while let Some((_, header)) =
            scanner.next_header().await.map_err(|error| self.scan_error(base, error))?
        {
            if !continues(&header, segment.end_offset(), base) || header.next_offset() > end.0 {
                return Err(self.out_of_order(base, &header));
            }
            if segment.note(&header, self.config.index_interval_bytes) {
                segment
                    .write_pending(self.files)
                    .await
                    .map_err(LogError::io(segment.path(""), "indexing"))?;
            }
        }
        segment.complete_indexes(self.files).await.map_err(LogError::io(segment.path(""), "indexing"))?;
        segment.close(self.now);
        // Recovery points vouch for indexes of closed segments too.
        segment.sync(self.files, true).await.map_err(LogError::io(segment.path(""), "syncing"))?;
        Ok(Arc::new(segment))
    }

    /// Checks a segment batch by batch and makes its indexes anew. Gives whether all of it was good; the rest is cut.
    async fn check_segment(
        &self,
        base: Offset,
        epochs: Option<&EpochCache>,
        replay: &mut Replay,
    ) -> Result<(Segment, bool), LogError> {
        let path = self.segment_path(base);
        let file = self.open(base).await?;
        let length = file.len().map_err(LogError::io(&path, "reading"))?;
        let segment = Segment::unknown(self.files, self.directory, base, file.clone()).await;
        let segment = segment.map_err(LogError::io(&path, "indexing"))?;
        let mut progress = Progress {
            plan: self.plan,
            segment_base: base,
            next_offset: base,
            latest_epoch: replay.latest_epoch(),
            epochs,
            is_compacted: self.config.compact,
        };
        let mut scanner = Scanner::new(file.clone(), 0, length.min(SEGMENT_LIMIT_BYTES), CHUNK_BYTES);
        let bad = loop {
            let batch = match scanner.next_batch().await {
                Ok(None) => break None,
                Ok(Some((_, batch))) => batch,
                Err(ScanError::Bad { source, .. }) => break Some(Bad::Record(source)),
                Err(error) => return Err(self.scan_error(base, error)),
            };
            if let Err(bad) = progress.check(&batch) {
                break Some(bad);
            }
            progress.next_offset = Offset(batch.next_offset());
            progress.latest_epoch = LeaderEpoch(batch.leader_epoch());
            replay.note(batch.header(), EndTransactionMarker::from_batch(&batch), self.now);
            if segment.note(batch.header(), self.config.index_interval_bytes) {
                segment.write_pending(self.files).await.map_err(LogError::io(&path, "indexing"))?;
            }
        };
        let good = segment.size_bytes();
        if good == length {
            return Ok((segment, true));
        }
        let reason =
            bad.map_or_else(|| "past the largest size of a segment".to_owned(), |bad| bad.to_string());
        tracing::warn!(
            segment = %path.display(), log_end = %progress.next_offset, bytes = length - good, %reason, "the log is cut"
        );
        file.set_len(good).map_err(LogError::io(&path, "cutting"))?;
        // What was cut must not come back behind what is appended now.
        file.sync_data().await.map_err(LogError::io(&path, "syncing"))?;
        Ok((segment, false))
    }

    /// Removes segments past the log's end, the last one first.
    async fn remove_cut(&self, bases: &[Offset], inventory: &Inventory) -> Result<(), LogError> {
        let mut rest = Inventory { segments: inventory.segments.clone(), ..Inventory::default() };
        for base in bases.iter().rev() {
            self.remove_segment(*base, &mut rest).await?;
        }
        Ok(())
    }

    /// Begins with the newest snapshot that is whole, not past `limit` and not older than the oldest segment, or with
    /// nothing at the log's start.
    async fn start_replay(
        &self,
        inventory: &Inventory,
        log_start: Offset,
        limit: Offset,
        epochs: Option<EpochCache>,
    ) -> Result<Replay, LogError> {
        // What a snapshot from before the first segment says may have been overtaken by batches that are gone.
        let first = inventory.segments.keys().next().copied().unwrap_or(log_start);
        let trusted = inventory.snapshots.range(first..).rev().filter(|offset| **offset <= limit);
        for offset in trusted {
            let path = self.directory.join(names::file_name(*offset, names::SNAPSHOT_SUFFIX));
            let Some(bytes) = checkpoint::read(self.files, &path).await? else { continue };
            match producer_snapshot::decode(&bytes, self.now) {
                Ok(producers) => return Ok(Replay { producers, from: *offset, epochs }),
                Err(error) => {
                    tracing::warn!(snapshot = %path.display(), %error, "damaged; an older one is used")
                }
            }
        }
        Ok(Replay { producers: ProducerStates::default(), from: log_start, epochs })
    }

    /// Brings the producer table, and the epochs where they are collected, up to the end of `segments`.
    async fn replay_segments(&self, replay: &mut Replay, segments: &[Arc<Segment>]) -> Result<(), LogError> {
        for segment in segments {
            if !replay.needs(segment) {
                continue;
            }
            let position = replay.start_in(segment, self.files).await;
            let position = position.map_err(|error| self.scan_error(segment.base_offset, error))?;
            let mut scanner =
                segment.scanner(position, HEADER_CHUNK_BYTES).expect("a batch begins in the file");
            let mut next_offset = segment.base_offset;
            while let Some((position, header)) =
                scanner.next_header().await.map_err(|error| self.scan_error(segment.base_offset, error))?
            {
                if !continues(&header, next_offset, segment.base_offset) {
                    return Err(self.out_of_order(segment.base_offset, &header));
                }
                next_offset = Offset(header.next_offset());
                let marker = match header.is_control() {
                    true => Replay::read_marker(segment, position, &header).await,
                    false => Ok(None),
                };
                let marker = marker.map_err(|error| self.scan_error(segment.base_offset, error))?;
                replay.note(&header, marker, self.now);
            }
        }
        Ok(())
    }

    /// Reads what lies past the recovery point and writes it back, so that the next sync has something to write.
    async fn rewrite(&self, loaded: &Loaded) -> Result<(), LogError> {
        let mut buffer = vec![0; CHUNK_BYTES];
        for segment in loaded.segments.iter().filter(|segment| segment.end_offset() > loaded.recovery_point) {
            let from = segment.find(self.files, loaded.recovery_point).await;
            let from = from.map_err(|error| self.scan_error(segment.base_offset, error))?;
            let mut position = from.map_or(0, |batch| batch.position);
            let end = segment.size_bytes();
            while position < end {
                let length = (end - position).min(CHUNK_BYTES as u64) as usize;
                let chunk = &mut buffer[..length];
                let copied = async {
                    segment.file.read_exact_at(chunk, position).await?;
                    segment.file.write_all_at(chunk, position).await
                };
                copied
                    .await
                    .map_err(LogError::io(self.segment_path(segment.base_offset), "writing again"))?;
                position += length as u64;
            }
        }
        Ok(())
    }
}
