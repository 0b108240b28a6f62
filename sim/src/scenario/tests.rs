//! What people see when a scenario is wrong, to the letter; and that a right one is read as meant.

use super::*;
use crate::faults::Fault;

const HEAD: &str = "name = \"example\"\ndescription = \"An example.\"\n";

fn parse(rest: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("scenarios/example.toml", &format!("{HEAD}{rest}"))
}

fn error(rest: &str) -> String {
    parse(rest).expect_err("it has a mistake").to_string()
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    assert_eq!(
        error("[workload]\nrecord_per_second = 50\n"),
        "scenarios/example.toml:4:1: unknown key `record_per_second` in [workload]\n\
         4 | record_per_second = 50\n\
         \x20 | ^^^^^^^^^^^^^^^^^\n\
         \x20 = did you mean `records_per_second`?"
    );
    assert_eq!(
        error("[phases]\nsaftey = \"3s\" # typo\n"),
        "scenarios/example.toml:4:1: unknown key `saftey` in [phases]\n\
         4 | saftey = \"3s\" # typo\n\
         \x20 | ^^^^^^\n\
         \x20 = did you mean `safety`?"
    );
}

#[test]
fn an_unknown_key_far_from_all_others_lists_them() {
    assert_eq!(
        error("[phases]\nbanana = 1\n"),
        "scenarios/example.toml:4:1: unknown key `banana` in [phases]\n\
         4 | banana = 1\n\
         \x20 | ^^^^^^\n\
         \x20 = keys here: `safety`, `heal`, `healing`, `liveness`"
    );
}

#[test]
fn an_unknown_table_names_the_nearest_one() {
    assert_eq!(
        error("[worklod]\nproducers = 1\n"),
        "scenarios/example.toml:3:2: unknown key `worklod` at the top of the file\n\
         3 | [worklod]\n\
         \x20 |  ^^^^^^^\n\
         \x20 = did you mean `workload`?"
    );
}

#[test]
fn a_missing_key_says_where() {
    assert_eq!(
        Scenario::parse("x.toml", "name = \"x\"\n").expect_err("no description").to_string(),
        "x.toml:1:1: the key `description` is missing at the top of the file\n1 | name = \"x\"\n  | ^"
    );
    assert_eq!(
        error("[[script]]\nat = \"1s\"\nnode = 0\n"),
        "scenarios/example.toml:3:1: the key `fault` is missing in [[script]]\n\
         3 | [[script]]\n\
         \x20 | ^^^^^^^^^^"
    );
}

#[test]
fn a_wrong_type_is_told_in_plain_words() {
    assert_eq!(
        error("[workload]\nproducers = \"many\"\n"),
        "scenarios/example.toml:4:13: `many` is not a whole number, 0 or more\n\
         4 | producers = \"many\"\n\
         \x20 |             ^^^^^^"
    );
    assert_eq!(
        error("[workload]\nproducers = -2\n"),
        "scenarios/example.toml:4:13: invalid value: integer `-2`, expected a whole number, 0 or more\n\
         4 | producers = -2\n\
         \x20 |             ^^"
    );
    assert_eq!(
        error("[workload]\nidempotence = \"yes\"\n"),
        "scenarios/example.toml:4:15: invalid type: string \"yes\", expected true or false\n\
         4 | idempotence = \"yes\"\n\
         \x20 |               ^^^^^"
    );
    assert_eq!(
        error("workload = 3\n"),
        "scenarios/example.toml:3:12: invalid type: integer `3`, expected a table of keys\n\
         3 | workload = 3\n\
         \x20 |            ^"
    );
}

#[test]
fn durations_and_sizes_want_units() {
    assert_eq!(
        error("[phases]\nsafety = 30\n"),
        "scenarios/example.toml:4:10: invalid value: integer `30`, expected a duration such as \"250ms\", \"30s\" or \"5min\"\n\
         4 | safety = 30\n\
         \x20 |          ^^"
    );
    assert_eq!(
        error("[workload]\nvalue_bytes = \"1kib..2KiB\"\n"),
        "scenarios/example.toml:4:15: `kib` is not a unit: did you mean `KiB`?\n\
         4 | value_bytes = \"1kib..2KiB\"\n\
         \x20 |               ^^^^^^^^^^^^"
    );
    assert_eq!(
        error("[network]\nlatency = \"2ms..100us\"\n"),
        "scenarios/example.toml:4:11: the range `2ms..100us` is reversed: the smaller end comes first\n\
         4 | latency = \"2ms..100us\"\n\
         \x20 |           ^^^^^^^^^^^^"
    );
}

#[test]
fn an_impossible_cluster_is_refused() {
    assert_eq!(
        error("[cluster]\nbrokers = 0\n"),
        "scenarios/example.toml:4:11: a cluster of 0 brokers cannot run\n\
         4 | brokers = 0\n\
         \x20 |           ^\n\
         \x20 = write brokers = 1"
    );
    assert_eq!(
        error("[cluster]\nbrokers = 3\n"),
        "scenarios/example.toml:4:11: 3 brokers need an ensemble\n\
         4 | brokers = 3\n\
         \x20 |           ^\n\
         \x20 = add [ensemble]: brokers find each other through a coordinator that all reach"
    );
    assert_eq!(
        error("[topics]\nmin_insync_replicas = 2\n"),
        "scenarios/example.toml:4:23: min_insync_replicas 2 is above the replication factor 1\n\
         4 | min_insync_replicas = 2\n\
         \x20 |                       ^\n\
         \x20 = no produce with acks=all could ever succeed"
    );
    assert_eq!(
        error("[topics]\nreplication_factor = 3\n"),
        "scenarios/example.toml:4:22: replication_factor 3 needs more brokers than the cluster has (1)\n\
         4 | replication_factor = 3\n\
         \x20 |                      ^"
    );
}

#[test]
fn a_fault_must_exist_and_so_must_its_node() {
    assert_eq!(
        error("[faults.powerloss]\nper_minute = 1\n"),
        "scenarios/example.toml:3:9: there is no fault `powerloss`\n\
         3 | [faults.powerloss]\n\
         \x20 |         ^^^^^^^^^\n\
         \x20 = did you mean `power-loss`?"
    );
    assert_eq!(
        error("[[script]]\nat = \"3s\"\nfault = \"power-loss\"\nnode = 1\n"),
        "scenarios/example.toml:6:8: there is no node 1\n\
         6 | node = 1\n\
         \x20 |        ^\n\
         \x20 = the only broker is node 0"
    );
    assert_eq!(
        error("[[script]]\nat = \"3min\"\nfault = \"crash\"\nnode = 0\n"),
        "scenarios/example.toml:4:6: 3min 0s is after the safety phase, which ends at 60s\n\
         4 | at = \"3min\"\n\
         \x20 |      ^^^^^^\n\
         \x20 = faults strike in the safety phase only: make `safety` in [phases] longer"
    );
}

#[test]
fn a_parameter_must_mean_something_to_its_fault() {
    assert_eq!(
        error("[faults.crash]\nper_minute = 1\nlatency = \"1s\"\n"),
        "scenarios/example.toml:5:11: `latency` means nothing to the fault `crash`\n\
         5 | latency = \"1s\"\n\
         \x20 |           ^^^^\n\
         \x20 = its parameters: duration"
    );
    assert_eq!(
        error("[faults.crash]\nper_minute = 0\n"),
        "scenarios/example.toml:4:14: 0 is out of range for per_minute: above 0, up to 600\n\
         4 | per_minute = 0\n\
         \x20 |              ^\n\
         \x20 = to switch a fault off, remove its table"
    );
    assert_eq!(
        error("[faults.partition]\nper_minute = 1\ndirection = \"inn\"\n"),
        "scenarios/example.toml:5:13: unknown value `inn`\n\
         5 | direction = \"inn\"\n\
         \x20 |             ^^^^^\n\
         \x20 = did you mean `in`?"
    );
}

#[test]
fn properties_are_kafkas_and_their_values_are_checked() {
    assert_eq!(
        error("[topics.properties]\n\"flush.message\" = 1\n"),
        "scenarios/example.toml:4:1: `flush.message` is not a topic property\n\
         4 | \"flush.message\" = 1\n\
         \x20 | ^^^^^^^^^^^^^^^\n\
         \x20 = did you mean `flush.messages`?"
    );
    assert_eq!(
        error("[topics.properties]\n\"flush.messages\" = 0\n"),
        "scenarios/example.toml:4:20: `0` is not a value of `flush.messages`: at least 1 is expected\n\
         4 | \"flush.messages\" = 0\n\
         \x20 |                    ^"
    );
    assert_eq!(
        error("[cluster.properties]\n\"log.dirs\" = \"/tmp\"\n"),
        "scenarios/example.toml:4:1: `log.dirs` is set by the simulator\n\
         4 | \"log.dirs\" = \"/tmp\"\n\
         \x20 | ^^^^^^^^^^\n\
         \x20 = it is /data on the node's simulated disk"
    );
    assert_eq!(
        error("[swarm.topic_properties]\n\"flush.messages\" = []\n"),
        "scenarios/example.toml:4:20: there is nothing to choose from: the list is empty\n\
         4 | \"flush.messages\" = []\n\
         \x20 |                    ^^"
    );
}

#[test]
fn combinations_that_cannot_be_are_refused() {
    assert_eq!(
        error("[workload]\nacks = \"1\"\n"),
        "scenarios/example.toml:4:8: an idempotent producer needs acks = \"all\"\n\
         4 | acks = \"1\"\n\
         \x20 |        ^^^\n\
         \x20 = write acks = \"all\" or idempotence = false"
    );
    assert_eq!(
        error("[swarm.workload]\nin_flight = [1, 9]\n"),
        "scenarios/example.toml:4:13: an idempotent producer has at most 5 requests in flight\n\
         4 | in_flight = [1, 9]\n\
         \x20 |             ^^^^^^\n\
         \x20 = the broker remembers a producer's last five batches, no more"
    );
    assert_eq!(
        error("[workload]\nrequest_timeout = \"2min\"\n"),
        "scenarios/example.toml:4:19: delivery_timeout 30s is shorter than request_timeout 2min 0s\n\
         4 | request_timeout = \"2min\"\n\
         \x20 |                   ^^^^^^\n\
         \x20 = the delivery timeout covers a request and its retries"
    );
}

#[test]
fn batches_must_fit_into_segments() {
    assert_eq!(
        error(
            "[topics.properties]\n\"segment.bytes\" = 16384\n[workload]\nbatch_records = \"1..30\"\nvalue_bytes = \"1KiB\"\n"
        ),
        "scenarios/example.toml:6:17: a batch of 30 records of 1KiB does not fit into `segment.bytes` = 16384\n\
         6 | batch_records = \"1..30\"\n\
         \x20 |                 ^^^^^^^\n\
         \x20 = brokers refuse such a batch: make batches or values smaller, or the limit larger"
    );
}

#[test]
fn expectations_must_be_possible() {
    assert_eq!(
        error("[expect]\nfaults = [\"crash\"]\n"),
        "scenarios/example.toml:4:11: `crash` is expected but this scenario never injects it\n\
         4 | faults = [\"crash\"]\n\
         \x20 |           ^^^^^^^\n\
         \x20 = add [faults.crash] with a rate, or a step to the script"
    );
    assert_eq!(
        error("[expect]\ninvariants = [\"I2O\"]\n"),
        "scenarios/example.toml:4:15: there is no invariant `I2O`\n\
         4 | invariants = [\"I2O\"]\n\
         \x20 |               ^^^^^\n\
         \x20 = did you mean `I20`? `sillon-sim list invariants` shows all"
    );
}

#[test]
fn the_name_is_the_files() {
    let error = Scenario::parse("scenarios/other.toml", HEAD).expect_err("the names differ");
    assert_eq!(error.hint.as_deref(), Some("write name = \"other\", or rename the file"));
    assert_eq!((error.line, error.column), (1, 8));
}

#[test]
fn broken_toml_has_a_place_too() {
    let error = parse("[workload\n").expect_err("the header is not closed");
    assert_eq!((error.line, error.message.as_str()), (3, "unclosed table, expected `]`"));
    let error = parse("name = \"again\"\n").expect_err("twice");
    assert_eq!((error.line, error.message.as_str()), (3, "this key is given twice"));
}

#[test]
fn a_seed_draws_the_same_again_and_only_what_is_offered() {
    let scenario = parse(
        "[faults.crash]\nper_minute = 6\n[faults.clock-jump]\nper_minute = 6\n\
         [swarm]\nfault_mix = true\n[swarm.topic_properties]\n\"segment.bytes\" = [16384, 65536]\n\
         [swarm.workload]\nvalue_bytes = [\"32B..64B\", \"1KiB\"]\n",
    )
    .expect("it is right");
    let mut mixes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (config, plan) = scenario.draw(seed);
        assert_eq!((config.clone(), plan.clone()), scenario.draw(seed));
        assert!(["16384", "65536"].contains(&config.topics.properties["segment.bytes"].as_str()));
        assert!([(32, 64), (1024, 1024)].contains(&config.workload.value_bytes));
        assert!(plan.iter().all(|planned| !config.without.contains(&planned.fault.kind())));
        mixes.insert(config.without);
    }
    assert_eq!(mixes.len(), 3, "everything, no crashes, no clock jumps: {mixes:?}");
}

#[test]
fn a_script_is_taken_as_it_stands() {
    let scenario = parse(
        "[[script]]\nat = \"3s\"\nfault = \"clock-jump\"\nnode = 0\nby = \"-5min\"\n\
         [[script]]\nat = \"1s\"\nfault = \"power-loss\"\nnode = 0\nduration = \"2s\"\n",
    )
    .expect("it is right");
    let (_, plan) = scenario.draw(1);
    let told: Vec<String> = plan.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["      1.000000s  n0  power-loss, down 2s", "      3.000000s  n0  clock-jump -5min 0s"]
    );
    assert!(matches!(plan[0].fault, Fault::PowerLoss(_)));
}
