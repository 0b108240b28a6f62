//! I54, I58 and I60: each generation's assignment is one that a group may have, and follows from the one before as it should.

use super::Generation;
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_broker::types::TopicPartition;
use std::collections::BTreeMap;

/// Assignors that leave partitions where they are.
const STICKY: [&str; 2] = ["sticky", "cooperative-sticky"];
/// The one that takes a partition from a member a generation before it gives it to another.
const COOPERATIVE: &str = "cooperative-sticky";

/// A generation has formed. `undisturbed`: no member has given up everything since the one before.
pub(super) fn on_formed(
    judge: &mut Judge,
    group: &str,
    before: Option<&Generation>,
    now: &Generation,
    undisturbed: bool,
) {
    let mut owners: BTreeMap<&TopicPartition, &str> = BTreeMap::new();
    for (id, member) in &now.members {
        for partition in &member.assigned {
            let other = owners.insert(partition, id);
            judge.demand(Invariant::I54, other.is_none(), || {
                format!("{group}: generation {} gives {partition} to {id} and to {other:?}", now.number)
            });
            judge.demand(Invariant::I55, member.topics.contains(&*partition.topic), || {
                format!(
                    "{group}: generation {} gives {partition} to {id}, which wants {:?}",
                    now.number, member.topics
                )
            });
        }
    }
    if now.protocol == COOPERATIVE {
        handed_over(judge, group, now);
    }
    if STICKY.contains(&&*now.protocol)
        && undisturbed
        && let Some(before) = before.filter(|before| before.protocol == now.protocol)
    {
        stays(judge, group, before, now);
    }
}

/// I58: who is given a partition is given it only once nobody else has it any more.
fn handed_over(judge: &mut Judge, group: &str, now: &Generation) {
    // What a member that missed a generation says that it has is not its own any more (KIP-792).
    let newest = now.members.values().map(|member| member.owned_generation).max().unwrap_or(-1);
    for (id, member) in &now.members {
        for partition in &member.assigned {
            let holder = now.members.iter().find(|(other, holder)| {
                *other != id && holder.owned_generation == newest && holder.owned.contains(partition)
            });
            judge.demand(Invariant::I58, holder.is_none(), || {
                let holder = holder.map(|(id, _)| id);
                format!(
                    "{group}: generation {} gives {partition} to {id} while {holder:?} has it",
                    now.number
                )
            });
        }
    }
}

/// I60: who stays keeps what it had, but for what a newcomer is due, and what was not shared evenly before.
fn stays(judge: &mut Judge, group: &str, before: &Generation, now: &Generation) {
    let stay = || before.members.iter().filter_map(|(id, old)| Some((id, old, now.members.get(id)?)));
    let wants_alike =
        now.members.values().all(|member| stay().all(|(_, old, _)| old.topics == member.topics));
    // With cooperative rebalancing a member says what it has: one that forgot has begun anew.
    let remembers =
        now.protocol != COOPERATIVE || stay().all(|(_, old, new)| new.owned.is_superset(&old.assigned));
    if stay().next().is_none() || !wants_alike || !remembers {
        return;
    }
    let newcomers = now.members.keys().filter(|id| !before.members.contains_key(*id)).count();
    let all: usize = now.members.values().map(|member| member.assigned.len()).sum();
    let (most, least) = sizes(before);
    let allowed = newcomers * all.div_ceil(now.members.len()) + (most - least);
    let owner = |partition: &TopicPartition| {
        now.members.iter().find(|(_, member)| member.assigned.contains(partition)).map(|(id, _)| id)
    };
    let moved: Vec<&TopicPartition> = stay()
        .flat_map(|(id, old, _)| old.assigned.iter().map(move |partition| (id, partition)))
        .filter(|(id, partition)| owner(partition).is_some_and(|owner| owner != *id))
        .map(|(_, partition)| partition)
        .collect();
    judge.demand(Invariant::I60, moved.len() <= allowed, || {
        format!(
            "{group}: generation {} takes {moved:?} from members that stay; {newcomers} are new, {allowed} may move",
            now.number
        )
    });
}

fn sizes(generation: &Generation) -> (usize, usize) {
    let sizes = generation.members.values().map(|member| member.assigned.len());
    (sizes.clone().max().unwrap_or(0), sizes.min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Told, member};
    use crate::oracle::Invariant;

    #[test]
    fn each_partition_has_one_owner() {
        let mut told = Told::new();
        told.formed("g", 1, "range", &[member("a", &[], &[0, 1]), member("b", &[], &[2])]);
        told.assert_legal(&[Invariant::I54, Invariant::I55]);
        told.formed("g", 2, "range", &[member("a", &[], &[0, 1]), member("b", &[], &[1])]);
        told.assert_violated(Invariant::I54);
    }

    #[test]
    fn a_partition_changes_hands_in_two_steps() {
        let mut told = Told::new();
        let cooperative = "cooperative-sticky";
        told.formed("g", 1, cooperative, &[member("a", &[], &[0, 1])]);
        told.formed("g", 2, cooperative, &[member("a", &[0, 1], &[0]), member("b", &[], &[])]);
        told.formed("g", 3, cooperative, &[member("a", &[0], &[0]), member("b", &[], &[1])]);
        told.assert_legal(&[Invariant::I58]);
        told.formed("g", 4, cooperative, &[member("a", &[0], &[]), member("b", &[1], &[0, 1])]);
        told.assert_violated(Invariant::I58);
    }

    #[test]
    fn nothing_moves_where_nothing_has_changed() {
        let mut told = Told::new();
        told.formed("g", 1, "sticky", &[member("a", &[], &[0]), member("b", &[], &[1])]);
        told.formed("g", 2, "sticky", &[member("a", &[0], &[0]), member("b", &[1], &[1])]);
        told.formed("g", 3, "sticky", &[member("a", &[0], &[0, 1])]);
        told.formed("g", 4, "sticky", &[member("a", &[0, 1], &[0]), member("c", &[], &[1])]);
        told.assert_legal(&[Invariant::I60]);
        told.formed("g", 5, "sticky", &[member("a", &[0], &[1]), member("c", &[1], &[0])]);
        told.assert_violated(Invariant::I60);
    }
}
