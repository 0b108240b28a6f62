//! Draws the plan of a run: every fault with its time, before anything runs.

use super::{
    Aim, Draws, Fault, FaultKind, FaultRate, Machines, Place, Ranges, ScriptedFault, ServerRole, Target,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// One entry of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// When, in nanoseconds from the start of the safety phase.
    pub at_ns: u64,
    /// The machine, unless it is aimed at another.
    pub node: u32,
    /// What the machine does that it hits, where that is to be seen only when it strikes.
    pub aim: Option<Aim>,
    /// What happens.
    pub fault: Fault,
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(Machines { brokers: self.node + 1, members: 0 }))
    }
}

impl PlannedFault {
    /// The same, with the machine's name among these.
    pub fn line(&self, machines: Machines) -> String {
        let machine = self.aim.map_or_else(|| machines.name(self.node), |aim| format!("some {}", aim.role));
        format!("{:>14.6}s  {machine}  {}", self.at_ns as f64 / 1e9, self.fault)
    }
}

/// More strikes than any run needs; a plan is held in memory and written into bundles.
const PLAN_MAX_FAULTS: usize = 100_000;

/// When and where, and the single faults with their times after that and their machines.
struct Strike {
    at_ns: u64,
    node: u32,
    faults: Vec<(u64, u32, Fault)>,
    /// Where the machine is found only then.
    aim: Option<Aim>,
    /// The machines are different ones.
    goes_round: bool,
}

impl Strike {
    /// A strike on one of `machines`.
    fn draw(
        at_ns: u64,
        node: u32,
        (kind, ranges): (FaultKind, &Ranges),
        scope: Scope,
        draws: &mut Draws,
    ) -> Strike {
        let entry = kind.entry();
        let drawn = (entry.draw)(ranges, draws);
        let faults = match entry.goes_round {
            false => drawn.into_iter().map(|(after_ns, fault)| (after_ns, node, fault)).collect(),
            true => {
                scope.from(node).zip(drawn).map(|(node, (after_ns, fault))| (after_ns, node, fault)).collect()
            }
        };
        Strike { at_ns, node, faults, aim: None, goes_round: entry.goes_round }
    }

    /// The same on whoever has a role then. Drawn last: what a seed of a scenario without roles means stays the same.
    fn aimed(mut self, role: Option<ServerRole>, draws: &mut Draws) -> Strike {
        self.aim = role.map(|role| Aim { role, pick: draws.bits() });
        self
    }
}

/// The machines that a kind of fault may hit.
#[derive(Clone)]
struct Scope(std::ops::Range<u32>);

impl Scope {
    fn draw_one(&self, draws: &mut Draws) -> std::ops::Range<u32> {
        let node = self.0.start + draws.below(u64::from(self.0.end - self.0.start)) as u32;
        node..node + 1
    }

    /// Each of them once, from one on.
    fn from(self, first: u32) -> impl Iterator<Item = u32> {
        (first..self.0.end).chain(self.0.start..first.max(self.0.start))
    }
}

/// Draws the plan of a seed: strikes of each rate as a Poisson process over the safety phase, and the script's steps.
///
/// A strike that would hit a machine while it is down is left out. Kinds named in `without` do not strike by rate.
pub fn draw_plan(
    seed: u64,
    rates: &[FaultRate],
    script: &[ScriptedFault],
    machines: Machines,
    safety_ns: u64,
    without: &[FaultKind],
) -> Vec<PlannedFault> {
    let mut strikes: Vec<Strike> = Vec::new();
    for rate in rates.iter().filter(|rate| !without.contains(&rate.kind)) {
        // A stream for each kind: leaving one kind out changes nothing about the others.
        let mut draws = Draws::new(seed, rate.kind.name());
        let scope = Scope(machines.of(rate.on));
        let mean_ns = 60e9 / rate.per_minute;
        let mut at_ns = draws.exponential_ns(mean_ns);
        while at_ns < safety_ns && strikes.len() < PLAN_MAX_FAULTS {
            let fault = (rate.kind, &rate.ranges);
            let nodes = if rate.all_at_once { scope.0.clone() } else { scope.draw_one(&mut draws) };
            for node in nodes {
                let strike = Strike::draw(at_ns, node, fault, scope.clone(), &mut draws);
                strikes.push(strike.aimed(rate.role, &mut draws));
            }
            at_ns = at_ns.saturating_add(draws.exponential_ns(mean_ns)).saturating_add(1);
        }
    }
    let mut draws = Draws::new(seed, "script");
    for step in script {
        let (nodes, role) = match step.place {
            Place::Machine(node) => (node..node + 1, None),
            Place::Role(role) => (0..1, Some(role)),
            Place::All(target) => (machines.of(target), None),
        };
        for node in nodes {
            let kind = if machines.is_member(node) { Target::Members } else { Target::Brokers };
            let (scope, fault) = (Scope(machines.of(kind)), (step.kind, &step.ranges));
            let strike = Strike::draw(step.at_ns, node, fault, scope, &mut draws);
            strikes.push(strike.aimed(role, &mut draws));
        }
    }
    // Equal times keep the order in which they were drawn: the sort is stable.
    strikes.sort_by_key(|strike| (strike.at_ns, strike.node));
    lay_out(strikes, machines, safety_ns)
}

/// Puts strikes on the time line, leaving out those that would hit a machine that is down, or that would damage what is
/// stored on more members than an ensemble can do without.
fn lay_out(strikes: Vec<Strike>, machines: Machines, safety_ns: u64) -> Vec<PlannedFault> {
    let mut up_again_ns = vec![0u64; machines.count() as usize];
    let mut damaged: BTreeSet<u32> = BTreeSet::new();
    let mut plan = Vec::new();
    for strike in strikes {
        if strike.aim.is_some() {
            // Who is hit, and whether it runs, is seen when it strikes.
            let (at_ns, aim) = (strike.at_ns, strike.aim);
            let faults = strike.faults.into_iter().filter(|(after_ns, ..)| at_ns + after_ns < safety_ns);
            plan.extend(faults.map(|(after_ns, node, fault)| PlannedFault {
                at_ns: at_ns + after_ns,
                node,
                aim,
                fault,
            }));
            continue;
        }
        if !strike.goes_round && strike.at_ns < up_again_ns[strike.node as usize] {
            continue;
        }
        for (after_ns, node, fault) in strike.faults {
            let at_ns = strike.at_ns + after_ns;
            if at_ns >= safety_ns {
                break;
            }
            let up_again = &mut up_again_ns[node as usize];
            if strike.goes_round && at_ns < *up_again {
                continue;
            }
            if fault.damages_what_is_stored() && machines.is_member(node) {
                let is_within_budget =
                    damaged.contains(&node) || damaged.len() < (machines.members as usize - 1) / 2;
                if !is_within_budget {
                    continue;
                }
                damaged.insert(node);
            }
            if let Some(down_until_ns) = fault.down_until_ns() {
                *up_again = (*up_again).max(at_ns + down_until_ns);
            }
            plan.push(PlannedFault { at_ns, node, aim: None, fault });
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
    const ONE: Machines = Machines { brokers: 1, members: 0 };

    fn rate(kind: FaultKind, per_minute: f64) -> FaultRate {
        FaultRate {
            kind,
            per_minute,
            on: Target::All,
            role: None,
            all_at_once: false,
            ranges: Ranges::defaults(kind),
        }
    }

    #[test]
    fn the_plan_of_a_seed_is_always_the_same_and_differs_between_seeds() {
        let rates = [rate(FaultKind::Crash, 6.0), rate(FaultKind::ClockJump, 3.0)];
        let plan = |seed| draw_plan(seed, &rates, &[], ONE, 10 * MINUTE, &[]);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert!(plan(1).windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        assert!(plan(1).iter().all(|planned| planned.at_ns < 10 * MINUTE && planned.node == 0));
    }

    #[test]
    fn rates_are_kept_on_average() {
        let rates = [rate(FaultKind::ClockJump, 6.0)];
        let strikes: usize =
            (0..50).map(|seed| draw_plan(seed, &rates, &[], ONE, 10 * MINUTE, &[]).len()).sum();
        assert!((2700..3300).contains(&strikes), "{strikes} strikes, 3000 expected");
    }

    #[test]
    fn leaving_one_kind_out_changes_nothing_about_the_others() {
        let rates = [rate(FaultKind::Pause, 6.0), rate(FaultKind::ClockJump, 3.0)];
        let all = draw_plan(9, &rates, &[], ONE, 10 * MINUTE, &[]);
        let some = draw_plan(9, &rates, &[], ONE, 10 * MINUTE, &[FaultKind::Pause]);
        let jumps: Vec<_> =
            all.into_iter().filter(|planned| planned.fault.kind() == FaultKind::ClockJump).collect();
        assert_eq!(some, jumps);
        assert!(!some.is_empty());
    }

    #[test]
    fn nothing_strikes_a_machine_that_is_down() {
        let rates = [rate(FaultKind::Crash, 60.0), rate(FaultKind::PowerLoss, 60.0)];
        for seed in 0..20 {
            let plan = draw_plan(seed, &rates, &[], ONE, MINUTE, &[]);
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
        let step = ScriptedFault { at_ns: 3_000, place: Place::Machine(0), kind: FaultKind::Crash, ranges };
        let plan = draw_plan(1, &[], &[step], ONE, MINUTE, &[]);
        assert_eq!(plan.len(), 1);
        assert_eq!((plan[0].at_ns, plan[0].fault.down_until_ns()), (3_000, Some(5)));
    }

    const ENSEMBLE: Machines = Machines { brokers: 1, members: 3 };

    #[test]
    fn a_rolling_restart_goes_round_the_machines_of_its_role_once() {
        let ranges = Ranges::defaults(FaultKind::RollingRestart);
        let step =
            ScriptedFault { at_ns: 0, place: Place::Machine(2), kind: FaultKind::RollingRestart, ranges };
        let plan = draw_plan(1, &[], &[step], ENSEMBLE, MINUTE, &[]);
        assert_eq!(plan.iter().map(|planned| planned.node).collect::<Vec<_>>(), [2, 3, 1]);
        for pair in plan.windows(2) {
            let down_ns = pair[0].fault.down_until_ns().expect("a restart takes the process down");
            assert!(pair[0].at_ns + down_ns <= pair[1].at_ns, "never two at a time");
        }
    }

    #[test]
    fn faults_strike_the_role_that_they_are_for() {
        let rates = [FaultRate { on: Target::Members, ..rate(FaultKind::ClockJump, 60.0) }];
        let plan = draw_plan(4, &rates, &[], ENSEMBLE, MINUTE, &[]);
        let hit: BTreeSet<u32> = plan.iter().map(|planned| planned.node).collect();
        assert_eq!(hit.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn only_a_minority_of_the_members_has_its_disk_damaged() {
        let rates = [FaultRate { on: Target::Members, ..rate(FaultKind::BitRot, 60.0) }];
        let plan = draw_plan(4, &rates, &[], ENSEMBLE, MINUTE, &[]);
        let hit: BTreeSet<u32> = plan.iter().map(|planned| planned.node).collect();
        assert_eq!(hit.len(), 1);
    }

    #[test]
    fn all_machines_of_a_kind_lose_power_at_once_and_come_back_one_by_one() {
        let machines = Machines { brokers: 3, members: 3 };
        let ranges = Ranges::defaults(FaultKind::PowerLoss);
        let place = Place::All(Target::Brokers);
        let step = ScriptedFault { at_ns: 3_000, place, kind: FaultKind::PowerLoss, ranges };
        let plan = draw_plan(1, &[], &[step], machines, MINUTE, &[]);
        assert_eq!(plan.iter().map(|planned| planned.node).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(plan.iter().all(|planned| planned.at_ns == 3_000));
        let ups: BTreeSet<_> = plan.iter().map(|planned| planned.fault.down_until_ns()).collect();
        assert_eq!(ups.len(), 3, "each has its own time");
        let rates = [FaultRate { all_at_once: true, ..rate(FaultKind::PowerLoss, 2.0) }];
        let plan = draw_plan(2, &rates, &[], machines, 5 * MINUTE, &[]);
        let first: Vec<u32> = plan.iter().filter(|p| p.at_ns == plan[0].at_ns).map(|p| p.node).collect();
        assert_eq!(first, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_role_is_left_open_and_which_of_several_is_drawn() {
        let rates = [FaultRate { role: Some(ServerRole::Leader), ..rate(FaultKind::Crash, 30.0) }];
        let plan = draw_plan(3, &rates, &[], ENSEMBLE, 2 * MINUTE, &[]);
        let picks: BTreeSet<u64> =
            plan.iter().map(|planned| planned.aim.expect("it is aimed").pick).collect();
        assert_eq!(picks.len(), plan.len());
        assert!(plan.len() > 30 && plan[0].line(ENSEMBLE).contains("some leader  crash"));
    }
}
