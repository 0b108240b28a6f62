//! `sync-failure`: syncs fail with EIO, and the pages count as clean although they are not on the disk, as Linux has it: a
//! later sync that succeeds says nothing about them.

use super::{DiskChange, Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "sync-failure",
    summary: "Syncs fail with EIO, and a later sync does not write what they should have written.",
    parameters: &[
        (Parameter::Duration, "200ms..3s", "how long syncs fail"),
        (Parameter::PartsPerMillion, "200000..1000000", "how many of a million syncs fail"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFailure {
    /// How many of the operations are hit.
    pub parts_per_million: u32,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl SyncFailure {
    pub(super) fn steps(&self) -> Steps {
        vec![
            (0, Step::Disk(DiskChange::SyncErrors(self.parts_per_million))),
            (self.duration_ns, Step::Disk(DiskChange::SyncErrors(0))),
        ]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let parts_per_million = draws.within_signed(ranges.parts_per_million).unsigned_abs() as u32;
    vec![(
        0,
        Fault::SyncFailure(SyncFailure { parts_per_million, duration_ns: draws.within(ranges.duration_ns) }),
    )]
}
