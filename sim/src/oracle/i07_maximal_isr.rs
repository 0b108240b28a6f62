//! I07: a leader commits only what each replica has, that is in sync or may be by a proposal, as it reported in this very
//! epoch.

use super::{ghost::Leading, invariant::Invariant, judge::Judge};

/// A leader moves its high watermark.
pub(super) fn on_moved(judge: &mut Judge, node: u32, leading: &Leading, to: i64) {
    for replica in leading.maximal_isr().into_iter().filter(|replica| *replica != node) {
        let reported = leading.reported.get(&replica).map(|report| report.log_end);
        judge.demand(Invariant::I07, reported.is_some_and(|end| end >= to), || {
            format!(
                "the high watermark moves to {to}; broker {replica} has reported {reported:?} in epoch {}, in sync \
                 are {:?}, proposed {:?}",
                leading.epoch, leading.isr, leading.proposed
            )
        });
    }
}

/// A leader counts a report as one of `epoch`; its sender has heard of epochs up to `known`. Whoever has not heard of an
/// epoch may still cut its log when it does.
pub(super) fn on_reported(judge: &mut Judge, epoch: i32, known: Option<i32>) {
    let Some(known) = known else { return };
    judge.demand(Invariant::I07, known >= epoch, || {
        format!("a report counts in epoch {epoch}; the follower that sent it knows of epoch {known}")
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    #[test]
    fn a_report_of_an_earlier_epoch_does_not_count() {
        // B07: three quick elections, and fetches without an epoch.
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.lead(0, 1, &[0, 1]);
        cluster.advance(0, 2);
        cluster.assert_violated(Invariant::I07);
    }

    #[test]
    fn a_report_of_one_who_has_not_heard_of_the_epoch() {
        for (heard, legal) in [(1, true), (0, false)] {
            let cluster = Cluster::three();
            cluster.lead(0, 0, &[0, 1]);
            cluster.append(0, 0, 2);
            cluster.fetch(1);
            cluster.follow(1, 0, heard);
            cluster.lead(0, 1, &[0, 1]);
            cluster.report(0, 1, 2);
            match legal {
                true => cluster.assert_legal(&[Invariant::I07]),
                false => cluster.assert_violated(Invariant::I07),
            }
        }
    }

    #[test]
    fn a_proposed_member_counts() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.fetch(2);
        cluster.propose_isr(0, 0, &[0, 1, 2]);
        cluster.append(0, 2, 2);
        cluster.fetch(1);
        cluster.advance(0, 4);
        cluster.assert_violated(Invariant::I07);
    }
}
