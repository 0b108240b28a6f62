//! Requests a second, latency and CPU: many clients with many requests in flight, and one client with one.

use super::{Ensemble, OURS, Settings, ZOOKEEPER, make};
use crate::{
    Result,
    report::{Report, percentile},
    suites::order,
    zookeeper::{self, Load, Operation},
};

const DATA_BYTES: usize = 1024;
/// At most half of the microseconds that ZooKeeper needs where many requests are in flight, wall time and CPU.
const BUSY_BOUND: f64 = 0.5;
/// No more wall time than it needs where there is one.
const ALONE_BOUND: f64 = 1.0;
const QUANTITIES: [&str; 4] = ["us/op", "p50 ms", "p99 ms", "CPU us/op"];
/// Those that are compared; the first alone where there is one request at a time.
const COMPARED: [&str; 2] = ["us/op", "CPU us/op"];

/// Create, set, get, exists and delete of nodes with 1 KiB, by ensembles of one and of three.
///
/// # Errors
/// Servers that do not start, and answers with an error or out of order.
pub fn throughput(settings: &Settings) -> Result<Vec<Report>> {
    let busy =
        Load { connections: 16, depth: 64, requests_each: settings.amount(4000), data_bytes: DATA_BYTES };
    let alone =
        Load { connections: 1, depth: 1, requests_each: settings.amount(2000), data_bytes: DATA_BYTES };
    let mut reports = Vec::new();
    for members in [1, 3] {
        let ensembles = settings.start(members)?;
        for ensemble in &ensembles {
            // A virtual machine for Java needs some work until it has compiled what it runs.
            round(ensemble, &Load { requests_each: settings.amount(8000), ..busy }, "/warm-up")?;
        }
        for load in [busy, alone] {
            reports.push(compare(settings, &ensembles, members, &load)?);
        }
    }
    Ok(reports)
}

fn compare(settings: &Settings, ensembles: &[Ensemble], members: usize, load: &Load) -> Result<Report> {
    let mut rounds = vec![Vec::new(); ensembles.len()];
    for turn in 0..settings.pairs {
        for index in order(ensembles.len(), turn) {
            let top = format!("/{}x{}-{turn}", load.connections, load.depth);
            rounds[index].push(round(&ensembles[index], load, &top)?);
        }
    }
    let mut report = Report::new(format!(
        "{members} member(s), {} connections x {} in flight, {DATA_BYTES} B, {} requests of each kind: {} interleaved runs",
        load.connections,
        load.depth,
        load.requests(),
        settings.pairs
    ));
    for (kind, operation) in Operation::ALL.into_iter().enumerate() {
        for (ensemble, rounds) in ensembles.iter().zip(&rounds) {
            for (position, quantity) in QUANTITIES.iter().enumerate() {
                let runs = rounds.iter().map(|round| round[kind][position]).collect();
                report.measure(ensemble.name, &format!("{} {quantity}", operation.name()), runs);
            }
        }
    }
    if settings.has_both() {
        let (bound, compared) =
            if load.depth > 1 { (BUSY_BOUND, &COMPARED[..]) } else { (ALONE_BOUND, &COMPARED[..1]) };
        for operation in Operation::ALL {
            for quantity in compared {
                report.bound_ratio(OURS, ZOOKEEPER, &format!("{} {quantity}", operation.name()), bound);
            }
        }
    }
    report.note("fsync before every acknowledgement of a write; CPU is that of all members together");
    Ok(report)
}

/// Every operation once on nodes of its own; gives the quantities of each.
fn round(ensemble: &Ensemble, load: &Load, top: &str) -> Result<Vec<[f64; QUANTITIES.len()]>> {
    let servers = ensemble.addresses()?;
    make(servers[0], top)?;
    let path = |client: usize, index: usize| format!("{top}/c{client}-{index:08}");
    Operation::ALL
        .into_iter()
        .map(|operation| {
            let before = ensemble.cpu_seconds()?;
            let ran = zookeeper::run(&servers, operation, load, &path)?;
            let cpu = ensemble.cpu_seconds()? - before;
            let requests = load.requests() as f64;
            Ok([
                ran.elapsed.as_secs_f64() * 1e6 / requests,
                percentile(&ran.taken_us, 50) as f64 / 1e3,
                percentile(&ran.taken_us, 99) as f64 / 1e3,
                cpu * 1e6 / requests,
            ])
        })
        .collect()
}
