//! What a cluster needs while nothing happens: CPU and memory of many partitions that nobody writes to.

use super::{Cluster, REPLICAS, Settings};
use crate::{Result, report::Report};
use std::{thread::sleep, time::Duration};

const CPU: &str = "CPU ms/s, all brokers";
const MEMORY: &str = "KiB resident for each replica";
const PARTITIONS: i32 = 1000;
/// Until the new partitions have come to rest.
const SETTLE: Duration = Duration::from_secs(10);
/// Ours against Apache Kafka, for CPU.
const BOUND: f64 = 1.0;

/// A topic with 1,000 partitions and three replicas, in clusters that nobody uses: their CPU, and how much memory came with it.
///
/// # Errors
/// Clusters that do not answer or that answer with an error.
pub fn idle(settings: &Settings) -> Result<Vec<Report>> {
    let watched = Duration::from_secs(if settings.short { 10 } else { 30 });
    let mut report = Report::new(format!(
        "idle: {PARTITIONS} partitions with {REPLICAS} replicas, watched for {} s, {} times",
        watched.as_secs(),
        settings.pairs
    ));
    for cluster in &settings.clusters {
        let pids = cluster.pids()?;
        let memory = Cluster::resident_bytes(&pids)?;
        let topic = cluster.new_topic("idle", PARTITIONS)?;
        sleep(SETTLE);
        let mut cpu = Vec::new();
        for _ in 0..settings.pairs {
            let before = Cluster::cpu_seconds(&pids)?;
            sleep(watched);
            cpu.push((Cluster::cpu_seconds(&pids)? - before) * 1e3 / watched.as_secs_f64());
        }
        let more = Cluster::resident_bytes(&pids)?.saturating_sub(memory);
        report.measure(&cluster.name, CPU, cpu);
        let replicas = f64::from(PARTITIONS) * f64::from(REPLICAS);
        report.measure(&cluster.name, MEMORY, vec![more as f64 / 1024.0 / replicas]);
        cluster.delete_topic(&topic)?;
    }
    if let Some(peer) = settings.peer() {
        report.bound_ratio(settings.ours(), peer, CPU, BOUND);
    }
    Ok(vec![report])
}
