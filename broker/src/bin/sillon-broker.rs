//! The `sillon-broker` program: command line, configuration file, logs and signals around the library.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A program reads its files and arguments itself.

use clap::{Parser, ValueEnum};
use sillon_broker::{
    config::{
        BrokerConfig,
        properties::{self, Place, Property},
    },
    observe::Observers,
};
use sillon_runtime::tokio_backend;
use std::{path::PathBuf, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// A commit log that speaks Apache Kafka's wire protocol.
///
/// Without a configuration it listens on 127.0.0.1:9092 and keeps its logs in data/sillon below the current directory.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  sillon-broker
  sillon-broker --config server.properties
  sillon-broker --override listeners=PLAINTEXT://0.0.0.0:9092 --override log.dirs=/var/lib/sillon
  sillon-broker --print-config

Stop it with SIGTERM or Ctrl-C: it then closes its logs and starts again without checking them."
)]
struct Arguments {
    /// Kafka's server.properties.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets one key, over the file. May be given several times.
    #[arg(long = "override", short = 'o', value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Checks the configuration, prints every key with its value, and exits.
    #[arg(long)]
    print_config: bool,
    /// How many threads serve clients; by default one for each core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// How log lines are written.
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    log_format: LogFormat,
    /// What is logged, as tracing's filter: info, debug, sillon_broker::log=trace, …
    #[arg(long, value_name = "FILTER", default_value = "info", env = "SILLON_LOG")]
    log: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sillon-broker: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: Arguments) -> Result<(), String> {
    let (config, warnings) = configuration(&arguments)?;
    if arguments.print_config {
        for (name, value) in config.effective() {
            println!("{name}={value}");
        }
        return Ok(());
    }
    let filter =
        EnvFilter::try_new(&arguments.log).map_err(|error| format!("--log {}: {error}", arguments.log))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Human => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    for warning in warnings {
        tracing::warn!(place = %warning.place, "{}", warning.text);
    }
    let ran = tokio_backend::block_on(arguments.threads.map(usize::from), |runtime| async move {
        let stop = async {
            match tokio_backend::stop_signal().await {
                Ok(signal) => tracing::info!(signal, "told to stop"),
                Err(error) => tracing::error!(%error, "signals cannot be received"),
            }
        };
        sillon_broker::run(runtime, config, Observers::NONE, stop).await
    });
    ran.map_err(|error| format!("cannot start threads: {error}"))?.map_err(|error| error.to_string())
}

fn configuration(
    arguments: &Arguments,
) -> Result<(BrokerConfig, Vec<sillon_broker::config::Warning>), String> {
    let mut list = Vec::new();
    if let Some(path) = &arguments.config {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        list = properties::parse(&text, &path.display().to_string());
    }
    for text in &arguments.overrides {
        let (key, value) = text.split_once('=').ok_or(format!("--override {text}: KEY=VALUE is expected"))?;
        list.push(Property {
            key: key.trim().to_owned(),
            value: value.trim().to_owned(),
            place: Place { source: "--override".to_owned(), line: 0 },
        });
    }
    BrokerConfig::from_list(list).map_err(|error| error.to_string())
}
