//! `bit-rot`: bits of a log file that rest on the disk change by themselves.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "bit-rot",
    summary: "Bits of a log file change on the disk by themselves.",
    parameters: &[(Parameter::Operations, "1..4", "how many bits change")],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitRot {
    /// How many bits change.
    pub bits: u64,
    /// Decides which, together with what is on the disk.
    pub pick: u64,
}

impl BitRot {
    pub(super) fn steps(&self) -> Steps {
        vec![(0, Step::FlipBits { bits: self.bits, pick: self.pick })]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    let bits = draws.within(ranges.operations);
    vec![(0, Fault::BitRot(BitRot { bits, pick: draws.bits() }))]
}
