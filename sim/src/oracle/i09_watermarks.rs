//! I09: start, high watermark, recovery point and end of a log keep their order.

use super::{ghost::Partition, invariant::Invariant, judge::Judge};

/// A move of the high watermark, as the broker tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub leader_epoch: i32,
    pub leads: bool,
    pub from: i64,
    pub to: i64,
    pub log_start: i64,
    pub log_end: i64,
}

/// The high watermark moves.
pub(super) fn on_moved(judge: &mut Judge, partition: &Partition, moved: Move) {
    let Move { leader_epoch, leads, from, to, log_start, log_end } = moved;
    judge.demand(Invariant::I09, log_start <= to && to <= log_end, || {
        format!("the high watermark moves to {to} in a log of {log_start}..{log_end}")
    });
    judge.demand(Invariant::I09, log_end <= partition.log_end, || {
        format!(
            "the log ends at {log_end} for the high watermark, but appended was up to {}",
            partition.log_end
        )
    });
    if partition.leader_epoch == Some(leader_epoch)
        && let Some(known) = partition.high_watermark
    {
        // A follower's goes back with its log, where its leader has it cut.
        let holds = if leads { to >= from && from == known } else { to >= known };
        judge.demand(Invariant::I09, holds, || {
            format!("the high watermark was {known} and moves from {from} to {to} in epoch {leader_epoch}")
        });
    }
}

/// A follower takes a batch: a log that was cut or begins anew took its high watermark along.
pub(super) fn on_appended(judge: &mut Judge, partition: &Partition) {
    let Some(told) = partition.told_high_watermark.filter(|_| partition.leading.is_none()) else { return };
    let log_start = partition.log_start;
    judge.demand(Invariant::I09, log_start <= told, || {
        format!("a follower's log begins at {log_start} and goes on, its high watermark is still {told}")
    });
}

/// The recovery point moves.
pub(super) fn on_flushed(judge: &mut Judge, partition: &Partition, up_to: i64) {
    judge.demand(Invariant::I09, up_to <= partition.log_end, || {
        format!("flushed up to {up_to}, but the log ends at {}", partition.log_end)
    });
}

/// A broker becomes a follower, with a log that ends there.
pub(super) fn on_follower(judge: &mut Judge, partition: &Partition, log_end: i64) {
    judge.demand(Invariant::I09, !partition.open || log_end == partition.log_end, || {
        format!("a follower's log ends at {log_end}, appended was up to {}", partition.log_end)
    });
}

/// A log was opened.
pub(super) fn on_opened(judge: &mut Judge, log_start: i64, log_end: i64) {
    judge.demand(Invariant::I09, log_start <= log_end, || {
        format!("the log is opened as {log_start}..{log_end}")
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, testing::Run};

    #[test]
    fn the_high_watermark_follows_the_log() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        run.append(2, 1);
        run.high_watermark(2, 3);
        run.flush(3);
        run.assert_legal(&[Invariant::I09]);
    }

    #[test]
    fn past_the_end() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 3);
        run.assert_violated(Invariant::I09);
    }

    #[test]
    fn back_within_an_epoch() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        run.high_watermark(2, 1);
        run.assert_violated(Invariant::I09);
    }

    #[test]
    fn a_recovery_point_past_the_end() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.flush(3);
        run.assert_violated(Invariant::I09);
    }
}
