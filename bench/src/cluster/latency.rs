//! How long a record takes at a steady rate until three brokers have it, and how much CPU they need for it.

use super::{Cluster, Settings};
use crate::{
    Result, load,
    process::Spinners,
    report::{Report, percentile},
    suites::order,
};

const P50: &str = "p50 ms";
const P99: &str = "p99 ms";
const CPU: &str = "CPU us/record, all brokers";
const RECORDS_PER_SECOND: u32 = 1000;
/// Ours against Apache Kafka.
const BOUNDS: [(&str, f64); 3] = [(P50, 1.0), (P99, 1.0), (CPU, 0.5)];

/// One record of 1 KiB every millisecond, acks=all, three replicas, timed from the moment when it was due.
///
/// # Errors
/// Clusters that do not answer or that answer with an error.
pub fn latency(settings: &Settings) -> Result<Vec<Report>> {
    let clusters = &settings.clusters;
    let spinners = Spinners::start()?;
    let count = RECORDS_PER_SECOND * if settings.short { 2 } else { 10 };
    let mut values = vec![[const { Vec::new() }; 3]; clusters.len()];
    for turn in 0..settings.pairs {
        for index in order(clusters.len(), turn) {
            let cluster = &clusters[index];
            let topic = cluster.new_topic("latency", 1)?;
            let (leader, pids) = (cluster.leader(&topic)?, cluster.pids()?);
            let before = Cluster::cpu_seconds(&pids)?;
            let taken = load::latencies(leader, &topic, -1, RECORDS_PER_SECOND, count)?;
            let cpu = (Cluster::cpu_seconds(&pids)? - before) * 1e6 / f64::from(count);
            values[index][0].push(percentile(&taken, 50) as f64 / 1e3);
            values[index][1].push(percentile(&taken, 99) as f64 / 1e3);
            values[index][2].push(cpu);
            cluster.delete_topic(&topic)?;
        }
    }
    drop(spinners);
    let mut report = Report::new(format!(
        "latency at {RECORDS_PER_SECOND} records/s of 1 KiB, acks=all, three replicas: {} interleaved runs of {count} records",
        settings.pairs
    ));
    for (cluster, values) in clusters.iter().zip(values) {
        for (quantity, runs) in [P50, P99, CPU].into_iter().zip(values) {
            report.measure(&cluster.name, quantity, runs);
        }
    }
    report.note("every processor spins at the lowest priority meanwhile: an idle one sleeps, and waking it is most of what would be measured");
    if let Some(peer) = settings.peer() {
        for (quantity, bound) in BOUNDS {
            report.bound_ratio(settings.ours(), peer, quantity, bound);
        }
    }
    Ok(vec![report])
}
