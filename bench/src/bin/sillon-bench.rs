//! Measures the broker in interleaved runs against floors, and against an Apache Kafka that runs already.

use clap::{Parser, ValueEnum};
use sillon_bench::{
    Result,
    process::{WorkDirectory, sibling, touch_free_memory},
    report::{Report, print_summary},
    suites::{self, External, Settings},
};
use std::{path::PathBuf, process::ExitCode, str::FromStr};

/// What the suites have in memory at once, page cache included, and some more.
const TOUCHED_BYTES: u64 = 8 << 30;

/// Ratios of the broker against floors measured on this machine, each with its bound.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// What to measure; everything where nothing is named.
    #[arg(value_enum)]
    suites: Vec<Suite>,
    /// How many times the servers take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pairs: u16,
    /// An eighth of the data: for CI, and less exact.
    #[arg(long)]
    short: bool,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// An Apache Kafka that takes its turn in produce, fetch and latency.
    #[arg(long, value_name = "ADDRESS,PID")]
    kafka: Option<KafkaArgument>,
    /// The broker's program [default: the sillon-broker beside this program].
    #[arg(long, value_name = "PROGRAM")]
    broker: Option<PathBuf>,
    /// Where the data is kept while measuring; a disk with a few gigabytes.
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// CPU per gigabyte taken in.
    Produce,
    /// CPU per gigabyte read.
    Fetch,
    /// p50 and p99 at a steady rate, and CPU per record.
    Latency,
    /// Time to the first answer, memory at rest.
    Startup,
    /// Checking the logs after a crash.
    Recovery,
}

#[derive(Clone)]
struct KafkaArgument(External);

impl FromStr for KafkaArgument {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (address, pid) = text.split_once(',').ok_or("ADDRESS,PID is expected")?;
        let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        let pid = pid.parse().map_err(|error| format!("{pid}: {error}"))?;
        Ok(Self(External { address, pid }))
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("sillon-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the suites and prints what they found; gives whether every bound is kept.
fn run(arguments: &Arguments) -> Result<bool> {
    let broker = match &arguments.broker {
        Some(path) => path.clone(),
        None => sibling("sillon-broker", "sillon-broker")?,
    };
    let settings = Settings {
        broker,
        floor: sibling("floor", "sillon-bench")?,
        work: WorkDirectory::below(&arguments.directory)?,
        pairs: usize::from(arguments.pairs),
        short: arguments.short,
        kafka: arguments.kafka.as_ref().map(|kafka| kafka.0),
    };
    let wanted = match arguments.suites.as_slice() {
        [] => Suite::value_variants(),
        some => some,
    };
    if wanted.iter().any(|suite| *suite != Suite::Startup) {
        touch_free_memory(TOUCHED_BYTES)?;
    }
    let mut reports = Vec::new();
    for suite in wanted {
        let found = match suite {
            Suite::Produce => suites::produce(&settings),
            Suite::Fetch => suites::fetch(&settings),
            Suite::Latency => suites::latency(&settings),
            Suite::Startup => suites::startup(&settings),
            Suite::Recovery => suites::recovery(&settings),
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
