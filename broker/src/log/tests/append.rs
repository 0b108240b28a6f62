//! Appending: offsets, epochs, limits, rolling, idempotence.

use super::*;
use crate::types::ProducerId;
use sillon_protocol::records::{EndTransactionMarker, MarkerKind, TimestampType};

#[test]
fn records_are_read_back_as_they_were_appended() {
    for segment_bytes in [200, 1000, 1 << 30] {
        let fixture = Fixture::with_segments(segment_bytes);
        let log = fixture.open_new();
        fill(&log, 40);
        assert_eq!(contents(&log), numbered(0, 80));
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(80)));
        close(&log);
        check_indexes(&fixture.world, &fixture.directory(), false);
        assert_eq!(contents(&log), numbered(0, 80), "a closed log may be read");
        assert!(matches!(append(&log, records(&["x"], 0)), Err(AppendError::Offline(_))));
    }
}

#[test]
fn every_step_is_told() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.open_new();
    fill(&log, 2);
    flush(&log);
    assert_eq!(
        fixture.told(),
        ["opened clean=false from=0 0..0", "appended 0..2", "appended 2..4", "flushed 4"]
    );
}

#[test]
fn the_files_have_kafkas_names() {
    let fixture = Fixture::with_segments(200);
    let log = fixture.open_new();
    fill(&log, 4);
    close(&log);
    assert_eq!(
        fixture.world.names(&fixture.directory()),
        [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
            "00000000000000000004.index",
            "00000000000000000004.log",
            "00000000000000000004.snapshot",
            "00000000000000000004.timeindex",
            "00000000000000000008.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
        ]
    );
    assert_eq!(fixture.world.content(&fixture.path("leader-epoch-checkpoint")), b"0\n1\n0 0\n");
    let metadata = fixture.world.content(&fixture.path("partition.metadata"));
    assert_eq!(metadata, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw");
}

#[test]
fn a_segment_is_closed_by_age_and_by_its_index() {
    let fixture = Fixture::new(LogConfig { segment_ms: 1000, ..LogConfig::default() });
    let log = fixture.open_new();
    fill(&log, 1);
    fixture.world.advance(999);
    fill(&log, 1);
    assert_eq!(log.segment_count(), 1);
    fixture.world.advance(1);
    fill(&log, 1);
    assert_eq!(log.segment_count(), 2);
    fixture.world.advance(5000);
    assert_eq!(log.segment_count(), 2);

    // B33: what time stamps the records have does not matter.
    for timestamp in [0, 1_700_000_000_000, 5, 1_700_000_000_001] {
        append(&log, records(&["x"], timestamp)).expect("appended");
    }
    assert_eq!(log.segment_count(), 3);

    let config = LogConfig { segment_index_bytes: 48, index_interval_bytes: 0, ..LogConfig::default() };
    let fixture = Fixture::new(config);
    let log = fixture.open_new();
    fill(&log, 20);
    assert!(log.segment_count() > 4, "three time index entries are enough: {}", log.segment_count());
    assert_eq!(contents(&log), numbered(0, 40));
    close(&log);
    check_indexes(&fixture.world, &fixture.directory(), false);
}

#[test]
fn batches_that_break_the_topics_limits_are_refused() {
    let config =
        LogConfig { max_message_bytes: 100, message_timestamp_after_max_ms: 1000, ..LogConfig::default() };
    let fixture = Fixture::new(config);
    let log = fixture.open_new();
    let now = fixture.world.unix_ms();
    assert!(matches!(append(&log, records(&[&"x".repeat(50)], now)), Err(AppendError::TooLarge { .. })));
    assert!(matches!(append(&log, records(&["x"], now + 1001)), Err(AppendError::InvalidTimestamp { .. })));
    assert!(matches!(append(&log, records(&["x"], i64::MAX)), Err(AppendError::InvalidTimestamp { .. })));
    assert_eq!(log.log_end_offset(), Offset(0), "nothing was appended");
    append(&log, records(&["x"], now + 1000)).expect("just within");
}

#[test]
fn the_leader_gives_the_time_where_the_topic_says_so() {
    let config = LogConfig { message_timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() };
    let fixture = Fixture::new(config);
    let log = fixture.open_new();
    let now = fixture.world.unix_ms();
    let appended = append(&log, idempotent(1, 0, 0, &["a", "b"])).expect("appended");
    assert_eq!(appended.log_append_time_ms, Some(now));
    assert_eq!(contents(&log).len(), 2, "the checksum is right");
    fixture.world.advance(50);
    let again = append(&log, idempotent(1, 0, 0, &["a", "b"])).expect("a duplicate");
    assert_eq!((again.duplicate, again.log_append_time_ms), (true, Some(now)), "the original's time");
    let found = block_on(log.offset_for_timestamp(now, Offset(2))).expect("readable").expect("found");
    assert_eq!((found.timestamp, found.offset), (now, Offset(0)));
}

#[test]
fn batches_get_the_topics_codec() {
    for target in
        [Compression::None, Compression::Gzip, Compression::Lz4, Compression::Snappy, Compression::Zstd]
    {
        let fixture = Fixture::new(LogConfig { compression: Some(target), ..LogConfig::default() });
        let log = fixture.open_new();
        let mut builder = BatchBuilder::new().producer(4, 1, 0);
        builder.add(1_700_000_000_000, Some(b"k"), Some(b"one"), []);
        builder.add(1_700_000_000_000, None, Some(b"two"), []);
        for source in [Compression::None, Compression::Zstd] {
            let sequence = log.log_end_offset().0 as i32;
            let batch = builder.clone().producer(4, 1, sequence).build(source);
            append(&log, RecordBatch::parse(batch).expect("built")).expect("appended");
        }
        let slice = block_on(log.read(Offset(0), 1 << 20, Offset(4), true)).expect("readable");
        let mut bytes = vec![0; slice.length];
        block_on(slice.file.read_exact_at(&mut bytes, 0)).expect("there");
        for batch in split_views(&bytes) {
            assert_eq!(batch.expect("whole").compression(), Ok(target));
        }
        let values: Vec<_> = contents(&log).into_iter().map(|record| record.2).collect();
        assert_eq!(values, ["one", "two", "one", "two"]);
    }
}

#[test]
fn duplicates_get_their_first_offset_and_gaps_are_refused() {
    let fixture = Fixture::with_segments(300);
    let log = fixture.open_new();
    for sequence in 0..12 {
        let appended = append(&log, idempotent(9, 0, sequence, &["v"])).expect("in order");
        assert_eq!((appended.base_offset, appended.duplicate), (Offset(sequence.into()), false));
    }
    for sequence in 7..12 {
        let again = append(&log, idempotent(9, 0, sequence, &["v"])).expect("a duplicate");
        assert_eq!(
            (again.base_offset, again.next_offset),
            (Offset(sequence.into()), Offset(sequence as i64 + 1))
        );
        assert!(again.duplicate);
    }
    assert!(matches!(append(&log, idempotent(9, 0, 6, &["v"])), Err(AppendError::OutOfOrderSequence { .. })));
    assert!(matches!(
        append(&log, idempotent(9, 0, 13, &["v"])),
        Err(AppendError::OutOfOrderSequence { .. })
    ));
    append(&log, idempotent(9, 1, 0, &["v"])).expect("a new epoch");
    assert!(matches!(
        append(&log, idempotent(9, 0, 12, &["v"])),
        Err(AppendError::InvalidProducerEpoch { .. })
    ));
    assert_eq!(log.log_end_offset(), Offset(13));
    let summary = block_on(log.producers_summary());
    assert_eq!(
        (summary[0].producer_id, summary[0].last_sequence, summary[0].last_offset),
        (ProducerId(9), 0, Offset(12))
    );
}

#[test]
fn idle_producers_are_forgotten_by_the_monotonic_clock() {
    let fixture =
        Fixture::new(LogConfig { producer_id_expiration_ms: 1000, retention_ms: -1, ..LogConfig::default() });
    let log = fixture.open_new();
    append(&log, idempotent(1, 0, 0, &["v"])).expect("appended");
    fixture.world.advance(999);
    block_on(log.enforce_retention(Offset(1))).expect("done");
    assert_eq!(block_on(log.producers_summary()).len(), 1);
    fixture.world.advance(1);
    block_on(log.enforce_retention(Offset(1))).expect("done");
    assert_eq!(block_on(log.producers_summary()).len(), 0);
}

#[test]
fn coordinators_write_markers_and_batches_without_sequence() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.open_new();
    let mut builder = BatchBuilder::new().producer(5, 3, 0).transactional(true);
    builder.add(1_700_000_000_000, None, Some(b"v"), []);
    append(&log, RecordBatch::parse(builder.build(Compression::None)).expect("built"))
        .expect("in a transaction");
    let marker = EndTransactionMarker { kind: MarkerKind::Commit, coordinator_epoch: 8 };
    let batch = RecordBatch::parse(marker.to_batch(1_700_000_000_000, 5, 4)).expect("built");
    let appended = block_on(log.append_as_coordinator(batch, EPOCH)).expect("a marker");
    assert_eq!(appended.base_offset, Offset(1));
    let before = block_on(log.producers_summary());
    flush(&log);
    // The table is the same when it is rebuilt from the log, marker included (I27).
    let again = fixture.open(unclean(log.recovery_point()));
    assert_eq!(block_on(again.producers_summary()), before);
    assert!(append(&again, idempotent(5, 3, 1, &["v"])).is_err(), "the marker raised the epoch");
}

#[test]
fn an_epoch_is_on_disk_before_its_first_record() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.open_new();
    fill(&log, 1);
    assert_eq!(block_on(log.start_leader_epoch(LeaderEpoch(3))).expect("entered"), Offset(2));
    assert_eq!(fixture.world.content(&fixture.path("leader-epoch-checkpoint")), b"0\n2\n0 0\n3 2\n", "B04");
    assert_eq!(block_on(log.start_leader_epoch(LeaderEpoch(3))).expect("again"), Offset(2));
    assert!(matches!(
        block_on(log.start_leader_epoch(LeaderEpoch(2))),
        Err(LogError::StaleLeaderEpoch { given: LeaderEpoch(2), latest: LeaderEpoch(3) })
    ));
    assert!(matches!(append(&log, records(&["x"], 0)), Err(AppendError::StaleLeaderEpoch { .. })));
    block_on(log.append_as_leader(records(&["x"], 0), LeaderEpoch(4)))
        .expect("an epoch may begin with a record");
    assert_eq!(fixture.world.content(&fixture.path("leader-epoch-checkpoint")), b"0\n2\n0 0\n4 2\n");
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(3)), (LeaderEpoch(0), Offset(2)));
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(4)), (LeaderEpoch(4), Offset(3)));
    assert_eq!(
        (log.latest_epoch(), log.epoch_for_offset(Offset(1))),
        (Some(LeaderEpoch(4)), Some(LeaderEpoch(0)))
    );
}

#[test]
fn a_follower_takes_what_continues_its_log() {
    let fixture = Fixture::with_segments(300);
    let log = fixture.open_new();
    let stamped = |base: i64, epoch: i32| crate::log::testing::batch(base, epoch, 2, 10);
    let run: bytes::Bytes = [stamped(0, 1), stamped(2, 1), stamped(4, 3), stamped(6, 3)].concat().into();
    let cut = run.slice(..run.len() - 1);
    assert_eq!(block_on(log.append_as_follower(&cut)).expect("appended"), Offset(6), "what is cut off waits");
    let again = block_on(log.append_as_follower(&stamped(4, 3)));
    assert!(matches!(again, Err(AppendError::OutOfOrderOffset { given: Offset(4), log_end: Offset(6) })));
    assert!(matches!(
        block_on(log.append_as_follower(&stamped(6, 2))),
        Err(AppendError::StaleLeaderEpoch { .. })
    ));
    let mut damaged = stamped(6, 3).to_vec();
    *damaged.last_mut().expect("not empty") ^= 1;
    assert!(matches!(block_on(log.append_as_follower(&damaged.into())), Err(AppendError::Record(_))));
    assert_eq!(block_on(log.append_as_follower(&stamped(6, 3))).expect("appended"), Offset(8));
    let epochs: Vec<_> = log.epochs().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect();
    assert_eq!(epochs, [(1, 0), (3, 4)]);
    let stored: Vec<_> = contents(&log).into_iter().map(|record| (record.0, record.1)).collect();
    assert_eq!(stored, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 3), (5, 3), (6, 3), (7, 3)]);
}

#[test]
fn an_epoch_led_without_a_record_gives_way_to_older_records_of_the_next_leader() {
    let fixture = Fixture::with_segments(300);
    let log = fixture.open_new();
    let stamped = |base: i64, epoch: i32| crate::log::testing::batch(base, epoch, 2, 10);
    let epochs = |log: &Log| -> Vec<_> {
        log.epochs().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
    };
    block_on(log.append_as_follower(&stamped(0, 1))).expect("appended");
    block_on(log.start_leader_epoch(LeaderEpoch(4))).expect("entered");
    assert_eq!(epochs(&log), [(1, 0), (4, 2)], "B04: the epoch is there before its first record");
    block_on(log.append_as_follower(&stamped(2, 1))).expect("appended");
    assert_eq!(epochs(&log), [(1, 0)]);
    block_on(log.append_as_follower(&stamped(4, 5))).expect("appended");
    drop(log);
    let again = fixture.open(unclean(Offset(0)));
    assert_eq!(
        (again.log_end_offset(), epochs(&again)),
        (Offset(6), vec![(1, 0), (5, 4)]),
        "on disk as well"
    );
}

#[test]
fn flush_messages_says_when_a_sync_is_due() {
    let fixture = Fixture::new(LogConfig { flush_messages: 3, flush_ms: 1000, ..LogConfig::default() });
    let log = fixture.open_new();
    let due = |log: &Log| append(log, records(&["a", "b"], 0)).expect("appended").flush_due;
    assert!(!due(&log) && due(&log));
    assert_eq!(flush(&log), Offset(4));
    assert!(!due(&log), "counted from the recovery point");
    block_on(log.flush_if_due()).expect("nothing to do");
    assert_eq!(log.recovery_point(), Offset(4));
    fixture.world.advance(1000);
    block_on(log.flush_if_due()).expect("flushed");
    assert_eq!(log.recovery_point(), Offset(6), "flush.ms");
    assert!(block_on(log.flush(Offset(7))).is_err(), "nobody can wait for what is not there");
}

#[test]
fn a_closed_segment_is_synced_soon() {
    let fixture = Fixture::with_segments(200);
    let log = fixture.open_new();
    fill(&log, 2);
    block_on(log.flush_if_due()).expect("nothing to do");
    assert_eq!(log.recovery_point(), Offset(0));
    fill(&log, 1);
    block_on(log.flush_if_due()).expect("flushed");
    assert_eq!(log.recovery_point(), Offset(6));
}
