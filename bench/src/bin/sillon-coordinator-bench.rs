//! Measures the coordinator in runs interleaved with a real ZooKeeper's.

use clap::{Parser, ValueEnum};
use sillon_bench::{
    Result,
    coordinator::{self, Settings},
    process::WorkDirectory,
    report::{Report, print_summary},
};
use std::{path::PathBuf, process::ExitCode};

/// The coordinator against a real ZooKeeper: both are started, stopped and killed through the scripts in conformance/.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// What to measure; everything where nothing is named.
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// How many times the servers take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pairs: u16,
    /// An eighth of the work: for CI, and less exact.
    #[arg(long)]
    short: bool,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// What starts coordinators.
    #[arg(long, value_name = "SCRIPT", default_value = "conformance/ensemble.sh")]
    coordinator: PathBuf,
    /// What starts a real ZooKeeper: conformance/peers/zookeeper.sh [default: no comparison].
    #[arg(long, value_name = "SCRIPT")]
    zookeeper: Option<PathBuf>,
    /// Measures ZooKeeper alone.
    #[arg(long, requires = "zookeeper")]
    without_coordinator: bool,
    /// Where the data is kept while measuring; a disk with a few gigabytes.
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Requests a second, latency and CPU.
    Throughput,
    /// How long writes stand still when the leader is killed.
    Failover,
    /// Bytes for each node beyond its path and data.
    Memory,
    /// What an operation costs more with a million nodes than with a thousand.
    Slope,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("sillon-coordinator-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the suites and prints what they found; gives whether every bound is kept.
fn run(arguments: &Arguments) -> Result<bool> {
    let settings = Settings {
        coordinator: arguments.coordinator.clone(),
        zookeeper: arguments.zookeeper.clone(),
        without_coordinator: arguments.without_coordinator,
        work: WorkDirectory::below(&arguments.directory)?,
        pairs: usize::from(arguments.pairs),
        short: arguments.short,
    };
    let wanted = match arguments.suites.as_slice() {
        [] => Suite::value_variants(),
        some => some,
    };
    let mut reports = Vec::new();
    for suite in wanted {
        let found = match suite {
            Suite::Throughput => coordinator::throughput(&settings),
            Suite::Failover => coordinator::failover(&settings),
            Suite::Memory => coordinator::memory(&settings),
            Suite::Slope => coordinator::slope(&settings),
        }?;
        if !arguments.json {
            for report in &found {
                println!("{report}");
            }
        }
        reports.extend(found);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&reports)?);
    } else {
        print_summary(&reports);
    }
    Ok(reports.iter().all(Report::met))
}
