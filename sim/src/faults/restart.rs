//! `restart`: the process is asked to stop as an operator would (SIGTERM), and is started again. Where it has not stopped
//! by then it is killed first, as a service manager does.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "restart",
    summary: "A controlled stop (SIGTERM) and a start: the clean-shutdown marker is written.",
    parameters: &[(Parameter::Duration, "200ms..5s", "from the request to stop until the next start")],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Until the process is started again, in nanoseconds.
    pub down_ns: u64,
}

impl Restart {
    pub(super) fn steps(&self) -> Steps {
        vec![(0, Step::Stop), (self.down_ns, Step::Start)]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    vec![(0, Fault::Restart(Restart { down_ns: draws.within(ranges.duration_ns) }))]
}
