//! `write-error`: writes fail with EIO, or take only a part of what they were given.

use super::{DiskChange, Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "write-error",
    summary: "Writes fail with EIO or fall short.",
    parameters: &[
        (Parameter::Duration, "200ms..3s", "how long writes fail"),
        (Parameter::PartsPerMillion, "100000..1000000", "how many of a million writes fail"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteError {
    /// How many of the operations are hit.
    pub parts_per_million: u32,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl WriteError {
    pub(super) fn steps(&self) -> Steps {
        vec![
            (0, Step::Disk(DiskChange::WriteErrors(self.parts_per_million))),
            (self.duration_ns, Step::Disk(DiskChange::WriteErrors(0))),
        ]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let parts_per_million = draws.within_signed(ranges.parts_per_million).unsigned_abs() as u32;
    vec![(
        0,
        Fault::WriteError(WriteError { parts_per_million, duration_ns: draws.within(ranges.duration_ns) }),
    )]
}
