//! I33, I35, I36 and I23 at the coordinator: who writes the true state writes on top of what it read, under the controller
//! epoch that is valid, and with a new leader epoch for each new leader.

use super::{
    invariant::Invariant,
    judge::Judge,
    truth::{StateWrite, Truth},
};
use std::collections::BTreeMap;

/// A partition's state was written.
pub(super) fn on_state(judge: &mut Judge, truth: &Truth, write: &StateWrite) {
    let StateWrite { old, new, condition, checked_epoch_version, .. } = write;
    if let Some(condition) = condition {
        judge.demand(Invariant::I33, *condition >= 0, || {
            format!("state {} is written without regard to the one before", new.version)
        });
        let before = old.as_ref().map(|old| old.version);
        judge.demand(Invariant::I33, *condition < 0 || before == Some(*condition), || {
            format!("a write on top of state {condition} succeeds, but the state was {before:?}")
        });
    }
    let valid = truth.controller_epoch_version;
    judge.demand(Invariant::I35, *checked_epoch_version == Some(valid), || {
        format!(
            "state {} is written with a check of {checked_epoch_version:?}; the controller epoch's version is {valid}",
            new.version
        )
    });
    judge.demand(Invariant::I35, new.controller_epoch >= truth.controller_epoch, || {
        format!(
            "state {} is written by the controller of epoch {}, but {} is recorded",
            new.version, new.controller_epoch, truth.controller_epoch
        )
    });
    let Some(old) = old else { return };
    let holds = new.leader_epoch > old.leader_epoch
        || (new.leader_epoch == old.leader_epoch && (new.leader == old.leader || new.leader.is_none()));
    judge.demand(Invariant::I23, holds, || {
        format!(
            "the leader was {:?} in epoch {}, now it is {:?} in epoch {}",
            old.leader, old.leader_epoch, new.leader, new.leader_epoch
        )
    });
}

/// A controller epoch was recorded.
pub(super) fn on_controller_epoch(judge: &mut Judge, before: i32, epoch: i32) {
    judge.demand(Invariant::I36, epoch > before, || {
        format!("the controller epoch was {before}, recorded is {epoch}")
    });
}

/// A broker says that it is controller.
pub(super) fn on_controller(
    judge: &mut Judge,
    truth: &Truth,
    controllers: &mut BTreeMap<i32, u32>,
    (node, epoch): (u32, i32),
) {
    let known = *controllers.entry(epoch).or_insert(node);
    judge.demand(Invariant::I36, known == node, || {
        format!("broker {node} is controller in epoch {epoch}, and so was broker {known}")
    });
    if truth.fed {
        judge.demand(Invariant::I36, epoch <= truth.controller_epoch, || {
            format!("a controller begins in epoch {epoch}, recorded is {}", truth.controller_epoch)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    #[test]
    fn each_write_on_top_of_the_last() {
        let cluster = Cluster::three();
        cluster.coordinator_begins();
        cluster.write_state(0, Some(0), 0, &[0, 1], 1, Some(0));
        cluster.write_state(1, Some(1), 1, &[1], 1, Some(0));
        cluster.next_controller_epoch(2);
        cluster.assert_legal(&[Invariant::I33, Invariant::I35, Invariant::I23, Invariant::I36]);
    }

    #[test]
    fn without_regard_to_the_last() {
        let cluster = Cluster::three();
        cluster.coordinator_begins();
        cluster.write_state(-1, Some(0), 0, &[0, 1], 1, Some(0));
        cluster.assert_violated(Invariant::I33);
    }

    #[test]
    fn a_zombie_controller() {
        // B46: it was replaced, and the check of the epoch is missing.
        let cluster = Cluster::three();
        cluster.coordinator_begins();
        cluster.write_state(0, Some(0), 0, &[0, 1], 1, Some(0));
        cluster.next_controller_epoch(2);
        cluster.write_state(1, Some(1), 1, &[1], 1, None);
        cluster.assert_violated(Invariant::I35);
    }

    #[test]
    fn a_new_leader_in_the_old_epoch() {
        let cluster = Cluster::three();
        cluster.coordinator_begins();
        cluster.write_state(0, Some(1), 0, &[0, 1], 1, Some(0));
        cluster.assert_violated(Invariant::I23);
    }

    #[test]
    fn two_controllers_in_one_epoch() {
        let cluster = Cluster::three();
        cluster.controller(0, 1);
        cluster.controller(1, 1);
        cluster.assert_violated(Invariant::I36);
    }
}
