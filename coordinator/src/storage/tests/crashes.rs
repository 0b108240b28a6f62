//! A crash at every step of everything, with the page cache kept, lost, or lost in part. Owns the tests in which a
//! process dies or a power supply does.

use super::*;

/// How a process ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    PowerLost(Option<u64>),
}

const ENDS: [End; 6] = [
    End::Killed,
    End::PowerLost(None),
    End::PowerLost(Some(1)),
    End::PowerLost(Some(2)),
    End::PowerLost(Some(3)),
    End::PowerLost(Some(4)),
];

impl End {
    fn happen(self, world: &World) {
        match self {
            End::Killed => world.kill(),
            End::PowerLost(seed) => world.lose_power(seed),
        }
    }
}

/// Runs `work` with a crash after each number of steps, and lets `check` look at the disk after it, until the work is
/// done without one.
fn crash_everywhere(
    before: &World,
    work: impl Fn(&World) -> Result<(), StorageError>,
    check: impl Fn(&World, bool, &str),
) {
    for steps in 0..200 {
        let mut done = false;
        for end in ENDS {
            let world = before.copy();
            world.die_after(steps);
            done = work(&world).is_ok();
            end.happen(&world);
            check(&world, done, &format!("{end:?} after {steps} steps"));
        }
        if done {
            assert!(steps > 0);
            return;
        }
    }
    panic!("it takes more steps than expected");
}

#[test]
fn making_the_directories() {
    let work = |world: &World| {
        let (mut storage, _) = open(world, &options())?;
        block_on(storage.append(vec![persist(state(1, 0), vec![entry(1, 1)])]))
    };
    crash_everywhere(&World::default(), work, |world, done, place| {
        let (_, found) = open(world, &options()).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(found.entries.len() == 1 || !done, "{place}");
    });
}

#[test]
fn appending_and_rolling() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    (1..=5).for_each(|index| append(&mut storage, 1, [index]));
    drop(storage);
    let work = |world: &World| {
        let (mut storage, _) = open(world, &small())?;
        for index in 6..=12 {
            block_on(storage.append(vec![persist(state(1, 0), vec![entry(index, 1)])]))?;
        }
        Ok(())
    };
    crash_everywhere(&world, work, |world, done, place| {
        let (mut storage, found) = open(world, &small()).unwrap_or_else(|error| panic!("{place}: {error}"));
        let count = found.entries.len() as u64;
        assert_eq!(marks(&found.entries), (1..=count).map(|index| (index, 1)).collect::<Vec<_>>(), "{place}");
        assert!(count == 12 || (!done && count >= 5), "{place}: {count}");
        append(&mut storage, 2, count + 1..=count + 3);
        drop(storage);
        world.lose_power(None);
        assert_eq!(start(world, &small()).1.entries.len() as u64, count + 3, "{place}");
    });
}

#[test]
fn what_was_acknowledged_is_found_wherever_the_power_fails() {
    for steps in 0..60 {
        for seed in 0..20 {
            let world = World::default();
            world.die_after(20 + steps);
            let mut acknowledged = 0;
            if let Ok((mut storage, _)) = open(&world, &small()) {
                for index in 1..=15 {
                    let batch = vec![persist(state(1, 0), vec![entry(index, 1)])];
                    if block_on(storage.append(batch)).is_err() {
                        break;
                    }
                    acknowledged = index;
                }
            }
            assert!(world.is_dead() || acknowledged == 15);
            world.lose_power(Some(seed));
            // The repair is interrupted too, twice.
            for again in 0..2 {
                world.die_after((seed as usize + again) % 12);
                drop(open(&world, &small()));
                world.lose_power(Some(seed + 100 * again as u64));
            }
            let found = start(&world, &small()).1;
            assert!(found.entries.len() as u64 >= acknowledged, "after {steps} steps, seed {seed}");
        }
    }
}

#[test]
fn replacing_a_suffix() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    (1..=10).for_each(|index| append(&mut storage, 1, [index]));
    drop(storage);
    let work = |world: &World| {
        let (mut storage, _) = open(world, &small())?;
        block_on(storage.append(vec![persist(state(2, 0), entries(4..=6, 2))]))
    };
    crash_everywhere(&world, work, |world, done, place| {
        let (_, found) = open(world, &small()).unwrap_or_else(|error| panic!("{place}: {error}"));
        let old: Vec<_> = (1..=10).map(|index| (index, 1)).collect();
        let new = vec![(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)];
        let read = marks(&found.entries);
        assert!(read == new || (!done && read == old), "{place}: {read:?}");
    });
}

#[test]
fn taking_a_snapshot_and_purging() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    for index in 1..=20 {
        append(&mut storage, 1, [index]);
        if index % 5 == 0 {
            take_snapshot(&storage, index, 1).unwrap();
        }
    }
    append(&mut storage, 1, 21..=22);
    drop(storage);
    let work = |world: &World| {
        let (mut storage, _) = open(world, &small())?;
        take_snapshot(&storage, 21, 1)?;
        block_on(storage.purge(3))
    };
    crash_everywhere(&world, work, |world, done, place| {
        let (storage, found) = open(world, &small()).unwrap_or_else(|error| panic!("{place}: {error}"));
        let index = found.snapshot.unwrap().index;
        assert!(index == 21 || (!done && index == 20), "{place}");
        assert_eq!(read_snapshot(&storage, index).unwrap(), snapshot_bytes(index));
        assert_eq!(marks(&found.entries), (index + 1..=22).map(|index| (index, 1)).collect::<Vec<_>>());
        drop(storage);
        // And the log goes back to each snapshot there is but those about to be removed.
        world.delete(&snapshot_file(21));
        world.delete(&snapshot_file(20));
        let found = start(world, &small()).1;
        assert_eq!((found.snapshot.unwrap().index, found.entries.len()), (15, 7), "{place}");
    });
}

#[test]
fn installing_a_snapshot_over_a_log_that_differs() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    (1..=12).for_each(|index| append(&mut storage, 1, [index]));
    drop(storage);
    for mark in [SnapshotMark { index: 8, term: 2 }, SnapshotMark { index: 50, term: 2 }] {
        let work = |world: &World| {
            let (mut storage, _) = open(world, &small())?;
            take_snapshot(&storage, mark.index, mark.term)?;
            block_on(storage.install(mark))?;
            block_on(storage.append(vec![persist(state(3, mark.index), vec![entry(mark.index + 1, 3)])]))
        };
        crash_everywhere(&world, work, |world, done, place| {
            let (mut storage, found) =
                open(world, &small()).unwrap_or_else(|error| panic!("{place}: {error}"));
            let read = marks(&found.entries);
            match found.snapshot {
                None => {
                    assert!(!done && read == (1..=12).map(|index| (index, 1)).collect::<Vec<_>>(), "{place}");
                }
                Some(installed) => {
                    assert_eq!(installed, mark, "{place}");
                    assert!(read == [(mark.index + 1, 3)] || (!done && read.is_empty()), "{place}: {read:?}");
                    assert_eq!(found.hard_state.commit, mark.index);
                }
            }
            let last = storage.last().index;
            append(&mut storage, 4, [last + 1]);
            drop(storage);
            world.lose_power(None);
            let again = start(world, &small()).1;
            assert_eq!((again.snapshot, again.entries.len()), (found.snapshot, read.len() + 1), "{place}");
        });
    }
}

#[test]
fn installing_a_snapshot_that_the_log_contains_keeps_what_follows() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    (1..=12).for_each(|index| append(&mut storage, 1, [index]));
    take_snapshot(&storage, 8, 1).unwrap();
    drop(storage);
    // Received and finished; the process died before it was installed.
    let found = start(&world, &small()).1;
    assert_eq!(marks(&found.entries), [(9, 1), (10, 1), (11, 1), (12, 1)]);
}

#[test]
fn a_failed_sync_is_final_and_what_it_left_is_written_again() {
    let world = World::default();
    let (mut storage, _) = start(&world, &options());
    append(&mut storage, 1, [1]);
    world.fail_next_sync();
    let error = block_on(storage.append(vec![persist(state(1, 0), vec![entry(2, 1)])])).unwrap_err();
    assert!(error.to_string().contains("cannot be synced"), "{error}");
    for _ in 0..2 {
        let error = block_on(storage.append(vec![persist(state(1, 0), vec![entry(2, 1)])])).unwrap_err();
        assert!(matches!(error, StorageError::Offline { .. }), "{error}");
    }
    drop(storage);
    // The process starts again on the same page cache: what it finds there, it makes durable before it counts on it.
    world.kill();
    let (_, found) = start(&world, &options());
    let count = found.entries.len();
    world.lose_power(None);
    assert_eq!(start(&world, &options()).1.entries.len(), count);
}

#[test]
fn naming_the_ensemble() {
    let world = World::default();
    append(&mut start(&world, &options()).0, 1, [1]);
    let id = crate::types::EnsembleId(9);
    let work = |world: &World| block_on(open(world, &options())?.0.set_ensemble(id));
    crash_everywhere(&world, work, |world, done, place| {
        let (_, found) = open(world, &options()).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(found.ensemble == Some(id) || (!done && found.ensemble.is_none()), "{place}");
        assert_eq!(found.entries.len(), 1);
    });
}
