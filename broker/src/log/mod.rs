//! The commit log of one partition, and the directories that hold the logs.
//!
//! ```text
//!   append ──► validate ─► producer_state ─► roll? ─► one vectored write ─► published (log end offset)
//!   read   ──► view (segments, offsets) ─► segment.find ─► a slice of a file, for sendfile
//!   flush  ──► one sync for all who wait ─► recovery point
//!   open   ──► recovery: every batch past the recovery point is checked, the log is cut at the first bad one
//! ```
//! Owns the bytes on disk in Kafka's own layout, the leader-epoch cache and the producer table of each log, and the
//! checkpoints beside them. Never knows of clients, replicas or the high watermark but as an argument.
//!
//! Who may run beside whom: one writer at a time (appends, rolls, cuts: `writer`), one sync at a time (`flushing`,
//! taken after `writer` where both are needed); readers wait for neither, they take a short look at `view`.
//!
//! Kept here, asserted where the state changes: start ≤ recovery point's bound ≤ log end (I09), appends only at the
//! end (I12), epochs and offsets increase (I13, I15), no byte is called durable before a sync proved it (I19), and a
//! log that failed to write or sync takes nothing more until it was opened again.

mod append;
mod check;
mod checkpoint;
mod clean_marker;
mod compaction;
mod config;
mod directories;
mod durable_offsets;
pub(crate) mod epoch_cache;
mod error;
mod flush;
pub(crate) mod fuzz_targets;
mod inventory;
mod maintain;
mod meta_properties;
mod names;
mod offset_index;
mod open;
mod producer_snapshot;
mod producer_state;
mod read;
mod recovery;
mod replay;
mod retention;
mod roll;
mod scan;
mod segment;
mod segment_check;
mod time_index;
mod timestamps;
mod truncate;
mod validate;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use append::Appended;
pub use compaction::{CleanError, Cleaned, CleanerLimits, Survey, Throttle};
pub use config::LogConfig;
pub use directories::{FoundPartition, LogDirectories};
pub use error::{AppendError, InvalidTopicName, LogError, ReadError};
pub use meta_properties::MetaProperties;
pub use names::validate_topic_name;
pub use open::Opening;
pub use read::LogSlice;
pub use timestamps::TimestampOffset;

use crate::{
    observe::{EpochStart, Observation, Observers, ProducerSummary},
    types::{LeaderEpoch, Offset, TopicId, TopicPartition},
};
use durable_offsets::DurableOffsets;
use epoch_cache::EpochCache;
use producer_state::ProducerStates;
use segment::Segment;
use sillon_runtime::{FileSystem, Monotonic, Runtime};
use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

/// What every log needs of the world.
#[derive(Clone, Debug)]
pub struct LogContext {
    /// Clocks, files, tasks.
    pub runtime: Runtime,
    /// Who is told what happens.
    pub observers: Observers,
}

/// One partition's log. Shared as `Arc<Log>`; it synchronises itself.
pub struct Log {
    context: LogContext,
    directory: Arc<Path>,
    partition: TopicPartition,
    topic_id: TopicId,
    config: Mutex<Arc<LogConfig>>,
    writer: tokio::sync::Mutex<Writer>,
    flushing: tokio::sync::Mutex<()>,
    view: Mutex<View>,
    durable: Option<Arc<DurableOffsets>>,
}

/// What only the one who holds the pen may touch.
struct Writer {
    producers: ProducerStates,
    /// When the first batch of the active segment was appended, or would have been.
    active_since: Monotonic,
}

/// What everybody sees. Changed in one short step, never across a suspension point.
struct View {
    /// In the order of their base offsets, never empty; the last one is the active one.
    segments: Arc<Vec<Arc<Segment>>>,
    log_start: Offset,
    log_end: Offset,
    recovery_point: Offset,
    epochs: EpochCache,
    offline: Option<Arc<str>>,
    /// Counts the changes of names in the directory, and how many of them were synced.
    names_changed: u64,
    names_synced: u64,
    /// The marker of a failed sync is in the directory.
    sync_failed: bool,
    last_flush: Monotonic,
    /// Everything below was compacted, as far as it is noted.
    first_dirty: Option<Offset>,
    /// Why compaction leaves the log alone until it is opened again.
    uncleanable: Option<Arc<str>>,
}

impl View {
    fn active(&self) -> &Arc<Segment> {
        self.segments.last().expect("a log always has an active segment")
    }

    /// I09 and what a list of segments must be. After every change.
    fn check(&self) {
        assert!(
            self.log_start <= self.log_end,
            "I09: log start {} ≤ log end {}",
            self.log_start,
            self.log_end
        );
        assert!(self.recovery_point <= self.log_end, "I09: recovery point {} ≤ log end", self.recovery_point);
        assert!(self.segments[0].base_offset <= self.log_start, "the log start is in a segment");
        assert!(self.segments.windows(2).all(|pair| pair[0].base_offset < pair[1].base_offset), "I15");
        assert_eq!(self.active().end_offset(), self.log_end, "the log ends where its active segment does");
    }
}

impl Log {
    /// The partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The topic's id.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The directory that holds its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The first offset that may be read.
    pub fn log_start_offset(&self) -> Offset {
        self.view().log_start
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.view().log_end
    }

    /// Everything below is proven to be durable.
    pub fn recovery_point(&self) -> Offset {
        self.view().recovery_point
    }

    /// The first offset of the oldest segment, which may lie below the log start.
    pub fn first_segment_offset(&self) -> Offset {
        self.view().segments[0].base_offset
    }

    /// The size of all segments in bytes, indexes not counted.
    pub fn size_bytes(&self) -> u64 {
        let segments = self.view().segments.clone();
        segments.iter().map(|segment| segment.size_bytes()).sum()
    }

    /// The number of segments.
    pub fn segment_count(&self) -> usize {
        self.view().segments.len()
    }

    /// The newest leader epoch of the log.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.view().epochs.latest().map(|entry| entry.epoch)
    }

    /// The leader-epoch cache, oldest first.
    pub fn epochs(&self) -> Vec<EpochStart> {
        self.view().epochs.entries().to_vec()
    }

    /// The largest epoch that is not larger than `epoch`, and its end (KIP-101, KIP-279); (−1, −1) where the log
    /// cannot tell.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let view = self.view();
        view.epochs.end_offset_for(epoch, view.log_end)
    }

    /// The epoch that `offset` was written in.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.view().epochs.epoch_for(offset)
    }

    /// Why the log takes no appends, if it takes none.
    pub fn is_offline(&self) -> Option<Arc<str>> {
        self.view().offline.clone()
    }

    /// The settings in force.
    pub fn config(&self) -> Arc<LogConfig> {
        self.config.lock().expect("nobody panics while holding the configuration").clone()
    }

    /// Puts other settings in force, from the next operation on.
    pub fn update_config(&self, config: LogConfig) {
        *self.config.lock().expect("nobody panics while holding the configuration") = Arc::new(config);
    }

    /// What each idempotent producer wrote last. Waits for the writer.
    pub async fn producers_summary(&self) -> Vec<ProducerSummary> {
        self.writer.lock().await.producers.summary()
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().expect("nobody panics while holding a log's view")
    }

    fn files(&self) -> &dyn FileSystem {
        self.context.runtime.fs()
    }

    /// An error where the log takes no writes.
    fn check_online(&self) -> Result<(), LogError> {
        match self.is_offline() {
            None => Ok(()),
            Some(reason) => Err(LogError::Offline { partition: self.partition.clone(), reason }),
        }
    }

    /// No write from here on, until the log is opened again.
    fn take_offline(&self, action: &str, error: &dyn std::fmt::Display) -> Arc<str> {
        let reason: Arc<str> = format!("{action}: {error}").into();
        {
            let mut view = self.view();
            if let Some(first) = &view.offline {
                return first.clone();
            }
            view.offline = Some(reason.clone());
        }
        tracing::error!(partition = %self.partition, %reason, "the log is offline");
        self.context
            .observers
            .tell(|| Observation::LogOffline { partition: &self.partition, reason: &reason });
        reason
    }

    /// Takes the log offline for a failed operation, and says so.
    fn failed(&self, action: &'static str, error: io::Error) -> LogError {
        let reason = self.take_offline(action, &error);
        LogError::Offline { partition: self.partition.clone(), reason }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({})", self.partition)
    }
}
