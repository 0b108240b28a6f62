//! `misdirected-write`: a page lands in the wrong place of its file. Nobody notices until the cache is gone.

use super::{DiskChange, Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "misdirected-write",
    summary: "A synced page lands in the wrong place of its file; it shows after the next power loss.",
    parameters: &[
        (Parameter::Duration, "200ms..3s", "how long it may happen"),
        (Parameter::PartsPerMillion, "100000..1000000", "how many of a million syncs misplace a page"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MisdirectedWrite {
    /// How many of the operations are hit.
    pub parts_per_million: u32,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl MisdirectedWrite {
    pub(super) fn steps(&self) -> Steps {
        vec![
            (0, Step::Disk(DiskChange::MisdirectedWrites(self.parts_per_million))),
            (self.duration_ns, Step::Disk(DiskChange::MisdirectedWrites(0))),
        ]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let parts_per_million = draws.within_signed(ranges.parts_per_million).unsigned_abs() as u32;
    vec![(
        0,
        Fault::MisdirectedWrite(MisdirectedWrite {
            parts_per_million,
            duration_ns: draws.within(ranges.duration_ns),
        }),
    )]
}
