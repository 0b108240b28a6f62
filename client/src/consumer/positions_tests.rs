//! Scenarios of one partition's position.

use super::*;
use sillon_protocol::messages::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use std::time::Duration;

const PATIENCE: Patience = Patience { initial_ms: 100, max_ms: 1000 };

fn metadata(leader_id: i32, leader_epoch: i32) -> Metadata {
    metadata_of(leader_id, leader_epoch, 1)
}

fn metadata_of(leader_id: i32, leader_epoch: i32, topic_id: u128) -> Metadata {
    let mut metadata = Metadata::default();
    let partition = MetadataResponsePartition { leader_id, leader_epoch, ..Default::default() };
    let broker = |node_id| MetadataResponseBroker { node_id, host: "h".into(), port: 1, rack: None };
    let topic = MetadataResponseTopic {
        name: Some("t".into()),
        topic_id: Uuid::from_u128(topic_id),
        partitions: vec![partition],
        ..Default::default()
    };
    let response =
        MetadataResponse { brokers: (1..4).map(broker).collect(), topics: vec![topic], ..Default::default() };
    metadata.update(&response, false);
    metadata
}

fn partition() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn assigned(reset: OffsetReset, has_group: bool) -> Positions {
    let mut positions = Positions::new(reset, has_group, false, PATIENCE);
    positions.assign(&[partition()].into());
    positions
}

fn now() -> Monotonic {
    Monotonic(1_000_000_000)
}

/// Reading at this offset, after a record of this epoch, from a leader of that epoch that was validated.
fn reading(reset: OffsetReset, offset: i64, epoch: i32, leader: &Metadata) -> Positions {
    let mut positions = assigned(reset, false);
    positions.seek(&partition(), offset, Some(epoch));
    let asked = positions.questions(now(), leader);
    let question =
        asked.epochs.values().flatten().next().expect("a position with an epoch is validated").clone();
    positions.epoch_ends(&partition(), question.token, epoch, offset);
    positions
}

fn fetch(positions: &mut Positions, metadata: &Metadata) -> Option<(i32, i64)> {
    let (fetches, _) = positions.fetches(now(), metadata);
    fetches.into_iter().next().map(|(broker, fetches)| (broker, fetches[0].about.offset))
}

#[test]
fn a_member_asks_what_is_committed_and_goes_on_there() {
    let (mut positions, leader) = (assigned(OffsetReset::Earliest, true), metadata(1, 5));
    let asked = positions.questions(now(), &leader).committed.remove(0);
    assert!(positions.questions(now(), &leader).committed.is_empty(), "once");
    positions.committed(&partition(), asked.token, Some((42, None)));
    assert_eq!(fetch(&mut positions, &leader), Some((1, 42)));
}

#[test]
fn where_nothing_is_committed_the_policy_says_where_to_begin() {
    for (reset, target) in
        [(OffsetReset::Earliest, SeekTarget::Beginning), (OffsetReset::Latest, SeekTarget::End)]
    {
        let (mut positions, leader) = (assigned(reset, true), metadata(1, 5));
        let asked = positions.questions(now(), &leader).committed.remove(0);
        positions.committed(&partition(), asked.token, None);
        let asked =
            positions.questions(now(), &leader).offsets.remove(&1).expect("the leader is asked").remove(0);
        assert_eq!((asked.about, asked.leader_epoch), (target, Some(5)));
        positions.offset_found(&partition(), asked.token, 7, None);
        assert_eq!(fetch(&mut positions, &leader), Some((1, 7)));
    }
    let mut positions = assigned(OffsetReset::None, false);
    assert!(matches!(positions.take_error(), Some(ClientError::NoOffset { .. })));
    assert!(positions.take_error().is_none(), "told once");
    positions.seek(&partition(), 3, None);
    assert_eq!(fetch(&mut positions, &metadata(1, 5)), Some((1, 3)));
}

#[test]
fn a_new_leader_has_to_hold_what_was_read() {
    let mut positions = reading(OffsetReset::Earliest, 100, 4, &metadata(1, 5));
    assert_eq!(fetch(&mut positions, &metadata(1, 5)), Some((1, 100)));
    let next = metadata(2, 6);
    assert_eq!(fetch(&mut positions, &next), None, "not before it was asked");
    let asked =
        positions.questions(now(), &next).epochs.remove(&2).expect("the new leader is asked").remove(0);
    assert_eq!((asked.about, asked.leader_epoch), (4, Some(6)));
    positions.epoch_ends(&partition(), asked.token, 4, 90);
    let asked = positions.questions(now(), &next).epochs.remove(&2).expect("the new position too").remove(0);
    positions.epoch_ends(&partition(), asked.token, 4, 90);
    assert_eq!(fetch(&mut positions, &next), Some((2, 90)), "from where the histories part");
}

#[test]
fn a_leader_without_the_epoch_has_another_history_however_long_its_log() {
    let mut positions = reading(OffsetReset::None, 100, 4, &metadata(1, 5));
    let asked = positions.questions(now(), &metadata(2, 6)).epochs.remove(&2).expect("asked").remove(0);
    positions.epoch_ends(&partition(), asked.token, 3, 500);
    assert!(matches!(
        positions.take_error(),
        Some(ClientError::Truncated { offset: 100, end_offset: 100, .. })
    ));
    assert_eq!(fetch(&mut positions, &metadata(2, 6)), None, "until the user seeks");
}

#[test]
fn what_an_earlier_leader_said_counts_for_nothing() {
    let mut positions = reading(OffsetReset::Earliest, 100, 4, &metadata(1, 5));
    let early = positions.questions(now(), &metadata(2, 6)).epochs.remove(&2).expect("asked").remove(0);
    let late = positions.questions(now(), &metadata(3, 7)).epochs.remove(&3).expect("asked again").remove(0);
    positions.epoch_ends(&partition(), early.token, 4, 100);
    assert_eq!(fetch(&mut positions, &metadata(3, 7)), None);
    positions.epoch_ends(&partition(), late.token, 4, 100);
    assert_eq!(fetch(&mut positions, &metadata(3, 7)), Some((3, 100)));
}

#[test]
fn an_answer_from_before_a_seek_counts_for_nothing() {
    let (mut positions, leader) = (assigned(OffsetReset::Earliest, true), metadata(1, 5));
    let asked = positions.questions(now(), &leader).committed.remove(0);
    positions.seek(&partition(), 3, None);
    positions.committed(&partition(), asked.token, Some((42, None)));
    assert_eq!(fetch(&mut positions, &leader), Some((1, 3)));
    positions.assign(&BTreeSet::new());
    positions.assign(&[partition()].into());
    assert_eq!(positions.position(&partition()), None, "given up and got back, it is asked for again");
}

#[test]
fn a_replica_nearby_is_read_from_until_it_is_out_of_range() {
    let (mut positions, leader) = (assigned(OffsetReset::Earliest, false), metadata(1, 5));
    positions.seek(&partition(), 3, None);
    let token = positions.fetches(now(), &leader).0.remove(&1).expect("the leader").remove(0).token;
    positions.prefer(&partition(), token, 2, now() + Duration::from_secs(300));
    assert_eq!(fetch(&mut positions, &leader), Some((2, 3)));
    positions.out_of_range(&partition(), token, 3);
    assert_eq!(fetch(&mut positions, &leader), Some((1, 3)), "the leader knows better");
    positions.out_of_range(&partition(), token, 3);
    assert_eq!(fetch(&mut positions, &leader), None, "reset by policy");
}

#[test]
fn nothing_is_fetched_of_a_paused_partition_or_of_one_that_failed_a_moment_ago() {
    let (mut positions, leader) = (assigned(OffsetReset::Earliest, false), metadata(1, 5));
    positions.seek(&partition(), 3, None);
    assert!(positions.pause(&partition(), true));
    assert_eq!(fetch(&mut positions, &leader), None);
    positions.pause(&partition(), false);
    let token = positions.fetches(now(), &leader).0.remove(&1).expect("the leader").remove(0).token;
    positions.failed(&partition(), token, now(), 0);
    assert_eq!(fetch(&mut positions, &leader), None);
    assert!(positions.next_retry(now()).is_some());
}

#[test]
fn the_lag_is_what_can_still_be_read() {
    let mut positions = assigned(OffsetReset::Earliest, false);
    positions.seek(&partition(), 3, None);
    assert_eq!(positions.lag(&partition()), None);
    let token = positions.fetches(now(), &metadata(1, 5)).0.remove(&1).expect("the leader")[0].token;
    positions.fetched(&partition(), token, 10, 8, 0);
    assert_eq!(positions.lag(&partition()), Some(7));
    positions.advance(&partition(), token, 9, Some(5));
    assert_eq!(positions.lag(&partition()), Some(1));
}

#[test]
fn a_topic_that_was_created_anew_is_read_from_where_the_policy_says() {
    let mut positions = reading(OffsetReset::Earliest, 100, 4, &metadata(1, 5));
    let anew = metadata_of(1, 0, 2);
    let asked =
        positions.questions(now(), &anew).offsets.remove(&1).expect("the new leader is asked").remove(0);
    assert_eq!((asked.about, asked.leader_epoch), (SeekTarget::Beginning, Some(0)));
    positions.offset_found(&partition(), asked.token, 0, None);
    assert_eq!(fetch(&mut positions, &anew), Some((1, 0)));
    let mut strict = reading(OffsetReset::None, 100, 4, &metadata(1, 5));
    assert_eq!(fetch(&mut strict, &anew), None);
    assert!(matches!(strict.take_error(), Some(ClientError::OffsetOutOfRange { offset: 100, .. })));
}
