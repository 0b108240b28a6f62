//! `slow-disk`: each operation of the disk takes long.

use super::{DiskChange, Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "slow-disk",
    summary: "Every operation of the disk takes long.",
    parameters: &[
        (Parameter::Duration, "1s..15s", "how long the disk is slow"),
        (Parameter::Latency, "20ms..1s", "added to each operation"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowDisk {
    /// Added to each operation, in nanoseconds.
    pub latency_ns: u64,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl SlowDisk {
    pub(super) fn steps(&self) -> Steps {
        let slow = |latency_ns| Step::Disk(DiskChange::AddedLatency { latency_ns, reads: true });
        vec![(0, slow(self.latency_ns)), (self.duration_ns, slow(0))]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let latency_ns = draws.within(ranges.latency_ns);
    vec![(0, Fault::SlowDisk(SlowDisk { latency_ns, duration_ns: draws.within(ranges.duration_ns) }))]
}
