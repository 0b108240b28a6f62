//! The suites: each starts its servers, lets them take turns, and reports ratios with the bounds they have
//! to keep. A bound is in the suite that measures it and nowhere else.

mod fetch;
mod latency;
mod produce;
mod recovery;
mod startup;

pub use fetch::fetch;
pub use latency::latency;
pub use produce::produce;
pub use recovery::recovery;
pub use startup::startup;

use crate::{
    Result,
    client::Connection,
    load,
    process::{self, Program, Server, WorkDirectory},
};
use std::{
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// How to run the suites.
#[derive(Debug)]
pub struct Settings {
    /// The broker's program.
    pub broker: PathBuf,
    /// The program with the floors.
    pub floor: PathBuf,
    /// Where data is kept while a suite runs.
    pub work: WorkDirectory,
    /// How many times the servers take turns.
    pub pairs: usize,
    /// Whether less data will do: for CI, and less exact.
    pub short: bool,
    /// An Apache Kafka that runs already, to take its turn with the others.
    pub kafka: Option<External>,
}

impl Settings {
    /// So many bytes, or an eighth of that in a short run.
    fn volume(&self, bytes: u64) -> u64 {
        if self.short { bytes / 8 } else { bytes }
    }

    /// The broker with its data in a directory of its own.
    fn broker_program(&self, name: &str, processor: Option<usize>) -> Result<Program> {
        let address = process::free_address()?;
        let data = self.work.join(name);
        fs::create_dir_all(&data)?;
        let mut arguments = vec![OsString::from("--log"), OsString::from("warn")];
        for setting in [
            format!("listeners=PLAINTEXT://{address}"),
            format!("log.dirs={}", data.join("log").display()),
            "log.segment.delete.delay.ms=0".to_owned(),
        ] {
            arguments.extend([OsString::from("--override"), OsString::from(setting)]);
        }
        let path = self.broker.clone();
        Ok(Program { path, arguments, address, output: data.join("output"), processor })
    }

    /// One of the floors, on `what`: a directory or a file.
    fn floor_program(&self, kind: &str, what: &Path, processor: Option<usize>) -> Result<Program> {
        let address = process::free_address()?;
        let arguments = vec![kind.into(), address.to_string().into(), what.as_os_str().to_owned()];
        let output = self.work.join("floor.output");
        Ok(Program { path: self.floor.clone(), arguments, address, output, processor })
    }
}

/// A server that runs already.
#[derive(Debug, Clone, Copy)]
pub struct External {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process id, for its CPU time.
    pub pid: u32,
}

const BROKER: &str = "broker";
const FLOOR: &str = "floor";
const KAFKA: &str = "Kafka";

/// A server that takes its turn.
struct Subject {
    name: &'static str,
    address: SocketAddr,
    pid: u32,
    /// Whether topics are created and deleted; the floor takes any name and keeps only the last.
    has_topics: bool,
    /// Kept for its end.
    _server: Option<Server>,
}

impl Subject {
    fn started(name: &'static str, program: &Program) -> Result<Self> {
        let server = Server::start_and_wait(program)?;
        let (address, pid) = (server.address, server.pid());
        Ok(Self { name, address, pid, has_topics: name != FLOOR, _server: Some(server) })
    }

    fn external(name: &'static str, external: External) -> Self {
        Self { name, address: external.address, pid: external.pid, has_topics: true, _server: None }
    }

    /// The broker, the floor and, where there is one, Kafka, all warm.
    fn producers(settings: &Settings, suite: &str) -> Result<Vec<Self>> {
        let floor_data = settings.work.join(format!("{suite}-floor"));
        let mut subjects = vec![
            Self::started(BROKER, &settings.broker_program(&format!("{suite}-broker"), None)?)?,
            Self::started(FLOOR, &settings.floor_program("produce", &floor_data, None)?)?,
        ];
        if let Some(kafka) = settings.kafka {
            subjects.push(Self::external(KAFKA, kafka));
        }
        for subject in &subjects {
            // A virtual machine for Java needs some gigabytes until it has compiled what it runs.
            let volume = settings.volume(if subject.name == KAFKA { 2_000_000_000 } else { 200_000_000 });
            let topic = subject.new_topic(&format!("{suite}-warm-up"))?;
            load::produce(subject.address, &topic, 1, 128 * 1024, volume)?;
            subject.delete_topic(&topic)?;
        }
        Ok(subjects)
    }

    /// Creates a topic with one partition, named so that no run before has used it.
    fn new_topic(&self, name: &str) -> Result<String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let name = format!("{name}-{}", now.as_nanos());
        if self.has_topics {
            Connection::connect(self.address)?.create_topic(&name, 1)?;
        }
        Ok(name)
    }

    fn delete_topic(&self, name: &str) -> Result<()> {
        if self.has_topics {
            Connection::connect(self.address)?.delete_topic(name)?;
        }
        Ok(())
    }

    fn cpu_seconds(&self) -> Result<f64> {
        process::cpu_seconds(self.pid)
    }
}

/// The order of the servers in a turn: forwards and backwards, so that none is always the first.
pub(crate) fn order(subjects: usize, turn: usize) -> Vec<usize> {
    let forwards = 0..subjects;
    if turn.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}
