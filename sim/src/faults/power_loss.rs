//! `power-loss`: the machine loses power. Of what was not synced, each page is kept, lost or torn, as the world's tape
//! decides; the other ends of its connections hear nothing.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "power-loss",
    summary: "The machine loses power: unsynced pages and names are lost, torn or kept; connections hang.",
    parameters: &[(Parameter::Duration, "500ms..8s", "until the machine and the process are up again")],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerLoss {
    /// Until the process is started again, in nanoseconds.
    pub down_ns: u64,
}

impl PowerLoss {
    pub(super) fn steps(&self) -> Steps {
        vec![(0, Step::PowerFail), (self.down_ns, Step::Start)]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    vec![(0, Fault::PowerLoss(PowerLoss { down_ns: draws.within(ranges.duration_ns) }))]
}
