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
    let Some(committed_ns) = committed_in_calm_ns(contract, lineage, from, calm_since_ns) else { return };
    let late_ns = judge.now_ns() - committed_ns;
    judge.demand(Invariant::I52, late_ns <= contract.visible_within_ns(), || {
        format!(
            "what is at {from} was committed {} ms ago, and shows at this follower only now",
            late_ns / 1_000_000
        )
    });
}

/// A reader that waited at `position` since `reached_ns` is given what is there.
pub(super) fn on_read(
    judge: &mut Judge,
    contract: &Contract,
    lineage: &Lineage,
    (position, reached_ns): (i64, Option<u64>),
    calm_since_ns: Option<u64>,
) {
    let committed_ns = committed_in_calm_ns(contract, lineage, position, calm_since_ns);
    let (Some(committed_ns), Some(reached_ns)) = (committed_ns, reached_ns) else { return };
    let late_ns = judge.now_ns().saturating_sub(committed_ns.max(reached_ns));
    judge.demand(Invariant::I52, late_ns <= contract.read_within_ns(), || {
        let late_ms = late_ns / 1_000_000;
        format!("what is at {position} was committed {late_ms} ms ago, and a reader that waits there is given it now")
    });
}

/// When what is at `offset` was committed, where no fault was on for so long that everything ran as it should.
fn committed_in_calm_ns(
    contract: &Contract,
    lineage: &Lineage,
    offset: i64,
    calm_since_ns: Option<u64>,
) -> Option<u64> {
    // Nobody knows how long a follower took that was not there.
    let settled_ns = calm_since_ns? + contract.in_sync_within_ns(0);
    lineage.committed_ns(offset).filter(|at_ns| *at_ns > settled_ns)
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
