//! Rebuilds from batches what is kept about them: the producer table, and the leader epochs where their checkpoint is
//! lost. Owns the state between a snapshot and the log's end; never decides which batches are good.

use super::{
    epoch_cache::EpochCache,
    producer_state::ProducerStates,
    scan::{ScanError, Scanner},
    segment::Segment,
};
use crate::types::{LeaderEpoch, Offset};
use sillon_protocol::records::{BatchHeader, EndTransactionMarker};
use sillon_runtime::{FileSystem, Monotonic};

/// The largest control batch that is opened: a transaction marker takes less than a hundred bytes.
const MARKER_LIMIT_BYTES: usize = 4096;

/// What has been rebuilt so far.
pub(super) struct Replay {
    /// The table as of `from`, and then as of the last batch noted.
    pub(super) producers: ProducerStates,
    /// Batches from here on are not in the snapshot.
    pub(super) from: Offset,
    /// The epochs collected; none where the checkpoint has them.
    pub(super) epochs: Option<EpochCache>,
}

impl Replay {
    /// Takes note of the next batch.
    pub(super) fn note(&mut self, batch: &BatchHeader, marker: Option<EndTransactionMarker>, now: Monotonic) {
        // The log may start within a batch: of that one the producer's last sequence number counts all the same.
        if batch.next_offset() > self.from.0 {
            self.producers.record(batch, Offset(batch.base_offset()), marker, now);
        }
        let latest = self.latest_epoch();
        if let Some(epochs) = &mut self.epochs
            && batch.leader_epoch() > latest.0
        {
            epochs.assign(LeaderEpoch(batch.leader_epoch()), Offset(batch.base_offset()));
        }
    }

    /// The newest epoch collected.
    pub(super) fn latest_epoch(&self) -> LeaderEpoch {
        let latest = self.epochs.as_ref().and_then(EpochCache::latest);
        latest.map_or(LeaderEpoch::NONE, |latest| latest.epoch)
    }

    /// Whether a segment holds batches that have to be noted.
    pub(super) fn needs(&self, segment: &Segment) -> bool {
        self.epochs.is_some() || segment.end_offset() > self.from
    }

    /// The position of the first batch of a segment that has to be noted.
    pub(super) async fn start_in(&self, segment: &Segment, files: &dyn FileSystem) -> Result<u64, ScanError> {
        if self.epochs.is_some() || segment.base_offset >= self.from {
            return Ok(0);
        }
        let found = segment.find(files, self.from).await?;
        Ok(found.map_or(segment.size_bytes(), |batch| batch.position))
    }

    /// The marker in a control batch of which only the header was read.
    pub(super) async fn read_marker(
        segment: &Segment,
        position: u64,
        header: &BatchHeader,
    ) -> Result<Option<EndTransactionMarker>, ScanError> {
        if header.size_bytes() > MARKER_LIMIT_BYTES {
            return Ok(None);
        }
        let end = position + header.size_bytes() as u64;
        let mut scanner = Scanner::new(segment.file.clone(), position, end, header.size_bytes());
        let batch = scanner.next_batch().await?;
        Ok(batch.and_then(|(_, batch)| EndTransactionMarker::from_batch(&batch)))
    }
}
