//! Static members (KIP-345): one that comes back takes its place again, and whoever had it is fenced.

use super::*;

/// A group of one static and one dynamic member. Gives their ids, the leader's first, and the generation.
fn group(scene: &mut Scene) -> (String, String, i32) {
    let token = scene.join(&instance("one"));
    let first = scene.joined(token).unwrap().member_id;
    let second = scene.join(&anybody());
    let again = scene.join(&Who { member: first.clone(), ..instance("one") });
    let joined = vec![scene.joined(again).unwrap(), scene.joined(second).unwrap()];
    let (ids, generation) = scene.settle(joined);
    (ids[0].clone(), ids[1].clone(), generation)
}

#[test]
fn one_that_comes_back_has_its_assignment_again_without_a_rebalance() {
    let mut scene = Scene::new();
    let (old, other, generation) = group(&mut scene);
    let token = scene.join(&Who { version: 9, ..instance("one") });
    let back = scene.joined(token).unwrap();
    assert_eq!((back.error_code, back.generation_id), (0, generation));
    assert_ne!(back.member_id, old);
    assert!(back.skip_assignment, "it leads, and has nothing to assign");
    assert_eq!((back.members.len(), &back.leader), (2, &back.member_id));
    assert_eq!(scene.state(), "Stable");
    assert_eq!(scene.heartbeat(&other, None, generation), ErrorCode::NONE);
    let token = scene.sync(&back.member_id, generation, &[]);
    assert_eq!(scene.synced(token).unwrap().assignment, old.as_bytes(), "what the one before had");

    // The one before is told so, whatever it does (I59).
    assert_eq!(scene.heartbeat(&old, Some("one"), generation), ErrorCode::FENCED_INSTANCE_ID);
    let token = scene.join(&Who { member: old.clone(), ..instance("one") });
    assert_eq!(scene.join_code(token), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(scene.leave(&[(&old, Some("one"))]), [ErrorCode::FENCED_INSTANCE_ID]);
    assert_eq!(scene.heartbeat(&old, None, generation), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(scene.size(), 2);
}

#[test]
fn an_older_client_that_comes_back_as_the_leader_takes_itself_for_a_follower() {
    let mut scene = Scene::new();
    let (old, _, _) = group(&mut scene);
    let token = scene.join(&instance("one"));
    let back = scene.joined(token).unwrap();
    assert_eq!((back.leader, back.members.len(), back.skip_assignment), (old, 0, false));
}

#[test]
fn one_that_comes_back_for_other_topics_sets_off_a_rebalance() {
    let mut scene = Scene::new();
    let (_, other, generation) = group(&mut scene);
    let token = scene.join(&Who { topics: vec!["u"], ..instance("one") });
    assert!(scene.joined(token).is_none());
    assert_eq!(scene.heartbeat(&other, None, generation), ErrorCode::REBALANCE_IN_PROGRESS);
}

#[test]
fn one_that_comes_back_while_the_leader_assigns_sets_off_a_rebalance() {
    let mut scene = Scene::new();
    let token = scene.join(&instance("one"));
    let old = scene.joined(token).unwrap().member_id;
    let syncing = {
        scene.commits_at_once = false;
        scene.sync(&old, 1, &[&old])
    };
    let token = scene.join(&instance("one"));
    assert_eq!(scene.sync_code(syncing), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(scene.joined(token).unwrap().generation_id, 2, "it is the only one");
    scene.commit_all();
    assert_eq!(scene.state(), "CompletingRebalance");
}

#[test]
fn two_that_join_under_one_name_are_one() {
    let mut scene = Scene::with("group.initial.rebalance.delay.ms=3000");
    let first = scene.join(&instance("one"));
    let second = scene.join(&instance("one"));
    assert_eq!(scene.join_code(first), ErrorCode::FENCED_INSTANCE_ID);
    scene.pass(Duration::from_secs(6));
    assert_eq!(scene.join_code(second), ErrorCode::NONE);
    assert_eq!(scene.size(), 1);
}

#[test]
fn one_that_comes_back_to_a_full_group_has_its_place() {
    let mut scene = Scene::with("group.initial.rebalance.delay.ms=0\ngroup.max.size=2");
    let (_, _, generation) = group(&mut scene);
    let token = scene.join(&instance("two"));
    assert_eq!(scene.join_code(token), ErrorCode::GROUP_MAX_SIZE_REACHED);
    let token = scene.join(&instance("one"));
    assert_eq!(scene.joined(token).unwrap().generation_id, generation);
}

#[test]
fn where_the_new_id_cannot_be_written_the_old_one_holds() {
    let mut scene = Scene::new();
    let (old, _, generation) = group(&mut scene);
    scene.commits_at_once = false;
    let token = scene.join(&instance("one"));
    assert!(scene.joined(token).is_none());
    scene.refuse_all(ErrorCode::NOT_ENOUGH_REPLICAS);
    assert_eq!(scene.join_code(token), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(scene.heartbeat(&old, Some("one"), generation), ErrorCode::NONE);
    assert_eq!(scene.state(), "Stable");
}

#[test]
fn a_static_member_keeps_its_place_for_its_session_but_no_longer() {
    let mut scene = Scene::new();
    let (_, other, generation) = group(&mut scene);
    assert_eq!(scene.leave(&[(&other, None)]), [ErrorCode::NONE]);
    // The static one does not come back in time; it is not taken for gone before its session is over.
    assert_eq!(scene.size(), 1);
    scene.pass(SESSION + Duration::from_secs(1));
    assert_eq!((scene.size(), scene.state().as_str()), (0, "Empty"));
    assert!(generation >= 2);
}

#[test]
fn an_administrator_removes_a_static_member_by_its_name() {
    let mut scene = Scene::new();
    let (_, other, _) = group(&mut scene);
    let left = scene.leave(&[("", Some("one")), ("", Some("two"))]);
    assert_eq!(left, [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(scene.size(), 1);
    let token = scene.join(&member(&other));
    assert_eq!(scene.joined(token).unwrap().leader, other);
}

#[test]
fn a_static_member_is_known_after_a_fail_over() {
    let mut scene = Scene::new();
    let (old, _, generation) = group(&mut scene);
    scene.fail_over();
    let token = scene.join(&instance("one"));
    let back = scene.joined(token).unwrap();
    assert_eq!((back.error_code, back.generation_id), (0, generation));
    assert_eq!(scene.heartbeat(&old, Some("one"), generation), ErrorCode::FENCED_INSTANCE_ID);
    scene.fail_over();
    assert_eq!(scene.heartbeat(&back.member_id, Some("one"), generation), ErrorCode::NONE);
    assert_eq!(scene.heartbeat(&old, Some("one"), generation), ErrorCode::FENCED_INSTANCE_ID);
}
