//! Whole runs of clusters: several brokers and an ensemble in one world. They pass and are judged, a seed and a recording
//! give the same again, and a core is healed without the rest.

mod support;

use sillon_sim::{
    driver::{Watch, run},
    faults::FaultKind,
    oracle::Invariant,
    repro::{Verdict, replay},
};
use support::runs::{bundle, input};

const SCENARIO: &str = r#"
name = "example"
description = "A cluster to which a little of everything happens, shortly."
[cluster]
brokers = 3
[cluster.properties]
"replica.lag.time.max.ms" = 1000
"zookeeper.session.timeout.ms" = 3000
"controlled.shutdown.retry.backoff.ms" = 300
[ensemble]
members = 3
[ensemble.properties]
tickTime = 300
[topics]
count = 1
partitions = 2
replication_factor = 3
min_insync_replicas = 2
[phases]
safety = "20s"
heal = "5s"
liveness = "20s"
[faults.crash]
per_minute = 6
target = "leader"
duration = "500ms..3s"
[faults.pause]
per_minute = 3
target = "controller"
duration = "500ms..4s"
[faults.partition]
per_minute = 6
on = "brokers"
shape = "any-in-cluster"
duration = "500ms..3s"
"#;

#[test]
fn a_good_cluster_passes_and_the_oracle_has_looked() {
    let outcome = run(input(SCENARIO, 6, false), Watch::Hash);
    assert_eq!(outcome.failure, None);
    let sum = &outcome.statistics;
    assert!(sum.records_confirmed > 200 && sum.records_read > 200, "{sum:?}");
    assert!(outcome.ensemble.terms_led > 0 && outcome.ensemble.transactions > 10);
    assert!(outcome.faults.get(&FaultKind::Crash).is_some_and(|count| *count > 0), "{:?}", outcome.faults);
    for invariant in [Invariant::I01, Invariant::I69, Invariant::I75, Invariant::K01] {
        assert!(outcome.evaluations[&invariant] > 0, "{invariant}: {:?}", outcome.evaluations);
    }
}

#[test]
fn a_recording_of_faults_that_were_aimed_replays_to_the_same_events() {
    let plain = run(input(SCENARIO, 2, false), Watch::Hash);
    let recorded = run(input(SCENARIO, 2, true), Watch::Keep);
    assert_eq!((plain.hash, plain.events), (recorded.hash, recorded.events));
    let bundle = bundle(SCENARIO, input(SCENARIO, 2, true), &recorded);
    let (replayed, verdict) = replay(&bundle);
    assert_eq!((replayed.hash, replayed.divergence), (recorded.hash, None));
    let Verdict::Different(difference) = verdict else { panic!("the bundle's failure is invented") };
    assert_eq!(difference.event, 0, "all events agree");
}

#[test]
fn a_core_goes_on_without_the_rest() {
    let text = SCENARIO.replace("heal = \"5s\"", "heal = \"5s\"\nhealing = \"core\"");
    for seed in 1..4 {
        let outcome = run(input(&text, seed, false), Watch::Hash);
        assert_eq!(outcome.failure, None, "seed {seed}");
    }
}

#[test]
fn an_operator_deletes_grows_and_moves() {
    let admin = "[admin]\ntopics = 1\ndeletions_per_minute = 12\ngrowths_per_minute = 12\n\
                 reassignments_per_minute = 12\nelections_per_minute = 6\nconfig_changes_per_minute = 6\n";
    let outcome = run(input(&format!("{SCENARIO}{admin}"), 3, false), Watch::Hash);
    assert_eq!(outcome.failure, None);
    assert!(outcome.statistics.records_confirmed > 200, "{:?}", outcome.statistics);
}
