//! `clock-drift`: both clocks of the machine run too fast or too slow for a while.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "clock-drift",
    summary: "The machine's clocks run too fast or too slow.",
    parameters: &[
        (Parameter::Duration, "5s..30s", "how long"),
        (Parameter::PartsPerMillion, "-50000..50000", "how much too fast, in parts per million"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockDrift {
    /// How much too fast (negative: too slow).
    pub parts_per_million: i64,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl ClockDrift {
    pub(super) fn steps(&self) -> Steps {
        let drift = |parts_per_million| Step::Drift { parts_per_million };
        vec![(0, drift(self.parts_per_million)), (self.duration_ns, drift(0))]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let parts_per_million = draws.within_signed(ranges.parts_per_million);
    vec![(
        0,
        Fault::ClockDrift(ClockDrift { parts_per_million, duration_ns: draws.within(ranges.duration_ns) }),
    )]
}
