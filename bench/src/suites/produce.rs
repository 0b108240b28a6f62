//! How much CPU a server needs to take in a gigabyte.

use super::{BROKER, FLOOR, KAFKA, Settings, Subject, order};
use crate::{Result, load, report::Report};

const QUANTITY: &str = "CPU s/GB";
/// The broker against a server that only checks, appends and acknowledges.
const FLOOR_BOUND: f64 = 1.5;
/// The broker against Apache Kafka.
const KAFKA_BOUND: f64 = 0.25;

/// Produce with acks=1 in batches of 16 KiB and of 128 KiB, records of 1 KiB, one partition.
///
/// # Errors
/// Servers that do not start or that answer with an error.
pub fn produce(settings: &Settings) -> Result<Vec<Report>> {
    let subjects = Subject::producers(settings, "produce")?;
    [16, 128].into_iter().map(|kibibytes| one_size(settings, &subjects, kibibytes)).collect()
}

fn one_size(settings: &Settings, subjects: &[Subject], kibibytes: usize) -> Result<Report> {
    let volume = settings.volume(1_000_000_000);
    let mut cpu = vec![Vec::new(); subjects.len()];
    let mut rate = vec![Vec::new(); subjects.len()];
    for turn in 0..settings.pairs {
        for index in order(subjects.len(), turn) {
            let subject = &subjects[index];
            let topic = subject.new_topic(&format!("produce-{kibibytes}"))?;
            let before = subject.cpu_seconds()?;
            let produced = load::produce(subject.address, &topic, 1, kibibytes * 1024, volume)?;
            let gigabytes = produced.bytes as f64 / 1e9;
            cpu[index].push((subject.cpu_seconds()? - before) / gigabytes);
            rate[index].push(gigabytes * 1e3 / produced.elapsed.as_secs_f64());
            subject.delete_topic(&topic)?;
        }
    }
    let mut report = Report::new(format!(
        "produce, acks=1, batches of {kibibytes} KiB, records of 1 KiB: {} interleaved runs of {} MB",
        settings.pairs,
        volume / 1_000_000
    ));
    for ((subject, cpu), rate) in subjects.iter().zip(cpu).zip(rate) {
        report.measure(subject.name, QUANTITY, cpu);
        report.measure(subject.name, "MB/s", rate);
    }
    report.bound_ratio(BROKER, FLOOR, QUANTITY, FLOOR_BOUND);
    if settings.kafka.is_some() {
        report.bound_ratio(BROKER, KAFKA, QUANTITY, KAFKA_BOUND);
    }
    Ok(report)
}
