//! A disk that fails: the log goes offline, stays readable, and comes back whole.

use super::*;
use crate::log::testing::world::Operation;
use std::io::ErrorKind;

const KINDS: [ErrorKind; 2] = [ErrorKind::StorageFull, ErrorKind::Other];

fn assert_offline(log: &Arc<Log>) {
    assert!(log.is_offline().is_some());
    assert!(matches!(append(log, records(&["x"], 0)), Err(AppendError::Offline(_))), "I19");
    assert!(
        matches!(block_on(log.flush(log.log_end_offset())), Ok(point) if point == log.log_end_offset())
            || block_on(log.flush(log.log_end_offset())).is_err()
    );
    assert!(block_on(log.start_leader_epoch(LeaderEpoch(9))).is_err());
    assert!(block_on(log.truncate_to(Offset(0))).is_err());
    assert!(block_on(log.delete_records(Offset(0), Offset(0))).is_err());
    assert!(block_on(log.close()).is_err());
}

#[test]
fn a_write_that_stops_half_way_leaves_nothing_behind() {
    for stored in [0, 1, 17, 60, 61, 70] {
        let fixture = Fixture::with_segments(1000);
        let log = fixture.open_new();
        fill(&log, 3);
        fixture.told();
        fixture.world.fail_write_halfway(stored);
        assert!(matches!(append(&log, records(&["lost"], 0)), Err(AppendError::Offline(_))));
        assert_eq!(fixture.told(), ["offline"]);
        assert_eq!(contents(&log), numbered(0, 6), "still readable");
        assert_offline(&log);
        block_on(log.reopen()).expect("the disk works again");
        assert_eq!(fixture.told(), ["opened clean=false from=0 0..6"]);
        fill(&log, 3);
        assert_eq!(contents(&log), numbered(0, 12));
        close(&log);
        check_indexes(&fixture.world, &fixture.directory(), false);
    }
}

#[test]
fn a_whole_batch_of_a_failed_append_does_not_come_back() {
    let fixture = Fixture::with_segments(1000);
    let log = fixture.open_new();
    fill(&log, 3);
    let path = fixture.path("00000000000000000000.log");
    // The write fails after everything was stored, and even cutting it off fails.
    let mut content = fixture.world.content(&path);
    fixture.world.fail(Operation::Write, 0, ErrorKind::Other);
    append(&log, records(&["refused"], 0)).expect_err("offline");
    content.extend_from_slice(&crate::log::testing::batch(6, 0, 1, 3));
    fixture.world.put(&path, &content);
    let log = {
        block_on(log.reopen()).expect("reopened");
        log
    };
    assert_eq!(contents(&log), numbered(0, 6), "I65a: a refused batch stays refused");
}

#[test]
fn a_failed_sync_is_never_taken_for_a_success() {
    let fixture = Fixture::with_segments(500);
    let log = fixture.open_new();
    fill(&log, 4);
    flush(&log);
    fill(&log, 6);
    fixture.world.fail(Operation::Sync, 0, ErrorKind::Other);
    assert!(matches!(block_on(log.flush(log.log_end_offset())), Err(LogError::Offline { .. })));
    assert_eq!(log.recovery_point(), Offset(8));
    assert_offline(&log);
    assert_eq!(contents(&log), numbered(0, 20));

    // The pages look clean, so syncing alone would prove nothing: they are written again.
    block_on(log.reopen()).expect("reopened");
    assert_eq!((log.log_end_offset(), log.recovery_point()), (Offset(20), Offset(8)), "B27");
    assert!(fixture.world.exists(&fixture.path("sync-failed")), "until a sync succeeds");
    assert_eq!(flush(&log), Offset(20));
    assert!(!fixture.world.exists(&fixture.path("sync-failed")));
    fixture.world.lose_power(None);
    let log = fixture.open(unclean(Offset(20)));
    assert_eq!(contents(&log), numbered(0, 20));
}

#[test]
fn a_process_that_starts_after_a_failed_sync_writes_again_too() {
    let fixture = Fixture::with_segments(500);
    let log = fixture.open_new();
    fill(&log, 10);
    fixture.world.fail(Operation::Sync, 0, ErrorKind::Other);
    block_on(log.flush(Offset(20))).expect_err("the sync fails");
    fixture.world.kill();
    let log = fixture.open(unclean(Offset(0)));
    assert_eq!(flush(&log), Offset(20));
    fixture.world.lose_power(None);
    let log = fixture.open(unclean(Offset(20)));
    assert_eq!(contents(&log), numbered(0, 20));
}

#[test]
fn a_directory_that_cannot_be_synced_is_a_failed_sync() {
    let fixture = Fixture::with_segments(500);
    let log = fixture.open_new();
    fill(&log, 10);
    fixture.world.fail(Operation::SyncDirectory, 0, ErrorKind::Other);
    block_on(log.flush(Offset(20))).expect_err("the names are not durable");
    assert_eq!(log.recovery_point(), Offset(0));
    assert_offline(&log);
    block_on(log.reopen()).expect("reopened");
    flush(&log);
    fixture.world.lose_power(None);
    assert_eq!(contents(&fixture.open(unclean(Offset(20)))), numbered(0, 20));
}

#[test]
fn whatever_fails_while_appending_the_log_is_consistent_afterwards() {
    for kind in KINDS {
        for operation in
            [Operation::Write, Operation::Open, Operation::Rename, Operation::Sync, Operation::SyncDirectory]
        {
            for after in 0..40 {
                let fixture = Fixture::with_segments(250);
                let log = fixture.open_new();
                fixture.world.fail(operation, after, kind);
                let mut accepted = 0;
                for epoch in 0..6 {
                    for _ in 0..4 {
                        let end = log.log_end_offset().0;
                        let value = end.to_string();
                        match block_on(log.append_as_leader(records(&[&value], 0), LeaderEpoch(epoch))) {
                            Ok(appended) => accepted = appended.next_offset.0,
                            Err(error) => assert!(matches!(error, AppendError::Offline(_)), "{error}"),
                        }
                    }
                    let _ = block_on(log.flush(log.log_end_offset()));
                }
                fixture.world.no_more_faults();
                let values = |log: &Log| contents(log).into_iter().map(|record| record.2).collect::<Vec<_>>();
                let expected: Vec<_> = (0..accepted).map(|offset| offset.to_string()).collect();
                assert_eq!(values(&log), expected, "{operation:?} {after}");
                block_on(log.reopen()).expect("the disk works again");
                assert_eq!(values(&log), expected, "{operation:?} {after}, reopened");
                block_on(log.append_as_leader(records(&["last"], 0), LeaderEpoch(7))).expect("online");
                let end = flush(&log);
                fixture.world.lose_power(None);
                let log = fixture.open(unclean(end));
                assert_eq!(
                    values(&log)[..accepted as usize],
                    expected,
                    "{operation:?} {after}, after a power failure"
                );
                assert_eq!(log.latest_epoch(), Some(LeaderEpoch(7)));
            }
        }
    }
}

#[test]
fn reopening_fails_while_the_disk_does() {
    let fixture = Fixture::with_segments(500);
    let log = fixture.open_new();
    fill(&log, 10);
    fixture.world.fail(Operation::Write, 0, ErrorKind::Other);
    append(&log, records(&["x"], 0)).expect_err("offline");
    fixture.world.fail(Operation::Open, 2, ErrorKind::Other);
    block_on(log.reopen()).expect_err("still failing");
    assert_offline(&log);
    assert_eq!(contents(&log), numbered(0, 20));
    fixture.world.no_more_faults();
    block_on(log.reopen()).expect("works again");
    block_on(log.reopen()).expect("nothing to do");
    fill(&log, 1);
    assert_eq!(contents(&log), numbered(0, 22));
}

#[test]
fn an_index_that_cannot_be_written_does_not_take_the_batch_back() {
    let config = LogConfig { index_interval_bytes: 0, ..LogConfig::default() };
    let fixture = Fixture::new(config);
    let log = fixture.open_new();
    fill(&log, 64);
    // The next batch brings the 64th entry, and with it the first write to the index.
    fixture.world.fail(Operation::Write, 1, ErrorKind::StorageFull);
    append(&log, records(&["128"], 0)).expect("the batch itself was written");
    assert_offline(&log);
    assert_eq!(contents(&log), numbered(0, 129));
    block_on(log.reopen()).expect("reopened");
    assert_eq!(contents(&log), numbered(0, 129));
    close(&log);
    check_indexes(&fixture.world, &fixture.directory(), false);
}
