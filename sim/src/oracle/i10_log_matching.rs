//! I10 and I16: where two logs have the same batch of the same epoch, they are equal up to it, and no follower has a batch
//! that no leader of that very topic wrote.
//!
//! Each batch has a number for itself and all before it. The leader's is remembered by offset and epoch, so that each
//! new batch costs one look.

use super::{
    ghost::{GhostBatch, Partition},
    invariant::Invariant,
    judge::Judge,
    lineage::{Lineage, Written},
};

/// What of a batch's chain must be: that of the same batch in the log of whoever wrote it, where this log begins later.
pub(super) fn root_of(lineage: &Lineage, replica: &Partition, batch: &GhostBatch) -> Option<u64> {
    if !replica.batches.is_empty() || batch.base == 0 {
        return None;
    }
    lineage.written.get(&(batch.base, batch.epoch)).and_then(|written| written.chain)
}

/// The last batch of a replica's log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    batch: GhostBatch,
    chain: Option<u64>,
    /// The replica leads in the epoch of the batch.
    leads: bool,
}

impl Last {
    pub fn of(replica: &Partition) -> Option<Last> {
        let batch = replica.batches.last().copied()?;
        let chain = replica.chains.last().copied().filter(|_| replica.is_rooted);
        let leads = replica.leading.as_ref().is_some_and(|leading| leading.epoch == batch.epoch);
        Some(Last { batch, chain, leads })
    }
}

/// A batch is in a replica's log now, as its last. `others` are other lives of the topic.
pub(super) fn on_appended(judge: &mut Judge, lineage: &mut Lineage, last: Last, others: &[Lineage]) {
    let Last { batch, chain, leads } = last;
    let key = (batch.base, batch.epoch);
    let Some(known) = lineage.written.get(&key).copied() else {
        if !leads {
            let of_other = others.iter().any(|other| other.written.contains_key(&key));
            let invariant = if of_other { Invariant::I16 } else { Invariant::I10 };
            judge.demand(invariant, false, || {
                format!(
                    "a follower writes {}..{} of epoch {}, which no leader wrote",
                    batch.base, batch.next, batch.epoch
                )
            });
        }
        return lineage.note_written(&batch, chain);
    };
    judge.evaluated(Invariant::I16);
    matches(judge, &batch, chain, known);
}

/// A replica was opened with batches that it never told of: written, and not lived to be told.
pub(super) fn on_adopted(judge: &mut Judge, lineage: &mut Lineage, node: u32, from: i64) {
    let Some(replica) = lineage.replicas.get(&node) else { return };
    let place = replica.batches.partition_point(|batch| batch.base < from);
    let rooted = replica.is_rooted;
    let adopted: Vec<(GhostBatch, Option<u64>)> = replica.batches[place..]
        .iter()
        .zip(&replica.chains[place..])
        .map(|(batch, chain)| (*batch, Some(*chain).filter(|_| rooted)))
        .collect();
    for (batch, chain) in adopted {
        match lineage.written.get(&(batch.base, batch.epoch)).copied() {
            Some(known) => matches(judge, &batch, chain, known),
            None => lineage.note_written(&batch, chain),
        }
    }
}

fn matches(judge: &mut Judge, batch: &GhostBatch, chain: Option<u64>, known: Written) {
    let same_before = chain.zip(known.chain).is_none_or(|(one, other)| one == other);
    let same = (batch.next, batch.crc) == (known.next, known.crc);
    judge.demand(Invariant::I10, same && same_before, || {
        let what = if same { "what is before it differs" } else { "the batch is another one" };
        format!(
            "two logs have {}..{} of epoch {} with checksum {:#x} and {:#x}: {what}",
            batch.base, batch.next, batch.epoch, batch.crc, known.crc
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    #[test]
    fn followers_copy() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.append(0, 2, 1);
        cluster.fetch(1);
        cluster.fetch(2);
        cluster.assert_legal(&[Invariant::I10]);
    }

    #[test]
    fn a_fork_that_nobody_cut() {
        // B03: B wrote one record that A, leader before and after, does not have.
        let cluster = Cluster::three();
        cluster.lead(0, 1, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.lead(1, 2, &[0, 1]);
        cluster.append(1, 2, 1);
        cluster.lead(0, 3, &[0, 1]);
        cluster.append_as(0, 2, 1, 77);
        cluster.append(0, 3, 1);
        cluster.follow(1, 0, 3);
        cluster.copy(1, 0, 3);
        cluster.assert_violated(Invariant::I10);
    }

    #[test]
    fn the_same_fork_cut_in_time() {
        let cluster = Cluster::three();
        cluster.lead(0, 1, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.lead(1, 2, &[0, 1]);
        cluster.append(1, 2, 1);
        cluster.lead(0, 3, &[0, 1]);
        cluster.append_as(0, 2, 1, 77);
        cluster.follow(1, 0, 3);
        cluster.cut(1, 0, Some((1, 2)), 2);
        cluster.fetch(1);
        cluster.assert_legal(&[Invariant::I10, Invariant::I14]);
    }

    #[test]
    fn a_batch_from_nowhere() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.follow(1, 0, 0);
        cluster.append_epoch(1, 0, 2, 0);
        cluster.assert_violated(Invariant::I10);
    }
}
