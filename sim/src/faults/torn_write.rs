//! `torn-write`: the disk becomes so slow that writes and syncs are under way at any moment, and then power is lost: what
//! was half done stays half done.

use super::{DiskChange, Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "torn-write",
    summary: "Power is lost in the middle of a write or sync: some pages of it are on the disk, others are not.",
    parameters: &[
        (Parameter::Duration, "500ms..8s", "until the machine and the process are up again"),
        (Parameter::Latency, "5ms..200ms", "how long operations take when the power goes"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornWrite {
    /// For how long the disk is slow before the power goes, in nanoseconds.
    pub slow_ns: u64,
    /// Until the process is started again, in nanoseconds.
    pub down_ns: u64,
}

impl TornWrite {
    pub(super) fn steps(&self) -> Steps {
        let slow = |latency_ns| Step::Disk(DiskChange::AddedLatency { latency_ns, reads: false });
        let off_ns = self.slow_ns + self.slow_ns / 2;
        vec![
            (0, slow(self.slow_ns.max(1))),
            (off_ns, Step::PowerFail),
            (off_ns, slow(0)),
            (off_ns + self.down_ns, Step::Start),
        ]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let slow_ns = draws.within(ranges.latency_ns);
    vec![(0, Fault::TornWrite(TornWrite { slow_ns, down_ns: draws.within(ranges.duration_ns) }))]
}
