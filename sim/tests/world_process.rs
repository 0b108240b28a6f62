//! The life of processes and clocks in the world.

mod support;

use sillon_runtime::Monotonic;
use sillon_sim::world::{FaultKind, Retention, Status, World, WorldConfig, boot, now_ns, run_seeded, sleep};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use support::{Client, Notes, PORT, echo, everywhere, in_world, run_on, seconds};

fn counter() -> (Arc<AtomicU64>, Arc<AtomicU64>) {
    let counter = Arc::new(AtomicU64::new(0));
    (counter.clone(), counter)
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn a_killed_process_does_nothing_more_and_its_successor_starts_afresh() {
    in_world(|world, _| async move {
        let (ticks, in_process) = counter();
        let node = run_on(&world, "m", move |runtime| {
            let ticks = in_process.clone();
            async move {
                loop {
                    runtime.sleep(milliseconds(10)).await;
                    ticks.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        sleep(milliseconds(105)).await;
        let stale = world.runtime(node).expect("it runs");
        world.kill(node);
        assert_eq!(ticks.load(Ordering::Relaxed), 10);
        assert_eq!(world.status(node), Status::Killed);
        assert!(world.runtime(node).is_err());
        stale.spawn("too late", async { unreachable!("its process is dead") });
        assert!(stale.connect("m", PORT).await.is_err() && stale.listen(everywhere()).await.is_err());
        sleep(seconds(1)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 10);
        world.start(node);
        assert_eq!(world.incarnations(node), 2);
        sleep(milliseconds(55)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 15);
        world.restart(node);
        sleep(milliseconds(25)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 17);
    });
}

#[test]
fn a_paused_process_stands_still_while_its_machine_goes_on() {
    in_world(|world, _| async move {
        let node = run_on(&world, "server", |runtime| async move {
            echo(runtime, everywhere(), None).await.expect("for ever");
        });
        let (answers, in_process) = counter();
        run_on(&world, "client", move |runtime| {
            let answers = in_process.clone();
            async move {
                let mut client = Client::new(&runtime, "server", PORT);
                while client.call(b"hello", seconds(100)).await.is_ok() {
                    answers.fetch_add(1, Ordering::Relaxed);
                    runtime.sleep(milliseconds(100)).await;
                }
            }
        });
        sleep(seconds(2)).await;
        world.pause(node);
        assert_eq!(world.status(node), Status::Paused);
        let before = answers.load(Ordering::Relaxed);
        assert!(before > 10);
        sleep(seconds(10)).await;
        assert!(answers.load(Ordering::Relaxed) <= before + 1, "at most what was on its way");
        world.resume(node);
        sleep(seconds(2)).await;
        assert!(answers.load(Ordering::Relaxed) > before + 10);
        world.pause(node);
        sleep(seconds(1)).await;
        world.kill(node);
        sleep(seconds(1)).await;
        assert_eq!(world.status(node), Status::Killed);
    });
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_panic_ends_its_process_and_nothing_else() {
    let (panics, statuses) = run_seeded(5, || async {
        let world =
            World::new(WorldConfig::default(), Arc::new(sillon_sim::decisions::Decisions::random(5, false)));
        let panicking = run_on(&world, "panicking", |runtime| async move {
            let inner = runtime.clone();
            runtime.spawn("worker", async move {
                inner.sleep(milliseconds(50)).await;
                let offset = 7;
                assert_eq!(offset, 8, "the log is torn");
            });
            let _also = PanicsWhenDropped;
            pending::<()>().await;
        });
        let well = run_on(&world, "well", |runtime| async move { runtime.sleep(seconds(2)).await });
        let alive = run_on(&world, "alive", |_| pending());
        sleep(seconds(5)).await;
        let statuses = [panicking, well, alive].map(|node| world.status(node));
        assert_eq!(world.fault_count(FaultKind::Panic), 2);
        (world.panics(), statuses)
    })
    .expect("the simulation goes on");
    assert_eq!(statuses, [Status::Panicked, Status::Exited, Status::Running]);
    assert_eq!((panics[0].task, panics[0].incarnation, panics[0].time_ns / 1_000_000), ("worker", 1, 50));
    assert!(panics[0].panic.message.contains("the log is torn"), "{}", panics[0].panic);
    assert!(panics[0].panic.location.contains("world_process.rs:"), "{}", panics[0].panic);
    assert_eq!((panics[1].task, panics[1].panic.message.as_str()), ("main", "dropped"));
}

#[test]
fn a_panic_of_the_scenario_and_a_deadlock_are_errors_of_the_run() {
    let panic = run_seeded(5, || async {
        assert!(now_ns() > u64::MAX - 1, "never so late");
    });
    assert!(panic.expect_err("it panics").message.contains("never so late"));
    let deadlock = run_seeded(5, pending::<()>);
    assert!(deadlock.expect_err("nothing can happen").message.contains("block forever"));
}

#[test]
fn clocks_drift_jump_and_are_continuous() {
    let notes = in_world(|world, notes| async move {
        let node = run_on(&world, "m", |_| pending());
        let other = run_on(&world, "other", |_| pending());
        world.set_drift(node, 50_000);
        world.jump_wall_clock(node, -90_000);
        let (runtime, right) =
            (world.runtime(node).expect("it runs"), world.runtime(other).expect("it runs"));
        notes.add(format!("wall apart {} ms", runtime.unix_time().0 - right.unix_time().0));
        let (local, global) = (runtime.now(), now_ns());
        runtime.sleep(seconds(21)).await;
        let (local, global) = ((runtime.now() - local).as_millis(), (now_ns() - global) / 1_000_000);
        notes.add(format!("21 s there are {global} ms here and {local} ms there"));
        notes.add(format!("wall apart {} ms", runtime.unix_time().0 - right.unix_time().0));
        let before = runtime.now();
        world.set_drift(node, -200_000);
        let after = runtime.now();
        notes.add(format!("continuous: {}", after - before < Duration::from_micros(1)));
    });
    assert_eq!(
        notes,
        [
            "wall apart -90000 ms",
            "21 s there are 20000 ms here and 21000 ms there",
            "wall apart -89000 ms",
            "continuous: true",
        ]
    );
}

#[test]
fn a_sleep_follows_a_clock_that_changes_its_rate_meanwhile() {
    for (drift_ppm, expected_ms) in [(500_000, 4_666), (-500_000, 12_000)] {
        let notes = in_world(move |world, notes| async move {
            let of_process = notes.clone();
            let node = run_on(&world, "m", move |runtime| {
                let notes = of_process.clone();
                async move {
                    let start = now_ns();
                    runtime.sleep(seconds(7)).await;
                    notes.add(format!("{}", (now_ns() - start) / 1_000_000));
                }
            });
            sleep(Duration::from_nanos(2_000_000_000 - now_ns())).await;
            world.set_drift(node, drift_ppm);
            sleep(seconds(20)).await;
        });
        // Two seconds of the seven have passed when the rate changes.
        let expected = if drift_ppm > 0 { 2_000 + 5_000 * 2 / 3 } else { 2_000 + 5_000 * 2 };
        assert_eq!(notes.len(), 1);
        let slept: u64 = notes[0].parse().expect("a number");
        assert!(slept.abs_diff(expected) <= 1, "{slept} ms, not {expected} (about {expected_ms})");
    }
}

#[test]
fn a_reboot_gives_another_monotonic_clock_and_keeps_the_wall_clock() {
    in_world(|world, _| async move {
        let node = run_on(&world, "m", |_| pending());
        sleep(seconds(500)).await;
        let runtime = world.runtime(node).expect("it runs");
        let (monotonic, wall) = (runtime.now(), runtime.unix_time());
        world.restart(node);
        let runtime = world.runtime(node).expect("it runs");
        assert!(runtime.now() >= monotonic, "a new process has the same clock");
        world.power_fail(node);
        sleep(seconds(10)).await;
        world.start(node);
        let runtime = world.runtime(node).expect("it runs");
        assert!(runtime.now() < Monotonic(100_100_000_000), "{:?}", runtime.now());
        assert!((10_000..10_010).contains(&(runtime.unix_time().0 - wall.0)));
    });
}

#[test]
fn a_slow_processor_takes_its_time_for_each_step() {
    in_world(|world, _| async move {
        let node = run_on(&world, "m", |_| pending());
        let runtime = world.runtime(node).expect("it runs");
        world.set_slow_processor(node, 2_000, 4_000);
        let start = now_ns();
        runtime.spawn("work", async {}).await.expect("it ends");
        let slow = (now_ns() - start) / 1_000;
        assert!((2_000..4_010).contains(&slow), "{slow} us");
        world.set_slow_processor(node, 0, 0);
        let start = now_ns();
        runtime.spawn("work", async {}).await.expect("it ends");
        assert!(now_ns() - start < 10_000);
    });
}

#[test]
fn timeouts_and_sleeps_are_exact_and_cancelled() {
    in_world(|world, _| async move {
        run_on(&world, "m", |runtime| async move {
            for nanoseconds in [1, 10_000, 123_456, 1_000_000, 7_777_777] {
                let start = now_ns();
                runtime.sleep(Duration::from_nanos(nanoseconds)).await;
                let slept = now_ns() - start;
                assert!((nanoseconds..nanoseconds + 1_000).contains(&slept), "{slept} for {nanoseconds}");
            }
            assert!(runtime.timeout(milliseconds(1), pending::<()>()).await.is_err());
            assert_eq!(runtime.timeout(milliseconds(1), async { 5 }).await, Ok(5));
            let task = runtime.spawn("aborted", pending::<()>());
            task.abort();
            assert!(task.await.is_err());
            assert_eq!(runtime.blocking(|| 6 * 7).await, Ok(42));
            assert_ne!(runtime.random_u64(), runtime.random_u64());
        });
        sleep(seconds(1)).await;
    });
}

#[test]
fn another_program_can_be_set_for_the_next_start() {
    in_world(|world, notes| async move {
        let of_version = |notes: &Notes, version: &'static str| {
            let notes = notes.clone();
            boot(move |_| {
                notes.add(version);
                pending()
            })
        };
        let node = world.add_node("m", of_version(&notes, "1.0"));
        world.start(node);
        world.set_boot(node, of_version(&notes, "2.0"));
        world.restart(node);
        sleep(milliseconds(10)).await;
        assert_eq!(notes.take(), ["1.0", "2.0"]);
        assert_eq!((world.name(node).as_str(), world.address(node).to_string().as_str()), ("m", "10.0.0.1"));
        world.trace().set_retention(Retention::Last(1));
        world.event_with_detail(node, "note", &[("value", 7)], || "seven".into());
        let event = &world.trace().events()[0];
        assert!(event.to_string().ends_with("n0     note value=7 seven"), "{event}");
    });
}
