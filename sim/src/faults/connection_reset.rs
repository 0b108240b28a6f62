//! `connection-reset`: connections of the machine are cut with a reset while they carry data; what was under way is lost.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "connection-reset",
    summary: "Connections of the machine are reset while they carry data.",
    parameters: &[
        (Parameter::Duration, "50ms..2s", "how long it may happen"),
        (Parameter::PartsPerMillion, "50000..500000", "how many of a million segments meet a reset"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionReset {
    /// How many of the operations are hit.
    pub parts_per_million: u32,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl ConnectionReset {
    pub(super) fn steps(&self) -> Steps {
        let reset = |parts_per_million| Step::ResetConnections { parts_per_million };
        vec![(0, reset(self.parts_per_million)), (self.duration_ns, reset(0))]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let parts_per_million = draws.within_signed(ranges.parts_per_million).unsigned_abs() as u32;
    let duration_ns = draws.within(ranges.duration_ns);
    vec![(0, Fault::ConnectionReset(ConnectionReset { parts_per_million, duration_ns }))]
}
