//! I11, and with it I01 and I02 for copies: a new leader has everything that was committed, and so all that was acknowledged.

use super::{Contract, ghost::Partition, invariant::Invariant, judge::Judge, lineage::Lineage};

/// A broker becomes the newest leader. Gives a label where records are lost that may be.
pub(super) fn on_elected(
    judge: &mut Judge,
    contract: &Contract,
    lineage: &mut Lineage,
    node: u32,
    power_was_lost: bool,
) -> Option<String> {
    let replica = lineage.replicas.get(&node)?;
    let log = &lineage.log;
    if log.committed_end <= replica.log_start.max(log.log_start) {
        return None;
    }
    let common = log.common_with(replica);
    let missing = common < log.committed_end;
    let excused = lineage.beyond_budget || contract.unclean_election;
    if !excused {
        judge.demand(Invariant::I11, !missing, || text(log, replica, common));
        let invariant = if power_was_lost { Invariant::I02 } else { Invariant::I01 };
        if log.acknowledged_end > log.log_start {
            judge.demand(invariant, common >= log.acknowledged_end.min(log.committed_end), || {
                format!(
                    "acknowledged was what is below {}; the new leader lacks what is from {common} on",
                    log.acknowledged_end
                )
            });
        }
    }
    if !missing {
        return None;
    }
    let label =
        format!("{}: {common}..{} was lost when broker {node} was elected", log.name, log.committed_end);
    lineage.beyond_budget |= excused;
    Some(label)
}

fn text(log: &Partition, replica: &Partition, common: i64) -> String {
    format!(
        "committed was what is below {}; the new leader's log is {}..{} and has in common what is below {common}",
        log.committed_end, replica.log_start, replica.log_end
    )
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Contract, Invariant, Stop, cluster_testing::Cluster};

    fn committed_on(cluster: &Cluster, followers: &[u32]) {
        cluster.append(0, 0, 2);
        followers.iter().for_each(|follower| cluster.fetch(*follower));
        cluster.advance(0, 2);
        cluster.acknowledge(0, 0, 2);
    }

    #[test]
    fn a_leader_that_has_everything() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        committed_on(&cluster, &[1]);
        cluster.stop(0, Stop::Killed);
        cluster.lead(1, 1, &[1]);
        cluster.assert_legal(&[Invariant::I11, Invariant::I01]);
    }

    #[test]
    fn a_leader_that_was_not_in_sync() {
        // B24 with the limit on: nobody allowed an unclean election.
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        committed_on(&cluster, &[1]);
        cluster.stop(0, Stop::Killed);
        cluster.lead(2, 1, &[2]);
        cluster.assert_violated(Invariant::I11);
        cluster.assert_violated(Invariant::I01);
    }

    #[test]
    fn the_same_where_unclean_elections_are_allowed() {
        let cluster = Cluster::with(Contract { unclean_election: true, ..Cluster::contract() });
        cluster.lead(0, 0, &[0, 1]);
        committed_on(&cluster, &[1]);
        cluster.stop(0, Stop::Killed);
        cluster.lead(2, 1, &[2]);
        cluster.assert_legal(&[]);
        assert_eq!(cluster.oracle.out_of_contract().len(), 1);
    }

    #[test]
    fn truncated_to_its_own_high_watermark() {
        // B01: F holds the record, cuts it at its restart, and is elected.
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        committed_on(&cluster, &[1]);
        cluster.stop(1, Stop::Killed);
        cluster.restart(1, 2);
        cluster.follow(1, 0, 0);
        cluster.truncate(1, 0);
        cluster.assert_violated(Invariant::I08);
        cluster.lead(1, 1, &[1]);
        cluster.assert_violated(Invariant::I11);
    }

    #[test]
    fn one_loss_is_within_the_budget_and_two_are_not() {
        for (losers, legal) in [(&[1][..], false), (&[1, 2], true)] {
            let cluster = Cluster::three();
            cluster.lead(0, 0, &[0, 1, 2]);
            committed_on(&cluster, &[1, 2]);
            for node in losers {
                cluster.stop(*node, Stop::PowerLost);
                cluster.cut_disk(*node, 0);
                cluster.restart(*node, 0);
            }
            cluster.stop(0, Stop::Killed);
            // B23: an unclean restart is treated as a clean one.
            cluster.lead(1, 1, &[1]);
            match legal {
                true => {
                    cluster.assert_legal(&[]);
                    assert!(!cluster.oracle.out_of_contract().is_empty());
                }
                false => cluster.assert_violated(Invariant::I02),
            }
        }
    }
}
