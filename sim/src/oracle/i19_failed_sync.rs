//! I19: a log whose disk failed takes nothing more until it was opened again, and no sync after a failed one makes
//! up for it.

use super::{ghost::Partition, invariant::Invariant, judge::Judge};

/// Between the failure of a sync and the broker's task hearing of it other tasks may run, but not for long.
const GRACE_NS: u64 = 1_000_000_000;

/// A batch was written.
pub(super) fn on_appended(judge: &mut Judge, partition: &Partition) {
    if partition.offline {
        judge.violated(Invariant::I19, "an append after the log went offline".into());
    } else if let Some(failed_ns) = partition.disk_failed_ns {
        let holds = judge.now_ns() <= failed_ns + GRACE_NS;
        judge.demand(Invariant::I19, holds, || {
            format!("an append, although a write or sync failed at {:.6} s", failed_ns as f64 / 1e9)
        });
    }
}

/// The recovery point moves.
pub(super) fn on_flushed(judge: &mut Judge, partition: &Partition, up_to: i64) {
    if partition.sync_failed {
        judge.demand(Invariant::I19, up_to <= partition.durable, || {
            format!("flushed up to {up_to} counts after a failed sync, without opening the log again")
        });
    }
}

/// The log went offline, as it must after a failure.
pub(super) fn on_offline(judge: &mut Judge) {
    judge.evaluated(Invariant::I19);
}

/// The log was opened again: what was not proven durable before must have been checked and written anew.
pub(super) fn on_reopened(judge: &mut Judge, partition: &Partition, checked_from: i64) {
    judge.demand(Invariant::I19, checked_from <= partition.durable.max(partition.log_start), || {
        format!(
            "opened again with a check from {checked_from}, durable was what is below {}",
            partition.durable
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        events::DiskFault,
        testing::{LOG, Run},
    };

    fn sync_failed() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.oracle.disk_fault(0, DiskFault::SyncFailed { file: LOG.into() });
        run
    }

    #[test]
    fn offline_and_opened_again() {
        let run = sync_failed();
        run.offline();
        run.open(false, 0, 2);
        run.append(2, 1);
        run.flush(3);
        run.assert_legal(&[Invariant::I19]);
    }

    #[test]
    fn an_append_while_offline() {
        let run = sync_failed();
        run.offline();
        run.append(2, 1);
        run.assert_violated(Invariant::I19);
    }

    #[test]
    fn going_on_as_if_nothing_had_happened() {
        let run = sync_failed();
        run.later(2_000_000_000);
        run.append(2, 1);
        run.assert_violated(Invariant::I19);
    }

    #[test]
    fn a_sync_that_was_under_way_when_a_write_failed() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.oracle.disk_fault(0, DiskFault::WriteFailed { file: LOG.into() });
        run.offline();
        run.flush(2);
        run.assert_legal(&[Invariant::I19]);
    }

    #[test]
    fn a_later_sync_that_counts_for_the_failed_one() {
        let run = sync_failed();
        run.flush(2);
        run.assert_violated(Invariant::I19);
    }

    #[test]
    fn opened_again_without_looking_at_what_was_not_synced() {
        let run = sync_failed();
        run.offline();
        run.open(false, 2, 2);
        run.assert_violated(Invariant::I19);
    }
}
