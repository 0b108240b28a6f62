//! I22 and I34: each leader epoch has one leader, the one that the true state names, and a broker never goes back to what
//! it has applied before.

use super::{
    ghost::{Leading, Partition},
    invariant::Invariant,
    judge::Judge,
    lineage::Lineage,
    truth::Truth,
};
use sillon_broker::types::TopicPartition;

/// A broker leads from now on.
pub(super) fn on_leader(
    judge: &mut Judge,
    truth: &Truth,
    lineage: &mut Lineage,
    name: &TopicPartition,
    (node, epoch): (u32, i32),
) {
    let known = *lineage.leaders.entry(epoch).or_insert(node);
    judge.demand(Invariant::I22, known == node, || {
        format!("broker {node} leads in epoch {epoch}, and so did broker {known}")
    });
    if truth.fed && lineage.is_current(node) {
        let named = truth.leaders.get(&(name.clone(), epoch));
        let exists = truth.states.contains_key(name);
        judge.demand(Invariant::I22, named == Some(&node) || !exists, || {
            format!("broker {node} leads in epoch {epoch}, whose true leader is {named:?}")
        });
    }
}

/// A broker takes a part in a leader epoch.
pub(super) fn on_epoch(judge: &mut Judge, replica: &Partition, leader_epoch: i32) {
    if let Some(known) = replica.leader_epoch {
        judge.demand(Invariant::I34, leader_epoch >= known, || {
            format!("the broker was in epoch {known} and goes to {leader_epoch}")
        });
        judge.demand(Invariant::I23, leader_epoch >= known, || {
            format!("the leader epoch was {known} and is {leader_epoch} now")
        });
    }
}

/// A leader learns a state.
pub(super) fn on_confirmed(
    judge: &mut Judge,
    truth: &Truth,
    name: &TopicPartition,
    leading: &Leading,
    (version, isr): (i32, &[u32]),
) {
    judge.demand(Invariant::I34, version >= leading.state, || {
        format!("the leader has applied state {} and goes to {version}", leading.state)
    });
    let Some(state) = truth.states.get(name).filter(|state| truth.fed && state.version == version) else {
        return;
    };
    if state.leader_epoch == leading.epoch {
        let same = state.isr.len() == isr.len() && isr.iter().all(|member| state.isr.contains(member));
        judge.demand(Invariant::I34, same, || {
            format!("in state {version} {:?} are in sync, the leader applies {isr:?}", state.isr)
        });
    }
}

/// A broker has applied metadata.
pub(super) fn on_metadata(judge: &mut Judge, before: Option<(i32, i64)>, position: (i32, i64)) {
    if let Some(before) = before {
        judge.demand(Invariant::I34, position >= before, || {
            format!("the broker had applied metadata {before:?} and goes to {position:?}")
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    #[test]
    fn one_after_the_other() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.lead(1, 1, &[0, 1]);
        cluster.follow(0, 1, 1);
        cluster.assert_legal(&[Invariant::I22, Invariant::I34]);
    }

    #[test]
    fn two_in_one_epoch() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.lead(1, 0, &[0, 1]);
        cluster.assert_violated(Invariant::I22);
    }

    #[test]
    fn back_to_an_old_epoch() {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.lead(1, 1, &[0, 1]);
        cluster.follow(0, 1, 1);
        cluster.follow(0, 0, 0);
        cluster.assert_violated(Invariant::I34);
    }
}
