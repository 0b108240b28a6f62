//! Runs a test's seeds, on as many threads as there are cores, and says what a person has to know of the first that fails.
//! Owns the seeds and the words; a run itself is the driver's.
#![allow(clippy::disallowed_methods)] // Seeds may come from the environment, and events go to the real disk.

use super::Simulation;
use crate::{
    driver::{DecisionSource, Program, RunInput, RunOutcome, Verdict, Watch, run_application},
    scenario::Scenario,
};
use std::{
    env,
    fmt::Write as _,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// Runs one seed alone.
const SEED: &str = "SILLON_SEED";
/// Runs so many seeds, whatever the test says.
const SEEDS: &str = "SILLON_SEEDS";
/// What a test runs in where it names no scenario.
const DEFAULT_SCENARIO: &str = include_str!("default.toml");
/// Each run of a seed divisible by this is made twice: the same seed has to give the same run.
const TWICE_EVERY: u64 = 16;

/// What a test asks for.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many seeds, from 1 on.
    pub seeds: u64,
    /// A scenario file: its cluster, network, disks, clocks, phases and faults. None: three brokers, three coordinators, and
    /// some of everything that goes wrong between machines.
    pub scenario: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options { seeds: 100, scenario: None }
    }
}

/// Runs a test.
///
/// # Panics
/// With the first seed that fails, and how to see it again: that is how a test fails.
pub fn check<F, Fut>(name: &str, options: &Options, program: F)
where
    F: Fn(Simulation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Verdict> + Send + 'static,
{
    let scenario = scenario(options).unwrap_or_else(|error| panic!("{error}"));
    let program = Program(Arc::new(move |simulation| Box::pin(program(simulation))));
    let seeds = seeds(options.seeds).unwrap_or_else(|error| panic!("{error}"));
    if let Some(failed) = first_failure(&scenario, &program, seeds) {
        panic!("{}", story(name, &scenario, &program, &failed));
    }
}

fn scenario(options: &Options) -> Result<Scenario, String> {
    let scenario = match &options.scenario {
        None => Scenario::parse("default.toml", DEFAULT_SCENARIO).map_err(|error| error.to_string()),
        Some(path) => Scenario::load(path).map_err(|error| error.to_string()),
    }?;
    match scenario.has_brokers() {
        true => Ok(scenario),
        false => Err(format!("{}: a test needs a scenario with brokers", scenario.source_name())),
    }
}

fn seeds(wanted: u64) -> Result<std::ops::Range<u64>, String> {
    let number = |name: &str| match env::var(name) {
        Ok(text) => text.parse().map(Some).map_err(|_| format!("{name}={text} is not a number")),
        Err(_) => Ok(None),
    };
    Ok(match (number(SEED)?, number(SEEDS)?) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 1..seeds.unwrap_or(wanted) + 1,
    })
}

fn input(scenario: &Scenario, seed: u64) -> RunInput {
    let (mut config, plan) = scenario.draw(seed);
    config.workload.producers = 0;
    config.workload.readers = 0;
    config.workload.latest_every_ns = 0;
    let decisions = DecisionSource::Seed { record: false };
    RunInput { seed, scheduler_seed: seed, config, plan, decisions }
}

/// The smallest seed that failed, of those that were run.
fn first_failure(scenario: &Scenario, program: &Program, seeds: std::ops::Range<u64>) -> Option<RunOutcome> {
    let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(None::<RunOutcome>));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let earlier = failed.lock().expect("no run panics here").as_ref().map(|outcome| outcome.seed);
        if seed >= seeds.end || earlier.is_some_and(|earlier| earlier < seed) {
            return;
        }
        let mut outcome = run_application(input(scenario, seed), Watch::Hash, program);
        if outcome.failure.is_none() && seed.is_multiple_of(TWICE_EVERY) {
            let again = run_application(input(scenario, seed), Watch::Hash, program);
            if again.hash != outcome.hash {
                let text = "the same seed gave two different runs: something in the program takes time, randomness or \
                            order from elsewhere than its Runtime"
                    .to_owned();
                outcome.failure = Some(crate::driver::Failure::Simulator { text });
            }
        }
        if outcome.failure.is_some() {
            let mut failed = failed.lock().expect("no run panics here");
            if failed.as_ref().is_none_or(|known| seed < known.seed) {
                *failed = Some(outcome);
            }
        }
    };
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner().expect("no run panics here")
}

/// What happened, and what to do next.
fn story(name: &str, scenario: &Scenario, program: &Program, failed: &RunOutcome) -> String {
    let seed = failed.seed;
    let again = run_application(input(scenario, seed), Watch::Keep, program);
    let mut text = String::new();
    let failure = failed.failure.as_ref().map(ToString::to_string).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n  {name} failed with seed {seed}\n  {failure}");
    let struck: Vec<String> = failed.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let struck = if struck.is_empty() { "none".to_owned() } else { struck.join(", ") };
    let _ = writeln!(text, "  faults       {struck}");
    match again.hash == failed.hash {
        true => {
            let _ = writeln!(text, "  repeated     the same failure, the same {} events", again.events);
        }
        false => {
            let _ = writeln!(
                text,
                "  repeated     ANOTHER RUN: something in the program takes time, randomness or order from elsewhere \
                 than its Runtime"
            );
        }
    }
    match write_events(name, &again) {
        Ok(path) => {
            let _ = writeln!(text, "  events       {}", path.display());
        }
        Err(error) => {
            let _ = writeln!(text, "  events       cannot be written: {error}");
        }
    }
    let _ = write!(text, "  see it again {SEED}={seed} cargo test {name}");
    text
}

fn write_events(name: &str, outcome: &RunOutcome) -> std::io::Result<PathBuf> {
    let directory = env::temp_dir().join("sillon-sim");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(format!("{name}-{}.events", outcome.seed));
    let mut text = String::new();
    for event in &outcome.trace {
        text.push_str(&format!("{event}\n"));
    }
    std::fs::write(&path, text)?;
    Ok(path)
}
