//! `pause`: the process stands still (a stopped virtual machine, a long page fault), then goes on as if nothing had been.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "pause",
    summary: "The process stands still, then goes on as if nothing had been.",
    parameters: &[(Parameter::Duration, "100ms..10s", "how long it stands still")],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl Pause {
    pub(super) fn steps(&self) -> Steps {
        vec![(0, Step::Pause), (self.duration_ns, Step::Resume)]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    vec![(0, Fault::Pause(Pause { duration_ns: draws.within(ranges.duration_ns) }))]
}
