//! Replicas move from broker to broker.

use super::*;
use sillon_protocol::ErrorCode;

fn reassign(world: &mut World, target: Option<&[i32]>) -> Result<(), ErrorCode> {
    let partitions = vec![(TopicPartition::new("t", 0), target.map(brokers))];
    let command = Command::Reassign { partitions, allow_replication_factor_change: false };
    match world.run(command).unwrap() {
        Outcome::Reassigned(mut results) => results.remove(0).1.map_err(|error| error.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn old_and_new_replicas_hold_it_together_until_the_new_ones_are_in_sync() {
    let mut world = World::new(4);
    world.create_on("t", &[&[1, 2]], &[]);
    assert_eq!(reassign(&mut world, Some(&[3, 4])), Ok(()));
    let state = world.state("t", 0);
    assert_eq!((state.replicas, state.adding), (brokers(&[3, 4, 1, 2]), brokers(&[3, 4])));
    assert_eq!((state.removing, state.isr), (brokers(&[1, 2]), brokers(&[1, 2])));
    assert_eq!((state.leader, state.leader_epoch.0), (Some(BrokerId(1)), 1));
    world.take_over();
    assert_eq!(world.controller.chores(), []);
    world.propose("t", 0, &[1, 2, 3]).unwrap();
    let ended = world.propose("t", 0, &[1, 2, 3, 4]).unwrap_err();
    assert_eq!(ended.code, ErrorCode::NEW_LEADER_ELECTED);
    let state = world.state("t", 0);
    assert_eq!((state.replicas.clone(), state.isr.clone()), (brokers(&[3, 4]), brokers(&[3, 4])));
    assert!(!state.is_reassigning());
    assert_eq!((state.leader, state.leader_epoch.0), (Some(BrokerId(3)), 2));
}

#[test]
fn it_can_be_taken_back_and_replaced() {
    let mut world = World::new(4);
    world.create_on("t", &[&[1, 2]], &[]);
    assert_eq!(reassign(&mut world, None), Err(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS));
    reassign(&mut world, Some(&[1, 3])).unwrap();
    reassign(&mut world, Some(&[4, 1])).unwrap();
    let state = world.state("t", 0);
    assert_eq!((state.replicas, state.adding), (brokers(&[4, 1, 2]), brokers(&[4])));
    reassign(&mut world, None).unwrap();
    let state = world.state("t", 0);
    assert_eq!((state.replicas.clone(), state.is_reassigning()), (brokers(&[1, 2]), false));
    assert_eq!(state.leader_epoch.0, 3);
}

#[test]
fn fewer_replicas_are_fewer_at_once() {
    let mut world = World::new(3);
    world.create_on("t", &[&[1, 2, 3]], &[]);
    assert_eq!(reassign(&mut world, Some(&[2])), Err(ErrorCode::INVALID_REPLICATION_FACTOR));
    let partitions = vec![(TopicPartition::new("t", 0), Some(brokers(&[2])))];
    let command = Command::Reassign { partitions, allow_replication_factor_change: true };
    world.run(command).unwrap();
    let state = world.state("t", 0);
    assert_eq!((state.replicas.clone(), state.leader), (brokers(&[2]), Some(BrokerId(2))));
    assert!(!state.is_reassigning());
}

#[test]
fn an_impossible_aim_is_refused() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    for target in [&[1, 9][..], &[1, 1], &[]] {
        assert_eq!(reassign(&mut world, Some(target)), Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT));
    }
    assert_eq!(world.state("t", 0).partition_epoch.0, 0);
}

#[test]
fn it_ends_by_itself_when_a_new_leader_can_be_found() {
    let mut world = World::new(3);
    world.create_on("t", &[&[1]], &[]);
    reassign(&mut world, Some(&[2])).unwrap();
    let epoch = world.epoch_of(2);
    world.run(Command::ControlledShutdown { broker: BrokerId(2), broker_epoch: epoch }).unwrap();
    world.register(2, false);
    world.propose("t", 0, &[1, 2]).unwrap_err();
    assert_eq!(world.brief("t", 0), (2, vec![2], vec![]));
}
