//! What the oracle knows to be true of each partition, from the broker's facts, the clients' histories and the
//! faults: the log as it must be, who may have lost what, who has seen what. Owns the ghost state and how it moves;
//! judges nothing.

use super::{
    disk::{DiskBatch, LogImage},
    events::{DiskFault, RecordId, SentBatch},
};
use sillon_broker::types::{TopicId, TopicPartition};
use std::{
    collections::{BTreeMap, BTreeSet},
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

    /// A number for a batch and all before it, whose number is `before`.
    fn chained_to(&self, before: u64) -> u64 {
        let mut hash = before ^ 0x9e37_79b9_7f4a_7c15;
        let crc_and_epoch = u64::from(self.crc) << 32 | u64::from(self.epoch.unsigned_abs());
        for word in [self.base.unsigned_abs(), self.next.unsigned_abs(), crc_and_epoch] {
            hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
            hash ^= hash >> 32;
        }
        hash
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

/// How far a follower was known to be, by its own report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub log_end: i64,
    /// The registration under which it reported.
    pub broker_epoch: i64,
}

/// What a leader knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Leading {
    pub epoch: i32,
    /// Where its epoch starts in its log.
    pub start: i64,
    /// The in-sync replicas as it knows that they are.
    pub isr: Vec<u32>,
    /// The version of the state that said so.
    pub state: i32,
    /// What it has proposed since, and may have come about.
    pub proposed: Vec<Vec<u32>>,
    /// What followers reported in this epoch.
    pub reported: BTreeMap<u32, Report>,
    /// When a follower's report last reached the end of the log.
    pub caught_up_ns: BTreeMap<u32, u64>,
    /// Who was found to lag, for how long, and what the limit was, since its last report that reached the end.
    pub lags: BTreeMap<u32, (u64, u64)>,
    /// The high watermark when the confirmed in-sync replicas became too few; none while they are enough.
    pub enough_until: Option<i64>,
    /// Since when all that are in sync hold everything below an offset that the high watermark has not reached.
    pub owed: Option<(u64, i64)>,
}

impl Leading {
    /// Everybody who counts for the high watermark: in sync, or perhaps in sync by a proposal.
    pub fn maximal_isr(&self) -> BTreeSet<u32> {
        self.isr.iter().chain(self.proposed.iter().flatten()).copied().collect()
    }
}

/// A log of one partition: one broker's replica, or what the partition's records are for everybody.
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
    /// For each batch a number for it and all before it.
    pub chains: Vec<u64>,
    /// The chain goes back to the partition's first record, or to that of a log which does.
    pub is_rooted: bool,
    /// What it knows as a leader, while it is one.
    pub leading: Option<Leading>,
    /// It has lost records from its end since it was last seen to hold everything; where it ended before.
    pub short_since: Option<i64>,
    /// Where it is about to cut, and whether it begins anew there.
    pub ordered_cut: Option<(i64, bool)>,
    pub log_end: i64,
    /// As told in this incarnation.
    pub high_watermark: Option<i64>,
    /// The one that the broker really has, for all that it told since it opened the log.
    pub told_high_watermark: Option<i64>,
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
            chains: Vec::new(),
            is_rooted: true,
            leading: None,
            short_since: None,
            ordered_cut: None,
            log_end: 0,
            high_watermark: None,
            told_high_watermark: None,
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
        self.push_chained(batch, None);
    }

    /// Appends a batch; `root` is its chain in a log that holds what this one lacks before it.
    pub fn push_chained(&mut self, batch: GhostBatch, root: Option<u64>) {
        let chain = match (self.chains.last(), root) {
            (Some(before), _) => batch.chained_to(*before),
            (None, Some(root)) => root,
            (None, None) => {
                self.is_rooted = batch.base == 0;
                batch.chained_to(0)
            }
        };
        if root.is_some() && self.chains.is_empty() {
            self.is_rooted = true;
        }
        self.log_end = batch.next;
        self.note_producer(&batch);
        self.batches.push(batch);
        self.chains.push(chain);
    }

    /// The number of batches at the beginning that this log and the other have in common, and the offset after them.
    /// Looks at few of them: where two logs agree at one place, they agree before it.
    pub fn common_with(&self, other: &Partition) -> i64 {
        let from = self.batches.first().map_or(0, |batch| batch.base);
        let other_from = other.batches.first().map_or(0, |batch| batch.base);
        let is_common = |batch: &GhostBatch, chain: u64| {
            other.index_at(batch.base).is_some_and(|index| {
                let chains_count = self.is_rooted && other.is_rooted;
                other.batches[index] == *batch && (!chains_count || other.chains[index] == chain)
            })
        };
        let (mut low, mut high) =
            (self.batches.partition_point(|batch| batch.base < other_from), self.batches.len());
        if low == high {
            return self.log_end.min(other.log_end).max(from.min(other_from));
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            match is_common(&self.batches[middle], self.chains[middle]) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        match low.checked_sub(1) {
            Some(last) => self.batches[last].next,
            None => self.batches[0].base,
        }
    }

    /// The number of everything below `offset`, where a batch ends there.
    pub fn chain_below(&self, offset: i64) -> Option<u64> {
        let index = self.batches.partition_point(|batch| batch.next <= offset).checked_sub(1)?;
        (self.batches[index].next == offset).then(|| self.chains[index])
    }

    fn index_at(&self, base: i64) -> Option<usize> {
        self.batches.binary_search_by_key(&base, |batch| batch.base).ok()
    }

    /// Whether it holds everything of `other` below `to`: the last batch there is the same, with all before it.
    pub fn holds_all_of(&self, other: &Partition, to: i64) -> bool {
        let until = other.batches.partition_point(|batch| batch.next <= to);
        match until.checked_sub(1) {
            None => true,
            Some(last) => {
                let (batch, chain) = (&other.batches[last], other.chains[last]);
                batch.next <= self.log_start
                    || self.index_at(batch.base).is_some_and(|index| {
                        let chains_count = self.is_rooted && other.is_rooted;
                        self.batches[index] == *batch && (!chains_count || self.chains[index] == chain)
                    })
            }
        }
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
        self.chains.truncate(keep);
        if removed.is_empty() && to >= self.log_end {
            return;
        }
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

    /// Everything is gone; the log begins again at `start`.
    pub fn begin_at(&mut self, start: i64) {
        self.lost.append(&mut self.batches);
        self.lost_values.extend(std::mem::take(&mut self.values));
        self.chains.clear();
        self.producers.clear();
        (self.log_start, self.log_end) = (start, start);
        self.highest_log_start = self.highest_log_start.max(start);
        self.is_rooted = start == 0;
        for end in
            [&mut self.committed_end, &mut self.durable, &mut self.acknowledged_end, &mut self.exposed_end]
        {
            *end = start;
        }
        self.high_watermark = self.high_watermark.map(|_| start);
    }

    /// The log is open and sound again.
    pub fn reopened(&mut self) {
        self.open = true;
        self.offline = false;
        self.disk_failed_ns = None;
        self.sync_failed = false;
        self.power_was_lost = false;
        self.wiped = false;
        self.boot = None;
        self.ordered_cut = None;
        self.told_high_watermark = None;
    }

    /// A log that ends at `end`, with or without batches before it.
    pub fn adopted_end(&mut self, end: i64) {
        if self.batches.last().is_none_or(|last| last.next <= end) {
            self.log_end = end;
        }
    }

    /// The batches behind what the disk and this log have in common are lost: a machine that lost power may hold
    /// older ones there.
    pub fn lose_what_differs(&mut self, image: &LogImage) {
        let from = self.log_start.max(image.start());
        let expected = self.batches_from(from);
        let found = &image.batches[image.batches.partition_point(|batch| batch.next <= from)..];
        let different = expected.iter().zip(found).find(|(ghost, disk)| **ghost != GhostBatch::from(*disk));
        if let Some((ghost, _)) = different {
            let base = ghost.base;
            self.lose_from(base);
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
    /// A process runs, as far as was told.
    pub alive: bool,
    pub paused: bool,
    /// It was asked to stop, and has not started again since.
    pub asked_to_stop: bool,
    /// Counts its starts.
    pub starts: u64,
    /// The registration that its process told, where it has one.
    pub broker_epoch: Option<i64>,
    /// What its process has applied of the metadata: controller epoch and version.
    pub metadata: Option<(i32, i64)>,
    /// The controller epoch in which its process is controller.
    pub controls: Option<i32>,
    /// The last registration that one of its processes told, and which process that was.
    pub registered: Option<(u64, i64)>,
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
