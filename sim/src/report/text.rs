//! A summary for people. Owns the layout.

use super::Summary;
use crate::{oracle::Invariant, profile::Part, scenario::units::human_nanos};
use std::{collections::BTreeMap, fmt};

/// Looked at only where a run has failed: 0 is no hole in a campaign without failures.
pub(super) const ONLY_ON_FAILURE: Invariant = Invariant::I81;
/// Words that a line of counts holds at most.
const LINE_CHARACTERS: usize = 96;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.first_seed + self.seeds_asked - 1;
        writeln!(f, "{}", self.scenario)?;
        write!(
            f,
            "  seeds        {}..{last}: {} passed, {} failed",
            self.first_seed,
            self.passed,
            self.seeds_run - self.passed
        )?;
        if self.seeds_run < self.seeds_asked {
            write!(f, ", {} not run", self.seeds_asked - self.seeds_run)?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "  simulated    {} in {:.1} s of CPU time: {:.0} times real time per core ({:.1} s with {} at a time)",
            human_nanos(self.simulated_ns),
            self.cpu_ns as f64 / 1e9,
            self.speed_up(),
            self.wall_ns as f64 / 1e9,
            self.jobs,
        )?;
        self.profile(f)?;
        if self.has_brokers {
            self.records(f)?;
        }
        if self.has_ensemble {
            self.sessions(f)?;
        }
        writeln!(f, "  events       {}; {} runs made twice, to compare", self.events, self.checked_twice)?;
        counts(f, "faults", &self.faults)?;
        counts(f, "effects", &self.effects)?;
        self.invariants(f)?;
        self.failures(f)?;
        self.expectations(f)
    }
}

impl Summary {
    /// Where the CPU time went, where that was counted.
    fn profile(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total_ns = self.profile.total_ns();
        if total_ns == 0 {
            return Ok(());
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut title = "profile";
        for part in Part::ALL {
            let own_ns = self.profile.of(*part);
            let share = own_ns as f64 * 100.0 / total_ns as f64;
            writeln!(f, "  {title:<12} {:<13} {:>7.2} s {share:>5.1} %", part.name(), seconds(own_ns))?;
            title = "";
        }
        let per_second = self.events as f64 / seconds(self.cpu_ns).max(1e-9);
        writeln!(
            f,
            "               {per_second:.0} events and {:.0} simulated seconds for each of CPU time",
            self.speed_up()
        )
    }
}

fn counts(f: &mut fmt::Formatter<'_>, title: &str, counts: &BTreeMap<String, u64>) -> fmt::Result {
    let mut line = String::new();
    let mut title = title;
    for (name, count) in counts {
        let word = format!("{name} {count}");
        if !line.is_empty() && line.len() + 2 + word.len() > LINE_CHARACTERS {
            writeln!(f, "  {title:<12} {line}")?;
            (title, line) = ("", String::new());
        }
        let separator = if line.is_empty() { "" } else { ", " };
        line = format!("{line}{separator}{word}");
    }
    let line = if line.is_empty() { "none".to_string() } else { line };
    writeln!(f, "  {title:<12} {line}")
}

impl Summary {
    fn records(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statistics = &self.statistics;
        writeln!(
            f,
            "  records      {} sent: {} confirmed, {} failed, {} unknown; {} read; {} lost as they may be, in {} runs",
            statistics.records_sent,
            statistics.records_confirmed,
            statistics.records_failed,
            statistics.records_unknown,
            statistics.records_read,
            statistics.records_lost,
            self.runs_out_of_contract,
        )
    }

    fn sessions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = &self.ensemble;
        writeln!(
            f,
            "  operations   {} writes done, {} refused; {} reads; {} unknown; {} watches fired",
            sum.writes_confirmed, sum.writes_failed, sum.reads, sum.unknown, sum.watch_events
        )?;
        writeln!(
            f,
            "  ensemble     {} transactions; {} sessions, {} expired; {} terms led; {} starts; {} snapshots taken, {} sent",
            sum.transactions,
            sum.sessions_opened,
            sum.sessions_expired,
            sum.terms_led,
            sum.starts,
            sum.snapshots_taken,
            sum.snapshots_installed
        )
    }

    fn invariants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  invariants   evaluations that could have failed")?;
        for invariant in Invariant::ALL.iter().filter(|invariant| self.concerns(**invariant)) {
            let count = match self.evaluations_of(*invariant) {
                0 if *invariant == ONLY_ON_FAILURE => "on failure".to_string(),
                0 => "VACUOUS".to_string(),
                count => count.to_string(),
            };
            writeln!(f, "  {invariant:<5} {count:>12}  {}", invariant.sentence())?;
        }
        Ok(())
    }

    fn failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "\n  FAILED       seed {}: {}", failure.seed, failure.text)?;
            if let Some(bundle) = &failure.bundle {
                writeln!(f, "  bundle       {}", bundle.display())?;
            }
            writeln!(f, "  recording    {}", failure.reproduction)?;
            writeln!(f, "  see it again {}", failure.replay)?;
        }
        Ok(())
    }

    fn expectations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(invariant) = self.expected_violation.as_ref().filter(|_| !self.failures.is_empty()) {
            writeln!(f, "\n  This scenario is made to violate {invariant}.")?;
        }
        for unmet in &self.unmet {
            match self.expectations_count {
                true => writeln!(f, "\n  UNMET        the scenario expects more: {unmet}")?,
                false => writeln!(f, "\n  note         {unmet}, but so few seeds need not show it")?,
            }
        }
        Ok(())
    }
}
