//! What several campaigns have come to together: the last lines of a sweep, where a person looks first. Owns their layout;
//! judges nothing that a [`Summary`] has not judged.

use super::{Summary, text::ONLY_ON_FAILURE};
use crate::{oracle::Invariant, scenario::units::human_nanos};
use std::fmt;

/// Several campaigns.
pub struct Overall<'a>(pub &'a [Summary]);

impl fmt::Display for Overall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Summary) -> u64| self.0.iter().map(of).sum::<u64>();
        let (run, passed) = (sum(|summary| summary.seeds_run), sum(|summary| summary.passed));
        let (simulated_ns, cpu_ns) = (sum(|summary| summary.simulated_ns), sum(|summary| summary.cpu_ns));
        writeln!(f, "{} scenarios", self.0.len())?;
        writeln!(f, "  seeds        {run}: {passed} passed, {} failed", run - passed)?;
        writeln!(
            f,
            "  simulated    {} in {} of CPU time: {:.0} times real time per core",
            human_nanos(simulated_ns),
            human_nanos(cpu_ns),
            simulated_ns as f64 / cpu_ns.max(1) as f64
        )?;
        self.invariants(f)?;
        for summary in self.0.iter().filter(|summary| !summary.is_good()) {
            for failure in &summary.failures {
                let first_line = failure.text.lines().next().unwrap_or_default();
                writeln!(f, "  FAILED       {} seed {}: {first_line}", summary.scenario, failure.seed)?;
                writeln!(f, "  see it again {}", failure.replay)?;
            }
            for unmet in summary.unmet.iter().filter(|_| summary.expectations_count) {
                writeln!(f, "  UNMET        {}: {unmet}", summary.scenario)?;
            }
        }
        Ok(())
    }
}

impl Overall<'_> {
    /// Which invariants no scenario has evaluated, of those that any of them concerns.
    fn invariants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let concerned = |invariant: &&Invariant| self.0.iter().any(|summary| summary.concerns(**invariant));
        let concerned: Vec<_> = Invariant::ALL.iter().filter(concerned).collect();
        let vacuous: Vec<_> = concerned
            .iter()
            .filter(|invariant| ***invariant != ONLY_ON_FAILURE)
            .filter(|invariant| self.0.iter().all(|summary| summary.evaluations_of(***invariant) == 0))
            .map(|invariant| invariant.name())
            .collect();
        write!(
            f,
            "  invariants   {} of {} were evaluated",
            concerned.len() - vacuous.len(),
            concerned.len()
        )?;
        match vacuous.is_empty() {
            true => writeln!(f),
            false => writeln!(f, "; VACUOUS in every scenario: {}", vacuous.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{driver::Failure, report::SeedFailure, scenario::Scenario};

    fn summary() -> Summary {
        let text = "name = \"a\"\ndescription = \"An example.\"\n";
        let scenario = Scenario::parse("a.toml", text).expect("a scenario");
        Summary::new(&scenario, 1, 10, 1)
    }

    #[test]
    fn a_failed_seed_stands_in_the_last_lines_with_what_to_type() {
        let mut failed = summary();
        failed.seeds_run = 2;
        failed.passed = 1;
        let mut failure = SeedFailure::new(7, &Failure::Simulator { text: "it broke\nmore".into() }, 1);
        failure.replay = "sillon-sim replay x".into();
        failed.failures.push(failure);
        let text = Overall(&[summary(), failed]).to_string();
        assert!(text.contains("2: 1 passed, 1 failed"), "{text}");
        assert!(text.contains("FAILED       a seed 7: simulator: it broke"), "{text}");
        assert!(text.contains("see it again sillon-sim replay x"), "{text}");
        assert!(!text.contains("more"), "{text}");
    }

    #[test]
    fn an_invariant_is_vacuous_only_where_no_scenario_evaluates_it() {
        let mut evaluated = summary();
        evaluated.evaluated(Invariant::I01, 1);
        let text = Overall(&[summary(), evaluated]).to_string();
        let vacuous = text.split("VACUOUS in every scenario: ").nth(1).expect("most are");
        assert!(vacuous.contains("I06") && !vacuous.contains("I01,"), "{text}");
    }
}
