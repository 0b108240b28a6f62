//! Takes the broker's facts: hands each to the invariants that it concerns, then moves the ghost state. Decides
//! nothing by itself.

use super::{
    disk::LogImage,
    ghost::{GhostBatch, Partition, ProducerGhost},
    i01_acknowledged_survives as i01, i09_watermarks as i09, i12_leader_append_only as i12,
    i13_epoch_cache as i13, i15_contiguous as i15, i18_committed_reads as i18, i19_failed_sync as i19,
    i20_recovery as i20, i23_leader_epochs as i23, i26_sequences as i26, i27_producer_table as i27,
    i40_log_start as i40,
    invariant::Invariant,
    state::State,
};
use sillon_broker::{
    observe::{EpochStart, Observation, ProducerSummary},
    types::{TopicId, TopicPartition},
};
use std::collections::BTreeMap;

/// What a broker tells of a log that it opened.
struct Opening<'a> {
    topic_id: TopicId,
    opened: i20::Opened,
    epochs: &'a [EpochStart],
    producers: &'a [ProducerSummary],
}

impl State {
    pub(super) fn on_observation(&mut self, now_ns: u64, node: u32, observation: &Observation<'_>) {
        match observation {
            Observation::LogOpened {
                partition,
                topic_id,
                clean,
                checked_from,
                log_start,
                log_end,
                epochs,
                producers,
            } => {
                let opened = i20::Opened {
                    clean: *clean,
                    checked_from: checked_from.0,
                    log_start: log_start.0,
                    log_end: log_end.0,
                };
                self.on_log_opened(
                    now_ns,
                    node,
                    partition,
                    &Opening { topic_id: *topic_id, opened, epochs, producers },
                );
            }
            Observation::TopicDeleted { topic, .. } => {
                self.partitions.retain(|partition, _| *partition.topic != **topic);
            }
            Observation::Appended { partition, .. }
            | Observation::Truncated { partition, .. }
            | Observation::Flushed { partition, .. }
            | Observation::LogStartMoved { partition, .. }
            | Observation::LogOffline { partition, .. }
            | Observation::HighWatermarkMoved { partition, .. }
            | Observation::BecameLeader { partition, .. }
            | Observation::ProduceAcknowledged { partition, .. }
            | Observation::FetchServed { partition, .. } => {
                self.on_partition(now_ns, node, partition, observation)
            }
            // Of a cluster; a broker alone tells none of these.
            Observation::BecameFollower { .. }
            | Observation::ReplicaRemoved { .. }
            | Observation::TruncationOrdered { .. }
            | Observation::ReplicaReported { .. }
            | Observation::ReplicaLags { .. }
            | Observation::IsrProposed { .. }
            | Observation::IsrConfirmed { .. }
            | Observation::Registered { .. }
            | Observation::Unregistered { .. }
            | Observation::MetadataApplied { .. }
            | Observation::BecameController { .. }
            | Observation::ResignedController { .. } => {}
        }
    }

    fn on_partition(&mut self, now_ns: u64, node: u32, name: &TopicPartition, observation: &Observation<'_>) {
        let Some(partition) = self.partitions.get(name).filter(|partition| partition.node == node) else {
            self.judge.at(now_ns, Some(node), None);
            let text = format!("{name} is used, but its log was never opened");
            return self.judge.violated(Invariant::I20, text);
        };
        self.judge.at(now_ns, Some(node), Some(&partition.name));
        // Recovery may cut and sync before the log is open. All else is serving.
        let part_of_recovery = matches!(
            observation,
            Observation::Truncated { .. } | Observation::Flushed { .. } | Observation::LogOffline { .. }
        );
        if !partition.open {
            if !part_of_recovery {
                self.judge
                    .violated(Invariant::I20, "the log is used before it was checked and opened".into());
            }
            return;
        }
        match observation {
            Observation::Appended { .. } => self.on_appended(name, observation),
            Observation::HighWatermarkMoved { .. } | Observation::LogStartMoved { .. } => {
                self.on_watermark(name, observation);
            }
            Observation::BecameLeader { .. }
            | Observation::ProduceAcknowledged { .. }
            | Observation::FetchServed { .. } => self.on_served(name, observation),
            _ => self.on_log(name, observation),
        }
    }

    fn on_appended(&mut self, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, .. } = self;
        let partition = partitions.get_mut(name).expect("the caller looked");
        let Observation::Appended { base_offset, next_offset, leader_epoch, batch_crc, producer, .. } =
            observation
        else {
            unreachable!("the caller looked")
        };
        let batch = GhostBatch {
            base: base_offset.0,
            next: next_offset.0,
            epoch: leader_epoch.0,
            crc: *batch_crc,
            producer: (producer.0.0, producer.1, producer.2),
        };
        i12::on_appended(judge, partition, batch.base);
        i15::on_appended(judge, partition, batch.base, batch.next);
        i19::on_appended(judge, partition);
        i23::on_appended(judge, partition, batch.epoch);
        i26::on_appended(judge, partition, &batch);
        if batch.base == partition.log_end && batch.next > batch.base {
            partition.push(batch);
        }
    }

    fn on_watermark(&mut self, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, .. } = self;
        let partition = partitions.get_mut(name).expect("the caller looked");
        match observation {
            Observation::HighWatermarkMoved { leader_epoch, from, to, log_start, log_end, .. } => {
                let moved = i09::Move {
                    leader_epoch: leader_epoch.0,
                    from: from.0,
                    to: to.0,
                    log_start: log_start.0,
                    log_end: log_end.0,
                };
                i09::on_moved(judge, partition, moved);
                partition.high_watermark = Some(to.0);
                partition.committed_end = partition.committed_end.max(to.0.min(partition.log_end));
            }
            Observation::LogStartMoved { to, high_watermark, .. } => {
                i40::on_moved(judge, partition, to.0, high_watermark.0);
                partition.log_start = to.0;
                partition.highest_log_start = partition.highest_log_start.max(to.0);
            }
            _ => unreachable!("the caller looked"),
        }
    }

    fn on_served(&mut self, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, contract, .. } = self;
        let partition = partitions.get_mut(name).expect("the caller looked");
        match observation {
            Observation::BecameLeader { leader_epoch, start_offset, .. } => {
                i23::on_leader(judge, partition, leader_epoch.0, start_offset.0);
                partition.leader_epoch = Some(leader_epoch.0);
            }
            Observation::ProduceAcknowledged { base_offset, next_offset, acks, high_watermark, .. } => {
                let (base, next) = (base_offset.0, next_offset.0);
                i01::on_acknowledged(judge, contract, partition, (base, next, *acks), high_watermark.0);
                partition.acknowledged_end = partition.acknowledged_end.max(next.min(partition.log_end));
            }
            Observation::FetchServed { next_offset, high_watermark, .. } => {
                i18::on_served(judge, partition, next_offset.0, high_watermark.0);
                partition.exposed_end = partition.exposed_end.max(next_offset.0.min(partition.log_end));
            }
            _ => unreachable!("the caller looked"),
        }
    }

    fn on_log(&mut self, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, .. } = self;
        let partition = partitions.get_mut(name).expect("the caller looked");
        match observation {
            Observation::Truncated { to, .. } => {
                i12::on_truncated(judge, partition, to.0);
                i01::on_truncated(judge, partition, to.0);
                if to.0 < partition.log_end {
                    partition.lose_from(to.0);
                }
            }
            Observation::Flushed { up_to, .. } => {
                i09::on_flushed(judge, partition, up_to.0);
                i19::on_flushed(judge, partition, up_to.0);
                partition.durable = partition.durable.max(up_to.0.min(partition.log_end));
            }
            Observation::LogOffline { .. } => {
                i19::on_offline(judge);
                partition.offline = true;
            }
            _ => unreachable!("the caller looked"),
        }
    }

    fn on_log_opened(&mut self, now_ns: u64, node: u32, name: &TopicPartition, opening: &Opening<'_>) {
        let i20::Opened { checked_from, log_start, log_end, .. } = opening.opened;
        if !self.partitions.contains_key(name) {
            let mut partition = Partition::new(name, &self.contract.log_directory, node, opening.topic_id);
            (partition.log_start, partition.highest_log_start) = (log_start, log_start);
            self.partitions.insert(name.clone(), partition);
        }
        let State { judge, partitions, nodes, disks, contract, .. } = self;
        let machine = nodes.entry(node).or_default();
        let partition = partitions.get_mut(name).expect("it was put there");
        judge.at(now_ns, Some(node), Some(&partition.name));
        let image = LogImage::read(&**disks, node, &partition.directory, log_start);
        i09::on_opened(judge, log_start, log_end);
        machine.stopped_cleanly = false;
        let is_same_topic = partition.topic_id == opening.topic_id;
        if !is_same_topic && !partition.wiped {
            i01::on_other_topic(judge, machine, partition, &contract.log_directory);
        }
        match &partition.boot {
            Some(boot) if is_same_topic => i20::on_opened(judge, machine, partition, boot, opening.opened),
            None if partition.offline => i19::on_reopened(judge, partition, checked_from),
            Some(_) | None => {}
        }
        i01::on_opened(judge, machine, partition, &image, log_end);
        if !partition.wiped {
            i15::on_disk(judge, machine, partition, &image, log_end);
            let cache: Vec<(i32, i64)> =
                opening.epochs.iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect();
            if !machine.has_damage_in(&partition.directory) {
                i13::check(judge, &cache, &image, log_start, log_end);
            }
        }
        self.take_over(name, opening, &image);
        let State { judge, partitions, nodes, contract, .. } = self;
        let table = producer_table(opening.producers);
        i27::check(judge, &nodes[&node], &partitions[name], (&table, contract.producers_may_expire), &image);
        // A broker that may have forgotten a producer, and has, takes any sequence from it.
        let partition = partitions.get_mut(name).expect("it was put there");
        let (may_expire, log_start) = (contract.producers_may_expire, partition.log_start);
        partition
            .producers
            .retain(|id, state| table.contains_key(id) || !(may_expire || state.last_offset < log_start));
    }

    /// The log is what the broker says that it is, from now on.
    fn take_over(&mut self, name: &TopicPartition, opening: &Opening<'_>, image: &LogImage) {
        let i20::Opened { log_start, log_end, .. } = opening.opened;
        let partition = self.partitions.get_mut(name).expect("the caller looked");
        if partition.topic_id != opening.topic_id {
            // The topic was lost with the disk that knew it, and was made again.
            partition.topic_id = opening.topic_id;
            partition.leader_epoch = None;
            partition.lose_from(0);
        }
        if log_end < partition.log_end {
            let (before, promised) =
                (partition.log_end, partition.acknowledged_end.max(partition.exposed_end));
            partition.lose_from(log_end);
            self.statistics.records_lost += u64::try_from(before - log_end).unwrap_or(0);
            if promised > log_end {
                self.out_of_contract.push(format!("{}: {log_end}..{promised} was lost", partition.name));
            }
            self.history.forget_latest(name);
        } else if log_end > partition.log_end {
            partition.adopt(image, log_end);
        }
        partition.log_start = log_start;
        partition.highest_log_start = partition.highest_log_start.max(log_start);
        partition.open = true;
        partition.offline = false;
        partition.disk_failed_ns = None;
        partition.sync_failed = false;
        partition.power_was_lost = false;
        partition.wiped = false;
        partition.boot = None;
    }
}

fn producer_table(producers: &[ProducerSummary]) -> BTreeMap<i64, ProducerGhost> {
    let ghost = |summary: &ProducerSummary| ProducerGhost {
        epoch: summary.producer_epoch,
        last_sequence: summary.last_sequence,
        last_offset: summary.last_offset.0,
    };
    producers.iter().map(|summary| (summary.producer_id.0, ghost(summary))).collect()
}
