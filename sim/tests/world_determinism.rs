//! One seed, one history: in any thread, at any time, and from the tape without the seed.
#![allow(clippy::disallowed_methods)] // The memory of the real process is measured.

mod support;

use sillon_runtime::Runtime;
use sillon_sim::{
    decisions::{Decisions, Stream, Tape},
    world::{DiskFaults, Event, LinkProfile, NodeId, Retention, World, WorldConfig, boot, run_seeded, sleep},
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::{Client, PORT, echo, everywhere};

const SERVERS: u64 = 3;

async fn ask_at_random(runtime: Runtime, observe: impl Fn(&'static str, &[(&'static str, u64)])) {
    let mut clients: Vec<_> =
        (0..SERVERS).map(|server| Client::new(&runtime, format!("s{server}"), PORT)).collect();
    for round in 0u64.. {
        let server = runtime.random_u64() % SERVERS;
        let length = (runtime.random_u64() % 3_000) as usize + 1;
        let start = runtime.now();
        let answer =
            clients[server as usize].call(&vec![round as u8; length], Duration::from_millis(800)).await;
        let took = (runtime.now() - start).as_micros() as u64;
        match answer {
            Ok(answer) => {
                assert_eq!(answer.len(), length);
                observe("answer", &[("server", server), ("took_us", took)]);
            }
            Err(error) => {
                observe("no-answer", &[("server", server), ("error", error.kind() as u64), ("took_us", took)])
            }
        }
        runtime.sleep(Duration::from_millis(runtime.random_u64() % 50)).await;
    }
}

/// Three servers, two clients; crashes, power failures, partitions, pauses, clocks, and every fault of network and disk.
async fn history(world: Arc<World>) {
    for server in 0..SERVERS {
        let main = boot(|runtime: Runtime| async move {
            // A disk fault may end it before it listens.
            let _ = echo(runtime, everywhere(), Some("/log/echo")).await;
        });
        world.start(world.add_node(&format!("s{server}"), main));
    }
    for client in 0..2u32 {
        let in_client = world.clone();
        let main = boot(move |runtime: Runtime| {
            let world = in_client.clone();
            let node = NodeId(SERVERS as u32 + client);
            ask_at_random(runtime, move |kind, fields| world.event(node, kind, fields))
        });
        world.start(world.add_node(&format!("c{client}"), main));
    }
    let second = Duration::from_secs(1);
    for _ in 0..4 {
        sleep(second * 2).await;
        let draw = |what, high| world.decisions().draw(Stream::FaultPlan, what, 0, high);
        let victim = NodeId(draw("victim", SERVERS - 1) as u32);
        match draw("fault", 5) {
            0 => {
                world.kill(victim);
                sleep(second).await;
            }
            1 => {
                world.power_fail(victim);
                sleep(second * 3).await;
            }
            2 => {
                let other = NodeId(draw("other", SERVERS + 1) as u32);
                world.network().partition(&[victim], &[other]);
                sleep(second * 2).await;
                world.network().mend_all();
            }
            3 => {
                world.pause(victim);
                sleep(second).await;
                world.resume(victim);
            }
            4 => world.set_drift(victim, draw("drift", 100_000) as i64 - 50_000),
            _ => world.jump_wall_clock(victim, draw("jump", 10_000) as i64 - 5_000),
        }
        if !world.status(victim).is_alive() {
            world.start(victim);
        }
    }
    sleep(second * 2).await;
}

struct Outcome {
    chain: u64,
    count: u64,
    tape: Tape,
    events: Vec<Event>,
    divergence: Option<String>,
}

fn run(scheduler_seed: u64, decisions: Decisions, retention: Retention) -> Outcome {
    run_seeded(scheduler_seed, move || async move {
        let mut config = WorldConfig { retention, ..WorldConfig::default() };
        config.network.link = LinkProfile { loss_ppm: 2_000, reset_ppm: 500, ..LinkProfile::DATA_CENTRE };
        config.disk = DiskFaults {
            short_write_ppm: 10_000,
            sync_error_ppm: 10_000,
            write_error_ppm: 500,
            stall_ppm: 1_000,
            misdirected_write_ppm: 5_000,
            ..DiskFaults::default()
        };
        let decisions = Arc::new(decisions);
        let world = World::new(config, decisions.clone());
        history(world.clone()).await;
        Outcome {
            chain: world.trace().chain(),
            count: world.trace().count(),
            tape: decisions.tape(),
            events: world.trace().events(),
            divergence: decisions.divergence().map(|divergence| divergence.to_string()),
        }
    })
    .unwrap_or_else(|panic| panic!("seed {scheduler_seed}: {panic}"))
}

fn first_difference(a: &[Event], b: &[Event]) -> Option<(Event, Event)> {
    a.iter().zip(b).find(|(a, b)| a.chain != b.chain).map(|(a, b)| (a.clone(), b.clone()))
}

#[test]
fn two_hundred_seeds_repeat_in_other_threads_and_another_order() {
    const SEEDS: usize = 200;
    let chain = |seed: usize| {
        let outcome = run(seed as u64, Decisions::random(seed as u64, false), Retention::None);
        assert!(outcome.count > 500, "seed {seed}: only {} events", outcome.count);
        outcome.chain
    };
    let first: Vec<u64> = (0..SEEDS).map(chain).collect();
    let second = Mutex::new(vec![0; SEEDS]);
    let left = AtomicUsize::new(SEEDS);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Ok(seed) =
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                {
                    let chain = chain(seed - 1);
                    second.lock().expect("no panic")[seed - 1] = chain;
                }
            });
        }
    });
    let second = second.into_inner().expect("no panic");
    let different: Vec<usize> = (0..SEEDS).filter(|seed| first[*seed] != second[*seed]).collect();
    assert_eq!(different, [0; 0], "seeds whose second run differs");
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), SEEDS, "each seed has a history of its own");
}

#[test]
fn a_tape_repeats_the_run_without_the_seed() {
    for seed in 0..20 {
        let recorded = run(seed, Decisions::random(seed + 1_000, true), Retention::All);
        assert!(recorded.tape.decisions() > 1_000);
        let replayed = run(seed, Decisions::replay(recorded.tape.clone()), Retention::All);
        assert_eq!(replayed.divergence, None);
        assert_eq!(first_difference(&recorded.events, &replayed.events), None);
        assert_eq!((recorded.chain, recorded.count), (replayed.chain, replayed.count));
    }
}

#[test]
fn what_is_recorded_or_kept_changes_nothing() {
    let bare = run(4, Decisions::random(4, false), Retention::None);
    let kept = run(4, Decisions::random(4, true), Retention::All);
    assert_eq!((bare.chain, bare.count), (kept.chain, kept.count));
    assert_eq!(kept.events.last().map(|event| event.chain), Some(kept.chain));
}

#[test]
fn the_scheduler_seed_and_the_decisions_each_matter() {
    let one = run(1, Decisions::random(1, false), Retention::None).chain;
    assert_ne!(one, run(2, Decisions::random(1, false), Retention::None).chain);
    assert_ne!(one, run(1, Decisions::random(2, false), Retention::None).chain);
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|field| field.parse().ok()).expect("a number");
    pages * 4_096
}

/// Slow: some minutes without optimisation. `cargo test --profile sim -- --ignored a_thousand`
#[test]
#[ignore = "slow"]
fn a_thousand_runs_leave_no_memory_behind() {
    let runs = |from: u64, to: u64| {
        for seed in from..to {
            run(seed, Decisions::random(seed, true), Retention::All);
        }
    };
    runs(0, 100);
    let before = resident_bytes();
    runs(100, 1_100);
    let grown = resident_bytes().saturating_sub(before);
    println!("resident memory has grown by {} KiB over 1000 runs", grown >> 10);
    assert!(grown < 20 << 20, "{grown} bytes");
}

#[test]
fn a_hundred_runs_leave_little_memory_behind() {
    let runs = |count: u64| {
        for seed in 0..count {
            run(seed, Decisions::random(seed, false), Retention::None);
        }
    };
    runs(20);
    let before = resident_bytes();
    runs(100);
    // A run that left its tasks and disks behind would leave about a megabyte.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes over 100 runs");
}
