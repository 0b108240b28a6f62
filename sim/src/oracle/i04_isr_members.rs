//! I04: who is in sync, by the true state, is registered, under the very registration under which it caught up, and is not
//! about to stop.

use super::{
    Contract,
    ghost::{Leading, Node, Report},
    invariant::Invariant,
    judge::Judge,
    truth::{StateWrite, Truth},
};
use std::collections::{BTreeMap, BTreeSet};

/// Brokers in controlled shutdown, with the registration that the controller has already taken out of everything.
#[derive(Debug, Default)]
pub(super) struct Leaving(BTreeMap<u32, i64>);

impl Leaving {
    /// A state was written: a broker that was asked to stop, and is in sync nowhere but where it is the last, has been
    /// dealt with.
    pub fn on_state(&mut self, truth: &Truth, nodes: &BTreeMap<u32, Node>, write: &StateWrite) {
        let Some(old) = &write.old else { return };
        let removed = old.isr.iter().filter(|member| !write.new.isr.contains(member));
        for node in removed {
            let asked = nodes.get(node).is_some_and(|machine| machine.asked_to_stop);
            let Some(registration) = truth.registrations.get(node).filter(|_| asked) else { continue };
            let in_sync = truth.states.values().any(|state| state.isr.len() > 1 && state.isr.contains(node));
            if !in_sync {
                self.0.insert(*node, registration.broker_epoch);
            }
        }
    }

    fn has(&self, node: u32, broker_epoch: i64) -> bool {
        self.0.get(&node) == Some(&broker_epoch)
    }
}

/// A partition's state was written; `proposer` is what the leader knew that wanted it.
pub(super) fn on_state(
    judge: &mut Judge,
    contract: &Contract,
    truth: &Truth,
    write: &StateWrite,
    proposer: Option<&Leading>,
    leaving: &Leaving,
) {
    let before: BTreeSet<u32> =
        write.old.as_ref().map(|old| old.isr.iter().copied().collect()).unwrap_or_default();
    let grace_ns = judge.now_ns().saturating_sub(contract.propagation_ns);
    let is_alone = write.new.isr.len() == 1;
    for member in write.new.isr.iter().filter(|member| !before.contains(member)) {
        judge.demand(Invariant::I04, truth.registrations.contains_key(member) || is_alone, || {
            format!("broker {member} joins the in-sync replicas, and is not registered")
        });
        let Some(registration) = truth.registrations.get(member) else { continue };
        // Nobody proposed the first members: who led a topic of that name before had another one in mind.
        let proposer = proposer.filter(|_| write.old.is_some());
        let reported = proposer.and_then(|leading| leading.reported.get(member));
        if let Some(Report { broker_epoch, .. }) = reported.filter(|report| report.broker_epoch >= 0) {
            let is_fresh = registration.since_ns >= grace_ns;
            judge.demand(Invariant::I04, *broker_epoch == registration.broker_epoch || is_fresh, || {
                format!(
                    "broker {member} joins the in-sync replicas; it caught up under registration {broker_epoch}, its \
                     present one is {}",
                    registration.broker_epoch
                )
            });
        }
        judge.demand(Invariant::I04, is_alone || !leaving.has(*member, registration.broker_epoch), || {
            format!("broker {member} joins the in-sync replicas again while it stops")
        });
    }
    if let Some(leader) = write.new.leader {
        let is_new = write.old.as_ref().is_none_or(|old| old.leader_epoch != write.new.leader_epoch);
        if is_new {
            judge.demand(Invariant::I04, truth.registrations.contains_key(&leader), || {
                format!("broker {leader} is made leader, and is not registered")
            });
        }
        judge.demand(Invariant::I04, write.new.isr.contains(&leader), || {
            format!("broker {leader} leads, in sync are {:?}", write.new.isr)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster};

    #[test]
    fn registered_members() {
        let cluster = Cluster::three();
        cluster.coordinator_begins();
        cluster.write_state(0, Some(0), 0, &[0, 1, 2], 1, Some(0));
        cluster.assert_legal(&[Invariant::I04]);
    }

    #[test]
    fn a_member_that_is_not_registered() {
        // For a minute, or since the moment before.
        for since_ms in [60_000, 0] {
            let cluster = Cluster::three();
            cluster.coordinator_begins();
            cluster.write_state(0, Some(0), 0, &[0, 1], 1, Some(0));
            cluster.unregister(2);
            cluster.later_ms(since_ms);
            cluster.write_state(1, Some(0), 0, &[0, 1, 2], 1, Some(0));
            cluster.assert_violated(Invariant::I04);
        }
    }

    #[test]
    fn a_leader_that_is_not_registered() {
        let cluster = Cluster::three();
        cluster.coordinator_begins();
        cluster.write_state(0, Some(0), 0, &[0, 1], 1, Some(0));
        cluster.unregister(1);
        cluster.write_state(1, Some(1), 1, &[1], 1, Some(0));
        cluster.assert_violated(Invariant::I04);
    }

    #[test]
    fn a_stopping_broker_comes_back() {
        // B21: its last fetch shows it caught up, after the controller had taken it out.
        for (asked, legal) in [(false, true), (true, false)] {
            let cluster = Cluster::three();
            cluster.coordinator_begins();
            cluster.write_state(0, Some(0), 0, &[0, 1, 2], 1, Some(0));
            if asked {
                cluster.oracle.node_asked_to_stop(2);
            }
            cluster.write_state(1, Some(0), 0, &[0, 1], 1, Some(0));
            cluster.write_state(2, Some(0), 0, &[0, 1, 2], 1, Some(0));
            match legal {
                true => cluster.assert_legal(&[Invariant::I04]),
                false => cluster.assert_violated(Invariant::I04),
            }
        }
    }
}
