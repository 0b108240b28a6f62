//! The `sillon` program: command line, output and exit code around the library. One file for each command besides topics
//! and the cluster.

mod bench;
mod configs;
mod consume;
mod groups;
mod output;
mod partitions;
mod produce;
mod progress;
mod reassign;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use sillon_client::{
    admin::{Address, Admin, AdminError, AdminOptions, NewTopic},
    cluster::NetworkConfig,
};
use sillon_runtime::{Runtime, tokio_backend};
use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
    time::Duration,
};
use tracing_subscriber::EnvFilter;

/// Writes to, reads from and administrates a Sillon cluster, or any other that speaks Apache Kafka's protocol.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  sillon topics list
  sillon topics create orders --partitions 12 --replication-factor 3 --config min.insync.replicas=2
  sillon topics describe orders --bootstrap-server broker1:9092,broker2:9092
  echo hello | sillon produce orders
  sillon consume orders --from-beginning --exit-at-end
  sillon groups describe readers
  sillon configs alter --topic orders --set retention.ms=86400000
  sillon cluster describe --json

The exit code is 0 where all went well, 1 where a broker could not be reached or refused, 2 where the command is wrong."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Brokers to begin with; one that lives is enough.
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT[,…]",
        default_value = "127.0.0.1:9092",
        env = "SILLON_BOOTSTRAP_SERVER"
    )]
    bootstrap_server: String,
    /// Prints JSON instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// How long to keep trying, in seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    /// What is logged to standard error, as tracing's filter: warn, debug, …
    #[arg(long, global = true, value_name = "FILTER", default_value = "warn", env = "SILLON_LOG")]
    log: String,
}

#[derive(Subcommand)]
enum Command {
    /// Topics: list, describe, create, delete.
    #[command(subcommand)]
    Topics(Topics),
    /// The cluster: its brokers, their racks, the controller.
    #[command(subcommand)]
    Cluster(Cluster),
    /// Writes lines of standard input or of a file as records.
    Produce(produce::Produce),
    /// Prints records.
    Consume(consume::Consume),
    /// Groups of consumers: list, describe with lag, set back, delete.
    #[command(subcommand)]
    Groups(groups::Groups),
    /// Configuration of topics and brokers: describe, alter.
    #[command(subcommand)]
    Configs(configs::Configs),
    /// Partitions: add, elect leaders.
    #[command(subcommand)]
    Partitions(partitions::Partitions),
    /// Moves partitions to other brokers, or prints which are on their way.
    Reassign(reassign::Reassign),
    /// Measures how fast records are written and read.
    Bench(bench::Bench),
    /// Prints a script that completes these commands in a shell.
    #[command(after_help = "\
Examples:
  sillon completions bash > ~/.local/share/bash-completion/completions/sillon
  sillon completions fish > ~/.config/fish/completions/sillon.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// What every command needs.
struct Context {
    runtime: Runtime,
    bootstrap: Vec<Address>,
    timeout: Duration,
    json: bool,
}

impl Context {
    fn network(&self) -> NetworkConfig {
        NetworkConfig::new(self.bootstrap.clone())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Subcommand)]
enum Topics {
    /// Prints the names of all topics, one a line.
    List {
        /// Leaves out the brokers' own topics.
        #[arg(long)]
        exclude_internal: bool,
    },
    /// Prints topics with their partitions, leaders and replicas in sync, as Kafka's own tool does.
    #[command(after_help = "\
Examples:
  sillon topics describe               all topics
  sillon topics describe orders bills  these two")]
    Describe {
        /// The topics; all where none is named.
        topics: Vec<String>,
        /// Only partitions with a replica that is not in sync.
        #[arg(long)]
        under_replicated_partitions: bool,
        /// Only partitions without a leader.
        #[arg(long)]
        unavailable_partitions: bool,
    },
    /// Creates a topic, and waits until it can be used.
    #[command(after_help = "\
Examples:
  sillon topics create orders
  sillon topics create orders --partitions 12 --replication-factor 3 --config retention.ms=86400000
  sillon topics create orders --replica-assignment 1:2,2:3     partition 0 on brokers 1 and 2, partition 1 on 2 and 3")]
    Create(Create),
    /// Deletes topics, and waits until they are gone from the metadata.
    Delete {
        /// The topics.
        #[arg(required = true)]
        topics: Vec<String>,
        /// It is no error where a topic does not exist.
        #[arg(long)]
        if_exists: bool,
    },
}

#[derive(Args)]
struct Create {
    /// Its name.
    topic: String,
    /// How many partitions; by default the brokers' num.partitions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// How many replicas of each; by default the brokers' default.replication.factor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// Which brokers hold each partition, the preferred leader first.
    #[arg(
        long,
        value_name = "A:B,C:D,…",
        conflicts_with_all = ["partitions", "replication_factor"],
        value_parser = parse_assignments
    )]
    replica_assignment: Option<Assignments>,
    /// One configuration of the topic. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_config)]
    config: Vec<(String, String)>,
    /// It is no error where the topic exists already.
    #[arg(long)]
    if_not_exists: bool,
    /// Only checks whether it could be created.
    #[arg(long)]
    validate_only: bool,
}

#[derive(Subcommand)]
enum Cluster {
    /// Prints the living brokers with their addresses and racks, and which of them is the controller.
    Describe,
}

/// Broker ids of partition 0, 1, …
#[derive(Clone)]
struct Assignments(Vec<Vec<i32>>);

fn parse_assignments(text: &str) -> Result<Assignments, String> {
    let broker = |id: &str| id.parse::<i32>().map_err(|_| format!("\"{id}\" is not a broker id"));
    let partition = |ids: &str| ids.split(':').map(broker).collect();
    text.split(',').map(partition).collect::<Result<_, _>>().map(Assignments)
}

fn parse_config(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("KEY=VALUE is expected")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sillon: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: Arguments) -> Result<(), String> {
    if let Command::Completions { shell } = arguments.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "sillon", &mut script);
        return print(&script);
    }
    let common = arguments.common;
    let filter = EnvFilter::try_new(&common.log).map_err(|error| format!("--log {}: {error}", common.log))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let bootstrap = Address::parse_list(&common.bootstrap_server).map_err(|error| error.to_string())?;
    let mut options =
        AdminOptions { timeout: Duration::from_secs(common.timeout.into()), ..Default::default() };
    options.connection.request_timeout = options.connection.request_timeout.min(options.timeout);
    options.connection.connect_timeout = options.connection.connect_timeout.min(options.timeout);
    let ran = tokio_backend::block_on(Some(1), |runtime| async move {
        let mut admin = Admin::new(runtime.clone(), bootstrap.clone(), options.clone());
        let context = Context { runtime, bootstrap, timeout: options.timeout, json: common.json };
        run(&context, &mut admin, arguments.command).await
    });
    let text = ran.map_err(|error| format!("cannot start threads: {error}"))??;
    print(text.as_bytes())
}

fn print(text: &[u8]) -> Result<(), String> {
    match std::io::stdout().write_all(text) {
        // Whoever reads has enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}

/// Carries the command out and gives what is to be printed at its end.
async fn run(context: &Context, admin: &mut Admin, command: Command) -> Result<String, String> {
    let told = |error: AdminError| error.to_string();
    match command {
        Command::Produce(command) => produce::run(context, command).await,
        Command::Consume(command) => consume::run(context, admin, command).await,
        Command::Bench(command) => bench::run(context, command).await,
        Command::Groups(command) => groups::run(context, admin, command).await,
        Command::Configs(command) => configs::run(context, admin, command).await.map_err(told),
        Command::Partitions(command) => partitions::run(context, admin, command).await.map_err(told),
        Command::Reassign(command) => reassign::run(context, admin, command).await.map_err(told),
        Command::Cluster(Cluster::Describe) => {
            let cluster = admin.describe_cluster().await.map_err(told)?;
            Ok(output::cluster(&cluster, context.json))
        }
        Command::Completions { .. } => unreachable!("it needs no broker, and was printed already"),
        Command::Topics(command) => topics(admin, command, context.json).await.map_err(told),
    }
}

async fn topics(admin: &mut Admin, command: Topics, json: bool) -> Result<String, AdminError> {
    match command {
        Topics::List { exclude_internal } => {
            let mut topics = admin.list_topics().await?;
            topics.retain(|topic| !(exclude_internal && topic.is_internal));
            Ok(output::topic_names(&topics, json))
        }
        Topics::Describe { topics, under_replicated_partitions, unavailable_partitions } => {
            let mut described = admin.describe_topics(&topics).await?;
            let is_filtered = under_replicated_partitions || unavailable_partitions;
            for topic in described.iter_mut().filter(|_| is_filtered) {
                topic.partitions.retain(|partition| {
                    (under_replicated_partitions && partition.isr.len() < partition.replicas.len())
                        || (unavailable_partitions && partition.leader.is_none())
                });
            }
            Ok(output::topics(&described, json, !is_filtered))
        }
        Topics::Create(create) => {
            let topic = NewTopic {
                name: create.topic,
                partitions: create.partitions,
                replication_factor: create.replication_factor,
                assignments: create.replica_assignment.map_or_else(Vec::new, |assignments| assignments.0),
                configs: create.config,
                validate_only: create.validate_only,
            };
            let what = if create.validate_only { "Could create" } else { "Created" };
            match admin.create_topic(&topic).await {
                Ok(()) => Ok(output::done(what, "created", &topic.name, json)),
                Err(error) if create.if_not_exists && exists_already(&error) => Ok(String::new()),
                Err(error) => Err(error),
            }
        }
        Topics::Delete { topics, if_exists } => {
            let mut text = String::new();
            for topic in topics {
                match admin.delete_topic(&topic).await {
                    Ok(()) => text += &output::done("Deleted", "deleted", &topic, json),
                    Err(error) if if_exists && is_unknown(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(text)
        }
    }
}

fn exists_already(error: &AdminError) -> bool {
    matches!(error, AdminError::Refused { code: sillon_protocol::ErrorCode::TOPIC_ALREADY_EXISTS, .. })
}

fn is_unknown(error: &AdminError) -> bool {
    matches!(error, AdminError::Refused { code: sillon_protocol::ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, .. })
}
