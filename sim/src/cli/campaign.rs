//! Runs many seeds of a scenario at a time, and takes failures down: records, writes bundles, replays.

use super::find;
use crate::{
    decisions::Tape,
    driver::{DecisionSource, Failure, RunInput, RunOutcome, Watch, run},
    oracle::Invariant,
    report::{SeedFailure, Summary},
    repro::{Bundle, Verdict, replay},
    scenario::Scenario,
};
use std::{
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Instant,
};

/// Each run of a seed divisible by this is made twice.
const TWICE_EVERY: u64 = 16;

/// Seeds of one scenario.
pub(super) struct Campaign<'a> {
    pub scenario: &'a Scenario,
    pub first_seed: u64,
    pub seeds: u64,
    pub jobs: usize,
    /// After so many failing seeds no further seed begins.
    pub max_failures: u64,
    /// What else a command line needs to name the same run.
    pub more_arguments: String,
    /// Where bundles go; nothing for no bundles.
    pub repro_directory: Option<PathBuf>,
}

/// What a seed determines.
pub(super) fn input(scenario: &Scenario, seed: u64, record: bool) -> RunInput {
    let (config, plan) = scenario.draw(seed);
    RunInput { seed, scheduler_seed: seed, config, plan, decisions: DecisionSource::Seed { record } }
}

struct Finding {
    outcome: RunOutcome,
    again: Option<RunOutcome>,
    failure: Option<SeedFailure>,
}

impl Campaign<'_> {
    /// Runs the seeds. `progress` is called after each with the number of seeds that have failed so far.
    pub fn run(&self, mut progress: impl FnMut(&Summary)) -> Summary {
        let began = Instant::now();
        let mut summary = Summary::new(self.scenario, self.first_seed, self.seeds, self.jobs);
        let (next, enough) = (AtomicU64::new(self.first_seed), AtomicBool::new(false));
        let end = self.first_seed + self.seeds;
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..self.jobs {
                let (sender, next, enough) = (sender.clone(), &next, &enough);
                scope.spawn(move || {
                    while !enough.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        // The receiver goes away only after all of us.
                        if seed >= end || sender.send(self.seed(seed)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for Finding { outcome, again, failure } in receiver {
                summary.add(&outcome);
                if let Some(again) = again {
                    summary.add_time(&again);
                    summary.checked_twice += 1;
                    summary.evaluated(Invariant::I64, 1);
                }
                if let Some(failure) = failure {
                    if failure.bundle.is_some() {
                        summary.evaluated(Invariant::I81, 1);
                    }
                    summary.failures.push(failure);
                }
                if summary.failures.len() as u64 >= self.max_failures {
                    enough.store(true, Ordering::Relaxed);
                }
                progress(&summary);
            }
        });
        summary.failures.sort_by_key(|failure| failure.seed);
        summary.wall_ns = began.elapsed().as_nanos() as u64;
        summary.judge(self.scenario);
        summary
    }

    fn seed(&self, seed: u64) -> Finding {
        let mut outcome = run(input(self.scenario, seed, false), Watch::Hash);
        let mut again = None;
        if outcome.failure.is_none() && seed.is_multiple_of(TWICE_EVERY) {
            let second = run(input(self.scenario, seed, false), Watch::Hash);
            if second.hash != outcome.hash || second.failure != outcome.failure {
                let text = format!(
                    "{}: the same seed gave hash {:016x} and then {:016x}",
                    Invariant::I64.sentence(),
                    outcome.hash,
                    second.hash
                );
                outcome.failure = Some(Failure::Simulator { text });
            }
            again = Some(second);
        }
        let failure = outcome.failure.as_ref().map(|failure| self.take_down(&outcome, failure));
        Finding { outcome, again, failure }
    }

    /// Records a failing seed, writes its bundle, and replays it from there.
    fn take_down(&self, outcome: &RunOutcome, failure: &Failure) -> SeedFailure {
        let mut found = SeedFailure::new(outcome.seed, failure, outcome.hash);
        let (program, file) = (find::program(), self.scenario.source_name());
        found.replay = format!("{program} replay {file} --seed {}{}", outcome.seed, self.more_arguments);
        let Some(directory) = &self.repro_directory else {
            found.reproduction = "no bundle was wanted".to_string();
            found.reproduced = true;
            return found;
        };
        match self.record(outcome, failure, directory) {
            Ok((path, reproduction, reproduced)) => {
                found.replay = format!("{program} replay {}", path.display());
                found.bundle = Some(path);
                found.reproduction = reproduction;
                found.reproduced = reproduced;
            }
            Err(error) => found.reproduction = error,
        }
        found
    }

    fn record(
        &self,
        outcome: &RunOutcome,
        failure: &Failure,
        directory: &Path,
    ) -> Result<(PathBuf, String, bool), String> {
        let seed = outcome.seed;
        let mut recorded = run(input(self.scenario, seed, true), Watch::Keep);
        if recorded.hash != outcome.hash || recorded.failure.as_ref() != Some(failure) {
            let failure =
                recorded.failure.map_or_else(|| "no failure".to_string(), |failure| failure.to_string());
            return Err(format!("the same seed gave another run when it was recorded: {failure}"));
        }
        let input = input(self.scenario, seed, true);
        let bundle = Bundle {
            commit: find::commit(),
            scenario_name: self.scenario.name().to_string(),
            scenario_text: self.scenario.text().to_string(),
            seed,
            scheduler_seed: input.scheduler_seed,
            config: input.config,
            plan: input.plan,
            tape: std::mem::take::<Tape>(&mut recorded.tape),
            events: std::mem::take(&mut recorded.trace),
            hash: recorded.hash,
            failure: failure.clone(),
        };
        let path =
            bundle.write(directory).map_err(|error| format!("the bundle cannot be written: {error}"))?;
        match replay(&bundle).1 {
            Verdict::Same => {
                Ok((path, "replayed without a random generator: same failure, same hash".into(), true))
            }
            Verdict::Different(difference) => {
                let text = format!(
                    "the replay differs at event {}: expected `{}`, found `{}`",
                    difference.event, difference.expected, difference.found
                );
                Ok((path, text, false))
            }
        }
    }
}
