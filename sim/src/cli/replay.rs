//! `sillon-sim replay`.

use super::{Done, Duration, FAILED, GOOD, campaign, find};
use crate::{
    driver::{Failure, RunOutcome, Watch, run},
    faults::PlannedFault,
    repro::{Bundle, Difference, Verdict, replay as replay_bundle},
    scenario::DrawnConfig,
};
use clap::Args;
use serde_json::json;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  sillon-sim replay repro/power-loss-17.sillon      from the recording: no random generator is used
  sillon-sim replay power-loss --seed 17            from the seed, with the code as it is now

A bundle holds the drawn configuration, every fault with its time, every decision of the simulated world and every \
event. Its replay must give the same events, the same hash and the same failure; if not, the first event that \
differs is shown, as it was and as it is.

Exit codes: 0 the same failure again (for a seed: it passes), 1 it differs (for a seed: it fails).";

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ReplayArguments {
    /// A bundle (a .sillon file), or a scenario by name or file
    #[arg(value_name = "BUNDLE|SCENARIO")]
    what: String,
    /// The seed, for a scenario
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    #[command(flatten)]
    duration: Duration,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn replay(arguments: &ReplayArguments) -> Done {
    let path = Path::new(&arguments.what);
    if Bundle::is_one(path) || arguments.what.ends_with(".sillon") {
        if arguments.seed.is_some() {
            return Err("a bundle has its own seed: leave --seed out".into());
        }
        if arguments.duration.duration.is_some() {
            return Err("a bundle has its own duration: leave --duration out".into());
        }
        return from_bundle(&Bundle::read(path)?, arguments.json);
    }
    let mut scenario = find::scenario(&arguments.what)?;
    arguments.duration.apply(&mut scenario)?;
    let Some(seed) = arguments.seed else {
        return Err(format!("which seed of {}? Add --seed S", scenario.name()).into());
    };
    let input = campaign::input(&scenario, seed, false);
    let (config, plan) = (input.config.clone(), input.plan.clone());
    let outcome = run(input, Watch::Hash);
    if arguments.json {
        let failure = outcome.failure.as_ref().map(ToString::to_string);
        let machines = config.machines();
        let plan: Vec<String> = plan.iter().map(|planned| planned.line(machines)).collect();
        let value = json!({
            "scenario": scenario.name(), "seed": seed, "config": config, "plan": plan,
            "hash": format!("{:016x}", outcome.hash), "events": outcome.events, "failure": failure,
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        println!("scenario    {}\nseed        {seed}", scenario.name());
        story(&config, &plan);
        result(&outcome);
        let (program, more) = (find::program(), arguments.duration.again());
        println!("\nEach event:  {program} trace {} --seed {seed}{more}", scenario.source_name());
    }
    Ok(if outcome.failure.is_none() { GOOD } else { FAILED })
}

fn from_bundle(bundle: &Bundle, as_json: bool) -> Done {
    let (outcome, verdict) = replay_bundle(bundle);
    if as_json {
        let machines = bundle.config.machines();
        let plan: Vec<String> = bundle.plan.iter().map(|planned| planned.line(machines)).collect();
        let difference = if let Verdict::Different(difference) = &verdict { Some(difference) } else { None };
        let value = json!({
            "commit": bundle.commit, "scenario": bundle.scenario_name, "seed": bundle.seed,
            "scheduler_seed": bundle.scheduler_seed, "config": bundle.config, "plan": plan,
            "decisions": bundle.tape.decisions(), "events": bundle.events.len(),
            "hash": format!("{:016x}", bundle.hash), "failure": bundle.failure.to_string(),
            "failure_name": bundle.failure.name(), "replayed_hash": format!("{:016x}", outcome.hash),
            "replayed_failure": outcome.failure.as_ref().map(ToString::to_string),
            "same": difference.is_none(), "difference": difference,
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        header(bundle);
        tell(bundle, &outcome, &verdict);
    }
    Ok(if matches!(verdict, Verdict::Same) { GOOD } else { FAILED })
}

fn header(bundle: &Bundle) {
    let commit = if bundle.commit.is_empty() { "unknown" } else { &bundle.commit };
    println!("scenario    {}", bundle.scenario_name);
    println!("seed        {}", bundle.seed);
    println!("commit      {commit}");
    let now = find::commit();
    if now != bundle.commit && !bundle.commit.is_empty() && !now.is_empty() {
        println!("            this tree is at {now}: the replay may differ for that reason");
    }
    story(&bundle.config, &bundle.plan);
    let (decisions, bytes) = (bundle.tape.decisions(), bundle.tape.bytes());
    println!("decisions   {decisions} recorded in {bytes} bytes, in {} streams", bundle.tape.streams().len());
    println!("events      {}, hash {:016x}", bundle.events.len(), bundle.hash);
    println!("failure     {}", bundle.failure);
}

fn story(config: &DrawnConfig, plan: &[PlannedFault]) {
    println!("{config}");
    println!("faults      {}", if plan.is_empty() { "none" } else { "" });
    for planned in plan {
        println!("{}", planned.line(config.machines()));
    }
}

fn tell(bundle: &Bundle, outcome: &RunOutcome, verdict: &Verdict) {
    println!();
    match verdict {
        Verdict::Same => {
            let (simulated, cpu) = (outcome.simulated_ns as f64 / 1e9, outcome.cpu_ns as f64 / 1e9);
            println!(
                "replayed    same failure, same hash ({simulated:.1} s simulated in {cpu:.2} s, no random generator)"
            );
            if let Failure::Violation(violation) = &bundle.failure {
                println!("            {}: {}", violation.invariant, violation.invariant.sentence());
            }
            println!("\nThe last events before the failure:");
            for event in bundle.events.iter().rev().take(8).rev() {
                println!("  {}", event.line(&bundle.config.machines().label(event.node)));
            }
        }
        Verdict::Different(difference) => differs(difference),
    }
}

fn differs(difference: &Difference) {
    match difference.event {
        0 => println!("DIFFERENT   all events agree, but the end does not:"),
        event => println!("DIFFERENT   from event {event} on:"),
    }
    for line in &difference.before {
        println!("  both     {line}");
    }
    println!("  expected {}", difference.expected);
    println!("  found    {}", difference.found);
    if let Some(decision) = &difference.decision {
        println!("  tape     {decision}");
    }
}

fn result(outcome: &RunOutcome) {
    let (simulated, cpu) = (outcome.simulated_ns as f64 / 1e9, outcome.cpu_ns as f64 / 1e9);
    println!("ran         {simulated:.1} s simulated in {cpu:.2} s of CPU time");
    println!("events      {}, hash {:016x}", outcome.events, outcome.hash);
    for text in &outcome.out_of_contract {
        println!("lost        {text} (as it may be)");
    }
    match &outcome.failure {
        None => println!("result      passed"),
        Some(failure) => println!("result      FAILED: {failure}"),
    }
}
