//! What a broker tells of the groups that it coordinates, in the words of the trace. Owns the words.

use crate::world::{NodeId, World};
use sillon_broker::group::facts::GroupFact;

/// Writes a fact of a group into the trace.
pub(super) fn trace(world: &World, node: NodeId, fact: &GroupFact) {
    let add = |kind, group: &str, fields: &[(&'static str, u64)]| {
        world.event_with_detail(node, kind, fields, || group.to_owned());
    };
    let number = |generation: &i32| i64::from(*generation) as u64;
    match fact {
        GroupFact::Loaded { groups, offsets, up_to } => {
            let fields =
                [("groups", *groups as u64), ("offsets", *offsets as u64), ("up_to", up_to.0 as u64)];
            world.event(node, "group/loaded", &fields);
        }
        GroupFact::Unloaded => world.event(node, "group/unloaded", &[]),
        GroupFact::Found { group, generation } => {
            let fields = [
                ("generation", number(&generation.generation)),
                ("members", generation.members.len() as u64),
            ];
            add("group/found", group, &fields);
        }
        GroupFact::FoundEmpty { group, generation, .. } => {
            add("group/found-empty", group, &[("generation", number(generation))]);
        }
        GroupFact::OffsetFound { group, offset, .. } => {
            add("group/offset-found", group, &[("offset", *offset as u64)]);
        }
        GroupFact::MemberJoined { group, member, .. } => add("group/joined", &on(group, member), &[]),
        GroupFact::MemberGone { group, member, reason } => {
            add("group/gone", &on(group, member), &[("reason", *reason as u64)]);
        }
        GroupFact::Rebalancing { group, generation } => {
            add("group/rebalancing", group, &[("generation", number(generation))]);
        }
        GroupFact::GenerationFormed { group, generation } => {
            let fields = [
                ("generation", number(&generation.generation)),
                ("members", generation.members.len() as u64),
            ];
            add("group/formed", group, &fields);
        }
        GroupFact::Emptied { group, generation, .. } => {
            add("group/emptied", group, &[("generation", number(generation))]);
        }
        GroupFact::OffsetCommitted { group, partition, offset, generation, log_offset, .. } => {
            let fields =
                [("offset", *offset as u64), ("generation", number(generation)), ("at", log_offset.0 as u64)];
            add("group/committed", &format!("{group} {partition}"), &fields);
        }
        GroupFact::OffsetRemoved { group, partition, reason } => {
            add("group/offset-removed", &format!("{group} {partition}"), &[("reason", *reason as u64)]);
        }
        GroupFact::GroupRemoved { group } => add("group/removed", group, &[]),
    }
}

/// A member of a group.
fn on(group: &str, member: &str) -> String {
    format!("{group} {member}")
}
