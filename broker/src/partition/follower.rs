//! What a follower does with its leader's answers, as a pure state machine.
//!
//! ```text
//!   answer to a fetch + what the own log looks like ──► FollowerState ──► steps: cut, begin anew, append, raise
//! ```
//! A follower changes its log only as the leader says that it follows now (B15), cuts it only where the leader's log
//! diverges and never at its own high watermark (B01, KIP-101), and learns of committed records only after it has
//! cut off what diverges (B10). Never touches a log.

use crate::{
    observe::EpochStart,
    types::{BrokerId, LeaderEpoch, Offset},
};
use sillon_protocol::ErrorCode;

/// The state of a replica that follows, or waits for a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerState {
    leader: Option<BrokerId>,
    leader_epoch: LeaderEpoch,
    high_watermark: Offset,
}

/// From whom, and in which epoch, something was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchedFrom {
    /// The leader.
    pub leader: BrokerId,
    /// The epoch that the fetch named.
    pub leader_epoch: LeaderEpoch,
    /// The offset that the fetch named: the log's end at that moment.
    pub fetch_offset: Offset,
    /// The epoch of the log's last record at that moment. With the offset it names the whole log (I10).
    pub last_epoch: LeaderEpoch,
}

/// What a leader answered for the partition.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAnswer {
    /// What is wrong, if anything.
    pub error: ErrorCode,
    /// The leader's high watermark.
    pub high_watermark: Offset,
    /// Where the leader's log starts; −1 where it does not say.
    pub log_start: Offset,
    /// The largest epoch that both may have, and where it ends in the leader's log, where the logs diverge.
    pub diverging: Option<EpochStart>,
    /// Whether records came along.
    pub has_records: bool,
}

/// The own log at the moment when an answer is applied.
#[derive(Clone, Copy, Debug)]
pub struct OwnLog {
    /// Its start.
    pub log_start: Offset,
    /// Its end.
    pub log_end: Offset,
    /// The epoch of its last record; [`LeaderEpoch::NONE`] where it holds none.
    pub last_epoch: LeaderEpoch,
    /// Its answer to "which is the largest epoch not larger than the diverging one, and where does it end".
    pub end_of_diverging_epoch: (LeaderEpoch, Offset),
}

/// One step, in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerStep {
    /// Cut the log where it diverges.
    TruncateTo {
        /// What the leader said.
        diverging: EpochStart,
        /// Where to cut.
        to: Offset,
    },
    /// Remove everything and begin at the start of the leader's log.
    StartAfresh {
        /// Where.
        at: Offset,
    },
    /// Append the records.
    Append,
    /// Learn what is committed: at most the leader's high watermark, and what the log then holds.
    LearnHighWatermark {
        /// The leader's.
        leaders: Offset,
    },
    /// Remove what the leader has removed at the start.
    RaiseLogStart {
        /// The leader's log start.
        to: Offset,
    },
}

/// Why an answer is not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotApplied {
    /// This broker does not follow that leader in that epoch any more, or the log has changed since.
    Obsolete,
    /// The leader cannot serve: to be tried again later.
    Refused(ErrorCode),
}

impl FollowerState {
    /// Follows `leader` from now on, or waits for one. The log stays as it is: where it diverges, the leader's answer to
    /// the first fetch says where (KIP-595).
    pub fn new(leader: Option<BrokerId>, leader_epoch: LeaderEpoch, high_watermark: Offset) -> FollowerState {
        FollowerState { leader, leader_epoch, high_watermark }
    }

    /// The leader, where there is one.
    pub fn leader(&self) -> Option<BrokerId> {
        self.leader
    }

    /// The epoch it follows in.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// All records below are committed.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// What to do with an answer.
    ///
    /// # Errors
    /// Where it must not be applied.
    pub fn on_answer(
        &self,
        from: FetchedFrom,
        answer: &LeaderAnswer,
        own: OwnLog,
    ) -> Result<Vec<FollowerStep>, NotApplied> {
        self.check_origin(from, own)?;
        match answer.error {
            ErrorCode::NONE => {}
            ErrorCode::OFFSET_OUT_OF_RANGE => return out_of_range(answer, own),
            error => return Err(NotApplied::Refused(error)),
        }
        if let Some(diverging) = answer.diverging {
            // What the leader says of committed records is about its own log: it counts after the next fetch (B10).
            let to = truncation_point(diverging, own);
            // All that would be left is what the leader has removed at its start: nothing vouches for it, and a leader with
            // it would bring back records that are gone, or others in their place.
            if own.log_start < answer.log_start && to <= answer.log_start {
                return Ok(vec![FollowerStep::StartAfresh { at: answer.log_start }]);
            }
            return Ok(vec![FollowerStep::TruncateTo { diverging, to }]);
        }
        let mut steps = Vec::with_capacity(3);
        if answer.has_records {
            steps.push(FollowerStep::Append);
        }
        steps.push(FollowerStep::LearnHighWatermark { leaders: answer.high_watermark });
        // An empty log begins with a whole batch, whose first records the leader may have removed.
        let may_begin_earlier = answer.has_records && own.log_start == own.log_end;
        if answer.log_start > own.log_start || may_begin_earlier {
            steps.push(FollowerStep::RaiseLogStart { to: answer.log_start });
        }
        Ok(steps)
    }

    /// An answer counts only for the one who still follows that leader in that epoch, with the log that asked (B15).
    fn check_origin(&self, from: FetchedFrom, own: OwnLog) -> Result<(), NotApplied> {
        let follows = self.leader == Some(from.leader) && self.leader_epoch == from.leader_epoch;
        let is_same_log = (own.log_end, own.last_epoch) == (from.fetch_offset, from.last_epoch);
        if follows && is_same_log { Ok(()) } else { Err(NotApplied::Obsolete) }
    }

    /// The leader's high watermark was told: gives the move of the own one, which never goes back and never passes the
    /// log's end.
    pub fn learn_high_watermark(&mut self, leaders: Offset, log_end: Offset) -> Option<(Offset, Offset)> {
        let to = leaders.min(log_end);
        if to <= self.high_watermark {
            return None;
        }
        Some((std::mem::replace(&mut self.high_watermark, to), to))
    }

    /// The log was cut, or begins anew: the high watermark is within it (B14). Gives the move, if it moved.
    pub fn on_log_replaced(&mut self, log_start: Offset, log_end: Offset) -> Option<(Offset, Offset)> {
        let to = self.high_watermark.clamp(log_start, log_end);
        (to != self.high_watermark).then(|| (std::mem::replace(&mut self.high_watermark, to), to))
    }
}

/// Where to cut: at the end of the largest epoch that both logs have. Where the own log does not have the leader's epoch,
/// the own end of the next smaller one is a step on the way, and the next fetch asks again (KIP-279, B03).
fn truncation_point(diverging: EpochStart, own: OwnLog) -> Offset {
    let (own_epoch, own_end) = own.end_of_diverging_epoch;
    let common_end = match own_epoch {
        epoch if epoch == diverging.epoch => own_end.min(diverging.start_offset),
        LeaderEpoch::NONE => diverging.start_offset,
        _ => own_end,
    };
    common_end.min(own.log_end)
}

/// The leader has nothing at the end of this log. Where its log starts later, everything here is too old to matter.
/// Where this log holds no record, it may begin anywhere.
fn out_of_range(answer: &LeaderAnswer, own: OwnLog) -> Result<Vec<FollowerStep>, NotApplied> {
    let is_empty = own.log_start == own.log_end;
    if answer.log_start > own.log_end || (is_empty && answer.log_start >= Offset::ZERO) {
        let at = answer.log_start;
        return Ok(vec![FollowerStep::StartAfresh { at }]);
    }
    Err(NotApplied::Refused(ErrorCode::OFFSET_OUT_OF_RANGE))
}
