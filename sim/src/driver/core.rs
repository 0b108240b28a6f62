//! What is healed when the faults end: everything, or a core, the rest of the machines dead or cut off for ever. Owns that
//! choice and how it is carried out.

use super::{
    act::{carry_out, heal as heal_machine},
    cluster::Cluster,
};
use crate::{
    decisions::Stream,
    faults::{Direction, Draws, Machines, Step},
    oracle::Healing,
    world::{NodeId, Status, World},
};
use sillon_broker::types::TopicPartition;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a core needs of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The brokers that hold a replica.
    pub replicas: BTreeSet<u32>,
    /// Those that may lead without loss: in sync, and their process was there all the time.
    pub electable: BTreeSet<u32>,
}

/// Heals what the configuration says. Gives what that is.
pub(super) fn heal(world: &Arc<World>, cluster: &Cluster) -> Healing {
    let healing = if cluster.config.heal.core { choose(world, cluster) } else { Healing::Full };
    world.network().mend_all();
    for node in (0..cluster.machines.count()).filter(|node| healing.holds(*node)) {
        heal_machine(world, cluster, node);
    }
    let mut draws = Draws::new(cluster.config.heal.pick, "outside");
    for node in (0..cluster.machines.count()).filter(|node| !healing.holds(*node)) {
        // One that is cut off may go on believing that it leads.
        let step = if draws.chance(0.5) { Step::PowerFail } else { Step::Cut(Direction::Both) };
        carry_out(world, cluster, node, step);
    }
    healing
}

/// The core. It goes onto the tape, so that a recording says it by itself.
fn choose(world: &World, cluster: &Cluster) -> Healing {
    let (machines, topics) = (cluster.machines, &cluster.config.topics);
    let runs = |node: &u32| world.status(NodeId(*node)) == Status::Running;
    let needs = cluster.judges.roles.needs(&|node| runs(&node));
    let known = needs.len() as u32 >= topics.count * topics.partitions;
    let minimum = topics.min_insync_replicas as usize;
    let pick = cluster.config.heal.pick;
    let found = if known { core(machines, &needs, minimum, pick) } else { None };
    let all = bits(0..machines.count());
    let chosen = found.map_or(all, |core| bits(core.into_iter()));
    let settled = world.decisions().settle(Stream::FaultPlan, "core", (0, all), chosen);
    if settled == all {
        return Healing::Full;
    }
    Healing::Core((0..machines.count()).filter(|node| settled & 1 << node != 0).collect())
}

fn bits(nodes: impl Iterator<Item = u32>) -> u64 {
    nodes.fold(0, |bits, node| bits | 1 << node)
}

/// A majority of the members and some brokers that can serve every partition; nothing where only all of them can.
pub(super) fn core(
    machines: Machines,
    needs: &BTreeMap<TopicPartition, Needs>,
    minimum: usize,
    pick: u64,
) -> Option<BTreeSet<u32>> {
    let mut draws = Draws::new(pick, "core");
    let serves = |brokers: &BTreeSet<u32>| {
        !brokers.is_empty()
            && needs.values().all(|partition| {
                let replicas = partition.replicas.intersection(brokers).count();
                replicas >= minimum && !partition.electable.is_disjoint(brokers)
            })
    };
    let subset = |mask: u32| (0..machines.brokers).filter(|broker| mask & 1 << broker != 0).collect();
    let all_but_some = 1..(1u32 << machines.brokers) - 1;
    let fit: Vec<BTreeSet<u32>> = all_but_some.map(subset).filter(serves).collect();
    if fit.is_empty() {
        return None;
    }
    let mut core = draws.choose(&fit).clone();
    let mut members: Vec<u32> = (machines.brokers..machines.count()).collect();
    for place in (1..members.len()).rev() {
        members.swap(place, draws.below(place as u64 + 1) as usize);
    }
    members.truncate(machines.members as usize / 2 + 1);
    core.extend(members);
    Some(core)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: Machines = Machines { brokers: 4, members: 3 };

    fn needs(list: &[(&[u32], &[u32])]) -> BTreeMap<TopicPartition, Needs> {
        let partition = |(number, (replicas, electable)): (usize, &(&[u32], &[u32]))| {
            let needs = Needs {
                replicas: replicas.iter().copied().collect(),
                electable: electable.iter().copied().collect(),
            };
            (TopicPartition::new("t", number as i32), needs)
        };
        list.iter().enumerate().map(partition).collect()
    }

    #[test]
    fn a_core_has_a_majority_and_enough_replicas_of_each_partition() {
        let needs = needs(&[(&[0, 1, 2], &[0, 1]), (&[1, 2, 3], &[3])]);
        let mut seen = BTreeSet::new();
        for pick in 0..200 {
            let core = core(CLUSTER, &needs, 2, pick).expect("there are such");
            assert_eq!(core.iter().filter(|node| **node >= 4).count(), 2, "two of three members");
            assert!(core.contains(&3), "it alone can lead the second partition");
            assert!(core.contains(&0) || core.contains(&1));
            assert!([0, 1, 2].iter().filter(|node| core.contains(node)).count() >= 2);
            assert!(core.iter().filter(|node| **node < 4).count() < 4, "some broker is left out");
            seen.insert(core);
        }
        assert!(seen.len() > 3, "each seed has its own");
    }

    #[test]
    fn where_all_brokers_are_needed_there_is_no_core() {
        assert_eq!(core(CLUSTER, &needs(&[(&[0, 1], &[0]), (&[2, 3], &[2])]), 2, 1), None);
        assert_eq!(core(CLUSTER, &needs(&[(&[0, 1, 2], &[])]), 1, 1), None, "nobody can lead");
        let one = Machines { brokers: 1, members: 0 };
        assert_eq!(core(one, &needs(&[(&[0], &[0])]), 1, 1), None);
    }
}
