//! I66 and I09b: a leader takes a replica out of the in-sync ones only when it lagged for long enough, and in only when it
//! has caught up with the high watermark and with the start of the epoch.

use super::{
    Contract,
    ghost::{Leading, Partition},
    invariant::Invariant,
    judge::Judge,
};

/// A leader finds a follower to lag.
pub(super) fn on_lags(
    judge: &mut Judge,
    contract: &Contract,
    leading: &Leading,
    replica: u32,
    (behind_ms, limit_ms): (u64, u64),
) {
    judge.demand(Invariant::I66, behind_ms >= limit_ms, || {
        format!("broker {replica} is found to lag after {behind_ms} ms, the limit is {limit_ms} ms")
    });
    if let Some(caught_up_ns) = leading.caught_up_ns.get(&replica) {
        let shown_ns = contract.most_shown_ns(judge.now_ns() - caught_up_ns);
        judge.demand(Invariant::I66, shown_ns >= limit_ms * 1_000_000, || {
            format!(
                "broker {replica} is found to lag, but was at the end of the log at {:.3} s; the limit is {limit_ms} ms",
                *caught_up_ns as f64 / 1e9
            )
        });
    }
}

/// A leader proposes in-sync replicas.
pub(super) fn on_proposed(judge: &mut Judge, partition: &Partition, leading: &Leading, isr: &[u32]) {
    for removed in leading.isr.iter().filter(|member| !isr.contains(member)) {
        judge.demand(Invariant::I66, leading.lags.contains_key(removed), || {
            format!("broker {removed} is to leave the in-sync replicas, and does not lag")
        });
    }
    let from = partition.high_watermark.unwrap_or(0).max(leading.start);
    for added in isr.iter().filter(|member| !leading.isr.contains(member)) {
        let reported = leading.reported.get(added).map(|report| report.log_end);
        judge.demand(Invariant::I09b, reported.is_some_and(|end| end >= from), || {
            format!("broker {added} is to join the in-sync replicas; it has reported {reported:?}, needed is {from}")
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    fn led() -> Cluster {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.advance(0, 2);
        cluster
    }

    #[test]
    fn in_and_out() {
        let cluster = led();
        cluster.fetch(2);
        cluster.propose_isr(0, 0, &[0, 1, 2]);
        cluster.confirm_isr(0, 1, &[0, 1, 2]);
        cluster.later_ms(30_001);
        cluster.lag(0, 2);
        cluster.propose_isr(0, 1, &[0, 1]);
        cluster.assert_legal(&[Invariant::I66, Invariant::I09b]);
    }

    #[test]
    fn out_without_lagging() {
        let cluster = led();
        cluster.propose_isr(0, 0, &[0]);
        cluster.assert_violated(Invariant::I66);
    }

    #[test]
    fn out_although_it_was_there_a_moment_ago() {
        let cluster = led();
        cluster.later_ms(100);
        cluster.lag(0, 1);
        cluster.assert_violated(Invariant::I66);
    }

    #[test]
    fn in_before_the_start_of_the_epoch() {
        // B06: the new leader's own high watermark is behind the start of its epoch.
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.fetch(2);
        cluster.append(0, 2, 1);
        cluster.fetch(1);
        cluster.advance(0, 3);
        cluster.lead(1, 1, &[1]);
        cluster.report(1, 2, 2);
        cluster.propose_isr(1, 0, &[1, 2]);
        cluster.assert_violated(Invariant::I09b);
    }
}
