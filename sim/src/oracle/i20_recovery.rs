//! I20: what an unclean stop may have left is checked from the proven recovery point on and cut at the first bad
//! batch: not later, and not earlier.

use super::{
    ghost::{Boot, Node, Partition},
    i01_acknowledged_survives::damage_explains,
    invariant::Invariant,
    judge::Judge,
};

/// A log as a starting broker opened it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub clean: bool,
    pub checked_from: i64,
    pub log_start: i64,
    pub log_end: i64,
}

/// A starting broker opened a log that was there before.
pub(super) fn on_opened(judge: &mut Judge, node: &Node, partition: &Partition, boot: &Boot, opened: Opened) {
    let Opened { clean, checked_from, log_start, log_end } = opened;
    judge.demand(Invariant::I20, !clean || boot.after_clean_stop, || {
        "the log was opened as clean, but the process before did not stop cleanly".into()
    });
    if clean || partition.wiped {
        return;
    }
    judge.demand(Invariant::I20, checked_from <= partition.durable.max(log_start), || {
        format!(
            "checked from {checked_from} only, but proven durable was what is below {}",
            partition.durable
        )
    });
    let sound_end = boot.image.sound_end(checked_from).max(log_start);
    let excused = damage_explains(node, partition, &boot.image, i64::MIN);
    judge.demand(Invariant::I20, log_end == sound_end || excused, || {
        let what = if log_end > sound_end { "it was kept" } else { "it was cut before" };
        format!("the first bad batch on disk was at {sound_end}; {what}: the log ends at {log_end}")
    });
}

/// A recovery point in a checkpoint file on disk.
pub(super) fn on_checkpoint(judge: &mut Judge, partition: &Partition, recovery_point: i64) {
    // Where a loss has taken durable records away, the file may still be from before. What counts then is where the
    // check really begins.
    if !partition.lost.is_empty() {
        return;
    }
    judge.demand(
        Invariant::I20,
        recovery_point <= partition.durable.max(partition.highest_log_start),
        || {
            format!(
                "the recovery point on disk is {recovery_point}, proven durable was what is below {}",
                partition.durable
            )
        },
    );
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::Stop, testing::Run};

    fn stopped(stop: Stop) -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.flush(2);
        run.append(2, 1);
        run.append(3, 1);
        run.stop(stop);
        run
    }

    #[test]
    fn everything_past_the_recovery_point_is_checked() {
        let run = stopped(Stop::PowerLost);
        run.rot(3);
        run.start();
        run.cut_disk(3);
        run.open(false, 2, 3);
        run.assert_legal(&[Invariant::I20]);
    }

    #[test]
    fn a_crash_does_not_count_as_a_clean_stop() {
        let run = stopped(Stop::Killed);
        run.start();
        run.open(true, 4, 4);
        run.assert_violated(Invariant::I20);
    }

    #[test]
    fn who_is_killed_after_the_marker_was_written_has_stopped() {
        for (asked, marker, legal) in [(true, true, true), (false, true, false), (true, false, false)] {
            let run = Run::new();
            run.open_new();
            run.append(0, 4);
            if asked {
                run.oracle.node_asked_to_stop(0);
            }
            if marker {
                run.disk.write("/data/.kafka_cleanshutdown", *b"{}");
            }
            run.stop(Stop::Killed);
            run.start();
            run.open(true, 4, 4);
            match legal {
                true => run.assert_legal(&[Invariant::I20]),
                false => run.assert_violated(Invariant::I20),
            }
        }
    }

    #[test]
    fn a_crash_after_the_log_was_loaded_does_not_either() {
        let run = stopped(Stop::Controlled);
        run.start();
        run.open(true, 4, 4);
        run.stop(Stop::PowerLost);
        run.start();
        run.open(true, 4, 4);
        run.assert_violated(Invariant::I20);
    }

    #[test]
    fn a_power_failure_after_a_clean_stop_changes_nothing() {
        let run = stopped(Stop::Controlled);
        run.stop(Stop::PowerLost);
        run.start();
        // Nothing was touched yet.
        run.stop(Stop::PowerLost);
        run.start();
        run.open(true, 4, 4);
        run.assert_legal(&[Invariant::I20]);
    }

    #[test]
    fn a_clean_stop_does() {
        let run = stopped(Stop::Controlled);
        run.start();
        run.open(true, 4, 4);
        run.assert_legal(&[Invariant::I20]);
    }

    #[test]
    fn a_check_that_begins_too_late() {
        let run = stopped(Stop::Killed);
        run.start();
        run.open(false, 4, 4);
        run.assert_violated(Invariant::I20);
    }

    #[test]
    fn a_bad_batch_that_stays() {
        let run = stopped(Stop::PowerLost);
        run.rot(3);
        run.start();
        run.open(false, 2, 4);
        run.assert_violated(Invariant::I20);
    }

    #[test]
    fn a_good_batch_that_goes() {
        let run = stopped(Stop::PowerLost);
        run.start();
        run.cut_disk(3);
        run.open(false, 2, 3);
        run.assert_violated(Invariant::I20);
    }

    #[test]
    fn a_recovery_point_without_proof() {
        let run = stopped(Stop::PowerLost);
        run.disk.write("/data/recovery-point-offset-checkpoint", "0\n1\nt 0 4\n");
        run.start();
        run.assert_violated(Invariant::I20);
    }
}
