//! What is written is found again, and whose it is. Owns the tests in which no disk fails.

use super::*;
use crate::{
    consensus::{Consensus, ConsensusConfig, RaftConsensus, Role},
    storage::MIN_KEPT_SNAPSHOTS,
    types::EnsembleId,
};

#[test]
fn a_new_member_finds_nothing_and_then_what_it_wrote() {
    let world = World::default();
    let (mut storage, found) = start(&world, &options());
    let nothing =
        Recovered { hard_state: HardState::default(), entries: vec![], snapshot: None, ensemble: None };
    assert_eq!(found, nothing);
    append(&mut storage, 1, 1..=3);
    append(&mut storage, 2, 4..=4);
    block_on(storage.append(vec![persist(state(5, 3), vec![])])).unwrap();
    drop(storage);
    world.lose_power(None);
    let (storage, found) = start(&world, &options());
    assert_eq!(marks(&found.entries), [(1, 1), (2, 1), (3, 1), (4, 2)]);
    assert_eq!(found.entries[3], entry(4, 2));
    assert_eq!((found.hard_state, storage.hard_state()), (state(5, 3), state(5, 3)));
    assert_eq!(storage.last(), SnapshotMark { index: 4, term: 2 });
}

#[test]
fn a_batch_is_one_write_and_one_sync() {
    let world = World::default();
    let room = StorageOptions { room_bytes: 64 * 1024, ..options() };
    let (mut storage, _) = start(&world, &room);
    let (syncs, writes) = world.syncs_and_writes();
    let batch = (1..=64).map(|index| persist(state(1, 0), vec![entry(index, 1)])).collect();
    block_on(storage.append(batch)).unwrap();
    // The other write tells, unsynced, how much is durable.
    assert_eq!(world.syncs_and_writes(), (syncs + 1, writes + 2));
    let only_commit = Persist { must_sync: false, ..persist(state(1, 64), vec![]) };
    block_on(storage.append(vec![only_commit])).unwrap();
    assert_eq!(world.syncs_and_writes(), (syncs + 1, writes + 2), "it goes with the next batch");
    append(&mut storage, 2, 65..=65);
    drop(storage);
    assert_eq!(start(&world, &options()).1.entries.len(), 65);
}

#[test]
fn the_commit_index_is_kept_at_a_stop() {
    let world = World::default();
    let (mut storage, _) = start(&world, &options());
    append(&mut storage, 1, 1..=3);
    let only_commit = Persist { must_sync: false, ..persist(state(1, 3), vec![]) };
    block_on(storage.append(vec![only_commit])).unwrap();
    block_on(storage.flush()).unwrap();
    drop(storage);
    world.lose_power(None);
    assert_eq!(start(&world, &options()).1.hard_state.commit, 3);
}

#[test]
fn a_suffix_is_replaced_within_a_batch_and_over_segments() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    for index in 1..=20 {
        append(&mut storage, 1, [index]);
    }
    assert!(world.names(Path::new("/log/sillon-1")).len() > 5);
    block_on(storage.append(vec![
        persist(state(2, 0), entries(18..=25, 2)),
        persist(state(3, 0), entries(8..=9, 3)),
        persist(state(3, 0), entries(9..=10, 3)),
    ]))
    .unwrap();
    assert_eq!(storage.last(), SnapshotMark { index: 10, term: 3 });
    drop(storage);
    world.lose_power(None);
    let (mut storage, found) = start(&world, &small());
    let expected: Vec<_> = (1..=7).map(|index| (index, 1)).chain((8..=10).map(|index| (index, 3))).collect();
    assert_eq!(marks(&found.entries), expected);
    for index in 11..=40 {
        append(&mut storage, 4, [index]);
    }
    drop(storage);
    let found = start(&world, &small()).1;
    assert_eq!(found.entries.len(), 40);
    assert_eq!(marks(&found.entries[8..12]), [(9, 3), (10, 3), (11, 4), (12, 4)]);
}

#[test]
fn very_large_batches_take_several_records() {
    let world = World::default();
    let (mut storage, _) = start(&world, &options());
    let large = |index| LogEntry { index, term: 1, data: vec![index as u8; 9 << 20].into() };
    block_on(storage.append(vec![persist(state(1, 0), (1..=5).map(large).collect())])).unwrap();
    drop(storage);
    world.lose_power(None);
    let found = start(&world, &options()).1;
    assert_eq!(found.entries, (1..=5).map(large).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_shortens_what_is_read_and_purging_what_is_kept() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    for index in 1..=60 {
        append(&mut storage, 1, [index]);
        if index % 10 == 0 {
            take_snapshot(&storage, index, 1).unwrap();
        }
    }
    block_on(storage.purge(1)).unwrap();
    assert_eq!(
        block_on(storage.snapshots().indexes()).unwrap(),
        [40, 50, 60],
        "{MIN_KEPT_SNAPSHOTS} at least"
    );
    let segments = world.names(Path::new("/log/sillon-1"));
    let firsts: Vec<u64> = segments.iter().filter_map(|name| super::super::names::parse_log(name)).collect();
    assert!(firsts[0] <= 41 && firsts[1] > 41, "the log goes back to the oldest snapshot: {firsts:?}");
    drop(storage);
    let (storage, found) = start(&world, &small());
    assert_eq!((found.snapshot, found.entries.len()), (Some(SnapshotMark { index: 60, term: 1 }), 0));
    assert_eq!(read_snapshot(&storage, 60).unwrap(), snapshot_bytes(60));
    assert_eq!(found.hard_state.commit, 60, "a snapshot holds only what was committed");
}

#[test]
fn snapshots_of_any_size_are_read_back() {
    let world = World::default();
    let (storage, _) = start(&world, &options());
    for (index, length) in
        [(1, 0), (2, 1), (3, super::super::CHUNK_BYTES), (4, 3 * super::super::CHUNK_BYTES + 1)]
    {
        let bytes: Vec<u8> = (0..length).map(|position| (position * 7) as u8).collect();
        block_on(async {
            let mut writer = storage.snapshots().create().await.unwrap();
            for piece in bytes.chunks(100_000) {
                writer.write(piece).await.unwrap();
            }
            writer.finish(SnapshotMark { index, term: 1 }).await.unwrap();
        });
        assert_eq!(read_snapshot(&storage, index).unwrap(), bytes);
    }
    block_on(async {
        let mut writer = storage.snapshots().create().await.unwrap();
        writer.write(b"never finished").await.unwrap();
        writer.abandon().await.unwrap();
    });
    assert!(world.names(Path::new("/data/sillon-1")).iter().all(|name| !name.ends_with(".tmp")));
}

#[test]
fn an_installed_snapshot_replaces_the_log() {
    let world = World::default();
    let (mut storage, _) = start(&world, &small());
    for index in 1..=20 {
        append(&mut storage, 1, [index]);
    }
    take_snapshot(&storage, 12, 2).unwrap();
    block_on(storage.install(SnapshotMark { index: 12, term: 2 })).unwrap();
    assert_eq!(storage.last(), SnapshotMark { index: 12, term: 2 });
    for index in 13..=30 {
        append(&mut storage, 3, [index]);
    }
    drop(storage);
    world.lose_power(None);
    let (_, found) = start(&world, &small());
    assert_eq!(found.snapshot, Some(SnapshotMark { index: 12, term: 2 }));
    assert_eq!(marks(&found.entries), (13..=30).map(|index| (index, 3)).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_that_does_not_exist_is_not_installed() {
    let world = World::default();
    let (mut storage, _) = start(&world, &options());
    take_snapshot(&storage, 5, 1).unwrap();
    let error = block_on(storage.install(SnapshotMark { index: 5, term: 2 })).unwrap_err();
    assert!(error.to_string().contains("of index 5 of term 1, not of index 5 of term 2"), "{error}");
    let error = block_on(storage.append(vec![])).unwrap_err();
    assert!(matches!(error, StorageError::Offline { .. }), "{error}");
}

#[test]
fn directories_of_others_are_refused() {
    let world = World::default();
    let (mut storage, _) = start(&world, &options());
    assert!(matches!(open(&world, &options()).err(), Some(StorageError::Locked { .. })));
    block_on(storage.set_ensemble(EnsembleId(7))).unwrap();
    block_on(storage.set_ensemble(EnsembleId(7))).unwrap();
    append(&mut storage, 1, [1]);
    drop(storage);
    let other_member = StorageOptions { member: MemberId(2), ..options() };
    let error = open(&world, &other_member).err().unwrap().to_string();
    assert!(
        error.contains("belongs to member 1, this is member 2") && error.contains("sillon-1/meta"),
        "{error}"
    );
    let other_ensemble = StorageOptions { ensemble: Some(EnsembleId(8)), ..options() };
    let error = open(&world, &other_ensemble).err().unwrap().to_string();
    assert!(error.contains("07, not to 00000000000000000000000000000008"), "{error}");
    let (mut storage, found) = start(&world, &StorageOptions { ensemble: Some(EnsembleId(7)), ..options() });
    assert_eq!(found.ensemble, Some(EnsembleId(7)));
    assert!(block_on(storage.set_ensemble(EnsembleId(8))).is_err());
}

#[test]
fn directories_that_do_not_belong_together_are_refused() {
    let (one, other) = (World::default(), World::default());
    append(&mut start(&one, &options()).0, 1, [1]);
    other.runtime().random_u64();
    append(&mut start(&other, &options()).0, 1, [1]);
    for file in ["meta", "log.0000000000000001"] {
        let path = Path::new("/log/sillon-1").join(file);
        one.put(&path, &other.content(&path));
    }
    let error = open(&one, &options()).err().unwrap().to_string();
    assert!(error.contains("do not belong together"), "{error}");
    one.delete(Path::new("/log/sillon-1/meta"));
    let error = open(&one, &options()).err().unwrap().to_string();
    assert!(error.contains("meta file is missing"), "{error}");
    other.delete(&log_file(1));
    let error = open(&other, &options()).err().unwrap().to_string();
    assert!(error.contains("the log is missing"), "{error}");
}

#[test]
fn one_directory_for_both_is_fine() {
    let world = World::default();
    let both = StorageOptions { data_log_dir: DATA.into(), ..options() };
    let (mut storage, _) = start(&world, &both);
    append(&mut storage, 1, 1..=3);
    take_snapshot(&storage, 2, 1).unwrap();
    drop(storage);
    let found = start(&world, &both).1;
    assert_eq!((found.snapshot.unwrap().index, marks(&found.entries)), (2, vec![(3, 1)]));
}

/// Starts a member that is alone from its disk, and proposes one entry; gives all that it applied.
fn propose_alone(world: &World, data: &'static [u8]) -> Vec<LogEntry> {
    let (mut storage, found) = start(world, &small());
    let config = ConsensusConfig::new(MemberId(1), vec![MemberId(1)], 7);
    let mut member = RaftConsensus::restore(config, found.hard_state, found.entries, found.snapshot).unwrap();
    let mut applied = Vec::new();
    member.tick();
    assert_eq!(member.status().role, Role::Leader);
    member.propose(data.into()).unwrap();
    loop {
        let output = member.output();
        if output.is_empty() {
            return applied;
        }
        applied.extend(output.committed);
        if let Some(persist) = output.persist {
            let ticket = persist.ticket;
            block_on(storage.append(vec![persist])).unwrap();
            member.persisted(ticket);
        }
    }
}

#[test]
fn a_member_alone_finds_all_its_committed_entries_after_each_power_loss() {
    let world = World::default();
    for round in 1..=10 {
        let applied = propose_alone(&world, b"a write");
        let writes = applied.iter().filter(|entry| !entry.data.is_empty()).count();
        assert_eq!(
            (writes, applied.len()),
            (round, 2 * round),
            "each start has a term with an entry of its own"
        );
        world.lose_power(Some(round as u64));
    }
}
