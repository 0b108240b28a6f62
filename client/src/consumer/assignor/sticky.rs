//! Sticky: as even as can be, and as little moved as that permits (KIP-54); cooperative sticky: the same, in two steps
//! where something moves (KIP-429).
//!
//! 1. What members say they have is believed where it can be: of two who claim the same partition, the one of the later
//!    generation (KIP-792); of the same generation, neither.
//! 2. What is left goes to the member with the fewest partitions among those that want it.
//! 3. While a member has at least two more than another that could take one of them, one moves.

use super::{
    Assignment, Assignor, MemberSubscription, Members, PartitionCounts, in_order, nothing, user_data,
};
use crate::consumer::TopicPartition;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// As even as can be, and as little moved as that permits.
#[derive(Clone, Copy, Debug, Default)]
pub struct StickyAssignor;

/// As [`StickyAssignor`], but what moves is first given up by whom it had, and given to the next in another rebalance;
/// everybody goes on reading what stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct CooperativeStickyAssignor;

/// What a member had, and the generation in which it got it.
type Claim = (BTreeSet<TopicPartition>, Option<i32>);

impl Assignor for StickyAssignor {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn user_data(&self, owned: &BTreeSet<TopicPartition>, generation: Option<i32>) -> Option<Bytes> {
        user_data::sticky(owned, generation)
    }

    fn assign(&self, members: &Members, partitions: &PartitionCounts) -> Assignment {
        share(members, partitions, &believed(members, claim_in_user_data)).0
    }
}

impl Assignor for CooperativeStickyAssignor {
    fn name(&self) -> &'static str {
        "cooperative-sticky"
    }

    fn is_cooperative(&self) -> bool {
        true
    }

    fn user_data(&self, _owned: &BTreeSet<TopicPartition>, generation: Option<i32>) -> Option<Bytes> {
        user_data::cooperative(generation)
    }

    fn assign(&self, members: &Members, partitions: &PartitionCounts) -> Assignment {
        let (mut assignment, _) = share(members, partitions, &believed(members, claim_in_subscription));
        // Whoever says that it has a partition reads it still, whether that is believed or not: nobody gets it anew yet.
        let mut owners: BTreeMap<&TopicPartition, Vec<&String>> = BTreeMap::new();
        for (id, member) in members {
            for partition in &member.owned {
                owners.entry(partition).or_default().push(id);
            }
        }
        for (id, parts) in &mut assignment {
            parts.retain(|partition| owners.get(partition).is_none_or(|owners| owners.contains(&id)));
        }
        assignment
    }
}

fn claim_in_user_data(member: &MemberSubscription) -> Claim {
    member.user_data.as_ref().and_then(user_data::read_sticky).unwrap_or_default()
}

fn claim_in_subscription(member: &MemberSubscription) -> Claim {
    let stated = || member.user_data.as_ref().and_then(user_data::read_cooperative);
    (member.owned.clone(), member.generation.or_else(stated))
}

/// Who is believed to have what (B55).
fn believed(
    members: &Members,
    claim: impl Fn(&MemberSubscription) -> Claim,
) -> BTreeMap<TopicPartition, &String> {
    // The latest generation of each partition, and who claims it from that; `None` for several.
    let mut latest: BTreeMap<TopicPartition, (Option<i32>, Option<&String>)> = BTreeMap::new();
    for (id, member) in members {
        let (owned, generation) = claim(member);
        for partition in owned {
            let entry = latest.entry(partition).or_insert((generation, Some(id)));
            if generation > entry.0 {
                *entry = (generation, Some(id));
            } else if generation == entry.0 && entry.1 != Some(id) {
                entry.1 = None;
            }
        }
    }
    latest.into_iter().filter_map(|(partition, (_, owner))| Some((partition, owner?))).collect()
}

/// Shares the partitions; gives besides how many moved from one member to another.
fn share(
    members: &Members,
    partitions: &PartitionCounts,
    before: &BTreeMap<TopicPartition, &String>,
) -> (Assignment, usize) {
    let mut assignment = nothing(members);
    let order: BTreeMap<&String, usize> =
        in_order(members).into_iter().enumerate().map(|(place, (id, _))| (id, place)).collect();
    let mut left = Vec::new();
    for (topic, count) in partitions {
        if !members.values().any(|member| member.topics.contains(topic)) {
            continue;
        }
        for partition in 0..*count {
            let partition = TopicPartition { topic: topic.clone(), partition };
            let owner = before
                .get(&partition)
                .filter(|owner| members.get(**owner).is_some_and(|member| member.topics.contains(topic)));
            match owner {
                Some(owner) => {
                    assignment.get_mut(*owner).expect("every member has an entry").insert(partition);
                }
                None => left.push(partition),
            }
        }
    }
    // Those that few want first, so that whoever wants many is not full of them by then.
    let wanting = |topic: &str| members.values().filter(|member| member.topics.contains(topic)).count();
    left.sort_by_cached_key(|partition| (wanting(&partition.topic), partition.clone()));
    for partition in left {
        let poorest = members
            .iter()
            .filter(|(_, member)| member.topics.contains(&partition.topic))
            .map(|(id, _)| id)
            .min_by_key(|id| (assignment[*id].len(), order[id]))
            .expect("somebody wants every partition that is left");
        assignment.get_mut(poorest).expect("every member has an entry").insert(partition);
    }
    let moved = level(members, &mut assignment, &order, before);
    (assignment, moved)
}

/// Moves partitions from those who have at least two more than somebody who could take one.
fn level(
    members: &Members,
    assignment: &mut Assignment,
    order: &BTreeMap<&String, usize>,
    before: &BTreeMap<TopicPartition, &String>,
) -> usize {
    let mut moved = 0;
    loop {
        let mut by_wealth: Vec<&String> = members.keys().collect();
        by_wealth.sort_by_key(|id| (assignment[*id].len(), order[*id]));
        let step = by_wealth.iter().rev().find_map(|rich| {
            let poor = by_wealth.iter().find(|poor| {
                assignment[**poor].len() + 2 <= assignment[*rich].len()
                    && assignment[*rich]
                        .iter()
                        .any(|partition| members[**poor].topics.contains(&partition.topic))
            })?;
            // One that has just been given away anew rather than one that the member had; the last of them.
            let takeable = assignment[*rich].iter().rev();
            let takeable = takeable.filter(|partition| members[*poor].topics.contains(&partition.topic));
            let partition = takeable.min_by_key(|partition| before.get(*partition) == Some(rich))?;
            Some(((*rich).clone(), (*poor).clone(), partition.clone()))
        });
        let Some((rich, poor, partition)) = step else { return moved };
        assignment.get_mut(&rich).expect("every member has an entry").remove(&partition);
        assignment.get_mut(&poor).expect("every member has an entry").insert(partition);
        moved += 1;
    }
}
