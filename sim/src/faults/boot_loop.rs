//! `boot-loop`: a controlled stop or a crash, and then power is lost again and again while the process is still starting.
//!
//! It is planned as single restarts, crashes and power losses, so that each can be left out on its own.

use super::{
    Draws, Fault, FaultKind, KindEntry, Parameter, Ranges, crash::Crash, power_loss::PowerLoss,
    restart::Restart,
};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "boot-loop",
    summary: "A stop or crash, then power is lost again and again while the process is still starting.",
    parameters: &[
        (Parameter::Duration, "200ms..2s", "how long the machine is down each time"),
        (Parameter::Latency, "100us..20ms", "how far into each start the power goes"),
        (Parameter::Operations, "1..3", "how many starts are cut short"),
    ],
    draw,
    consists_of: &[FaultKind::Restart, FaultKind::Crash, FaultKind::PowerLoss],
    goes_round: false,
};

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let mut down_ns = draws.within(ranges.duration_ns);
    let first = match draws.chance(0.5) {
        true => Fault::Restart(Restart { down_ns }),
        false => Fault::Crash(Crash { down_ns }),
    };
    let mut strike = vec![(0, first)];
    let mut after_ns = 0;
    for _ in 0..draws.within(ranges.operations) {
        after_ns += down_ns + draws.within(ranges.latency_ns);
        down_ns = draws.within(ranges.duration_ns);
        strike.push((after_ns, Fault::PowerLoss(PowerLoss { down_ns })));
    }
    strike
}
