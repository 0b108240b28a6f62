//! How much CPU three brokers need together to take in a gigabyte and keep it three times.

use super::{Cluster, Settings};
use crate::{Result, load, report::Report, suites::order};

const QUANTITY: &str = "CPU s/GB, all brokers";
/// Ours against Apache Kafka.
const KAFKA_BOUND: f64 = 0.25;

/// Produce with acks=all in batches of 16 KiB, 128 KiB and 1 MB, records of 1 KiB, one partition, three replicas.
///
/// # Errors
/// Clusters that do not answer or that answer with an error.
pub fn replication(settings: &Settings) -> Result<Vec<Report>> {
    // Kafka refuses batches above 1,048,588 bytes.
    [(16 << 10, "16 KiB"), (128 << 10, "128 KiB"), (1_000_000, "1 MB")]
        .into_iter()
        .map(|(bytes, told)| one_size(settings, bytes, told))
        .collect()
}

fn one_size(settings: &Settings, batch_bytes: usize, told: &str) -> Result<Report> {
    let volume = if settings.short { 125_000_000 } else { 1_000_000_000 };
    let clusters = &settings.clusters;
    let mut cpu = vec![Vec::new(); clusters.len()];
    let mut rate = vec![Vec::new(); clusters.len()];
    for turn in 0..settings.pairs {
        for index in order(clusters.len(), turn) {
            let cluster = &clusters[index];
            let topic = cluster.new_topic("replication", 1)?;
            let (leader, pids) = (cluster.leader(&topic)?, cluster.pids()?);
            let before = Cluster::cpu_seconds(&pids)?;
            let produced = load::produce(leader, &topic, -1, batch_bytes, volume)?;
            let gigabytes = produced.bytes as f64 / 1e9;
            cpu[index].push((Cluster::cpu_seconds(&pids)? - before) / gigabytes);
            rate[index].push(gigabytes * 1e3 / produced.elapsed.as_secs_f64());
            cluster.delete_topic(&topic)?;
        }
    }
    let mut report = Report::new(format!(
        "produce, acks=all, three replicas, batches of {told}, records of 1 KiB: {} interleaved runs of {} MB",
        settings.pairs,
        volume / 1_000_000
    ));
    for ((cluster, cpu), rate) in clusters.iter().zip(cpu).zip(rate) {
        report.measure(&cluster.name, QUANTITY, cpu);
        report.measure(&cluster.name, "MB/s", rate);
    }
    if let Some(peer) = settings.peer() {
        report.bound_ratio(settings.ours(), peer, QUANTITY, KAFKA_BOUND);
    }
    Ok(report)
}
