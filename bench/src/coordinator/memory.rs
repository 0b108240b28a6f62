//! Bytes of memory for each node beyond its path and data.

use super::{Ensemble, OURS, Settings, ZOOKEEPER, fill};
use crate::{Result, report::Report};
use std::{process::Command, thread::sleep, time::Duration};

const OVERHEAD: &str = "bytes/node beyond the payload";
/// The same for ZooKeeper without its garbage: what is left of the heap after a full collection.
const LIVE_OVERHEAD: &str = "live bytes/node beyond it";
const BOUND_BYTES: f64 = 200.0;
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
        let live_before = live_heap_bytes(ensemble)?;
        let payload = fill(server, "", 0, nodes, DATA_BYTES)?;
        sleep(REST);
        let growth = ensemble.resident_bytes()?.saturating_sub(before);
        let overhead = |growth: u64| (growth as f64 - payload as f64) / nodes as f64;
        report.measure(ensemble.name, OVERHEAD, vec![overhead(growth)]);
        if ensemble.name == OURS {
            report.bound(format!("{OURS}, {OVERHEAD}"), overhead(growth), BOUND_BYTES);
        }
        if let (Some(before), Some(after)) = (live_before, live_heap_bytes(ensemble)?) {
            report.measure(ensemble.name, LIVE_OVERHEAD, vec![overhead(after.saturating_sub(before))]);
        }
    }
    report.note("ZooKeeper's resident memory is its heap, with garbage; what is live is told beside it");
    Ok(vec![report])
}

/// What ZooKeeper's heap holds after a full collection; nothing for a server that has no such heap.
fn live_heap_bytes(ensemble: &Ensemble) -> Result<Option<u64>> {
    if ensemble.name != ZOOKEEPER {
        return Ok(None);
    }
    let mut live = 0;
    for pid in ensemble.pids()? {
        let ask = |what: &str| -> Result<String> {
            let output = Command::new("jcmd").args([&pid.to_string(), what]).output();
            Ok(String::from_utf8(output.map_err(|error| format!("jcmd: {error}"))?.stdout)?)
        };
        ask("GC.run")?;
        let told = ask("GC.heap_info")?;
        let used = told.split("used ").nth(1).and_then(|rest| rest.split('K').next());
        let used = used.and_then(|kibibytes| kibibytes.parse::<u64>().ok());
        live += used.ok_or_else(|| format!("jcmd tells no heap: {told}"))? * 1024;
    }
    Ok(Some(live))
}
