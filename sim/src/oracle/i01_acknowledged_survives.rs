//! I01 and I02: what was acknowledged stays.
//!
//! One replica keeps an acknowledged record through every crash of its process. Through a power failure it keeps
//! what it flushed, and where each message is flushed before it is acknowledged, that is everything. What else is
//! missing must be explained by the fault log: lost power, damaged bytes, a replaced disk.

use super::{
    Contract,
    disk::{LogImage, segment_path},
    ghost::{GhostBatch, Node, Partition},
    invariant::Invariant,
    judge::Judge,
};
use std::path::Path;

/// A success is on its way to a producer.
pub(super) fn on_acknowledged(
    judge: &mut Judge,
    contract: &Contract,
    partition: &Partition,
    (base, next, acks): (i64, i64, i16),
    high_watermark: i64,
) {
    let there = partition.batch_at(base).is_some_and(|batch| batch.next == next);
    judge.demand(Invariant::I01, there, || format!("{base}..{next} is acknowledged but not in the log"));
    if acks == -1 {
        judge.demand(Invariant::I01, next <= high_watermark, || {
            format!("{base}..{next} is acknowledged to acks=all with the high watermark at {high_watermark}")
        });
    }
    if contract.flush_every_message {
        judge.demand(Invariant::I02, next <= partition.durable, || {
            format!(
                "{base}..{next} is acknowledged, but only what is below {} was flushed",
                partition.durable
            )
        });
    }
}

/// A producer got its confirmation: the batch is there, or was there and was lost as it may be.
pub(super) fn on_confirmed(judge: &mut Judge, partition: &Partition, base: i64, count: i64) {
    let is_it = |batch: &GhostBatch| batch.count() == count;
    let there = partition.batch_at(base).is_some_and(is_it) || partition.lost_at(base, is_it);
    judge.demand(Invariant::I01, there, || {
        format!("{count} records are confirmed at {base} but not in the log")
    });
}

/// The end of a running log is removed.
pub(super) fn on_truncated(judge: &mut Judge, partition: &Partition, to: i64) {
    let kept = partition.acknowledged_end;
    judge.demand(Invariant::I01, to >= kept, || {
        format!("truncated to {to}, but everything below {kept} is acknowledged")
    });
}

/// A broker starts: what must be on its disk is there.
pub(super) fn on_starting(
    judge: &mut Judge,
    contract: &Contract,
    node: &Node,
    partition: &Partition,
    image: &LogImage,
) {
    if partition.wiped || partition.log_end == partition.log_start {
        return;
    }
    let (invariant, must_reach) = if !partition.power_was_lost {
        (Invariant::I01, partition.log_end)
    } else if contract.flush_every_message {
        (Invariant::I02, partition.durable.max(partition.acknowledged_end))
    } else {
        (Invariant::I02, partition.durable)
    };
    if must_reach <= partition.log_start {
        return;
    }
    let sound_end = image.sound_end(partition.log_start);
    let holds = sound_end >= must_reach || damage_explains(node, partition, image, partition.log_start);
    judge.demand(invariant, holds, || {
        let why = image.broken.as_ref().map_or("the file ends there", |broken| broken.text.as_str());
        format!(
            "everything below {must_reach} must be on disk, but the log is sound only to {sound_end}: {why}"
        )
    });
    same_batches(judge, invariant, node, partition, image, must_reach);
}

/// A log was opened: what the disk held and must be kept is in it.
pub(super) fn on_opened(
    judge: &mut Judge,
    node: &Node,
    partition: &Partition,
    image: &LogImage,
    log_end: i64,
) {
    if partition.wiped || partition.log_end == partition.log_start {
        return;
    }
    let (invariant, must_reach) = if partition.power_was_lost {
        (Invariant::I02, partition.durable)
    } else {
        (Invariant::I01, partition.log_end)
    };
    let holds = log_end >= must_reach || damage_explains(node, partition, image, partition.log_start) || {
        // Recovery has cut the damaged bytes away by now: the image from before shows them.
        partition
            .boot
            .as_ref()
            .is_some_and(|boot| damage_explains(node, partition, &boot.image, partition.log_start))
            || (partition.boot.is_none() && node.has_damage_in(&partition.directory))
    };
    judge.demand(invariant, holds, || {
        format!("the log held everything below {must_reach}, now it ends at {log_end}")
    });
    same_batches(judge, invariant, node, partition, image, log_end.min(partition.log_end));
}

/// The topic is there again, but with another id: nothing of the old one may have been promised.
pub(super) fn on_other_topic(judge: &mut Judge, node: &Node, partition: &Partition, log_directory: &Path) {
    let holds = partition.acknowledged_end == 0 || node.has_damage_in(log_directory);
    judge.demand(Invariant::I02, holds, || {
        format!(
            "the broker has forgotten the topic, though it acknowledged everything below {}",
            partition.acknowledged_end
        )
    });
}

/// The run is over: the disk holds the log as it must be.
pub(super) fn at_end(judge: &mut Judge, node: &Node, partition: &Partition, image: &LogImage) {
    if partition.log_end > partition.log_start {
        let end = image.end();
        let holds = end >= partition.log_end || node.has_damage_in(&partition.directory);
        judge.demand(Invariant::I01, holds, || {
            format!("the log on disk ends at {end}, not at {}", partition.log_end)
        });
        same_batches(judge, Invariant::I01, node, partition, image, partition.log_end);
    }
}

/// The batches on disk below `to` are the ones that were appended.
fn same_batches(
    judge: &mut Judge,
    invariant: Invariant,
    node: &Node,
    partition: &Partition,
    image: &LogImage,
    to: i64,
) {
    let from = partition.log_start.max(image.start());
    let expected = partition.batches_from(from).iter().take_while(|batch| batch.next <= to);
    let found = &image.batches[image.batches.partition_point(|batch| batch.next <= from)..];
    let different = expected.zip(found).find(|(ghost, disk)| {
        let damaged = || {
            let file = segment_path(&partition.directory, disk.segment);
            node.is_damaged(&file, disk.position, disk.position + disk.size)
        };
        **ghost != GhostBatch::from(*disk) && !damaged()
    });
    judge.demand(invariant, different.is_none(), || {
        let (ghost, disk) = different.expect("that is what does not hold");
        format!("appended was {ghost:?}, on disk is {:?}", GhostBatch::from(disk))
    });
}

/// Whether the place where the log stops being sound was damaged by the disk.
pub(super) fn damage_explains(
    node: &Node,
    partition: &Partition,
    image: &LogImage,
    checked_from: i64,
) -> bool {
    let damaged = |segment, from, to| node.is_damaged(&segment_path(&partition.directory, segment), from, to);
    if let Some(rotten) = image.first_rotten(checked_from) {
        return damaged(rotten.segment, rotten.position, rotten.position + rotten.size);
    }
    image.broken.as_ref().is_some_and(|broken| {
        // A gap at the start of a segment may come from a damaged header before it.
        damaged(broken.segment, broken.position, broken.file_bytes.max(broken.position + 1))
            || (broken.position == 0 && node.has_damage_in(&partition.directory))
    })
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Contract, Invariant,
        events::{DiskFault, Stop},
        testing::{LOG, Run},
    };

    fn flushing() -> Run {
        Run::with(Contract { flush_every_message: true, ..Contract::default() })
    }

    #[test]
    fn an_acknowledged_batch_that_stays_is_fine() {
        let run = flushing();
        run.open_new();
        run.append(0, 2);
        run.flush(2);
        run.high_watermark(0, 2);
        run.acknowledge(0, 2);
        run.stop(Stop::PowerLost);
        run.start();
        run.open(false, 2, 2);
        run.assert_legal(&[Invariant::I01, Invariant::I02]);
    }

    #[test]
    fn acknowledging_what_is_not_in_the_log() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        run.acknowledge(0, 3);
        run.assert_violated(Invariant::I01);
    }

    #[test]
    fn acknowledging_to_all_before_the_high_watermark_moves() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.acknowledge_at(0, 2, 0);
        run.assert_violated(Invariant::I01);
    }

    #[test]
    fn acknowledging_before_the_flush() {
        let run = flushing();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        run.acknowledge(0, 2);
        run.assert_violated(Invariant::I02);
    }

    #[test]
    fn a_process_crash_loses_nothing() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 1);
        run.stop(Stop::Killed);
        run.cut_disk(2);
        run.start();
        run.assert_violated(Invariant::I01);
    }

    #[test]
    fn a_power_failure_loses_only_what_was_not_flushed() {
        for (flushed, legal) in [(2, true), (3, false)] {
            let run = Run::new();
            run.open_new();
            run.append(0, 2);
            run.append(2, 1);
            run.high_watermark(0, 3);
            run.acknowledge(2, 3);
            run.flush(flushed);
            run.stop(Stop::PowerLost);
            run.cut_disk(2);
            run.start();
            if legal {
                run.open(false, 2, 2);
                run.assert_legal(&[Invariant::I02]);
                assert_eq!(run.oracle.out_of_contract().len(), 1, "the loss has a label");
            } else {
                run.assert_violated(Invariant::I02);
            }
        }
    }

    #[test]
    fn what_log_start_has_passed_need_not_be_there() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 1);
        run.high_watermark(0, 3);
        run.delete_records(3);
        run.stop(Stop::PowerLost);
        run.cut_disk(2);
        run.start();
        run.open(false, 0, 2);
        run.assert_legal(&[]);
    }

    #[test]
    fn recovery_that_drops_what_the_disk_held() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 1);
        run.flush(3);
        run.stop(Stop::PowerLost);
        run.start();
        run.cut_disk(2);
        run.open(false, 0, 2);
        run.assert_violated(Invariant::I02);
    }

    #[test]
    fn damaged_bytes_explain_a_loss_and_nothing_else() {
        for (file, legal) in [(LOG, true), ("/data/other-0/00000000000000000000.log", false)] {
            let run = Run::new();
            run.open_new();
            run.append(0, 2);
            run.append(2, 1);
            let offset = run.rot(2);
            run.oracle.disk_fault(0, DiskFault::Corrupted { file: file.into(), offset, length: 1 });
            run.stop(Stop::Killed);
            run.start();
            run.cut_disk(2);
            run.open(false, 0, 2);
            if legal {
                run.assert_legal(&[Invariant::I01]);
            } else {
                run.assert_violated(Invariant::I01);
            }
        }
    }

    #[test]
    fn other_bytes_than_were_appended() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.stop(Stop::Killed);
        run.rewrite_disk(|batch| batch.epoch += 1);
        run.start();
        run.assert_violated(Invariant::I01);
    }

    #[test]
    fn truncating_what_is_acknowledged() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        run.acknowledge(0, 2);
        run.truncate(0);
        run.assert_violated(Invariant::I01);
    }

    #[test]
    fn confirming_to_a_producer_what_is_not_there() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.sending(0, 2, None);
        run.confirmed(0, 5);
        run.assert_violated(Invariant::I01);
    }
}
