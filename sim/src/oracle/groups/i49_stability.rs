//! I49: after healing every group comes to rest in time, keeps its generation, and has every partition that it wants (I55).

use super::{Group, Groups};
use crate::oracle::{invariant::Invariant, judge::Judge, lineage::Lineage};
use sillon_broker::types::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

/// Beside what the contract says: finding the coordinator, connections, elections.
const SLACK_NS: u64 = 15_000_000_000;

/// What is looked at after healing.
#[derive(Debug, Default)]
pub(super) struct Stability {
    pub healed_ns: Option<u64>,
    /// The deadline has passed, and all groups were judged.
    pub rested: bool,
    /// Members go, because the run is over.
    pub is_over: bool,
}

/// What keeps a group from being at rest.
pub(super) fn unrest(group: &Group, partitions: &BTreeMap<TopicPartition, Lineage>) -> Option<String> {
    if group.alive.is_empty() {
        return None;
    }
    if let Some(since_ns) = group.rebalancing_since_ns {
        return Some(format!("it has been rebalancing since {:.3} s", since_ns as f64 / 1e9));
    }
    let Some(current) = &group.current else { return Some("it has no generation".to_owned()) };
    let (members, alive) = (current.members.len(), group.alive.len());
    if members != alive {
        return Some(format!("it has {members} members, {alive} are alive"));
    }
    let topics: BTreeSet<&str> =
        current.members.values().flat_map(|member| &member.topics).map(String::as_str).collect();
    let mut given = current.members.values().flat_map(|member| &member.assigned);
    let missing = partitions
        .keys()
        .filter(|partition| topics.contains(&*partition.topic))
        .find(|partition| !given.clone().any(|one| one == *partition));
    if let Some(partition) = missing {
        return Some(format!("nobody has {partition}"));
    }
    given
        .find(|partition| !partitions.contains_key(partition))
        .map(|one| format!("{one} is assigned, and is not there"))
}

/// The time since healing may be over.
pub(super) fn check(groups: &mut Groups, judge: &mut Judge, partitions: &BTreeMap<TopicPartition, Lineage>) {
    let Some(healed_ns) = groups.stability.healed_ns else { return };
    let contract = &groups.contract;
    let within_ns = contract.session_timeout_ns + contract.rebalance_timeout_ns + SLACK_NS;
    if groups.stability.rested || judge.now_ns() < healed_ns + within_ns {
        return;
    }
    groups.stability.rested = true;
    for (name, group) in groups.groups.iter().filter(|(_, group)| !group.alive.is_empty()) {
        let unrest = unrest(group, partitions);
        for invariant in [Invariant::I49, Invariant::I55] {
            judge.demand(invariant, unrest.is_none(), || {
                let why = unrest.clone().expect("that is what does not hold");
                format!("{name} is not at rest {} ms after healing: {why}", within_ns / 1_000_000)
            });
        }
    }
}

/// A rebalance that nothing disturbs ends in time, whoever of its members is gone.
pub(super) fn check_rebalances(groups: &mut Groups, judge: &mut Judge, calm_since_ns: Option<u64>) {
    let Some(calm_ns) = calm_since_ns else { return };
    let contract = &groups.contract;
    let within_ns = contract.session_timeout_ns + contract.rebalance_timeout_ns + SLACK_NS;
    for (name, group) in &mut groups.groups {
        let Some(since_ns) = group.rebalancing_since_ns.filter(|since_ns| *since_ns > calm_ns) else {
            continue;
        };
        if judge.now_ns() >= since_ns + within_ns {
            // Told once.
            group.rebalancing_since_ns = None;
            judge.violated(
                Invariant::I49,
                format!(
                    "{name} has been rebalancing for {} ms while nothing was broken",
                    within_ns / 1_000_000
                ),
            );
        }
    }
}

/// A group begins to rebalance.
pub(super) fn on_rebalancing(groups: &Groups, judge: &mut Judge, group: &str) {
    if groups.stability.rested && !groups.stability.is_over {
        judge.violated(Invariant::I49, format!("{group} rebalances again, long after healing"));
    }
}
