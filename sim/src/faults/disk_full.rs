//! `disk-full`: somebody else fills the disk; writes fail with ENOSPC, some after a part, until there is room again.

use super::{DiskChange, Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "disk-full",
    summary: "The disk has no room: writes fail with ENOSPC, some after a part.",
    parameters: &[
        (Parameter::Duration, "500ms..10s", "until there is room again"),
        (Parameter::FreeBytes, "0..65536", "bytes still free"),
    ],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFull {
    /// Room left, in bytes.
    pub free_bytes: u64,
    /// How long it lasts, in nanoseconds.
    pub duration_ns: u64,
}

impl DiskFull {
    pub(super) fn steps(&self) -> Steps {
        vec![
            (0, Step::Disk(DiskChange::FreeBytes(Some(self.free_bytes)))),
            (self.duration_ns, Step::Disk(DiskChange::FreeBytes(None))),
        ]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let free_bytes = draws.within(ranges.free_bytes);
    vec![(0, Fault::DiskFull(DiskFull { free_bytes, duration_ns: draws.within(ranges.duration_ns) }))]
}
