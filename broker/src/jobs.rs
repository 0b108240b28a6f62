//! What a broker does by itself from time to time: syncing, checkpoints, retention, compaction, another try at logs that
//! are offline. Owns the intervals; what is done belongs to the broker and its logs.

use crate::{broker::Broker, cleaner, replication};
use sillon_runtime::Tasks;
use std::{future::Future, sync::Arc, time::Duration};

/// How often logs that a failed write or sync took offline are opened again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the jobs; they end when the returned tasks are dropped.
pub(crate) fn start(broker: &Arc<Broker>) -> Tasks {
    let config = broker.config();
    let mut jobs = Jobs { broker, tasks: Tasks::default() };
    jobs.every("flush", config.flush_check_interval_ms, flush_due);
    jobs.every("retention", config.retention_check_interval_ms, enforce_retention);
    jobs.every(
        "recovery-point-checkpoint",
        config.recovery_point_checkpoint_interval_ms,
        |broker| async move {
            report("recovery point checkpoint", broker.directories().checkpoint_recovery_points().await);
        },
    );
    jobs.every(
        "high-watermark-checkpoint",
        config.high_watermark_checkpoint_interval_ms,
        |broker| async move {
            report("high watermark checkpoint", broker.checkpoint_high_watermarks().await);
        },
    );
    jobs.every("reopen", REOPEN_INTERVAL.as_millis() as u64, |broker| async move {
        broker.reopen_offline().await
    });
    // As often as Kafka does: a follower is found within one and a half times the limit.
    jobs.every("replica-lag", (config.replication.lag_time_max_ms / 2).max(1), |broker| async move {
        let now = broker.runtime().now();
        broker.topics().partitions().for_each(|partition| partition.on_tick(now));
    });
    jobs.tasks.push(replication::start(broker));
    cleaner::start(broker, &mut jobs.tasks);
    jobs.tasks
}

struct Jobs<'a> {
    broker: &'a Arc<Broker>,
    tasks: Tasks,
}

impl Jobs<'_> {
    fn every<F>(&mut self, name: &'static str, interval_ms: u64, job: fn(Arc<Broker>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let broker = self.broker.clone();
        let interval = Duration::from_millis(interval_ms);
        self.tasks.push(self.broker.runtime().spawn(name, async move {
            loop {
                broker.runtime().sleep(interval).await;
                job(broker.clone()).await;
            }
        }));
    }
}

async fn flush_due(broker: Arc<Broker>) {
    for partition in broker.topics().partitions() {
        if let Err(error) = partition.log().flush_if_due().await {
            tracing::error!(partition = %partition.name(), %error, "the log cannot be synced");
        }
    }
}

async fn enforce_retention(broker: Arc<Broker>) {
    for partition in broker.topics().partitions() {
        if let Err(error) = partition.enforce_retention().await {
            tracing::error!(partition = %partition.name(), %error, "old segments cannot be removed");
        }
    }
}

fn report<E: std::fmt::Display>(what: &str, result: Result<(), E>) {
    if let Err(error) = result {
        tracing::error!(%error, "the {what} cannot be written");
    }
}
