//! Another coordinator takes over from what is committed.

use super::{super::records, *};
use crate::types::TopicPartition;

#[test]
fn members_go_on_where_they_were() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(2);
    scene.commit(&ids[0], generation, 5);
    let before = scene.shard.describe(GROUP);
    scene.fail_over();
    assert_eq!(scene.shard.describe(GROUP), before, "members, protocol, assignments");
    for id in &ids {
        assert_eq!(scene.heartbeat(id, None, generation), ErrorCode::NONE);
    }
    let token = scene.sync(&ids[1], generation, &[]);
    assert_eq!(scene.synced(token).unwrap().assignment, ids[1].as_bytes());
    let token = scene.commit(&ids[1], generation, 6);
    assert_eq!(scene.written(token), Some(ErrorCode::NONE));
    // The next generation is a later one (I57).
    let tokens = [scene.join(&member(&ids[0])), scene.join(&member(&ids[1]))];
    assert_eq!(scene.joined(tokens[0]).unwrap().generation_id, generation + 1);
}

#[test]
fn sessions_begin_anew_and_end() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(2);
    scene.pass(SESSION - Duration::from_secs(1));
    scene.fail_over();
    scene.pass(SESSION - Duration::from_secs(1));
    assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::NONE);
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.size(), 1);
}

#[test]
fn generations_rise_over_an_empty_group_as_well() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.leave(&[(&ids[0], None)]);
    scene.fail_over();
    assert_eq!(scene.state(), "Empty");
    let token = scene.join(&anybody());
    assert!(scene.joined(token).unwrap().generation_id > generation + 1);
}

#[test]
fn a_rebalance_that_was_under_way_is_begun_again() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    let token = scene.join(&member(&ids[0]));
    assert_eq!(scene.joined(token).unwrap().generation_id, generation + 1);
    // Nobody was given an assignment in it.
    scene.fail_over();
    let token = scene.sync(&ids[0], generation + 1, &[&ids[0]]);
    assert_eq!(scene.sync_code(token), ErrorCode::ILLEGAL_GENERATION);
    let token = scene.join(&member(&ids[0]));
    assert_eq!(scene.joined(token).unwrap().generation_id, generation + 1);
}

#[test]
fn records_may_come_in_any_order_and_with_gaps() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit(&ids[0], generation, 5);
    // Compaction left a removal of what is not there, the offset before its group, and what nobody can read (B58).
    let gone = records::group_removed("gone").unwrap();
    let lost = records::offset_removed("gone", &TopicPartition::new("t", 0)).unwrap();
    scene.log.reverse();
    scene.log.splice(0..0, [gone, lost]);
    scene.fail_over();
    assert_eq!(scene.offset("t"), Some(5));
    assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::NONE);

    let mut loader = Loader::default();
    let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
    assert!(loader.add(&bytes(&[0]), None, 0).is_err());
    assert!(loader.add(&bytes(&[0, 2, 0, 1, b'g']), Some(&bytes(&[0, 99])), 0).is_err());
    assert!(loader.add(&bytes(&[0, 7, 1, 2, 3]), Some(&bytes(&[1])), 0).is_ok(), "a newer protocol's");
    let shard = loader.finish(scene.settings.clone(), false, Offset::ZERO, scene.now);
    assert_eq!(shard.list().count(), 0);
}

#[test]
fn an_offset_without_a_time_of_its_own_does_not_go_at_once() {
    let mut scene = Scene::new();
    scene.commit("", -1, 5);
    scene.fail_over();
    // The sentinel for "none" taken as a time would be long past (B35).
    scene.pass(Duration::from_secs(1300));
    assert_eq!(scene.offset("t"), Some(5));
}

#[test]
fn what_was_found_is_told() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit(&ids[0], generation, 5);
    scene.facts.clear();
    scene.fail_over();
    let kinds: Vec<&str> = scene
        .facts
        .iter()
        .map(|fact| match fact {
            GroupFact::Found { generation, .. } if generation.generation == 1 => "found",
            GroupFact::OffsetFound { offset: 5, .. } => "offset",
            GroupFact::Loaded { groups: 1, offsets: 1, .. } => "loaded",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["found", "offset", "loaded"]);
}
