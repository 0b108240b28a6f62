//! What an operation costs more with a million nodes than with a thousand: a tree whose lookups and snapshots scale
//! shows little of it.

use super::{Ensemble, OURS, Settings, ZOOKEEPER, fill, filled_path, make};
use crate::{
    Result,
    report::{Report, median},
    zookeeper::{self, Load, Operation},
};
use std::{thread::sleep, time::Duration};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
const DATA_BYTES: usize = 100;
const ROUNDS: usize = 3;
/// How much more a request may cost of our CPU with a tree a thousand times larger, which no cache of a processor holds.
const GROWTH_BOUND: f64 = 1.5;
/// Less CPU than ZooKeeper needs, with the larger tree.
const BOUND: f64 = 1.0;
/// Until a server has done what it does behind the load.
const REST: Duration = Duration::from_secs(5);
/// The top of the tree that is filled.
const TREE: &str = "";

/// CPU of each operation on one member with few nodes and with many.
///
/// # Errors
/// Servers that do not start, and answers with an error.
pub fn slope(settings: &Settings) -> Result<Vec<Report>> {
    let many = if settings.short { MANY / 10 } else { MANY };
    let load =
        Load { connections: 16, depth: 64, requests_each: settings.amount(4000), data_bytes: DATA_BYTES };
    let mut report = Report::new(format!(
        "CPU of an operation with {FEW} nodes and with {many}, one member, {} requests: {ROUNDS} runs each",
        load.requests()
    ));
    for ensemble in settings.start(1)? {
        let server = ensemble.addresses()?[0];
        fill(server, TREE, 0, FEW, DATA_BYTES)?;
        costs(&ensemble, &load, FEW, "/warm-up")?;
        let few = costs(&ensemble, &load, FEW, "/few")?;
        fill(server, TREE, FEW * 8, many, DATA_BYTES)?;
        sleep(REST);
        let many_costs = costs(&ensemble, &load, many, "/many")?;
        for ((operation, few), many_cost) in Operation::ALL.into_iter().zip(few).zip(many_costs) {
            let name = operation.name();
            let growth = median(&many_cost) / median(&few);
            report.measure(ensemble.name, &format!("{name} CPU us, {FEW}"), few);
            report.measure(ensemble.name, &format!("{name} CPU us, {many}"), many_cost);
            if ensemble.name == OURS {
                report.bound(format!("{OURS}, {name}: growth of CPU"), growth, GROWTH_BOUND);
            } else {
                report.note(format!("{ZOOKEEPER}, {name}: growth of CPU {growth:.3}"));
            }
        }
    }
    if settings.has_both() {
        for operation in Operation::ALL {
            report.bound_ratio(OURS, ZOOKEEPER, &format!("{} CPU us, {many}", operation.name()), BOUND);
        }
    }
    Ok(vec![report])
}

/// The CPU microseconds of each operation, several times: reads go all over the tree, writes have nodes of their own.
fn costs(ensemble: &Ensemble, load: &Load, nodes: usize, top: &str) -> Result<Vec<Vec<f64>>> {
    let servers = ensemble.addresses()?;
    let mut found = vec![Vec::new(); Operation::ALL.len()];
    for round in 0..ROUNDS {
        let top = format!("{top}-{round}");
        make(servers[0], &top)?;
        for (kind, operation) in Operation::ALL.into_iter().enumerate() {
            let own = |client: usize, index: usize| format!("{top}/c{client}-{index:08}");
            let anywhere = |client: usize, index: usize| filled_path(TREE, scattered(client, index, nodes));
            let before = ensemble.cpu_seconds()?;
            match operation {
                Operation::Get | Operation::Exists => zookeeper::run(&servers, operation, load, &anywhere)?,
                Operation::Create | Operation::Set | Operation::Delete => {
                    zookeeper::run(&servers, operation, load, &own)?
                }
            };
            let cpu = ensemble.cpu_seconds()? - before;
            found[kind].push(cpu * 1e6 / load.requests() as f64);
        }
    }
    Ok(found)
}

/// A node of the tree, all over it, the same in every run. Of a large tree the first parents after the first are missing.
fn scattered(client: usize, index: usize, nodes: usize) -> usize {
    const LARGE_ODD: usize = 0x9E37_79B9_7F4A_7C15;
    let number = (client << 32 | index).wrapping_mul(LARGE_ODD) >> 24;
    let node = number % nodes;
    if node < FEW * 8 { node % FEW } else { node }
}
