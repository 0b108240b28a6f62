//! I36b, I45, I46, I47, I48a, I53 and I80: once faults are over, for all machines or for a core of them, the cluster comes
//! to order within the bounds of the contract, and then stays as it is.

use super::{
    Contract,
    events::Healing,
    ghost::Node,
    invariant::Invariant,
    judge::Judge,
    lineage::Lineage,
    truth::{TrueState, Truth},
};
use sillon_broker::types::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

/// What healing promised the cluster, and what of it has come about.
#[derive(Debug, Default)]
pub(super) struct Convergence {
    healed: Option<(u64, Healing)>,
    reached: BTreeSet<Invariant>,
    reported: BTreeSet<Invariant>,
    backlog: i64,
    /// Since when machines are being stopped again.
    ended_ns: Option<u64>,
}

/// All that the cluster is at one moment.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub contract: &'a Contract,
    pub truth: &'a Truth,
    pub nodes: &'a BTreeMap<u32, Node>,
    pub partitions: &'a BTreeMap<TopicPartition, Lineage>,
}

const GOALS: [Invariant; 5] =
    [Invariant::I36b, Invariant::I46, Invariant::I48a, Invariant::I47, Invariant::I45];

impl Convergence {
    /// The faults are over.
    pub fn on_healed(&mut self, now_ns: u64, healing: Healing, view: View<'_>) {
        let behind = view.partitions.values().flat_map(|lineage| {
            lineage.replicas.values().map(|replica| lineage.log.log_end - replica.log_end)
        });
        let backlog = behind.max().unwrap_or(0).max(0);
        *self = Convergence { healed: Some((now_ns, healing)), backlog, ..Convergence::default() };
    }

    /// Everything that was promised has come about.
    pub fn converged(&self) -> bool {
        self.healed.is_none() || self.reached.len() == GOALS.len()
    }

    fn bound_ns(&self, contract: &Contract, goal: Invariant) -> u64 {
        match goal {
            Invariant::I36b => contract.controller_within_ns(),
            Invariant::I46 => contract.registered_within_ns(),
            Invariant::I48a => contract.leaders_within_ns(),
            Invariant::I47 => contract.in_sync_within_ns(self.backlog),
            _ => contract.in_sync_within_ns(self.backlog) + contract.propagation_ns + contract.slack_ns,
        }
    }

    /// Looks whether what was promised has come about, and whether it is late. A goal that was once reached may be left
    /// for a moment: one follows from the other. It counts as late only if it never held.
    pub fn check(&mut self, judge: &mut Judge, view: View<'_>) {
        let Some((healed_ns, healing)) = self.healed.clone() else { return };
        for goal in GOALS {
            if self.reached.contains(&goal) || self.reported.contains(&goal) {
                continue;
            }
            let Some(missing) = missing(goal, &healing, view, judge.now_ns()) else {
                self.reached.insert(goal);
                judge.evaluated(goal);
                if matches!(healing, Healing::Core(_)) {
                    judge.evaluated(Invariant::I80);
                }
                continue;
            };
            let bound_ns = self.bound_ns(view.contract, goal);
            if judge.now_ns() > healed_ns + bound_ns {
                self.reported.insert(goal);
                let seconds = |ns: u64| ns as f64 / 1e9;
                let since = seconds(judge.now_ns() - healed_ns);
                let text =
                    format!("{since:.1} s after healing (bound {:.1} s): {missing}", seconds(bound_ns));
                if matches!(healing, Healing::Core(_)) {
                    judge.violated(Invariant::I80, format!("with a part of the machines only, {text}"));
                }
                judge.violated(goal, text);
            }
        }
    }

    /// Something changed that does not while all is quiet: a leader, in-sync replicas, a registration, the controller.
    pub fn on_change(&self, judge: &mut Judge, contract: &Contract, what: impl FnOnce() -> String) {
        let Some((healed_ns, Healing::Full)) = &self.healed else { return };
        let is_quiet = contract.quiet_after_ns > 0 && self.ended_ns.is_none();
        if is_quiet && judge.now_ns() > healed_ns + contract.quiet_after_ns {
            judge.violated(Invariant::I53, what());
        }
    }

    /// Machines are made to stop: all changes again.
    pub fn on_end(&mut self, now_ns: u64) {
        self.ended_ns.get_or_insert(now_ns);
    }

    /// The quiet phase ends, and nothing happened in its last part.
    pub fn finish(&self, judge: &mut Judge, contract: &Contract) {
        if let Some((healed_ns, Healing::Full)) = &self.healed
            && contract.quiet_after_ns > 0
            && self.ended_ns.unwrap_or(judge.now_ns()) > healed_ns + contract.quiet_after_ns
        {
            judge.evaluated(Invariant::I53);
        }
    }
}

/// What is missing for a goal.
fn missing(goal: Invariant, healing: &Healing, view: View<'_>, now_ns: u64) -> Option<String> {
    let works = |node: u32| {
        healing.holds(node) && view.nodes.get(&node).is_some_and(|node| node.alive && !node.paused)
    };
    match goal {
        Invariant::I36b => controller(view, works),
        Invariant::I46 => registrations(view, works),
        Invariant::I48a => {
            view.truth.states.iter().find_map(|(name, state)| leader(view, works, name, state))
        }
        Invariant::I47 => {
            view.truth.states.iter().find_map(|(name, state)| in_sync(view, works, name, state))
        }
        _ => metadata(view, works, now_ns),
    }
}

fn controller(view: View<'_>, works: impl Fn(u32) -> bool) -> Option<String> {
    let active: Vec<(u32, i32)> =
        view.nodes.iter().filter_map(|(node, machine)| Some((*node, machine.controls?))).collect();
    let newest = active.iter().max_by_key(|(_, epoch)| *epoch);
    let holds = newest.is_some_and(|(node, epoch)| {
        let named = !view.truth.fed || view.truth.controller == Some(*node);
        let recorded = !view.truth.fed || view.truth.controller_epoch == *epoch;
        works(*node) && named && recorded
    });
    let named = view.truth.controller;
    (!holds).then(|| {
        format!("the coordinator names {named:?} as controller, acting are (broker, epoch) {active:?}")
    })
}

/// A process says that it is registered: by itself, not by one before it.
pub(super) fn on_registered(judge: &mut Judge, machine: &Node, broker_epoch: i64) {
    let Some((start, known)) = machine.registered.filter(|(start, _)| *start != machine.starts) else {
        return;
    };
    judge.demand(Invariant::I46, broker_epoch > known, || {
        format!(
            "the process of start {} is registered as {broker_epoch}; the one of start {start} was as {known}",
            machine.starts
        )
    });
}

fn registrations(view: View<'_>, works: impl Fn(u32) -> bool) -> Option<String> {
    let running = view.nodes.iter().filter(|(node, _)| works(**node));
    running.filter(|(node, _)| **node < view.contract.brokers).find_map(|(node, machine)| {
        let told = machine.broker_epoch;
        let known = view.truth.registrations.get(node).map(|registration| registration.broker_epoch);
        let holds = told.is_some() && (!view.truth.fed || known == told);
        (!holds).then(|| {
            format!("broker {node} runs with registration {told:?}, at the coordinator is {known:?}")
        })
    })
}

fn leader(
    view: View<'_>,
    works: impl Fn(u32) -> bool,
    name: &TopicPartition,
    state: &TrueState,
) -> Option<String> {
    let electable = state.isr.iter().chain(&state.eligible).any(|node| works(*node));
    let leads = state.leader.filter(|leader| works(*leader)).is_some_and(|leader| {
        let replica = view.partitions.get(name).and_then(|lineage| lineage.replicas.get(&leader));
        let leading = replica.and_then(|replica| replica.leading.as_ref());
        leading.is_some_and(|leading| leading.epoch == state.leader_epoch)
    });
    (electable && !leads).then(|| {
        format!(
            "{name} has no leader that works; {:?} in epoch {} is it by the true state, in sync are {:?}",
            state.leader, state.leader_epoch, state.isr
        )
    })
}

fn in_sync(
    view: View<'_>,
    works: impl Fn(u32) -> bool,
    name: &TopicPartition,
    state: &TrueState,
) -> Option<String> {
    let known = view.truth.replicas.get(name).cloned();
    let replicas = known.or_else(|| Some(view.partitions.get(name)?.replicas.keys().copied().collect()))?;
    let electable = state.leader.is_some_and(&works);
    let missing = replicas.iter().find(|node| works(**node) && !state.isr.contains(node))?;
    electable.then(|| format!("broker {missing} is not in sync for {name}, which are {:?}", state.isr))
}

fn metadata(view: View<'_>, works: impl Fn(u32) -> bool, now_ns: u64) -> Option<String> {
    let running: Vec<(u32, Option<(i32, i64)>)> = view
        .nodes
        .iter()
        .filter(|(node, _)| works(**node) && **node < view.contract.brokers)
        .map(|(node, machine)| (*node, machine.metadata))
        .collect();
    let newest = running.iter().filter_map(|(_, position)| *position).max();
    let (zxid, changed_ns) = view.truth.last_change;
    if now_ns < changed_ns + view.contract.propagation_ns {
        return Some(format!("the true state changed at {:.3} s", changed_ns as f64 / 1e9));
    }
    running.iter().find_map(|(node, position)| {
        let holds = position.is_some() && *position == newest;
        let true_now = !view.truth.fed || position.is_some_and(|(_, version)| version >= zxid);
        (!holds || !true_now).then(|| {
            format!("broker {node} knows the metadata of {position:?}, others {newest:?}, the last change is {zxid}")
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Healing, Invariant, cluster_testing::Cluster};

    fn healed(healing: Healing) -> Cluster {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1, 2]);
        cluster.oracle.healed(healing);
        cluster
    }

    const GOALS: [Invariant; 5] =
        [Invariant::I36b, Invariant::I46, Invariant::I48a, Invariant::I47, Invariant::I45];

    #[test]
    fn all_comes_to_order() {
        let cluster = healed(Healing::Full);
        cluster.controller(1, 1);
        (0..3).for_each(|node| cluster.registered(node, 5));
        (0..3).for_each(|node| cluster.metadata(node, 1, 7));
        cluster.later_ms(1_000);
        cluster.oracle.check_liveness();
        cluster.later_ms(500_000);
        cluster.oracle.check_liveness();
        let judged = cluster.oracle.violations();
        assert!(judged.iter().all(|found| !GOALS.contains(&found.invariant)), "{judged:#?}");
        GOALS.iter().for_each(|goal| assert!(cluster.oracle.evaluations()[goal] > 0, "{goal}"));
    }

    #[test]
    fn a_registration_is_the_process_own() {
        // B47: the node is there already, left by the process before.
        for (second, legal) in [(6, true), (5, false)] {
            let cluster = Cluster::three();
            cluster.registered(1, 5);
            cluster.stop(1, crate::oracle::events::Stop::Killed);
            cluster.oracle.node_starting(1);
            cluster.registered(1, second);
            match legal {
                true => cluster.assert_legal(&[Invariant::I46]),
                false => cluster.assert_violated(Invariant::I46),
            }
        }
    }

    #[test]
    fn nothing_comes() {
        let cluster = healed(Healing::Full);
        cluster.confirm_isr(0, 1, &[0, 1]);
        cluster.later_ms(500_000);
        cluster.oracle.check_liveness();
        for goal in [Invariant::I36b, Invariant::I46, Invariant::I47, Invariant::I45] {
            cluster.assert_violated(goal);
        }
    }

    #[test]
    fn a_core_need_not_wait_for_the_rest() {
        let cluster = healed(Healing::Core([0, 1].into()));
        cluster.confirm_isr(0, 1, &[0, 1]);
        cluster.controller(1, 1);
        (0..2).for_each(|node| cluster.registered(node, 5));
        (0..2).for_each(|node| cluster.metadata(node, 1, 7));
        cluster.later_ms(1_000);
        cluster.oracle.check_liveness();
        assert!(cluster.oracle.evaluations()[&Invariant::I80] > 0);
    }
}
