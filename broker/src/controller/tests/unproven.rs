//! All machines lose power: nobody is in sync or eligible any more, and the most complete log leads.

use super::*;
use crate::{
    controller::{ElectionKind, LogAnswer, LogEnd, LogQuestion},
    types::{LeaderEpoch, Offset},
};

/// Three replicas, two of which must be in sync.
fn world() -> World {
    let mut world = World::new(4);
    world.create_on("t", &[&[1, 2, 3]], &[("min.insync.replicas", "2")]);
    world
}

fn unproven(world: &World) -> Vec<i32> {
    world.state("t", 0).unproven.iter().map(|id| id.0).collect()
}

fn asked(world: &World) -> Vec<i32> {
    world.controller.questions().iter().map(|question| question.broker.0).collect()
}

/// What each broker says when it is asked now: the epoch of its last record and its end.
fn answers(world: &World, logs: &[(i32, i32, i64)]) -> Vec<LogAnswer> {
    let answer = |LogQuestion { broker, broker_epoch, places }: LogQuestion| {
        let (_, epoch, end) = logs.iter().find(|(id, ..)| *id == broker.0)?;
        let log = LogEnd { epoch: LeaderEpoch(*epoch), end: Offset(*end) };
        let logs = places.into_iter().map(|place| (place, log)).collect();
        Some(LogAnswer { broker, broker_epoch, logs })
    };
    world.controller.questions().into_iter().filter_map(answer).collect()
}

fn compare(world: &mut World, answers: Vec<LogAnswer>) {
    world.run(Command::LogsCompared(answers)).unwrap();
    world.do_chores();
}

#[test]
fn the_most_complete_log_leads_once_all_are_there() {
    for (logs, best) in [
        ([(1, 3, 10), (2, 3, 12), (3, 3, 11)], 2),
        ([(1, 4, 5), (2, 3, 12), (3, 3, 11)], 1),
        ([(1, -1, 0), (2, -1, 0), (3, 0, 1)], 3),
    ] {
        let mut world = world();
        for id in 1..=3 {
            assert_eq!(asked(&world), [0; 0]);
            world.register(id, true);
        }
        assert_eq!(world.brief("t", 0), (-1, vec![], vec![]));
        assert_eq!((unproven(&world), asked(&world)), (vec![1, 2, 3], vec![1, 2, 3]));
        let epoch = world.state("t", 0).leader_epoch;
        let answers = answers(&world, &logs);
        compare(&mut world, answers);
        assert_eq!(world.brief("t", 0), (best, vec![best], vec![]));
        assert!(world.state("t", 0).leader_epoch > epoch);
        assert_eq!((unproven(&world), asked(&world)), (vec![], vec![]));
    }
}

#[test]
fn who_is_not_there_is_waited_for_and_a_new_controller_knows_it() {
    let mut world = world();
    for id in 1..=3 {
        world.register(id, true);
    }
    world.leave(2);
    world.take_over();
    assert_eq!((unproven(&world), asked(&world)), (vec![1, 2, 3], vec![]));
    world.register(2, false);
    assert_eq!(asked(&world), [1, 2, 3]);
    world.take_over();
    assert_eq!(asked(&world), [1, 2, 3]);
    let epoch = world.epoch_of(1);
    world.run(Command::ControlledShutdown { broker: BrokerId(1), broker_epoch: epoch }).unwrap();
    assert_eq!(asked(&world), [0; 0], "who is about to stop does not lead");
}

#[test]
fn answers_that_are_old_or_not_whole_decide_nothing() {
    let mut world = world();
    for id in 1..=3 {
        world.register(id, true);
    }
    let logs = [(1, 0, 10), (2, 0, 12), (3, 0, 11)];
    let some = answers(&world, &logs[..2]);
    compare(&mut world, some);
    assert_eq!(world.brief("t", 0).0, -1, "one did not answer");
    let old = answers(&world, &logs);
    world.register(2, true);
    compare(&mut world, old.clone());
    assert_eq!(world.brief("t", 0).0, -1, "the process of one is another one now");
    assert_eq!(unproven(&world), [1, 2, 3]);
    let new = answers(&world, &[(1, 0, 10), (2, 0, 9), (3, 0, 11)]);
    compare(&mut world, new.clone());
    assert_eq!(world.brief("t", 0), (3, vec![3], vec![]));
    compare(&mut world, new);
    assert_eq!(world.brief("t", 0), (3, vec![3], vec![]), "it is decided");
}

#[test]
fn who_was_not_counted_on_is_not_asked() {
    let mut world = world();
    world.propose("t", 0, &[1, 2]).unwrap();
    for id in [3, 1, 2] {
        world.register(id, true);
    }
    assert_eq!((unproven(&world), asked(&world)), (vec![1, 2], vec![1, 2]));
}

#[test]
fn a_leader_that_lives_and_has_enough_in_sync_proves_who_is_in_sync() {
    let mut world = world();
    world.register(2, true);
    assert_eq!((world.brief("t", 0), unproven(&world)), ((1, vec![1, 3], vec![]), vec![2]));
    world.propose("t", 0, &[1]).unwrap();
    assert_eq!((world.brief("t", 0), unproven(&world)), ((1, vec![1], vec![3]), vec![2]), "too few");
    world.propose("t", 0, &[1, 3]).unwrap();
    assert_eq!((world.brief("t", 0), unproven(&world)), ((1, vec![1, 3], vec![]), vec![]));
    world.register(3, true);
    world.propose("t", 0, &[1, 3]).unwrap();
    assert_eq!(unproven(&world), [0; 0], "it is in sync again");
}

#[test]
fn one_that_is_eligible_leads_before_those_that_are_unproven() {
    let mut world = world();
    world.leave(3);
    world.leave(2);
    world.register(1, true);
    assert_eq!((world.brief("t", 0), unproven(&world)), ((-1, vec![], vec![2]), vec![1]));
    world.register(2, false);
    assert_eq!((world.brief("t", 0), unproven(&world)), ((2, vec![2], vec![]), vec![1]));
    world.register(2, true);
    assert_eq!((asked(&world), unproven(&world)), (vec![1, 2], vec![1, 2]));
}

#[test]
fn somebody_who_asks_for_an_unclean_election_does_not_wait() {
    let mut world = world();
    for id in 1..=3 {
        world.register(id, true);
    }
    world.leave(1);
    let partitions = Some(vec![TopicPartition::new("t", 0)]);
    world.run(Command::ElectLeaders { kind: ElectionKind::Unclean, partitions }).unwrap();
    assert_eq!((world.brief("t", 0), unproven(&world)), ((2, vec![2], vec![]), vec![]));
}

#[test]
fn who_may_hold_all_is_not_taken_out_by_a_reassignment() {
    let mut world = World::new(4);
    world.create_on("t", &[&[1, 2]], &[]);
    let reassign = |target: Option<&[i32]>| Command::Reassign {
        partitions: vec![(TopicPartition::new("t", 0), target.map(brokers))],
        allow_replication_factor_change: true,
    };
    world.run(reassign(Some(&[3, 4]))).unwrap();
    world.propose("t", 0, &[1, 3]).unwrap();
    world.propose("t", 0, &[3, 1]).unwrap();
    for id in [1, 3] {
        world.register(id, true);
    }
    assert_eq!((asked(&world), unproven(&world)), (vec![1, 3], vec![1, 3]));
    let Outcome::Reassigned(results) = world.run(reassign(None)).unwrap() else { panic!("another outcome") };
    assert_eq!(results[0].1, Ok(()), "as many as are needed are left");
    assert_eq!(unproven(&world), [0; 0], "the only one that is left leads");
    assert_eq!(world.brief("t", 0).0, 1);
}
