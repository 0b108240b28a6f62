//! `partition`: the machine and all others cannot reach each other, in one direction or both. Nobody is told: what is sent
//! is lost, and sent again later.

use super::{Direction, Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "partition",
    summary: "The network between the machine and all others is cut, both ways or one way.",
    parameters: &[
        (Parameter::Duration, "500ms..15s", "until it heals"),
        (Parameter::Direction, "any", "both, in or out; any where not given"),
    ],
    draw,
    consists_of: &[],
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Which way is blocked.
    pub direction: Direction,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl Partition {
    pub(super) fn steps(&self) -> Steps {
        vec![(0, Step::Cut(self.direction)), (self.duration_ns, Step::Mend)]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let any = *draws.choose(&[Direction::Both, Direction::In, Direction::Out]);
    let direction = ranges.direction.unwrap_or(any);
    vec![(0, Fault::Partition(Partition { direction, duration_ns: draws.within(ranges.duration_ns) }))]
}
