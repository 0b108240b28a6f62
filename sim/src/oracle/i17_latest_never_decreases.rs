//! I17: who asks for the latest offset again and again never hears of a smaller one.

use super::{ghost::Partition, invariant::Invariant, judge::Judge};

/// A client asked for the latest offset; `before` is what it was told last time.
pub(super) fn on_latest(judge: &mut Judge, partition: &Partition, before: Option<i64>, offset: i64) {
    if let Some(before) = before {
        judge.demand(Invariant::I17, offset >= before, || {
            format!("the latest offset was {before}, now it is {offset}")
        });
    }
    let known = partition.committed_end;
    judge.demand(Invariant::I18, offset <= known || !partition.lost.is_empty(), || {
        format!("a client is told {offset} as the latest offset, committed is what is below {known}")
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::Stop, testing::Run};

    fn committed(end: i64) -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, end);
        run.high_watermark(0, end);
        run
    }

    #[test]
    fn rising_answers() {
        let run = committed(5);
        run.latest(1, 3);
        run.latest(1, 5);
        run.latest(2, 4);
        run.assert_legal(&[Invariant::I17]);
    }

    #[test]
    fn an_answer_that_goes_back() {
        let run = committed(5);
        run.latest(1, 5);
        run.latest(1, 4);
        run.assert_violated(Invariant::I17);
    }

    #[test]
    fn an_answer_beyond_what_is_committed() {
        let run = committed(5);
        run.latest(1, 6);
        run.assert_violated(Invariant::I18);
    }

    #[test]
    fn an_answer_that_goes_back_because_the_power_did() {
        let run = committed(5);
        run.latest(1, 5);
        run.stop(Stop::PowerLost);
        run.cut_disk(0);
        run.start();
        run.open(false, 0, 0);
        run.latest(1, 0);
        run.assert_legal(&[]);
    }
}
