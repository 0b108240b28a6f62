//! I03: below `min.insync.replicas` the high watermark stands still, and nobody who asked for all replicas is told of a
//! success.

use super::{Contract, ghost::Leading, invariant::Invariant, judge::Judge};

fn is_enough(contract: &Contract, leading: &Leading, replicas: usize) -> bool {
    // A leader that was told nothing of others is alone.
    leading.isr.len().max(1) >= contract.effective_min_insync(replicas)
}

/// A leader learnt who is in sync, with its high watermark at that moment.
pub(super) fn on_isr(contract: &Contract, leading: &mut Leading, replicas: usize, high_watermark: i64) {
    if is_enough(contract, leading, replicas) {
        leading.enough_until = None;
    } else {
        leading.enough_until.get_or_insert(high_watermark);
    }
}

/// A leader moves its high watermark.
pub(super) fn on_moved(judge: &mut Judge, contract: &Contract, leading: &Leading, replicas: usize, to: i64) {
    judge.demand(Invariant::I03, is_enough(contract, leading, replicas), || {
        format!(
            "the high watermark moves to {to}, in sync are {:?}, min.insync.replicas is {}",
            leading.isr, contract.min_insync_replicas
        )
    });
}

/// A leader tells a success to a producer that waited for all. What was committed while enough were in sync may still be
/// told later.
pub(super) fn on_acknowledged(judge: &mut Judge, leading: &Leading, next: i64) {
    let limit = leading.enough_until.unwrap_or(i64::MAX);
    judge.demand(Invariant::I03, next <= limit, || {
        format!(
            "what is below {next} is acknowledged to acks=all; too few are in sync ({:?}) since the high watermark \
             was {limit}",
            leading.isr
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    #[test]
    fn two_of_three_are_enough() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.advance(0, 2);
        cluster.acknowledge(0, 0, 2);
        cluster.assert_legal(&[Invariant::I03, Invariant::I07]);
    }

    #[test]
    fn a_leader_alone_goes_on_acknowledging() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0]);
        cluster.append(0, 0, 2);
        cluster.advance(0, 2);
        cluster.assert_violated(Invariant::I03);
    }

    #[test]
    fn what_was_committed_before_the_others_went_may_be_told() {
        for (next, legal) in [(2, true), (4, false)] {
            let cluster = Cluster::three();
            cluster.lead(0, 0, &[0, 1]);
            cluster.append(0, 0, 2);
            cluster.fetch(1);
            cluster.advance(0, 2);
            cluster.confirm_isr(0, 1, &[0]);
            cluster.append(0, 2, 2);
            cluster.acknowledge(0, next - 2, next);
            match legal {
                true => cluster.assert_legal(&[Invariant::I03]),
                false => cluster.assert_violated(Invariant::I03),
            }
        }
    }
}
