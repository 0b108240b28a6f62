//! Takes the broker's facts: hands each to the invariants that it concerns, then moves the ghost state. Decides
//! nothing by itself.

use super::{
    disk::LogImage,
    ghost::{GhostBatch, ProducerGhost},
    i01_acknowledged_survives as i01, i08_never_below_committed as i08, i09_watermarks as i09,
    i10_log_matching as i10, i12_leader_append_only as i12, i13_epoch_cache as i13, i15_contiguous as i15,
    i19_failed_sync as i19, i20_recovery as i20, i23_leader_epochs as i23, i26_sequences as i26,
    i27_producer_table as i27, i40_log_start as i40, i41_compaction as i41,
    invariant::Invariant,
    lineage::Lineage,
    state::State,
};
use sillon_broker::{
    group::facts::GroupFact,
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
            Observation::Group { partition, fact, .. } => self.on_group(now_ns, node, partition, fact),
            Observation::TopicDeleted { topic, topic_id } => {
                self.on_topic_deleted(now_ns, node, topic, *topic_id)
            }
            Observation::Appended { partition, .. }
            | Observation::Truncated { partition, .. }
            | Observation::Flushed { partition, .. }
            | Observation::LogStartMoved { partition, .. }
            | Observation::SegmentsCleaned { partition, .. }
            | Observation::LogOffline { partition, .. }
            | Observation::HighWatermarkMoved { partition, .. }
            | Observation::BecameLeader { partition, .. }
            | Observation::ProduceAcknowledged { partition, .. }
            | Observation::FetchServed { partition, .. } => {
                self.on_partition(now_ns, node, partition, observation)
            }
            Observation::BecameFollower { partition, .. }
            | Observation::TruncationOrdered { partition, .. }
            | Observation::ReplicaReported { partition, .. }
            | Observation::ReplicaLags { partition, .. }
            | Observation::IsrProposed { partition, .. }
            | Observation::IsrConfirmed { partition, .. }
            | Observation::ReplicaRemoved { partition, .. } => {
                self.on_replication(now_ns, node, partition, observation);
            }
            Observation::Registered { .. }
            | Observation::Unregistered { .. }
            | Observation::MetadataApplied { .. }
            | Observation::BecameController { .. }
            | Observation::ResignedController { .. } => self.on_broker(now_ns, node, observation),
        }
    }

    fn on_group(&mut self, now_ns: u64, node: u32, home: &TopicPartition, fact: &GroupFact) {
        let lineage = self.partitions.get(home);
        self.judge.at(now_ns, Some(node), lineage.map(|lineage| &lineage.log.name));
        let promised = lineage.is_some_and(|lineage| !lineage.beyond_budget);
        self.groups.on_fact(&mut self.judge, home, promised, fact);
    }

    fn on_partition(&mut self, now_ns: u64, node: u32, name: &TopicPartition, observation: &Observation<'_>) {
        let Some(partition) = self.partitions.get(name).and_then(|lineage| lineage.replicas.get(&node))
        else {
            // A sync that was under way when the replica was removed still comes to its end.
            if matches!(observation, Observation::Flushed { .. } | Observation::LogOffline { .. }) {
                return;
            }
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
            Observation::Appended { .. } => self.on_appended(node, name, observation),
            Observation::HighWatermarkMoved { .. } => self.on_high_watermark(now_ns, node, name, observation),
            Observation::BecameLeader { .. } => self.on_leader(now_ns, node, name, observation),
            Observation::ProduceAcknowledged { .. } | Observation::FetchServed { .. } => {
                self.on_served(node, name, observation);
            }
            _ => self.on_log(node, name, observation),
        }
    }

    fn on_appended(&mut self, node: u32, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, former, .. } = self;
        let lineage = partitions.get_mut(name).expect("the caller looked");
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
        let partition = lineage.replicas.get(&node).expect("the caller looked");
        i09::on_appended(judge, partition);
        i12::on_appended(judge, partition, batch.base);
        i15::on_appended(judge, partition, batch.base, batch.next);
        i19::on_appended(judge, partition);
        i23::on_appended(judge, partition, batch.epoch);
        i26::on_appended(judge, partition, &batch);
        if batch.base != partition.log_end || batch.next <= batch.base {
            return;
        }
        let is_current = lineage.is_current(node);
        let root = if is_current { i10::root_of(lineage, partition, &batch) } else { None };
        let leads = partition.leading.as_ref().map(|leading| (node, leading.epoch));
        let partition = lineage.replicas.get_mut(&node).expect("it is there");
        partition.push_chained(batch, root);
        let Some(last) = i10::Last::of(partition) else { return };
        let past = former.entry(name.clone()).or_default();
        if !is_current {
            // Another topic had the name: its last replicas have not heard yet that it is gone.
            let topic_id = partition.topic_id;
            if let Some(life) = past.iter_mut().find(|life| life.log.topic_id == topic_id) {
                i10::on_appended(judge, life, last, std::slice::from_ref(lineage));
            }
            return;
        }
        i10::on_appended(judge, lineage, last, past);
        if leads.is_some() && leads == lineage.leader && batch.base == lineage.log.log_end {
            let chain = lineage.replicas[&node].chains.last().copied();
            lineage.log.push_chained(batch, chain);
        }
    }

    fn on_log(&mut self, node: u32, name: &TopicPartition, observation: &Observation<'_>) {
        let State { judge, partitions, disks, contract, .. } = self;
        let lineage = partitions.get_mut(name).expect("the caller looked");
        let partition = &lineage.replicas[&node];
        match observation {
            Observation::SegmentsCleaned { from, to, records_kept, .. } => {
                let cleaning = i41::Cleaning { from: from.0, to: to.0, records_kept: *records_kept };
                i41::on_cleaned(judge, &**disks, node, partition, cleaning);
            }
            Observation::Truncated { to, .. } => {
                if partition.leading.is_some() || !contract.is_replicated() {
                    i12::on_truncated(judge, partition, to.0);
                    i01::on_truncated(judge, partition, to.0);
                } else {
                    i08::on_truncated(judge, lineage, partition, to.0);
                }
                self.cut(node, name, to.0);
            }
            Observation::Flushed { up_to, .. } => {
                i09::on_flushed(judge, partition, up_to.0);
                i19::on_flushed(judge, partition, up_to.0);
                let partition = lineage.replicas.get_mut(&node).expect("the caller looked");
                partition.durable = partition.durable.max(up_to.0.min(partition.log_end));
            }
            Observation::LogOffline { .. } => {
                i19::on_offline(judge);
                lineage.replicas.get_mut(&node).expect("the caller looked").offline = true;
            }
            Observation::LogStartMoved { to, high_watermark, .. } => {
                i40::on_moved(judge, partition, to.0, high_watermark.0);
                let partition = lineage.replicas.get_mut(&node).expect("the caller looked");
                partition.log_start = to.0;
                partition.highest_log_start = partition.highest_log_start.max(to.0);
                lineage.log.log_start = lineage.log.log_start.max(to.0);
                lineage.log.highest_log_start = lineage.log.highest_log_start.max(to.0);
            }
            _ => unreachable!("the caller looked"),
        }
    }

    /// The end of an open log is gone.
    fn cut(&mut self, node: u32, name: &TopicPartition, to: i64) {
        let lineage = self.partitions.get_mut(name).expect("the caller looked");
        let partition = lineage.replicas.get_mut(&node).expect("the caller looked");
        let anew = partition.ordered_cut.take().is_some_and(|(_, anew)| anew);
        if anew || to > partition.log_end || to < partition.log_start {
            partition.begin_at(to);
        } else if to < partition.log_end {
            partition.lose_from(to);
        }
        if lineage.replicas.len() == 1 && !self.contract.is_replicated() && to < lineage.log.log_end {
            lineage.log.lose_from(to);
        }
    }

    fn on_log_opened(&mut self, now_ns: u64, node: u32, name: &TopicPartition, opening: &Opening<'_>) {
        let i20::Opened { checked_from, log_start, log_end, .. } = opening.opened;
        self.prepare(now_ns, node, name, opening);
        let State { judge, partitions, nodes, disks, contract, .. } = self;
        let machine = nodes.entry(node).or_default();
        let lineage = partitions.get_mut(name).expect("it was put there");
        let partition = lineage.replicas.get_mut(&node).expect("it was put there");
        judge.at(now_ns, Some(node), Some(&partition.name));
        let image = LogImage::read(&**disks, node, &partition.directory, log_start);
        i09::on_opened(judge, log_start, log_end);
        machine.stopped_cleanly = false;
        let is_same_topic = partition.topic_id == opening.topic_id;
        if !is_same_topic && !partition.wiped && !contract.is_replicated() {
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
        self.take_over(node, name, opening, &image);
        let State { judge, partitions, nodes, contract, .. } = self;
        let table = producer_table(opening.producers);
        let lineage = partitions.get_mut(name).expect("it was put there");
        let partition = lineage.replicas.get_mut(&node).expect("it was put there");
        i27::check(judge, &nodes[&node], partition, (&table, contract.producers_may_expire), &image);
        // A broker that may have forgotten a producer, and has, takes any sequence from it.
        let (may_expire, log_start) = (contract.producers_may_expire, partition.log_start);
        partition
            .producers
            .retain(|id, state| table.contains_key(id) || !(may_expire || state.last_offset < log_start));
    }

    /// There is a partition and a replica for a log that is opened.
    fn prepare(&mut self, now_ns: u64, node: u32, name: &TopicPartition, opening: &Opening<'_>) {
        let State { partitions, former, contract, truth, history, .. } = self;
        let (topic_id, log_start) = (opening.topic_id, opening.opened.log_start);
        let past = former.entry(name.clone()).or_default();
        let is_known_past = past.iter().any(|life| life.log.topic_id == topic_id);
        let mut begin = |is_first: bool| match past.iter().position(|life| life.log.topic_id == topic_id) {
            // A replica that nobody had seen the end of.
            Some(place) => past.remove(place),
            None => {
                let mut lineage = Lineage::new(name, contract, node, topic_id);
                (lineage.log.log_start, lineage.log.highest_log_start) = (log_start, log_start);
                lineage.settled_ns = (!is_first || !past.is_empty()).then_some(now_ns);
                lineage
            }
        };
        let lineage = partitions.entry(name.clone()).or_insert_with(|| begin(true));
        let named = truth.topics.get(&*name.topic);
        let is_its_turn = named == Some(&topic_id) || (named.is_none() && !is_known_past);
        if lineage.log.topic_id != topic_id && contract.is_replicated() && is_its_turn {
            let mut next = begin(false);
            // What others still hold of the old life stays theirs.
            next.replicas = std::mem::take(&mut lineage.replicas);
            past.push(std::mem::replace(lineage, next));
            history.liveness.forget(name);
        }
        self.replace_stray(now_ns, node, name, topic_id);
        let State { partitions, contract, .. } = self;
        let lineage = partitions.get_mut(name).expect("it was put there");
        lineage.replicas.entry(node).or_insert_with(|| {
            let mut partition = super::ghost::Partition::new(name, &contract.log_directory, node, topic_id);
            (partition.log_start, partition.highest_log_start) = (log_start, log_start);
            partition
        });
    }

    /// What a broker held of another life of the topic is not the log that it opens: it is gone, and may be only where the
    /// topic is.
    fn replace_stray(&mut self, now_ns: u64, node: u32, name: &TopicPartition, topic_id: TopicId) {
        let State { judge, partitions, contract, truth, .. } = self;
        let Some(lineage) = partitions.get_mut(name).filter(|_| contract.is_replicated()) else { return };
        let Some(stray) = lineage.replicas.get(&node).filter(|replica| replica.topic_id != topic_id) else {
            return;
        };
        judge.at(now_ns, Some(node), Some(&stray.name));
        let is_over = stray.wiped || truth.topics.get(&*name.topic) != Some(&stray.topic_id);
        judge.demand(Invariant::I16, is_over, || {
            format!(
                "a log of topic {topic_id} takes the place of that of topic {}, which is there",
                stray.topic_id
            )
        });
        lineage.replicas.remove(&node);
        lineage.settled_ns = Some(now_ns);
    }

    /// The log is what the broker says that it is, from now on.
    fn take_over(&mut self, node: u32, name: &TopicPartition, opening: &Opening<'_>, image: &LogImage) {
        let i20::Opened { log_start, log_end, .. } = opening.opened;
        let replicated = self.contract.is_replicated();
        let lineage = self.partitions.get_mut(name).expect("the caller looked");
        let partition = lineage.replicas.get_mut(&node).expect("the caller looked");
        if partition.topic_id != opening.topic_id {
            // The topic was lost with the disk that knew it, and was made again.
            partition.topic_id = opening.topic_id;
            partition.leader_epoch = None;
            partition.lose_from(0);
            if !replicated {
                lineage.log.topic_id = opening.topic_id;
                (lineage.leader, lineage.leaders, lineage.written) = Default::default();
            }
        }
        let before = partition.log_end;
        let promised = partition.acknowledged_end.max(partition.exposed_end);
        partition.lose_what_differs(image);
        if log_end < partition.log_end {
            partition.lose_from(log_end);
        }
        let lost = partition.log_end.min(log_end) < before;
        let adopted_from = partition.log_end;
        if log_end > partition.log_end {
            partition.adopt(image, log_end);
        }
        if lost {
            self.statistics.records_lost += u64::try_from(before - adopted_from).unwrap_or(0);
            partition.short_since = Some(partition.short_since.unwrap_or(before).max(before));
            if promised > adopted_from && !replicated {
                self.out_of_contract.push(format!("{}: {adopted_from}..{promised} was lost", partition.name));
            }
        }
        partition.log_start = log_start;
        partition.highest_log_start = partition.highest_log_start.max(log_start);
        partition.reopened();
        if lineage.is_current(node) {
            i10::on_adopted(&mut self.judge, lineage, node, adopted_from);
        }
        if !replicated {
            lineage.log.log_start = lineage.log.log_start.max(log_start);
            lineage.log.highest_log_start = lineage.log.highest_log_start.max(log_start);
            lineage.switch_to(node);
            lineage.log.adopted_end(log_end);
            if lost {
                self.history.forget_latest(name);
            }
        } else if lost {
            let label = lineage.on_loss(&self.contract);
            self.out_of_contract.extend(label);
        }
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
