//! `crash`: the process dies at once (kill -9). The machine lives on: what was written stays in its page cache, its
//! operating system answers connections with a reset.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "crash",
    summary: "The process dies at once; the machine, its disk and its page cache live on.",
    parameters: &[(Parameter::Duration, "200ms..5s", "until the process is started again")],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// Until the process is started again, in nanoseconds.
    pub down_ns: u64,
}

impl Crash {
    pub(super) fn steps(&self) -> Steps {
        vec![(0, Step::Kill), (self.down_ns, Step::Start)]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    vec![(0, Fault::Crash(Crash { down_ns: draws.within(ranges.duration_ns) }))]
}
