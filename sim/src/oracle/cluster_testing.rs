//! A cluster as a short story, for the tests of the invariants: three brokers, one partition, disks in memory, and a
//! coordinator that applies what it is told to. The record at offset n is number n of client 9.

use super::{
    BatchId, ClientEvent, Contract, Invariant, Oracle, Purpose, ReadBatch, RecordId, SentBatch, Stop,
    disk::{Disks, tests::stored_batch},
};
use sillon_broker::{
    controller::layout,
    metadata::{BrokerImage, MetadataPosition, PartitionImage},
    observe::{EpochStart, Observation, ReplicaRole},
    types::{
        BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, ProducerId, TopicId,
        TopicPartition,
    },
};
use sillon_coordinator::{
    command::{Action, Command},
    observe::{Digest, Observation as MemberObservation},
    types::{ConnectionKey, SessionId, Term, Zxid},
};
use sillon_protocol::{
    records::RecordBatch,
    zookeeper::{CreateRequest, Jute, OpCode, PathVersionRequest, SetDataRequest, multi},
};
use sillon_runtime::DirectoryEntry;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

const CLIENT: u32 = 9;
const BROKERS: u32 = 3;
const LOG: &str = "/data/t-0/00000000000000000000.log";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TestBatch {
    base: i64,
    next: i64,
    epoch: i32,
    salt: i32,
}

impl TestBatch {
    fn bytes(&self) -> Vec<u8> {
        let producer = if self.salt == 0 { (-1, -1, -1) } else { (i64::from(self.salt), 0, 0) };
        stored_batch(self.base, (self.next - self.base) as usize, self.epoch, producer)
    }

    fn crc(&self) -> u32 {
        let bytes = self.bytes();
        RecordBatch::parse(&bytes[..]).expect("it was just built").crc()
    }
}

fn entry((epoch, start): (i32, i64)) -> EpochStart {
    EpochStart { epoch: LeaderEpoch(epoch), start_offset: Offset(start) }
}

#[derive(Default)]
struct NodeDisks(Mutex<BTreeMap<(u32, PathBuf), Vec<u8>>>);

impl Disks for NodeDisks {
    fn list(&self, node: u32, directory: &Path) -> Vec<DirectoryEntry> {
        let files = self.0.lock().unwrap();
        let inside = files.iter().filter(|((of, path), _)| *of == node && path.parent() == Some(directory));
        inside
            .map(|((_, path), bytes)| DirectoryEntry {
                name: path.file_name().unwrap().to_string_lossy().into_owned(),
                is_directory: false,
                length: bytes.len() as u64,
            })
            .collect()
    }

    fn read(&self, node: u32, file: &Path) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(&(node, file.to_path_buf())).cloned()
    }
}

/// One broker of the story.
#[derive(Clone, Debug, Default)]
struct Broker {
    log: Vec<TestBatch>,
    high_watermark: i64,
    epoch: i32,
}

impl Broker {
    fn end(&self) -> i64 {
        self.log.last().map_or(0, |batch| batch.next)
    }
}

pub struct Cluster {
    pub oracle: Arc<Oracle>,
    pub partition: TopicPartition,
    disks: Arc<NodeDisks>,
    now_ns: Arc<AtomicU64>,
    brokers: RefCell<Vec<Broker>>,
    leader: Cell<u32>,
    everything: RefCell<Vec<TestBatch>>,
    zxid: Cell<i64>,
}

impl Cluster {
    pub fn contract() -> Contract {
        Contract { brokers: BROKERS, replication_factor: 3, min_insync_replicas: 2, ..Contract::default() }
    }

    pub fn three() -> Cluster {
        Cluster::with(Cluster::contract())
    }

    pub fn with(contract: Contract) -> Cluster {
        let now_ns = Arc::new(AtomicU64::new(0));
        let (clock, disks) = (now_ns.clone(), Arc::new(NodeDisks::default()));
        let oracle = Oracle::new(Arc::new(move || clock.load(Ordering::Relaxed)), disks.clone(), contract);
        let cluster = Cluster {
            oracle,
            partition: TopicPartition::new("t", 0),
            disks,
            now_ns,
            brokers: RefCell::new(vec![Broker::default(); BROKERS as usize]),
            leader: Cell::new(0),
            everything: RefCell::default(),
            zxid: Cell::new(0),
        };
        for node in 0..BROKERS {
            cluster.oracle.node_starting(node);
            cluster.write_disk(node);
            cluster.open(node);
        }
        cluster
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

    pub fn later_ms(&self, ms: u64) {
        self.now_ns.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }

    pub fn tell(&self, node: u32, observation: Observation<'_>) {
        self.oracle.observer(node).observe(observation);
    }

    fn broker(&self, node: u32) -> Broker {
        self.brokers.borrow()[node as usize].clone()
    }

    fn change<T>(&self, node: u32, change: impl FnOnce(&mut Broker) -> T) -> T {
        change(&mut self.brokers.borrow_mut()[node as usize])
    }

    // ---- logs

    fn write_disk(&self, node: u32) {
        let bytes: Vec<u8> = self.broker(node).log.iter().flat_map(TestBatch::bytes).collect();
        self.disks.0.lock().unwrap().insert((node, LOG.into()), bytes);
    }

    fn open(&self, node: u32) {
        let broker = self.broker(node);
        let mut epochs: Vec<EpochStart> = Vec::new();
        for batch in &broker.log {
            if epochs.last().is_none_or(|last| last.epoch.0 < batch.epoch) {
                epochs.push(entry((batch.epoch, batch.base)));
            }
        }
        self.tell(
            node,
            Observation::LogOpened {
                partition: &self.partition,
                topic_id: TopicId::default(),
                clean: false,
                checked_from: Offset(0),
                log_start: Offset(0),
                log_end: Offset(broker.end()),
                epochs: &epochs,
                producers: &[],
            },
        );
    }

    pub fn stop(&self, node: u32, stop: Stop) {
        self.oracle.node_stopped(node, stop);
    }

    /// Only what is below `to` is on the disk.
    pub fn cut_disk(&self, node: u32, to: i64) {
        self.change(node, |broker| broker.log.retain(|batch| batch.next <= to));
        self.write_disk(node);
    }

    /// Starts again, with the log that the disk holds.
    pub fn restart(&self, node: u32, end: i64) {
        assert_eq!(self.broker(node).end(), end, "the story's disk");
        self.change(node, |broker| broker.high_watermark = 0);
        self.oracle.node_starting(node);
        self.open(node);
    }

    fn write(&self, node: u32, batch: TestBatch) {
        if !self.everything.borrow().contains(&batch) {
            self.everything.borrow_mut().push(batch);
            let id = BatchId { client: CLIENT, first: batch.base as u64 };
            let sent = SentBatch::plain(id, &self.partition, (batch.next - batch.base, batch.crc()));
            self.oracle.client_event(ClientEvent::Sending(sent));
        }
        self.change(node, |broker| broker.log.push(batch));
        self.write_disk(node);
        self.tell(
            node,
            Observation::Appended {
                partition: &self.partition,
                base_offset: Offset(batch.base),
                next_offset: Offset(batch.next),
                leader_epoch: LeaderEpoch(batch.epoch),
                batch_crc: batch.crc(),
                size_bytes: batch.bytes().len(),
                producer: match batch.salt {
                    0 => (ProducerId::NONE, -1, -1),
                    salt => (ProducerId(i64::from(salt)), 0, 0),
                },
            },
        );
    }

    pub fn append(&self, node: u32, base: i64, count: i64) {
        self.append_as(node, base, count, 0);
    }

    /// A batch with other bytes than one at the same place would have.
    pub fn append_as(&self, node: u32, base: i64, count: i64, salt: i32) {
        let epoch = self.broker(node).epoch;
        self.write(node, TestBatch { base, next: base + count, epoch, salt });
    }

    pub fn append_epoch(&self, node: u32, base: i64, count: i64, epoch: i32) {
        self.write(node, TestBatch { base, next: base + count, epoch, salt: 0 });
    }

    /// A follower copies the batch at `base`, whatever it has before it.
    pub fn copy(&self, node: u32, from: u32, base: i64) {
        let batch = self.broker(from).log.into_iter().find(|batch| batch.base == base);
        self.write(node, batch.expect("the leader has it"));
    }

    /// A follower fetches all that the leader has, and says so.
    pub fn fetch(&self, node: u32) {
        self.fetch_from(node, self.leader.get());
    }

    pub fn fetch_from(&self, node: u32, leader: u32) {
        let (source, own) = (self.broker(leader), self.broker(node));
        if own.epoch != source.epoch || own.log.is_empty() {
            self.follow(node, leader, source.epoch);
        }
        for batch in source.log.iter().filter(|batch| batch.base >= own.end()) {
            self.write(node, *batch);
        }
        self.report(leader, node, self.broker(node).end());
    }

    pub fn report(&self, leader: u32, replica: u32, log_end: i64) {
        self.tell(
            leader,
            Observation::ReplicaReported {
                partition: &self.partition,
                leader_epoch: LeaderEpoch(self.broker(leader).epoch),
                replica: BrokerId(replica as i32),
                broker_epoch: BrokerEpoch::NONE,
                log_end: Offset(log_end),
            },
        );
    }

    pub fn truncate(&self, node: u32, to: i64) {
        self.change(node, |broker| broker.log.retain(|batch| batch.next <= to));
        self.write_disk(node);
        self.tell(node, Observation::Truncated { partition: &self.partition, to: Offset(to) });
    }

    pub fn cut(&self, node: u32, leader: u32, diverging: Option<(i32, i64)>, to: i64) {
        self.tell(
            node,
            Observation::TruncationOrdered {
                partition: &self.partition,
                leader: BrokerId(leader as i32),
                leader_epoch: LeaderEpoch(self.broker(leader).epoch),
                diverging: diverging.map(entry),
                to: Offset(to),
            },
        );
        self.truncate(node, to);
    }

    // ---- leaders

    pub fn lead(&self, node: u32, epoch: i32, isr: &[u32]) {
        self.change(node, |broker| broker.epoch = epoch);
        let broker = self.broker(node);
        self.leader.set(node);
        self.tell(
            node,
            Observation::BecameLeader {
                partition: &self.partition,
                leader_epoch: LeaderEpoch(epoch),
                start_offset: Offset(broker.end()),
                latest_epoch: Some(entry((epoch, broker.end()))),
                high_watermark: Offset(broker.high_watermark),
                partition_epoch: PartitionEpoch(0),
                isr: &brokers(isr),
            },
        );
    }

    pub fn follow(&self, node: u32, leader: u32, epoch: i32) {
        self.change(node, |broker| broker.epoch = epoch);
        let broker = self.broker(node);
        self.tell(
            node,
            Observation::BecameFollower {
                partition: &self.partition,
                leader: Some(BrokerId(leader as i32)),
                leader_epoch: LeaderEpoch(epoch),
                log_end: Offset(broker.end()),
                high_watermark: Offset(broker.high_watermark),
            },
        );
    }

    fn move_high_watermark(&self, node: u32, role: ReplicaRole, to: i64) {
        let broker = self.broker(node);
        self.change(node, |broker| broker.high_watermark = to);
        self.tell(
            node,
            Observation::HighWatermarkMoved {
                partition: &self.partition,
                role,
                leader_epoch: LeaderEpoch(broker.epoch),
                from: Offset(broker.high_watermark),
                to: Offset(to),
                log_start: Offset(0),
                log_end: Offset(broker.end()),
            },
        );
    }

    /// A leader's high watermark moves.
    pub fn advance(&self, node: u32, to: i64) {
        self.move_high_watermark(node, ReplicaRole::Leader, to);
    }

    pub fn learn_high_watermark(&self, node: u32, to: i64) {
        self.move_high_watermark(node, ReplicaRole::Follower, to);
    }

    pub fn acknowledge(&self, node: u32, base: i64, next: i64) {
        self.tell(
            node,
            Observation::ProduceAcknowledged {
                partition: &self.partition,
                base_offset: Offset(base),
                next_offset: Offset(next),
                acks: -1,
                duplicate: false,
                high_watermark: Offset(self.broker(node).high_watermark.max(next)),
            },
        );
    }

    pub fn lag(&self, leader: u32, replica: u32) {
        self.tell(
            leader,
            Observation::ReplicaLags {
                partition: &self.partition,
                leader_epoch: LeaderEpoch(self.broker(leader).epoch),
                replica: BrokerId(replica as i32),
                behind_for_ms: 30_001,
                limit_ms: 30_000,
            },
        );
    }

    pub fn propose_isr(&self, leader: u32, state: i32, isr: &[u32]) {
        self.tell(
            leader,
            Observation::IsrProposed {
                partition: &self.partition,
                leader_epoch: LeaderEpoch(self.broker(leader).epoch),
                partition_epoch: PartitionEpoch(state),
                isr: &brokers(isr),
            },
        );
    }

    pub fn confirm_isr(&self, leader: u32, state: i32, isr: &[u32]) {
        self.tell(
            leader,
            Observation::IsrConfirmed {
                partition: &self.partition,
                leader_epoch: LeaderEpoch(self.broker(leader).epoch),
                partition_epoch: PartitionEpoch(state),
                isr: &brokers(isr),
            },
        );
    }

    pub fn serve(&self, node: u32, from: i64, next: i64) {
        self.tell(
            node,
            Observation::FetchServed {
                partition: &self.partition,
                fetch_offset: Offset(from),
                next_offset: Offset(next),
                high_watermark: Offset(self.broker(node).high_watermark),
                log_start: Offset(0),
            },
        );
    }

    // ---- the cluster

    pub fn controller(&self, node: u32, epoch: i32) {
        self.tell(node, Observation::BecameController { controller_epoch: ControllerEpoch(epoch) });
    }

    pub fn registered(&self, node: u32, broker_epoch: i64) {
        self.tell(node, Observation::Registered { broker_epoch: BrokerEpoch(broker_epoch), unclean: false });
    }

    pub fn metadata(&self, node: u32, epoch: i32, version: i64) {
        let position = MetadataPosition { controller_epoch: ControllerEpoch(epoch), version };
        self.tell(node, Observation::MetadataApplied { position, snapshot: false });
    }

    // ---- readers

    /// A consumer gets the batches that begin at `bases`, as the leader has them.
    pub fn read(&self, reader: u32, purpose: Purpose, from: i64, bases: &[i64]) {
        let leader = self.broker(self.leader.get());
        let batches = bases.iter().map(|base| {
            let batch = leader.log.iter().find(|batch| batch.base == *base).expect("the leader has it");
            let record = |offset| (offset, RecordId { client: CLIENT, counter: offset as u64 });
            ReadBatch {
                base_offset: batch.base,
                next_offset: batch.next,
                leader_epoch: batch.epoch,
                crc: batch.crc(),
                records: (batch.base..batch.next).map(record).collect(),
            }
        });
        self.oracle.client_event(ClientEvent::Read {
            reader,
            served_by: Some(self.leader.get()),
            purpose,
            partition: self.partition.clone(),
            topic_id: TopicId::default(),
            fetch_offset: from,
            high_watermark: leader.high_watermark,
            log_start: 0,
            batches: batches.collect(),
        });
    }

    // ---- the coordinator

    fn apply(&self, session: i64, operations: &[(OpCode, Vec<u8>)]) {
        let mut body = Vec::new();
        for (code, bytes) in operations {
            multi::MultiHeader::of(code.number()).write(&mut body);
            body.extend_from_slice(bytes);
        }
        multi::MultiHeader::END.write(&mut body);
        self.apply_action(Action::Write {
            session: SessionId(session),
            connection: ConnectionKey::default(),
            identities: Vec::new(),
            operation: OpCode::Multi.number(),
            body: body.into(),
        });
    }

    fn apply_action(&self, action: Action) {
        self.zxid.set(self.zxid.get() + 1);
        self.oracle.member_observation(&MemberObservation::Applied {
            zxid: Zxid(self.zxid.get()),
            term: Term(1),
            command: Some(&Command { origin: None, time_ms: 0, action }),
            error: 0,
            changed: true,
            digest: Digest::default(),
        });
    }

    /// Three brokers register, and the partition is made, led by broker 0 in epoch 0 with all in sync (state 0).
    pub fn coordinator_begins(&self) {
        for node in 0..BROKERS {
            let image = BrokerImage {
                broker_epoch: BrokerEpoch(0),
                endpoints: Vec::new(),
                rack: None,
                unclean: false,
                registration: 0,
                shutting_down: false,
            };
            let path = layout::broker_path(BrokerId(node as i32));
            let data = layout::encode_broker(&image, 0);
            self.apply(i64::from(node) + 1, &[create(&path, &data, 1)]);
        }
        self.apply(1, &[create(layout::CONTROLLER_EPOCH, b"1", 0)]);
        let data = state(Some(0), 0, &[0, 1], 1);
        let path = layout::state_path(&self.partition);
        self.apply(1, &[check(layout::CONTROLLER_EPOCH, 0), create(&path, &data, 0)]);
    }

    pub fn next_controller_epoch(&self, epoch: i32) {
        self.apply(1, &[set(layout::CONTROLLER_EPOCH, epoch.to_string().as_bytes(), epoch - 2)]);
    }

    /// Writes the partition's state on top of `version`, by the controller of an epoch, which checks that version of
    /// the epoch's node.
    pub fn write_state(
        &self,
        version: i32,
        leader: Option<u32>,
        leader_epoch: i32,
        isr: &[u32],
        controller_epoch: i32,
        checked: Option<i32>,
    ) {
        let data = state(leader, leader_epoch, isr, controller_epoch);
        let mut operations: Vec<_> =
            checked.into_iter().map(|version| check(layout::CONTROLLER_EPOCH, version)).collect();
        operations.push(set(&layout::state_path(&self.partition), &data, version));
        self.apply(1, &operations);
    }

    /// A broker's session ends.
    pub fn unregister(&self, node: u32) {
        self.apply_action(Action::ExpireSession { session: SessionId(i64::from(node) + 1) });
    }
}

fn brokers(nodes: &[u32]) -> Vec<BrokerId> {
    nodes.iter().map(|node| BrokerId(*node as i32)).collect()
}

fn state(leader: Option<u32>, leader_epoch: i32, isr: &[u32], controller_epoch: i32) -> Vec<u8> {
    let image = PartitionImage {
        leader: leader.map(|node| BrokerId(node as i32)),
        leader_epoch: LeaderEpoch(leader_epoch),
        partition_epoch: PartitionEpoch(0),
        replicas: Vec::new(),
        adding: Vec::new(),
        removing: Vec::new(),
        isr: brokers(isr),
        eligible_leader_replicas: Vec::new(),
        last_known_leader: None,
        unproven: Vec::new(),
    };
    layout::encode_state(&image, ControllerEpoch(controller_epoch))
}

fn create(path: &str, data: &[u8], flags: i32) -> (OpCode, Vec<u8>) {
    let mut body = Vec::new();
    CreateRequest { path, data: Some(data), acl: Vec::new(), flags }.write(&mut body);
    (OpCode::Create, body)
}

fn set(path: &str, data: &[u8], version: i32) -> (OpCode, Vec<u8>) {
    let mut body = Vec::new();
    SetDataRequest { path, data: Some(data), version }.write(&mut body);
    (OpCode::SetData, body)
}

fn check(path: &str, version: i32) -> (OpCode, Vec<u8>) {
    let mut body = Vec::new();
    PathVersionRequest { path, version }.write(&mut body);
    (OpCode::Check, body)
}
