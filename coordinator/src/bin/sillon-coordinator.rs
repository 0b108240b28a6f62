//! The `sillon-coordinator` program: command line, configuration file, logs and signals around the library.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A program reads its files and arguments itself.

use clap::{Parser, ValueEnum};
use sillon_coordinator::{
    config::{
        CoordinatorConfig, Warning,
        properties::{self, Place, Property},
    },
    observe::Observers,
};
use sillon_runtime::tokio_backend;
use std::{path::PathBuf, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// A coordination service that speaks ZooKeeper's client protocol.
///
/// Without a configuration it is a standalone server on port 2181 that keeps its data in data/coordinator below the
/// current directory.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  sillon-coordinator
  sillon-coordinator --config zoo.cfg
  sillon-coordinator --config zoo.cfg --override clientPort=2182 --myid 2
  sillon-coordinator --config zoo.cfg --print-config

Stop it with SIGTERM or Ctrl-C: a leader then asks another member to take over before it goes."
)]
struct Arguments {
    /// ZooKeeper's zoo.cfg.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets one key, over the file. May be given several times.
    #[arg(long = "override", short = 'o', value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Which server.N line is this member, in place of the file myid in dataDir.
    #[arg(long, value_name = "N")]
    myid: Option<String>,
    /// Checks the configuration, prints every key with its value, and exits.
    #[arg(long)]
    print_config: bool,
    /// How many threads serve clients. One is the fastest for most loads: requests are decided one after the other, and
    /// handing them from thread to thread costs more than it gains.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// How log lines are written.
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    log_format: LogFormat,
    /// What is logged, as tracing's filter: info, debug, sillon_coordinator::peer=trace, …
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
            eprintln!("sillon-coordinator: {message}");
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
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Human => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    for warning in warnings {
        tracing::warn!(place = %warning.place, "{}", warning.text);
    }
    let ran = tokio_backend::block_on(Some(usize::from(arguments.threads)), |runtime| async move {
        let stop = async {
            match tokio_backend::stop_signal().await {
                Ok(signal) => tracing::info!(signal, "told to stop"),
                Err(error) => tracing::error!(%error, "signals cannot be received"),
            }
        };
        sillon_coordinator::run(runtime, config, Observers::NONE, stop).await
    });
    ran.map_err(|error| format!("cannot start threads: {error}"))?.map_err(|error| error.to_string())
}

fn configuration(arguments: &Arguments) -> Result<(CoordinatorConfig, Vec<Warning>), String> {
    let mut text = String::from("dataDir=data/coordinator\n");
    let mut source = "defaults".to_owned();
    if let Some(path) = &arguments.config {
        source = path.display().to_string();
        text = std::fs::read_to_string(path).map_err(|error| format!("{source}: {error}"))?;
    }
    let mut list = properties::parse(&text, &source);
    for text in &arguments.overrides {
        let (key, value) = text.split_once('=').ok_or(format!("--override {text}: KEY=VALUE is expected"))?;
        list.push(Property {
            key: key.trim().to_owned(),
            value: value.trim().to_owned(),
            place: Place { source: "--override".to_owned(), line: 0 },
        });
    }
    let data_directory = list.iter().rev().find(|property| property.key == "dataDir");
    let data_directory = data_directory
        .map_or_else(|| CoordinatorConfig::data_directory_of(&text), |set| PathBuf::from(&set.value));
    let myid = match &arguments.myid {
        Some(myid) => Some(myid.clone()),
        None => my_id_file(&data_directory.join("myid"))?,
    };
    CoordinatorConfig::from_list(list, &source, myid.as_deref()).map_err(|error| error.to_string())
}

/// What the file says, where there is one.
fn my_id_file(path: &std::path::Path) -> Result<Option<String>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
