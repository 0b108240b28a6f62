//! The same on this machine's own files, and how fast it is there. Owns no exact figures.

use super::*;
use sillon_runtime::{Runtime, tokio_backend};
use std::future::Future;

fn on_disk<F: Future>(test: impl FnOnce(Runtime, StorageOptions) -> F) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().to_owned();
    let options = StorageOptions::new(path.join("data"), path.join("log"), MemberId(1));
    tokio_backend::block_on(Some(2), |runtime| test(runtime, options)).expect("a runtime");
}

#[test]
fn a_real_disk_gives_back_what_it_was_given() {
    on_disk(async |runtime, options| {
        let options = StorageOptions { segment_bytes: 2_000, ..options };
        let (mut storage, _) = Storage::open(&runtime, &options).await.unwrap();
        assert!(matches!(Storage::open(&runtime, &options).await.err(), Some(StorageError::Locked { .. })));
        for index in 1..=200 {
            storage.append(vec![persist(state(1, 0), vec![entry(index, 1)])]).await.unwrap();
            if index % 50 == 0 {
                let mut writer = storage.snapshots().create().await.unwrap();
                writer.write(&snapshot_bytes(index)).await.unwrap();
                writer.finish(SnapshotMark { index, term: 1 }).await.unwrap();
                storage.purge(3).await.unwrap();
            }
        }
        storage.append(vec![persist(state(2, 0), entries(201..=203, 2))]).await.unwrap();
        storage.append(vec![persist(state(3, 0), entries(201..=201, 3))]).await.unwrap();
        drop(storage);
        let (storage, found) = Storage::open(&runtime, &options).await.unwrap();
        assert_eq!(found.snapshot, Some(SnapshotMark { index: 200, term: 1 }));
        assert_eq!((storage.last().index, marks(&found.entries)), (201, vec![(201, 3)]));
    });
}

/// Run with `cargo test --release -p sillon-coordinator measure -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a check"]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // Measures real time.
fn measure_appends() {
    on_disk(async |runtime, options| {
        let (mut storage, _) = Storage::open(&runtime, &options).await.unwrap();
        let large = |index| LogEntry { index, term: 1, data: vec![7; 1024].into() };
        let mut index = 0;
        for batch in [1, 16, 64, 256] {
            let rounds = 2_000_u32 / batch as u32 + 50;
            let start = std::time::Instant::now();
            for _ in 0..rounds {
                let entries = (index + 1..=index + batch).map(large).collect();
                index += batch;
                storage.append(vec![persist(state(1, 0), entries)]).await.unwrap();
            }
            println!("a batch of {batch} entries of 1 KiB: {:?}", start.elapsed() / rounds);
        }
        drop(storage);
        let start = std::time::Instant::now();
        let found = Storage::open(&runtime, &options).await.unwrap().1;
        println!("opening with {} entries: {:?}", found.entries.len(), start.elapsed());
    });
}
