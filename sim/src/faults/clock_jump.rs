//! `clock-jump`: the wall clock steps, as after a bad NTP answer. The monotonic clock does not.

use super::{Draws, Fault, KindEntry, Parameter, Ranges, Step, Steps};
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: KindEntry = KindEntry {
    name: "clock-jump",
    summary: "The wall clock steps forward or back; the monotonic clock does not.",
    parameters: &[(Parameter::By, "-10min..10min", "how far, forward or back")],
    draw,
    consists_of: &[],
    goes_round: false,
};

/// The explicit parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockJump {
    /// How far the wall clock steps, in nanoseconds.
    pub by_ns: i64,
}

impl ClockJump {
    pub(super) fn steps(&self) -> Steps {
        vec![(0, Step::JumpWallClock { by_ns: self.by_ns })]
    }
}

fn draw(ranges: &Ranges, draws: &mut Draws) -> Vec<(u64, Fault)> {
    vec![(0, Fault::ClockJump(ClockJump { by_ns: draws.within_signed(ranges.by_ns) }))]
}
