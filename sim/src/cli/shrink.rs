//! `sillon-sim shrink`: which faults of a failing run does the failure need?
//!
//! Owns the search. Faults are left out, and the run is made again with what is left, until no single fault can be left
//! out any more. The run without a fault is another run: what happens by chance in it is drawn anew, from several seeds.

use super::{Done, Duration, FAILED, GOOD, Wrong, campaign, find, run::progress_bar};
use crate::{
    driver::{Failure, RunInput, Watch, run},
    faults::PlannedFault,
    repro::Bundle,
};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  sillon-sim shrink repro/power-loss-17.sillon      the faults that this failure needs
  sillon-sim shrink power-loss --seed 17            the same, with the code as it is now

What is left is 1-minimal: without any one of these faults the failure was not seen again in any try. Only faults of \
the plan are left out; clients, operators and the network do what they do in the scenario.

Exit codes: 0 it was shrunk, 1 the run does not fail.";

/// Arguments of `shrink`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ShrinkArguments {
    /// A bundle (a .sillon file), or a scenario by name or file
    #[arg(value_name = "BUNDLE|SCENARIO")]
    what: String,
    /// The seed, for a scenario
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    #[command(flatten)]
    duration: Duration,
    /// How many runs may be made in all
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    runs: u64,
    /// In how many ways a smaller plan is tried before it counts as one that does not fail
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    tries: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress bar
    #[arg(long)]
    no_progress: bool,
}

pub(super) fn shrink(arguments: &ShrinkArguments) -> Done {
    let input = input(arguments)?;
    let machines = input.config.machines();
    let before = input.plan.len();
    let bar = progress_bar(arguments.runs, "runs", arguments.no_progress);
    let mut search =
        Search { input, failure: String::new(), tries: arguments.tries, left: arguments.runs, bar };
    let Some(failure) = search.begin() else {
        search.bar.finish_and_clear();
        return not_failing(arguments.json);
    };
    let finished = search.reduce();
    search.bar.finish_and_clear();
    let plan: Vec<String> = search.input.plan.iter().map(|planned| planned.line(machines)).collect();
    if arguments.json {
        let value = json!({
            "failure": failure.to_string(), "failure_name": failure.name(), "faults_before": before,
            "faults_left": plan.len(), "plan": plan, "runs": arguments.runs - search.left,
            "is_minimal": finished,
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(GOOD);
    }
    println!("failure     {failure}");
    println!("faults      {} of {before} are left after {} runs", plan.len(), arguments.runs - search.left);
    plan.iter().for_each(|line| println!("{line}"));
    if !finished {
        println!("            there may be fewer: --runs {} were not enough", arguments.runs);
    }
    Ok(GOOD)
}

fn not_failing(as_json: bool) -> Done {
    match as_json {
        true => println!("{}", serde_json::to_string_pretty(&json!({ "failure": null }))?),
        false => println!("the run does not fail: there is nothing to shrink"),
    }
    Ok(FAILED)
}

/// The run to begin with.
fn input(arguments: &ShrinkArguments) -> Result<RunInput, Wrong> {
    let path = Path::new(&arguments.what);
    if Bundle::is_one(path) || arguments.what.ends_with(".sillon") {
        let bundle = Bundle::read(path)?;
        // A tape fits the whole plan only.
        let decisions = crate::driver::DecisionSource::Seed { record: false };
        return Ok(RunInput { decisions, ..bundle.input() });
    }
    let mut scenario = find::scenario(&arguments.what)?;
    arguments.duration.apply(&mut scenario)?;
    let Some(seed) = arguments.seed else {
        return Err(format!("which seed of {}? Add --seed S", scenario.name()).into());
    };
    Ok(campaign::input(&scenario, seed, false))
}

struct Search {
    /// The smallest run that fails so far.
    input: RunInput,
    /// What it fails with.
    failure: String,
    tries: u64,
    /// So many runs may still be made.
    left: u64,
    bar: ProgressBar,
}

impl Search {
    /// Runs the whole plan.
    fn begin(&mut self) -> Option<Failure> {
        let failure = self.run(&self.input.clone())?;
        self.failure = failure.name().to_owned();
        Some(failure)
    }

    fn run(&mut self, input: &RunInput) -> Option<Failure> {
        self.left = self.left.saturating_sub(1);
        self.bar.inc(1);
        self.bar.set_message(format!("{} faults", self.input.plan.len()));
        run(input.clone(), Watch::Hash).failure
    }

    /// Leaves out halves, quarters and so on, then single faults. Gives whether it came to the end.
    fn reduce(&mut self) -> bool {
        let mut size = self.input.plan.len().div_ceil(2);
        while size > 0 && !self.input.plan.is_empty() {
            let mut smaller = false;
            let mut at = 0;
            while at < self.input.plan.len() {
                if self.left == 0 {
                    return false;
                }
                match self.fails_without(at, size) {
                    true => smaller = true,
                    false => at += size,
                }
            }
            size = if size > 1 { size / 2 } else { usize::from(smaller) };
        }
        true
    }

    /// Takes `size` faults from `at` on out, where the run fails in the same way without them.
    fn fails_without(&mut self, at: usize, size: usize) -> bool {
        let end = (at + size).min(self.input.plan.len());
        let plan = without(&self.input.plan, at..end);
        for try_number in 0..self.tries.min(self.left) {
            // The same seed first: what does not depend on the faults stays as it was.
            let seed = self.input.seed.wrapping_add(try_number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let input = RunInput { seed, scheduler_seed: seed, plan: plan.clone(), ..self.input.clone() };
            if self.run(&input).is_some_and(|failure| failure.name() == self.failure) {
                self.input = input;
                return true;
            }
        }
        false
    }
}

fn without(plan: &[PlannedFault], taken: std::ops::Range<usize>) -> Vec<PlannedFault> {
    plan[..taken.start].iter().chain(&plan[taken.end..]).copied().collect()
}
