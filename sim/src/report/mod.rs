//! What a campaign of many seeds has come to. Owns the sums and the verdict over them; prints in `text`.

mod overall;
mod text;

pub use overall::Overall;

use crate::{
    driver::{Failure, RunOutcome},
    oracle::{Invariant, Statistics, coordinator::CoordinatorStatistics},
    profile::Profile,
    scenario::Scenario,
};
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf};

/// The sums over a campaign.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// Where it was read from.
    pub scenario_file: String,
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds were asked for.
    pub seeds_asked: u64,
    /// How many have run.
    pub seeds_run: u64,
    /// How many of them passed.
    pub passed: u64,
    /// Those that did not.
    pub failures: Vec<SeedFailure>,
    /// Simulated time of all runs, in nanoseconds.
    pub simulated_ns: u64,
    /// CPU time of all runs, in nanoseconds.
    pub cpu_ns: u64,
    /// Where it went, where `--profile` was given.
    pub profile: Profile,
    /// Wall-clock time of the campaign, in nanoseconds.
    pub wall_ns: u64,
    /// How many seeds ran at the same time.
    pub jobs: usize,
    /// How many events there were.
    pub events: u64,
    /// How many runs were made twice, to compare.
    pub checked_twice: u64,
    /// Faults of the plans that struck, by kind.
    pub faults: BTreeMap<String, u64>,
    /// What that did to machines, disks and network.
    pub effects: BTreeMap<String, u64>,
    /// Evaluations that were not trivial, by invariant. 0: it has proven nothing.
    pub evaluations: BTreeMap<String, u64>,
    /// How much happened to the brokers' records.
    pub statistics: Statistics,
    /// How much happened in the ensembles and to their clients.
    pub ensemble: CoordinatorStatistics,
    /// Whether the scenario has brokers.
    #[serde(skip)]
    has_brokers: bool,
    /// Whether it has several.
    #[serde(skip)]
    has_clusters: bool,
    /// Whether it has consumer groups.
    #[serde(skip)]
    has_groups: bool,
    /// Whether it has an ensemble.
    #[serde(skip)]
    has_ensemble: bool,
    /// Runs in which something promised was lost, as it may be.
    pub runs_out_of_contract: u64,
    /// What the scenario expects of a campaign and was not shown, in words.
    pub unmet: Vec<String>,
    /// Whether the campaign is large enough for what is unmet to count.
    pub expectations_count: bool,
    /// The invariant that the scenario wants to see violated.
    pub expected_violation: Option<String>,
    #[serde(skip)]
    expect_violation: Option<Invariant>,
}

/// A seed that failed.
#[derive(Clone, Debug, Serialize)]
pub struct SeedFailure {
    /// The seed.
    pub seed: u64,
    /// The invariant's number, or `panic`, `broker`, `member`, `simulator`.
    pub name: String,
    /// What was seen.
    pub text: String,
    /// The hash over the run's events, in hexadecimal.
    pub hash: String,
    /// Where the bundle is; nothing where it could not be written.
    pub bundle: Option<PathBuf>,
    /// How the command line names the bundle or seed to see the failure again.
    pub replay: String,
    /// What came of recording it and replaying the recording: `same failure, same hash`, or what differs.
    pub reproduction: String,
    /// Whether it was the same.
    pub reproduced: bool,
}

impl Summary {
    /// Nothing has run yet.
    pub fn new(scenario: &Scenario, first_seed: u64, seeds: u64, jobs: usize) -> Summary {
        let expect = scenario.expectations();
        Summary {
            scenario: scenario.name().to_string(),
            scenario_file: scenario.source_name().to_string(),
            first_seed,
            seeds_asked: seeds,
            seeds_run: 0,
            passed: 0,
            failures: Vec::new(),
            simulated_ns: 0,
            cpu_ns: 0,
            profile: Profile::default(),
            wall_ns: 0,
            jobs,
            events: 0,
            checked_twice: 0,
            faults: scenario.injected_kinds().iter().map(|kind| (kind.name().to_string(), 0)).collect(),
            effects: BTreeMap::new(),
            evaluations: Invariant::ALL.iter().map(|invariant| (invariant.name().to_string(), 0)).collect(),
            statistics: Statistics::default(),
            ensemble: CoordinatorStatistics::default(),
            has_brokers: scenario.has_brokers(),
            has_clusters: scenario.has_clusters(),
            has_groups: scenario.has_groups(),
            has_ensemble: scenario.has_ensemble(),
            runs_out_of_contract: 0,
            unmet: Vec::new(),
            expectations_count: seeds >= expect.seeds,
            expected_violation: expect.violation.map(|invariant| invariant.name().to_string()),
            expect_violation: expect.violation,
        }
    }

    /// Adds what a seed has come to.
    pub fn add(&mut self, outcome: &RunOutcome) {
        self.seeds_run += 1;
        self.passed += u64::from(outcome.failure.is_none());
        self.add_time(outcome);
        for (kind, count) in &outcome.faults {
            *self.faults.entry(kind.name().to_string()).or_default() += count;
        }
        for (kind, count) in &outcome.effects {
            *self.effects.entry(kind.name().to_string()).or_default() += count;
        }
        for (invariant, count) in &outcome.evaluations {
            *self.evaluations.entry(invariant.name().to_string()).or_default() += count;
        }
        let (sum, new) = (&mut self.statistics, &outcome.statistics);
        sum.records_sent += new.records_sent;
        sum.records_confirmed += new.records_confirmed;
        sum.records_failed += new.records_failed;
        sum.records_unknown += new.records_unknown;
        sum.records_read += new.records_read;
        sum.records_lost += new.records_lost;
        sum.starts += new.starts;
        add_ensemble(&mut self.ensemble, &outcome.ensemble);
        self.runs_out_of_contract += u64::from(!outcome.out_of_contract.is_empty());
    }

    /// Adds only the time of a run that was made again.
    pub fn add_time(&mut self, outcome: &RunOutcome) {
        self.simulated_ns += outcome.simulated_ns;
        self.cpu_ns += outcome.cpu_ns;
        self.profile.add(&outcome.profile);
        self.events += outcome.events;
    }

    /// Adds evaluations that are made on whole runs, not in them.
    pub fn evaluated(&mut self, invariant: Invariant, times: u64) {
        *self.evaluations.entry(invariant.name().to_string()).or_default() += times;
    }

    /// How often an invariant was evaluated in a way that could have failed.
    pub fn evaluations_of(&self, invariant: Invariant) -> u64 {
        self.evaluations.get(invariant.name()).copied().unwrap_or(0)
    }

    /// Whether the scenario has what an invariant speaks of.
    pub fn concerns(&self, invariant: Invariant) -> bool {
        match invariant {
            Invariant::I64 | Invariant::I81 => true,
            of_coordinators if of_coordinators.is_of_coordinators() => self.has_ensemble,
            of_groups if of_groups.is_of_groups() => self.has_groups,
            of_clusters if of_clusters.is_of_clusters() => self.has_clusters,
            _ => self.has_brokers,
        }
    }

    /// Compares the sums with what the scenario expects.
    pub fn judge(&mut self, scenario: &Scenario) {
        let expect = scenario.expectations();
        let zero =
            |counts: &BTreeMap<String, u64>, name: &str| counts.get(name).is_none_or(|count| *count == 0);
        for kind in expect.faults.iter().filter(|kind| zero(&self.faults, kind.name())) {
            self.unmet.push(format!("the fault {kind} never struck"));
        }
        for invariant in
            expect.invariants.iter().filter(|invariant| zero(&self.evaluations, invariant.name()))
        {
            self.unmet.push(format!("{invariant} was never evaluated"));
        }
        if let Some(invariant) = expect.violation
            && !self.failures.iter().any(|failure| failure.name == invariant.name())
        {
            self.unmet.push(format!("no seed violated {invariant}"));
        }
    }

    /// Whether the campaign is good: nothing failed but what was to fail, and all that was expected was shown.
    pub fn is_good(&self) -> bool {
        let as_expected = |failure: &SeedFailure| {
            failure.reproduced
                && self.expect_violation.is_some_and(|invariant| failure.name == invariant.name())
        };
        self.failures.iter().all(as_expected) && (self.unmet.is_empty() || !self.expectations_count)
    }

    /// Simulated seconds for each second of CPU time.
    pub fn speed_up(&self) -> f64 {
        if self.cpu_ns == 0 { 0.0 } else { self.simulated_ns as f64 / self.cpu_ns as f64 }
    }
}

impl SeedFailure {
    /// A failure of which nothing is known yet but itself.
    pub fn new(seed: u64, failure: &Failure, hash: u64) -> SeedFailure {
        SeedFailure {
            seed,
            name: failure.name().to_string(),
            text: failure.to_string(),
            hash: format!("{hash:016x}"),
            bundle: None,
            replay: String::new(),
            reproduction: String::new(),
            reproduced: false,
        }
    }
}

fn add_ensemble(sum: &mut CoordinatorStatistics, new: &CoordinatorStatistics) {
    sum.transactions += new.transactions;
    sum.writes_confirmed += new.writes_confirmed;
    sum.writes_failed += new.writes_failed;
    sum.unknown += new.unknown;
    sum.reads += new.reads;
    sum.watch_events += new.watch_events;
    sum.sessions_opened += new.sessions_opened;
    sum.sessions_expired += new.sessions_expired;
    sum.terms_led += new.terms_led;
    sum.starts += new.starts;
    sum.snapshots_taken += new.snapshots_taken;
    sum.snapshots_installed += new.snapshots_installed;
}
