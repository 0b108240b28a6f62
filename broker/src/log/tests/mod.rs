//! Scenarios on a disk in memory (`testing::world`), and a few on this machine's own.

mod append;
mod compaction;
mod compaction_crashes;
mod compaction_model;
mod directories;
mod faults;
mod model;
mod read;
mod real_files;
mod recovery;
mod start;
mod truncate;

use super::{
    AppendError, Appended, Log, LogConfig, LogContext, LogError, Opening,
    offset_index::IndexEntry,
    testing::{block_on, world::World},
    time_index::TimeIndexEntry,
};
use crate::{
    observe::{Observation, Observer, Observers},
    types::{LeaderEpoch, Offset, TopicId, TopicPartition},
};
use sillon_protocol::records::{BatchBuilder, Compression, RecordBatch, split_views};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use uuid::Uuid;

const TOPIC_ID: TopicId = TopicId(Uuid::from_u128(7));
const EPOCH: LeaderEpoch = LeaderEpoch(0);

/// Keeps what it is told, as text.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Observer for Recorder {
    fn observe(&self, observation: Observation<'_>) {
        let text = match observation {
            Observation::LogOpened { clean, checked_from, log_start, log_end, .. } => {
                format!("opened clean={clean} from={checked_from} {log_start}..{log_end}")
            }
            Observation::Appended { base_offset, next_offset, .. } => {
                format!("appended {base_offset}..{next_offset}")
            }
            Observation::Flushed { up_to, .. } => format!("flushed {up_to}"),
            Observation::Truncated { to, .. } => format!("truncated {to}"),
            Observation::LogStartMoved { to, reason, .. } => format!("start {to} {reason:?}"),
            Observation::LogOffline { .. } => "offline".into(),
            other => format!("{other:?}"),
        };
        self.0.lock().expect("not poisoned").push(text);
    }
}

/// One log on a disk in memory.
struct Fixture {
    world: World,
    config: LogConfig,
    recorder: Arc<Recorder>,
}

impl Fixture {
    fn new(config: LogConfig) -> Fixture {
        Fixture { world: World::new(), config, recorder: Arc::default() }
    }

    /// Index entries for nearly every batch, segments of this size.
    fn with_segments(segment_bytes: u32) -> Fixture {
        Fixture::new(LogConfig { segment_bytes, index_interval_bytes: 100, ..LogConfig::default() })
    }

    fn on(world: World, config: &LogConfig) -> Fixture {
        Fixture { world, config: config.clone(), recorder: Arc::default() }
    }

    fn context(&self) -> LogContext {
        LogContext { runtime: self.world.runtime(), observers: Observers::new(self.recorder.clone()) }
    }

    fn directory(&self) -> PathBuf {
        "/data/topic-0".into()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    fn try_open(&self, opening: Opening) -> Result<Arc<Log>, LogError> {
        let partition = TopicPartition::new("topic", 0);
        let config = self.config.clone();
        block_on(Log::open(self.context(), self.directory(), partition, TOPIC_ID, config, opening))
    }

    fn open(&self, opening: Opening) -> Arc<Log> {
        self.try_open(opening).expect("the log opens")
    }

    /// Opens a log about which nothing is known.
    fn open_new(&self) -> Arc<Log> {
        self.open(Opening::default())
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.recorder.0.lock().expect("not poisoned"))
    }
}

fn unclean(recovery_point: Offset) -> Opening {
    Opening { clean: false, recovery_point, log_start_offset: Offset(0) }
}

/// A batch as a client sends it.
fn records(values: &[&str], timestamp_ms: i64) -> RecordBatch {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.add(timestamp_ms, None, Some(value.as_bytes()), []);
    }
    RecordBatch::parse(builder.build(Compression::None)).expect("built")
}

/// A batch of an idempotent producer.
fn idempotent(producer_id: i64, epoch: i16, sequence: i32, values: &[&str]) -> RecordBatch {
    let mut builder = BatchBuilder::new().producer(producer_id, epoch, sequence);
    for value in values {
        builder.add(1_700_000_000_000, None, Some(value.as_bytes()), []);
    }
    RecordBatch::parse(builder.build(Compression::None)).expect("built")
}

fn append(log: &Log, batch: RecordBatch) -> Result<Appended, AppendError> {
    block_on(log.append_as_leader(batch, EPOCH))
}

/// Appends `count` batches of two records each, with values "0", "1", …
fn fill(log: &Log, count: usize) {
    for _ in 0..count {
        let next = log.log_end_offset().0;
        let values = [next.to_string(), (next + 1).to_string()];
        append(log, records(&[&values[0], &values[1]], 1_700_000_000_000 + next)).expect("appended");
    }
}

fn flush(log: &Arc<Log>) -> Offset {
    block_on(log.flush(log.log_end_offset())).expect("flushed")
}

fn close(log: &Arc<Log>) {
    block_on(log.close()).expect("closed");
}

/// Reads everything from the log's start: offset, epoch and value of every record.
fn contents(log: &Log) -> Vec<(i64, i32, String)> {
    let mut found = Vec::new();
    let mut from = log.log_start_offset();
    while from < log.log_end_offset() {
        let slice = block_on(log.read(from, 1 << 20, log.log_end_offset(), true)).expect("readable");
        assert!(slice.length > 0, "there is more up to {}, at {from}", log.log_end_offset());
        let mut bytes = vec![0; slice.length];
        block_on(slice.file.read_exact_at(&mut bytes, slice.position)).expect("the slice is in the file");
        for batch in split_views(&bytes) {
            let batch = batch.expect("whole batches");
            batch.validate_header().expect("undamaged");
            let body = batch.decompress(1 << 20).expect("decompresses");
            for record in batch.records_in(&body) {
                let record = record.expect("well-formed");
                let value = String::from_utf8(record.value().expect("a value").to_vec()).expect("text");
                if record.offset() >= log.log_start_offset().0 {
                    found.push((record.offset(), batch.leader_epoch(), value));
                }
            }
        }
        assert!(slice.next_offset > from, "a read moves on");
        from = slice.next_offset;
    }
    found
}

/// What [`fill`] leaves: every record's value is its offset.
fn numbered(from: i64, to: i64) -> Vec<(i64, i32, String)> {
    (from..to).map(|offset| (offset, 0, offset.to_string())).collect()
}

/// What `kafka.tools.DumpLogSegments` checks of a directory's indexes, and Kafka's own sanity checks.
fn check_indexes(world: &World, directory: &Path, closed_only: bool) {
    let names = world.names(directory);
    let bases: Vec<i64> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".log"))
        .map(|base| base.parse().expect("digits"))
        .collect();
    for (index, base) in bases.iter().enumerate() {
        if closed_only && index + 1 == bases.len() {
            continue;
        }
        let content = |suffix: &str| world.content(&directory.join(format!("{base:020}.{suffix}")));
        let log = content("log");
        let mut batches = Vec::new();
        let mut position = 0u32;
        for batch in split_views(&log) {
            let batch = batch.expect("whole");
            // Compaction leaves batches without records: no record has their time stamp.
            let timestamp_ms = if batch.record_count() == 0 { -1 } else { batch.max_timestamp() };
            batches.push((position, batch.last_offset(), timestamp_ms));
            position += batch.size_bytes() as u32;
        }
        let (entries, rest) = (content("index"), content("timeindex"));
        let mut previous = None;
        for bytes in entries.as_chunks().0 {
            let entry = IndexEntry::decode(bytes);
            let last = entry.last_offset(Offset(*base)).0;
            assert!(
                batches.iter().any(|batch| (batch.0, batch.1) == (entry.position, last)),
                "{base}: {entry:?}"
            );
            assert!(previous.is_none_or(|previous| previous < (last, entry.position)), "{base}: {entry:?}");
            previous = Some((last, entry.position));
        }
        let mut previous = None;
        for bytes in rest.as_chunks().0 {
            let entry = TimeIndexEntry::decode(bytes);
            let last = entry.last_offset(Offset(*base)).0;
            let batch = batches.iter().find(|batch| batch.1 == last).expect("names a batch");
            assert_eq!(batch.2, entry.timestamp_ms, "{base}: the time stamp is its batch's");
            let so_far = batches.iter().filter(|batch| batch.1 <= last).map(|batch| batch.2).max();
            assert_eq!(so_far, Some(entry.timestamp_ms), "{base}: the largest so far");
            assert!(previous.is_none_or(|previous| previous < entry.timestamp_ms), "{base}: {entry:?}");
            previous = Some(entry.timestamp_ms);
        }
        let largest = batches.iter().map(|batch| batch.2).max().filter(|largest| *largest >= 0);
        assert_eq!(previous, largest, "{base}: the last entry has the largest time stamp");
        assert_eq!((entries.len() % 8, rest.len() % 12), (0, 0));
    }
}
