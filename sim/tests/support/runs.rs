//! Whole runs from the text of a scenario, and bundles of them.

use sillon_sim::{
    driver::{DecisionSource, Failure, RunInput, RunOutcome},
    repro::Bundle,
    scenario::Scenario,
};

pub fn input(text: &str, seed: u64, record: bool) -> RunInput {
    let scenario = Scenario::parse("example.toml", text).expect("it is right");
    let (config, plan) = scenario.draw(seed);
    RunInput { seed, scheduler_seed: seed, config, plan, decisions: DecisionSource::Seed { record } }
}

/// A bundle of a run that did not fail: its failure is invented.
pub fn bundle(text: &str, input: RunInput, outcome: &RunOutcome) -> Bundle {
    Bundle {
        commit: String::new(),
        scenario_name: "example".into(),
        scenario_text: text.into(),
        seed: input.seed,
        scheduler_seed: input.scheduler_seed,
        config: input.config,
        plan: input.plan,
        tape: outcome.tape.clone(),
        events: outcome.trace.clone(),
        hash: outcome.hash,
        failure: Failure::Simulator { text: "invented".into() },
    }
}
