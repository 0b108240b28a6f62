//! I40: the start of a log never passes what is committed.

use super::{ghost::Partition, invariant::Invariant, judge::Judge};

/// Log start moves up.
pub(super) fn on_moved(judge: &mut Judge, partition: &Partition, to: i64, high_watermark: i64) {
    judge.demand(Invariant::I40, to <= high_watermark, || {
        format!("log start moves to {to}, past the high watermark {high_watermark}")
    });
    let known = partition.high_watermark.unwrap_or(partition.log_end);
    judge.demand(Invariant::I40, high_watermark <= known, || {
        format!("log start moves by a high watermark of {high_watermark}, it is {known}")
    });
    judge.demand(Invariant::I40, to >= partition.log_start, || {
        format!("log start moves back from {} to {to}", partition.log_start)
    });
}

/// A client's request to remove records was granted.
pub(super) fn on_deleted(judge: &mut Judge, partition: &Partition, before_offset: i64, low_watermark: i64) {
    judge.demand(Invariant::I40, low_watermark >= before_offset && low_watermark <= partition.highest_log_start, || {
        format!(
            "records below {before_offset} were to go, the client is told {low_watermark}, log start is {}",
            partition.highest_log_start
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::ClientEvent, testing::Run};

    fn committed() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 2);
        run.high_watermark(0, 2);
        run
    }

    fn deleted(run: &Run, before_offset: i64, low_watermark: i64) {
        let partition = run.partition.clone();
        run.oracle.client_event(ClientEvent::DeletedRecords {
            client: 1,
            partition,
            topic_id: Default::default(),
            before_offset,
            low_watermark,
        });
    }

    #[test]
    fn up_to_the_high_watermark() {
        let run = committed();
        run.delete_records(2);
        deleted(&run, 2, 2);
        run.assert_legal(&[Invariant::I40]);
    }

    #[test]
    fn past_it() {
        let run = committed();
        run.delete_records(4);
        run.assert_violated(Invariant::I40);
    }

    #[test]
    fn granted_but_not_done() {
        let run = committed();
        deleted(&run, 2, 2);
        run.assert_violated(Invariant::I40);
    }
}
