//! How fast the world is. Not judged here: machines differ. `cargo test --profile sim --test world_speed -- --ignored
//! --nocapture --test-threads 1`
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Real time is measured.

mod support;

use sillon_sim::{
    decisions::Decisions,
    world::{NodeId, World, WorldConfig, boot, now_ns, run_seeded, sleep},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use support::{Client, PORT, echo, everywhere, run_on};

/// CPU time of this process, in seconds. Taken outside the simulation: inside, clocks are simulated.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a valid timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn new_world() -> Arc<World> {
    World::new(WorldConfig::default(), Arc::new(Decisions::random(1, false)))
}

#[test]
#[ignore = "a measurement"]
fn ping_pong() {
    const ROUNDS: u64 = 300_000;
    let start = processor_seconds();
    let simulated = run_seeded(1, || async {
        let world = new_world();
        run_on(&world, "server", |runtime| async move {
            echo(runtime, everywhere(), None).await.expect("for ever")
        });
        let done = Arc::new(AtomicU64::new(0));
        let in_client = done.clone();
        run_on(&world, "client", move |runtime| {
            let done = in_client.clone();
            async move {
                let mut client = Client::new(&runtime, "server", PORT);
                for _ in 0..ROUNDS {
                    client.call(&[1; 1_024], Duration::from_secs(5)).await.expect("an answer");
                }
                done.store(now_ns(), Ordering::Relaxed);
            }
        });
        while done.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_secs(1)).await;
        }
        done.load(Ordering::Relaxed) as f64 / 1e9
    })
    .expect("no panic");
    let took = processor_seconds() - start;
    println!(
        "{ROUNDS} round trips of 1 KiB: {:.0}/s of CPU ({simulated:.0} s simulated)",
        ROUNDS as f64 / took
    );
}

#[test]
#[ignore = "a measurement"]
fn idle_cluster() {
    const NODES: u32 = 9;
    const SECONDS: u64 = 600;
    let start = processor_seconds();
    run_seeded(1, || async {
        let world = new_world();
        for node in 0..NODES {
            let main = boot(move |runtime: sillon_runtime::Runtime| async move {
                for peer in (0..NODES).filter(|peer| *peer != node) {
                    let inner = runtime.clone();
                    runtime.spawn("heartbeats", async move {
                        let mut client = Client::new(&inner, format!("n{peer}"), PORT);
                        loop {
                            // Peers start one after the other.
                            let _ = client.call(&[1; 64], Duration::from_secs(2)).await;
                            inner.sleep(Duration::from_millis(500)).await;
                        }
                    });
                }
                echo(runtime, everywhere(), None).await.expect("for ever");
            });
            assert_eq!(world.add_node(&format!("n{node}"), main), NodeId(node));
            world.start(NodeId(node));
        }
        sleep(Duration::from_secs(SECONDS)).await;
    })
    .expect("no panic");
    let took = processor_seconds() - start;
    println!(
        "{NODES} idle machines with heartbeats each 500 ms: {:.0} times real time",
        SECONDS as f64 / took
    );
}

#[test]
#[ignore = "a measurement"]
fn events() {
    const EVENTS: u64 = 5_000_000;
    let start = processor_seconds();
    run_seeded(1, || async {
        let world = new_world();
        for index in 0..EVENTS {
            world.event(NodeId(1), "observed", &[("partition", 3), ("offset", index), ("epoch", 7)]);
        }
    })
    .expect("no panic");
    println!("one event: {:.1} ns", (processor_seconds() - start) * 1e9 / EVENTS as f64);
}

#[test]
#[ignore = "a measurement"]
fn appends() {
    const APPENDS: u64 = 200_000;
    let start = processor_seconds();
    run_seeded(1, || async {
        let world = new_world();
        let node = run_on(&world, "m", |_| std::future::pending());
        let runtime = world.runtime(node).expect("it runs");
        let path = std::path::Path::new("/log");
        let file =
            runtime.fs().open(path, sillon_runtime::OpenOptions::READ_WRITE_CREATE).await.expect("new");
        for index in 0..APPENDS {
            file.write_at(&[1; 1_024], index * 1_024).await.expect("no fault");
        }
    })
    .expect("no panic");
    println!("one append of 1 KiB: {:.0} ns", (processor_seconds() - start) * 1e9 / APPENDS as f64);
}
