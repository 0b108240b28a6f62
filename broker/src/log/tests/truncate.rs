//! Cutting a log at its end.

use super::*;

fn filled() -> (Fixture, Arc<Log>) {
    let fixture = Fixture::with_segments(400);
    let log = fixture.open_new();
    fill(&log, 20);
    flush(&log);
    fixture.told();
    (fixture, log)
}

#[test]
fn a_log_is_cut_at_the_batch_that_holds_the_offset() {
    for offset in 0..=40 {
        let (fixture, log) = filled();
        let end = offset / 2 * 2;
        assert_eq!(block_on(log.truncate_to(Offset(offset))).expect("cut"), Offset(end));
        assert_eq!(log.log_end_offset(), Offset(end));
        assert!(log.recovery_point() <= Offset(end), "I09");
        assert_eq!(contents(&log), numbered(0, end));
        if end < 40 {
            assert_eq!(fixture.told(), [format!("truncated {end}")]);
        }
        fill(&log, 2);
        assert_eq!(contents(&log), numbered(0, end + 4));
        close(&log);
        check_indexes(&fixture.world, &fixture.directory(), false);
        fixture.world.lose_power(None);
        let log = fixture.open(Opening { clean: true, ..unclean(log.recovery_point()) });
        assert_eq!(contents(&log), numbered(0, end + 4));
    }
}

#[test]
fn epochs_and_producers_forget_what_was_cut() {
    let fixture = Fixture::with_segments(400);
    let log = fixture.open_new();
    for epoch in 0..10 {
        let batch = idempotent(1, 0, epoch, &["v"]);
        block_on(log.append_as_leader(batch, LeaderEpoch(epoch))).expect("appended");
    }
    block_on(log.truncate_to(Offset(6))).expect("cut");
    assert_eq!((log.latest_epoch(), log.epochs().len()), (Some(LeaderEpoch(5)), 6), "I13");
    let lines = fixture.world.content(&fixture.path("leader-epoch-checkpoint"));
    assert!(lines.ends_with(b"5 5\n"), "on disk too");
    assert_eq!(block_on(log.producers_summary())[0].last_sequence, 5);
    let appended = block_on(log.append_as_leader(idempotent(1, 0, 6, &["w"]), LeaderEpoch(12)))
        .expect("goes on from there");
    assert!(!appended.duplicate);
}

#[test]
fn cutting_below_the_start_empties_the_log() {
    let (fixture, log) = filled();
    block_on(log.delete_records(Offset(20), Offset(40))).expect("deleted");
    block_on(log.enforce_retention(Offset(40))).expect("done");
    let first = log.first_segment_offset();
    assert!(first > Offset(4));
    assert_eq!(block_on(log.truncate_to(Offset(4))).expect("cut"), Offset(4));
    assert_eq!(
        (log.log_start_offset(), log.log_end_offset(), log.recovery_point()),
        (Offset(4), Offset(4), Offset(4))
    );
    assert_eq!((log.latest_epoch(), log.segment_count()), (None, 1));
    assert_eq!(fixture.world.names(&fixture.directory()).len(), 4, "one empty segment, and the topic's id");
    fill(&log, 2);
    assert_eq!(contents(&log), numbered(4, 8));
}

#[test]
fn a_log_may_begin_anywhere_anew() {
    let (fixture, log) = filled();
    assert_eq!(block_on(log.truncate_fully_and_start_at(Offset(1000))).expect("done"), Offset(1000));
    fill(&log, 2);
    assert_eq!(contents(&log), numbered(1000, 1004));
    flush(&log);
    fixture.world.lose_power(None);
    let log = fixture.open(unclean(Offset(1004)));
    assert_eq!(contents(&log), numbered(1000, 1004));
}

#[test]
fn what_was_cut_never_comes_back() {
    for seed in 0..60 {
        let (fixture, log) = filled();
        block_on(log.truncate_to(Offset(10))).expect("cut");
        for index in 0..8 {
            let (first, second) = (format!("new {index}"), "!".to_owned());
            append(&log, records(&[&first, &second], 0)).expect("appended");
        }
        let recovery_point = log.recovery_point();
        assert_eq!(recovery_point, Offset(10));
        fixture.world.lose_power(Some(seed));
        let log = fixture.open(unclean(recovery_point));
        for (offset, _, value) in contents(&log) {
            let expected = match (offset, offset % 2) {
                (..10, _) => offset.to_string(),
                (_, 0) => format!("new {}", (offset - 10) / 2),
                _ => "!".to_owned(),
            };
            assert_eq!(value, expected, "seed {seed}");
        }
    }
}
