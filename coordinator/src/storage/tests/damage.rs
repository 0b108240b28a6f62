//! Torn tails and flipped bits, everywhere. Owns the tests in which a disk lies.

use super::*;

/// A log of a few appends, and how many entries it has.
fn small_log() -> (World, u64) {
    let world = World::default();
    let (mut storage, _) = start(&world, &options());
    append(&mut storage, 1, 1..=2);
    append(&mut storage, 2, 3..=3);
    append(&mut storage, 2, 4..=4);
    (world, 4)
}

#[test]
fn every_flipped_bit_is_refused_unless_it_was_never_durable() {
    let (world, count) = small_log();
    world.kill();
    flip_everywhere(&world, count);
    drop(start(&world, &options()));
    flip_everywhere(&world, count);
}

fn flip_everywhere(world: &World, count: u64) {
    let content = world.content(&log_file(1));
    // Behind the last record there are only zeros, which hold nothing.
    let room = content.iter().rev().take_while(|byte| **byte == 0).count();
    let mut survived = 0;
    for position in 0..content.len() {
        let damaged = world.copy();
        let mut bytes = content.clone();
        bytes[position] ^= 1 << (position % 8);
        damaged.put(&log_file(1), &bytes);
        match open(&damaged, &options()) {
            Ok((_, found)) => {
                assert_eq!(marks(&found.entries).len() as u64, count, "byte {position}");
                survived += usize::from(position < content.len() - room);
            }
            Err(StorageError::Corrupt { path, .. }) => assert_eq!(path, log_file(1), "byte {position}"),
            Err(error) => panic!("byte {position}: {error}"),
        }
    }
    assert!(survived < 150, "only what tells how much is durable may be lost: {survived} bytes");
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_nothing_acknowledged_is_lost() {
    let (world, count) = small_log();
    world.kill();
    let durable = world.content(&log_file(1)).len();
    let (mut storage, _) = start(&world, &options());
    append(&mut storage, 3, 5..=7);
    drop(storage);
    let content = world.content(&log_file(1));
    let old = world.copy();
    for length in durable..content.len() {
        for zeros in [0, 300] {
            let torn = old.copy();
            let mut bytes = content[..length].to_vec();
            bytes.extend(vec![0; zeros]);
            torn.put(&log_file(1), &bytes);
            let (mut storage, found) = start(&torn, &options());
            let read = found.entries.len() as u64;
            assert!(read == count || read == count + 3, "{length}: {read}");
            append(&mut storage, 4, [read + 1]);
            drop(storage);
            torn.lose_power(None);
            assert_eq!(start(&torn, &options()).1.entries.len() as u64, read + 1);
        }
    }
}

#[test]
fn a_hole_before_a_later_record_is_damage_only_if_it_was_durable() {
    // Two records in one write: the first is lost, the second survives the power loss. Nobody was promised either.
    let world = World::default();
    let (mut storage, _) = start(&world, &options());
    append(&mut storage, 1, [1]);
    let before = world.content(&log_file(1)).len();
    let large = |index| LogEntry { index, term: 1, data: vec![index as u8; 9 << 20].into() };
    block_on(storage.append(vec![persist(state(1, 0), (2..=4).map(large).collect())])).unwrap();
    drop(storage);
    let mut bytes = world.content(&log_file(1));
    // Without the record that tells that all of it is durable: the power failed before.
    bytes.truncate(bytes.len() - 100);
    bytes[before + 50..before + 5_000].fill(0);
    let torn = world.copy();
    torn.put(&log_file(1), &bytes);
    assert_eq!(start(&torn, &options()).1.entries.len(), 1);
    // The same hole with a later batch after it.
    let mut storage = start(&world, &options()).0;
    append(&mut storage, 1, [5]);
    drop(storage);
    let mut bytes = world.content(&log_file(1));
    bytes[before + 50..before + 5_000].fill(0);
    world.put(&log_file(1), &bytes);
    let error = open(&world, &options()).err().unwrap();
    let StorageError::Corrupt { path, offset, .. } = &error else { panic!("{error}") };
    assert_eq!(*path, log_file(1));
    assert!((*offset as usize) < before + 50, "{error}");
    assert!(error.to_string().contains("restore the directory from a backup"), "{error}");
}

#[test]
fn bytes_of_a_client_that_look_like_a_record_are_not_one() {
    let (world, count) = small_log();
    let (mut storage, _) = {
        world.kill();
        start(&world, &options())
    };
    let own_log = world.content(&log_file(1));
    let data = [own_log.clone(), own_log].concat();
    let end = world.content(&log_file(1)).len();
    let hostile = LogEntry { index: count + 1, term: 2, data: data.into() };
    block_on(storage.append(vec![persist(state(2, 0), vec![hostile])])).unwrap();
    drop(storage);
    let mut bytes = world.content(&log_file(1));
    bytes.truncate(bytes.len() - 120);
    bytes[end + 10] ^= 1;
    world.put(&log_file(1), &bytes);
    assert_eq!(start(&world, &options()).1.entries.len() as u64, count, "a torn tail, not damage");
}

#[test]
fn damage_in_a_segment_that_is_not_the_last_is_refused() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    (1..=20).for_each(|index| append(&mut storage, 1, [index]));
    drop(storage);
    let content = world.content(&log_file(1));
    for position in (0..content.len()).step_by(7) {
        let damaged = world.copy();
        let mut bytes = content.clone();
        bytes[position] ^= 0x10;
        damaged.put(&log_file(1), &bytes);
        let error = open(&damaged, &small()).err().unwrap_or_else(|| panic!("byte {position} is served"));
        assert!(matches!(error, StorageError::Corrupt { .. }), "{error}");
    }
    for missing in world.names(Path::new("/log/sillon-1")).iter().filter(|name| name.starts_with("log.")) {
        let damaged = world.copy();
        damaged.delete(&Path::new("/log/sillon-1").join(missing));
        let found = open(&damaged, &small());
        let is_last = *missing
            == *world.names(Path::new("/log/sillon-1")).iter().rfind(|n| n.starts_with("log.")).unwrap();
        assert!(is_last || found.is_err(), "{missing}");
    }
}

#[test]
fn a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    for index in 1..=30 {
        append(&mut storage, 1, [index]);
        if index % 10 == 0 {
            take_snapshot(&storage, index, 1).unwrap();
        }
    }
    drop(storage);
    let content = world.content(&snapshot_file(30));
    for position in 0..content.len() {
        let damaged = world.copy();
        let mut bytes = content.clone();
        bytes[position] ^= 1;
        damaged.put(&snapshot_file(30), &bytes);
        let (storage, found) = start(&damaged, &small());
        assert_eq!(found.snapshot, Some(SnapshotMark { index: 20, term: 1 }), "byte {position}");
        assert_eq!(marks(&found.entries), (21..=30).map(|index| (index, 1)).collect::<Vec<_>>());
        assert_eq!(block_on(storage.snapshots().indexes()).unwrap(), [10, 20]);
        drop(storage);
        assert_eq!(start(&damaged, &small()).1.snapshot.unwrap().index, 20, "and again");
    }
    for cut in [0, 1, content.len() / 2, content.len() - 1] {
        let damaged = world.copy();
        damaged.put(&snapshot_file(30), &content[..cut]);
        assert_eq!(start(&damaged, &small()).1.snapshot.unwrap().index, 20, "cut at {cut}");
    }
}

#[test]
fn a_damaged_snapshot_that_the_log_does_not_stand_in_for_is_refused() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    append(&mut storage, 1, 1..=3);
    take_snapshot(&storage, 2, 1).unwrap();
    take_snapshot(&storage, 50, 2).unwrap();
    block_on(storage.install(SnapshotMark { index: 50, term: 2 })).unwrap();
    append(&mut storage, 2, [51]);
    drop(storage);
    let mut bytes = world.content(&snapshot_file(50));
    bytes[20] ^= 1;
    world.put(&snapshot_file(50), &bytes);
    let error = open(&world, &small()).err().unwrap();
    assert!(error.to_string().contains("snapshot.0000000000000032"), "{error}");
    assert!(block_on(super::super::Snapshots::open(&world.runtime(), "/data/sillon-1".into())).is_ok());
    assert!(world.names(Path::new("/data/sillon-1")).contains(&"snapshot.0000000000000032".to_owned()));
}
