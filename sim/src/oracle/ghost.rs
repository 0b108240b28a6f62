//! What the oracle knows to be true of each partition, from the broker's facts, the clients' histories and the
//! faults: the log as it must be, who may have lost what, who has seen what. Owns the ghost state and how it moves;
//! judges nothing.

use super::{
    disk::{DiskBatch, LogImage},
    events::{DiskFault, RecordId, SentBatch},
};
use sillon_broker::types::{TopicId, TopicPartition};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The producer of a batch: id (−1 for none), epoch, sequence number of the first record.
pub(super) type Producer = (i64, i16, i32);

/// A batch that is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GhostBatch {
    pub base: i64,
    pub next: i64,
    pub epoch: i32,
    pub crc: u32,
    pub producer: Producer,
}

impl GhostBatch {
    pub fn count(&self) -> i64 {
        self.next - self.base
    }

    /// The sequence number of its last record; they wrap at 2^31.
    pub fn last_sequence(&self) -> i32 {
        let last = i64::from(self.producer.2) + self.count() - 1;
        i32::try_from(last & i64::from(i32::MAX)).expect("31 bits")
    }
}

impl From<&DiskBatch> for GhostBatch {
    fn from(batch: &DiskBatch) -> GhostBatch {
        GhostBatch {
            base: batch.base,
            next: batch.next,
            epoch: batch.epoch,
            crc: batch.crc,
            producer: batch.producer,
        }
    }
}

/// What a producer left behind last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerGhost {
    pub epoch: i16,
    pub last_sequence: i32,
    pub last_offset: i64,
}

/// What lay on the disk when a broker was started.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    /// The partition's log.
    pub image: LogImage,
    /// Whether the last process that opened a log ended in a controlled way.
    pub after_clean_stop: bool,
}

/// One partition, kept by one broker.
#[derive(Debug)]
pub(super) struct Partition {
    pub name: Arc<str>,
    pub directory: PathBuf,
    pub node: u32,
    pub topic_id: TopicId,
    pub log_start: i64,
    /// The highest log start ever told.
    pub highest_log_start: i64,
    /// The log from its first offset on, without gaps. What log start has passed stays.
    pub batches: Vec<GhostBatch>,
    pub log_end: i64,
    /// As told in this incarnation.
    pub high_watermark: Option<i64>,
    /// Everything below was committed once and is still there.
    pub committed_end: i64,
    /// Everything below was told to be durable.
    pub durable: i64,
    /// Everything below was acknowledged to a producer.
    pub acknowledged_end: i64,
    /// Everything below was given to some consumer.
    pub exposed_end: i64,
    pub leader_epoch: Option<i32>,
    /// The log is open.
    pub open: bool,
    /// A write or sync failed and the log has not been opened again.
    pub offline: bool,
    /// A write or sync of a segment file failed at that moment, and the log has not been opened again.
    pub disk_failed_ns: Option<u64>,
    /// It was a sync.
    pub sync_failed: bool,
    /// A power failure may have taken what was not durable.
    pub power_was_lost: bool,
    /// The disk was replaced.
    pub wiped: bool,
    pub boot: Option<Boot>,
    pub producers: BTreeMap<i64, ProducerGhost>,
    /// Batches that a power failure or damage took, as it may.
    pub lost: Vec<GhostBatch>,
    /// The record at each offset that anybody has seen.
    pub values: BTreeMap<i64, RecordId>,
    /// The same for records that were lost.
    pub lost_values: Vec<(i64, RecordId)>,
}

impl Partition {
    pub fn new(partition: &TopicPartition, log_directory: &Path, node: u32, topic_id: TopicId) -> Partition {
        let name: Arc<str> = partition.to_string().into();
        Partition {
            directory: log_directory.join(&*name),
            name,
            node,
            topic_id,
            log_start: 0,
            highest_log_start: 0,
            batches: Vec::new(),
            log_end: 0,
            high_watermark: None,
            committed_end: 0,
            durable: 0,
            acknowledged_end: 0,
            exposed_end: 0,
            leader_epoch: None,
            open: false,
            offline: false,
            disk_failed_ns: None,
            sync_failed: false,
            power_was_lost: false,
            wiped: false,
            boot: None,
            producers: BTreeMap::new(),
            lost: Vec::new(),
            values: BTreeMap::new(),
            lost_values: Vec::new(),
        }
    }

    /// The batch that begins at `base`.
    pub fn batch_at(&self, base: i64) -> Option<&GhostBatch> {
        self.batches.binary_search_by_key(&base, |batch| batch.base).ok().map(|index| &self.batches[index])
    }

    /// The batches that hold offsets from `offset` on.
    pub fn batches_from(&self, offset: i64) -> &[GhostBatch] {
        &self.batches[self.batches.partition_point(|batch| batch.next <= offset)..]
    }

    /// The batch that begins at `base` and was lost, if `found` says that it is the one.
    pub fn lost_at(&self, base: i64, found: impl Fn(&GhostBatch) -> bool) -> bool {
        self.lost.iter().any(|batch| batch.base == base && found(batch))
    }

    pub fn push(&mut self, batch: GhostBatch) {
        self.log_end = batch.next;
        self.note_producer(&batch);
        self.batches.push(batch);
    }

    fn note_producer(&mut self, batch: &GhostBatch) {
        let (producer_id, epoch, _) = batch.producer;
        if producer_id >= 0 {
            let ghost =
                ProducerGhost { epoch, last_sequence: batch.last_sequence(), last_offset: batch.next - 1 };
            self.producers.insert(producer_id, ghost);
        }
    }

    /// The log ends at `to` from now on. What was behind is remembered as lost.
    pub fn lose_from(&mut self, to: i64) {
        let keep = self.batches.partition_point(|batch| batch.next <= to);
        let removed = self.batches.split_off(keep);
        self.lost.extend(removed);
        self.lost_values.extend(self.values.split_off(&to));
        self.log_end = to;
        for end in
            [&mut self.committed_end, &mut self.durable, &mut self.acknowledged_end, &mut self.exposed_end]
        {
            *end = (*end).min(to);
        }
        if let Some(high_watermark) = &mut self.high_watermark {
            *high_watermark = (*high_watermark).min(to);
        }
        self.producers.clear();
        for batch in std::mem::take(&mut self.batches) {
            self.note_producer(&batch);
            self.batches.push(batch);
        }
    }

    /// Takes over what the disk holds past the known end: an append that the broker did not live to tell.
    pub fn adopt(&mut self, image: &LogImage, log_end: i64) {
        if self.batches.is_empty() && self.log_end == 0 {
            self.log_end = image.start();
        }
        for batch in image.batches.iter().filter(|batch| batch.next <= log_end) {
            if batch.base == self.log_end {
                self.push(batch.into());
            }
        }
        self.log_end = log_end;
    }
}

/// Bytes that changed on a disk without anybody being told.
#[derive(Clone, Debug)]
struct Corruption {
    file: PathBuf,
    from: u64,
    to: u64,
}

/// One machine.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The last process ended in a controlled way, and none has opened a log since.
    pub stopped_cleanly: bool,
    pub paused: bool,
    pub asked_to_stop: bool,
    corrupted: Vec<Corruption>,
}

impl Node {
    pub fn note(&mut self, fault: &DiskFault) {
        if let DiskFault::Corrupted { file, offset, length } = fault {
            let to = offset.saturating_add(*length);
            self.corrupted.push(Corruption { file: file.clone(), from: *offset, to });
        }
    }

    /// Whether bytes of `file` in the range were damaged.
    pub fn is_damaged(&self, file: &Path, from: u64, to: u64) -> bool {
        self.corrupted.iter().any(|damage| damage.file == file && damage.from < to && damage.to > from)
    }

    /// Whether anything in or below `path` was damaged.
    pub fn has_damage_in(&self, path: &Path) -> bool {
        self.corrupted.iter().any(|damage| damage.file.starts_with(path))
    }
}

/// How the sending of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Pending,
    Confirmed,
    Failed,
    Unknown,
}

/// A batch that a client sends.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub batch: SentBatch,
    pub sent_ns: u64,
    pub outcome: Outcome,
    /// Where its first record was confirmed to be.
    pub base_offset: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition() -> Partition {
        Partition::new(&TopicPartition::new("t", 0), Path::new("/data"), 0, TopicId::default())
    }

    fn batch(base: i64, next: i64, producer: Producer) -> GhostBatch {
        GhostBatch { base, next, epoch: 0, crc: base as u32, producer }
    }

    #[test]
    fn losing_the_end_forgets_what_its_producers_did() {
        let mut partition = partition();
        partition.push(batch(0, 2, (7, 0, 0)));
        partition.push(batch(2, 5, (7, 0, 2)));
        partition.push(batch(5, 6, (8, 0, 0)));
        partition.values.insert(4, RecordId { client: 1, counter: 4 });
        partition.committed_end = 6;
        partition.lose_from(2);
        assert_eq!((partition.log_end, partition.committed_end), (2, 2));
        assert_eq!(partition.producers[&7].last_sequence, 1);
        assert!(!partition.producers.contains_key(&8));
        assert_eq!(partition.lost.len(), 2);
        assert_eq!(partition.lost_values.len(), 1);
        assert!(partition.lost_at(2, |lost| lost.next == 5));
    }

    #[test]
    fn sequence_numbers_wrap() {
        assert_eq!(batch(0, 3, (7, 0, i32::MAX - 1)).last_sequence(), 0);
        assert_eq!(batch(0, 1, (7, 0, i32::MAX)).last_sequence(), i32::MAX);
    }

    #[test]
    fn damage_is_known_by_file_and_range() {
        let mut node = Node::default();
        node.note(&DiskFault::Corrupted { file: "/data/t-0/a.log".into(), offset: 100, length: 10 });
        assert!(node.is_damaged(Path::new("/data/t-0/a.log"), 105, 106));
        assert!(!node.is_damaged(Path::new("/data/t-0/a.log"), 110, 200));
        assert!(node.has_damage_in(Path::new("/data/t-0")) && !node.has_damage_in(Path::new("/data/t-1")));
    }
}
