//! Leaders propose in-sync replicas.

use super::*;
use crate::{
    controller::IsrProposal,
    types::{LeaderEpoch, PartitionEpoch},
};
use sillon_protocol::ErrorCode;

fn ask(world: &mut World, broker: i32, proposal: IsrProposal) -> Result<PartitionImage, ErrorCode> {
    let broker_epoch = world.epoch_of(broker);
    let proposals = vec![proposal];
    let command = Command::AlterPartitions { broker: BrokerId(broker), broker_epoch, proposals };
    match world.run(command).unwrap() {
        Outcome::PartitionsAltered(mut results) => results.remove(0).map_err(|error| error.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_wrong_proposal_gets_its_own_refusal() {
    let mut world = World::new(3);
    world.create_on("t", &[&[1, 2]], &[]);
    let topic_id = world.controller.image().topic("t").unwrap().id;
    let good = IsrProposal {
        topic_id,
        partition: 0,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(0),
        isr: vec![(BrokerId(1), world.epoch_of(1))],
    };
    let isr = |list: &[(i32, i64)]| IsrProposal {
        isr: list.iter().map(|(id, epoch)| (BrokerId(*id), BrokerEpoch(*epoch))).collect(),
        ..good.clone()
    };
    let nowhere = IsrProposal { topic_id: TopicId(Uuid::from_u128(99)), ..good.clone() };
    assert_eq!(ask(&mut world, 1, nowhere), Err(ErrorCode::UNKNOWN_TOPIC_ID));
    let beyond = IsrProposal { partition: 5, ..good.clone() };
    assert_eq!(ask(&mut world, 1, beyond), Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!(ask(&mut world, 2, isr(&[(2, -1)])), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(ask(&mut world, 1, isr(&[(2, -1)])), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(ask(&mut world, 1, isr(&[(1, -1), (3, -1)])), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(ask(&mut world, 1, isr(&[(1, -1), (2, 1)])), Err(ErrorCode::INELIGIBLE_REPLICA));
    let ahead = IsrProposal { leader_epoch: LeaderEpoch(4), ..good.clone() };
    assert_eq!(ask(&mut world, 1, ahead), Err(ErrorCode::NOT_CONTROLLER));
    let state = ask(&mut world, 1, good.clone()).unwrap();
    assert_eq!((state.isr.clone(), state.partition_epoch), (brokers(&[1]), PartitionEpoch(1)));
    assert_eq!(ask(&mut world, 1, good.clone()), Ok(state), "its answer was lost");
    let other = isr(&[(1, -1), (2, -1)]);
    assert_eq!(ask(&mut world, 1, other.clone()), Err(ErrorCode::INVALID_UPDATE_VERSION));
    world.leave(2);
    let back = IsrProposal { partition_epoch: PartitionEpoch(1), ..other };
    assert_eq!(ask(&mut world, 1, back), Err(ErrorCode::INELIGIBLE_REPLICA));
    world.register(2, false);
    world.register(1, false);
    assert_eq!(ask(&mut world, 1, good.clone()), Err(ErrorCode::FENCED_LEADER_EPOCH));
    let command =
        Command::AlterPartitions { broker: BrokerId(1), broker_epoch: BrokerEpoch(1), proposals: vec![good] };
    assert_eq!(world.run(command).unwrap_err().code, ErrorCode::STALE_BROKER_EPOCH);
}

#[test]
fn many_proposals_are_written_in_parts_and_answered_together() {
    let mut world = World::new(2);
    let lists = vec![&[1, 2][..]; 800];
    world.create_on("t", &lists, &[]);
    let topic_id = world.controller.image().topic("t").unwrap().id;
    let proposals = (0..800).map(|partition| IsrProposal {
        topic_id,
        partition,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(0),
        isr: vec![(BrokerId(1), BrokerEpoch::NONE)],
    });
    let command = Command::AlterPartitions {
        broker: BrokerId(1),
        broker_epoch: world.epoch_of(1),
        proposals: proposals.collect(),
    };
    let Outcome::PartitionsAltered(results) = world.run(command).unwrap() else { panic!("another outcome") };
    assert_eq!(results.len(), 800);
    assert!(results.iter().all(|result| result.as_ref().is_ok_and(|state| state.isr == brokers(&[1]))));
}

/// The word that a registration has ended travels more slowly than a write of the controller, above all where the
/// controller was cut off from the coordinator for a while.
#[test]
fn nobody_joins_or_leads_whose_registration_has_ended_unseen() {
    let gone = |world: &mut World, broker: i32| {
        world.tree.nodes.remove(&layout::broker_path(BrokerId(broker)));
    };
    let again = |world: &mut World, broker: i32| world.write_registration(broker, false, None);
    for (end, what) in [(&gone as &dyn Fn(&mut World, i32), "gone"), (&again, "registered anew")] {
        let mut world = World::new(3);
        world.create_on("t", &[&[1, 2, 3]], &[]);
        world.propose("t", 0, &[1, 2]).unwrap();
        let before = world.state("t", 0);

        // It is to join.
        end(&mut world, 3);
        let proposal = IsrProposal {
            topic_id: world.controller.image().topic("t").unwrap().id,
            partition: 0,
            leader_epoch: before.leader_epoch,
            partition_epoch: before.partition_epoch,
            isr: [1, 2, 3].map(|id| (BrokerId(id), world.epoch_of(id))).to_vec(),
        };
        let proposals = vec![proposal.clone()];
        let broker_epoch = world.epoch_of(1);
        let joins = Command::AlterPartitions { broker: BrokerId(1), broker_epoch, proposals };
        let plan = world.controller.plan(&joins).unwrap();
        world.tree.apply(&plan.writes).expect_err(what);
        world.hear();
        assert_eq!(ask(&mut world, 1, proposal), Err(ErrorCode::INELIGIBLE_REPLICA), "{what}");

        // It is to lead: the only one left that could, as far as the controller knows.
        end(&mut world, 2);
        let without_1 = world.controller.image().brokers.clone().into_iter().filter(|(id, _)| id.0 != 1);
        let plan = world.controller.plan(&Command::BrokersChanged(without_1.collect())).unwrap();
        world.tree.apply(&plan.writes).expect_err(what);

        // Nobody but those who stay: it is not asked who is registered.
        end(&mut world, 3);
        world.propose("t", 0, &[1]).unwrap();
    }
}

#[test]
fn a_topic_does_not_begin_with_a_broker_whose_registration_has_ended_unseen() {
    let mut world = World::new(2);
    world.tree.nodes.remove(&layout::broker_path(BrokerId(2)));
    let command = world.create_command("t", 1, 2);
    let plan = world.controller.plan(&command).unwrap();
    world.tree.apply(&plan.writes).expect_err("broker 2 is gone");
    world.hear();
    assert_eq!(world.run(command).unwrap_err().code, ErrorCode::INVALID_REPLICATION_FACTOR);
}
