//! I15: a log without compaction has every offset exactly once.

use super::{
    disk::LogImage,
    ghost::{Node, Partition},
    i01_acknowledged_survives::damage_explains,
    invariant::Invariant,
    judge::Judge,
};

/// A batch was written.
pub(super) fn on_appended(judge: &mut Judge, partition: &Partition, base: i64, next: i64) {
    judge.demand(Invariant::I15, base == partition.log_end && next > base, || {
        format!("a batch {base}..{next} is written to a log that ends at {}", partition.log_end)
    });
}

/// An opened log on disk: its files hold whole batches, one after the other, up to its end and no further.
pub(super) fn on_disk(judge: &mut Judge, node: &Node, partition: &Partition, image: &LogImage, log_end: i64) {
    let holds = image.broken.is_none() || damage_explains(node, partition, image, i64::MAX);
    judge.demand(Invariant::I15, holds, || {
        let broken = image.broken.as_ref().expect("that is what does not hold");
        format!("segment {} is no log from byte {} on: {}", broken.segment, broken.position, broken.text)
    });
    let holds = image.end() == log_end || node.has_damage_in(&partition.directory);
    judge
        .demand(Invariant::I15, holds, || format!("the log ends at {log_end}, its files at {}", image.end()));
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::Stop, testing::Run};

    #[test]
    fn one_after_the_other() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 3);
        run.stop(Stop::Killed);
        run.start();
        run.open(false, 0, 5);
        run.assert_legal(&[Invariant::I15]);
    }

    #[test]
    fn a_gap_and_an_overlap() {
        for base in [1, 3] {
            let run = Run::new();
            run.open_new();
            run.append(0, 2);
            run.append(base, 2);
            run.assert_violated(Invariant::I15);
        }
    }

    #[test]
    fn files_that_go_on_past_the_end() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 3);
        run.stop(Stop::Killed);
        run.start();
        run.open(false, 0, 2);
        run.assert_violated(Invariant::I15);
    }
}
