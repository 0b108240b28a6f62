//! What a broker tells: into the trace and to the oracle, as long as its process lives. Owns the words of the trace.

use super::{file_faults, judges::Judges};
use crate::world::{NodeId, World};
use sillon_broker::{
    observe::{Observation, Observer},
    types::TopicPartition,
};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// Listens to one process of a broker.
pub(super) struct Ear {
    pub world: Weak<World>,
    pub node: NodeId,
    pub incarnation: u64,
    pub judges: Arc<Judges>,
    pub inner: Arc<dyn Observer>,
    /// Told when the oracle has found something.
    pub violated: Arc<Notify>,
}

impl Observer for Ear {
    fn observe(&self, observation: Observation<'_>) {
        let Some(world) = self.world.upgrade() else { return };
        // What a dead process's tasks still do while they are dropped is nothing that happened.
        if world.incarnations(self.node) != self.incarnation || !world.status(self.node).is_alive() {
            return;
        }
        trace(&world, self.node, &observation);
        file_faults::tell(&world, &self.judges);
        self.inner.observe(observation);
        if self.judges.first_violation().is_some() {
            self.violated.notify_one();
        }
    }
}

fn trace(world: &World, node: NodeId, observation: &Observation<'_>) {
    let add = |kind, partition: &TopicPartition, fields: &[(&'static str, u64)]| {
        trace_partition(world, node, kind, partition, fields);
    };
    match observation {
        Observation::LogOpened { partition, clean, checked_from, log_start, log_end, .. } => add(
            "log/opened",
            partition,
            &[
                ("clean", u64::from(*clean)),
                ("checked_from", checked_from.0 as u64),
                ("log_start", log_start.0 as u64),
                ("log_end", log_end.0 as u64),
            ],
        ),
        Observation::Appended { partition, base_offset, next_offset, leader_epoch, batch_crc, .. } => {
            add(
                "log/append",
                partition,
                &[
                    ("base", base_offset.0 as u64),
                    ("next", next_offset.0 as u64),
                    ("epoch", leader_epoch.0 as u64),
                    ("crc", u64::from(*batch_crc)),
                ],
            );
        }
        Observation::Truncated { partition, to } => add("log/truncate", partition, &[("to", to.0 as u64)]),
        Observation::Flushed { partition, up_to } => {
            add("log/flush", partition, &[("up_to", up_to.0 as u64)])
        }
        Observation::LogStartMoved { partition, to, .. } => {
            add("log/start", partition, &[("to", to.0 as u64)])
        }
        Observation::LogOffline { partition, .. } => add("log/offline", partition, &[]),
        Observation::HighWatermarkMoved { partition, from, to, leader_epoch, .. } => add(
            "high-watermark",
            partition,
            &[("from", from.0 as u64), ("to", to.0 as u64), ("epoch", leader_epoch.0 as u64)],
        ),
        Observation::BecameLeader { partition, leader_epoch, start_offset } => {
            add("leader", partition, &[("epoch", leader_epoch.0 as u64), ("start", start_offset.0 as u64)])
        }
        Observation::ProduceAcknowledged { partition, base_offset, next_offset, duplicate, .. } => {
            add(
                "acknowledge",
                partition,
                &[
                    ("base", base_offset.0 as u64),
                    ("next", next_offset.0 as u64),
                    ("duplicate", u64::from(*duplicate)),
                ],
            );
        }
        Observation::FetchServed { partition, fetch_offset, next_offset, high_watermark, .. } => add(
            "serve",
            partition,
            &[
                ("from", fetch_offset.0 as u64),
                ("next", next_offset.0 as u64),
                ("high_watermark", high_watermark.0 as u64),
            ],
        ),
        Observation::TopicDeleted { topic, .. } => {
            world.event_with_detail(node, "topic/deleted", &[], || (*topic).to_string());
        }
    }
}

fn trace_partition(
    world: &World,
    node: NodeId,
    kind: &'static str,
    partition: &TopicPartition,
    fields: &[(&'static str, u64)],
) {
    let mut all = [("", 0); 8];
    all[0] = ("partition", partition.partition as u64);
    all[1..=fields.len()].copy_from_slice(fields);
    world.event_with_detail(node, kind, &all[..=fields.len()], || partition.topic.to_string());
}
