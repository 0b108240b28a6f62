//! Compaction: of each key only the newest record is kept (`cleanup.policy=compact`). Owns the order of the steps and the
//! reading; the decisions are in `dirty` (what, and when), `groups` (which segments become one), `filter` (what is left
//! of a batch) and `transactions`, all pure; the files change places in `swap`.
//!
//! ```text
//!   survey ─► dirty part ─► offset_map: newest offset of each key
//!                 all segments up to its end ─► groups ─► filter, batch by batch ─► .cleaned ─► swap, group by group
//!                                                      the place where it ended ─► cleaner-offset-checkpoint
//! ```
//! Nobody waits for a cleaning: it works on a list of segments of its own, and only the swap is short and alone. Whatever
//! else changes that list (a cut, a removal, opening again) makes the swap find other segments than those it began with,
//! and the cleaning ends there; what it swapped before is as good as ever.
//!
//! Each replica compacts on its own. Every segment goes on to the first offset of the next one, as the last batch of a
//! cleaned segment stays, if need be without records: a gap between two segments still means that something is missing.

mod dirty;
mod filter;
mod groups;
mod offset_map;
mod output;
mod swap;
mod throttle;
mod transactions;

pub use dirty::Survey;
pub(super) use swap::complete_swaps;
pub use throttle::Throttle;

use super::{
    Log, LogConfig, LogError,
    append::DECOMPRESSED_LIMIT_BYTES,
    names,
    producer_state::LastWrite,
    replay::Replay,
    scan::{CHUNK_BYTES, HEADER_CHUNK_BYTES, ScanError},
    segment::{SEGMENT_SUFFIXES, Segment},
};
use crate::{observe::Observation, types::Offset};
use bytes::Bytes;
use dirty::{Bounds, Candidate};
use filter::{Circumstances, Filtered, Rules};
use groups::{Limits, Member};
use offset_map::OffsetMap;
use output::Output;
use sillon_protocol::records::{BatchView, Compression, EndTransactionMarker, RecordBatch, RecordError};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use transactions::{Collector, Transactions};

/// What cleaning may take of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanerLimits {
    /// How much memory the keys of one cleaning may take.
    pub map_bytes: usize,
    /// How much is written at a time.
    pub buffer_bytes: usize,
}

/// What a cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Where the dirty part began.
    pub from: Offset,
    /// Everything below is clean now.
    pub to: Offset,
    /// Records that are left.
    pub records_kept: u64,
    /// Records that went.
    pub records_removed: u64,
    /// Bytes of the segments that were read.
    pub bytes_before: u64,
    /// Bytes of those that took their place.
    pub bytes_after: u64,
}

/// A log was not cleaned, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// It was cut, or its segments were removed, meanwhile.
    #[error("the log was changed meanwhile")]
    Changed,
    /// A file cannot be read or written; this may be tried again.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A batch makes no sense: no other try will do better.
    #[error("{path} is damaged at byte {position}: {source}", path = .path.display())]
    Damaged {
        /// The segment's file.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// What is wrong.
        source: RecordError,
    },
}

/// One cleaning.
struct Task<'a> {
    log: &'a Arc<Log>,
    /// The log's segments at the beginning.
    segments: Arc<Vec<Arc<Segment>>>,
    survey: Survey,
    /// Everything below is committed, and part of no open transaction.
    stable: Offset,
    config: Arc<LogConfig>,
    limits: CleanerLimits,
    throttle: &'a Throttle,
    /// Bytes since others had their turn.
    unbroken: AtomicUsize,
}

impl Log {
    /// What there is to clean. `high_watermark` bounds it.
    pub async fn survey(&self, high_watermark: Offset) -> Survey {
        let first_unstable = self.writer.lock().await.producers.first_unstable();
        self.survey_up_to(first_unstable.map_or(high_watermark, |first| first.min(high_watermark))).await.0
    }

    async fn survey_up_to(&self, stable: Offset) -> (Survey, Arc<Vec<Arc<Segment>>>) {
        let config = self.config();
        let (segments, log_start, log_end, noted) = {
            let view = self.view();
            (view.segments.clone(), view.log_start, view.log_end, view.first_dirty)
        };
        let now = self.context.runtime.now();
        let (_, closed) = segments.split_last().expect("a log has an active segment");
        let mut candidates = Vec::with_capacity(closed.len());
        for segment in closed {
            let first_timestamp_ms = match config.max_compaction_lag_ms {
                i64::MAX => None,
                _ => segment.first_timestamp().await,
            };
            let largest = segment.largest_timestamp(self.files()).await;
            candidates.push(Candidate {
                end_offset: segment.end_offset(),
                size_bytes: segment.size_bytes(),
                largest_timestamp_ms: largest.map(|largest| largest.timestamp_ms),
                first_timestamp_ms,
                closed_for: segment.closed_at().map_or(Duration::ZERO, |closed| now.saturating_since(closed)),
            });
        }
        let now_ms = self.context.runtime.unix_time().0;
        let bounds = Bounds { log_start, log_end, stable: stable.min(log_end), now_ms };
        (dirty::survey(&candidates, noted, bounds, &config), segments)
    }

    /// Why the log cannot be cleaned until it is opened again, if so.
    pub fn uncleanable(&self) -> Option<Arc<str>> {
        self.view().uncleanable.clone()
    }

    /// Compacts what is dirty below `high_watermark`, dirty enough or not. Gives none where there is nothing to do. A log
    /// in which a damaged batch is met is [`Log::uncleanable`] from then on.
    ///
    /// # Errors
    /// [`CleanError`]; the log is then as good as before, but for a swap that failed half-way, which takes it offline.
    pub async fn clean(
        self: &Arc<Self>,
        high_watermark: Offset,
        limits: CleanerLimits,
        throttle: &Throttle,
    ) -> Result<Option<Cleaned>, CleanError> {
        self.check_online()?;
        let (producers, first_unstable) = {
            let writer = self.writer.lock().await;
            (writer.producers.last_writes(), writer.producers.first_unstable())
        };
        let stable = first_unstable.map_or(high_watermark, |first| first.min(high_watermark));
        let (survey, segments) = self.survey_up_to(stable).await;
        if survey.cleanable_bytes == 0 {
            return Ok(None);
        }
        // What takes the place of older records must itself be there to stay.
        self.flush(survey.cleanable_end).await?;
        let config = self.config();
        let task = Task {
            log: self,
            segments,
            survey,
            stable,
            config,
            limits,
            throttle,
            unbroken: AtomicUsize::new(0),
        };
        let cleaned = task.run(producers).await;
        if let Err(error) = &cleaned {
            task.forget_output().await;
            // A scan that met another log's bytes found no damage.
            if !task.is_current() {
                return Err(CleanError::Changed);
            }
            if matches!(error, CleanError::Damaged { .. }) {
                self.view().uncleanable = Some(error.to_string().into());
            }
        }
        cleaned
    }

    /// Notes that everything below `to` is clean, where the log still has the segments that say so.
    async fn note_cleaned(&self, to: Offset, last: &Arc<Segment>) -> Result<(), CleanError> {
        let _writer = self.writer.lock().await;
        if !self.view().segments.iter().any(|segment| Arc::ptr_eq(segment, last)) {
            return Err(CleanError::Changed);
        }
        if let Some(durable) = &self.durable {
            durable.note_cleaned(&self.partition, to).await?;
        }
        self.view().first_dirty = Some(to);
        Ok(())
    }
}

impl Task<'_> {
    async fn run(&self, producers: BTreeMap<i64, LastWrite>) -> Result<Option<Cleaned>, CleanError> {
        let Some((newest, mut transactions)) = self.look().await? else { return Ok(None) };
        let end = Offset(newest.end());
        let now_ms = self.log.context.runtime.unix_time().0;
        let delete_retention_ms = self.config.delete_retention_ms;
        let rules = Arc::new(Rules { newest, producers, now_ms, delete_retention_ms });
        let count = self.segments.partition_point(|segment| segment.base_offset < end);
        let mut rest = &self.segments[..count];
        let mut cleaned = Cleaned { from: self.survey.first_dirty, to: end, ..Cleaned::default() };
        let mut last = rest.last().expect("what was looked at lies in a segment").clone();
        for group in self.groups(rest) {
            let (members, behind) = rest.split_at(group);
            rest = behind;
            last = self.clean_group(members, &rules, &mut transactions, &mut cleaned).await?;
        }
        self.log.note_cleaned(end, &last).await?;
        Ok(Some(cleaned))
    }

    fn groups(&self, segments: &[Arc<Segment>]) -> Vec<usize> {
        let member = |segment: &Arc<Segment>| Member {
            base_offset: segment.base_offset.0,
            end_offset: segment.end_offset().0,
            size_bytes: segment.size_bytes(),
            index_bytes: segment.index_bytes(),
        };
        let members: Vec<Member> = segments.iter().map(member).collect();
        let limits = Limits {
            segment_bytes: self.config.segment_bytes.into(),
            index_bytes: self.config.segment_index_bytes.into(),
        };
        groups::group(&members, limits)
    }

    /// Whether the log still has the segments that are cleaned, or what took their place here, and takes writes.
    fn is_current(&self) -> bool {
        let view = self.log.view();
        // The first segment that was not touched stays until something else changes the log.
        let untouched = &self.segments[self.segments.len() - 1];
        view.offline.is_none() && view.segments.iter().rev().any(|segment| Arc::ptr_eq(segment, untouched))
    }

    /// Waits for the rate, and ends the cleaning where it has become pointless.
    async fn pace(&self, bytes: usize) -> Result<(), CleanError> {
        self.throttle.took(bytes).await;
        // What lies in the page cache is read without waiting: others must have their turn, and who stops this be heard.
        if self.unbroken.fetch_add(bytes, Ordering::Relaxed) + bytes >= CHUNK_BYTES {
            self.unbroken.store(0, Ordering::Relaxed);
            self.blocking(|| ()).await?;
        }
        if self.is_current() { Ok(()) } else { Err(CleanError::Changed) }
    }

    fn failed(&self, segment: &Segment, error: ScanError) -> CleanError {
        let path = segment.path(names::LOG_SUFFIX);
        match error {
            ScanError::Io(source) => LogError::Io { path, action: "reading", source }.into(),
            ScanError::Bad { position, source } => CleanError::Damaged { path, position, source },
        }
    }

    /// Reads the dirty part. None where a transaction reaches into it that may yet be aborted.
    async fn look(&self) -> Result<Option<(OffsetMap, Transactions)>, CleanError> {
        let end = self.survey.cleanable_end;
        let (map, has_transactions) = self.read_keys(end, &mut Transactions::default()).await?;
        if !has_transactions {
            return Ok(Some((map, Transactions::default())));
        }
        // What was aborted must not take the place of anything, nor what has no committed marker yet.
        let (transactions, first_open) = self.collect_transactions().await?.finish();
        let first_open = first_open.map_or(end, |first| Offset(first).min(end));
        let ends = self.segments.iter().map(|segment| segment.end_offset());
        let end = ends.take_while(|end| *end <= first_open).last();
        let Some(end) = end.filter(|end| *end > self.survey.first_dirty) else { return Ok(None) };
        let (map, _) = self.read_keys(end, &mut transactions.clone()).await?;
        Ok(Some((map, transactions)))
    }

    /// The newest offset of each key from the first dirty one up to `to`, and whether there is a transaction between.
    async fn read_keys(
        &self,
        to: Offset,
        transactions: &mut Transactions,
    ) -> Result<(OffsetMap, bool), CleanError> {
        let from = self.survey.first_dirty;
        let mut map = OffsetMap::new(from.0, self.limits.map_bytes);
        let mut has_transactions = false;
        let dirty = self.segments.iter().filter(|segment| segment.end_offset() > from);
        for segment in dirty.take_while(|segment| segment.base_offset < to) {
            let mut scanner = segment.scanner(0, CHUNK_BYTES).expect("0 is in every file");
            while let Some((position, batch)) =
                scanner.next_batch().await.map_err(|error| self.failed(segment, error))?
            {
                if batch.next_offset() <= from.0 {
                    continue;
                }
                if map.is_full() {
                    return Ok((map, has_transactions));
                }
                let damaged = |source| self.failed(segment, ScanError::Bad { position, source });
                batch.validate_header().map_err(damaged)?;
                has_transactions |= batch.is_transactional();
                if !batch.is_control() && !transactions.on_data(&batch) {
                    self.note_keys(&batch, &mut map).await?.map_err(damaged)?;
                } else if let Some(marker) = EndTransactionMarker::from_batch(&batch) {
                    transactions.on_marker(&batch, marker);
                }
                map.note_end(batch.next_offset().max(map.end()));
                let size = batch.size_bytes();
                self.pace(size).await?;
            }
            // Nothing lies between its last batch and the next segment.
            map.note_end(segment.end_offset().0.max(map.end()));
        }
        Ok((map, has_transactions))
    }

    async fn note_keys(
        &self,
        batch: &BatchView<'_>,
        map: &mut OffsetMap,
    ) -> Result<Result<(), RecordError>, CleanError> {
        let opened = match self.decompressed(batch).await? {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        for record in batch.records_in(opened.as_deref().unwrap_or(batch.body())) {
            match record {
                Ok(record) => record.key().into_iter().for_each(|key| map.put(key, record.offset())),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// The records of a batch that is compressed; none where it is not.
    async fn decompressed(
        &self,
        batch: &BatchView<'_>,
    ) -> Result<Result<Option<Vec<u8>>, RecordError>, CleanError> {
        if batch.compression() == Ok(Compression::None) {
            return Ok(Ok(None));
        }
        let bytes = Bytes::copy_from_slice(batch.as_bytes());
        self.blocking(move || {
            let batch = RecordBatch::parse(bytes)?;
            Ok(Some(batch.decompress(DECOMPRESSED_LIMIT_BYTES)?.into_owned()))
        })
        .await
    }

    /// Runs what computes for long where it keeps nobody waiting.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CleanError> {
        self.log.context.runtime.blocking(work).await.map_err(|_| LogError::Stopping.into())
    }

    /// The transactions that were aborted in the dirty part. Their markers may lie behind it.
    async fn collect_transactions(&self) -> Result<Collector, CleanError> {
        let mut collector = Collector::default();
        for segment in self.segments.iter().filter(|segment| segment.end_offset() > self.survey.first_dirty) {
            let mut scanner = segment.scanner(0, HEADER_CHUNK_BYTES).expect("0 is in every file");
            let mut read = 0;
            while let Some((position, header)) =
                scanner.next_header().await.map_err(|error| self.failed(segment, error))?
            {
                if header.base_offset() >= self.stable.0 {
                    return Ok(collector);
                }
                read += HEADER_CHUNK_BYTES.min(header.size_bytes());
                let marker = match header.is_control() {
                    true => Replay::read_marker(segment, position, &header)
                        .await
                        .map_err(|error| self.failed(segment, error))?,
                    false => None,
                };
                collector.note(&header, marker);
            }
            self.pace(read).await?;
        }
        Ok(collector)
    }

    /// Writes what is left of some neighbouring segments into one, and gives it their place. Gives the segment that ends
    /// the group now: where nothing of a single one goes, it stays.
    async fn clean_group(
        &self,
        members: &[Arc<Segment>],
        rules: &Arc<Rules>,
        transactions: &mut Transactions,
        cleaned: &mut Cleaned,
    ) -> Result<Arc<Segment>, CleanError> {
        let (first, last) = (&members[0], &members[members.len() - 1]);
        let Some(last_filled) = members.iter().rposition(|segment| segment.size_bytes() > 0) else {
            return Ok(last.clone());
        };
        let mut output = Output::create(self.log, first.base_offset, self.limits.buffer_bytes).await?;
        let mut is_same = members.len() == 1;
        for (index, segment) in members.iter().enumerate() {
            let end = if index == last_filled { segment.size_bytes() } else { u64::MAX };
            is_same &= self.clean_segment(segment, end, rules, transactions, &mut output).await?;
        }
        let bytes_before = members.iter().map(|segment| segment.size_bytes()).sum::<u64>();
        let (kept, removed) = (output.records_kept, output.records_removed);
        let bytes_after = output.size_bytes();
        let segment = match is_same {
            true => {
                output.discard(self.log).await?;
                last.clone()
            }
            false => {
                let segment = output.finish(self.log, last.end_offset(), last.closed_at()).await?;
                self.swap(members.to_vec(), segment.clone()).await?;
                segment
            }
        };
        cleaned.records_kept += kept;
        cleaned.records_removed += removed;
        cleaned.bytes_before += bytes_before;
        cleaned.bytes_after += bytes_after;
        self.log.context.observers.tell(|| Observation::SegmentsCleaned {
            partition: &self.log.partition,
            from: first.base_offset,
            to: last.end_offset(),
            segments: members.len(),
            records_kept: kept,
            records_removed: removed,
            bytes_before,
            bytes_after,
        });
        Ok(segment)
    }

    /// Writes what is left of a segment. `last_end` is where the last batch of the group ends, in this segment. Gives
    /// whether all of it is left.
    async fn clean_segment(
        &self,
        segment: &Arc<Segment>,
        last_end: u64,
        rules: &Arc<Rules>,
        transactions: &mut Transactions,
        output: &mut Output,
    ) -> Result<bool, CleanError> {
        let mut is_same = true;
        let mut scanner = segment.scanner(0, CHUNK_BYTES).expect("0 is in every file");
        while let Some((position, batch)) =
            scanner.next_batch().await.map_err(|error| self.failed(segment, error))?
        {
            let damaged = |source| self.failed(segment, ScanError::Bad { position, source });
            batch.validate_header().map_err(damaged)?;
            let size = batch.size_bytes();
            let is_last = position + size as u64 == last_end;
            let is_over = match (batch.is_control(), EndTransactionMarker::from_batch(&batch)) {
                (true, Some(marker)) => transactions.on_marker(&batch, marker),
                // One that was emptied has nothing more to say.
                (true, None) => batch.record_count() == 0,
                (false, _) => transactions.on_data(&batch),
            };
            let filtered = self.filter(&batch, Circumstances { is_over, is_last }, rules).await;
            let filtered = filtered?.map_err(damaged)?;
            is_same &= filtered.left == filter::Left::Everything;
            let written = output.take(self.log, &batch, filtered, self.config.index_interval_bytes).await;
            let written = written?.map_err(damaged)?;
            self.pace(size + written).await?;
        }
        Ok(is_same)
    }

    async fn filter(
        &self,
        batch: &BatchView<'_>,
        circumstances: Circumstances,
        rules: &Arc<Rules>,
    ) -> Result<Result<Filtered, RecordError>, CleanError> {
        if batch.compression() == Ok(Compression::None) {
            return Ok(rules.filter(batch, circumstances));
        }
        let (bytes, rules) = (Bytes::copy_from_slice(batch.as_bytes()), rules.clone());
        self.blocking(move || rules.filter(&RecordBatch::parse(bytes)?, circumstances)).await
    }

    async fn swap(&self, members: Vec<Arc<Segment>>, segment: Arc<Segment>) -> Result<(), CleanError> {
        // In a task of its own: who stops the cleaner does not stop a swap half-way.
        let log = self.log.clone();
        let swap =
            self.log.context.runtime.spawn("log-swap", async move { log.swap(&members, segment).await });
        swap.await.map_err(|_| CleanError::Log(LogError::Stopping))?
    }

    /// Removes what was written for nothing.
    async fn forget_output(&self) {
        for segment in self.segments.iter() {
            for suffix in SEGMENT_SUFFIXES {
                let path = segment.path_beside(suffix, names::CLEANED_SUFFIX);
                // Where it stays, it is removed when the log is opened the next time.
                let _ = self.log.files().remove(&path).await;
            }
        }
    }
}
