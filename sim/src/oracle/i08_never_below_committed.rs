//! I08 and I14: a follower cuts its log where its leader's parts from it, and never below what is committed.

use super::{ghost::Partition, invariant::Invariant, judge::Judge, lineage::Lineage};

/// A follower's log is about to end at `to`.
pub(super) fn on_truncated(judge: &mut Judge, lineage: &Lineage, replica: &Partition, to: i64) {
    if lineage.beyond_budget {
        return;
    }
    let log = &lineage.log;
    let kept = replica.common_with(log).min(log.committed_end);
    // Nothing below the start of the log is there to be cut.
    if kept <= replica.log_start {
        return;
    }
    judge.demand(Invariant::I08, to >= kept, || {
        format!("a follower that ends at {} cuts to {to}; below {kept} all is committed", replica.log_end)
    });
}

/// A follower was told by its leader where to cut.
pub(super) fn on_ordered(
    judge: &mut Judge,
    lineage: &Lineage,
    node: u32,
    (leader, leader_epoch): (u32, i32),
    (to, anew): (i64, bool),
) {
    let Some(replica) = lineage.replicas.get(&node) else { return };
    let leads = |leader: &&Partition| {
        leader.leading.as_ref().is_some_and(|leading| leading.epoch == leader_epoch) && leader.open
    };
    // The leader's log may have changed since it answered where it leads no more.
    let Some(source) = lineage.replicas.get(&leader).filter(leads) else { return };
    let common = replica.common_with(source);
    if anew {
        // A log without records may begin anywhere: also within a batch, and then anew with the whole of it.
        let holds_nothing = replica.log_start == replica.log_end;
        judge.demand(Invariant::I14, to <= source.log_start, || {
            format!("a follower begins anew at {to}, but its leader's log starts at {}", source.log_start)
        });
        let holds = holds_nothing || to >= common || replica.log_end < source.log_start;
        judge.demand(Invariant::I14, holds, || {
            format!(
                "a follower begins anew at {to}, but has in common with its leader what is below {common}"
            )
        });
        return;
    }
    judge.demand(Invariant::I14, to >= common, || {
        format!("a follower cuts to {to}, but has in common with its leader what is below {common}")
    });
    judge.demand(Invariant::I14, to < replica.log_end, || {
        format!("a follower that ends at {} is to cut at {to}", replica.log_end)
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};
    use sillon_broker::{
        observe::{LogStartReason, Observation},
        types::Offset,
    };

    /// The leader has a batch of two records, of which the first is removed.
    fn leader_that_starts_within_a_batch() -> Cluster {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 2]);
        cluster.append(0, 0, 2);
        cluster.fetch(2);
        cluster.advance(0, 2);
        let (to, high_watermark) = (Offset(1), Offset(2));
        let (partition, reason) = (&cluster.partition, LogStartReason::DeleteRecords);
        cluster.tell(0, Observation::LogStartMoved { partition, to, high_watermark, reason });
        cluster.follow(1, 0, 0);
        cluster
    }

    #[test]
    fn a_follower_without_records_begins_anew_with_the_whole_batch() {
        let cluster = leader_that_starts_within_a_batch();
        cluster.cut(1, 0, None, 1);
        cluster.cut(1, 0, None, 0);
        cluster.assert_legal(&[Invariant::I14]);
    }

    #[test]
    fn a_follower_that_begins_anew_where_it_lacks_records() {
        let cluster = leader_that_starts_within_a_batch();
        cluster.cut(1, 0, None, 2);
        cluster.assert_violated(Invariant::I14);
    }

    #[test]
    fn a_cut_below_what_both_have() {
        let cluster = Cluster::three();
        cluster.lead(0, 1, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.append(0, 2, 1);
        cluster.fetch(1);
        cluster.cut(1, 0, Some((1, 2)), 2);
        cluster.assert_violated(Invariant::I14);
    }

    #[test]
    fn what_is_not_committed_may_go() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.advance(0, 2);
        cluster.append(0, 2, 2);
        cluster.lead(1, 1, &[1, 2]);
        cluster.follow(0, 1, 1);
        cluster.cut(0, 1, Some((0, 2)), 2);
        cluster.assert_legal(&[Invariant::I08, Invariant::I14]);
    }
}
