//! Whole runs: the same again from the seed, the same again from the recording, and different where the plan is.

mod support;

use sillon_sim::{
    driver::{Watch, run},
    repro::{Verdict, compare, replay},
};
use support::runs::{bundle, input};

const SCENARIO: &str = r#"
name = "example"
description = "Crashes and power losses, shortly."
[topics.properties]
"flush.messages" = 1
[disk]
read_latency = "10us..100us"
[phases]
safety = "12s"
heal = "2s"
liveness = "15s"
[faults.crash]
per_minute = 15
duration = "200ms..1s"
[faults.power-loss]
per_minute = 15
duration = "500ms..1s"
[faults.restart]
per_minute = 10
duration = "200ms..1s"
[faults.connection-reset]
per_minute = 10
[faults.clock-jump]
per_minute = 10
"#;

#[test]
fn good_code_passes_and_the_oracle_has_looked() {
    let outcome = run(input(SCENARIO, 1, false), Watch::Hash);
    assert_eq!(outcome.failure, None);
    assert!(outcome.statistics.records_confirmed > 100, "{:?}", outcome.statistics);
    assert!(outcome.faults.values().sum::<u64>() > 3, "{:?}", outcome.faults);
    let evaluated = outcome.evaluations.values().filter(|count| **count > 0).count();
    assert!(evaluated >= 15, "{:?}", outcome.evaluations);
    assert!(outcome.trace.is_empty() && outcome.tape.is_empty(), "nothing is kept that was not asked for");
}

#[test]
fn a_seed_gives_the_same_run_whether_it_is_watched_or_not() {
    let plain = run(input(SCENARIO, 2, false), Watch::Hash);
    let kept = run(input(SCENARIO, 2, true), Watch::Keep);
    assert_eq!((plain.hash, plain.events), (kept.hash, kept.events));
    assert_eq!(kept.trace.len() as u64, kept.events);
    assert_ne!(plain.hash, run(input(SCENARIO, 3, false), Watch::Hash).hash);
}

#[test]
fn a_recording_replays_to_the_same_events_without_a_generator() {
    let recorded = run(input(SCENARIO, 4, true), Watch::Keep);
    assert!(recorded.tape.decisions() > 100);
    let bundle = bundle(SCENARIO, input(SCENARIO, 4, true), &recorded);
    let (replayed, verdict) = replay(&bundle);
    assert_eq!((replayed.hash, replayed.divergence), (recorded.hash, None));
    let Verdict::Different(difference) = verdict else { panic!("the bundle's failure is invented") };
    assert_eq!(difference.event, 0, "all events agree");
    assert!(difference.expected.starts_with("simulator: invented"), "{}", difference.expected);
    assert!(difference.found.starts_with("no failure"), "{}", difference.found);
}

#[test]
fn a_changed_schedule_is_told_by_the_first_event_that_differs() {
    let recorded = run(input(SCENARIO, 5, true), Watch::Keep);
    let mut changed = bundle(SCENARIO, input(SCENARIO, 5, true), &recorded);
    let moved = changed.plan.last_mut().expect("there are faults");
    moved.at_ns += 1_000_000;
    let at_ns = moved.at_ns;
    let outcome = run(changed.input(), Watch::Keep);
    let Verdict::Different(difference) = compare(&changed, &outcome) else { panic!("a fault was moved") };
    let event = &recorded.trace[difference.event as usize - 1];
    assert!(event.time_ns <= at_ns + 1_000_000, "told at {event}, moved to {at_ns}");
    assert_ne!(difference.expected, difference.found);
    assert_eq!(difference.before.len(), 5);
}

#[test]
fn a_fault_that_is_aimed_at_a_role_finds_its_machine_and_the_recording_says_which() {
    let text = r#"
name = "example"
description = "The leader of everything, the only broker, dies."
[phases]
safety = "10s"
heal = "2s"
liveness = "10s"
[faults.crash]
per_minute = 30
target = "leader"
duration = "200ms..500ms"
[faults.pause]
per_minute = 12
target = "controller"
duration = "200ms..500ms"
"#;
    let recorded = run(input(text, 5, true), Watch::Keep);
    assert_eq!(recorded.failure, None);
    assert!(recorded.faults.get(&sillon_sim::faults::FaultKind::Crash).is_some_and(|count| *count > 1));
    let bundle = bundle(text, input(text, 5, true), &recorded);
    let (replayed, _) = replay(&bundle);
    assert_eq!((replayed.hash, replayed.divergence), (recorded.hash, None));
}
