//! The leader's view of its replicas, as a pure state machine: how far the high watermark may go.
//!
//! ```text
//!   stable(log end up to here is kept by this replica) ──► LeaderState ──► the high watermark moved, or not
//! ```
//! Keeps: the high watermark never goes back and never passes the log end (I09). Never touches a log.

use crate::types::{LeaderEpoch, Offset};

/// The state of a partition that this broker leads, with itself as the only replica.
#[derive(Clone, Debug)]
pub struct LeaderState {
    leader_epoch: LeaderEpoch,
    high_watermark: Offset,
}

/// A move of the high watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighWatermarkMove {
    /// From where.
    pub from: Offset,
    /// To where.
    pub to: Offset,
}

impl LeaderState {
    /// Leadership begins in `leader_epoch`, with the high watermark known from before.
    pub fn new(leader_epoch: LeaderEpoch, high_watermark: Offset) -> LeaderState {
        LeaderState { leader_epoch, high_watermark }
    }

    /// The epoch it leads in.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// Records below `stable_end` are kept by every in-sync replica (here: by this one) as surely as the topic's
    /// configuration demands.
    pub fn on_stable(&mut self, stable_end: Offset, log_end: Offset) -> Option<HighWatermarkMove> {
        assert!(stable_end <= log_end, "nothing past the log end ({log_end}) can be stable ({stable_end})");
        if stable_end <= self.high_watermark {
            return None;
        }
        let moved = HighWatermarkMove { from: self.high_watermark, to: stable_end };
        self.high_watermark = stable_end;
        Some(moved)
    }

    /// The log was cut: damage on the disk took records that were committed.
    pub fn on_log_end_lowered(&mut self, log_end: Offset) -> Offset {
        self.high_watermark = self.high_watermark.min(log_end);
        self.high_watermark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_watermark_follows_what_is_stable_and_never_goes_back() {
        let mut leader = LeaderState::new(LeaderEpoch(3), Offset(5));
        assert_eq!(leader.on_stable(Offset(5), Offset(9)), None);
        assert_eq!(
            leader.on_stable(Offset(8), Offset(9)),
            Some(HighWatermarkMove { from: Offset(5), to: Offset(8) })
        );
        assert_eq!(leader.on_stable(Offset(6), Offset(9)), None);
        assert_eq!(leader.on_log_end_lowered(Offset(9)), Offset(8));
        assert_eq!(leader.on_log_end_lowered(Offset(7)), Offset(7));
    }

    #[test]
    #[should_panic(expected = "nothing past the log end")]
    fn nothing_past_the_log_end_is_stable() {
        LeaderState::new(LeaderEpoch(0), Offset(0)).on_stable(Offset(2), Offset(1));
    }
}
