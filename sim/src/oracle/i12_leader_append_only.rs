//! I12: a leader only ever adds to the end of its log.

use super::{ghost::Partition, invariant::Invariant, judge::Judge};

/// A batch was written.
pub(super) fn on_appended(judge: &mut Judge, partition: &Partition, base: i64) {
    judge.demand(Invariant::I12, base >= partition.log_end, || {
        format!("a batch is written at {base}, below the log end {}", partition.log_end)
    });
}

/// The end of an open log was removed.
pub(super) fn on_truncated(judge: &mut Judge, partition: &Partition, to: i64) {
    // What an append that failed left behind was never part of the log, and may go.
    judge.demand(Invariant::I12, to >= partition.log_end, || {
        format!(
            "the leader of epoch {:?} truncates its log from {} to {to}",
            partition.leader_epoch, partition.log_end
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, testing::Run};

    #[test]
    fn appending_and_removing_a_failed_append() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.offline();
        run.truncate(2);
        run.open(false, 0, 2);
        run.append(2, 2);
        run.assert_legal(&[Invariant::I12]);
    }

    #[test]
    fn a_leader_truncates() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 2);
        run.truncate(2);
        run.assert_violated(Invariant::I12);
    }

    #[test]
    fn a_leader_rewrites() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append_crc(0, 2, 77);
        run.assert_violated(Invariant::I12);
    }
}
