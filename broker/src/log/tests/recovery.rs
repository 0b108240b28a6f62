//! Opening again: after a clean stop, after a crash, after damage.

use super::*;
use crate::log::names;

/// A log of several segments, all of it flushed; gives the fixture and the log's end.
fn stopped(batches: usize) -> (Fixture, Offset) {
    let fixture = Fixture::with_segments(600);
    let log = fixture.open_new();
    fill(&log, batches);
    flush(&log);
    close(&log);
    fixture.told();
    (fixture, log.log_end_offset())
}

fn last_segment(fixture: &Fixture) -> (PathBuf, Vec<u8>) {
    let names = fixture.world.names(&fixture.directory());
    let name = names.iter().rfind(|name| name.ends_with(names::LOG_SUFFIX)).expect("a segment");
    let path = fixture.path(name);
    let content = fixture.world.content(&path);
    (path, content)
}

#[test]
fn a_clean_stop_is_believed() {
    let (fixture, end) = stopped(20);
    let log = fixture.open(Opening { clean: true, recovery_point: end, log_start_offset: Offset(0) });
    assert_eq!(fixture.told(), ["opened clean=true from=40 0..40"]);
    assert_eq!((contents(&log), log.recovery_point()), (numbered(0, 40), Offset(40)));
    fill(&log, 10);
    assert_eq!(contents(&log), numbered(0, 60));
    close(&log);
    check_indexes(&fixture.world, &fixture.directory(), false);
}

#[test]
fn a_clean_stop_is_not_believed_where_something_is_missing() {
    let (fixture, end) = stopped(20);
    let (path, content) = last_segment(&fixture);
    let clean = Opening { clean: true, recovery_point: end, log_start_offset: Offset(0) };
    for damage in 0..4 {
        let fixture = Fixture::on(fixture.world.copy(), &fixture.config);
        match damage {
            0 => fixture.world.put(&path, &content[..content.len() - 1]),
            1 => fixture.world.put(&path, &[&content[..], &[0; 10]].concat()),
            2 => fixture.world.delete(&fixture.path("00000000000000000000.timeindex")),
            _ => fixture.world.put(&fixture.path("00000000000000000000.index"), &[1; 9]),
        }
        let log = fixture.open(clean);
        assert!(fixture.told()[0].starts_with("opened clean=false"), "damage {damage}");
        assert_eq!(contents(&log), numbered(0, log.log_end_offset().0));
        assert_eq!(log.log_end_offset(), if damage == 0 { Offset(38) } else { end });
        close(&log);
        check_indexes(&fixture.world, &fixture.directory(), false);
    }
}

#[test]
fn a_log_cut_at_any_byte_ends_with_its_last_whole_batch() {
    let (fixture, _) = stopped(12);
    let (path, content) = last_segment(&fixture);
    let base: i64 = names::parse_file_name(path.file_name().expect("a file").to_str().expect("text"), ".log")
        .expect("digits")
        .0;
    let ends: Vec<usize> = split_views(&content)
        .scan(0, |end, batch| {
            *end += batch.expect("whole").size_bytes();
            Some(*end)
        })
        .collect();
    for cut in 0..content.len() {
        let fixture = Fixture::on(fixture.world.copy(), &fixture.config);
        fixture.world.put(&path, &content[..cut]);
        let log = fixture.open(unclean(Offset(0)));
        let whole = ends.iter().filter(|end| **end <= cut).count() as i64;
        let end = base + 2 * whole;
        assert_eq!(log.log_end_offset(), Offset(end), "cut at {cut}");
        assert_eq!(log.recovery_point(), Offset(0), "B27: nothing was proven");
        assert_eq!(contents(&log), numbered(0, end));
        fill(&log, 3);
        flush(&log);
        close(&log);
        check_indexes(&fixture.world, &fixture.directory(), false);
        let log = fixture.open(unclean(Offset(0)));
        assert_eq!(contents(&log), numbered(0, end + 6));
    }
}

#[test]
fn a_flipped_bit_past_the_recovery_point_ends_the_log_before_its_batch() {
    let (fixture, end) = stopped(7);
    let (path, content) = last_segment(&fixture);
    let batch_bytes = split_views(&content).last().expect("a batch").expect("whole").size_bytes();
    let start = content.len() - batch_bytes;
    for byte in start..content.len() {
        for bit in [0, 3, 7] {
            let fixture = Fixture::on(fixture.world.copy(), &fixture.config);
            let mut damaged = content.clone();
            damaged[byte] ^= 1 << bit;
            fixture.world.put(&path, &damaged);
            let log = fixture.open(unclean(Offset(0)));
            assert_eq!(log.log_end_offset(), Offset(end.0 - 2), "byte {}, bit {bit}", byte - start);
            assert_eq!(contents(&log), numbered(0, end.0 - 2));
        }
    }
}

#[test]
fn damage_in_an_early_segment_ends_the_log_there() {
    let (fixture, _) = stopped(20);
    let path = fixture.path("00000000000000000000.log");
    let mut content = fixture.world.content(&path);
    let at = content.len() / 2;
    content[at] ^= 0x10;
    fixture.world.put(&path, &content);
    let log = fixture.open(unclean(Offset(0)));
    let end = log.log_end_offset();
    assert_eq!((log.segment_count(), contents(&log)), (1, numbered(0, end.0)));
    let rest: Vec<_> = fixture.world.names(&fixture.directory());
    assert_eq!(
        rest.iter().filter(|name| name.ends_with(".log")).count(),
        1,
        "what followed is gone: {rest:?}"
    );
}

#[test]
fn what_was_proven_durable_is_not_checked_and_not_cut() {
    let (fixture, end) = stopped(20);
    let (path, mut content) = last_segment(&fixture);
    let last = content.len() - 1;
    content[last] ^= 1;
    fixture.world.put(&path, &content);
    let log = fixture.open(unclean(end));
    assert_eq!((log.log_end_offset(), log.recovery_point()), (end, end));
}

#[test]
fn a_missing_segment_ends_the_log() {
    let (fixture, _) = stopped(20);
    let names = fixture.world.names(&fixture.directory());
    let bases: Vec<i64> =
        names.iter().filter_map(|name| names::parse_file_name(name, ".log")).map(|base| base.0).collect();
    fixture.world.delete(&fixture.path(&format!("{:020}.log", bases[2])));
    let log = fixture.open(unclean(Offset(0)));
    assert_eq!(contents(&log), numbered(0, bases[2]));
    let left = fixture.world.names(&fixture.directory());
    assert!(!left.iter().any(|name| name.starts_with(&format!("{:020}.index", bases[2]))), "{left:?}");
}

#[test]
fn a_lost_epoch_checkpoint_is_collected_from_the_log() {
    let fixture = Fixture::with_segments(400);
    let log = fixture.open_new();
    for epoch in [0, 0, 2, 2, 2, 5] {
        block_on(log.append_as_leader(records(&["x"], 0), LeaderEpoch(epoch))).expect("appended");
        block_on(log.append_as_leader(records(&["y"], 0), LeaderEpoch(epoch))).expect("appended");
    }
    let end = flush(&log);
    close(&log);
    let epochs = log.epochs();
    assert_eq!(epochs.len(), 3);
    let path = fixture.path("leader-epoch-checkpoint");
    for damage in [None, Some(&b"0\n9\n"[..]), Some(b"0\n2\n5 0\n2 4\n"), Some(b"\xff")] {
        for opening in [unclean(end), unclean(Offset(0)), Opening { clean: true, ..unclean(end) }] {
            let fixture = Fixture::on(fixture.world.copy(), &fixture.config);
            match damage {
                None => fixture.world.delete(&path),
                Some(content) => fixture.world.put(&path, content),
            }
            let log = fixture.open(opening);
            assert_eq!(log.epochs(), epochs);
            assert_eq!(fixture.world.content(&path), b"0\n3\n0 0\n2 4\n5 10\n");
        }
    }
}

#[test]
fn an_epoch_that_the_log_lost_is_forgotten() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.open_new();
    fill(&log, 2);
    flush(&log);
    block_on(log.start_leader_epoch(LeaderEpoch(3))).expect("entered");
    block_on(log.append_as_leader(records(&["x"], 0), LeaderEpoch(3))).expect("appended");
    fixture.world.lose_power(None);
    let log = fixture.open(unclean(Offset(4)));
    assert_eq!((log.log_end_offset(), log.latest_epoch()), (Offset(4), Some(LeaderEpoch(0))));
    assert_eq!(
        fixture.world.content(&fixture.path("leader-epoch-checkpoint")),
        b"0\n1\n0 0\n",
        "on disk too"
    );
}

#[test]
fn the_producer_table_is_the_one_that_the_log_gives() {
    let fixture = Fixture::with_segments(400);
    let log = fixture.open_new();
    for round in 0..10 {
        for producer in 0..3 {
            append(&log, idempotent(producer, 0, round, &["v"])).expect("in order");
        }
    }
    let end = flush(&log);
    close(&log);
    let table = block_on(log.producers_summary());
    let snapshots: Vec<_> = fixture
        .world
        .names(&fixture.directory())
        .into_iter()
        .filter(|name| name.ends_with(names::SNAPSHOT_SUFFIX))
        .collect();
    assert!(snapshots.len() > 3);
    for damaged in 0..=snapshots.len() {
        for opening in
            [unclean(Offset(0)), unclean(Offset(17)), unclean(end), Opening { clean: true, ..unclean(end) }]
        {
            let fixture = Fixture::on(fixture.world.copy(), &fixture.config);
            for name in &snapshots[snapshots.len() - damaged..] {
                fixture.world.put(&fixture.path(name), b"\0\x01garbage");
            }
            let log = fixture.open(opening);
            assert_eq!(block_on(log.producers_summary()), table, "I27, {damaged} damaged, {opening:?}");
            let again = append(&log, idempotent(1, 0, 9, &["v"])).expect("a duplicate");
            assert_eq!((again.duplicate, again.base_offset), (true, Offset(28)), "I70");
            append(&log, idempotent(1, 0, 10, &["v"])).expect("goes on");
        }
    }
}

/// A power failure took the newer ones, and what was appended after the one that is left was deleted before.
#[test]
fn a_snapshot_from_before_the_first_segment_is_not_trusted() {
    let fixture = Fixture::with_segments(400);
    let log = fixture.open_new();
    for round in 0..10 {
        let producers = if round < 5 { 0..3 } else { 1..3 };
        for producer in producers {
            append(&log, idempotent(producer, 0, round, &["v"])).expect("in order");
        }
    }
    let end = flush(&log);
    close(&log);
    let table = block_on(log.producers_summary());
    let offset = |name: &String| name.split('.').next().and_then(|digits| digits.parse::<i64>().ok());
    let names = fixture.world.names(&fixture.directory());
    let oldest = names.iter().find(|name| name.ends_with(names::SNAPSHOT_SUFFIX)).expect("some are there");
    assert!(offset(oldest) < Some(12), "producer 0 goes on after it");
    for name in names.iter().filter(|name| *name != oldest) {
        match name.ends_with(names::SNAPSHOT_SUFFIX) {
            true => fixture.world.put(&fixture.path(name), b"\0\x01garbage"),
            false if offset(name).is_some_and(|base| base < 15) => fixture.world.delete(&fixture.path(name)),
            false => {}
        }
    }
    let log = fixture.open(unclean(end));
    assert!(log.log_start_offset() >= Offset(15), "the batches of producer 0 are gone");
    let others: Vec<_> = table.into_iter().filter(|known| known.producer_id.0 != 0).collect();
    assert_eq!(block_on(log.producers_summary()), others, "I27");
}

#[test]
fn a_snapshot_past_the_recovery_point_is_not_trusted() {
    let fixture = Fixture::with_segments(400);
    let log = fixture.open_new();
    fill(&log, 8);
    let mut forged = crate::log::producer_state::ProducerStates::default();
    let header = *idempotent(77, 0, 0, &["v"]).header();
    forged.record(&header, Offset(3), None, sillon_runtime::Monotonic(0));
    let forged = crate::log::producer_snapshot::encode(&forged);
    fixture.world.put(&fixture.path("00000000000000000006.snapshot"), &forged);
    fixture.world.put(&fixture.path("00000000000000000099.snapshot"), &forged);
    let log = fixture.open(unclean(Offset(4)));
    assert_eq!(block_on(log.producers_summary()), []);
    let left = fixture.world.names(&fixture.directory());
    assert!(!left.iter().any(|name| name.starts_with("00000000000000000099")), "{left:?}");
}

#[test]
fn lost_indexes_are_made_anew() {
    let (fixture, end) = stopped(20);
    for name in fixture.world.names(&fixture.directory()) {
        if name.ends_with("index") {
            fixture.world.delete(&fixture.path(&name));
        }
    }
    let log = fixture.open(Opening { clean: true, ..unclean(end) });
    assert_eq!(contents(&log), numbered(0, 40));
    close(&log);
    check_indexes(&fixture.world, &fixture.directory(), false);
}

#[test]
fn leftovers_are_removed_and_strangers_left_alone() {
    let (fixture, end) = stopped(3);
    for name in ["00000000000000000900.index", "00000000000000000001.log.deleted", "x.tmp", "note.txt"] {
        fixture.world.put(&fixture.path(name), b"");
    }
    fixture.open(Opening { clean: true, ..unclean(end) });
    let left = fixture.world.names(&fixture.directory());
    assert!(
        left.contains(&"note.txt".into())
            && !left
                .iter()
                .any(|name| name.contains("900") || name.contains("deleted") || name.contains("tmp")),
        "{left:?}"
    );
    let swap = fixture.path("00000000000000000000.log.swap");
    fixture.world.put(&swap, b"");
    assert_eq!(contents(&fixture.open(unclean(end))), numbered(0, 6), "nothing is replaced by nothing");
    assert!(!fixture.world.exists(&swap));
    fixture.world.put(&swap, b"not a batch");
    assert!(matches!(fixture.try_open(unclean(end)), Err(LogError::Corrupt { .. })));
}

#[test]
fn a_directory_of_another_topic_is_refused() {
    let (fixture, end) = stopped(3);
    let path = fixture.path("partition.metadata");
    fixture.world.put(&path, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
    assert!(matches!(fixture.try_open(unclean(end)), Err(LogError::InconsistentTopicId { .. })), "I16");
    fixture.world.put(&path, b"version: 0\n");
    assert!(matches!(fixture.try_open(unclean(end)), Err(LogError::Corrupt { .. })));
    fixture.world.delete(&path);
    fixture.open(unclean(end));
    assert!(fixture.world.exists(&path));
}

#[test]
fn a_start_past_the_end_begins_the_log_afresh() {
    let (fixture, _) = stopped(6);
    let opening = Opening { clean: false, recovery_point: Offset(0), log_start_offset: Offset(50) };
    let log = fixture.open(opening);
    assert_eq!(
        (log.log_start_offset(), log.log_end_offset(), log.segment_count()),
        (Offset(50), Offset(50), 1)
    );
    fill(&log, 1);
    assert_eq!(contents(&log), numbered(50, 52));
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever the files hold, opening gives a log or an error, and the log can be read.
        #[test]
        fn garbage_never_panics(
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..30),
            cut in any::<prop::sample::Index>(),
            clean in any::<bool>(),
            recovery_point in 0..60i64,
        ) {
            let (fixture, _) = stopped(20);
            let names = fixture.world.names(&fixture.directory());
            for (index, (file, byte, value)) in damage.iter().enumerate() {
                let path = fixture.path(&names[file.index(names.len())]);
                let mut content = fixture.world.content(&path);
                if index == 0 {
                    content.truncate(cut.index(content.len() + 1));
                }
                if !content.is_empty() {
                    let at = byte.index(content.len());
                    content[at] = *value;
                }
                fixture.world.put(&path, &content);
            }
            let opening = Opening { clean, recovery_point: Offset(recovery_point), log_start_offset: Offset(0) };
            if let Ok(log) = fixture.try_open(opening) {
                let mut from = log.log_start_offset();
                while let Ok(slice) = block_on(log.read(from, 1 << 20, log.log_end_offset(), true)) {
                    if slice.next_offset <= from {
                        break;
                    }
                    from = slice.next_offset;
                }
                let _ = block_on(log.max_timestamp(log.log_end_offset()));
                let _ = block_on(log.offset_for_timestamp(1_700_000_000_010, log.log_end_offset()));
                let _ = append(&log, records(&["x"], 0));
            }
        }

        /// The power fails: everything flushed is there, and what is there is what was appended, without a gap.
        #[test]
        fn power_failures_lose_only_what_was_not_flushed(
            before in 0..15usize,
            after in 0..15usize,
            segment_bytes in 150..900u32,
            seed in any::<Option<u64>>(),
            again in any::<Option<u64>>(),
        ) {
            let fixture = Fixture::with_segments(segment_bytes);
            let log = fixture.open_new();
            fill(&log, before);
            let flushed = flush(&log);
            fill(&log, after);
            fixture.world.lose_power(seed);
            let log = fixture.open(unclean(flushed));
            let end = log.log_end_offset();
            prop_assert!(end >= flushed && end <= Offset(2 * (before + after) as i64));
            prop_assert_eq!(contents(&log), numbered(0, end.0));
            prop_assert_eq!(log.recovery_point(), flushed);
            fill(&log, 2);
            let next = log.log_end_offset();
            let flushed = if again.is_some() { flush(&log) } else { flushed };
            fixture.world.lose_power(again);
            let log = fixture.open(unclean(flushed));
            prop_assert!(log.log_end_offset() >= flushed && log.log_end_offset() <= next);
            prop_assert_eq!(contents(&log), numbered(0, log.log_end_offset().0));
            fill(&log, 2);
            close(&log);
            check_indexes(&fixture.world, &fixture.directory(), false);
        }
    }
}
