//! Brokers come and go, cleanly or not.

use super::*;
use sillon_protocol::ErrorCode;

#[test]
fn leaders_move_when_their_broker_goes() {
    let mut world = World::new(3);
    world.create_on("t", &[&[1, 2, 3], &[2, 1, 3], &[1, 3, 2]], &[]);
    world.leave(1);
    assert_eq!(world.brief("t", 0), (3, vec![2, 3], vec![]), "who leads least");
    assert_eq!(world.brief("t", 1), (2, vec![2, 3], vec![]));
    assert_eq!(world.brief("t", 2).0, 3);
    assert_eq!(world.state("t", 0).leader_epoch.0, 1);
    assert_eq!(world.state("t", 1).leader_epoch.0, 0, "its leader stays");
    assert!(!world.controller.image().brokers.contains_key(&BrokerId(1)));
}

#[test]
fn below_the_minimum_who_leaves_stays_eligible() {
    let mut world = World::new(3);
    world.create_on("t", &[&[1, 2, 3]], &[("min.insync.replicas", "2")]);
    world.leave(3);
    assert_eq!(world.brief("t", 0), (1, vec![1, 2], vec![]));
    world.leave(2);
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![2]));
    world.leave(1);
    assert_eq!(world.brief("t", 0), (-1, vec![], vec![2, 1]));
    assert_eq!(world.state("t", 0).last_known_leader, Some(BrokerId(1)));
    world.register(3, false);
    assert_eq!(world.brief("t", 0).0, -1, "it misses what was committed");
    world.register(2, false);
    assert_eq!(world.brief("t", 0), (2, vec![2], vec![1]));
    world.register(1, false);
    world.propose("t", 0, &[2, 1]).unwrap();
    assert_eq!(world.brief("t", 0), (2, vec![2, 1], vec![]));
}

#[test]
fn a_lone_replica_leads_again_when_it_returns() {
    let mut world = World::new(1);
    world.create_on("t", &[&[1]], &[]);
    world.leave(1);
    assert_eq!(world.brief("t", 0), (-1, vec![], vec![1]));
    world.register(1, false);
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![]));
    assert_eq!(world.state("t", 0).leader_epoch.0, 2);
    // Also when it comes back before anybody saw it go, and has lost records: nobody else has any.
    world.register(1, true);
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![]));
    assert_eq!(world.state("t", 0).leader_epoch.0, 3, "another process is another leadership");
}

#[test]
fn an_unclean_broker_is_excluded_once() {
    let mut world = World::new(3);
    world.create_on("t", &[&[1, 2, 3]], &[]);
    world.register(1, true);
    assert_eq!(world.brief("t", 0).1, [2, 3]);
    let leader = world.brief("t", 0).0;
    world.propose("t", 0, &[leader, 5 - leader, 1]).unwrap();
    let admitted = world.state("t", 0);
    // Neither the same news nor another controller excludes it again.
    world.hear();
    world.take_over();
    assert_eq!(world.controller.chores(), []);
    world.hear();
    assert_eq!(world.state("t", 0), admitted);
}

#[test]
fn a_controller_that_takes_over_excludes_who_was_not_excluded() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    world.write_registration(2, true, None);
    world.take_over();
    assert!(!world.controller.image().brokers.contains_key(&BrokerId(2)), "it does not count yet");
    world.do_chores();
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![]));
    assert!(world.controller.image().brokers.contains_key(&BrokerId(2)));
}

#[test]
fn what_a_broker_lost_is_not_forgotten_when_it_vanishes_before_it_counts() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    world.write_registration(2, true, None);
    world.take_over();
    world.write_registration(2, false, None);
    world.hear();
    assert_eq!(world.brief("t", 0).1, [1]);
}

#[test]
fn an_unclean_broker_is_excluded_from_many_partitions_before_it_counts() {
    let mut world = World::new(2);
    let lists = vec![&[1, 2][..]; 700];
    world.create_on("t", &lists, &[]);
    world.write_registration(1, true, None);
    let brokers = world.registered();
    let plan = world.step(&Command::BrokersChanged(brokers)).unwrap();
    assert!(plan.unfinished);
    assert!(!world.controller.image().brokers.contains_key(&BrokerId(1)));
    world.take_over();
    world.do_chores();
    assert!((0..700).all(|index| world.brief("t", index) == (2, vec![2], vec![])));
    assert!(world.controller.image().brokers.contains_key(&BrokerId(1)));
}

#[test]
fn a_process_that_is_gone_loses_its_registration_and_its_leadership_at_once() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    let epoch = world.epoch_of(1);
    let gone = Command::ProcessGone { broker: BrokerId(1), broker_epoch: epoch };
    let plan = world.step(&gone).unwrap();
    assert!(!plan.unfinished);
    assert!(!world.tree.has("/brokers/ids/1"));
    assert_eq!(world.brief("t", 0), (2, vec![2], vec![]));
    assert_eq!(world.step(&gone).unwrap().writes, [], "that registration is over");
    // It registered again meanwhile: the proof was about another one.
    world.register(1, false);
    let epoch = world.epoch_of(1);
    world.write_registration(1, false, None);
    let plan =
        world.controller.plan(&Command::ProcessGone { broker: BrokerId(1), broker_epoch: epoch }).unwrap();
    assert!(world.tree.apply(&plan.writes).is_err());
}

#[test]
fn a_broker_that_stops_hands_over_first() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2], &[2, 1]], &[]);
    world.create_on("alone", &[&[1]], &[]);
    let epoch = world.epoch_of(1);
    let stop = Command::ControlledShutdown { broker: BrokerId(1), broker_epoch: epoch };
    let still = Outcome::StillLed(vec![TopicPartition::new("alone", 0)]);
    assert_eq!(world.run(stop.clone()), Ok(still.clone()));
    assert_eq!(world.brief("t", 0), (2, vec![2], vec![]));
    assert_eq!(world.brief("t", 1), (2, vec![2], vec![]));
    assert_eq!(world.propose("t", 0, &[2, 1]).unwrap_err().code, ErrorCode::INELIGIBLE_REPLICA);
    world.hear();
    assert_eq!(world.run(stop), Ok(still), "it is remembered");
    assert_eq!(world.controller.chores(), []);
    world.take_over();
    assert_eq!(
        world.propose("t", 0, &[2, 1]).unwrap_err().code,
        ErrorCode::INELIGIBLE_REPLICA,
        "the next controller knows"
    );
    let old = Command::ControlledShutdown { broker: BrokerId(1), broker_epoch: BrokerEpoch(1) };
    assert_eq!(world.run(old).unwrap_err().code, ErrorCode::STALE_BROKER_EPOCH);
    world.register(1, false);
    world.propose("t", 0, &[2, 1]).unwrap();
}

#[test]
fn thousands_of_leaders_move_in_few_writes_and_evenly() {
    let mut world = World::new(4);
    for number in 0..5 {
        let command = world.create_command(&format!("t{number}"), 400, 3);
        world.run(command).unwrap();
    }
    world.tree.nodes.remove("/brokers/ids/1");
    let command = Command::BrokersChanged(world.registered());
    let mut plans = 0;
    while world.step(&command).unwrap().unfinished {
        plans += 1;
    }
    assert!(plans <= 3, "1500 of 2000 partitions lie on the broker, 500 of them are led by it: {plans}");
    let counts: Vec<usize> = (1..=4).map(|id| world.controller.leads().count(BrokerId(id))).collect();
    assert_eq!(counts.iter().sum::<usize>(), 2000);
    assert!(counts[0] == 0 && counts[1..].iter().all(|count| count.abs_diff(667) < 60), "{counts:?}");
    assert_eq!(world.controller.chores(), []);
}
