//! `rolling-restart`: an upgrade: one machine after the other is stopped as an operator would and started again.
//!
//! It is planned as single restarts, so that each can be left out on its own.

use super::{Draws, Fault, FaultKind, KindEntry, Parameter, Ranges, restart::Restart};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "rolling-restart",
    summary: "One machine after the other has a controlled stop and a start, as in an upgrade.",
    parameters: &[
        (Parameter::Duration, "200ms..3s", "from the request to stop until the next start"),
        (Parameter::Latency, "200ms..4s", "from that start until the next machine is stopped"),
    ],
    draw,
    consists_of: &[FaultKind::Restart],
    goes_round: true,
};

/// As many as any scenario has machines: the plan takes those that it needs.
const MACHINES_MAX: usize = 16;

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let mut after_ns = 0;
    let mut strike = Vec::new();
    for _ in 0..MACHINES_MAX {
        let down_ns = draws.within(ranges.duration_ns);
        strike.push((after_ns, Fault::Restart(Restart { down_ns })));
        after_ns += down_ns + draws.within(ranges.latency_ns);
    }
    strike
}
