//! `sillon-sim check-determinism`: the same seeds in this process and in another, which differs in all that must not
//! matter: directory, environment, address layout, hasher seeds, number of seeds at a time.

use super::{Done, Duration, FAILED, GOOD, Scenarios, Wrong, campaign, find, run::progress_bar};
use crate::{
    driver::{RunOutcome, Watch, run},
    scenario::Scenario,
};
use clap::Args;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

const EXAMPLES: &str = "\
Examples:
  sillon-sim check-determinism                              20 seeds of every scenario
  sillon-sim check-determinism power-loss --seeds 200

Where a seed differs, it is traced in both processes, and the first event that differs is shown.";

/// Arguments of `check-determinism`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct DeterminismArguments {
    /// Scenarios: names as `list` shows them, or files; `all` for every one in scenarios/
    #[arg(default_value = "all", value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// How many seeds of each scenario
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    duration: Duration,
    /// Show no progress bar
    #[arg(long)]
    no_progress: bool,
}

/// Arguments of the hidden command `hashes`.
#[derive(Debug, Args)]
pub(super) struct HashesArguments {
    #[command(flatten)]
    scenarios: Scenarios,
    #[arg(long)]
    seeds: u64,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    jobs: usize,
    /// Print every event instead
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    duration: Duration,
}

pub(super) fn check(arguments: &DeterminismArguments) -> Done {
    let mut differences = 0;
    for mut scenario in find::scenarios(&arguments.scenarios)? {
        arguments.duration.apply(&mut scenario)?;
        differences += one(arguments, &scenario)?;
    }
    Ok(if differences == 0 { GOOD } else { FAILED })
}

/// How many seeds of a scenario differ.
fn one(arguments: &DeterminismArguments, scenario: &Scenario) -> Result<u64, Wrong> {
    let bar = progress_bar(arguments.seeds * 2, scenario.name(), arguments.no_progress);
    let other = Other::new(scenario, arguments)?;
    // The other process works with all cores, backwards in time of nobody's choosing; this one with a single thread.
    let mut child = other.start(arguments.seed, arguments.seeds, false)?;
    let mut theirs = BTreeMap::new();
    let lines = BufReader::new(child.stdout.take().ok_or("the other process has no output")?);
    for line in lines.lines() {
        let line = line?;
        let (seed, rest) = line.split_once(' ').ok_or_else(|| format!("the other process said `{line}`"))?;
        theirs.insert(seed.parse::<u64>()?, rest.to_string());
        bar.inc(1);
    }
    if !child.wait()?.success() {
        return Err("the other process failed".into());
    }
    let mut different = Vec::new();
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let ours = line(&run(campaign::input(scenario, seed, false), Watch::Hash));
        if theirs.get(&seed) != Some(&ours) {
            different.push(seed);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!(
        "{:<24} {} seeds in two processes: {} the same, {} different",
        scenario.name(),
        arguments.seeds,
        arguments.seeds - different.len() as u64,
        different.len()
    );
    if let Some(seed) = different.first() {
        show_difference(scenario, *seed, &other)?;
    }
    Ok(different.len() as u64)
}

/// What must be the same, in one line.
fn line(outcome: &RunOutcome) -> String {
    let failure =
        outcome.failure.as_ref().map_or_else(|| "passed".to_string(), |failure| failure.to_string());
    format!(
        "{:016x} {} {} {}",
        outcome.hash,
        outcome.events,
        outcome.simulated_ns,
        failure.replace('\n', " ")
    )
}

/// The other process: everything about it is different that may be.
struct Other {
    directory: PathBuf,
    file: PathBuf,
    duration: Duration,
}

impl Other {
    fn new(scenario: &Scenario, arguments: &DeterminismArguments) -> Result<Other, Wrong> {
        Ok(Other {
            directory: std::env::temp_dir(),
            file: std::fs::canonicalize(scenario.source_name())?,
            duration: arguments.duration.clone(),
        })
    }

    fn start(&self, seed: u64, seeds: u64, events: bool) -> Result<std::process::Child, Wrong> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("hashes").arg(&self.file);
        command.args(["--seed", &seed.to_string(), "--seeds", &seeds.to_string()]);
        command.args(["--jobs", &(find::default_jobs() + 1).to_string()]);
        if events {
            command.arg("--events");
        }
        command.args(self.duration.again().split_whitespace());
        // A larger environment moves the stack; another directory moves whatever depends on paths.
        command
            .current_dir(&self.directory)
            .env("SILLON_SIM_PADDING", "x".repeat(4096 + std::process::id() as usize % 977));
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
    }
}

fn show_difference(scenario: &Scenario, seed: u64, other: &Other) -> Result<(), Wrong> {
    let ours = run(campaign::input(scenario, seed, false), Watch::Keep).trace;
    let mut child = other.start(seed, 1, true)?;
    let theirs = BufReader::new(child.stdout.take().ok_or("the other process has no output")?);
    let mut ours = ours.iter().map(ToString::to_string);
    let mut before = String::new();
    for (number, theirs) in theirs.lines().enumerate() {
        let theirs = theirs?;
        let ours = ours.next().unwrap_or_else(|| "nothing: the run has ended".to_string());
        if ours != theirs {
            println!("  seed {seed} differs from event {} on:", number + 1);
            println!("    both   {before}\n    here   {ours}\n    there  {theirs}");
            // It may be blocked, writing what nobody will read.
            child.kill()?;
            child.wait()?;
            return Ok(());
        }
        before = ours;
    }
    child.wait()?;
    println!(
        "  seed {seed} differs, but its events are the same when they are kept: it is the outcome that differs"
    );
    Ok(())
}

pub(super) fn hashes(arguments: &HashesArguments) -> Done {
    let mut scenario = find::scenario(arguments.scenarios.scenarios.first().ok_or("which scenario?")?)?;
    arguments.duration.apply(&mut scenario)?;
    if arguments.events {
        for event in run(campaign::input(&scenario, arguments.seed, false), Watch::Keep).trace {
            println!("{event}");
        }
        return Ok(GOOD);
    }
    let next = AtomicU64::new(0);
    let out = Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.clamp(1, 64) {
            scope.spawn(|| {
                loop {
                    let taken = next.fetch_add(1, Ordering::Relaxed);
                    if taken >= arguments.seeds {
                        break;
                    }
                    // The last seed first: an order that the other process does not have.
                    let seed = arguments.seed + arguments.seeds - 1 - taken;
                    let line = line(&run(campaign::input(&scenario, seed, false), Watch::Hash));
                    let _one_at_a_time = out.lock();
                    println!("{seed} {line}");
                }
            });
        }
    });
    Ok(GOOD)
}
