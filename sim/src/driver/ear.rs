//! What a broker tells: into the trace and to the oracle, as long as its process lives. Owns the words of the trace.

use super::{file_faults, group_ear, judges::Judges};
use crate::{
    profile::{self, Part},
    world::{NodeId, World},
};
use sillon_broker::{
    observe::{Observation, Observer},
    types::{BrokerId, TopicPartition},
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
        let _counted = profile::within(Part::Oracle);
        // What a dead process's tasks still do while they are dropped is nothing that happened.
        if world.incarnations(self.node) != self.incarnation || !world.status(self.node).is_alive() {
            return;
        }
        trace(&world, self.node, &observation);
        self.judges.roles.heard(self.node.0, &observation);
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
        Observation::SegmentsCleaned { partition, from, to, records_kept, .. } => {
            let range = [("from", from.0 as u64), ("to", to.0 as u64), ("kept", *records_kept)];
            add("log/compact", partition, &range);
        }
        Observation::LogOffline { partition, .. } => add("log/offline", partition, &[]),
        Observation::HighWatermarkMoved { partition, from, to, leader_epoch, .. } => add(
            "high-watermark",
            partition,
            &[("from", from.0 as u64), ("to", to.0 as u64), ("epoch", leader_epoch.0 as u64)],
        ),
        Observation::BecameLeader { partition, leader_epoch, start_offset, .. } => {
            add("leader", partition, &[("epoch", leader_epoch.0 as u64), ("start", start_offset.0 as u64)])
        }
        Observation::ProduceAcknowledged { .. } | Observation::FetchServed { .. } => {
            trace_answer(world, node, observation);
        }
        Observation::BecameFollower { .. }
        | Observation::ReplicaRemoved { .. }
        | Observation::TruncationOrdered { .. }
        | Observation::ReplicaReported { .. }
        | Observation::ReplicaLags { .. }
        | Observation::IsrProposed { .. }
        | Observation::IsrConfirmed { .. } => trace_replication(world, node, observation),
        Observation::Group { fact, .. } => group_ear::trace(world, node, fact),
        Observation::Registered { .. }
        | Observation::Unregistered { .. }
        | Observation::MetadataApplied { .. }
        | Observation::BecameController { .. }
        | Observation::ResignedController { .. }
        | Observation::TopicDeleted { .. } => trace_broker(world, node, observation),
    }
}

/// What a broker answered its clients.
fn trace_answer(world: &World, node: NodeId, observation: &Observation<'_>) {
    let add = |kind, partition: &TopicPartition, fields: &[(&'static str, u64)]| {
        trace_partition(world, node, kind, partition, fields);
    };
    match observation {
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
        _ => unreachable!("the caller names the kinds"),
    }
}

/// What a broker tells of itself, rather than of a partition.
fn trace_broker(world: &World, node: NodeId, observation: &Observation<'_>) {
    match observation {
        Observation::Registered { broker_epoch, unclean } => {
            let fields = [("epoch", broker_epoch.0 as u64), ("unclean", u64::from(*unclean))];
            world.event(node, "broker/registered", &fields);
        }
        Observation::Unregistered { broker_epoch } => {
            world.event(node, "broker/unregistered", &[("epoch", broker_epoch.0 as u64)]);
        }
        Observation::MetadataApplied { position, snapshot } => {
            let fields = [
                ("controller_epoch", position.controller_epoch.0 as u64),
                ("version", position.version as u64),
                ("snapshot", u64::from(*snapshot)),
            ];
            world.event(node, "broker/metadata", &fields);
        }
        Observation::BecameController { controller_epoch } => {
            world.event(node, "controller/begins", &[("epoch", controller_epoch.0 as u64)]);
        }
        Observation::ResignedController { controller_epoch } => {
            world.event(node, "controller/ends", &[("epoch", controller_epoch.0 as u64)]);
        }
        Observation::TopicDeleted { topic, .. } => {
            world.event_with_detail(node, "topic/deleted", &[], || (*topic).to_string());
        }
        _ => unreachable!("the caller names the kinds"),
    }
}

fn trace_replication(world: &World, node: NodeId, observation: &Observation<'_>) {
    let add = |kind, partition: &TopicPartition, fields: &[(&'static str, u64)]| {
        trace_partition(world, node, kind, partition, fields);
    };
    match observation {
        Observation::BecameFollower { partition, leader, leader_epoch, log_end, .. } => {
            let leader = leader.map_or(u64::MAX, |leader| leader.0 as u64);
            let (epoch, end) = (leader_epoch.0 as u64, log_end.0 as u64);
            add("follower", partition, &[("leader", leader), ("epoch", epoch), ("log_end", end)]);
        }
        Observation::ReplicaRemoved { partition, .. } => add("replica/removed", partition, &[]),
        Observation::TruncationOrdered { partition, leader, leader_epoch, to, .. } => {
            let (leader, epoch) = (leader.0 as u64, leader_epoch.0 as u64);
            add("replica/cut", partition, &[("leader", leader), ("epoch", epoch), ("to", to.0 as u64)]);
        }
        Observation::ReplicaReported { partition, leader_epoch, replica, log_end, .. } => {
            let (replica, epoch) = (replica.0 as u64, leader_epoch.0 as u64);
            let fields = [("replica", replica), ("epoch", epoch), ("log_end", log_end.0 as u64)];
            add("replica/reported", partition, &fields);
        }
        Observation::ReplicaLags { partition, leader_epoch, replica, behind_for_ms, .. } => {
            let (replica, epoch) = (replica.0 as u64, leader_epoch.0 as u64);
            let fields = [("replica", replica), ("epoch", epoch), ("behind_for_ms", *behind_for_ms)];
            add("replica/lags", partition, &fields);
        }
        Observation::IsrProposed { partition, leader_epoch, partition_epoch, isr } => {
            let (epoch, state) = (leader_epoch.0 as u64, partition_epoch.0 as u64);
            let fields = [("epoch", epoch), ("partition_epoch", state), ("isr", bits(isr))];
            add("isr/proposed", partition, &fields);
        }
        Observation::IsrConfirmed { partition, leader_epoch, partition_epoch, isr } => {
            let (epoch, state) = (leader_epoch.0 as u64, partition_epoch.0 as u64);
            let fields = [("epoch", epoch), ("partition_epoch", state), ("isr", bits(isr))];
            add("isr/confirmed", partition, &fields);
        }
        _ => unreachable!("the caller names the kinds"),
    }
}

/// A set of brokers as one number.
fn bits(brokers: &[BrokerId]) -> u64 {
    brokers.iter().fold(0, |bits, broker| bits | 1 << (broker.0 & 63))
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
