//! I65a: what definitely failed never shows.

use super::{
    events::RecordId,
    ghost::{Outcome, Sent},
    invariant::Invariant,
    judge::Judge,
};

/// A consumer saw a record of this batch.
pub(super) fn on_seen(judge: &mut Judge, sent: &Sent, record: RecordId, offset: i64) {
    judge.demand(Invariant::I65a, sent.outcome != Outcome::Failed, || {
        format!("{record}, whose sending failed, is seen at {offset}")
    });
}

/// A batch failed; one of its records has been seen already, at this offset.
pub(super) fn on_failed(judge: &mut Judge, record: RecordId, seen_at: Option<i64>) {
    judge.demand(Invariant::I65a, seen_at.is_none(), || {
        format!("the sending of {record} failed, but it was seen at {}", seen_at.expect("it was seen"))
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        events::{BatchId, ClientEvent, Purpose},
        testing::Run,
    };

    fn sent() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        run.sending(0, 2, None);
        run
    }

    fn failed(run: &Run) {
        run.oracle.client_event(ClientEvent::Failed { id: BatchId { client: 9, first: 0 } });
    }

    #[test]
    fn an_unknown_result_may_show() {
        let run = sent();
        run.oracle.client_event(ClientEvent::Unknown { id: BatchId { client: 9, first: 0 } });
        run.read(1, Purpose::Tail, 0, &[0]);
        run.assert_legal(&[Invariant::I65a]);
    }

    #[test]
    fn a_failure_that_shows_later() {
        let run = sent();
        failed(&run);
        run.read(1, Purpose::Tail, 0, &[0]);
        run.assert_violated(Invariant::I65a);
    }

    #[test]
    fn a_failure_that_has_shown_before() {
        let run = sent();
        run.read(1, Purpose::Tail, 0, &[0]);
        failed(&run);
        run.assert_violated(Invariant::I65a);
    }
}
