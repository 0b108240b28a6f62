//! `sillon-sim trace`.

use super::{Done, Duration, FAILED, GOOD, Wrong, campaign, duration, find};
use crate::{
    driver::{RunInput, Watch, run},
    repro::Bundle,
    world::Event,
};
use clap::Args;
use std::{
    io::{BufWriter, Write},
    path::Path,
};

const EXAMPLES: &str = "\
Examples:
  sillon-sim trace power-loss --seed 17                         everything
  sillon-sim trace repro/power-loss-17.sillon                   the same from its recording
  sillon-sim trace power-loss --seed 17 --from 3s --to 3500ms   half a second of it
  sillon-sim trace power-loss --seed 17 --node 0 --kind log     what the broker's logs did
  sillon-sim trace power-loss --seed 17 --kind fault,start,exit faults and processes
  sillon-sim trace coordinator-crash --seed 3 --node c2         what one member of an ensemble did

Columns: number of the event, simulated time, machine, kind, numbers. Lines of two runs can be compared with diff.";

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct TraceArguments {
    /// A bundle (a .sillon file), or a scenario by name or file
    #[arg(value_name = "BUNDLE|SCENARIO")]
    what: String,
    /// The seed, for a scenario
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    #[command(flatten)]
    duration: Duration,
    /// Only events from this time on: 3s, 250ms
    #[arg(long, value_name = "T", value_parser = duration)]
    from: Option<u64>,
    /// Only events up to this time
    #[arg(long, value_name = "T", value_parser = duration)]
    to: Option<u64>,
    /// Only events of these machines, by number or name: 0, c2 (the world's own events are left out)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    node: Vec<String>,
    /// Only events of these kinds; `log` means all that begin with it
    #[arg(long, value_name = "K", value_delimiter = ',')]
    kind: Vec<String>,
}

struct Filter {
    from_ns: u64,
    to_ns: u64,
    nodes: Vec<u32>,
    kinds: Vec<String>,
}

impl Filter {
    fn passes(&self, event: &Event) -> bool {
        (self.from_ns..=self.to_ns).contains(&event.time_ns)
            && (self.nodes.is_empty() || self.nodes.contains(&event.node.0))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| event.kind.starts_with(kind.as_str())))
    }
}

/// What is to be run: a recording, or a seed.
fn input(arguments: &TraceArguments) -> Result<RunInput, Wrong> {
    let path = Path::new(&arguments.what);
    if Bundle::is_one(path) || arguments.what.ends_with(".sillon") {
        return Ok(Bundle::read(path)?.input());
    }
    let mut scenario = find::scenario(&arguments.what)?;
    arguments.duration.apply(&mut scenario)?;
    let seed = arguments.seed.ok_or_else(|| format!("which seed of {}? Add --seed S", scenario.name()))?;
    Ok(campaign::input(&scenario, seed, false))
}

pub(super) fn trace(arguments: &TraceArguments) -> Done {
    let input = input(arguments)?;
    let machines = input.config.machines();
    let node = |name: &String| {
        let number = machines.named(name).or_else(|| name.parse().ok());
        number.ok_or_else(|| format!("--node {name}: there is no such machine"))
    };
    let filter = Filter {
        from_ns: arguments.from.unwrap_or(0),
        to_ns: arguments.to.unwrap_or(u64::MAX),
        nodes: arguments.node.iter().map(node).collect::<Result<_, _>>()?,
        kinds: arguments.kind.clone(),
    };
    let mut out = BufWriter::new(std::io::stdout());
    let sink = Box::new(move |event: &Event| {
        if filter.passes(event) {
            // A reader that has gone ends the program by SIGPIPE; a full disk shows at the end.
            let _ = writeln!(out, "{}", event.line(&machines.label(event.node)));
        }
    });
    let outcome = run(input, Watch::Show(sink));
    match &outcome.failure {
        None => eprintln!("passed: {} events, hash {:016x}", outcome.events, outcome.hash),
        Some(failure) => {
            eprintln!("FAILED: {failure}\n{} events, hash {:016x}", outcome.events, outcome.hash)
        }
    }
    Ok(if outcome.failure.is_none() { GOOD } else { FAILED })
}
