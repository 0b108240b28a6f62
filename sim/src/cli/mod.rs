//! The `sillon-sim` program: commands, their help, and their exit codes.
//!
//! Owns what people type and see. Everything that it does is done by the other modules of this crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // The program itself lives in the real world.

mod bugs;
mod campaign;
mod determinism;
mod find;
mod list;
mod replay;
mod run;
mod shrink;
mod trace;

use crate::scenario::Scenario;
use clap::{Args, Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// Everything held.
const GOOD: u8 = 0;
/// Something failed: an invariant, a replay, an expectation.
const FAILED: u8 = 1;
/// What was asked for makes no sense: a wrong scenario, a missing file.
const WRONG: u8 = 2;

/// An error that ends the program with [`WRONG`].
type Wrong = Box<dyn std::error::Error + Send + Sync>;

/// What a command has come to.
type Done = Result<u8, Wrong>;

const ABOUT: &str = "\
Runs Sillon's own code in a simulated world, where one seed decides every answer of clocks, network and disks, \
and judges each run by the invariants of a Kafka-compatible log.";

const WORKFLOW: &str = "\
From a scenario to a replayed failure:

  1. See what there is:             sillon-sim list
  2. Run seeds of a scenario:       sillon-sim run power-loss --seeds 200
  3. A seed that fails is recorded, and its bundle is written to repro/.
     Run it from there:             sillon-sim replay repro/power-loss-17.sillon
  4. See each event of it:          sillon-sim trace repro/power-loss-17.sillon --from 3s --node 0
  5. Write a scenario of your own, from a copy of one in scenarios/.
     Check it:                      sillon-sim check scenarios/mine.toml

Inside the source tree, `cargo sim` builds and runs this program: `cargo sim run power-loss`.

Exit codes: 0 everything held, 1 something failed, 2 the command or a file is wrong.";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "sillon-sim", version, about = ABOUT, after_long_help = WORKFLOW, max_term_width = 110)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run seeds of scenarios, and report what failed
    Run(run::RunArguments),
    /// Run a bundle or a single seed again, and show what happens
    Replay(replay::ReplayArguments),
    /// Run each seed in two processes that differ in all that must not matter, and compare
    CheckDeterminism(determinism::DeterminismArguments),
    /// Print the events of a seed, one line each
    Trace(trace::TraceArguments),
    /// List scenarios, invariants, faults or properties
    List(list::ListArguments),
    /// Check scenario files without running them
    Check(list::CheckArguments),
    /// Leave faults out of a failing run as long as it fails in the same way
    Shrink(shrink::ShrinkArguments),
    /// Plant each bug of sim/bugs/ in a copy of the tree, and see whether it is found
    Bugs(bugs::BugsArguments),
    /// Print a line for each seed: seed, hash, events
    #[command(hide = true)]
    Hashes(determinism::HashesArguments),
}

/// Which scenarios: shared by several commands.
#[derive(Clone, Debug, Args)]
struct Scenarios {
    /// Scenarios: names as `list` shows them, or files; `all` for every one in scenarios/
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
}

/// How long the phase with faults is: shared by several commands.
#[derive(Clone, Debug, Args)]
struct Duration {
    /// Length of the phase with faults, in place of the scenario's: 90s, 10min. Changes what a seed means
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<u64>,
}

fn duration(text: &str) -> Result<u64, String> {
    use crate::scenario::units::{Nanos, Quantity};
    Nanos::from_text(text).map(|nanos| nanos.0)
}

impl Duration {
    /// Gives a scenario this duration, where one was given.
    fn apply(&self, scenario: &mut Scenario) -> Result<(), Wrong> {
        let Some(nanos) = self.duration else { return Ok(()) };
        if !(1_000_000_000..=86_400_000_000_000).contains(&nanos) {
            return Err("--duration is out of range: 1s to 24h".into());
        }
        scenario.set_safety_ns(nanos);
        Ok(())
    }

    /// How to say it again on a command line.
    fn again(&self) -> String {
        self.duration.map_or_else(String::new, |nanos| format!(" --duration {nanos}ns"))
    }
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    // As other programs do: end quietly where the reader of a pipe has gone (`… | head`).
    // SAFETY: nothing else runs yet, and the default action needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let arguments = CommandLine::parse();
    let done = match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Replay(arguments) => replay::replay(arguments),
        Command::CheckDeterminism(arguments) => determinism::check(arguments),
        Command::Trace(arguments) => trace::trace(arguments),
        Command::List(arguments) => list::list(arguments),
        Command::Check(arguments) => list::check(arguments),
        Command::Shrink(arguments) => shrink::shrink(arguments),
        Command::Bugs(arguments) => bugs::bugs(arguments),
        Command::Hashes(arguments) => determinism::hashes(arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(WRONG)
        }
    }
}

/// Directory for bundles: shared by several commands.
#[derive(Clone, Debug, Args)]
struct ReproDirectory {
    /// Where the bundles of failing seeds are written
    #[arg(long, value_name = "DIR", default_value = "repro")]
    repro_dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_makes_sense() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn durations_are_read_as_in_scenarios() {
        assert_eq!(duration("90s"), Ok(90_000_000_000));
        assert_eq!(duration("90").unwrap_err(), "`90` has no unit: write one of ns, us, ms, s, min, h");
    }
}
