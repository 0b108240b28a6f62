//! `partition`: machines cannot reach each other, in one direction or both. Nobody is told: what is sent is lost, and sent
//! again later.

use super::{Direction, Draws, Fault, KindEntry, Parameter, Ranges, Shape, ShapeChoice, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "partition",
    summary: "The network is cut between the machine and all others, or between halves, both ways or one way.",
    parameters: &[
        (Parameter::Duration, "500ms..15s", "until it heals"),
        (Parameter::Direction, "any", "both, in or out; any where not given"),
        (
            Parameter::Shape,
            "isolate",
            "isolate, halves, bridge (the machine reaches both halves), any of these; from-brokers, from-coordinators, or \
             any-in-cluster",
        ),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Which way is blocked.
    pub direction: Direction,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
    /// Where it is not between the machine and all others: its shape, and what decides who is on which side.
    pub shape: Option<(Shape, u64)>,
}

impl Partition {
    pub(super) fn steps(&self) -> Steps {
        let (direction, duration_ns) = (self.direction, self.duration_ns);
        match self.shape {
            None => vec![(0, Step::Cut(direction)), (duration_ns, Step::Mend)],
            Some((shape, pick)) => {
                let split = |cut| Step::Split { shape, pick, direction, cut };
                vec![(0, split(true)), (duration_ns, split(false))]
            }
        }
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let any = *draws.choose(&[Direction::Both, Direction::In, Direction::Out]);
    let direction = ranges.direction.unwrap_or(any);
    let duration_ns = draws.within(ranges.duration_ns);
    // Drawn last and only where it is asked for: what a seed of an older scenario means stays the same.
    let shape = match ranges.shape {
        ShapeChoice::Isolate => Shape::Isolate,
        ShapeChoice::Halves => Shape::Halves,
        ShapeChoice::Bridge => Shape::Bridge,
        ShapeChoice::FromBrokers => Shape::FromBrokers,
        ShapeChoice::FromMembers => Shape::FromMembers,
        ShapeChoice::Any => *draws.choose(&[Shape::Isolate, Shape::Halves, Shape::Bridge]),
        ShapeChoice::AnyInCluster => *draws.choose(&[
            Shape::Isolate,
            Shape::Halves,
            Shape::Bridge,
            Shape::FromBrokers,
            Shape::FromMembers,
        ]),
    };
    let shape = (shape != Shape::Isolate).then(|| (shape, draws.bits()));
    vec![(0, Fault::Partition(Partition { direction, duration_ns, shape }))]
}
