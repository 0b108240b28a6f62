//! The suites for clusters that run already, each known by the script that controls it. Owns how such a cluster is asked; the bounds are in the suites.

mod idle;
mod latency;
mod replication;

pub use idle::idle;
pub use latency::latency;
pub use replication::replication;

use crate::{Result, client::Connection, load, process};
use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    process::Command,
    str::FromStr,
};

/// How many replicas every partition has.
const REPLICAS: i16 = 3;
/// What a virtual machine for Java takes in until it has compiled what it runs, in bytes.
const WARM_UP_BYTES: u64 = 1_000_000_000;

/// A cluster that runs already.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// What it is called in the report.
    pub name: String,
    /// A script that takes the commands of conformance/cluster.sh.
    pub control: PathBuf,
}

impl FromStr for Cluster {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, control) = text.split_once('=').ok_or("NAME=SCRIPT is expected")?;
        Ok(Self { name: name.to_owned(), control: control.into() })
    }
}

/// How to run the suites.
#[derive(Debug)]
pub struct Settings {
    /// The clusters; the first is ours, and the bounds are its.
    pub clusters: Vec<Cluster>,
    /// How many times they take turns.
    pub pairs: usize,
    /// Whether less data will do: for CI, and less exact.
    pub short: bool,
}

impl Settings {
    fn ours(&self) -> &str {
        &self.clusters[0].name
    }

    /// What ours is compared with, where there is anything.
    fn peer(&self) -> Option<&str> {
        self.clusters.get(1).map(|cluster| cluster.name.as_str())
    }

    /// Lets every cluster take in some data before it is measured.
    ///
    /// # Errors
    /// Clusters that do not answer or that answer with an error.
    pub fn warm_up(&self) -> Result<()> {
        for cluster in &self.clusters {
            let volume = if self.short { WARM_UP_BYTES / 8 } else { WARM_UP_BYTES };
            let topic = cluster.new_topic("warm-up", 1)?;
            load::produce(cluster.leader(&topic)?, &topic, -1, 128 * 1024, volume)?;
            cluster.delete_topic(&topic)?;
        }
        Ok(())
    }
}

impl Cluster {
    fn ask(&self, word: &str) -> Result<String> {
        let output = Command::new(&self.control).arg(word).output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} {word}: {}", self.control.display(), error.trim()).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    fn any_address(&self) -> Result<SocketAddr> {
        let bootstrap = self.ask("bootstrap")?;
        let first = bootstrap.split(',').next().unwrap_or_default();
        first.parse().map_err(|error| format!("{}: bootstrap {first}: {error}", self.name).into())
    }

    /// The process ids of all brokers.
    fn pids(&self) -> Result<Vec<u32>> {
        let pids = self.ask("pids")?;
        pids.split(',').map(|pid| Ok(pid.parse()?)).collect()
    }

    /// The CPU time of all brokers together, in seconds.
    fn cpu_seconds(pids: &[u32]) -> Result<f64> {
        pids.iter().map(|pid| process::cpu_seconds(*pid)).sum()
    }

    /// The resident memory of all brokers together, in bytes.
    fn resident_bytes(pids: &[u32]) -> Result<u64> {
        pids.iter().map(|pid| process::resident_bytes(*pid)).sum()
    }

    fn broker(&self, topic: &str, role: Role) -> Result<SocketAddr> {
        let metadata = Connection::connect(self.any_address()?)?.metadata(topic)?;
        let id = match role {
            Role::Controller => metadata.controller_id,
            Role::LeaderOfPartition0 => {
                let partitions = metadata.topics.iter().flat_map(|topic| &topic.partitions);
                partitions
                    .filter(|partition| partition.partition_index == 0)
                    .map(|partition| partition.leader_id)
                    .next()
                    .unwrap_or(-1)
            }
        };
        let broker = metadata.brokers.iter().find(|broker| broker.node_id == id);
        let broker = broker.ok_or_else(|| format!("{}: no broker is the {role:?} for {topic}", self.name))?;
        let port = u16::try_from(broker.port)?;
        let address = (broker.host.as_str(), port).to_socket_addrs()?.next();
        address.ok_or_else(|| format!("{}: {} is no address", self.name, broker.host).into())
    }

    /// Where the broker listens that leads partition 0.
    fn leader(&self, topic: &str) -> Result<SocketAddr> {
        self.broker(topic, Role::LeaderOfPartition0)
    }

    /// Creates a topic with three replicas, named so that no run before has used it.
    fn new_topic(&self, name: &str, partitions: i32) -> Result<String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let name = format!("{name}-{}", now.as_nanos());
        let controller = self.broker(&name, Role::Controller)?;
        Connection::connect(controller)?.create_replicated_topic(&name, partitions, REPLICAS)?;
        Ok(name)
    }

    fn delete_topic(&self, name: &str) -> Result<()> {
        Connection::connect(self.broker(name, Role::Controller)?)?.delete_topic(name)
    }
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Controller,
    LeaderOfPartition0,
}
