//! How long a record takes at a steady rate, and how much CPU the server needs for it.

use super::{BROKER, KAFKA, Settings, Subject, order};
use crate::{
    Result, load,
    process::Spinners,
    report::{Report, percentile},
};

const P50: &str = "p50 ms";
const P99: &str = "p99 ms";
const CPU: &str = "CPU us/record";
const RECORDS_PER_SECOND: u32 = 1000;

/// One record of 1 KiB every millisecond, acks=all, each in a request of its own, timed from the moment when it was due.
///
/// # Errors
/// Servers that do not start or that answer with an error.
pub fn latency(settings: &Settings) -> Result<Vec<Report>> {
    let subjects = Subject::producers(settings, "latency")?;
    let spinners = Spinners::start()?;
    let count = RECORDS_PER_SECOND * if settings.short { 2 } else { 10 };
    let mut values = vec![[const { Vec::new() }; 3]; subjects.len()];
    for turn in 0..settings.pairs {
        for index in order(subjects.len(), turn) {
            let subject = &subjects[index];
            let topic = subject.new_topic("latency")?;
            let before = subject.cpu_seconds()?;
            let taken = load::latencies(subject.address, &topic, -1, RECORDS_PER_SECOND, count)?;
            let cpu = (subject.cpu_seconds()? - before) * 1e6 / f64::from(count);
            values[index][0].push(percentile(&taken, 50) as f64 / 1e3);
            values[index][1].push(percentile(&taken, 99) as f64 / 1e3);
            values[index][2].push(cpu);
            subject.delete_topic(&topic)?;
        }
    }
    drop(spinners);
    let mut report = Report::new(format!(
        "latency, acks=all, {RECORDS_PER_SECOND} records of 1 KiB a second: {} interleaved runs of {count} records",
        settings.pairs
    ));
    for (subject, values) in subjects.iter().zip(values) {
        for (quantity, runs) in [P50, P99, CPU].into_iter().zip(values) {
            report.measure(subject.name, quantity, runs);
        }
    }
    report.note("every processor spins at the lowest priority meanwhile: an idle one sleeps, and waking it is most of what would be measured");
    if settings.kafka.is_some() {
        report.bound_ratio(BROKER, KAFKA, P50, 1.0);
        report.bound_ratio(BROKER, KAFKA, P99, 1.0);
        report.bound_ratio(BROKER, KAFKA, CPU, 0.5);
    } else {
        report.note("the bounds are against Apache Kafka: just bench-kafka");
    }
    Ok(vec![report])
}
