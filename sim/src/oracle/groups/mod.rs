//! Consumer groups as the oracle sees them: what their coordinators tell, and what their members do.
//!
//! ```text
//!   coordinators' facts ─► on_fact ───┐                ┌─ i54_assignments, i56_fencing, i77_ownership: each generation, each commit
//!   members' events ─────► on_event ──┼─► Groups ◄─────┼─ i38_offsets, i37_retention: what is committed stays
//!   healing, end ────────► i49, i78 ──┘                └─ i49_stability, i78_processing: in the end
//! ```
//! A coordinator tells a generation or an offset once its record is committed, in the order of its log. So what is told is
//! the truth, whoever tells it; what a coordinator merely believes of its members is not looked at.
//!
//! Owns the ghost state of groups, and how it moves.

pub mod events;
mod i37_retention;
mod i38_offsets;
mod i49_stability;
mod i54_assignments;
mod i56_fencing;
mod i77_ownership;
mod i78_processing;
#[cfg(test)]
mod testing;

use super::{judge::Judge, lineage::Lineage};
use events::{Delivery, GroupEvent};
use sillon_broker::{
    group::facts::{GenerationFact, GroupFact},
    types::TopicPartition,
};
use sillon_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, ConsumerProtocolTopicPartitions,
    decode_consumer_protocol,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is promised of groups in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupContract {
    /// How long a member may be silent, in nanoseconds.
    pub session_timeout_ns: u64,
    /// How long members have to join again, in nanoseconds.
    pub rebalance_timeout_ns: u64,
    /// How long offsets of an empty group stay, in nanoseconds; none where nothing expires in a run.
    pub offsets_retention_ns: Option<u64>,
    /// Brokers' wall clocks do not agree.
    pub wall_clocks_differ: bool,
    /// How members of a group process and commit.
    pub delivery: Delivery,
}

impl Default for GroupContract {
    fn default() -> GroupContract {
        GroupContract {
            session_timeout_ns: 45_000_000_000,
            rebalance_timeout_ns: 300_000_000_000,
            offsets_retention_ns: None,
            wall_clocks_differ: false,
            delivery: Delivery::AtLeastOnce,
        }
    }
}

/// A member of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Member {
    instance: Option<String>,
    topics: BTreeSet<String>,
    /// What it said that it has, and in which generation it got that.
    owned: BTreeSet<TopicPartition>,
    owned_generation: i32,
    assigned: BTreeSet<TopicPartition>,
}

/// A generation, read from the members' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Generation {
    number: i32,
    protocol: String,
    members: BTreeMap<String, Member>,
}

impl Generation {
    /// A static member has come back under another id: it is the same member (KIP-345).
    fn replace(&mut self, instance: &str, id: &str) -> bool {
        let known = self.members.iter().find(|(_, member)| member.instance.as_deref() == Some(instance));
        let Some(before) = known.map(|(before, _)| before.clone()) else { return false };
        let member = self.members.remove(&before).expect("it was found");
        self.members.insert(id.to_owned(), member);
        true
    }

    /// What a member is called over several lives: the name that the user gave it, else its id.
    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.members.get(id).and_then(|member| member.instance.as_deref()).unwrap_or(id)
    }
}

/// What is known of one group.
#[derive(Debug, Default)]
struct Group {
    /// The highest generation that is known to be in the log.
    highest: i32,
    /// The last one that formed; none while the group is empty, or where that is not known.
    current: Option<Generation>,
    /// Since when it has had no members, on the one true clock.
    empty_since_ns: Option<u64>,
    /// Another coordinator has found it so since.
    found_since_empty: bool,
    /// The last generation whose end was told. It need not have formed: one whose assignment never came ends as well.
    ended: i32,
    /// Ids of members that coordinators have given up.
    gone: BTreeSet<String>,
    /// A member has given up everything since the last generation formed.
    disturbed: bool,
    /// Another coordinator has taken over since the last generation formed.
    taken_over: bool,
    /// A rebalance is under way since.
    rebalancing_since_ns: Option<u64>,
    offsets: BTreeMap<TopicPartition, i38_offsets::Committed>,
    owners: BTreeMap<TopicPartition, i77_ownership::Owner>,
    processed: i78_processing::Processed,
    /// The members that live: their numbers, and the names that the user gave them.
    alive: BTreeMap<u32, Option<String>>,
}

/// All groups of a run.
#[derive(Debug, Default)]
pub(super) struct Groups {
    contract: GroupContract,
    groups: BTreeMap<String, Group>,
    /// What was found so far, for each partition of the offsets topic that is being read.
    loading: BTreeMap<TopicPartition, i38_offsets::Loading>,
    /// Which partition of the offsets topic holds a group.
    homes: BTreeMap<String, TopicPartition>,
    stability: i49_stability::Stability,
}

impl Groups {
    pub fn new(contract: GroupContract) -> Groups {
        Groups { contract, ..Groups::default() }
    }

    fn group(&mut self, name: &str) -> &mut Group {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// A coordinator tells a fact. `home` is the partition of the offsets topic; `promised` says whether nothing of it may be
    /// lost, for all that has happened to its replicas.
    pub fn on_fact(&mut self, judge: &mut Judge, home: &TopicPartition, promised: bool, fact: &GroupFact) {
        if let Some(name) = name_of(fact) {
            self.homes.entry(name.to_owned()).or_insert_with(|| home.clone());
        }
        match fact {
            GroupFact::Loaded { .. } => i38_offsets::on_loaded(self, judge, home, promised),
            GroupFact::Unloaded => drop(self.loading.remove(home)),
            GroupFact::Found { .. } | GroupFact::FoundEmpty { .. } => {
                self.on_found(judge, promised, fact);
            }
            GroupFact::OffsetFound { group, partition, offset } => {
                i38_offsets::on_found(self, judge, home, (group, partition, *offset), promised);
            }
            GroupFact::MemberJoined { group, member, instance } => {
                let known = self.group(group);
                if let (Some(current), Some(name)) = (&mut known.current, instance) {
                    // It comes back with nothing but its name.
                    known.disturbed |= current.replace(name, member);
                }
            }
            GroupFact::MemberGone { group, member, .. } => {
                self.group(group).gone.insert(member.to_string());
            }
            GroupFact::Rebalancing { group, generation } => {
                let now_ns = judge.now_ns();
                let known = self.group(group);
                known.ended = *generation;
                known.rebalancing_since_ns.get_or_insert(now_ns);
                i49_stability::on_rebalancing(self, judge, group);
            }
            GroupFact::GenerationFormed { group, generation } => self.on_formed(judge, group, generation),
            // It is told before its record is committed: one that leads no more may believe it.
            GroupFact::Emptied { group, .. } => {
                let now_ns = judge.now_ns();
                let known = self.group(group);
                known.empty_since_ns = Some(now_ns);
                known.found_since_empty = false;
                known.rebalancing_since_ns = None;
            }
            GroupFact::OffsetCommitted { .. } => self.on_committed(judge, fact),
            GroupFact::OffsetRemoved { group, partition, reason } => {
                let contract = self.contract.clone();
                let known = self.group(group);
                i37_retention::on_removed(judge, &contract, known, (group, partition), *reason);
                known.offsets.remove(partition);
            }
            GroupFact::GroupRemoved { group } => {
                let known = self.group(group);
                known.current = None;
                known.offsets.clear();
                known.owners.clear();
                // The name may come again, from the first generation on.
                known.highest = 0;
            }
        }
    }

    /// A coordinator that has taken over finds a group in its log.
    fn on_found(&mut self, judge: &mut Judge, promised: bool, fact: &GroupFact) {
        let (group, number, generation) = match fact {
            GroupFact::Found { group, generation } => (group, generation.generation, Some(read(generation))),
            GroupFact::FoundEmpty { group, generation, .. } => (group, *generation, None),
            _ => unreachable!("the caller looked"),
        };
        let now_ns = judge.now_ns();
        let known = self.group(group);
        i56_fencing::on_found(judge, known, group, number, promised);
        i77_ownership::on_found(known, number);
        known.ended = number;
        known.highest = number;
        known.taken_over = true;
        known.rebalancing_since_ns = None;
        if generation.is_some() {
            known.empty_since_ns = None;
        } else {
            known.empty_since_ns.get_or_insert(now_ns);
            known.found_since_empty = true;
        }
        known.current = generation;
    }

    fn on_formed(&mut self, judge: &mut Judge, name: &str, fact: &GenerationFact) {
        let generation = read(fact);
        let known = self.group(name);
        i56_fencing::on_generation(judge, known, name, generation.number);
        i56_fencing::on_members(judge, name, &generation);
        let undisturbed = !known.disturbed && !known.taken_over;
        i54_assignments::on_formed(judge, name, known.current.as_ref(), &generation, undisturbed);
        known.disturbed = false;
        known.highest = known.highest.max(generation.number);
        known.taken_over = false;
        known.current = Some(generation);
        known.empty_since_ns = None;
        known.rebalancing_since_ns = None;
    }

    fn on_committed(&mut self, judge: &mut Judge, fact: &GroupFact) {
        let GroupFact::OffsetCommitted { group, partition, offset, member, generation, .. } = fact else {
            unreachable!("the caller looked")
        };
        let known = self.group(group);
        i56_fencing::on_committed(judge, known, (group, partition), (member, *generation));
        i77_ownership::on_committed(judge, known, (group, partition), (member, *generation));
        i38_offsets::on_committed(judge, known, partition, *offset);
    }

    /// A member does or sees something.
    pub fn on_event(&mut self, judge: &mut Judge, event: GroupEvent) {
        let delivery = self.contract.delivery;
        match event {
            GroupEvent::Started { group, member, instance } => {
                self.group(&group).alive.insert(member, instance);
            }
            GroupEvent::Ended { group, member } => {
                self.group(&group).alive.remove(&member);
            }
            GroupEvent::Lost { group, identity, was_slow } => {
                let known = self.group(&group);
                i56_fencing::on_lost(judge, known, &group, &identity, was_slow);
                known.disturbed = true;
            }
            GroupEvent::Closing { .. } => self.stability.is_over = true,
            GroupEvent::Committing { group, offsets } => {
                i38_offsets::on_committing(self.group(&group), offsets);
            }
            GroupEvent::Confirmed { group, offsets } => {
                i38_offsets::on_confirmed(judge, self.group(&group), &group, &offsets);
            }
            GroupEvent::Fetched { group, partition, offset, asked_ns } => {
                i38_offsets::on_fetched(judge, self.group(&group), &group, (&partition, offset), asked_ns);
            }
            GroupEvent::Processed { group, member, partition, offset, record } => {
                let known = self.group(&group);
                let what = (member, partition, offset, record);
                i78_processing::on_processed(judge, delivery, &group, &mut known.processed, what);
            }
        }
    }

    /// All faults are over.
    pub fn healed(&mut self, now_ns: u64) {
        self.stability.healed_ns = Some(now_ns);
    }

    /// Looks whether a rebalance takes longer than it may, while no fault is on.
    pub fn check_rebalances(&mut self, judge: &mut Judge, calm_since_ns: Option<u64>) {
        i49_stability::check_rebalances(self, judge, calm_since_ns);
    }

    /// Looks whether groups have come to rest in time.
    pub fn check_liveness(&mut self, judge: &mut Judge, partitions: &BTreeMap<TopicPartition, Lineage>) {
        i49_stability::check(self, judge, partitions);
    }

    /// Whether all groups have come to rest, and that was judged.
    pub fn converged(&self, partitions: &BTreeMap<TopicPartition, Lineage>) -> bool {
        let judged = self.stability.healed_ns.is_none() || self.stability.rested;
        judged && self.groups.values().all(|group| i49_stability::unrest(group, partitions).is_none())
    }

    /// Whether all groups have processed what there is. To be asked once nobody produces any more.
    pub fn caught_up(&self, partitions: &BTreeMap<TopicPartition, Lineage>) -> bool {
        i78_processing::backlog(self, partitions).is_none()
    }

    /// Nobody produces any more, and members have had their time. To be told while they still live.
    pub fn judge_processing(&self, judge: &mut Judge, partitions: &BTreeMap<TopicPartition, Lineage>) {
        i78_processing::at_end(self, judge, partitions);
    }
}

/// The group that a fact is about, where it is about one.
fn name_of(fact: &GroupFact) -> Option<&str> {
    match fact {
        GroupFact::Loaded { .. } | GroupFact::Unloaded => None,
        GroupFact::Found { group, .. }
        | GroupFact::FoundEmpty { group, .. }
        | GroupFact::OffsetFound { group, .. }
        | GroupFact::MemberJoined { group, .. }
        | GroupFact::MemberGone { group, .. }
        | GroupFact::Rebalancing { group, .. }
        | GroupFact::GenerationFormed { group, .. }
        | GroupFact::Emptied { group, .. }
        | GroupFact::OffsetCommitted { group, .. }
        | GroupFact::OffsetRemoved { group, .. }
        | GroupFact::GroupRemoved { group } => Some(group),
    }
}

fn partitions_of(topics: &[ConsumerProtocolTopicPartitions]) -> impl Iterator<Item = TopicPartition> {
    topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition::new(&topic.topic, *partition))
    })
}

/// Reads the members' bytes. A partition that one member is given twice is kept once: that is no matter of two owners.
fn read(fact: &GenerationFact) -> Generation {
    let member = |member: &sillon_broker::group::facts::MemberFact| {
        let subscription =
            decode_consumer_protocol::<ConsumerProtocolSubscription>(&member.metadata).unwrap_or_default();
        let assignment =
            decode_consumer_protocol::<ConsumerProtocolAssignment>(&member.assignment).unwrap_or_default();
        Member {
            instance: member.instance.clone(),
            topics: subscription.topics.iter().cloned().collect(),
            owned: partitions_of(&subscription.owned_partitions).collect(),
            owned_generation: subscription.generation_id,
            assigned: partitions_of(&assignment.assigned_partitions).collect(),
        }
    };
    Generation {
        number: fact.generation,
        protocol: fact.protocol.clone(),
        members: fact.members.iter().map(|one| (one.member.to_string(), member(one))).collect(),
    }
}
