//! Configuration is changed.

use super::*;
use crate::{
    controller::{ConfigEdit, ConfigOperation},
    metadata::image::ALL_BROKERS,
};
use sillon_protocol::ErrorCode;

fn edit(key: &str, operation: ConfigOperation) -> Vec<ConfigEdit> {
    vec![ConfigEdit { key: key.to_owned(), operation }]
}

fn set(key: &str, value: &str) -> Vec<ConfigEdit> {
    edit(key, ConfigOperation::Set(value.to_owned()))
}

fn on_topic(world: &mut World, edits: Vec<ConfigEdit>) -> Result<Outcome, (ErrorCode, String)> {
    let command =
        Command::EditTopicConfigs { name: "t".into(), edits, replace_all: false, validate_only: false };
    world.run(command).map_err(|error| (error.code, error.message))
}

#[test]
fn a_topics_values_are_set_deleted_and_edited() {
    let mut world = World::new(1);
    world.create_on("t", &[&[1]], &[]);
    on_topic(&mut world, set("retention.ms", "5")).unwrap();
    world.take_over();
    on_topic(&mut world, edit("cleanup.policy", ConfigOperation::Append("delete".to_owned()))).unwrap();
    let configs = world.controller.image().topic("t").unwrap().configs.clone();
    assert_eq!((&*configs["retention.ms"], &*configs["cleanup.policy"]), ("5", "delete"));
    on_topic(&mut world, edit("retention.ms", ConfigOperation::Delete)).unwrap();
    assert!(!world.controller.image().topic("t").unwrap().configs.contains_key("retention.ms"));
    let refused = |world: &mut World, edits| on_topic(world, edits).unwrap_err();
    assert_eq!(refused(&mut world, set("nonsense", "1")).1, "Unknown topic config name: nonsense");
    assert_eq!(refused(&mut world, set("retention.ms", "x")).0, ErrorCode::INVALID_CONFIG);
    let append = edit("retention.ms", ConfigOperation::Append("1".to_owned()));
    assert!(refused(&mut world, append).1.contains("append is not allowed"));
    let twice = [set("retention.ms", "1"), set("retention.ms", "2")].concat();
    assert_eq!(refused(&mut world, twice).0, ErrorCode::INVALID_REQUEST);
}

#[test]
fn a_minimum_above_the_replication_factor_is_refused() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    let before = world.controller.image().topics.clone();
    assert_eq!(
        on_topic(&mut world, set("min.insync.replicas", "3")).unwrap_err().0,
        ErrorCode::INVALID_CONFIG
    );
    let mut command = world.create_command("u", 1, 1);
    if let Command::CreateTopic { configs, .. } = &mut command {
        configs.push(("min.insync.replicas".to_owned(), Some("2".to_owned())));
    }
    assert_eq!(world.run(command).unwrap_err().code, ErrorCode::INVALID_CONFIG);
    assert_eq!(world.controller.image().topics, before);
    on_topic(&mut world, set("min.insync.replicas", "2")).unwrap();
}

#[test]
fn a_lower_minimum_ends_eligibility_in_the_same_write() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[("min.insync.replicas", "2")]);
    world.leave(2);
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![2]));
    on_topic(&mut world, set("min.insync.replicas", "1")).unwrap();
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![]));
    assert_eq!(world.controller.chores(), []);
}

#[test]
fn brokers_are_configured_one_by_one_and_all() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    let mut on = |broker, edits| {
        let command = Command::EditBrokerConfigs { broker, edits, replace_all: false, validate_only: false };
        world.run(command).map_err(|error| error.code)
    };
    on(BrokerId(1), set("log.retention.ms", "7")).unwrap();
    on(BrokerId(1), set("log.retention.ms", "8")).unwrap();
    assert_eq!(on(BrokerId(1), set("broker.id", "7")), Err(ErrorCode::INVALID_CONFIG));
    assert_eq!(on(BrokerId(1), set("min.insync.replicas", "2")), Err(ErrorCode::INVALID_CONFIG));
    on(ALL_BROKERS, set("min.insync.replicas", "2")).unwrap();
    world.leave(2);
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![2]), "the minimum is that of all brokers");
    world.take_over();
    assert_eq!(world.controller.image().broker_config(BrokerId(1))["log.retention.ms"], "8");
    let command = Command::EditBrokerConfigs {
        broker: ALL_BROKERS,
        edits: Vec::new(),
        replace_all: true,
        validate_only: false,
    };
    world.run(command).unwrap();
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![]));
    assert_eq!(world.controller.image().broker_config(ALL_BROKERS).len(), 0);
}
