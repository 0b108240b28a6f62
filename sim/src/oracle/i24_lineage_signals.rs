//! I24: where records that a consumer has read are gone, it is told so before it is given others in their place.

use super::{invariant::Invariant, judge::Judge, lineage::Lineage};

/// The log was cut at `common`: each tail reader that was past it has to hear of it.
pub(super) fn on_cut(lineage: &mut Lineage, common: i64, readers: impl Iterator<Item = (u32, i64)>) {
    for (reader, position) in readers {
        if position > common {
            lineage.deaf.entry(reader).and_modify(|cut| *cut = (*cut).min(common)).or_insert(common);
        }
    }
}

/// A tail reader is given records.
pub(super) fn on_read(judge: &mut Judge, lineage: &Lineage, reader: u32, next: i64) {
    if let Some(cut) = lineage.deaf.get(&reader) {
        judge.demand(Invariant::I24, next <= *cut, || {
            format!("consumer {reader} goes on to {next}; what it had read from {cut} on was lost, and it was not told")
        });
    }
}

/// A tail reader was told to go elsewhere.
pub(super) fn on_signal(judge: &mut Judge, lineage: &mut Lineage, reader: u32, from: i64) {
    let had_cause = lineage.deaf.remove(&reader).is_some();
    let holds = had_cause || lineage.beyond_budget || !lineage.log.lost.is_empty();
    judge.demand(Invariant::I24, holds, || {
        format!("consumer {reader} at {from} is told that the log is another one, and it is not")
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{ClientEvent, Contract, Invariant, Stop, cluster_testing::Cluster, events::Purpose};

    fn reader_at_four() -> Cluster {
        let cluster = Cluster::with(Contract { unclean_election: true, ..Cluster::contract() });
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.fetch(2);
        cluster.append(0, 2, 2);
        cluster.fetch(1);
        cluster.advance(0, 4);
        cluster.read(7, Purpose::Tail, 0, &[0, 2]);
        cluster.stop(0, Stop::Killed);
        // Broker 2 lacks the second batch, and goes past where the reader is.
        cluster.lead(2, 1, &[2, 1]);
        cluster.append(2, 2, 2);
        cluster.append(2, 4, 2);
        cluster.follow(1, 2, 1);
        cluster.cut(1, 2, Some((0, 2)), 2);
        cluster.fetch_from(1, 2);
        cluster.advance(2, 6);
        cluster
    }

    #[test]
    fn going_on_without_a_word() {
        // B08
        let cluster = reader_at_four();
        cluster.read(7, Purpose::Tail, 4, &[4]);
        cluster.assert_violated(Invariant::I24);
    }

    #[test]
    fn going_on_after_a_word() {
        let cluster = reader_at_four();
        let partition = cluster.partition.clone();
        cluster.oracle.client_event(ClientEvent::TruncationSignal {
            reader: 7,
            partition,
            topic_id: Default::default(),
            from: 4,
            to: 2,
        });
        cluster.read(7, Purpose::Tail, 2, &[2, 4]);
        cluster.assert_legal(&[Invariant::I24]);
    }
}
