//! I25: a consumer that polls on gets every visible record once, in order.

use super::{
    events::{Purpose, ReadBatch},
    ghost::{Node, Partition},
    invariant::Invariant,
    judge::Judge,
};

/// The answer to a fetch, as a consumer reads it: what is below its position is skipped.
///
/// Gives the position after it.
pub(super) fn on_read(
    judge: &mut Judge,
    node: &Node,
    partition: &Partition,
    (purpose, position, fetch_offset): (Purpose, Option<i64>, i64),
    batches: &[ReadBatch],
) -> i64 {
    if let Some(position) = position
        && purpose == Purpose::Tail
    {
        judge.demand(Invariant::I25, fetch_offset == position, || {
            format!("a consumer that is at {position} fetches from {fetch_offset}")
        });
    }
    // A damaged index may lead to another place in the log, and a damaged batch may say anything.
    if node.has_damage_in(&partition.directory) {
        return batches.last().map_or(fetch_offset, |batch| batch.next_offset.max(fetch_offset));
    }
    let mut expected = fetch_offset;
    for batch in batches {
        let records = batch.records.iter().map(|(offset, _)| *offset);
        for offset in records.skip_while(|offset| *offset < fetch_offset) {
            judge.demand(Invariant::I25, offset == expected, || {
                format!("a consumer at {expected} gets the record {offset} next")
            });
            expected = offset + 1;
        }
        judge.demand(Invariant::I25, batch.next_offset > fetch_offset, || {
            format!(
                "a fetch from {fetch_offset} gives the batch {}..{}",
                batch.base_offset, batch.next_offset
            )
        });
    }
    expected
}

/// A consumer was told that its position is out of range.
pub(super) fn on_moved(judge: &mut Judge, partition: &Partition, from: i64) {
    let outside = from < partition.highest_log_start || from > partition.log_end;
    judge.demand(Invariant::I25, outside || !partition.lost.is_empty(), || {
        format!(
            "a consumer at {from} is told that it is out of range, the log is {}..{}",
            partition.log_start, partition.log_end
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        events::{ClientEvent, Purpose, Stop},
        testing::Run,
    };

    fn committed() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 1);
        run.append(3, 2);
        run.high_watermark(0, 5);
        run
    }

    #[test]
    fn poll_after_poll() {
        let run = committed();
        run.read(1, Purpose::Tail, 0, &[0]);
        run.read(1, Purpose::Tail, 2, &[2, 3]);
        run.read(1, Purpose::Tail, 5, &[]);
        run.read(2, Purpose::Again, 1, &[0, 2]);
        run.assert_legal(&[Invariant::I25]);
    }

    #[test]
    fn a_skipped_batch() {
        let run = committed();
        run.read(1, Purpose::Tail, 0, &[0, 3]);
        run.assert_violated(Invariant::I25);
    }

    #[test]
    fn a_repeated_batch() {
        let run = committed();
        run.read(1, Purpose::Tail, 0, &[0, 2, 2]);
        run.assert_violated(Invariant::I25);
    }

    #[test]
    fn a_batch_before_the_one_asked_for() {
        let run = committed();
        run.read(1, Purpose::Again, 4, &[3]);
        run.assert_legal(&[Invariant::I25]);
        run.read(1, Purpose::Again, 3, &[2]);
        run.assert_violated(Invariant::I25);
    }

    fn moved(run: &Run, from: i64, to: i64) {
        run.oracle.client_event(ClientEvent::Moved {
            reader: 1,
            partition: run.partition.clone(),
            topic_id: Default::default(),
            from,
            to,
        });
    }

    #[test]
    fn out_of_range_only_where_it_is() {
        let run = committed();
        run.delete_records(2);
        moved(&run, 1, 2);
        run.read(1, Purpose::Tail, 2, &[2]);
        run.assert_legal(&[Invariant::I25]);
        moved(&run, 3, 2);
        run.assert_violated(Invariant::I25);
    }

    #[test]
    fn out_of_range_because_the_power_went() {
        let run = committed();
        run.stop(Stop::PowerLost);
        run.cut_disk(2);
        run.start();
        run.open(false, 0, 2);
        moved(&run, 5, 2);
        run.assert_legal(&[]);
    }
}
