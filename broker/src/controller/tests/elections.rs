//! Who leads: preferred replicas, and unclean elections.

use super::*;
use crate::controller::{ConfigEdit, ConfigOperation, ElectionKind};
use sillon_protocol::ErrorCode;

fn elect(world: &mut World, kind: ElectionKind, index: i32) -> Result<(), ErrorCode> {
    let partitions = Some(vec![TopicPartition::new("t", index)]);
    match world.run(Command::ElectLeaders { kind, partitions }).unwrap() {
        Outcome::Elected(mut results) => results.remove(0).1.map_err(|error| error.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_preferred_replica_gets_leadership_back() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    assert_eq!(elect(&mut world, ElectionKind::Preferred, 0), Err(ErrorCode::ELECTION_NOT_NEEDED));
    assert_eq!(elect(&mut world, ElectionKind::Preferred, 7), Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    world.leave(1);
    assert_eq!(elect(&mut world, ElectionKind::Preferred, 0), Err(ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE));
    world.register(1, false);
    assert_eq!(world.controller.balance(), None, "it is not in sync yet");
    world.propose("t", 0, &[2, 1]).unwrap();
    let balance = world.controller.balance().unwrap();
    world.run(balance).unwrap();
    assert_eq!(world.brief("t", 0).0, 1);
    assert_eq!(world.controller.balance(), None);
}

#[test]
fn many_elections_are_answered_together() {
    let mut world = World::new(2);
    let lists = vec![&[1, 2][..]; 700];
    world.create_on("t", &lists, &[]);
    world.leave(1);
    world.register(1, false);
    for index in 0..700 {
        world.propose("t", index, &[2, 1]).unwrap();
    }
    let command = Command::ElectLeaders { kind: ElectionKind::Preferred, partitions: None };
    let Outcome::Elected(results) = world.run(command).unwrap() else { panic!("another outcome") };
    assert_eq!(results.len(), 700);
    assert!(results.iter().all(|(_, result)| result.is_ok()));
}

#[test]
fn nobody_leads_uncleanly_unless_somebody_says_so() {
    let mut world = World::new(3);
    world.create_on("t", &[&[1, 2], &[1, 3]], &[]);
    for index in 0..2 {
        world.propose("t", index, &[1]).unwrap();
    }
    assert_eq!(elect(&mut world, ElectionKind::Unclean, 0), Err(ErrorCode::ELECTION_NOT_NEEDED));
    world.leave(1);
    assert_eq!(world.brief("t", 0), (-1, vec![], vec![1]));
    assert_eq!(elect(&mut world, ElectionKind::Unclean, 0), Ok(()));
    assert_eq!(world.brief("t", 0), (2, vec![2], vec![]), "what others hold is given up");
    let operation = ConfigOperation::Set("true".to_owned());
    let edits = vec![ConfigEdit { key: "unclean.leader.election.enable".to_owned(), operation }];
    let name = "t".into();
    let command = Command::EditTopicConfigs { name, edits, replace_all: false, validate_only: false };
    world.run(command).unwrap();
    world.do_chores();
    assert_eq!(world.brief("t", 1), (3, vec![3], vec![]));
    world.leave(3);
    assert_eq!(elect(&mut world, ElectionKind::Unclean, 1), Err(ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE));
}
