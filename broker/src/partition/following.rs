//! What a partition does while this broker follows: applies its leader's answers to the log. Owns the way from a step
//! to the log; what the steps are is decided in `follower`.

use super::{
    Partition, Role,
    follower::{FetchedFrom, FollowerStep, LeaderAnswer, NotApplied, OwnLog},
};
use crate::{
    log::{AppendError, LogError},
    observe::{EpochStart, Observation, ReplicaRole},
    types::{LeaderEpoch, Offset},
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    records::{RecordBatch, split_batches},
};

/// Why an answer could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The answer belongs to another time: ask again.
    #[error("the replica does not follow that leader in that epoch any more")]
    Obsolete,
    /// The leader cannot serve the partition now.
    #[error("the leader says {}: {}", .0.code(), .0.message())]
    Refused(ErrorCode),
    /// The records cannot be appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log cannot be cut.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What a follower asks its leader for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerPosition {
    /// Its log end.
    pub log_end: Offset,
    /// The epoch of its last record; [`LeaderEpoch::NONE`] where it holds none.
    pub last_epoch: LeaderEpoch,
    /// Its log start.
    pub log_start: Offset,
    /// Its high watermark.
    pub high_watermark: Offset,
}

impl Partition {
    /// From where the next fetch goes on. An epoch without records is not the last one's: what a leader says of it would
    /// not be about this log.
    pub fn position(&self) -> FollowerPosition {
        let (log_start, log_end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let last = (log_end > log_start).then(|| self.log.epoch_for_offset(Offset(log_end.0 - 1))).flatten();
        FollowerPosition {
            log_end,
            last_epoch: last.unwrap_or(LeaderEpoch::NONE),
            log_start,
            high_watermark: self.high_watermark(),
        }
    }

    /// Applies what a leader answered. The role cannot change meanwhile.
    ///
    /// # Errors
    /// Why it was not applied, or not wholly.
    pub async fn apply_answer(
        &self,
        from: FetchedFrom,
        answer: &LeaderAnswer,
        records: &Bytes,
    ) -> Result<(), ApplyError> {
        let _turn = self.turn.lock().await;
        if self.is_removed() || self.log.is_offline().is_some() {
            return Err(ApplyError::Obsolete);
        }
        let position = self.position();
        let own = OwnLog {
            log_start: position.log_start,
            log_end: position.log_end,
            last_epoch: position.last_epoch,
            end_of_diverging_epoch: answer.diverging.map_or((LeaderEpoch::NONE, Offset(-1)), |diverging| {
                self.log.end_offset_for_epoch(diverging.epoch)
            }),
        };
        let steps = match &self.state().role {
            Role::Leader(_) => Err(NotApplied::Obsolete),
            Role::Follower(follower) => follower.on_answer(from, answer, own),
        };
        let steps = steps.map_err(|reason| match reason {
            NotApplied::Obsolete => ApplyError::Obsolete,
            NotApplied::Refused(code) => ApplyError::Refused(code),
        })?;
        for step in steps {
            self.take_step(from, step, records).await?;
        }
        Ok(())
    }

    async fn take_step(
        &self,
        from: FetchedFrom,
        step: FollowerStep,
        records: &Bytes,
    ) -> Result<(), ApplyError> {
        match step {
            FollowerStep::TruncateTo { diverging, to } => {
                self.tell_truncation(from, Some(diverging), to);
                self.log.truncate_to(to).await?;
                self.on_log_replaced(from);
            }
            FollowerStep::StartAfresh { at } => self.start_afresh(from, at).await?,
            FollowerStep::Append => self.append_records(from, records).await?,
            FollowerStep::LearnHighWatermark { leaders } => {
                self.learn_high_watermark(leaders, from.leader_epoch)
            }
            FollowerStep::RaiseLogStart { to } => {
                let high_watermark = self.high_watermark();
                let to = to.min(high_watermark);
                if to > self.log.log_start_offset() {
                    self.log.delete_records(to, high_watermark).await?;
                }
            }
        }
        Ok(())
    }

    async fn start_afresh(&self, from: FetchedFrom, at: Offset) -> Result<(), ApplyError> {
        self.tell_truncation(from, None, at);
        self.log.truncate_fully_and_start_at(at).await?;
        self.on_log_replaced(from);
        Ok(())
    }

    /// Where the leader's log starts within a batch, it gives the whole batch: an empty log then begins with it.
    async fn append_records(&self, from: FetchedFrom, records: &Bytes) -> Result<(), ApplyError> {
        let log_end = self.log.log_end_offset();
        if self.log.log_start_offset() == log_end
            && let Some(Ok(first)) = split_batches(records).next()
            && holds_inside(&first, log_end)
        {
            self.start_afresh(from, Offset(first.base_offset())).await?;
        }
        self.log.append_as_follower(records).await?;
        Ok(())
    }

    /// Readers that wait here are told: nobody else would (B11).
    fn learn_high_watermark(&self, leaders: Offset, leader_epoch: LeaderEpoch) {
        let moved = match &mut self.state().role {
            Role::Follower(follower) => follower.learn_high_watermark(leaders, self.log.log_end_offset()),
            Role::Leader(_) => None,
        };
        if let Some((from, to)) = moved {
            self.publish_high_watermark(leader_epoch, from, to);
            self.waiters.committed();
        }
    }

    fn on_log_replaced(&self, origin: FetchedFrom) {
        let (log_start, log_end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let moved = match &mut self.state().role {
            Role::Follower(follower) => follower.on_log_replaced(log_start, log_end),
            Role::Leader(_) => None,
        };
        if let Some((from, to)) = moved {
            if to < from {
                tracing::warn!(partition = %self.name, leader = %origin.leader, %from, %to,
                    "the leader's log does not hold what was committed here: it is cut off");
            }
            self.publish_high_watermark(origin.leader_epoch, from, to);
        }
    }

    fn publish_high_watermark(&self, leader_epoch: LeaderEpoch, from: Offset, to: Offset) {
        self.high_watermark.store(to.0, std::sync::atomic::Ordering::Release);
        self.tell_high_watermark(ReplicaRole::Follower, leader_epoch, from, to);
    }

    fn tell_truncation(&self, from: FetchedFrom, diverging: Option<EpochStart>, to: Offset) {
        tracing::info!(partition = %self.name, leader = %from.leader, leader_epoch = %from.leader_epoch, %to,
            "cutting the log where the leader's diverges or starts");
        self.observers.tell(|| Observation::TruncationOrdered {
            partition: &self.name,
            leader: from.leader,
            leader_epoch: from.leader_epoch,
            diverging,
            to,
        });
    }
}

fn holds_inside(batch: &RecordBatch, offset: Offset) -> bool {
    batch.base_offset() < offset.0 && offset.0 < batch.next_offset()
}
