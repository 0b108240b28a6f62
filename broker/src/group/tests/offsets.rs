//! Offsets: who may commit, when it shows, and when it goes.

use super::{super::facts::OffsetGone, *};
use crate::types::TopicPartition;

const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
const CHECK: Duration = Duration::from_secs(600);

#[test]
fn an_offset_shows_once_it_is_committed_and_not_before() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commits_at_once = false;
    let token = scene.commit(&ids[0], generation, 5);
    assert_eq!((scene.written(token), scene.offset("t")), (None, None));
    scene.commit_all();
    assert_eq!((scene.written(token), scene.offset("t")), (Some(ErrorCode::NONE), Some(5)));

    let token = scene.commit(&ids[0], generation, 6);
    scene.refuse_all(ErrorCode::NOT_ENOUGH_REPLICAS);
    assert_eq!(scene.written(token), Some(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(scene.offset("t"), Some(5));

    // Of two on their way the later one counts.
    scene.commit(&ids[0], generation, 7);
    scene.commit(&ids[0], generation, 8);
    scene.commit_all();
    assert_eq!(scene.offset("t"), Some(8));
}

#[test]
fn what_is_not_committed_is_not_there_after_a_fail_over() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit(&ids[0], generation, 5);
    scene.commits_at_once = false;
    scene.commit(&ids[0], generation, 6);
    scene.fail_over();
    assert_eq!(scene.offset("t"), Some(5));
}

#[test]
fn only_members_of_the_generation_commit() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    for (id, generation, code) in [
        ("stranger", generation, ErrorCode::UNKNOWN_MEMBER_ID),
        (&ids[0], generation - 1, ErrorCode::ILLEGAL_GENERATION),
        (&ids[0], -1, ErrorCode::ILLEGAL_GENERATION),
        ("", -1, ErrorCode::UNKNOWN_MEMBER_ID),
    ] {
        let token = scene.commit(id, generation, 5);
        assert_eq!(scene.written(token), Some(code), "{id} {generation}");
    }
    assert_eq!(scene.offset("t"), None);
    // While the leader assigns, nobody knows whose partition it is.
    let token = scene.join(&member(&ids[0]));
    let generation = scene.joined(token).unwrap().generation_id;
    let token = scene.commit(&ids[0], generation, 5);
    assert_eq!(scene.written(token), Some(ErrorCode::REBALANCE_IN_PROGRESS));
}

#[test]
fn whoever_is_no_member_commits_to_a_group_that_has_none() {
    let mut scene = Scene::new();
    let token = scene.commit("", -1, 5);
    assert_eq!((scene.written(token), scene.offset("t")), (Some(ErrorCode::NONE), Some(5)));
    assert_eq!(scene.state(), "Empty");
    let token = scene.commit("m", 3, 6);
    assert_eq!(scene.written(token), Some(ErrorCode::UNKNOWN_MEMBER_ID));
    let mut scene = Scene::new();
    let token = scene.commit("m", 3, 6);
    assert_eq!(scene.written(token), Some(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(scene.state(), "none", "nothing is made of what is refused");
}

#[test]
fn a_commit_that_comes_late_over_a_connection_that_was_given_up_takes_nothing_back() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.connection = 7;
    let token = scene.commit(&ids[0], generation, 5);
    assert_eq!(scene.written(token), Some(ErrorCode::NONE));
    scene.connection = 8;
    let token = scene.commit(&ids[0], generation, 9);
    assert_eq!(scene.written(token), Some(ErrorCode::NONE));
    scene.connection = 7;
    let token = scene.commit(&ids[0], generation, 6);
    assert_eq!(scene.written(token), Some(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(scene.offset("t"), Some(9));
}

#[test]
fn a_commit_says_that_the_member_lives() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    for offset in 0..30 {
        scene.pass(Duration::from_secs(1));
        let token = scene.commit(&ids[0], generation, offset);
        assert_eq!(scene.written(token), Some(ErrorCode::NONE));
    }
}

#[test]
fn offsets_are_kept_from_when_the_last_member_left() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit(&ids[0], generation, 5);
    // As long as there are members, offsets in what they read do not age.
    for _ in 0..150_000 {
        scene.pass(SESSION / 2);
        assert_eq!(scene.heartbeat(&ids[0], None, generation), ErrorCode::NONE);
    }
    scene.leave(&[(&ids[0], None)]);
    scene.pass(RETENTION - CHECK);
    assert_eq!(scene.offset("t"), Some(5));
    scene.pass(2 * CHECK);
    assert_eq!((scene.offset("t"), scene.state().as_str()), (None, "none"));
    let expired =
        |fact: &GroupFact| matches!(fact, GroupFact::OffsetRemoved { reason: OffsetGone::Expired, .. });
    assert!(scene.facts.iter().any(expired));
    scene.fail_over();
    assert_eq!((scene.offset("t"), scene.state().as_str()), (None, "none"));
}

#[test]
fn a_clock_that_comes_to_be_right_removes_nothing_early() {
    // The coordinator before had a clock that was ahead: by its records more time has passed than this one's clock says.
    let mut scene = Scene::new();
    let ahead_ms = RETENTION.as_millis() as i64 / 2;
    scene.now.unix_ms += ahead_ms;
    scene.commit("", -1, 4);
    scene.now.unix_ms -= ahead_ms;
    scene.fail_over();
    scene.commit("", -1, 5);
    scene.now.unix_ms += ahead_ms;
    scene.pass(RETENTION - ahead(ahead_ms) + 2 * CHECK);
    assert_eq!(scene.offset("t"), Some(5), "half of its time has passed, whatever the clock says");
}

fn ahead(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

#[test]
fn a_clock_that_jumps_ahead_removes_nothing() {
    let mut scene = Scene::new();
    scene.commit("", -1, 5);
    scene.now.unix_ms += 2 * RETENTION.as_millis() as i64;
    scene.pass(2 * CHECK);
    assert_eq!(scene.offset("t"), Some(5));
    // Nor does a coordinator that takes over with such a clock: its log has nothing newer than the offset.
    let loaded = {
        let mut loader = Loader::default();
        let then = scene.now.unix_ms - 2 * RETENTION.as_millis() as i64;
        for record in &scene.log {
            loader.add(&record.key, record.value.as_ref(), then).unwrap();
        }
        loader.finish(scene.settings.clone(), true, Offset::ZERO, scene.now)
    };
    scene.shard = loaded;
    scene.collect();
    scene.pass(2 * CHECK);
    assert_eq!(scene.offset("t"), Some(5));
    scene.pass(RETENTION);
    assert_eq!(scene.offset("t"), None);
}

#[test]
fn offsets_in_a_topic_that_is_not_read_any_more_go() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit_to("t", &ids[0], generation, 5);
    scene.commit_to("old", &ids[0], generation, 6);
    let steps = (RETENTION + 2 * CHECK).as_secs() / 5;
    for _ in 0..steps {
        scene.pass(SESSION / 2);
        scene.heartbeat(&ids[0], None, generation);
    }
    assert_eq!((scene.offset("t"), scene.offset("old")), (Some(5), None));
}

#[test]
fn offsets_are_deleted_where_nobody_reads() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit_to("t", &ids[0], generation, 5);
    scene.commit_to("u", &ids[0], generation, 6);
    let wanted = ["t", "u", "v"].map(|topic| TopicPartition::new(topic, 0)).to_vec();
    let token = scene.token();
    let verdicts = scene.shard.delete_offsets(GROUP, wanted, token, scene.now);
    scene.collect();
    let codes: Vec<ErrorCode> = verdicts.into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode::NONE, ErrorCode::NONE]);
    assert_eq!(scene.written(token), Some(ErrorCode::NONE));
    assert_eq!((scene.offset("t"), scene.offset("u")), (Some(5), None));
    scene.fail_over();
    assert_eq!((scene.offset("t"), scene.offset("u")), (Some(5), None));
}

#[test]
fn a_topic_that_is_deleted_takes_its_offsets_along() {
    let mut scene = Scene::new();
    scene.commit_to("t", "", -1, 5);
    scene.commit_to("tt", "", -1, 6);
    scene.shard.on_topic_deleted("t", scene.now);
    scene.collect();
    assert_eq!((scene.offset("t"), scene.offset("tt")), (None, Some(6)));
    scene.fail_over();
    assert_eq!((scene.offset("t"), scene.offset("tt")), (None, Some(6)));
}

#[test]
fn what_is_on_its_way_when_all_is_deleted_does_not_come_back() {
    let delete_group = |scene: &mut Scene| {
        let token = scene.token();
        scene.shard.delete(GROUP, token, scene.now);
    };
    let delete_topic = |scene: &mut Scene| scene.shard.on_topic_deleted("t", scene.now);
    for delete in [delete_group as fn(&mut Scene), delete_topic] {
        let mut scene = Scene::new();
        scene.commit("", -1, 5);
        scene.commits_at_once = false;
        scene.commit("", -1, 6);
        delete(&mut scene);
        scene.collect();
        assert_eq!(scene.offset("t"), Some(5), "the removal is not committed yet");
        scene.commit_all();
        assert_eq!(scene.offset("t"), None);
        scene.fail_over();
        assert_eq!(scene.offset("t"), None);
    }
}

#[test]
fn many_offsets_are_removed_in_parts_that_fit_a_batch() {
    let mut scene = Scene::new();
    let topics: Vec<String> = (0..5000).map(|number| format!("topic-{number}")).collect();
    topics.iter().for_each(|topic| {
        scene.commit_to(topic, "", -1, 1);
    });
    scene.commits_at_once = false;
    let token = scene.token();
    scene.shard.delete(GROUP, token, scene.now);
    scene.collect();
    assert!(scene.under_way.len() > 1);
    for (_, records) in &scene.under_way {
        assert!(records.iter().map(|record| record.key.len() + 70).sum::<usize>() < 1 << 19);
    }
    scene.commit_all();
    assert_eq!((scene.written(token), scene.state().as_str()), (Some(ErrorCode::NONE), "none"));
    scene.fail_over();
    assert_eq!(scene.shard.all_committed(GROUP).count(), 0);
}

#[test]
fn a_group_is_deleted_when_it_has_no_members() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit(&ids[0], generation, 5);
    let delete = |scene: &mut Scene| {
        let token = scene.token();
        scene.shard.delete(GROUP, token, scene.now);
        scene.collect();
        token
    };
    let token = delete(&mut scene);
    assert_eq!(scene.written(token), Some(ErrorCode::NON_EMPTY_GROUP));
    scene.leave(&[(&ids[0], None)]);
    scene.commits_at_once = false;
    let token = delete(&mut scene);
    assert_eq!((scene.written(token), scene.state().as_str()), (None, "Dead"));
    let joining = scene.join(&anybody());
    assert_eq!(scene.join_code(joining), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    scene.refuse_all(ErrorCode::NOT_ENOUGH_REPLICAS);
    assert_eq!(scene.written(token), Some(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!((scene.offset("t"), scene.state().as_str()), (Some(5), "Empty"));
    let token = delete(&mut scene);
    scene.commit_all();
    assert_eq!((scene.written(token), scene.state().as_str()), (Some(ErrorCode::NONE), "none"));
    let token = delete(&mut scene);
    assert_eq!(scene.written(token), Some(ErrorCode::GROUP_ID_NOT_FOUND));
    scene.fail_over();
    assert_eq!((scene.offset("t"), scene.state().as_str()), (None, "none"));
}

#[test]
fn a_group_is_deleted_at_the_moment_when_the_last_session_is_over() {
    let mut scene = Scene::new();
    let (ids, generation) = scene.stable(1);
    scene.commit(&ids[0], generation, 5);
    for (left, code) in
        [(Duration::from_nanos(1), ErrorCode::NON_EMPTY_GROUP), (Duration::ZERO, ErrorCode::NONE)]
    {
        // The clock is there, and the timer has not gone off yet.
        let now = Now { monotonic: scene.now.monotonic + (SESSION - left), ..scene.now };
        let token = scene.token();
        scene.shard.delete(GROUP, token, now);
        scene.collect();
        assert_eq!(scene.written(token), Some(code));
    }
}
