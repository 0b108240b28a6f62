//! `sillon-sim run`.

use super::{Done, Duration, FAILED, GOOD, ReproDirectory, Scenarios, campaign::Campaign, find};
use crate::{
    report::{Overall, Summary},
    scenario::Scenario,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};

const EXAMPLES: &str = "\
Examples:
  sillon-sim run single-broker-crash                100 seeds of a scenario in scenarios/
  sillon-sim run power-loss torn-writes --seeds 500 two scenarios
  sillon-sim run all --seeds 50 --json > out.json   every scenario, results for programs
  sillon-sim run ./mine.toml --seed 17 --seeds 1    one seed of a file of yours

A seed that fails is run again with all its decisions recorded, and the recording is written as a bundle \
(SCENARIO-SEED.sillon); `sillon-sim replay` runs it from there. An invariant marked VACUOUS was never evaluated \
in a way that could have failed: it has proven nothing.";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct RunArguments {
    #[command(flatten)]
    scenarios: Scenarios,
    /// How many seeds of each scenario
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,
    /// The first seed; the others follow it
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How many seeds run at the same time [default: the number of cores]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    duration: Duration,
    /// After so many failing seeds of a scenario no further seed begins
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    max_failures: u64,
    #[command(flatten)]
    repro: ReproDirectory,
    /// Write no bundles
    #[arg(long)]
    no_bundles: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Show where the CPU time goes: executor, network, disk, oracle, brokers, coordinators, clients
    #[arg(long)]
    profile: bool,
    /// Show no progress bar
    #[arg(long)]
    no_progress: bool,
}

pub(super) fn run(arguments: &RunArguments) -> Done {
    let mut scenarios = find::scenarios(&arguments.scenarios.scenarios)?;
    if arguments.profile {
        crate::profile::enable();
    }
    for scenario in &mut scenarios {
        arguments.duration.apply(scenario)?;
    }
    if arguments.seed.checked_add(arguments.seeds).is_none() {
        return Err("--seed plus --seeds is beyond 2^64".into());
    }
    let mut summaries = Vec::new();
    for scenario in &scenarios {
        let summary = one(arguments, scenario);
        if !arguments.json {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{summary}")?;
        }
        summaries.push(summary);
    }
    if !arguments.json && summaries.len() > 1 {
        let mut out = std::io::stdout().lock();
        write!(out, "{}", Overall(&summaries))?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summaries)?);
    }
    Ok(if summaries.iter().all(Summary::is_good) { GOOD } else { FAILED })
}

fn one(arguments: &RunArguments, scenario: &Scenario) -> Summary {
    let campaign = Campaign {
        scenario,
        first_seed: arguments.seed,
        seeds: arguments.seeds,
        jobs: arguments.jobs.map_or_else(find::default_jobs, usize::from),
        max_failures: arguments.max_failures,
        more_arguments: arguments.duration.again(),
        repro_directory: (!arguments.no_bundles).then(|| arguments.repro.repro_dir.clone()),
    };
    let bar = progress_bar(arguments.seeds, scenario.name(), arguments.no_progress);
    let summary = campaign.run(|summary| {
        bar.set_position(summary.seeds_run);
        let failed = summary.seeds_run - summary.passed;
        bar.set_message(format!("{failed} failed, {:.0}× real time per core", summary.speed_up()));
    });
    bar.finish_and_clear();
    summary
}

/// A bar on the standard error stream, where that is a terminal.
pub(super) fn progress_bar(length: u64, title: &str, hidden: bool) -> ProgressBar {
    if hidden || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta} {msg}");
    bar.set_style(style.expect("the template is right"));
    bar.set_prefix(title.to_string());
    bar
}
