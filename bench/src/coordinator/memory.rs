//! Bytes of memory for each node beyond its path and data.

use super::{OURS, Settings, ZOOKEEPER, fill};
use crate::{Result, report::Report};
use std::{thread::sleep, time::Duration};

const OVERHEAD: &str = "bytes/node beyond the payload";
const BOUND: f64 = 1.0;
const NODES: usize = 200_000;
const DATA_BYTES: usize = 100;
/// Until a server has done what it does behind the load.
const REST: Duration = Duration::from_secs(5);

/// Growth of resident memory over 200,000 nodes with 100 bytes each, less their paths and data.
///
/// # Errors
/// Servers that do not start, and answers with an error.
pub fn memory(settings: &Settings) -> Result<Vec<Report>> {
    let nodes = if settings.short { NODES / 5 } else { NODES };
    let ensembles = settings.start(1)?;
    let mut report =
        Report::new(format!("memory of {nodes} nodes with {DATA_BYTES} bytes of data, one member"));
    for ensemble in &ensembles {
        let server = ensemble.addresses()?[0];
        // The buffers and the tree's first nodes are not what is asked.
        fill(server, "", 900_000, 904_000, DATA_BYTES)?;
        sleep(REST);
        let before = ensemble.resident_bytes()?;
        let payload = fill(server, "", 0, nodes, DATA_BYTES)?;
        sleep(REST);
        let growth = ensemble.resident_bytes()?.saturating_sub(before);
        let overhead = (growth as f64 - payload as f64) / nodes as f64;
        report.measure(ensemble.name, OVERHEAD, vec![overhead]);
    }
    if settings.has_both() {
        report.bound_ratio(OURS, ZOOKEEPER, OVERHEAD, BOUND);
    }
    report.note("ZooKeeper's growth is that of its heap: garbage is in it as much as nodes are");
    Ok(vec![report])
}
