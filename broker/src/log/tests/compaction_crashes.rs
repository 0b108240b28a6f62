//! Compaction that is cut short: at every change of the disk, by a death of the process or of the machine.

use super::{
    compaction::{Stored, compacted, keyed, stored, try_clean},
    *,
};
use crate::log::CleanerLimits;

const LIMITS: CleanerLimits = CleanerLimits { map_bytes: 1 << 20, buffer_bytes: 150 };

/// A log of several segments, all of it durable, and its records.
fn prepared() -> (Fixture, Arc<Log>, Vec<Stored>) {
    let fixture = Fixture::new(compacted(300));
    let log = fixture.open_new();
    for round in 0..8 {
        for key in ["a", "b", "c", "d"] {
            let batch = keyed(&[(key, Some(&round.to_string())), (key, None)], 5, Compression::None);
            append(&log, batch).expect("appended");
        }
        let lonely = round.to_string();
        append(&log, keyed(&[(&lonely, Some("stays"))], 5, Compression::Zstd)).expect("appended");
    }
    flush(&log);
    let records = stored(&log);
    (fixture, log, records)
}

/// Nothing is new, and the newest of each key is there, whatever was cleaned.
fn check(log: &Arc<Log>, before: &[Stored], what: &str) {
    let after = stored(log);
    assert!(after.iter().all(|record| before.contains(record)), "{what}: nothing is new");
    let mut newest = std::collections::BTreeMap::new();
    for record in before {
        newest.insert(&record.1, record);
    }
    for record in newest.values() {
        assert!(after.contains(record), "{what}: {record:?} is the newest");
    }
}

#[test]
fn a_crash_at_any_change_of_the_disk_leaves_the_old_log_or_the_new_one() {
    let mut steps = 0;
    loop {
        for crash in [None, Some(None), Some(Some(1)), Some(Some(77)), Some(Some(4711)), Some(Some(31_337))] {
            let what = format!("{crash:?} after {steps} changes");
            let (fixture, log, before) = prepared();
            let end = log.log_end_offset();
            fixture.world.limit_steps(Some(steps));
            let result = try_clean(&fixture, &log, end, LIMITS);
            let left = fixture.world.limit_steps(None);
            if left.is_some_and(|left| left > 0) {
                result.expect("nothing stopped it");
                assert!(steps > 20, "it takes some changes of the disk");
                return;
            }
            match crash {
                None => fixture.world.kill(),
                Some(seed) => fixture.world.lose_power(seed),
            }
            let log = fixture.open(unclean(end));
            assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), end), "{what}");
            check(&log, &before, &what);
            let names = fixture.world.names(&fixture.directory());
            assert!(
                !names.iter().any(|name| name.ends_with("cleaned") || name.ends_with("swap")),
                "{what}: {names:?}"
            );
            // And on it goes.
            append(&log, keyed(&[("a", Some("new"))], 5, Compression::None)).expect("appended");
            let before = stored(&log);
            flush(&log);
            try_clean(&fixture, &log, log.log_end_offset(), LIMITS).expect("cleaned");
            check(&log, &before, &what);
            close(&log);
            check_indexes(&fixture.world, &fixture.directory(), false);
        }
        steps += 1;
    }
}

#[test]
fn a_disk_that_fails_once_leaves_a_log_that_can_be_opened_again() {
    for steps in 0.. {
        let (fixture, log, before) = prepared();
        fixture.world.limit_steps(Some(steps));
        let result = try_clean(&fixture, &log, log.log_end_offset(), LIMITS);
        if fixture.world.limit_steps(None).is_some_and(|left| left > 0) {
            result.expect("nothing stopped it");
            return;
        }
        let what = format!("after {steps} changes");
        check(&log, &before, &what);
        if log.is_offline().is_some() {
            block_on(log.reopen()).expect("the disk works again");
            check(&log, &before, &what);
        }
        try_clean(&fixture, &log, log.log_end_offset(), LIMITS).expect("the disk works again");
        check(&log, &before, &what);
        close(&log);
        check_indexes(&fixture.world, &fixture.directory(), false);
    }
}
