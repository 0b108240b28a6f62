//! The real tokio beside simulations, in one process: madsim overrides libc's clock and random symbols for all of it.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // The real clocks are what is tested.

mod support;

use sillon_sim::world::{run_seeded, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{Client, echo};

/// Event queue, timers, threads, random bytes and clocks of this machine.
fn real() {
    let start = Instant::now();
    sillon_runtime::tokio_backend::block_on(Some(2), |runtime| async move {
        let listener = runtime.listen(([127, 0, 0, 1], 0).into()).await.expect("a port is free");
        let address = listener.local_addr();
        drop(listener);
        runtime.spawn("server", {
            let runtime = runtime.clone();
            async move { echo(runtime, address, None).await.expect("for ever") }
        });
        runtime.sleep(Duration::from_millis(100)).await;
        let mut client = Client::new(&runtime, "127.0.0.1", address.port());
        for _ in 0..200 {
            assert_eq!(client.call(b"hi", Duration::from_secs(5)).await.expect("an answer"), b"hi");
        }
        runtime.blocking(|| std::thread::sleep(Duration::from_millis(20))).await.expect("no panic");
        assert_ne!(runtime.random_u64(), runtime.random_u64());
    })
    .expect("the operating system gives threads");
    assert!(start.elapsed() >= Duration::from_millis(120) && start.elapsed() < Duration::from_secs(60));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    assert!(now.as_secs() > 1_750_000_000);
}

fn simulated() {
    let start = Instant::now();
    let inside = run_seeded(5, || async {
        let start = Instant::now();
        sleep(Duration::from_secs(3_600)).await;
        start.elapsed()
    });
    assert!(inside.expect("no panic") >= Duration::from_secs(3_600));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn both_worlds_one_after_the_other_and_side_by_side() {
    simulated();
    real();
    std::thread::scope(|scope| {
        for index in 0..4 {
            scope.spawn(move || if index % 2 == 0 { real() } else { simulated() });
        }
    });
}
