//! I24: where records that a consumer has read are gone, it is told so before it is given others in their place.

use super::{
    events::ReadBatch,
    ghost::GhostBatch,
    invariant::Invariant,
    judge::Judge,
    lineage::{Deaf, Lineage},
};

/// Where each tail reader is, and the number of all that it has read.
pub(super) fn stands(
    lineage: &Lineage,
    positions: impl IntoIterator<Item = (u32, i64)>,
) -> impl Iterator<Item = (u32, i64, Option<u64>)> {
    positions.into_iter().map(|(reader, read_to)| (reader, read_to, lineage.log.chain_below(read_to)))
}

/// The log was cut at `common`: each tail reader that was past it has to hear of it. What it had read before another cut is
/// what counts.
pub(super) fn on_cut(lineage: &mut Lineage, common: i64, readers: &[(u32, i64, Option<u64>)]) {
    for (reader, read_to, chain) in readers.iter().copied().filter(|(_, read_to, _)| *read_to > common) {
        let deaf = Deaf { cut: common, read_to, chain };
        lineage.deaf.entry(reader).and_modify(|known| known.cut = known.cut.min(common)).or_insert(deaf);
    }
}

/// Another leader's log counts: what a reader had read may be there again, and then there is nothing to tell it.
pub(super) fn on_switch(lineage: &mut Lineage) {
    let Lineage { log, deaf, .. } = lineage;
    deaf.retain(|_, deaf| deaf.chain.is_none() || log.chain_below(deaf.read_to) != deaf.chain);
}

/// A tail reader is given records. An answer from before the loss may reach it late: it holds nothing but what was lost.
pub(super) fn on_read(judge: &mut Judge, lineage: &Lineage, reader: u32, next: i64, batches: &[ReadBatch]) {
    let was_lost = |read: &ReadBatch| {
        let named = (read.next_offset, read.leader_epoch, read.crc);
        lineage
            .log
            .lost_at(read.base_offset, |batch: &GhostBatch| (batch.next, batch.epoch, batch.crc) == named)
    };
    if let Some(Deaf { cut, .. }) = lineage.deaf.get(&reader).filter(|_| !batches.iter().all(was_lost)) {
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
        reader_at_four_with(Cluster::contract())
    }

    fn reader_at_four_with(contract: Contract) -> Cluster {
        let cluster = Cluster::with(Contract { unclean_election: true, ..contract });
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

    #[test]
    fn what_was_lost_and_is_there_again_needs_no_word() {
        let cluster = reader_at_four_with(Contract { min_insync_replicas: 1, ..Cluster::contract() });
        // The first leader's log counts once more: it holds all that the reader has read.
        cluster.restart(0, 4);
        cluster.lead(0, 2, &[0]);
        cluster.append(0, 4, 2);
        cluster.advance(0, 6);
        cluster.read(7, Purpose::Tail, 4, &[4]);
        cluster.assert_legal(&[]);
    }
}
