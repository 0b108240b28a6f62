//! I56, I57 and I59: who is no member of the current generation changes nothing, generations only rise, and a name is one
//! member's.

use super::{Generation, Group};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_broker::types::TopicPartition;
use std::collections::BTreeSet;

/// A coordinator has found a group in its log. One that was written may be found although nobody was told of it.
pub(super) fn on_found(judge: &mut Judge, known: &Group, group: &str, generation: i32, promised: bool) {
    if promised {
        judge.demand(Invariant::I57, generation >= known.highest, || {
            format!("{group} was in generation {}, the next coordinator finds {generation}", known.highest)
        });
    }
}

/// A generation was formed, or the group is empty from one on.
pub(super) fn on_generation(judge: &mut Judge, known: &Group, group: &str, generation: i32) {
    judge.demand(Invariant::I57, generation > known.highest, || {
        format!("{group} was in generation {}, now {generation} is formed", known.highest)
    });
}

/// The members of a generation.
pub(super) fn on_members(judge: &mut Judge, group: &str, generation: &Generation) {
    let named: Vec<&String> =
        generation.members.values().filter_map(|member| member.instance.as_ref()).collect();
    if named.is_empty() {
        return;
    }
    let different: BTreeSet<&String> = named.iter().copied().collect();
    judge.demand(Invariant::I59, different.len() == named.len(), || {
        format!("{group}: generation {} has two members of one name: {named:?}", generation.number)
    });
}

/// An offset was committed.
pub(super) fn on_committed(
    judge: &mut Judge,
    known: &Group,
    (group, partition): (&str, &TopicPartition),
    (member, generation): (&str, i32),
) {
    if generation < 0 {
        return;
    }
    let is_current = known
        .current
        .as_ref()
        .is_some_and(|current| current.number == generation && current.members.contains_key(member));
    // One that has ended before its assignment came was nevertheless the members' newest.
    let is_newest = generation > known.highest && generation <= known.ended;
    judge.demand(Invariant::I56, is_current || is_newest, || {
        let current = known.current.as_ref().map(|current| current.number);
        format!(
            "{group}: {member} of generation {generation} commits {partition}; the group is in {current:?}, the highest was {}",
            known.highest
        )
    });
}

/// A member gives up what it had. What an earlier generation was told is no reason (B54).
pub(super) fn on_lost(
    judge: &mut Judge,
    known: &Group,
    group: &str,
    (member, generation): &(String, i32),
    was_slow: bool,
) {
    let is_member = known
        .current
        .as_ref()
        .is_some_and(|current| current.number == *generation && current.members.contains_key(member));
    let has_reason =
        was_slow || known.taken_over || known.rebalancing_since_ns.is_some() || known.gone.contains(member);
    judge.demand(Invariant::I56, !is_member || has_reason, || {
        format!("{group}: {member} gives up what it has, although it is a member of generation {generation}, the present one")
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Told, member};
    use crate::oracle::Invariant;

    #[test]
    fn commits_of_the_current_generation_count() {
        let mut told = Told::new();
        told.formed("g", 1, "range", &[member("a", &[], &[0])]);
        told.committed("g", "a", 1, 0, 5);
        told.assert_legal(&[Invariant::I56]);
        told.formed("g", 2, "range", &[member("b", &[], &[0])]);
        told.committed("g", "a", 1, 0, 6);
        told.assert_violated(Invariant::I56);
    }

    #[test]
    fn a_member_stays_until_it_is_given_up() {
        let mut told = Told::new();
        told.formed("g", 1, "range", &[member("a", &[], &[0])]);
        told.formed("g", 2, "range", &[member("a", &[], &[0])]);
        told.lost("g", "a", 1);
        told.assert_legal(&[Invariant::I56]);
        told.lost("g", "a", 2);
        told.assert_violated(Invariant::I56);
    }

    #[test]
    fn generations_rise_over_a_failover() {
        let mut told = Told::new();
        told.formed("g", 3, "range", &[member("a", &[], &[0])]);
        told.found("g", 3, &[member("a", &[], &[0])]);
        told.assert_legal(&[Invariant::I57]);
        told.found("g", 2, &[member("a", &[], &[0])]);
        told.assert_violated(Invariant::I57);
    }
}
