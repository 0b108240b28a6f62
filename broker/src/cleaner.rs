//! The cleaner: compacts the logs of this broker, the dirtiest first. Owns the choice and the threads; how a log is
//! compacted is the log's (`log::compaction`).

use crate::{
    broker::Broker,
    config::keys,
    log::{CleanError, Cleaned, CleanerLimits, Survey, Throttle},
    partition::Partition,
    types::TopicPartition,
};
use sillon_runtime::{Runtime, Tasks};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

/// Shared by the threads. A log that is being cleaned does not keep the broker.
struct Cleaner {
    broker: Weak<Broker>,
    runtime: Runtime,
    throttle: Throttle,
    /// Logs that are being cleaned.
    busy: Mutex<BTreeSet<TopicPartition>>,
}

/// What the configuration says now.
struct Settings {
    backoff: Duration,
    limits: CleanerLimits,
    bytes_per_second: f64,
}

/// A log that a thread has taken; given back when dropped.
struct Taken<'a> {
    cleaner: &'a Cleaner,
    partition: Arc<Partition>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.cleaner.busy().remove(self.partition.name());
    }
}

/// Starts the threads; they end when the tasks are dropped.
pub(crate) fn start(broker: &Arc<Broker>, tasks: &mut Tasks) {
    if !broker.config().cleaner_enable {
        return;
    }
    let runtime = broker.runtime().clone();
    let throttle = Throttle::new(runtime.clone());
    let cleaner =
        Arc::new(Cleaner { broker: Arc::downgrade(broker), runtime, throttle, busy: Mutex::default() });
    for _ in 0..broker.config().cleaner_threads {
        let cleaner = cleaner.clone();
        tasks.push(broker.runtime().spawn("log-cleaner", async move { cleaner.run().await }));
    }
}

/// Which of some logs is cleaned next: of those that are due, the one with the largest dirty part, and the first of
/// several. Each with its `min.cleanable.dirty.ratio`.
fn choose(logs: &[(Survey, f64)]) -> Option<usize> {
    let due = logs.iter().enumerate().filter(|(_, (survey, least))| survey.is_due(*least));
    let dirtier = |best: Option<(usize, f64)>, (index, (survey, _)): (usize, &(Survey, f64))| match best {
        Some((_, ratio)) if ratio >= survey.dirty_ratio() => best,
        _ => Some((index, survey.dirty_ratio())),
    };
    due.fold(None, dirtier).map(|(index, _)| index)
}

impl Cleaner {
    fn busy(&self) -> MutexGuard<'_, BTreeSet<TopicPartition>> {
        self.busy.lock().expect("nobody panics while holding the list")
    }

    async fn run(&self) {
        while let Some(settings) = self.settings() {
            self.throttle.set_rate(settings.bytes_per_second);
            self.clean_all(settings.limits).await;
            // Logs with much to do are looked at again at once; without any, this must not spin.
            self.runtime.sleep(settings.backoff.max(Duration::from_millis(1))).await;
        }
    }

    /// None where the broker is gone.
    fn settings(&self) -> Option<Settings> {
        let broker = self.broker.upgrade()?;
        let image = broker.image();
        let layers = broker.layers(&image);
        let number = |name: &str| {
            let key = keys::broker_key(name).expect("in the table");
            let value = layers.of_broker_key(key).swap_remove(0).value;
            value.parse::<f64>().expect("values are checked before they are stored")
        };
        let threads = broker.config().cleaner_threads.max(1) as f64;
        let map_bytes = number("log.cleaner.dedupe.buffer.size")
            * number("log.cleaner.io.buffer.load.factor").min(1.0)
            / threads;
        let buffer_bytes = number("log.cleaner.io.buffer.size") / threads;
        Some(Settings {
            backoff: Duration::from_millis(number("log.cleaner.backoff.ms") as u64),
            limits: CleanerLimits { map_bytes: map_bytes as usize, buffer_bytes: buffer_bytes as usize },
            bytes_per_second: number("log.cleaner.io.max.bytes.per.second"),
        })
    }

    /// Cleans until no log is due. One that cannot be cleaned now waits for the next round.
    async fn clean_all(&self, limits: CleanerLimits) {
        let mut failed = BTreeSet::new();
        while let Some(taken) = self.take(&failed).await {
            let partition = &taken.partition;
            let result = partition.clean(limits, &self.throttle).await;
            if !matches!(result, Ok(Some(_))) {
                failed.insert(partition.name().clone());
            }
            report(partition, result);
        }
    }

    /// Takes the log that is to be cleaned next.
    async fn take(&self, failed: &BTreeSet<TopicPartition>) -> Option<Taken<'_>> {
        let (mut partitions, mut surveys) = (Vec::new(), Vec::new());
        let topics = self.broker.upgrade()?.topics();
        for partition in topics.partitions() {
            let (log, name) = (partition.log(), partition.name());
            let config = log.config();
            let is_open =
                !partition.is_removed() && log.is_offline().is_none() && log.uncleanable().is_none();
            if !config.compact || !is_open || failed.contains(name) || self.busy().contains(name) {
                continue;
            }
            surveys.push((log.survey(partition.high_watermark()).await, config.min_cleanable_dirty_ratio));
            partitions.push(partition.clone());
        }
        let partition = partitions.swap_remove(choose(&surveys)?);
        // Another thread may have been quicker: it is looked for another one in the next round.
        let is_free = self.busy().insert(partition.name().clone());
        is_free.then_some(Taken { cleaner: self, partition })
    }
}

fn report(partition: &Partition, result: Result<Option<Cleaned>, CleanError>) {
    let name = partition.name();
    match result {
        Ok(None) => {}
        Ok(Some(cleaned)) => tracing::info!(
            partition = %name, from = %cleaned.from, to = %cleaned.to, kept = cleaned.records_kept,
            removed = cleaned.records_removed, bytes_before = cleaned.bytes_before, bytes_after = cleaned.bytes_after,
            "compacted"
        ),
        Err(CleanError::Changed) => tracing::info!(partition = %name, "changed while it was being compacted"),
        Err(error @ CleanError::Log(_)) => {
            tracing::warn!(partition = %name, %error, "cannot be compacted now; it is tried again");
        }
        Err(error @ CleanError::Damaged { .. }) => {
            tracing::error!(partition = %name, %error, "cannot be compacted until it is opened again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Offset;

    fn survey(clean_bytes: u64, cleanable_bytes: u64, overdue: bool) -> Survey {
        let (first_dirty, cleanable_end) = (Offset(0), Offset(10));
        Survey { first_dirty, cleanable_end, clean_bytes, cleanable_bytes, overdue }
    }

    #[test]
    fn the_dirtiest_that_is_due_comes_first() {
        let logs = [
            (survey(100, 100, false), 0.5),
            (survey(100, 300, false), 0.5),
            (survey(100, 900, false), 0.95),
            (survey(100, 300, false), 0.5),
        ];
        assert_eq!(choose(&logs), Some(1), "one is not over its limit, one has a higher limit");
        assert_eq!(choose(&logs[..1]), None);
        assert_eq!(choose(&[(survey(100, 1, true), 0.5)]), Some(0), "overdue, however little is dirty");
        assert_eq!(choose(&[(survey(100, 0, true), 0.0)]), None, "nothing to be done");
        assert_eq!(choose(&[]), None);
    }
}
