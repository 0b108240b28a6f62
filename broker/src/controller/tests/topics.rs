//! Topics come, grow and go.

use super::*;
use crate::controller::LoadedTopic;
use sillon_protocol::ErrorCode;
use std::collections::BTreeSet;

fn refusal(result: Result<Outcome, ControllerError>) -> (ErrorCode, String) {
    let error = result.expect_err("it is refused");
    (error.code, error.message)
}

#[test]
fn a_topic_is_written_and_comes_into_the_image() {
    let mut world = World::new(3);
    let command = world.create_command("t", 3, 2);
    let outcome = world.run(command.clone()).unwrap();
    assert!(matches!(outcome, Outcome::TopicCreated { ref assignment, .. } if assignment.len() == 3));
    let leaders: BTreeSet<i32> = (0..3).map(|index| world.brief("t", index).0).collect();
    assert_eq!(leaders.len(), 3, "leadership is spread");
    assert!(world.tree.has("/config/topics/t"));
    assert_eq!(world.run(command), Ok(outcome), "carried out again it changes nothing");
    let again = world.create_command("t", 1, 1);
    assert_eq!(refusal(world.run(again)).0, ErrorCode::TOPIC_ALREADY_EXISTS);
    for _ in 0..2 {
        world.take_over();
        assert_eq!(world.controller.chores(), []);
    }
}

#[test]
fn what_kafka_refuses_is_refused() {
    let mut world = World::new(2);
    world.create_on("a.b", &[&[1]], &[]);
    let mut refused = |name: &str, partitions, factor| {
        let command = world.create_command(name, partitions, factor);
        refusal(world.run(command))
    };
    assert_eq!(refused("a_b", 1, 1).0, ErrorCode::INVALID_TOPIC_EXCEPTION);
    assert_eq!(refused("..", 1, 1).0, ErrorCode::INVALID_TOPIC_EXCEPTION);
    assert_eq!(refused("t", 0, 1).0, ErrorCode::INVALID_PARTITIONS);
    assert_eq!(refused("t", 100_001, 1).0, ErrorCode::INVALID_PARTITIONS);
    assert_eq!(refused("t", 1, 0).0, ErrorCode::INVALID_REPLICATION_FACTOR);
    assert_eq!(
        refused("t", 1, 3),
        (
            ErrorCode::INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached \
             because only 2 broker(s) are registered."
                .to_owned()
        )
    );
}

#[test]
fn an_impossible_assignment_is_refused() {
    let mut world = World::new(3);
    let mut refused = |lists: &[&[i32]]| {
        let mut command = world.create_command("t", 0, 0);
        if let Command::CreateTopic { partitions, replication_factor, assignment, .. } = &mut command {
            (*partitions, *replication_factor) = (None, None);
            *assignment = Some(lists.iter().map(|list| brokers(list)).collect());
        }
        let (code, text) = refusal(world.run(command));
        assert_eq!(code, ErrorCode::INVALID_REPLICA_ASSIGNMENT, "{text}");
        text
    };
    assert!(refused(&[&[1, 9]]).contains("includes broker 9, but no such broker is registered"));
    assert!(refused(&[&[1, 1]]).contains("the broker 1 more than once"));
    assert!(refused(&[&[]]).contains("an empty replica list"));
    assert!(refused(&[&[1, 2], &[1]]).contains("a partition with 1 replica(s)"));
}

#[test]
fn racks_get_different_replicas() {
    let mut world = World::with_file("");
    for (id, rack) in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c")] {
        world.write_registration(id, false, Some(rack));
    }
    world.hear();
    let command = world.create_command("t", 12, 3);
    world.run(command).unwrap();
    let rack = |id: &BrokerId| (id.0 - 1) / 2;
    let mut held = BTreeMap::new();
    for index in 0..12 {
        let replicas = world.state("t", index).replicas;
        assert_eq!(replicas.iter().map(rack).collect::<BTreeSet<_>>().len(), 3, "{replicas:?}");
        replicas.into_iter().for_each(|id| *held.entry(id).or_insert(0) += 1);
    }
    assert!(held.values().all(|count| *count == 6), "{held:?}");
}

#[test]
fn a_large_topic_is_written_in_parts_and_finished_by_the_next_controller() {
    let mut world = World::new(3);
    let command = world.create_command("t", 700, 2);
    assert!(world.step(&command).unwrap().unfinished);
    assert_eq!(world.controller.image().topic("t"), None, "it is seen when it is whole");
    world.take_over();
    world.do_chores();
    assert_eq!(world.controller.image().topic("t").unwrap().partitions.len(), 700);
    assert!(matches!(world.run(command), Ok(Outcome::TopicCreated { .. })));
}

#[test]
fn partitions_are_added_where_they_would_have_been() {
    let mut whole = World::new(4);
    let command = whole.create_command("t", 8, 3);
    whole.run(command).unwrap();
    let mut grown = World::new(4);
    let command = grown.create_command("t", 3, 3);
    grown.run(command).unwrap();
    let mut grow = |total: i32, assignment| {
        grown.run(Command::CreatePartitions {
            name: "t".into(),
            total,
            assignment,
            validate_only: false,
            placement_seed: 7,
        })
    };
    assert_eq!(
        refusal(grow(2, None)),
        (
            ErrorCode::INVALID_PARTITIONS,
            "The topic t currently has 3 partition(s); 2 would not be an increase.".to_owned()
        )
    );
    assert_eq!(refusal(grow(3, None)).1, "Topic already has 3 partition(s).");
    let one = Some(vec![brokers(&[1, 2, 3])]);
    assert_eq!(refusal(grow(5, one)).0, ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    assert_eq!(grow(8, None), Ok(Outcome::Done));
    for index in 0..8 {
        assert_eq!(grown.state("t", index).replicas, whole.state("t", index).replicas, "{index}");
    }
}

#[test]
fn a_deletion_is_whole_or_goes_on() {
    let mut world = World::new(3);
    for (name, partitions) in [("small", 3), ("large", 600)] {
        let command = world.create_command(name, partitions, 1);
        world.run(command).unwrap();
        let id = world.controller.image().topic(name).unwrap().id;
        let delete = Command::DeleteTopic { id };
        let plan = world.step(&delete).unwrap();
        assert_eq!(world.controller.image().topic(name), None);
        assert_eq!(plan.unfinished, name == "large");
        if plan.unfinished {
            let again = world.create_command(name, 1, 1);
            assert_eq!(refusal(world.run(again)).1, "Topic 'large' is marked for deletion.");
            world.take_over();
            world.do_chores();
        }
        assert!(!world.tree.has(&layout::topic_path(name)) && !world.tree.has(&layout::deletion_path(name)));
        assert!(!world.tree.has(&layout::topic_config_path(name)));
        let again = world.create_command(name, 1, 1);
        world.run(again).unwrap();
    }
}

#[test]
fn deletions_that_somebody_marks_are_carried_out() {
    let mut world = World::new(1);
    world.create_on("t", &[&[1]], &[]);
    world.tree.put("/admin/delete_topics/t", Vec::new());
    world.tree.put("/admin/delete_topics/nobody", Vec::new());
    world.run(Command::DeletionsFound(vec!["nobody".into(), "t".into()])).unwrap();
    assert_eq!(world.controller.image().topics.len(), 0);
    assert!(!world.tree.has("/admin/delete_topics/t") && !world.tree.has("/admin/delete_topics/nobody"));
    // The same words, read before: they mean nothing any more.
    world.run(Command::DeletionsFound(vec!["nobody".into(), "t".into()])).unwrap();
}

#[test]
fn topics_that_kafkas_tool_writes_get_an_id_and_states() {
    let mut world = World::new(2);
    world.tree.put("/config/topics/t", layout::encode_configs(&BTreeMap::new()));
    let node = br#"{"version":2,"partitions":{"0":[2,1],"1":[1,7]}}"#.to_vec();
    world.tree.put("/brokers/topics/t", node);
    let found: Vec<LoadedTopic> = world.tree.load(1).topics;
    world.run(Command::TopicsFound(found.clone())).unwrap();
    assert_eq!(world.brief("t", 0), (2, vec![2, 1], vec![]));
    assert_eq!(world.brief("t", 1), (1, vec![1], vec![]));
    world.run(Command::TopicsFound(found)).unwrap();
    // The same, found by a new controller.
    world.tree.put("/brokers/topics/u", br#"{"version":2,"partitions":{"0":[2]}}"#.to_vec());
    world.take_over();
    world.do_chores();
    assert_eq!(world.brief("u", 0).0, 2);
}

#[test]
fn partitions_that_kafkas_tool_adds_get_states() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    let id = world.controller.image().topic("t").unwrap().id;
    let version = world.controller.record("t").unwrap().node.1;
    let node = format!(r#"{{"version":3,"topic_id":"{id}","partitions":{{"0":[1,2],"1":[2,1]}}}}"#);
    world.tree.put("/brokers/topics/t", node.into_bytes());
    assert!(world.controller.is_newer("t", version + 1) && !world.controller.is_newer("t", version));
    let found: Vec<LoadedTopic> = world.tree.load(1).topics;
    world.run(Command::TopicsFound(found.clone())).unwrap();
    assert_eq!(world.brief("t", 1), (2, vec![2, 1], vec![]));
    assert_eq!(world.brief("t", 0), (1, vec![1, 2], vec![]));
    // The same, read before: it means nothing any more.
    world.run(Command::TopicsFound(found)).unwrap();
    // Partitions that exist are not moved that way.
    let mut moved: LoadedTopic = world.tree.load(1).topics.remove(0);
    moved.node.1 += 1;
    moved.node.0.replicas.extend([(0, vec![BrokerId(2)]), (2, vec![BrokerId(1)])]);
    let plan = world.controller.plan(&Command::TopicsFound(vec![moved])).unwrap();
    assert!(plan.writes.is_empty());
}
