//! What a process that was just killed still holds is waited for, for a moment.

use sillon_runtime::tokio_backend;
use std::{io, time::Duration};

#[test]
fn a_port_and_a_lock_that_are_about_to_be_free_are_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".lock");
    let run = |runtime: sillon_runtime::Runtime| async move {
        let held = runtime.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (address, lock) = (held.local_addr(), runtime.lock(&path).await.unwrap());
        let (dying, of) = ((held, lock), runtime.clone());
        let death = runtime.spawn("dying process", async move {
            of.sleep(Duration::from_millis(200)).await;
            drop(dying);
        });
        let again = (runtime.listen(address).await.unwrap(), runtime.lock(&path).await.unwrap());
        death.await.unwrap();
        // Who lives keeps what it has.
        assert_eq!(
            runtime.listen(address).await.err().map(|error| error.kind()),
            Some(io::ErrorKind::AddrInUse)
        );
        assert_eq!(
            runtime.lock(&path).await.err().map(|error| error.kind()),
            Some(io::ErrorKind::WouldBlock)
        );
        drop(again);
    };
    tokio_backend::block_on(Some(1), run).unwrap();
}
