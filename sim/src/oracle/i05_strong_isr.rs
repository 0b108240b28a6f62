//! I05 and I05w: everything below a leader's high watermark is on every in-sync replica, by the true state (strong) and
//! by the leader's own idea of it (weak).

use super::{
    ghost::{Node, Partition},
    invariant::Invariant,
    judge::Judge,
    lineage::Lineage,
};
use std::collections::{BTreeMap, BTreeSet};

/// A leader's high watermark has moved to `to`.
pub(super) fn on_moved(
    judge: &mut Judge,
    nodes: &BTreeMap<u32, Node>,
    lineage: &Lineage,
    (leader, to): (u32, i64),
    true_isr: &BTreeSet<u32>,
) {
    let Some(replica) = lineage.replicas.get(&leader) else { return };
    let own: BTreeSet<u32> =
        replica.leading.as_ref().map(|leading| leading.isr.iter().copied().collect()).unwrap_or_default();
    for (invariant, members) in [(Invariant::I05, true_isr), (Invariant::I05w, &own)] {
        for member in members.iter().filter(|member| **member != leader) {
            let Some(held) = lineage.replicas.get(member).filter(|held| counts(nodes, *member, held)) else {
                continue;
            };
            judge.demand(invariant, held.holds_all_of(replica, to), || {
                format!(
                    "the high watermark of broker {leader} moves to {to}; broker {member} is in sync and ends at {}, \
                     in common are those below {}",
                    held.log_end,
                    held.common_with(replica)
                )
            });
        }
    }
}

/// One that is down, or that lost records in a way that the controller need not know of yet, is exempt.
fn counts(nodes: &BTreeMap<u32, Node>, node: u32, replica: &Partition) -> bool {
    replica.open && replica.short_since.is_none() && nodes.get(&node).is_some_and(|node| node.alive)
}

/// An older leader's high watermark moves: what it calls committed, the newest leader must have.
pub(super) fn on_moved_by_older(judge: &mut Judge, lineage: &Lineage, replica: &Partition, to: i64) {
    judge.demand(Invariant::I05, lineage.log.holds_all_of(replica, to), || {
        let (node, epoch) = lineage.leader.unwrap_or_default();
        format!(
            "a replaced leader moves its high watermark to {to}; the leader of epoch {epoch}, broker {node}, has in \
             common with it what is below {}",
            lineage.log.common_with(replica)
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    #[test]
    fn what_all_in_sync_have() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.advance(0, 2);
        cluster.assert_legal(&[Invariant::I05, Invariant::I05w]);
    }

    #[test]
    fn a_member_that_lacks_it() {
        // B18: the leader counts with the smaller set that it has only proposed.
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1, 2]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.lag(0, 2);
        cluster.propose_isr(0, 0, &[0, 1]);
        cluster.advance(0, 2);
        cluster.assert_violated(Invariant::I05);
        cluster.assert_violated(Invariant::I07);
    }

    #[test]
    fn a_replaced_leader_commits_what_the_new_one_lacks() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.lead(1, 1, &[1, 2]);
        cluster.append(1, 0, 1);
        cluster.report(0, 1, 2);
        cluster.advance(0, 2);
        cluster.assert_violated(Invariant::I05);
    }
}
