//! A run as a short story, for the tests of the invariants: one broker, one partition, one disk in memory.
//!
//! The record at offset n is number n of client 9, whoever reads or writes it.

use super::{
    BatchId, ClientEvent, Contract, Invariant, Oracle, Purpose, ReadBatch, RecordId, SentBatch, Sequence,
    Stop,
    disk::{
        LogImage,
        tests::{MemoryDisk, stored_batch},
    },
};
use sillon_broker::{
    observe::{EpochStart, LogStartReason, Observation, Observer, ProducerSummary, ReplicaRole},
    types::{LeaderEpoch, Offset, PartitionEpoch, ProducerId, TopicId, TopicPartition},
};
use sillon_protocol::records::RecordBatch;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The partition's only segment.
pub const LOG: &str = "/data/t-0/00000000000000000000.log";
const DIRECTORY: &str = "/data/t-0";
const CLIENT: u32 = 9;
const NO_PRODUCER: (i64, i16, i32) = (-1, -1, -1);

#[derive(Clone)]
pub struct TestBatch {
    pub base: i64,
    pub count: i64,
    pub epoch: i32,
    producer: (i64, i16, i32),
    /// As the broker told it.
    crc: u32,
    rotten: bool,
}

impl TestBatch {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = stored_batch(self.base, self.count as usize, self.epoch, self.producer);
        if self.rotten {
            *bytes.last_mut().expect("a batch has bytes") ^= 1;
        }
        bytes
    }
}

pub struct Run {
    pub oracle: Arc<Oracle>,
    pub disk: Arc<MemoryDisk>,
    pub partition: TopicPartition,
    observer: Arc<dyn Observer>,
    now_ns: Arc<AtomicU64>,
    epoch: Cell<i32>,
    high_watermark: Cell<i64>,
    /// What was ever appended.
    appended: RefCell<Vec<TestBatch>>,
    on_disk: RefCell<Vec<TestBatch>>,
    sent: RefCell<BTreeSet<u64>>,
}

impl Run {
    pub fn new() -> Run {
        Run::with(Contract::default())
    }

    pub fn with(contract: Contract) -> Run {
        let now_ns = Arc::new(AtomicU64::new(0));
        let disk = Arc::new(MemoryDisk::default());
        let clock = now_ns.clone();
        let oracle = Oracle::new(Arc::new(move || clock.load(Ordering::Relaxed)), disk.clone(), contract);
        Run {
            observer: oracle.observer(0),
            oracle,
            disk,
            partition: TopicPartition::new("t", 0),
            now_ns,
            epoch: Cell::new(0),
            high_watermark: Cell::new(0),
            appended: RefCell::default(),
            on_disk: RefCell::default(),
            sent: RefCell::default(),
        }
    }

    /// Nothing is wrong, and these were looked at.
    pub fn assert_legal(&self, evaluated: &[Invariant]) {
        assert_eq!(self.oracle.violations(), []);
        let evaluations = self.oracle.evaluations();
        for invariant in evaluated {
            assert!(evaluations[invariant] > 0, "{invariant} was never evaluated");
        }
    }

    pub fn assert_violated(&self, invariant: Invariant) {
        let violations = self.oracle.violations();
        assert!(violations.iter().any(|violation| violation.invariant == invariant), "{violations:#?}");
    }

    pub fn later(&self, by_ns: u64) {
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed);
    }

    fn tell(&self, observation: Observation<'_>) {
        self.observer.observe(observation);
    }

    // ---- the broker

    pub fn open_new(&self) {
        self.start();
        self.disk.write(LOG, []);
        self.open(false, 0, 0);
        self.lead(0);
    }

    pub fn start(&self) {
        self.oracle.node_starting(0);
    }

    pub fn stop(&self, stop: Stop) {
        self.oracle.node_stopped(0, stop);
    }

    /// Opened, with the epoch cache and producer table that the disk gives.
    pub fn open(&self, clean: bool, checked_from: i64, log_end: i64) {
        let epochs = self.epochs_on_disk(log_end);
        let producers = self.producers_on_disk();
        self.tell_opened(clean, checked_from, log_end, &epochs, &producers);
    }

    pub fn open_epochs(&self, clean: bool, checked_from: i64, log_end: i64, cache: &[(i32, i64)]) {
        let entry = |(epoch, start): &(i32, i64)| EpochStart {
            epoch: LeaderEpoch(*epoch),
            start_offset: Offset(*start),
        };
        let epochs: Vec<EpochStart> = cache.iter().map(entry).collect();
        self.tell_opened(clean, checked_from, log_end, &epochs, &self.producers_on_disk());
    }

    pub fn open_producers(
        &self,
        clean: bool,
        checked_from: i64,
        log_end: i64,
        table: &[(i64, i16, i32, i64)],
    ) {
        let producers: Vec<ProducerSummary> = table.iter().map(|entry| summary(*entry)).collect();
        self.tell_opened(clean, checked_from, log_end, &self.epochs_on_disk(log_end), &producers);
    }

    /// Opened after an unclean stop with this log start, of which the epoch cache knows.
    pub fn open_at(&self, log_start: i64, log_end: i64, table: &[(i64, i16, i32, i64)]) {
        let producers: Vec<ProducerSummary> = table.iter().map(|entry| summary(*entry)).collect();
        let epochs = [EpochStart { epoch: LeaderEpoch(0), start_offset: Offset(log_start) }];
        self.tell_opened_at((log_start, log_end), false, log_end, &epochs, &producers);
    }

    fn tell_opened(
        &self,
        clean: bool,
        checked_from: i64,
        log_end: i64,
        epochs: &[EpochStart],
        producers: &[ProducerSummary],
    ) {
        self.tell_opened_at((0, log_end), clean, checked_from, epochs, producers);
    }

    fn tell_opened_at(
        &self,
        (log_start, log_end): (i64, i64),
        clean: bool,
        checked_from: i64,
        epochs: &[EpochStart],
        producers: &[ProducerSummary],
    ) {
        self.tell(Observation::LogOpened {
            partition: &self.partition,
            topic_id: TopicId::default(),
            clean,
            checked_from: Offset(checked_from),
            log_start: Offset(log_start),
            log_end: Offset(log_end),
            epochs,
            producers,
        });
    }

    fn epochs_on_disk(&self, log_end: i64) -> Vec<EpochStart> {
        let mut epochs: Vec<EpochStart> = Vec::new();
        for batch in self.on_disk.borrow().iter().filter(|batch| batch.base < log_end) {
            if epochs.last().is_none_or(|last| last.epoch.0 < batch.epoch) {
                epochs.push(EpochStart { epoch: LeaderEpoch(batch.epoch), start_offset: Offset(batch.base) });
            }
        }
        epochs
    }

    fn producers_on_disk(&self) -> Vec<ProducerSummary> {
        let image = LogImage::read(&*self.disk, 0, Path::new(DIRECTORY), 0);
        let producers = image.replay_producers();
        producers
            .iter()
            .map(|(id, state)| summary((*id, state.epoch, state.last_sequence, state.last_offset)))
            .collect()
    }

    pub fn lead(&self, leader_epoch: i32) {
        let start_offset = self.on_disk.borrow().last().map_or(0, |batch| batch.base + batch.count);
        self.lead_with_cache(leader_epoch, Some((leader_epoch, start_offset)));
    }

    /// Takes the lead, with this as the newest entry of the epoch cache.
    pub fn lead_with_cache(&self, leader_epoch: i32, latest: Option<(i32, i64)>) {
        self.epoch.set(leader_epoch);
        let end = self.on_disk.borrow().last().map_or(0, |batch| batch.base + batch.count);
        let entry = |(epoch, start)| EpochStart { epoch: LeaderEpoch(epoch), start_offset: Offset(start) };
        self.tell(Observation::BecameLeader {
            partition: &self.partition,
            leader_epoch: LeaderEpoch(leader_epoch),
            start_offset: Offset(end),
            latest_epoch: latest.map(entry),
            high_watermark: Offset(self.high_watermark.get()),
            partition_epoch: PartitionEpoch(0),
            isr: &[],
        });
    }

    pub fn append(&self, base: i64, count: i64) {
        self.append_from(base, count, NO_PRODUCER);
    }

    pub fn append_from(&self, base: i64, count: i64, producer: (i64, i16, i32)) {
        let crc = crc_of(base, count, producer);
        self.append_batch(TestBatch { base, count, epoch: self.epoch.get(), producer, crc, rotten: false });
    }

    pub fn append_crc(&self, base: i64, count: i64, crc: u32) {
        let producer = NO_PRODUCER;
        self.append_batch(TestBatch { base, count, epoch: self.epoch.get(), producer, crc, rotten: false });
    }

    pub fn append_epoch(&self, base: i64, count: i64, epoch: i32) {
        let crc = crc_of(base, count, NO_PRODUCER);
        self.append_batch(TestBatch { base, count, epoch, producer: NO_PRODUCER, crc, rotten: false });
    }

    fn append_batch(&self, batch: TestBatch) {
        if !self.sent.borrow().contains(&(batch.base as u64)) {
            self.sending(batch.base as u64, batch.count as u32, None);
        }
        let (id, epoch, sequence) = batch.producer;
        self.on_disk.borrow_mut().push(batch.clone());
        self.appended.borrow_mut().push(batch.clone());
        self.write_disk();
        self.tell(Observation::Appended {
            partition: &self.partition,
            base_offset: Offset(batch.base),
            next_offset: Offset(batch.base + batch.count),
            leader_epoch: LeaderEpoch(batch.epoch),
            batch_crc: batch.crc,
            size_bytes: batch.bytes().len(),
            producer: (ProducerId(id), epoch, sequence),
        });
    }

    pub fn truncate(&self, to: i64) {
        self.tell(Observation::Truncated { partition: &self.partition, to: Offset(to) });
    }

    pub fn flush(&self, up_to: i64) {
        self.tell(Observation::Flushed { partition: &self.partition, up_to: Offset(up_to) });
    }

    pub fn offline(&self) {
        self.tell(Observation::LogOffline { partition: &self.partition, reason: "the disk failed" });
    }

    pub fn cleaned(&self, from: i64, to: i64, records_kept: u64) {
        self.tell(Observation::SegmentsCleaned {
            partition: &self.partition,
            from: Offset(from),
            to: Offset(to),
            segments: 1,
            records_kept,
            records_removed: 1,
            bytes_before: 200,
            bytes_after: 100,
        });
    }

    pub fn high_watermark(&self, from: i64, to: i64) {
        self.high_watermark.set(to);
        let end = self.on_disk.borrow().last().map_or(0, |batch| batch.base + batch.count);
        self.tell(Observation::HighWatermarkMoved {
            partition: &self.partition,
            role: ReplicaRole::Leader,
            leader_epoch: LeaderEpoch(self.epoch.get()),
            from: Offset(from),
            to: Offset(to),
            log_start: Offset(0),
            log_end: Offset(end),
        });
    }

    pub fn acknowledge(&self, base: i64, next: i64) {
        self.acknowledge_at(base, next, self.high_watermark.get());
    }

    pub fn acknowledge_at(&self, base: i64, next: i64, high_watermark: i64) {
        self.tell(Observation::ProduceAcknowledged {
            partition: &self.partition,
            base_offset: Offset(base),
            next_offset: Offset(next),
            acks: -1,
            duplicate: false,
            high_watermark: Offset(high_watermark),
        });
    }

    pub fn served(&self, fetch_offset: i64, next_offset: i64, high_watermark: i64) {
        self.tell(Observation::FetchServed {
            partition: &self.partition,
            fetch_offset: Offset(fetch_offset),
            next_offset: Offset(next_offset),
            high_watermark: Offset(high_watermark),
            log_start: Offset(0),
        });
    }

    pub fn delete_records(&self, to: i64) {
        self.tell(Observation::LogStartMoved {
            partition: &self.partition,
            to: Offset(to),
            high_watermark: Offset(self.high_watermark.get()),
            reason: LogStartReason::DeleteRecords,
        });
    }

    // ---- the disk

    fn write_disk(&self) {
        let bytes: Vec<u8> = self.on_disk.borrow().iter().flat_map(TestBatch::bytes).collect();
        self.disk.write(LOG, bytes);
    }

    /// Only the batches below `to` are on the disk.
    pub fn cut_disk(&self, to: i64) {
        self.on_disk.borrow_mut().retain(|batch| batch.base + batch.count <= to);
        self.write_disk();
    }

    /// A bit of the batch at `base` is wrong. Gives its place in the file.
    pub fn rot(&self, base: i64) -> u64 {
        let mut place = 0;
        for batch in self.on_disk.borrow_mut().iter_mut().take_while(|batch| batch.base <= base) {
            batch.rotten |= batch.base == base;
            place += batch.bytes().len() as u64;
        }
        self.write_disk();
        place - 1
    }

    pub fn rewrite_disk(&self, change: impl FnMut(&mut TestBatch)) {
        self.on_disk.borrow_mut().iter_mut().for_each(change);
        self.write_disk();
    }

    // ---- the clients

    pub fn sending(&self, first: u64, count: u32, sequence: Option<Sequence>) {
        self.sending_at(first, first as i64, count, sequence);
    }

    /// A batch that will have the bytes of the one at `base`.
    pub fn sending_at(&self, first: u64, base: i64, count: u32, sequence: Option<Sequence>) {
        self.sent.borrow_mut().insert(first);
        self.oracle.client_event(ClientEvent::Sending(self.sent_batch(first, base, count, sequence)));
    }

    pub fn sent_batch(&self, first: u64, base: i64, count: u32, sequence: Option<Sequence>) -> SentBatch {
        let producer = sequence
            .map_or(NO_PRODUCER, |sequence| (sequence.producer_id, sequence.producer_epoch, sequence.first));
        let id = BatchId { client: CLIENT, first };
        let crc = crc_of(base, i64::from(count), producer);
        let topic_id = TopicId::default();
        SentBatch { id, partition: self.partition.clone(), topic_id, count, crc, sequence, acks: -1 }
    }

    pub fn confirmed(&self, first: u64, base_offset: i64) {
        let id = BatchId { client: CLIENT, first };
        self.oracle.client_event(ClientEvent::Confirmed { id, base_offset: Some(base_offset) });
    }

    /// The batch at `base` as a consumer gets it.
    pub fn batch_to_read(&self, base: i64) -> ReadBatch {
        let appended = self.appended.borrow();
        let batch = appended.iter().rev().find(|batch| batch.base == base).expect("it was appended");
        let next = base + batch.count;
        ReadBatch {
            base_offset: base,
            next_offset: next,
            leader_epoch: batch.epoch,
            crc: batch.crc,
            records: (base..next)
                .map(|offset| (offset, RecordId { client: CLIENT, counter: offset as u64 }))
                .collect(),
        }
    }

    pub fn read(&self, reader: u32, purpose: Purpose, from: i64, bases: &[i64]) {
        self.read_with(reader, purpose, from, bases, |_| {});
    }

    pub fn read_with(
        &self,
        reader: u32,
        purpose: Purpose,
        from: i64,
        bases: &[i64],
        change: impl FnMut(&mut ReadBatch),
    ) {
        let mut batches: Vec<ReadBatch> = bases.iter().map(|base| self.batch_to_read(*base)).collect();
        batches.iter_mut().for_each(change);
        self.deliver(reader, purpose, from, batches);
    }

    pub fn deliver(&self, reader: u32, purpose: Purpose, fetch_offset: i64, batches: Vec<ReadBatch>) {
        self.oracle.client_event(ClientEvent::Read {
            reader,
            served_by: None,
            purpose,
            partition: self.partition.clone(),
            topic_id: TopicId::default(),
            fetch_offset,
            high_watermark: self.high_watermark.get(),
            log_start: 0,
            batches,
        });
    }

    pub fn read_damaged(&self, reader: u32, fetch_offset: i64) {
        let (partition, text) = (self.partition.clone(), "wrong checksum".to_owned());
        self.oracle.client_event(ClientEvent::ReadDamaged { reader, partition, fetch_offset, text });
    }

    pub fn latest(&self, client: u32, offset: i64) {
        let partition = self.partition.clone();
        self.oracle.client_event(ClientEvent::Listed {
            client,
            partition,
            topic_id: TopicId::default(),
            timestamp: -1,
            leader_epoch: -1,
            offset,
        });
    }
}

/// A checksum depends on neither offset nor epoch, only on what the producer sent.
fn crc_of(base: i64, count: i64, producer: (i64, i16, i32)) -> u32 {
    let bytes = stored_batch(base, count as usize, 0, producer);
    RecordBatch::parse(&bytes[..]).expect("it was just built").crc()
}

fn summary((id, epoch, last_sequence, last_offset): (i64, i16, i32, i64)) -> ProducerSummary {
    ProducerSummary {
        producer_id: ProducerId(id),
        producer_epoch: epoch,
        last_sequence,
        last_offset: Offset(last_offset),
    }
}
