//! The program as people meet it: what it prints and how it ends.
#![allow(clippy::disallowed_methods)] // The test prepares files on the real disk.

use std::process::{Command, Output};

fn sillon_sim(arguments: &[&str]) -> Output {
    let tree = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the tree");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sillon-sim"));
    command.args(arguments).current_dir(tree).env_remove("CARGO").output().expect("it can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

#[test]
fn every_scenario_of_the_tree_is_right_and_listed() {
    let output = sillon_sim(&["list"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    for name in ["single-broker-crash", "power-loss", "torn-writes", "disk-full", "slow-disk", "clock-jump"] {
        assert!(text(&output.stdout).contains(name), "{name} is missing");
    }
    for name in [
        "crash",
        "power-loss",
        "partition",
        "clocks",
        "slow-disk",
        "disk-errors",
        "snapshots",
        "rolling-restart",
        "sessions",
    ] {
        assert!(text(&output.stdout).contains(&format!("coordinator-{name}")), "{name} is missing");
    }
}

#[test]
fn lists_name_what_scenarios_may_use() {
    assert!(text(&sillon_sim(&["list", "invariants"]).stdout).contains("I20 "));
    assert!(text(&sillon_sim(&["list", "faults"]).stdout).contains("power-loss"));
    assert!(text(&sillon_sim(&["list", "faults"]).stdout).contains("rolling-restart"));
    assert!(text(&sillon_sim(&["list", "properties"]).stdout).contains("segment.bytes"));
    assert!(text(&sillon_sim(&["list", "properties"]).stdout).contains("snapCount"));
}

#[test]
fn a_scenario_that_does_not_exist_names_the_nearest() {
    let output = sillon_sim(&["run", "power-los"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "error: there is no scenario `power-los`: did you mean `power-loss`?\n");
}

#[test]
fn a_wrong_scenario_file_is_told_with_its_place() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("mine.toml");
    std::fs::write(&file, "name = \"mine\"\ndescription = \"x\"\n[workload]\nproducer = 3\n")
        .expect("there is room");
    let file = file.to_str().expect("the path is text");
    let expected = format!(
        "{file}:4:1: unknown key `producer` in [workload]\n4 | producer = 3\n  | ^^^^^^^^\n  = did you mean `producers`?\n"
    );
    let checked = sillon_sim(&["check", file]);
    assert_eq!((checked.status.code(), text(&checked.stdout)), (Some(2), expected.clone()));
    let run = sillon_sim(&["run", file]);
    assert_eq!((run.status.code(), text(&run.stderr)), (Some(2), format!("error: {expected}")));
}

#[test]
fn a_short_campaign_prints_its_sums() {
    let arguments = [
        "run",
        "single-broker-crash",
        "--seeds",
        "2",
        "--duration",
        "5s",
        "--no-progress",
        "--no-bundles",
        "--json",
    ];
    let output = sillon_sim(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let summaries: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!((&summaries[0]["seeds_run"], &summaries[0]["passed"]), (&2.into(), &2.into()));
    assert!(summaries[0]["simulated_ns"].as_u64().is_some_and(|ns| ns > 10_000_000_000));
}

#[test]
fn a_seed_can_be_traced_and_replayed_by_hand() {
    let trace =
        sillon_sim(&["trace", "single-broker-crash", "--seed", "1", "--to", "2s", "--kind", "log,start"]);
    assert!(text(&trace.stdout).lines().all(|line| line.contains(" log/") || line.contains(" start")));
    assert!(text(&trace.stdout).contains("log/append"));
    assert!(text(&trace.stderr).starts_with("passed: "), "{}", text(&trace.stderr));
    let replay = sillon_sim(&["replay", "single-broker-crash"]);
    assert_eq!(replay.status.code(), Some(2));
    assert_eq!(text(&replay.stderr), "error: which seed of single-broker-crash? Add --seed S\n");
}

#[test]
fn members_are_traced_by_their_names() {
    let arguments =
        ["trace", "coordinator-crash", "--seed", "1", "--to", "2s", "--node", "c1", "--duration", "3s"];
    let trace = sillon_sim(&arguments);
    assert!(text(&trace.stdout).lines().all(|line| line.contains(" c1 ")), "{}", text(&trace.stdout));
    assert!(text(&trace.stdout).contains("member/started"));
}

#[test]
fn what_is_no_bundle_is_refused() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("broken.sillon");
    std::fs::write(&file, b"SILLONRB nonsense nonsense nonsense").expect("there is room");
    let output = sillon_sim(&["replay", file.to_str().expect("the path is text")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the bundle has format"), "{}", text(&output.stderr));
}

#[test]
fn every_planted_bug_fits_the_tree() {
    let tree = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the tree");
    let mut patches: Vec<_> =
        std::fs::read_dir(tree.join("sim/bugs")).expect("it is there").flatten().collect();
    patches.sort_by_key(|entry| entry.file_name());
    assert!(!patches.is_empty());
    for patch in patches {
        let apply =
            Command::new("git").args(["apply", "--check"]).arg(patch.path()).current_dir(tree).output();
        // A machine may have no git: then nobody plants bugs there either.
        let Ok(output) = apply else { return };
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", patch.path().display());
    }
}
