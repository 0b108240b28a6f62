//! Whole runs of coordinator ensembles: they pass and are judged, a seed and a recording give the same again.

mod support;

use sillon_sim::{
    driver::{Watch, run},
    faults::FaultKind,
    repro::{Bundle, Verdict, replay},
    scenario::Scenario,
};
use support::runs::{bundle, input};

const SCENARIO: &str = r#"
name = "example"
description = "An ensemble to which a little of everything happens, shortly."
[ensemble]
members = 3
[ensemble.properties]
tickTime = 500
snapCount = 50
"sillon.logMemoryBytes" = 16384
extendedTypesEnabled = true
[sessions]
clients = 4
operations_per_second = 60
timeout = "2s"
[phases]
safety = "15s"
heal = "3s"
liveness = "10s"
[faults.crash]
per_minute = 8
on = "members"
duration = "200ms..2s"
[faults.power-loss]
per_minute = 8
duration = "500ms..2s"
[faults.partition]
per_minute = 8
shape = "any"
duration = "500ms..3s"
[faults.rolling-restart]
per_minute = 4
duration = "200ms..500ms"
latency = "200ms..500ms"
"#;

#[test]
fn a_good_ensemble_passes_and_the_oracle_has_looked() {
    let outcome = run(input(SCENARIO, 1, false), Watch::Hash);
    assert_eq!(outcome.failure, None);
    let sum = &outcome.ensemble;
    assert!(sum.writes_confirmed > 100 && sum.reads > 100, "{sum:?}");
    assert!(sum.sessions_opened > 4 && sum.terms_led > 0, "{sum:?}");
    assert!(outcome.faults.values().sum::<u64>() > 3, "{:?}", outcome.faults);
    let of_coordinators = |count: &(&sillon_sim::oracle::Invariant, &u64)| count.0.is_of_coordinators();
    let evaluated =
        outcome.evaluations.iter().filter(of_coordinators).filter(|(_, count)| **count > 0).count();
    assert!(evaluated >= 12, "{:?}", outcome.evaluations);
}

#[test]
fn a_rolling_restart_is_counted_by_what_it_consists_of() {
    let scenario = Scenario::parse("example.toml", SCENARIO).expect("it is right");
    assert!(scenario.fault_kinds().contains(&FaultKind::RollingRestart));
    assert!(scenario.injected_kinds().contains(&FaultKind::Restart));
    assert!(!scenario.injected_kinds().contains(&FaultKind::RollingRestart));
}

#[test]
fn a_recording_replays_to_the_same_events_without_a_generator() {
    let plain = run(input(SCENARIO, 2, false), Watch::Hash);
    let recorded = run(input(SCENARIO, 2, true), Watch::Keep);
    assert_eq!((plain.hash, plain.events), (recorded.hash, recorded.events));
    assert!(recorded.tape.decisions() > 100);
    let bundle = bundle(SCENARIO, input(SCENARIO, 2, true), &recorded);
    let bytes = bundle.encode().expect("it is small");
    assert_eq!(Bundle::decode(&bytes).as_ref(), Ok(&bundle));
    let (replayed, verdict) = replay(&bundle);
    assert_eq!((replayed.hash, replayed.divergence), (recorded.hash, None));
    let Verdict::Different(difference) = verdict else { panic!("the bundle's failure is invented") };
    assert_eq!(difference.event, 0, "all events agree");
}
