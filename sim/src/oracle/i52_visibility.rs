//! I52: what is committed shows at every replica in sync within a round of replication, while no fault is on.

use super::{Contract, invariant::Invariant, judge::Judge, lineage::Lineage};

/// A follower's high watermark moves up from `from`. `calm_since_ns`: no fault is on since then.
pub(super) fn on_follower_moved(
    judge: &mut Judge,
    contract: &Contract,
    lineage: &Lineage,
    from: i64,
    calm_since_ns: Option<u64>,
) {
    let Some(calm_ns) = calm_since_ns else { return };
    // Nobody knows how long a follower took that was not there.
    let settled_ns = calm_ns + contract.in_sync_within_ns(0);
    let Some(committed_ns) = lineage.committed_ns(from).filter(|at_ns| *at_ns > settled_ns) else { return };
    let late_ns = judge.now_ns() - committed_ns;
    judge.demand(Invariant::I52, late_ns <= contract.visible_within_ns(), || {
        format!(
            "what is at {from} was committed {} ms ago, and shows at this follower only now",
            late_ns / 1_000_000
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    fn shows_after_ms(ms: u64) -> Cluster {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.oracle.calm(true);
        cluster.later_ms(200_000);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.advance(0, 2);
        cluster.later_ms(ms);
        cluster.learn_high_watermark(1, 2);
        cluster
    }

    #[test]
    fn soon_and_late() {
        shows_after_ms(600).assert_legal(&[Invariant::I52]);
        shows_after_ms(5_000).assert_violated(Invariant::I52);
    }
}
