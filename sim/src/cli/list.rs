//! `sillon-sim list` and `sillon-sim check`.

use super::{Done, GOOD, WRONG, find};
use crate::{faults::FaultKind, oracle::Invariant, scenario::Scenario};
use clap::{Args, ValueEnum};
use sillon_broker::config::keys;
use std::path::PathBuf;

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// What to list
    #[arg(value_enum, default_value_t = Subject::Scenarios)]
    what: Subject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// What can be run, from the folder scenarios/
    Scenarios,
    /// What must always hold, and when it is looked at
    Invariants,
    /// What can go wrong, with its parameters for scenario files
    Faults,
    /// Kafka's keys for [cluster.properties] and [topics.properties] and ZooKeeper's for [ensemble.properties], with defaults
    Properties,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Scenario files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn list(arguments: &ListArguments) -> Done {
    match arguments.what {
        Subject::Scenarios => scenarios(),
        Subject::Invariants => {
            for invariant in Invariant::ALL {
                println!("{invariant:<5} {}", invariant.sentence());
                println!("      looked at: {}", invariant.moments());
            }
            Ok(GOOD)
        }
        Subject::Faults => {
            faults();
            Ok(GOOD)
        }
        Subject::Properties => {
            for (title, table) in
                [("[cluster.properties]", keys::BROKER_KEYS), ("[topics.properties]", keys::TOPIC_KEYS)]
            {
                println!("{title}");
                for key in table {
                    println!("  {:<44} {}\n      {}", key.name, key.default, key.documentation);
                }
            }
            println!("[ensemble.properties]");
            for key in sillon_coordinator::config::keys::KEYS {
                println!("  {:<44} {}\n      {}", key.name, key.default, key.documentation);
            }
            Ok(GOOD)
        }
    }
}

fn scenarios() -> Done {
    let mut code = GOOD;
    for path in find::all_files()? {
        match Scenario::load(&path) {
            Ok(scenario) => {
                println!("{:<24} {}", scenario.name(), scenario.description());
                let kinds: Vec<&str> = scenario.fault_kinds().iter().map(|kind| kind.name()).collect();
                println!(
                    "{:<24} faults: {}",
                    "",
                    if kinds.is_empty() { "none".into() } else { kinds.join(", ") }
                );
            }
            Err(error) => {
                println!("{error}");
                code = WRONG;
            }
        }
    }
    Ok(code)
}

fn faults() {
    for kind in FaultKind::ALL {
        println!("{:<20} {}", kind.name(), kind.summary());
        for (parameter, default, meaning) in kind.parameters() {
            println!("{:<20}   {} = \"{default}\"   {meaning}", "", parameter.name());
        }
    }
    println!(
        "\nAt a rate:      [faults.power-loss]\n                per_minute = 2\n                duration = \"1s..5s\""
    );
    println!(
        "\nAt a time:      [[script]]\n                at = \"3s\"\n                fault = \"power-loss\"\n                node = 0              # or \"c1\", a member of an ensemble"
    );
    println!(
        "\nOn whoever does something then (leader, follower, controller, coordinator-leader, any): target = \"leader\" at a \
         rate, node = \"leader\"\nat a time. On all machines at once: machines = \"all\", \"brokers\" or \"members\"."
    );
}

pub(super) fn check(arguments: &CheckArguments) -> Done {
    let mut code = GOOD;
    for path in &arguments.files {
        match Scenario::load(path) {
            Ok(scenario) => {
                let (config, plan) = scenario.draw(1);
                let (phases, faults) = (config.safety_ns / 1_000_000_000, plan.len());
                println!("{}: good; seed 1 has {faults} faults in {phases} s", path.display());
            }
            Err(error) => {
                println!("{error}");
                code = WRONG;
            }
        }
    }
    Ok(code)
}
