//! I18: consumers are given nothing that is not committed.

use super::{events::ReadBatch, ghost::Partition, invariant::Invariant, judge::Judge};

/// The broker gives records to a consumer.
pub(super) fn on_served(judge: &mut Judge, partition: &Partition, next_offset: i64, high_watermark: i64) {
    judge.demand(Invariant::I18, next_offset <= high_watermark, || {
        format!("records up to {next_offset} are given away with the high watermark at {high_watermark}")
    });
    let known = partition.high_watermark.unwrap_or(partition.log_end);
    judge.demand(Invariant::I18, high_watermark <= known, || {
        format!("a consumer is told the high watermark {high_watermark}, it is {known}")
    });
}

/// A consumer got a batch.
pub(super) fn on_read(judge: &mut Judge, partition: &Partition, read: &ReadBatch, high_watermark: i64) {
    judge.demand(Invariant::I18, read.next_offset <= high_watermark, || {
        format!("a batch up to {} came with the high watermark {high_watermark}", read.next_offset)
    });
    let committed =
        read.next_offset <= partition.committed_end || partition.lost_at(read.base_offset, |_| true);
    judge.demand(Invariant::I18, committed, || {
        format!(
            "a batch up to {} was read, committed is what is below {}",
            read.next_offset, partition.committed_end
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::Purpose, testing::Run};

    fn half_committed() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 2);
        run.high_watermark(0, 2);
        run
    }

    #[test]
    fn up_to_the_high_watermark() {
        let run = half_committed();
        run.served(0, 2, 2);
        run.read(1, Purpose::Tail, 0, &[0]);
        run.assert_legal(&[Invariant::I18]);
    }

    #[test]
    fn served_past_it() {
        let run = half_committed();
        run.served(0, 4, 2);
        run.assert_violated(Invariant::I18);
    }

    #[test]
    fn told_a_wrong_one() {
        let run = half_committed();
        run.served(0, 4, 4);
        run.assert_violated(Invariant::I18);
    }

    #[test]
    fn read_past_it() {
        let run = half_committed();
        run.read(1, Purpose::Tail, 0, &[0, 2]);
        run.assert_violated(Invariant::I18);
    }
}
