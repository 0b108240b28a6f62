//! I69: a full scan at the end finds every confirmed record.

use super::{
    events::RecordId,
    ghost::{Node, Partition, Sent},
    invariant::Invariant,
    judge::Judge,
};

/// A confirmed batch, after a scan of `from..to` gave every offset in that range.
pub(super) fn at_end(
    judge: &mut Judge,
    node: &Node,
    partition: &Partition,
    sent: &Sent,
    base: i64,
    (from, to): (i64, i64),
) {
    // A scan cannot pass damaged bytes.
    if node.has_damage_in(&partition.directory) {
        return;
    }
    // A later leader's log may have done without the whole batch, legally, before anybody had read it.
    let batch_was_lost = partition.lost_at(base, |batch| batch.crc == sent.batch.crc);
    let (id, count) = (sent.batch.id, i64::from(sent.batch.count));
    let found = |index: i64| {
        let offset = base + index;
        let record = RecordId { client: id.client, counter: id.first + index as u64 };
        let lost = || batch_was_lost || partition.lost_values.contains(&(offset, record));
        offset < from || (offset < to && partition.values.get(&offset) == Some(&record)) || lost()
    };
    let missing = (0..count).find(|index| !found(*index));
    judge.demand(Invariant::I69, missing.is_none(), || {
        let index = missing.expect("that is what does not hold");
        format!(
            "c{}#{} was confirmed at {}; a scan of {from}..{to} finds {:?} there",
            id.client,
            id.first + index as u64,
            base + index,
            partition.values.get(&(base + index))
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

    fn confirmed() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 2);
        run.high_watermark(0, 4);
        run.sending(0, 2, None);
        run.sending(2, 2, None);
        run.confirmed(0, 0);
        run.confirmed(2, 2);
        run
    }

    fn scan(run: &Run, batches: &[i64], to: i64) {
        run.read(5, Purpose::Final, 0, batches);
        run.oracle.client_event(ClientEvent::ScanFinished { partition: run.partition.clone(), from: 0, to });
        run.stop(Stop::Controlled);
        run.oracle.finish();
    }

    #[test]
    fn the_scan_finds_all() {
        let run = confirmed();
        scan(&run, &[0, 2], 4);
        run.assert_legal(&[Invariant::I69]);
    }

    #[test]
    fn the_scan_ends_early() {
        let run = confirmed();
        scan(&run, &[0], 2);
        run.assert_violated(Invariant::I69);
    }
}
