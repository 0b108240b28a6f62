//! Draws the plan of a run: every fault with its time, before anything runs.

use super::{Draws, Fault, FaultKind, FaultRate, ScriptedFault};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One entry of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// When, in nanoseconds from the start of the safety phase.
    pub at_ns: u64,
    /// The machine.
    pub node: u32,
    /// What happens.
    pub fault: Fault,
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>14.6}s  n{}  {}", self.at_ns as f64 / 1e9, self.node, self.fault)
    }
}

/// More strikes than any run needs; a plan is held in memory and written into bundles.
const PLAN_MAX_FAULTS: usize = 100_000;

/// When and where, and the single faults with their times after that.
type Strike = (u64, u32, Vec<(u64, Fault)>);

/// Draws the plan of a seed: strikes of each rate as a Poisson process over the safety phase, and the script's steps.
///
/// A strike that would hit a machine while it is down is left out. Kinds named in `without` do not strike by rate.
pub fn draw_plan(
    seed: u64,
    rates: &[FaultRate],
    script: &[ScriptedFault],
    brokers: u32,
    safety_ns: u64,
    without: &[FaultKind],
) -> Vec<PlannedFault> {
    let mut strikes: Vec<Strike> = Vec::new();
    for rate in rates.iter().filter(|rate| !without.contains(&rate.kind)) {
        // A stream for each kind: leaving one kind out changes nothing about the others.
        let mut draws = Draws::new(seed, rate.kind.name());
        let mean_ns = 60e9 / rate.per_minute;
        let mut at_ns = draws.exponential_ns(mean_ns);
        while at_ns < safety_ns && strikes.len() < PLAN_MAX_FAULTS {
            let node = draws.below(u64::from(brokers)) as u32;
            strikes.push((at_ns, node, (rate.kind.entry().draw)(&rate.ranges, &mut draws)));
            at_ns = at_ns.saturating_add(draws.exponential_ns(mean_ns)).saturating_add(1);
        }
    }
    let mut draws = Draws::new(seed, "script");
    for step in script {
        strikes.push((step.at_ns, step.node, (step.kind.entry().draw)(&step.ranges, &mut draws)));
    }
    // Equal times keep the order in which they were drawn: the sort is stable.
    strikes.sort_by_key(|(at_ns, node, _)| (*at_ns, *node));
    lay_out(strikes, brokers, safety_ns)
}

/// Puts strikes on the time line, leaving out those that would hit a machine that is down.
fn lay_out(strikes: Vec<Strike>, brokers: u32, safety_ns: u64) -> Vec<PlannedFault> {
    let mut up_again_ns = vec![0u64; brokers as usize];
    let mut plan = Vec::new();
    for (at_ns, node, strike) in strikes {
        let up_again = &mut up_again_ns[node as usize];
        if at_ns < *up_again {
            continue;
        }
        for (after_ns, fault) in strike {
            let at_ns = at_ns + after_ns;
            if at_ns >= safety_ns {
                break;
            }
            if let Some(down_until_ns) = fault.down_until_ns() {
                *up_again = (*up_again).max(at_ns + down_until_ns);
            }
            plan.push(PlannedFault { at_ns, node, fault });
        }
    }
    plan.sort_by_key(|planned| (planned.at_ns, planned.node));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Ranges;

    const MINUTE: u64 = 60_000_000_000;

    fn rate(kind: FaultKind, per_minute: f64) -> FaultRate {
        FaultRate { kind, per_minute, ranges: Ranges::defaults(kind) }
    }

    #[test]
    fn the_plan_of_a_seed_is_always_the_same_and_differs_between_seeds() {
        let rates = [rate(FaultKind::Crash, 6.0), rate(FaultKind::ClockJump, 3.0)];
        let plan = |seed| draw_plan(seed, &rates, &[], 1, 10 * MINUTE, &[]);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert!(plan(1).windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        assert!(plan(1).iter().all(|planned| planned.at_ns < 10 * MINUTE && planned.node == 0));
    }

    #[test]
    fn rates_are_kept_on_average() {
        let rates = [rate(FaultKind::ClockJump, 6.0)];
        let strikes: usize =
            (0..50).map(|seed| draw_plan(seed, &rates, &[], 1, 10 * MINUTE, &[]).len()).sum();
        assert!((2700..3300).contains(&strikes), "{strikes} strikes, 3000 expected");
    }

    #[test]
    fn leaving_one_kind_out_changes_nothing_about_the_others() {
        let rates = [rate(FaultKind::Pause, 6.0), rate(FaultKind::ClockJump, 3.0)];
        let all = draw_plan(9, &rates, &[], 1, 10 * MINUTE, &[]);
        let some = draw_plan(9, &rates, &[], 1, 10 * MINUTE, &[FaultKind::Pause]);
        let jumps: Vec<_> =
            all.into_iter().filter(|planned| planned.fault.kind() == FaultKind::ClockJump).collect();
        assert_eq!(some, jumps);
        assert!(!some.is_empty());
    }

    #[test]
    fn nothing_strikes_a_machine_that_is_down() {
        let rates = [rate(FaultKind::Crash, 60.0), rate(FaultKind::PowerLoss, 60.0)];
        for seed in 0..20 {
            let plan = draw_plan(seed, &rates, &[], 1, MINUTE, &[]);
            for pair in plan.windows(2) {
                let down_ns = pair[0].fault.down_until_ns().expect("both kinds take the machine down");
                assert!(pair[0].at_ns + down_ns <= pair[1].at_ns, "{} then {}", pair[0], pair[1]);
            }
        }
    }

    #[test]
    fn script_steps_strike_at_their_time() {
        let ranges = Ranges {
            duration_ns: crate::scenario::units::Between::only(5),
            ..Ranges::defaults(FaultKind::Crash)
        };
        let step = ScriptedFault { at_ns: 3_000, node: 0, kind: FaultKind::Crash, ranges };
        let plan = draw_plan(1, &[], &[step], 1, MINUTE, &[]);
        assert_eq!(plan.len(), 1);
        assert_eq!((plan[0].at_ns, plan[0].fault.down_until_ns()), (3_000, Some(5)));
    }
}
