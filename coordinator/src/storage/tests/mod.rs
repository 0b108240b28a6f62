//! Tests of the disks of a member. Owns how they open and fill a storage.

mod crashes;
mod damage;
mod real_files;
mod scenarios;
mod world;

use super::{Recovered, Storage, StorageError, StorageOptions};
use crate::{
    consensus::{HardState, LogEntry, Persist, SnapshotMark},
    types::{MemberId, Term},
};
use std::path::{Path, PathBuf};
use world::{World, block_on};

const DATA: &str = "/data";
const LOG: &str = "/log";

fn options() -> StorageOptions {
    // Little room, so that tests that go through a file byte by byte end soon.
    StorageOptions { room_bytes: 150, ..StorageOptions::new(DATA.into(), LOG.into(), MemberId(1)) }
}

/// Segments so small that a few entries fill one.
fn small() -> StorageOptions {
    StorageOptions { segment_bytes: 600, ..options() }
}

fn open(world: &World, options: &StorageOptions) -> Result<(Storage, Recovered), StorageError> {
    block_on(Storage::open(&world.runtime(), options))
}

/// Opens, which must work.
fn start(world: &World, options: &StorageOptions) -> (Storage, Recovered) {
    open(world, options).unwrap_or_else(|error| panic!("{error}"))
}

fn entry(index: u64, term: u64) -> LogEntry {
    LogEntry { index, term, data: format!("entry {index} of term {term}").into_bytes().into() }
}

fn entries(indexes: impl IntoIterator<Item = u64>, term: u64) -> Vec<LogEntry> {
    indexes.into_iter().map(|index| entry(index, term)).collect()
}

fn state(term: u64, commit: u64) -> HardState {
    HardState { term: Term(term), vote: Some(MemberId(term % 3 + 1)), commit }
}

fn persist(state: HardState, entries: Vec<LogEntry>) -> Persist {
    Persist { ticket: 0, hard_state: Some(state), entries, must_sync: true }
}

fn append(storage: &mut Storage, term: u64, indexes: impl IntoIterator<Item = u64>) {
    let state = state(term, storage.hard_state().commit);
    block_on(storage.append(vec![persist(state, entries(indexes, term))])).unwrap();
}

/// The bytes of the snapshot of an index.
fn snapshot_bytes(index: u64) -> Vec<u8> {
    format!("all that was applied up to {index}").repeat(3).into_bytes()
}

fn take_snapshot(storage: &Storage, index: u64, term: u64) -> Result<(), StorageError> {
    block_on(async {
        let mut writer = storage.snapshots().create().await?;
        writer.write(&snapshot_bytes(index)).await?;
        writer.finish(SnapshotMark { index, term }).await
    })
}

fn read_snapshot(storage: &Storage, index: u64) -> Result<Vec<u8>, StorageError> {
    block_on(async {
        let mut reader = storage.snapshots().read(index).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = reader.next().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    })
}

fn log_file(first: u64) -> PathBuf {
    Path::new(LOG).join("sillon-1").join(super::names::log(first))
}

fn snapshot_file(index: u64) -> PathBuf {
    Path::new(DATA).join("sillon-1").join(super::names::snapshot(index))
}

/// The indexes and terms of entries.
fn marks(entries: &[LogEntry]) -> Vec<(u64, u64)> {
    entries.iter().map(|entry| (entry.index, entry.term)).collect()
}
