//! The rules for one partition: who stays in sync, who is eligible, who leads (KIP-966, KIP-455).
//!
//! ```text
//!   state + who is registered + rules ──► settled state; the same state where nothing is to be done
//! ```
//! Pure; never counts epochs of the state's node.

use super::settings::Rules;
use crate::{
    metadata::{BrokerImage, PartitionImage},
    types::{BrokerId, LeaderEpoch},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many partitions each broker leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leads(BTreeMap<BrokerId, usize>);

impl Leads {
    /// How many that broker leads.
    pub fn count(&self, broker: BrokerId) -> usize {
        self.0.get(&broker).copied().unwrap_or(0)
    }

    /// A partition has another leader.
    pub fn change(&mut self, before: Option<BrokerId>, after: Option<BrokerId>) {
        if let Some(before) = before {
            let count = self.0.get_mut(&before).expect("a leader was counted");
            *count -= 1;
            if *count == 0 {
                self.0.remove(&before);
            }
        }
        if let Some(after) = after {
            *self.0.entry(after).or_default() += 1;
        }
    }
}

/// On whom a partition may count.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// The registered brokers.
    pub brokers: BTreeMap<BrokerId, Arc<BrokerImage>>,
    /// Brokers whose registration ended: what they led under it, they lead no more, even if they registered again.
    pub ended: BTreeSet<BrokerId>,
    /// Brokers that may have lost records: they are neither in sync nor eligible any more.
    pub unclean: BTreeSet<BrokerId>,
}

impl Standing {
    fn is_registered(&self, broker: BrokerId) -> bool {
        self.brokers.contains_key(&broker)
    }

    /// Whether a broker is there, and means to stay.
    pub fn may_lead(&self, broker: BrokerId) -> bool {
        self.brokers.get(&broker).is_some_and(|broker| !broker.shutting_down)
    }
}

/// Why somebody may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    InSync,
    Eligible,
    /// Nothing proves that it holds all that was committed.
    Unproven,
}

/// Whether there is plainly nothing to settle. Most partitions are in order, and that is seen without the rules.
pub(super) fn is_in_order(state: &PartitionImage, standing: &Standing) -> bool {
    state.leader.is_some_and(|leader| !standing.ended.contains(&leader))
        && state.isr.iter().all(|member| standing.may_lead(*member) && !standing.unclean.contains(member))
        && state.eligible_leader_replicas.is_empty()
        && !state.is_reassigning()
}

/// The state as it should be: without members that are gone, with a leader where there can be one, and without a
/// reassignment that has reached its aim.
pub(super) fn settle(
    before: &PartitionImage,
    standing: &Standing,
    rules: Rules,
    leads: &Leads,
) -> PartitionImage {
    let mut after = before.clone();
    after.isr.retain(|member| standing.is_registered(*member) && !standing.unclean.contains(member));
    if after.isr.iter().any(|member| standing.may_lead(*member)) {
        after.isr.retain(|member| standing.may_lead(*member));
    }
    after.eligible_leader_replicas = eligible(before, &after, &standing.unclean, rules);
    doubt(&mut after, before, &standing.unclean);
    let stays = |leader: &BrokerId| after.isr.contains(leader) && !standing.ended.contains(leader);
    if !before.leader.as_ref().is_some_and(stays) {
        match elect(&after, standing, rules, leads) {
            Some((leader, manner)) => {
                install(&mut after, before, leader, manner, rules);
                if manner != Manner::Unproven {
                    let kept = eligible(before, &after, &standing.unclean, rules);
                    after.eligible_leader_replicas = kept;
                }
            }
            None => {
                let last = before.leader.or(before.last_known_leader);
                after.last_known_leader = last.filter(|last| after.replicas.contains(last));
                after.leader = None;
                if before.leader.is_some() {
                    after.leader_epoch = next_epoch(before);
                }
            }
        }
    }
    complete(before, after, standing, rules, leads)
}

/// The state with that leader, which is in sync.
pub(super) fn led_by(before: &PartitionImage, leader: BrokerId) -> PartitionImage {
    assert!(before.isr.contains(&leader), "only who is in sync is given leadership");
    PartitionImage {
        leader: Some(leader),
        leader_epoch: next_epoch(before),
        last_known_leader: None,
        ..before.clone()
    }
}

/// The state with a leader that somebody asked for by name of an unclean election; none where no replica is there.
pub(super) fn led_by_anybody(
    before: &PartitionImage,
    standing: &Standing,
    rules: Rules,
    leads: &Leads,
) -> Option<PartitionImage> {
    let rules = Rules { unclean_election: true, ..rules };
    let after = settle(before, standing, rules, leads);
    after.leader.is_some().then_some(after)
}

/// The state with other members in sync, proposed by its leader.
pub(super) fn with_in_sync(
    before: &PartitionImage,
    isr: Vec<BrokerId>,
    standing: &Standing,
    rules: Rules,
    leads: &Leads,
) -> PartitionImage {
    let mut after = PartitionImage { isr, ..before.clone() };
    after.eligible_leader_replicas = eligible(before, &after, &BTreeSet::new(), rules);
    forget_proven(&mut after);
    if after.isr.len() >= rules.needed(after.replicas.len()) {
        // The leader lives, and enough are in sync to commit: they alone are asked from here on.
        after.unproven = Vec::new();
    }
    complete(before, after, standing, rules, leads)
}

fn next_epoch(before: &PartitionImage) -> LeaderEpoch {
    LeaderEpoch(before.leader_epoch.0.checked_add(1).expect("a partition never sees 2^31 leaders"))
}

/// Who is not in sync but holds all that was committed: those who left the in-sync replicas since these became fewer
/// than are needed, for nothing was committed since. Nobody as soon as enough are in sync.
pub(super) fn eligible(
    before: &PartitionImage,
    after: &PartitionImage,
    unclean: &BTreeSet<BrokerId>,
    rules: Rules,
) -> Vec<BrokerId> {
    if after.isr.len() >= rules.needed(after.replicas.len()) {
        return Vec::new();
    }
    let mut eligible: Vec<BrokerId> = Vec::new();
    for member in before.eligible_leader_replicas.iter().chain(&before.isr) {
        let holds =
            after.replicas.contains(member) && !after.isr.contains(member) && !unclean.contains(member);
        if holds && !eligible.contains(member) {
            eligible.push(*member);
        }
    }
    eligible
}

/// Who was counted on and is no more, because it may have lost records, is unproven.
fn doubt(after: &mut PartitionImage, before: &PartitionImage, unclean: &BTreeSet<BrokerId>) {
    for member in before.eligible_leader_replicas.iter().chain(&before.isr) {
        if unclean.contains(member) && !after.unproven.contains(member) {
            after.unproven.push(*member);
        }
    }
    forget_proven(after);
}

/// Who is counted on, or is no replica any more, is not unproven.
pub(super) fn forget_proven(state: &mut PartitionImage) {
    let (replicas, isr, eligible) = (&state.replicas, &state.isr, &state.eligible_leader_replicas);
    state
        .unproven
        .retain(|member| replicas.contains(member) && !isr.contains(member) && !eligible.contains(member));
}

/// Whether nobody is counted on any more.
fn nobody_is_proven(state: &PartitionImage) -> bool {
    state.isr.is_empty() && state.eligible_leader_replicas.is_empty()
}

/// Whether the logs of the unproven replicas are to be compared: nobody else can lead, and all of them are there.
pub(super) fn is_to_be_compared(state: &PartitionImage, standing: &Standing) -> bool {
    state.leader.is_none()
        && nobody_is_proven(state)
        && state.unproven.len() > 1
        && state.unproven.iter().all(|member| standing.may_lead(*member))
}

/// The state with that leader, whose log is the most complete one of those that are unproven.
pub(super) fn led_by_most_complete(
    before: &PartitionImage,
    leader: BrokerId,
    standing: &Standing,
    rules: Rules,
    leads: &Leads,
) -> PartitionImage {
    assert!(is_to_be_compared(before, standing), "logs are compared where nothing else decides: {before:?}");
    assert!(before.unproven.contains(&leader), "one of those that were compared leads");
    let mut after = before.clone();
    install(&mut after, before, leader, Manner::Unproven, rules);
    complete(before, after, standing, rules, leads)
}

fn elect(
    state: &PartitionImage,
    standing: &Standing,
    rules: Rules,
    leads: &Leads,
) -> Option<(BrokerId, Manner)> {
    if let Some(leader) = among(state, &state.isr, standing, leads) {
        return Some((leader, Manner::InSync));
    }
    if let Some(leader) = among(state, &state.eligible_leader_replicas, standing, leads) {
        return Some((leader, Manner::Eligible));
    }
    let last = match &state.unproven[..] {
        // Another writer's state says no more than who led.
        [] => state.leader.or(state.last_known_leader),
        [only] => Some(*only),
        // The logs decide, when all of them are there.
        [_, _, ..] => None,
    };
    let last = last
        .filter(|last| nobody_is_proven(state) && state.replicas.contains(last) && standing.may_lead(*last));
    let unclean = || {
        let there = state.unproven.iter().copied().chain(state.target_replicas());
        let mut there = there.chain(state.removing.iter().copied());
        there.find(|replica| rules.unclean_election && standing.may_lead(*replica))
    };
    last.or_else(unclean).map(|leader| (leader, Manner::Unproven))
}

/// The preferred replica where it is one of `members`, else the member that leads least; replicas that stay go first.
fn among(
    state: &PartitionImage,
    members: &[BrokerId],
    standing: &Standing,
    leads: &Leads,
) -> Option<BrokerId> {
    let can = |replica: &BrokerId| members.contains(replica) && standing.may_lead(*replica);
    if let Some(preferred) = state.target_replicas().next().filter(can) {
        return Some(preferred);
    }
    let least = |replicas: &mut dyn Iterator<Item = BrokerId>| {
        replicas.filter(can).min_by_key(|replica| leads.count(*replica))
    };
    least(&mut state.target_replicas()).or_else(|| least(&mut state.replicas.iter().copied()))
}

fn install(
    after: &mut PartitionImage,
    before: &PartitionImage,
    leader: BrokerId,
    manner: Manner,
    rules: Rules,
) {
    after.leader = Some(leader);
    after.leader_epoch = next_epoch(before);
    after.last_known_leader = None;
    if manner != Manner::InSync {
        after.isr = vec![leader];
    }
    if manner == Manner::Unproven {
        // Records that others hold and this one does not are given up: nobody else may claim to hold all.
        after.eligible_leader_replicas = Vec::new();
        after.unproven = Vec::new();
    }
    forget_proven(after);
    assert!(rules.min_insync_replicas > 0, "at least the leader is in sync");
}

/// Ends the reassignment where enough of the replicas that stay are in sync, and one of them can lead.
fn complete(
    before: &PartitionImage,
    after: PartitionImage,
    standing: &Standing,
    rules: Rules,
    leads: &Leads,
) -> PartitionImage {
    if !after.is_reassigning() || after.leader.is_none() {
        return after;
    }
    let target: Vec<BrokerId> = after.target_replicas().collect();
    let isr: Vec<BrokerId> = after.isr.iter().copied().filter(|member| target.contains(member)).collect();
    // As many as are needed hold what was committed: records are as safe after it as before.
    let enough = isr.len() >= rules.needed(target.len()).max(1);
    if !enough || after.adding.iter().any(|added| !isr.contains(added)) {
        return after;
    }
    let leader = match after.leader.filter(|leader| target.contains(leader)) {
        Some(leader) => Some(leader),
        None => among(&after, &isr, standing, leads),
    };
    let Some(leader) = leader else { return after };
    let mut done = PartitionImage {
        leader: Some(leader),
        leader_epoch: next_epoch(before),
        replicas: target,
        adding: Vec::new(),
        removing: Vec::new(),
        isr,
        ..after.clone()
    };
    done.eligible_leader_replicas = eligible(&after, &done, &BTreeSet::new(), rules);
    forget_proven(&mut done);
    done
}
