//! I26, I28, I70 and I71: what an idempotent producer sends is in the log once, in order, and under the epoch that is
//! valid.

use super::{
    events::{BatchId, RecordId, SentBatch},
    ghost::{GhostBatch, Partition},
    invariant::Invariant,
    judge::Judge,
};
use std::collections::BTreeMap;

/// A batch was written.
pub(super) fn on_appended(judge: &mut Judge, partition: &Partition, batch: &GhostBatch) {
    let (producer_id, epoch, first) = batch.producer;
    let Some(known) = partition.producers.get(&producer_id) else { return };
    judge.demand(Invariant::I71, epoch >= known.epoch, || {
        format!("producer {producer_id} is at epoch {}, a batch of epoch {epoch} is written", known.epoch)
    });
    let expected = if epoch > known.epoch { 0 } else { known.last_sequence.checked_add(1).unwrap_or(0) };
    judge.demand(Invariant::I26, first == expected, || {
        format!(
            "producer {producer_id} epoch {epoch}: sequence {expected} is next, a batch of {first} is written"
        )
    });
}

/// A consumer saw a record that somebody else saw at another offset.
pub(super) fn on_seen_again(
    judge: &mut Judge,
    partition: &Partition,
    record: RecordId,
    before: i64,
    now: i64,
) {
    let still_there = partition.values.get(&before) == Some(&record);
    // An answer may have been on its way while the end that it tells of was lost, and the record was sent again.
    let was_lost = partition.lost_values.contains(&(now, record));
    judge.demand(Invariant::I26, !still_there || was_lost, || {
        format!("{record} is in the log twice, at {before} and at {now}")
    });
}

/// A producer was told where its batch is. Gives whether the batch is part of the log's order: one that was lost while
/// the answer was on its way is not, and what comes after it may stand before it.
pub(super) fn on_confirmed(judge: &mut Judge, partition: &Partition, sent: &SentBatch, base: i64) -> bool {
    let Some(sequence) = sent.sequence else { return false };
    let wanted = (sequence.producer_id, sequence.producer_epoch, sequence.first);
    let is_it = |batch: &GhostBatch| batch.producer == wanted;
    let is_there = partition.batch_at(base).is_some_and(is_it);
    // That no batch is there at all is a matter of I01.
    if let Some(batch) = partition.batch_at(base) {
        let holds = is_it(batch) || partition.lost_at(base, is_it);
        judge.demand(Invariant::I70, holds, || {
            format!("sent with (producer, epoch, sequence) {wanted:?}, at {base} is {:?}", batch.producer)
        });
    }
    is_there || !partition.lost_at(base, is_it)
}

/// The confirmed batches of one idempotent producer in one partition: its counter → base offset.
pub(super) type Confirmed = BTreeMap<u64, i64>;

/// The order of what was sent is the order of the log.
pub(super) fn in_order(judge: &mut Judge, confirmed: &Confirmed, id: BatchId, base: i64) {
    let before = confirmed.range(..id.first).next_back();
    let after = confirmed.range(id.first + 1..).next();
    if before.is_none() && after.is_none() {
        return;
    }
    let holds =
        before.is_none_or(|(_, offset)| *offset < base) && after.is_none_or(|(_, offset)| base < *offset);
    judge.demand(Invariant::I28, holds, || {
        format!("batch {} of client {} is at {base}, between {before:?} and {after:?}", id.first, id.client)
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant, Stop,
        events::{Purpose, Sequence},
        testing::Run,
    };

    #[test]
    fn consecutive_sequences_and_a_new_epoch() {
        let run = Run::new();
        run.open_new();
        run.append_from(0, 2, (7, 0, i32::MAX - 1));
        run.append_from(2, 1, (7, 0, 0));
        run.append_from(3, 1, (8, 0, 0));
        run.append_from(4, 1, (7, 1, 0));
        run.assert_legal(&[Invariant::I26, Invariant::I71]);
    }

    #[test]
    fn a_repetition_and_a_gap() {
        for sequence in [0, 3] {
            let run = Run::new();
            run.open_new();
            run.append_from(0, 2, (7, 0, 0));
            run.append_from(2, 1, (7, 0, sequence));
            run.assert_violated(Invariant::I26);
        }
    }

    #[test]
    fn a_fenced_epoch() {
        let run = Run::new();
        run.open_new();
        run.append_from(0, 2, (7, 1, 0));
        run.append_from(2, 1, (7, 0, 2));
        run.assert_violated(Invariant::I71);
    }

    fn sequence(first: i32) -> Option<Sequence> {
        Some(Sequence { producer_id: 7, producer_epoch: 0, first })
    }

    fn two_sent() -> Run {
        let run = Run::new();
        run.open_new();
        run.append_from(0, 2, (7, 0, 0));
        run.append_from(2, 2, (7, 0, 2));
        run.high_watermark(0, 4);
        run.sending_at(0, 0, 2, sequence(0));
        run.sending_at(2, 2, 2, sequence(2));
        run
    }

    #[test]
    fn confirmed_in_order() {
        let run = two_sent();
        run.confirmed(2, 2);
        run.confirmed(0, 0);
        run.assert_legal(&[Invariant::I28, Invariant::I70]);
    }

    #[test]
    fn confirmed_at_the_offset_of_another() {
        let run = two_sent();
        run.confirmed(0, 2);
        run.assert_violated(Invariant::I70);
    }

    #[test]
    fn confirmed_out_of_order() {
        let run = two_sent();
        run.confirmed(0, 2);
        run.confirmed(2, 0);
        run.assert_violated(Invariant::I28);
    }

    #[test]
    fn confirmed_when_it_was_lost_already() {
        let run = two_sent();
        run.stop(Stop::PowerLost);
        run.cut_disk(0);
        run.start();
        run.open(false, 0, 0);
        run.lead(1);
        // The answer was on its way when the machine lost power.
        run.confirmed(2, 2);
        run.append_from(0, 2, (7, 1, 0));
        run.high_watermark(0, 2);
        let sequence = Sequence { producer_id: 7, producer_epoch: 1, first: 0 };
        run.sending_at(4, 0, 2, Some(sequence));
        run.confirmed(4, 0);
        run.assert_legal(&[Invariant::I70]);
    }

    #[test]
    fn a_record_that_is_there_twice() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 2);
        run.high_watermark(0, 4);
        run.read(1, Purpose::Tail, 0, &[0]);
        run.read_with(1, Purpose::Tail, 2, &[2], |batch| {
            for (_, record) in &mut batch.records {
                record.counter -= 2;
            }
        });
        run.assert_violated(Invariant::I26);
    }
}
