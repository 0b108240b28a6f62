//! I77: the commits for a partition come from one member at a time.

use super::Group;
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_broker::types::TopicPartition;

/// Who committed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    member: String,
    generation: i32,
}

/// A coordinator has taken over a group in a generation: later ones, which never formed, come again with other members.
pub(super) fn on_found(known: &mut Group, generation: i32) {
    for owner in known.owners.values_mut() {
        owner.generation = owner.generation.min(generation);
    }
}

/// An offset was committed.
pub(super) fn on_committed(
    judge: &mut Judge,
    known: &mut Group,
    (group, partition): (&str, &TopicPartition),
    (member, generation): (&str, i32),
) {
    if generation < 0 {
        return;
    }
    let name = known.current.as_ref().map_or(member, |current| current.name(member)).to_owned();
    let now = Owner { member: name.clone(), generation };
    let Some(before) = known.owners.insert(partition.clone(), now) else { return };
    let holds = if before.member == name {
        generation >= before.generation
    } else {
        // The one before may still commit in the generation in which it gives the partition back.
        generation > before.generation
    };
    judge.demand(Invariant::I77, holds, || {
        format!(
            "{group}: {partition} was committed by {} in generation {}, and then by {name} in {generation}",
            before.member, before.generation
        )
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Told, member};
    use crate::oracle::Invariant;

    #[test]
    fn a_generation_that_never_formed_comes_again() {
        let mut told = Told::new();
        told.formed("g", 4, "range", &[member("a", &[], &[0])]);
        told.rebalancing("g", 5);
        told.committed("g", "a", 5, 0, 5);
        told.found("g", 4, &[member("a", &[], &[0])]);
        told.formed("g", 5, "range", &[member("b", &[], &[0])]);
        told.committed("g", "b", 5, 0, 6);
        told.assert_legal(&[Invariant::I77]);
    }

    #[test]
    fn one_after_the_other() {
        let mut told = Told::new();
        let both = [member("a", &[], &[0]), member("b", &[], &[1])];
        told.formed("g", 1, "range", &both);
        told.committed("g", "a", 1, 0, 5);
        told.formed("g", 2, "range", &both);
        told.committed("g", "b", 2, 0, 6);
        told.assert_legal(&[Invariant::I77]);
        told.committed("g", "a", 2, 0, 7);
        told.assert_violated(Invariant::I77);
    }
}
