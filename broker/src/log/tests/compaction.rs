//! Compaction, as who reads a log sees it.

use super::*;
use crate::log::{CleanError, Cleaned, CleanerLimits, LogDirectories, Survey, Throttle};
use sillon_protocol::records::{EndTransactionMarker, MarkerKind};

pub(super) const LIMITS: CleanerLimits = CleanerLimits { map_bytes: 1 << 20, buffer_bytes: 200 };
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

pub(super) fn compacted(segment_bytes: u32) -> LogConfig {
    let min_cleanable_dirty_ratio = 0.0;
    let (compact, delete, index_interval_bytes) = (true, false, 100);
    LogConfig {
        compact,
        delete,
        min_cleanable_dirty_ratio,
        segment_bytes,
        index_interval_bytes,
        ..LogConfig::default()
    }
}

/// A batch of keyed records; none is a tombstone.
pub(super) fn keyed(records: &[(&str, Option<&str>)], timestamp_ms: i64, codec: Compression) -> RecordBatch {
    let mut builder = BatchBuilder::new();
    for (key, value) in records {
        builder.add(timestamp_ms, Some(key.as_bytes()), value.map(str::as_bytes), []);
    }
    RecordBatch::parse(builder.build(codec)).expect("built")
}

fn put(fixture: &Fixture, log: &Log, key: &str, value: Option<&str>) -> i64 {
    let batch = keyed(&[(key, value)], fixture.world.unix_ms(), Compression::None);
    append(log, batch).expect("appended").base_offset.0
}

pub(super) fn try_clean(
    fixture: &Fixture,
    log: &Arc<Log>,
    high_watermark: Offset,
    limits: CleanerLimits,
) -> Result<Option<Cleaned>, CleanError> {
    block_on(log.clean(high_watermark, limits, &Throttle::new(fixture.world.runtime())))
}

fn clean(fixture: &Fixture, log: &Arc<Log>) -> Option<Cleaned> {
    try_clean(fixture, log, log.log_end_offset(), LIMITS).expect("cleaned")
}

fn survey(log: &Log) -> Survey {
    block_on(log.survey(log.log_end_offset()))
}

pub(super) type Stored = (i64, String, Option<String>);

/// Every record from an offset on, as a reader gets them.
pub(super) fn read_from(log: &Log, mut from: Offset) -> Vec<Stored> {
    let (mut found, text) = (Vec::new(), |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text"));
    let first = from;
    while from < log.log_end_offset() {
        // Small reads: each begins where the one before ended.
        let slice = block_on(log.read(from, 150, log.log_end_offset(), true)).expect("readable");
        let mut bytes = vec![0; slice.length];
        block_on(slice.file.read_exact_at(&mut bytes, slice.position)).expect("the slice is in the file");
        for batch in split_views(&bytes) {
            let batch = batch.expect("whole batches");
            batch.validate_header().expect("undamaged");
            let body = batch.decompress(1 << 20).expect("decompresses");
            for record in batch.records_in(&body).map(|record| record.expect("well-formed")) {
                if record.offset() >= first.0 && !batch.is_control() {
                    found.push((
                        record.offset(),
                        text(record.key().expect("a key")),
                        record.value().map(text),
                    ));
                }
            }
        }
        assert!(slice.next_offset > from, "a read moves on from {from}");
        from = slice.next_offset;
    }
    assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "I41: in the order of their offsets");
    found
}

pub(super) fn stored(log: &Log) -> Vec<Stored> {
    read_from(log, log.log_start_offset())
}

fn active_base(log: &Log) -> Offset {
    log.view().active().base_offset
}

fn offsets(log: &Log) -> Vec<i64> {
    stored(log).into_iter().map(|record| record.0).collect()
}

/// Rounds of the keys "a", "b" and "c" until the log has so many segments.
fn fill_segments(fixture: &Fixture, log: &Log, segments: usize) {
    let mut round = 0;
    while log.segment_count() < segments {
        for key in ["a", "b", "c"] {
            put(fixture, log, key, Some(&format!("{key}{round}")));
        }
        round += 1;
    }
}

#[test]
fn the_newest_record_of_each_key_stays_at_its_offset() {
    let fixture = Fixture::new(compacted(300));
    let log = fixture.open_new();
    fill_segments(&fixture, &log, 6);
    let before = stored(&log);
    let active = active_base(&log);
    let old = block_on(log.read(Offset(0), 1 << 20, log.log_end_offset(), true)).expect("readable");
    let done = clean(&fixture, &log).expect("there was something to do");
    assert_eq!((done.from, done.to), (Offset(0), active));
    assert_eq!(done.records_kept, 3);
    assert_eq!(done.records_kept + done.records_removed, active.0 as u64);
    assert!(done.bytes_after < done.bytes_before);
    let newest_closed = active.0 - 3;
    let expected: Vec<Stored> = before.into_iter().filter(|record| record.0 >= newest_closed).collect();
    assert_eq!(stored(&log), expected);
    for from in 0..log.log_end_offset().0 {
        let rest: Vec<Stored> = expected.iter().filter(|record| record.0 >= from).cloned().collect();
        assert_eq!(read_from(&log, Offset(from)), rest, "from {from}");
    }
    // Who read before goes on with what it has.
    let mut bytes = vec![0; old.length];
    block_on(old.file.read_exact_at(&mut bytes, old.position)).expect("the old file is there still");
    assert_eq!(split_views(&bytes).next().expect("a batch").expect("whole").base_offset(), 0);
    assert_eq!(clean(&fixture, &log), None, "nothing is dirty any more");
    let left = fixture.world.names(&fixture.directory());
    assert!(!left.iter().any(|name| name.ends_with("cleaned") || name.ends_with("swap")), "{left:?}");
    close(&log);
    check_indexes(&fixture.world, &fixture.directory(), false);
    for opening in [unclean(log.recovery_point()), Opening { clean: true, ..unclean(log.recovery_point()) }] {
        let again = fixture.open(opening);
        assert_eq!(stored(&again), expected);
        assert_eq!((again.log_start_offset(), again.log_end_offset()), (Offset(0), log.log_end_offset()));
    }
}

#[test]
fn segments_that_have_shrunk_become_one() {
    let fixture = Fixture::new(compacted(300));
    let log = fixture.open_new();
    fill_segments(&fixture, &log, 10);
    clean(&fixture, &log).expect("cleaned");
    fill_segments(&fixture, &log, log.segment_count() + 1);
    let before = stored(&log);
    clean(&fixture, &log).expect("cleaned");
    assert!(log.segment_count() <= 6, "{} segments", log.segment_count());
    assert!(stored(&log).iter().all(|record| before.contains(record)));
    let sizes: Vec<u64> = log.view().segments.iter().map(|segment| segment.size_bytes()).collect();
    assert!(sizes.iter().all(|size| *size <= 300), "{sizes:?}");
}

#[test]
fn nothing_uncommitted_takes_anything_with_it() {
    let fixture = Fixture::new(compacted(300));
    let log = fixture.open_new();
    fill_segments(&fixture, &log, 5);
    let second = log.view().segments[1].base_offset;
    let all = offsets(&log);
    assert_eq!(try_clean(&fixture, &log, Offset(second.0 - 1), LIMITS).expect("looked"), None, "B30");
    assert_eq!(offsets(&log), all);
    let done =
        try_clean(&fixture, &log, Offset(second.0 + 1), LIMITS).expect("cleaned").expect("the first segment");
    assert_eq!(done.to, second);
    assert!(offsets(&log).contains(&second.0) && offsets(&log).contains(&(second.0 - 1)));
}

#[test]
fn a_tombstone_goes_after_its_time_and_takes_the_key_with_it() {
    let fixture = Fixture::new(LogConfig { delete_retention_ms: DAY_MS, ..compacted(200) });
    let log = fixture.open_new();
    put(&fixture, &log, "gone", Some("1"));
    put(&fixture, &log, "gone", None);
    put(&fixture, &log, "kept", Some("2"));
    fill_segments(&fixture, &log, log.segment_count() + 1);
    clean(&fixture, &log).expect("cleaned");
    assert_eq!(stored(&log)[..2], [(1, "gone".into(), None), (2, "kept".into(), Some("2".into()))]);
    fixture.world.advance(DAY_MS - 1);
    fill_segments(&fixture, &log, log.segment_count() + 1);
    clean(&fixture, &log).expect("cleaned");
    assert_eq!(offsets(&log)[0], 1, "KIP-534: the horizon counts from the first cleaning, and is set once");
    fixture.world.advance(1);
    fill_segments(&fixture, &log, log.segment_count() + 1);
    clean(&fixture, &log).expect("cleaned");
    assert_eq!(stored(&log)[0], (2, "kept".into(), Some("2".into())));
}

#[test]
fn every_codec_is_opened_and_written_again() {
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let fixture = Fixture::new(compacted(400));
        let log = fixture.open_new();
        while log.segment_count() < 4 {
            let next = log.log_end_offset().0.to_string();
            append(&log, keyed(&[("a", Some(&next)), (&next, Some("x")), ("a", Some("y"))], 5, codec))
                .expect("appended");
        }
        clean(&fixture, &log).expect("cleaned");
        let end = active_base(&log).0;
        let closed = log.view().segments[0].clone();
        let of_a = |record: &&Stored| record.1 == "a" && record.0 < end;
        assert_eq!(stored(&log).iter().filter(of_a).count(), 1, "{codec:?}");
        assert_eq!(
            stored(&log).iter().filter(|record| record.1 != "a" && record.0 < end).count() as i64,
            end / 3
        );
        let content = fixture.world.content(&closed.path(".log"));
        assert!(split_views(&content).all(|batch| batch.expect("whole").compression() == Ok(codec)));
    }
}

#[test]
fn a_producer_goes_on_where_it_was_after_any_restart() {
    let fixture = Fixture::new(compacted(200));
    let log = fixture.open_new();
    let batch = |producer: i64, sequence: i32| {
        let mut builder = BatchBuilder::new().producer(producer, 2, sequence);
        builder.add(5, Some(b"k"), Some(b"v"), []);
        RecordBatch::parse(builder.build(Compression::None)).expect("built")
    };
    for sequence in 0..3 {
        append(&log, batch(7, sequence)).expect("in order");
    }
    fill_segments(&fixture, &log, 5);
    append(&log, batch(8, 0)).expect("another one");
    let before = block_on(log.producers_summary());
    clean(&fixture, &log).expect("cleaned");
    assert_eq!(
        stored(&log).iter().filter(|record| record.1 == "k").count(),
        2,
        "both outlive by key or by place"
    );
    for name in fixture.world.names(&fixture.directory()) {
        if name.ends_with(".snapshot") {
            fixture.world.delete(&fixture.path(&name));
        }
    }
    let again = fixture.open(unclean(log.recovery_point()));
    assert_eq!(block_on(again.producers_summary()), before, "I27");
    assert!(append(&again, batch(7, 2)).expect("known").duplicate, "I70");
    assert!(!append(&again, batch(7, 3)).expect("goes on").duplicate);
}

#[test]
fn aborted_data_goes_and_supersedes_nothing() {
    let fixture = Fixture::new(compacted(250));
    let log = fixture.open_new();
    let send = |producer: i64, value: &str| {
        let mut builder = BatchBuilder::new().producer(producer, 0, 0).transactional(true);
        builder.add(5, Some(b"k"), Some(value.as_bytes()), []);
        append(&log, RecordBatch::parse(builder.build(Compression::None)).expect("built")).expect("appended");
    };
    let end = |producer: i64, kind| {
        let marker = EndTransactionMarker { kind, coordinator_epoch: 0 }.to_batch(5, producer, 0);
        let batch = RecordBatch::parse(marker).expect("built");
        block_on(log.append_as_coordinator(batch, EPOCH)).expect("appended");
    };
    send(1, "committed");
    end(1, MarkerKind::Commit);
    send(2, "aborted");
    end(2, MarkerKind::Abort);
    fill_segments(&fixture, &log, log.segment_count() + 2);
    send(3, "open");
    fill_segments(&fixture, &log, log.segment_count() + 2);
    let done = clean(&fixture, &log).expect("cleaned");
    assert!(
        done.to
            <= Offset(stored(&log).iter().find(|record| record.2 == Some("open".into())).expect("kept").0)
    );
    let of_k: Vec<_> =
        stored(&log).into_iter().filter(|record| record.1 == "k").filter_map(|record| record.2).collect();
    assert_eq!(of_k, ["committed", "open"]);
    end(3, MarkerKind::Commit);
    fill_segments(&fixture, &log, log.segment_count() + 2);
    // The marker lies above the high watermark: the transaction may yet be aborted.
    let marker_at = log.view().segments.iter().rev().map(|segment| segment.base_offset).nth(1).expect("some");
    let open_at = stored(&log).iter().find(|record| record.2 == Some("open".into())).expect("kept").0;
    try_clean(&fixture, &log, Offset(open_at + 1).max(Offset(open_at + 1)).min(marker_at), LIMITS)
        .expect("looked");
    assert!(stored(&log).iter().any(|record| record.2 == Some("committed".into())));
    clean(&fixture, &log).expect("cleaned");
    let of_k: Vec<_> =
        stored(&log).into_iter().filter(|record| record.1 == "k").filter_map(|record| record.2).collect();
    assert_eq!(of_k, ["open"]);
}

#[test]
fn a_small_map_cleans_step_by_step() {
    let fixture = Fixture::new(compacted(500));
    let log = fixture.open_new();
    for round in 0..6 {
        for key in 0..10 {
            put(&fixture, &log, &format!("key-{key}"), Some(&round.to_string()));
        }
    }
    fill_segments(&fixture, &log, log.segment_count() + 1);
    let limits = CleanerLimits { map_bytes: 1, buffer_bytes: 0 };
    let mut from = Offset(0);
    while let Some(done) = try_clean(&fixture, &log, log.log_end_offset(), limits).expect("cleaned") {
        assert_eq!(done.from, from);
        assert!(done.to > from, "each step gets ahead");
        from = done.to;
    }
    let end = active_base(&log);
    assert_eq!(from, end);
    let closed: Vec<Stored> = stored(&log).into_iter().filter(|record| record.0 < end.0).collect();
    let keys: std::collections::BTreeSet<&String> = closed.iter().map(|record| &record.1).collect();
    assert_eq!(keys.len(), closed.len(), "each key once");
    assert_eq!(keys.iter().filter(|key| key.starts_with("key-")).count(), 10);
}

#[test]
fn a_record_without_a_key_is_refused() {
    let fixture = Fixture::new(compacted(500));
    let log = fixture.open_new();
    for codec in [Compression::None, Compression::Zstd] {
        let mut builder = BatchBuilder::new();
        builder.add(5, Some(b"k"), None, []);
        builder.add(5, None, Some(b"v"), []);
        let batch = RecordBatch::parse(builder.build(codec)).expect("built");
        assert!(
            matches!(append(&log, batch), Err(AppendError::MissingKey { indexes, .. }) if indexes == [1]),
            "{codec:?}"
        );
    }
    assert_eq!(log.log_end_offset(), Offset(0));
    log.update_config(LogConfig::default());
    append(&log, records(&["v"], 5)).expect("another policy");
}

#[test]
fn a_damaged_batch_makes_a_log_uncleanable_until_it_is_opened_again() {
    let fixture = Fixture::new(compacted(300));
    let log = fixture.open_new();
    fill_segments(&fixture, &log, 3);
    flush(&log);
    let file = log.view().segments[1].file.clone();
    block_on(file.write_all_at(b"\xff\xff\xff", 70)).expect("written");
    let before = fixture.world.names(&fixture.directory());
    let error = try_clean(&fixture, &log, log.log_end_offset(), LIMITS).expect_err("damaged");
    assert!(matches!(error, CleanError::Damaged { position: 0, .. }), "{error}");
    assert!(log.uncleanable().expect("named").contains("00000000000000000"), "{:?}", log.uncleanable());
    assert_eq!(fixture.world.names(&fixture.directory()), before, "nothing is left behind");
    assert!(log.is_offline().is_none());
}

#[test]
fn what_changes_the_log_meanwhile_ends_the_cleaning() {
    type Change = fn(&Arc<Log>);
    let changes: [(&str, Change); 4] = [
        ("cut", |log| {
            block_on(log.truncate_to(Offset(2))).expect("cut");
        }),
        ("begun anew", |log| {
            block_on(log.truncate_fully_and_start_at(Offset(9))).expect("cut");
        }),
        ("removed", |log| {
            let to = log.view().segments[1].base_offset;
            block_on(log.delete_records(to, log.log_end_offset())).expect("moved");
            block_on(log.enforce_retention(log.log_end_offset())).expect("removed");
        }),
        ("closed", |log| block_on(log.close()).expect("closed")),
    ];
    for (name, change) in changes {
        // Later on, what is removed was swapped already.
        for after in 0..if name == "removed" { 1 } else { 3 } {
            let fixture = Fixture::new(compacted(300));
            let log = fixture.open_new();
            fill_segments(&fixture, &log, 5);
            flush(&log);
            let other = log.clone();
            let expected = Arc::new(Mutex::new(Vec::new()));
            let seen = expected.clone();
            fixture.world.meanwhile(after, move || {
                change(&other);
                *seen.lock().expect("not poisoned") = stored(&other);
            });
            let result = try_clean(&fixture, &log, log.log_end_offset(), LIMITS);
            assert!(matches!(result, Err(CleanError::Changed)), "{name} after {after}: {result:?}");
            let expected = expected.lock().expect("not poisoned").clone();
            assert_eq!(stored(&log), expected, "{name} after {after}");
            assert!(log.uncleanable().is_none(), "{name}: nothing is damaged");
            let again = fixture.open(unclean(log.recovery_point()));
            assert_eq!(
                read_from(&again, log.log_start_offset()),
                expected,
                "{name} after {after}, opened again"
            );
        }
    }
}

#[test]
fn appends_and_rolls_go_on_meanwhile() {
    let fixture = Fixture::new(compacted(300));
    let log = fixture.open_new();
    fill_segments(&fixture, &log, 4);
    flush(&log);
    let (other, world) = (log.clone(), fixture.world.clone());
    fixture.world.meanwhile(1, move || {
        let fixture = Fixture::on(world, &compacted(300));
        fill_segments(&fixture, &other, other.segment_count() + 2);
    });
    let end = log.log_end_offset();
    clean(&fixture, &log).expect("cleaned");
    assert!(log.log_end_offset() > end && log.segment_count() >= 4);
    let newest = stored(&log);
    let again = fixture.open(unclean(log.recovery_point()));
    assert_eq!(stored(&again), newest);
}

#[test]
fn a_follower_takes_over_the_gaps_of_its_leader() {
    let fixture = Fixture::new(compacted(300));
    let leader = fixture.open_new();
    for epoch in 0..4 {
        for key in ["a", "b", "c", "d"] {
            let batch = keyed(&[(key, Some(&epoch.to_string()))], 1_700_000_000_000, Compression::None);
            block_on(leader.append_as_leader(batch, LeaderEpoch(epoch))).expect("appended");
        }
    }
    fill_segments_in(&leader, LeaderEpoch(3), 6);
    clean(&fixture, &leader).expect("cleaned");
    let follows = Fixture::new(compacted(1000));
    let follower = follows.open_new();
    while follower.log_end_offset() < leader.log_end_offset() {
        let slice = block_on(leader.read(follower.log_end_offset(), 200, leader.log_end_offset(), true));
        let slice = slice.expect("readable");
        let mut bytes = vec![0; slice.length];
        block_on(slice.file.read_exact_at(&mut bytes, slice.position)).expect("in the file");
        block_on(follower.append_as_follower(&bytes.into())).expect("appended");
        assert_eq!(follower.log_end_offset(), slice.next_offset);
    }
    let expected = stored(&leader);
    assert_eq!(stored(&follower), expected);
    for from in 0..leader.log_end_offset().0 {
        let rest: Vec<Stored> = expected.iter().filter(|record| record.0 >= from).cloned().collect();
        assert_eq!(read_from(&follower, Offset(from)), rest, "from {from}");
    }
    // What is not durable yet is checked after a crash, gaps and all.
    let again = follows.open(unclean(Offset(0)));
    assert_eq!((stored(&again), again.log_end_offset()), (expected.clone(), leader.log_end_offset()));
    // A cut within a gap, or behind one, leaves the log where its last batch ends.
    for to in 0..leader.log_end_offset().0 {
        let fixture = Fixture::on(follows.world.copy(), &follows.config);
        let log = fixture.open(unclean(Offset(0)));
        flush(&log);
        let end = block_on(log.truncate_to(Offset(to))).expect("cut");
        assert!(end <= Offset(to) && log.recovery_point() <= end, "B27: {to}");
        let rest: Vec<Stored> = expected.iter().filter(|record| record.0 < end.0).cloned().collect();
        assert_eq!(stored(&log), rest);
    }
}

fn fill_segments_in(log: &Log, epoch: LeaderEpoch, segments: usize) {
    while log.segment_count() < segments {
        let batch = keyed(&[("z", Some("z"))], 1_700_000_000_000, Compression::None);
        block_on(log.append_as_leader(batch, epoch)).expect("appended");
    }
}

#[test]
fn both_policies_together_remove_what_is_old() {
    let config = LogConfig { delete: true, retention_ms: DAY_MS, ..compacted(300) };
    let fixture = Fixture::new(config.clone());
    let log = fixture.open_new();
    fill_segments(&fixture, &log, 5);
    clean(&fixture, &log).expect("cleaned");
    fixture.world.advance(2 * DAY_MS);
    log.update_config(LogConfig { delete: false, ..config.clone() });
    block_on(log.enforce_retention(log.log_end_offset())).expect("looked");
    assert_eq!(log.log_start_offset(), Offset(0), "compaction alone keeps what is old");
    log.update_config(config);
    block_on(log.enforce_retention(log.log_end_offset())).expect("removed");
    assert_eq!(log.log_start_offset(), log.log_end_offset());
    assert_eq!(survey(&log).first_dirty, log.log_start_offset());
}

#[test]
fn where_a_cleaning_ended_is_noted_for_the_next_process() {
    let fixture = Fixture::new(compacted(300));
    let partition = TopicPartition::new("topic", 0);
    let open = || {
        let directories =
            block_on(LogDirectories::open(fixture.context(), &["/data".into()])).expect("opens");
        let opened = directories.open_log(&partition, TOPIC_ID, compacted(300));
        let log = block_on(opened).expect("opens");
        (directories, log)
    };
    let content = |name: &str| {
        let bytes = fixture.world.content(&Path::new("/data").join(name));
        String::from_utf8(bytes).expect("text")
    };
    let (directories, log) = open();
    fill_segments(&fixture, &log, 5);
    let done = clean(&fixture, &log).expect("cleaned");
    assert_eq!(content("cleaner-offset-checkpoint"), format!("0\n1\ntopic 0 {}\n", done.to));
    let recovery_point = content("recovery-point-offset-checkpoint");
    assert_eq!(recovery_point, format!("0\n1\ntopic 0 {}\n", log.recovery_point()), "before a gap is left");
    let records = stored(&log);
    drop((directories, log));
    fixture.world.lose_power(None);

    let (directories, log) = open();
    assert_eq!(stored(&log), records);
    assert_eq!(survey(&log).first_dirty, done.to);
    let cut = block_on(log.truncate_to(Offset(done.to.0 - 1))).expect("cut");
    assert_eq!(content("cleaner-offset-checkpoint"), format!("0\n1\ntopic 0 {cut}\n"));
    assert_eq!(survey(&log).first_dirty, cut, "what is written anew is dirty");
    drop((directories, log));
    // Damage cuts the log before that: what is written there now is dirty.
    let path = fixture.path("00000000000000000000.log");
    let mut damaged = fixture.world.content(&path);
    damaged.truncate(damaged.len().min(70));
    for name in fixture.world.names(&fixture.directory()) {
        if name.ends_with(".log") {
            fixture.world.delete(&fixture.path(&name));
        }
    }
    fixture.world.put(&path, &damaged);
    let (directories, log) = open();
    assert!(log.log_end_offset() < cut);
    assert_eq!(content("cleaner-offset-checkpoint"), format!("0\n1\ntopic 0 {}\n", log.log_end_offset()));
    block_on(directories.delete_log(&partition)).expect("deleted");
    assert_eq!(
        content("cleaner-offset-checkpoint"),
        "0\n0\n",
        "I16: another topic of that name does not inherit it"
    );
}
