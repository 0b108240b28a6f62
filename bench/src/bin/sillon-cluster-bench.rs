//! Measures clusters of three brokers that run already, in interleaved runs: ours, and one of Apache Kafka's beside it.

use clap::{Parser, ValueEnum};
use sillon_bench::{
    Result,
    cluster::{self, Cluster, Settings},
    report::{Report, print_summary},
};
use std::process::ExitCode;

/// Ratios of a cluster of ours and one of Apache Kafka's, each with its bound.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// What to measure; everything where nothing is named.
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// A cluster and the script that controls it (see conformance/cluster.sh); ours first, what it is compared with second.
    #[arg(long, value_name = "NAME=SCRIPT", required = true)]
    cluster: Vec<Cluster>,
    /// How many times the clusters take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pairs: u16,
    /// An eighth of the data: for CI, and less exact.
    #[arg(long)]
    short: bool,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// CPU of all brokers per gigabyte taken in with acks=all.
    Replication,
    /// p50 and p99 at a steady rate with acks=all, and CPU per record.
    Latency,
    /// CPU and memory of 1,000 partitions that nobody writes to.
    Idle,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("sillon-cluster-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the suites and prints what they found; gives whether every bound is kept.
fn run(arguments: Arguments) -> Result<bool> {
    let settings =
        Settings { clusters: arguments.cluster, pairs: usize::from(arguments.pairs), short: arguments.short };
    let wanted = match arguments.suites.as_slice() {
        [] => Suite::value_variants(),
        some => some,
    };
    if wanted.iter().any(|suite| *suite != Suite::Idle) {
        settings.warm_up()?;
    }
    let mut reports = Vec::new();
    for suite in wanted {
        let found = match suite {
            Suite::Replication => cluster::replication(&settings),
            Suite::Latency => cluster::latency(&settings),
            Suite::Idle => cluster::idle(&settings),
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
