//! Whether a batch read from a disk belongs where it was found. Pure: owns the rules; never reads or cuts.

use super::{epoch_cache::EpochCache, recovery::Plan};
use crate::types::{LeaderEpoch, Offset};
use sillon_protocol::records::{BatchHeader, BatchView, RecordError};

/// Where the check of the batches stands.
pub(super) struct Progress<'a> {
    /// What is trusted.
    pub(super) plan: Plan,
    /// The segment's base offset.
    pub(super) segment_base: Offset,
    /// One past the last offset so far.
    pub(super) next_offset: Offset,
    /// The last batch's epoch.
    pub(super) latest_epoch: LeaderEpoch,
    /// The epochs that the checkpoint vouches for; none where they are collected from the batches.
    pub(super) epochs: Option<&'a EpochCache>,
    /// A leader that compacts may have given batches with gaps between them.
    pub(super) is_compacted: bool,
}

/// Why a batch ends the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum Bad {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("it starts at offset {found}, after {expected}")]
    Offset { found: i64, expected: Offset },
    #[error("it is of leader epoch {found}, where the log has {least} to {most}")]
    Epoch { found: LeaderEpoch, least: LeaderEpoch, most: LeaderEpoch },
    #[error("it lies past the log's end")]
    PastEnd,
}

/// Whether a batch may follow in a segment that holds everything before `next_offset`.
pub(super) fn continues(batch: &BatchHeader, next_offset: Offset, segment_base: Offset) -> bool {
    let (base, last) = (batch.base_offset(), batch.last_offset());
    base >= next_offset.0 && last >= base && last - segment_base.0 <= i64::from(i32::MAX)
}

impl Progress<'_> {
    /// Checks one batch. Below the recovery point only that the file can be walked through.
    pub(super) fn check(&self, batch: &BatchView<'_>) -> Result<(), Bad> {
        let base = batch.base_offset();
        let offset = Bad::Offset { found: base, expected: self.next_offset };
        if !continues(batch.header(), self.next_offset, self.segment_base) {
            return Err(offset);
        }
        if self.plan.log_end_at_most.is_some_and(|most| batch.next_offset() > most.0) {
            return Err(Bad::PastEnd);
        }
        if batch.next_offset() <= self.plan.recovery_point.0 {
            return Ok(());
        }
        if base != self.next_offset.0 && !self.is_compacted {
            return Err(offset);
        }
        // The checksum covers neither offset nor epoch. Epochs are on disk before their first batch.
        let found = LeaderEpoch(batch.leader_epoch());
        let (least, most) = match self.epochs {
            Some(epochs) => epochs.range_for(Offset(base)),
            None => (LeaderEpoch::NONE, LeaderEpoch(i32::MAX)),
        };
        if found < least.max(self.latest_epoch) || found > most {
            return Err(Bad::Epoch { found, least, most });
        }
        Ok(batch.validate_header()?)
    }
}
