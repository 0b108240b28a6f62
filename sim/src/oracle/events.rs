//! What clients and the world tell the oracle. Owns the words; judges nothing.

use super::groups::events::GroupEvent;
use sillon_broker::types::{TopicId, TopicPartition};
use std::{collections::BTreeSet, path::PathBuf};

/// A batch that a producer sends, named by its first record. The records of a batch have consecutive counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId {
    /// The producing client.
    pub client: u32,
    /// The counter of its first record.
    pub first: u64,
}

/// A record, unique in a run: its value says who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId {
    /// The producing client.
    pub client: u32,
    /// The client's counter.
    pub counter: u64,
}

impl std::fmt::Display for RecordId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "c{}#{}", self.client, self.counter)
    }
}

/// An idempotent producer's mark on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence {
    /// The producer's id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The sequence number of the batch's first record.
    pub first: i32,
}

/// A batch on its way to a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentBatch {
    /// Its name.
    pub id: BatchId,
    /// Where it goes.
    pub partition: TopicPartition,
    /// The topic, where the request names it by its id; nil where it does so by its name alone.
    pub topic_id: TopicId,
    /// How many records.
    pub count: u32,
    /// Its checksum.
    pub crc: u32,
    /// The idempotent producer, where it has one.
    pub sequence: Option<Sequence>,
    /// −1 (all), 1 or 0.
    pub acks: i16,
}

#[cfg(test)]
impl SentBatch {
    /// So many records with this checksum, of no idempotent producer.
    pub fn plain(id: BatchId, partition: &TopicPartition, (count, crc): (i64, u32)) -> SentBatch {
        let (partition, topic_id) = (partition.clone(), TopicId::default());
        SentBatch { id, partition, topic_id, count: count as u32, crc, sequence: None, acks: -1 }
    }
}

/// What a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Follows the log: the next read goes on where this one ended.
    Tail,
    /// Looks again at something older.
    Again,
    /// The full scan at the end.
    Final,
}

/// A batch as a consumer received it, checksum verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBatch {
    /// Offset of its first record.
    pub base_offset: i64,
    /// One past its last.
    pub next_offset: i64,
    /// The leader epoch on it.
    pub leader_epoch: i32,
    /// Its checksum.
    pub crc: u32,
    /// Its records, also those before the offset that was asked for.
    pub records: Vec<(i64, RecordId)>,
}

/// What happened to a client. Results have three values: confirmed, failed, unknown.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// A member of a consumer group did or saw something.
    Group(GroupEvent),
    /// A batch is about to be sent for the first time.
    Sending(SentBatch),
    /// The broker confirmed it. No offset: it is a repetition, too old for the broker to remember where.
    Confirmed {
        /// Which.
        id: BatchId,
        /// The offset of its first record.
        base_offset: Option<i64>,
    },
    /// It certainly was not and never will be appended.
    Failed {
        /// Which.
        id: BatchId,
    },
    /// Nobody knows, and nobody will send it again.
    Unknown {
        /// Which.
        id: BatchId,
    },
    /// A fetch was answered.
    Read {
        /// Who read.
        reader: u32,
        /// The broker's machine that answered, where the reader knows.
        served_by: Option<u32>,
        /// Why.
        purpose: Purpose,
        /// What.
        partition: TopicPartition,
        /// The topic, where the request names it by its id; nil where it does so by its name alone.
        topic_id: TopicId,
        /// From where.
        fetch_offset: i64,
        /// The high watermark in the answer.
        high_watermark: i64,
        /// Log start in the answer, −1 where its version has none.
        log_start: i64,
        /// The whole batches in the answer.
        batches: Vec<ReadBatch>,
    },
    /// A fetch was answered with bytes that are no proper batch.
    ReadDamaged {
        /// Who read.
        reader: u32,
        /// What.
        partition: TopicPartition,
        /// From where.
        fetch_offset: i64,
        /// What is wrong with the bytes.
        text: String,
    },
    /// A tail reader begins.
    Following {
        /// Who.
        reader: u32,
        /// What.
        partition: TopicPartition,
        /// From where.
        from: i64,
    },
    /// A tail reader was told that its position is out of range, and goes on elsewhere.
    Moved {
        /// Who.
        reader: u32,
        /// Where.
        partition: TopicPartition,
        /// The topic that the client takes the name for; nil where it never changes.
        topic_id: TopicId,
        /// From which position.
        from: i64,
        /// To which.
        to: i64,
    },
    /// An offset was asked for and told.
    Listed {
        /// Who asked.
        client: u32,
        /// About what.
        partition: TopicPartition,
        /// The topic that the client takes the name for; nil where it never changes.
        topic_id: TopicId,
        /// −1 for the latest, −2 for the earliest, otherwise the time in milliseconds.
        timestamp: i64,
        /// The leader epoch in the answer; −1 where its version has none.
        leader_epoch: i32,
        /// The answer; −1 for none.
        offset: i64,
    },
    /// Records were removed at a client's request.
    DeletedRecords {
        /// Who asked.
        client: u32,
        /// Of what.
        partition: TopicPartition,
        /// The topic that the client takes the name for; nil where it never changes.
        topic_id: TopicId,
        /// Those below.
        before_offset: i64,
        /// Log start as the broker tells it then.
        low_watermark: i64,
    },
    /// A tail reader was told that the log that it has read is not the one that is there now (a diverging epoch in a
    /// fetch, or an end offset for its epoch that lies below its position), and goes on elsewhere.
    TruncationSignal {
        /// Who.
        reader: u32,
        /// Where.
        partition: TopicPartition,
        /// The topic that the client takes the name for; nil where it never changes.
        topic_id: TopicId,
        /// From which position.
        from: i64,
        /// To which.
        to: i64,
    },
    /// A topic exists from now on, as a client was told.
    TopicCreated {
        /// Its name.
        topic: String,
        /// Its id.
        topic_id: TopicId,
    },
    /// A client asks to delete a topic: from now on it may be gone at any moment.
    TopicDeleting {
        /// Its name.
        topic: String,
    },
    /// A client was told that the topic is gone.
    TopicDeleted {
        /// Its name.
        topic: String,
    },
    /// A client was told that a reassignment of a partition has begun (or that it is taken back, with none).
    Reassigning {
        /// Which partition.
        partition: TopicPartition,
        /// The brokers that it is to be on.
        replicas: Option<Vec<u32>>,
    },
    /// The full scan of a partition is done.
    ScanFinished {
        /// Of which.
        partition: TopicPartition,
        /// From where.
        from: i64,
        /// To where (exclusive).
        to: i64,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// As it was asked to, with everything on disk.
    Controlled,
    /// By itself, with an error.
    Failed,
    /// At once; what it had written stays.
    Killed,
    /// The machine lost power, and with it what was not synced.
    PowerLost,
}

impl Stop {
    /// Everything that was written is there at the next start.
    pub(super) fn keeps_page_cache(self) -> bool {
        self != Stop::PowerLost
    }
}

/// What is whole again when faults end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Healing {
    /// Everything: each machine runs, each link works.
    Full,
    /// Only these machines, among themselves and with the clients: a majority of the coordinator's members, and of each
    /// partition at least as many replicas as `min.insync.replicas`. All others stay as they are.
    Core(BTreeSet<u32>),
}

impl Healing {
    /// Whether a machine is to work from now on.
    pub fn holds(&self, node: u32) -> bool {
        match self {
            Healing::Full => true,
            Healing::Core(machines) => machines.contains(&node),
        }
    }
}

/// What a disk really did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// Stored bytes changed without anybody being told: rot, or a write that landed elsewhere (both places count).
    Corrupted {
        /// In which file.
        file: PathBuf,
        /// From which byte on.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// A sync failed, and the process was told.
    SyncFailed {
        /// Of which file.
        file: PathBuf,
    },
    /// A write failed or fell short, and the process was told.
    WriteFailed {
        /// To which file.
        file: PathBuf,
    },
    /// Everything on the disk is gone.
    Wiped,
}
