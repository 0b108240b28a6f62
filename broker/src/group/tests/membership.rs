//! Dynamic members: joining, the rounds of a rebalance, leaving, silence.

use super::*;

#[test]
fn two_members_share_and_the_leader_is_told_of_both() {
    let mut scene = Scene::new();
    let first = scene.join(&anybody());
    let first = scene.joined(first).expect("nobody else is waited for");
    assert_eq!((first.generation_id, &first.leader), (1, &first.member_id));
    assert_eq!(first.members.len(), 1);

    let second = scene.join(&anybody());
    assert!(scene.joined(second).is_none(), "the first member is waited for");
    assert_eq!(scene.heartbeat(&first.member_id, None, 1), ErrorCode::REBALANCE_IN_PROGRESS);
    let again = scene.join(&member(&first.member_id));
    let (first, second) = (scene.joined(again).unwrap(), scene.joined(second).unwrap());
    assert_eq!((first.generation_id, second.generation_id), (2, 2));
    assert_eq!((first.members.len(), second.members.len()), (2, 0));
    assert_eq!(second.protocol_name.as_deref(), Some("range"));
    assert_eq!(scene.state(), "CompletingRebalance");

    // The one who does not lead asks first, and waits.
    let waiting = scene.sync(&second.member_id, 2, &[]);
    assert!(scene.synced(waiting).is_none());
    let ids = [first.member_id.as_str(), second.member_id.as_str()];
    let leading = scene.sync(ids[0], 2, &ids);
    assert_eq!(scene.synced(leading).unwrap().assignment, ids[0].as_bytes());
    assert_eq!(scene.synced(waiting).unwrap().assignment, ids[1].as_bytes());
    assert_eq!(scene.state(), "Stable");
}

#[test]
fn the_first_rebalance_waits_for_more_members_but_not_for_ever() {
    let mut scene = Scene::with("group.initial.rebalance.delay.ms=3000");
    let first = scene.join(&anybody());
    scene.pass(Duration::from_secs(2));
    let second = scene.join(&anybody());
    scene.pass(Duration::from_secs(2));
    assert!(scene.joined(first).is_none(), "somebody came, so more may");
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.joined(first).unwrap().generation_id, 1);
    assert_eq!(scene.joined(second).unwrap().generation_id, 1);

    let mut scene = Scene::with("group.initial.rebalance.delay.ms=3000");
    let first = scene.join(&anybody());
    for _ in 0..100 {
        scene.join(&anybody());
        scene.pass(Duration::from_secs(1));
    }
    assert!(scene.joined(first).is_some(), "no longer than the rebalance timeout");
}

#[test]
fn a_member_learns_its_id_first_and_is_not_waited_for_without_end() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    let token = scene.join(&Who { version: 4, ..anybody() });
    let refused = scene.joined(token).unwrap();
    assert_eq!(ErrorCode::from(refused.error_code), ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::NONE, "nobody has joined yet");
    let joining = scene.join(&Who { version: 4, ..member(&refused.member_id) });
    let leader = scene.join(&member(&ids[0]));
    let joined = [joining, leader].map(|token| scene.joined(token).unwrap());
    let (ids, _) = scene.settle(joined.to_vec());
    assert!(ids.contains(&refused.member_id));

    // Another one takes an id and never comes: the next generation begins all the same (B51).
    let token = scene.join(&Who { version: 4, ..anybody() });
    let lost = scene.joined(token).unwrap().member_id;
    let tokens = [scene.join(&member(&ids[0])), scene.join(&member(&ids[1]))];
    assert!(scene.joined(tokens[0]).is_none(), "who has an id may come");
    scene.pass(SESSION);
    assert!(tokens.into_iter().all(|token| scene.join_code(token) == ErrorCode::NONE));
    let token = scene.join(&Who { version: 4, ..member(&lost) });
    assert_eq!(scene.join_code(token), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn ids_that_nobody_joined_with_leave_nothing_behind() {
    let mut scene = Scene::new();
    for _ in 0..10 {
        scene.join(&Who { version: 4, ..anybody() });
    }
    scene.pass(SESSION);
    assert_eq!(scene.state(), "none");
    assert_eq!(scene.shard.desk.timers.count(), 0);
}

#[test]
fn a_member_that_leaves_makes_room() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(2);
    assert_eq!(
        scene.leave(&[(&ids[1], None), ("nobody", None)]),
        [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]
    );
    assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::REBALANCE_IN_PROGRESS);
    let token = scene.join(&member(&ids[0]));
    let alone = scene.joined(token).unwrap();
    assert_eq!((alone.generation_id, alone.members.len()), (generation + 1, 1));
    scene.settle(vec![alone]);
    assert_eq!(scene.leave(&[(&ids[0], None)]), [ErrorCode::NONE]);
    assert_eq!(scene.state(), "Empty");
    let emptied = scene.facts.iter().any(|fact| matches!(fact, GroupFact::Emptied { generation: 4, .. }));
    assert!(emptied, "{:?}", scene.facts);
}

#[test]
fn a_silent_member_is_gone_after_its_session_and_a_heard_one_stays() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(2);
    for _ in 0..30 {
        scene.pass(Duration::from_millis(500));
        scene.heartbeat(&ids[0], None, generation);
    }
    assert_eq!(scene.size(), 1);
    assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(scene.heartbeat(&ids[1], None, generation), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_leader_that_never_assigns_holds_nobody_up_for_ever() {
    let mut scene = Scene::new();
    let first = scene.join(&anybody());
    let leader = scene.joined(first).unwrap().member_id;
    let other = scene.join(&anybody());
    let again = scene.join(&member(&leader));
    let (_, other) = (scene.joined(again).unwrap(), scene.joined(other).unwrap());
    let waiting = scene.sync(&other.member_id, 2, &[]);
    // The leader is silent: its session ends (B52), and who waits for it is asked to join again.
    scene.pass(SESSION + Duration::from_secs(1));
    assert_eq!(scene.sync_code(waiting), ErrorCode::REBALANCE_IN_PROGRESS);
    let token = scene.join(&member(&other.member_id));
    assert_eq!(scene.joined(token).unwrap().leader, other.member_id);
}

#[test]
fn a_leader_that_lives_but_does_not_assign_is_gone_after_the_rebalance_timeout() {
    let mut scene = Scene::new();
    let first = scene.join(&anybody());
    let leader = scene.joined(first).unwrap().member_id;
    for _ in 0..70 {
        scene.pass(Duration::from_secs(1));
        scene.heartbeat(&leader, None, 1);
    }
    assert_eq!(scene.size(), 0);
}

#[test]
fn somebody_new_who_never_hears_of_its_id_is_gone_in_the_end() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    // It retries on new connections while the group waits for the leader, which lives but does not join.
    for _ in 0..3 {
        scene.join(&anybody());
    }
    for _ in 1..REBALANCE.as_secs() {
        scene.pass(Duration::from_secs(1));
        assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::REBALANCE_IN_PROGRESS);
        assert_eq!(scene.size(), 4);
    }
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.size(), 3, "the leader did not come");
    scene.pass(SESSION + Duration::from_secs(1));
    assert_eq!(scene.size(), 0);
    assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn what_is_said_in_an_older_generation_changes_nothing() {
    let mut scene = Scene::new();
    let (ids, old) = scene.stable(2);
    let tokens = [scene.join(&member(&ids[0])), scene.join(&member(&ids[1]))];
    let joined = tokens.map(|token| scene.joined(token).unwrap());
    let (ids, generation) = scene.settle(joined.to_vec());
    assert_eq!(generation, old + 1);
    let before = format!("{:?}", scene.shard.describe(GROUP));
    // Late words of the generation before (B54).
    assert_eq!(scene.heartbeat(&ids[0], None, old), ErrorCode::ILLEGAL_GENERATION);
    let token = scene.sync(&ids[0], old, &["x"]);
    assert_eq!(scene.sync_code(token), ErrorCode::ILLEGAL_GENERATION);
    let token = scene.commit(&ids[0], old, 5);
    assert_eq!(scene.written(token), Some(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(scene.offset("t"), None);
    assert_eq!(before, format!("{:?}", scene.shard.describe(GROUP)));
}

#[test]
fn a_follower_that_joins_again_unchanged_is_told_what_it_may_have_missed() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(2);
    let token = scene.join(&member(&ids[1]));
    let told = scene.joined(token).unwrap();
    assert_eq!((told.generation_id, told.error_code), (generation, 0));
    assert_eq!(scene.state(), "Stable");
    // One whose topics have changed, and a leader, want a new round: so cooperative assignors make their second one.
    let token = scene.join(&Who { topics: vec!["t", "u"], ..member(&ids[1]) });
    assert!(scene.joined(token).is_none());
    assert_eq!(scene.state(), "PreparingRebalance");
    let leader = scene.join(&member(&ids[0]));
    assert_eq!(scene.joined(leader).unwrap().generation_id, generation + 1);
}

#[test]
fn a_leader_can_ask_for_a_second_round() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(2);
    let tokens = [scene.join(&member(&ids[0])), scene.join(&member(&ids[1]))];
    let joined = tokens.map(|token| scene.joined(token).unwrap());
    assert_eq!(scene.settle(joined.to_vec()).1, generation + 1);
}

#[test]
fn members_agree_on_a_protocol_that_all_of_them_know() {
    let mut scene = Scene::new();
    let both = Who { protocols: vec!["sticky", "range"], ..anybody() };
    let first = scene.join(&both);
    let first = scene.joined(first).unwrap();
    assert_eq!(first.protocol_name.as_deref(), Some("sticky"));
    let token = scene.join(&Who { protocols: vec!["unknown"], ..anybody() });
    assert_eq!(scene.join_code(token), ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let second = scene.join(&anybody());
    let again = scene.join(&Who { member: first.member_id, ..both });
    assert_eq!(scene.joined(second).unwrap().protocol_name.as_deref(), Some("range"));
    assert_eq!(scene.joined(again).unwrap().protocol_name.as_deref(), Some("range"));
}

#[test]
fn a_full_group_takes_nobody_else() {
    let mut scene = Scene::with("group.initial.rebalance.delay.ms=0\ngroup.max.size=2");
    let (ids, generation) = scene.stable(2);
    let token = scene.join(&anybody());
    assert_eq!(scene.join_code(token), ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::NONE);
    assert_eq!(scene.size(), 2);
}

#[test]
fn sessions_have_bounds() {
    let mut scene = Scene::with("group.min.session.timeout.ms=20000");
    let token = scene.join(&anybody());
    assert_eq!(scene.join_code(token), ErrorCode::INVALID_SESSION_TIMEOUT);
    let mut scene = Scene::with("group.max.session.timeout.ms=9000");
    let token = scene.join(&anybody());
    assert_eq!(scene.join_code(token), ErrorCode::INVALID_SESSION_TIMEOUT);
    assert_eq!(scene.state(), "none");
}

#[test]
fn an_assignment_that_cannot_be_written_is_not_given_out() {
    let mut scene = Scene::new();
    scene.commits_at_once = false;
    let token = scene.join(&anybody());
    let leader = scene.joined(token).unwrap();
    let token = scene.sync(&leader.member_id, 1, &[&leader.member_id]);
    assert!(scene.synced(token).is_none(), "it is not committed yet");
    scene.refuse_all(ErrorCode::NOT_ENOUGH_REPLICAS);
    assert_eq!(scene.sync_code(token), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(scene.state(), "PreparingRebalance");
    let token = scene.join(&member(&leader.member_id));
    assert_eq!(scene.joined(token).unwrap().generation_id, 2);
}

#[test]
fn a_rebalance_that_begins_while_the_assignment_is_written_goes_on() {
    let mut scene = Scene::new();
    scene.commits_at_once = false;
    let token = scene.join(&anybody());
    let leader = scene.joined(token).unwrap().member_id;
    let syncing = scene.sync(&leader, 1, &[&leader]);
    let second = scene.join(&anybody());
    assert_eq!(scene.sync_code(syncing), ErrorCode::REBALANCE_IN_PROGRESS);
    scene.commit_all();
    assert_eq!(scene.state(), "PreparingRebalance");
    let again = scene.join(&member(&leader));
    assert_eq!(scene.joined(again).unwrap().generation_id, 2);
    assert_eq!(scene.joined(second).unwrap().generation_id, 2);
}

#[test]
fn a_thousand_members_join_and_each_heartbeat_looks_at_one() {
    let mut scene = Scene::with("group.initial.rebalance.delay.ms=3000");
    let tokens: Vec<Token> = (0..1000).map(|_| scene.join(&anybody())).collect();
    scene.pass(Duration::from_secs(3));
    scene.pass(Duration::from_secs(3));
    let joined = tokens.into_iter().map(|token| scene.joined(token).unwrap()).collect();
    let (ids, generation) = scene.settle(joined);
    let timers = scene.shard.desk.timers.count();
    for id in &ids {
        assert_eq!(scene.heartbeat(id, None, generation), ErrorCode::NONE);
    }
    assert_eq!(scene.shard.desk.timers.count(), timers, "a heartbeat moves no timer");
    assert!(timers <= 1001, "one for each session, and one for the group");
}
