//! Partitions between halves: who is on which side, and which ways are cut. Owns that choice; the network carries it out.

use crate::{
    faults::{Direction, Draws, Machines, Shape, Target},
    world::NodeId,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Near,
    Far,
    Both,
}

/// The ways (from, to) that a split of all machines blocks. `pivot` is the machine that the fault strikes.
pub(super) fn blocked_ways(
    nodes: &[NodeId],
    machines: Machines,
    pivot: u32,
    (shape, pick): (Shape, u64),
    direction: Direction,
) -> Vec<(NodeId, NodeId)> {
    let sides = match group(machines, shape) {
        Some(far) => cut_off(nodes, far, pivot),
        None => sides(nodes, machines, pivot, (shape, pick)),
    };
    let on =
        |side: Side| nodes.iter().zip(&sides).filter(move |(_, own)| **own == side).map(|(node, _)| *node);
    let mut ways = Vec::new();
    for near in on(Side::Near) {
        for far in on(Side::Far) {
            if direction != Direction::Out {
                ways.push((far, near));
            }
            if direction != Direction::In {
                ways.push((near, far));
            }
        }
    }
    ways
}

/// The machines that a shape cuts one machine off from, where it is a matter of what they are.
fn group(machines: Machines, shape: Shape) -> Option<std::ops::Range<u32>> {
    match shape {
        Shape::FromBrokers => Some(machines.of(Target::Brokers)),
        Shape::FromMembers => Some(machines.of(Target::Members)),
        Shape::Isolate | Shape::Halves | Shape::Bridge => None,
    }
}

/// One machine against others; nobody else notices.
fn cut_off(nodes: &[NodeId], far: std::ops::Range<u32>, pivot: u32) -> Vec<Side> {
    let side = |node: &NodeId| match node.0 {
        own if own == pivot => Side::Near,
        server if far.contains(&server) => Side::Far,
        _ => Side::Both,
    };
    nodes.iter().map(side).collect()
}

fn sides(nodes: &[NodeId], machines: Machines, pivot: u32, (shape, pick): (Shape, u64)) -> Vec<Side> {
    let mut draws = Draws::new(pick, "halves");
    let mut others: Vec<u32> = (0..machines.count()).filter(|server| *server != pivot).collect();
    for place in (1..others.len()).rev() {
        others.swap(place, draws.below(place as u64 + 1) as usize);
    }
    // As even as it can be. Where it cannot, the larger part is on one side as often as on the other.
    let odd = draws.below(2) as usize;
    let beside_pivot = match shape {
        Shape::Isolate => 0,
        Shape::Halves => ((others.len() + 1 + odd) / 2).saturating_sub(1),
        Shape::Bridge => (others.len() + odd) / 2,
        Shape::FromBrokers | Shape::FromMembers => 0,
    };
    let near = &others[..beside_pivot.min(others.len())];
    let side = |node: &NodeId| match node.0 {
        own if own == pivot && shape == Shape::Bridge => Side::Both,
        own if own == pivot || near.contains(&own) => Side::Near,
        server if server < machines.count() => Side::Far,
        // A client: half of them see both sides, and may notice two that do not agree.
        _ => [Side::Near, Side::Far, Side::Both, Side::Both][draws.below(4) as usize],
    };
    nodes.iter().map(side).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Machines = Machines { brokers: 0, members: 5 };

    fn nodes() -> Vec<NodeId> {
        (0..9).map(NodeId).collect()
    }

    #[test]
    fn halves_leave_two_or_three_of_five_with_the_machine() {
        let mut sizes = std::collections::BTreeSet::new();
        for pick in 0..50 {
            let sides = sides(&nodes(), FIVE, 2, (Shape::Halves, pick));
            assert_eq!(sides[2], Side::Near);
            assert!(sides[..5].iter().all(|side| *side != Side::Both), "every server is on one side");
            sizes.insert(sides[..5].iter().filter(|side| **side == Side::Near).count());
        }
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn a_bridge_reaches_both_halves_and_nobody_else_does() {
        for pick in 0..20 {
            let sides = sides(&nodes(), FIVE, 0, (Shape::Bridge, pick));
            assert_eq!(sides[0], Side::Both);
            assert_eq!(sides[1..5].iter().filter(|side| **side == Side::Near).count(), 2);
            let blocked = blocked_ways(&nodes(), FIVE, 0, (Shape::Bridge, pick), Direction::Both);
            assert!(!blocked.iter().any(|(from, to)| from.0 == 0 || to.0 == 0));
            assert!(blocked.iter().all(|(from, to)| blocked.contains(&(*to, *from))));
        }
    }

    #[test]
    fn one_way_blocks_one_way() {
        let blocked = blocked_ways(&nodes(), FIVE, 1, (Shape::Halves, 3), Direction::In);
        assert!(!blocked.is_empty());
        assert!(blocked.iter().any(|(_, to)| to.0 == 1) && !blocked.iter().any(|(from, _)| from.0 == 1));
    }

    #[test]
    fn a_broker_cut_off_from_the_brokers_still_reaches_the_ensemble_and_the_clients() {
        let cluster = Machines { brokers: 3, members: 3 };
        let blocked = |shape| blocked_ways(&nodes(), cluster, 1, (shape, 0), Direction::Both);
        let reached = |shape| {
            let mut others: Vec<u32> = blocked(shape).iter().map(|(from, to)| from.0.max(to.0)).collect();
            others.extend(blocked(shape).iter().map(|(from, to)| from.0.min(to.0)));
            others.sort_unstable();
            others.dedup();
            others
        };
        assert_eq!(reached(Shape::FromBrokers), [0, 1, 2]);
        assert_eq!(reached(Shape::FromMembers), [1, 3, 4, 5]);
        let one_way = blocked_ways(&nodes(), cluster, 1, (Shape::FromMembers, 0), Direction::Out);
        assert!(one_way.iter().all(|(from, _)| from.0 == 1));
    }
}
