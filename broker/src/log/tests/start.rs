//! The start of a log: retention and DeleteRecords.

use super::*;
use crate::log::names;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Batches of two records, one day apart, a segment for every three of them.
fn daily(days: i64) -> (Fixture, Arc<Log>) {
    let fixture = Fixture::with_segments(240);
    let log = fixture.open_new();
    for day in 0..days {
        let (first, second) = ((2 * day).to_string(), (2 * day + 1).to_string());
        append(&log, records(&[&first, &second], fixture.world.unix_ms())).expect("appended");
        if day + 1 < days {
            fixture.world.advance(DAY_MS);
        }
    }
    fixture.told();
    (fixture, log)
}

fn update(log: &Log, change: impl FnOnce(&mut LogConfig)) {
    let mut config = (*log.config()).clone();
    change(&mut config);
    log.update_config(config);
}

#[test]
fn old_segments_go_when_all_their_records_are_old() {
    let (fixture, log) = daily(12);
    let end = log.log_end_offset();
    update(&log, |config| config.segment_ms = i64::MAX);
    block_on(log.enforce_retention(end)).expect("done");
    // Days 0 to 11 in segments of three; day 11 is today, and day 4 is exactly seven days old.
    assert_eq!(log.log_start_offset(), Offset(6));
    assert_eq!(contents(&log), numbered(6, 24));
    assert_eq!(fixture.told(), ["start 6 RetentionTime"]);
    assert!(
        !fixture
            .world
            .names(&fixture.directory())
            .iter()
            .any(|name| name.starts_with("00000000000000000000."))
    );
    block_on(log.enforce_retention(end)).expect("done");
    assert_eq!(fixture.told(), [""; 0], "nothing more to do");
    assert_eq!(log.epochs()[0].start_offset, Offset(6), "the epoch begins where the log does");
}

#[test]
fn nothing_at_or_above_the_high_watermark_goes() {
    let (fixture, log) = daily(12);
    update(&log, |config| (config.retention_ms, config.retention_bytes) = (0, 0));
    fixture.world.advance(DAY_MS);
    for (high_watermark, start) in [(0, 0), (5, 0), (6, 6), (13, 12), (23, 18)] {
        block_on(log.enforce_retention(Offset(high_watermark))).expect("done");
        assert_eq!(log.log_start_offset(), Offset(start), "I40 at {high_watermark}");
        assert_eq!(contents(&log), numbered(start, 24));
    }
    block_on(log.enforce_retention(Offset(24))).expect("done");
    assert_eq!(
        (log.log_start_offset(), log.segment_count()),
        (Offset(24), 1),
        "the active segment had its time as well"
    );
    fill(&log, 1);
    assert_eq!(contents(&log), numbered(24, 26));
}

#[test]
fn size_is_bounded_by_whole_segments() {
    let (fixture, log) = daily(12);
    let segment = log.size_bytes() / 4;
    update(&log, |config| (config.retention_ms, config.retention_bytes) = (-1, 2 * segment as i64));
    block_on(log.enforce_retention(log.log_end_offset())).expect("done");
    assert_eq!((log.log_start_offset(), log.segment_count()), (Offset(12), 2));
    assert!(log.size_bytes() >= 2 * segment, "no less than what may be kept");
    assert_eq!(fixture.told(), ["start 12 RetentionSize"]);
}

#[test]
fn a_slice_outlives_its_segment() {
    let (_fixture, log) = daily(12);
    let slice = block_on(log.read(Offset(0), 1 << 20, Offset(24), true)).expect("readable");
    update(&log, |config| config.retention_bytes = 0);
    block_on(log.enforce_retention(log.log_end_offset())).expect("done");
    assert!(log.log_start_offset() > Offset(0));
    let mut bytes = vec![0; slice.length];
    block_on(slice.file.read_exact_at(&mut bytes, slice.position)).expect("still readable");
    assert_eq!(split_views(&bytes).count(), 3);
}

#[test]
fn records_are_deleted_up_to_the_high_watermark() {
    let (fixture, log) = daily(12);
    let delete = |to: i64| block_on(log.delete_records(Offset(to), Offset(15)));
    assert_eq!(delete(7).expect("deleted"), Offset(7));
    assert_eq!(delete(3).expect("was deleted before"), Offset(7));
    assert!(matches!(delete(16), Err(LogError::OffsetOutOfRange { .. })));
    assert!(matches!(delete(-2), Err(LogError::OffsetOutOfRange { .. })));
    assert_eq!(
        fixture.told(),
        ["flushed 24", "start 7 DeleteRecords"],
        "the log on disk never ends before it starts"
    );
    assert_eq!(contents(&log), numbered(7, 24));
    assert_eq!((log.first_segment_offset(), log.segment_count()), (Offset(0), 4));
    update(&log, |config| config.retention_ms = -1);
    block_on(log.enforce_retention(Offset(15))).expect("done");
    assert_eq!(
        (log.first_segment_offset(), log.segment_count()),
        (Offset(6), 3),
        "what lies before it is removed"
    );
    assert_eq!(fixture.told(), [""; 0], "the start did not move again");
    assert_eq!(delete(15).expect("all that is committed"), Offset(15));
    close(&log);
    let log = fixture.open(Opening { clean: true, recovery_point: Offset(24), log_start_offset: Offset(15) });
    assert_eq!(contents(&log), numbered(15, 24));
    assert_eq!(log.first_segment_offset(), Offset(12), "opening removes what lies before the start");
}

#[test]
fn retention_that_was_interrupted_leaves_no_gap() {
    let (fixture, log) = daily(12);
    let end = flush(&log);
    update(&log, |config| config.retention_bytes = 0);
    for seed in 0..50 {
        let copy = Fixture::on(fixture.world.copy(), &fixture.config);
        let log = copy.open(unclean(end));
        update(&log, |config| config.retention_bytes = 0);
        block_on(log.enforce_retention(end)).expect("done");
        copy.world.lose_power(Some(seed));
        let log = copy.open(unclean(end));
        assert_eq!(contents(&log), numbered(log.log_start_offset().0, 24), "seed {seed}");
        let bases: Vec<_> = copy.world.names(&copy.directory());
        let orphans = bases.iter().filter(|name| name.ends_with(names::INDEX_SUFFIX)).count();
        assert_eq!(orphans, log.segment_count());
    }
}
