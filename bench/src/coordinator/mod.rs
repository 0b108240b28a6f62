//! Measurements of the coordinator against a real ZooKeeper, both as processes of their own that take turns under the same
//! load, with fsync before every acknowledgement.
//!
//! ```text
//!   throughput  requests a second, latency and CPU, many in flight and one at a time
//!   failover    how long writes stand still when the leader is killed
//!   memory      bytes for each node beyond its path and data
//!   slope       what an operation costs more with a million nodes than with a thousand
//! ```

mod ensemble;
mod failover;
mod memory;
mod slope;
mod throughput;

pub use ensemble::Ensemble;
pub use failover::failover;
pub use memory::memory;
pub use slope::slope;
pub use throughput::throughput;

use crate::{
    Result,
    process::WorkDirectory,
    zookeeper::{self, Connection, Load, Operation},
};
use std::{net::SocketAddr, path::PathBuf};

/// Our name in tables.
const OURS: &str = "coordinator";
/// The peer's.
const ZOOKEEPER: &str = "ZooKeeper";
/// Ports below those from which the operating system takes its own for connections; members count up from these, and
/// take those 100 and 200 further too.
const BASE_PORTS: [u16; 2] = [24_000, 24_400];

/// How to measure.
#[derive(Debug)]
pub struct Settings {
    /// conformance/ensemble.sh.
    pub coordinator: PathBuf,
    /// conformance/peers/zookeeper.sh, where there is a real ZooKeeper to compare with.
    pub zookeeper: Option<PathBuf>,
    /// Whether only ZooKeeper is measured.
    pub without_coordinator: bool,
    /// Where the members keep their data.
    pub work: WorkDirectory,
    /// How many times the servers take turns.
    pub pairs: usize,
    /// Whether less work will do: for CI, and less exact.
    pub short: bool,
}

impl Settings {
    /// Both ensembles, started without data.
    fn start(&self, members: usize) -> Result<Vec<Ensemble>> {
        let mut ensembles = Vec::new();
        if !self.without_coordinator {
            ensembles.push((OURS, self.coordinator.clone()));
        }
        if let Some(script) = &self.zookeeper {
            ensembles.push((ZOOKEEPER, script.clone()));
        }
        let mut started = Vec::new();
        for ((name, script), base_port) in ensembles.into_iter().zip(BASE_PORTS) {
            let ensemble = Ensemble::new(name, script, members, self.work.join(name), base_port);
            ensemble.start_empty()?;
            started.push(ensemble);
        }
        Ok(started)
    }

    /// So many, or an eighth in a short run.
    fn amount(&self, full: usize) -> usize {
        if self.short { full / 8 } else { full }
    }

    /// Whether ratios can be told.
    fn has_both(&self) -> bool {
        self.zookeeper.is_some() && !self.without_coordinator
    }
}

/// Makes a node without data.
fn make(server: SocketAddr, path: &str) -> Result<()> {
    let mut connection = Connection::connect(server)?;
    let error = connection.call(Operation::Create, path, b"")?;
    if error != 0 {
        return Err(format!("{path} was not created: error {error}").into());
    }
    connection.close()
}

/// How many children each parent of a filled tree has, so that no list of children becomes long.
const CHILDREN: usize = 1000;

/// The path of node `index` of a filled tree.
fn filled_path(top: &str, index: usize) -> String {
    format!("{top}/p{:04}/n{:07}", index / CHILDREN, index)
}

/// Fills a tree with nodes from `from` to `to`, whole parents at a time; gives the bytes of their paths and data.
fn fill(server: SocketAddr, top: &str, from: usize, to: usize, data_bytes: usize) -> Result<usize> {
    const CLIENTS: usize = 8;
    assert!(from.is_multiple_of(CHILDREN) && to.is_multiple_of(CHILDREN), "whole parents");
    let parents = Load { connections: 1, depth: 64, requests_each: (to - from) / CHILDREN, data_bytes: 0 };
    let parent = |index: usize| {
        let path = filled_path(top, from + index * CHILDREN);
        path[..path.rfind('/').expect("a parent")].to_owned()
    };
    zookeeper::run(&[server], Operation::Create, &parents, &|_, index| parent(index))?;
    let each = (to - from) / CLIENTS;
    assert_eq!(each * CLIENTS, to - from, "the same for all clients");
    let nodes = Load { connections: CLIENTS, depth: 64, requests_each: each, data_bytes };
    let path = |client: usize, index: usize| filled_path(top, from + client * each + index);
    zookeeper::run(&[server], Operation::Create, &nodes, &path)?;
    let of_nodes: usize = (from..to).map(|index| filled_path(top, index).len() + data_bytes).sum();
    let of_parents: usize = (0..parents.requests_each).map(|index| parent(index).len()).sum();
    Ok(of_nodes + of_parents)
}
