//! Takes what clients did and saw: hands each event to the invariants that it concerns, and remembers. Decides nothing
//! by itself.

use super::{
    events::{BatchId, ClientEvent, Purpose, ReadBatch, RecordId},
    ghost::{Outcome, Partition, Sent},
    i01_acknowledged_survives as i01, i06_single_value as i06, i17_latest_never_decreases as i17,
    i18_committed_reads as i18, i24_lineage_signals as i24, i25_reader_order as i25, i26_sequences as i26,
    i40_log_start as i40,
    i48_liveness::{Liveness, Positions},
    i52_visibility as i52, i65a_failed_never_seen as i65a, i69_lost_writes as i69,
    invariant::Invariant,
    judge::Judge,
    lineage::{Life, Lineage, life_of},
    state::State,
};
use sillon_broker::types::{TopicId, TopicPartition};
use std::collections::BTreeMap;

/// What `timestamp` means in ListOffsets.
const LATEST: i64 = -1;

/// What clients did and saw.
#[derive(Debug, Default)]
pub(super) struct History {
    sent: BTreeMap<BatchId, Sent>,
    /// Where each record was seen last.
    seen: BTreeMap<RecordId, i64>,
    /// The confirmed batches of each idempotent producer in each partition of each topic.
    confirmed: BTreeMap<(u32, TopicPartition, TopicId), i26::Confirmed>,
    /// Where each tail reader goes on.
    positions: Positions,
    /// When each tail reader came there.
    reached_ns: BTreeMap<(u32, TopicPartition), u64>,
    /// The latest offset that each client was told, and in which leader epoch.
    latest: BTreeMap<(TopicPartition, TopicId, u32), (i32, i64)>,
    scans: BTreeMap<TopicPartition, (i64, i64)>,
    pub liveness: Liveness,
}

impl History {
    /// The end of a partition was lost: what its clients were told counts no more.
    pub fn forget_latest(&mut self, partition: &TopicPartition) {
        self.latest.retain(|(of, ..), _| of != partition);
        self.confirmed.retain(|(_, of, _), _| of != partition);
    }

    /// Where the tail readers of a partition are.
    pub fn positions_in(&self, partition: &TopicPartition) -> Vec<(u32, i64)> {
        let all = self.positions.iter().filter(|((_, of), _)| of == partition);
        all.map(|((reader, _), position)| (*reader, *position)).collect()
    }

    /// How far each tail reader has to come to be at the end.
    pub fn goals(
        &self,
        partitions: &BTreeMap<TopicPartition, Lineage>,
    ) -> BTreeMap<(u32, TopicPartition), i64> {
        let behind = self.positions.iter().filter_map(|((reader, name), position)| {
            let end = partitions.get(name)?.log.committed_end;
            (*position < end).then(|| ((*reader, name.clone()), end))
        });
        behind.collect()
    }

    /// The batch that a record was sent in.
    fn batch_of(&self, record: RecordId) -> Option<&Sent> {
        let named = BatchId { client: record.client, first: record.counter };
        let (id, sent) = self.sent.range(..=named).next_back()?;
        (id.client == record.client && record.counter - id.first < u64::from(sent.batch.count))
            .then_some(sent)
    }

    /// Records read from a topic were sent to that topic, and not to another one of its name.
    fn of_one_topic(&self, judge: &mut Judge, topic_id: TopicId, batches: &[ReadBatch]) {
        let nil = TopicId::default();
        for (offset, record) in batches.iter().flat_map(|batch| &batch.records) {
            let Some(sent) = self.batch_of(*record) else { continue };
            let sent_to = sent.batch.topic_id;
            if topic_id != nil && sent_to != nil {
                judge.demand(Invariant::I16, sent_to == topic_id, || {
                    format!("{record} was sent to topic {sent_to}, and is read from {topic_id} at {offset}")
                });
            }
        }
    }

    fn see(
        &mut self,
        judge: &mut Judge,
        partition: &mut Partition,
        (offset, record): (i64, RecordId),
        is_lost: bool,
    ) {
        if !is_lost {
            i06::on_seen(judge, partition, offset, record);
        }
        if let Some(before) = self.seen.insert(record, offset)
            && before != offset
        {
            i26::on_seen_again(judge, partition, record, before, offset);
        }
    }
}

impl State {
    pub(super) fn on_client(&mut self, now_ns: u64, event: ClientEvent) {
        match event {
            ClientEvent::Group(event) => {
                self.judge.at(now_ns, None, None);
                self.groups.on_event(&mut self.judge, event);
            }
            ClientEvent::Sending(batch) => {
                self.statistics.records_sent += u64::from(batch.count);
                if batch.acks != 0 {
                    self.history.liveness.on_sent(now_ns, &batch.partition);
                }
                let id = batch.id;
                let sent = Sent { batch, sent_ns: now_ns, outcome: Outcome::Pending, base_offset: None };
                self.history.sent.insert(id, sent);
            }
            ClientEvent::Confirmed { id, base_offset } => self.on_confirmed(now_ns, id, base_offset),
            ClientEvent::Failed { id } => self.on_failed(now_ns, id),
            ClientEvent::Unknown { id } => {
                if let Some(sent) = self.history.sent.get_mut(&id) {
                    sent.outcome = Outcome::Unknown;
                    self.statistics.records_unknown += u64::from(sent.batch.count);
                }
            }
            ClientEvent::Read {
                reader,
                purpose,
                partition,
                topic_id,
                fetch_offset,
                high_watermark,
                batches,
                ..
            } => {
                let what = (&partition, topic_id);
                self.on_read(now_ns, (reader, purpose), what, (fetch_offset, high_watermark), &batches);
            }
            ClientEvent::Following { reader, partition, from } => {
                self.judge.at(now_ns, None, None);
                self.history.liveness.on_position(&mut self.judge, reader, &partition, from);
                self.history.positions.insert((reader, partition), from);
            }
            ClientEvent::ScanFinished { partition, from, to } => {
                self.history.scans.insert(partition, (from, to));
            }
            ClientEvent::TopicCreated { topic, .. } => self.on_topic_changes(&topic, false),
            ClientEvent::TopicDeleting { topic } | ClientEvent::TopicDeleted { topic } => {
                self.on_topic_changes(&topic, true);
            }
            ClientEvent::Reassigning { .. } => {}
            ClientEvent::ReadDamaged { .. }
            | ClientEvent::TruncationSignal { .. }
            | ClientEvent::Moved { .. }
            | ClientEvent::Listed { .. }
            | ClientEvent::DeletedRecords { .. } => self.on_answer(now_ns, event),
        }
    }

    /// Answers about a partition that carry no records.
    fn on_answer(&mut self, now_ns: u64, event: ClientEvent) {
        let State { judge, partitions, all_disks, history, contract, .. } = self;
        let (ClientEvent::ReadDamaged { partition: name, .. }
        | ClientEvent::TruncationSignal { partition: name, .. }
        | ClientEvent::Moved { partition: name, .. }
        | ClientEvent::Listed { partition: name, .. }
        | ClientEvent::DeletedRecords { partition: name, .. }) = &event
        else {
            unreachable!("the caller looked")
        };
        // A partition that no broker ever opened has nothing to compare with.
        let Some(lineage) = partitions.get_mut(name) else { return };
        let partition = &lineage.log;
        judge.at(now_ns, Some(partition.node), Some(&partition.name));
        match event {
            ClientEvent::ReadDamaged { fetch_offset, text, .. } => {
                i06::on_damaged(judge, all_disks, partition, fetch_offset, &text);
            }
            ClientEvent::Moved { reader, partition: name, topic_id, from, to } => {
                if lineage.is_settled(now_ns, topic_id) {
                    i25::on_moved(judge, partition, from);
                }
                lineage.deaf.remove(&reader);
                history.positions.insert((reader, name), to);
            }
            ClientEvent::TruncationSignal { reader, partition: name, topic_id, from, to } => {
                if topic_id == TopicId::default() || topic_id == lineage.log.topic_id {
                    i24::on_signal(judge, lineage, reader, from);
                }
                history.positions.insert((reader, name), to);
            }
            ClientEvent::Listed {
                client,
                partition: name,
                topic_id,
                timestamp: LATEST,
                leader_epoch,
                offset,
            } => {
                let key = (name, lineage.log.topic_id, client);
                let before = history.latest.get(&key).copied();
                // An older leader may answer whoever asks it.
                let is_older = before.is_some_and(|(epoch, _)| leader_epoch < epoch);
                if is_older || !lineage.is_settled(now_ns, topic_id) {
                    return;
                }
                let before = before.filter(|_| leader_epoch >= 0 || !contract.is_replicated());
                i17::on_latest(judge, partition, before.map(|(_, offset)| offset), offset);
                history.latest.insert(key, (leader_epoch, offset));
            }
            ClientEvent::DeletedRecords { topic_id, before_offset, low_watermark, .. }
                if lineage.is_settled(now_ns, topic_id) =>
            {
                i40::on_deleted(judge, partition, before_offset, low_watermark);
            }
            // Offsets by time depend on clocks that may be wrong: nothing is demanded of them; nor of an answer that may be
            // about another life of the topic.
            _ => {}
        }
    }

    fn on_confirmed(&mut self, now_ns: u64, id: BatchId, base_offset: Option<i64>) {
        let State { judge, partitions, former, contract, history, statistics, .. } = self;
        let Some(sent) = history.sent.get_mut(&id) else { return };
        sent.outcome = Outcome::Confirmed;
        sent.base_offset = base_offset;
        let (batch, sent_ns) = (sent.batch.clone(), sent.sent_ns);
        statistics.records_confirmed += u64::from(batch.count);
        let mut in_order = |judge: &mut Judge, topic_id, base| {
            let confirmed =
                history.confirmed.entry((id.client, batch.partition.clone(), topic_id)).or_default();
            i26::in_order(judge, confirmed, id, base);
            confirmed.insert(id.first, base);
        };
        let lineage = match life_of(partitions, former, &batch.partition, batch.topic_id) {
            Life::Current(lineage) => lineage,
            Life::Over(topic_id) => {
                judge.at(now_ns, None, None);
                if let Some(base) = base_offset.filter(|_| batch.sequence.is_some() && batch.acks == -1) {
                    in_order(judge, topic_id, base);
                }
                return;
            }
            Life::Unknown => {
                judge.at(now_ns, None, None);
                return judge.violated(
                    Invariant::I01,
                    format!("{id:?} is confirmed in {}, which nobody opened", batch.partition),
                );
            }
        };
        let partition = &mut lineage.log;
        judge.at(now_ns, Some(partition.node), Some(&partition.name));
        let next_offset = base_offset.map(|base| base + i64::from(batch.count));
        history.liveness.on_confirmed(judge, &batch.partition, (sent_ns, next_offset), &history.positions);
        let Some(base) = base_offset else { return };
        // A leader's word for itself alone ends with its leadership.
        if (batch.acks != -1 && contract.is_replicated()) || lineage.beyond_budget {
            return;
        }
        i01::on_confirmed(judge, partition, base, i64::from(batch.count));
        let records = (0..batch.count).map(|index| {
            let record = RecordId { client: id.client, counter: id.first + u64::from(index) };
            (base + i64::from(index), record)
        });
        let is_lost = i06::on_confirmed(judge, contract, partition, (&batch, records.clone()), base);
        if i26::on_confirmed(judge, partition, &batch, base) {
            in_order(judge, partition.topic_id, base);
        }
        for seen in records {
            history.see(judge, partition, seen, is_lost);
        }
    }

    fn on_failed(&mut self, now_ns: u64, id: BatchId) {
        let State { judge, partitions, history, statistics, .. } = self;
        let Some(sent) = history.sent.get_mut(&id) else { return };
        sent.outcome = Outcome::Failed;
        let count = u64::from(sent.batch.count);
        statistics.records_failed += count;
        let partition = partitions.get(&sent.batch.partition).map(|lineage| &lineage.log);
        judge.at(
            now_ns,
            partition.map(|partition| partition.node),
            partition.map(|partition| &partition.name),
        );
        for counter in id.first..id.first + count {
            let record = RecordId { client: id.client, counter };
            i65a::on_failed(judge, record, history.seen.get(&record).copied());
        }
    }

    fn on_read(
        &mut self,
        now_ns: u64,
        (reader, purpose): (u32, Purpose),
        (name, topic_id): (&TopicPartition, TopicId),
        (fetch_offset, high_watermark): (i64, i64),
        batches: &[ReadBatch],
    ) {
        let State {
            judge, partitions, former, all_disks, history, statistics, contract, calm_since_ns, ..
        } = self;
        judge.at(now_ns, None, None);
        let lineage = match life_of(partitions, former, name, topic_id) {
            Life::Current(lineage) => lineage,
            Life::Over(_) => return history.of_one_topic(judge, topic_id, batches),
            Life::Unknown => {
                return judge.violated(Invariant::I18, format!("{name} was read, which nobody opened"));
            }
        };
        judge.at(now_ns, Some(lineage.log.node), Some(&lineage.log.name));
        history.of_one_topic(judge, topic_id, batches);
        let position = history.positions.get(&(reader, name.clone())).copied();
        let next = i25::on_read(judge, all_disks, &lineage.log, (purpose, position, fetch_offset), batches);
        if purpose == Purpose::Tail {
            i24::on_read(judge, lineage, reader, next, batches);
            let key = (reader, name.clone());
            if next > fetch_offset && position == Some(fetch_offset) {
                let reached_ns = history.reached_ns.get(&key).copied();
                i52::on_read(judge, contract, lineage, (fetch_offset, reached_ns), *calm_since_ns);
            }
            if position != Some(next) {
                history.reached_ns.insert(key, now_ns);
            }
        }
        let partition = &mut lineage.log;
        for batch in batches {
            let is_lost = i06::on_read(judge, partition, batch);
            i18::on_read(judge, partition, batch, high_watermark);
            statistics.records_read += batch.records.len() as u64;
            for (offset, record) in &batch.records {
                match history.batch_of(*record) {
                    Some(sent) => i65a::on_seen(judge, sent, *record, *offset),
                    None => judge
                        .violated(Invariant::I06, format!("{record} is read at {offset}, nobody sent it")),
                }
                i06::on_read_record(judge, partition, *offset, *record);
                history.see(judge, partition, (*offset, *record), is_lost);
            }
        }
        if purpose == Purpose::Tail {
            history.positions.insert((reader, name.clone()), next);
            history.liveness.on_position(judge, reader, name, next);
        }
    }

    /// A topic is made, or goes away: answers about the one before may still come.
    fn on_topic_changes(&mut self, topic: &str, deleting: bool) {
        for (_, lineage) in self.partitions.iter_mut().filter(|(name, _)| *name.topic == *topic) {
            lineage.deleting |= deleting;
        }
    }

    /// The run is over: every confirmed batch against the scans.
    pub(super) fn check_scans(&mut self, now_ns: u64) {
        let State { judge, partitions, history, all_disks, contract, .. } = self;
        for sent in history.sent.values() {
            let Some(base) = sent.base_offset.filter(|_| sent.outcome == Outcome::Confirmed) else {
                continue;
            };
            let name = &sent.batch.partition;
            let Some(lineage) = partitions.get(name) else { continue };
            let is_its_own = [TopicId::default(), lineage.log.topic_id].contains(&sent.batch.topic_id);
            if !is_its_own || (sent.batch.acks != -1 && contract.is_replicated()) || lineage.is_changing() {
                continue;
            }
            let partition = &lineage.log;
            judge.at(now_ns, Some(partition.node), Some(&partition.name));
            match history.scans.get(name) {
                Some(range) => i69::at_end(judge, all_disks, partition, sent, base, *range),
                None => judge.violated(Invariant::I69, format!("no scan of {name} reached its end")),
            }
        }
    }
}
