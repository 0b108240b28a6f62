//! Scenarios of one member.

use super::*;

fn rules(cooperative: bool) -> MemberRules {
    MemberRules {
        is_static: false,
        cooperative,
        heartbeat_interval: Duration::from_secs(3),
        max_poll_interval: Duration::from_secs(300),
        retry_backoff: Duration::from_millis(100),
    }
}

fn at(seconds: u64) -> Monotonic {
    Monotonic(seconds * 1_000_000_000)
}

fn parts(numbers: &[i32]) -> BTreeSet<TopicPartition> {
    numbers.iter().map(|number| TopicPartition::new("t", *number)).collect()
}

fn topics(names: &[&str]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn attempt(member: &mut Membership, now: Monotonic) -> u64 {
    match member.next(now) {
        Action::Join { attempt } => attempt,
        other => panic!("it joins: {other:?}"),
    }
}

/// Runs the callback that is due and gives it.
fn call(member: &mut Membership) -> Option<Callback> {
    let callback = member.callback()?;
    member.called(&callback);
    Some(callback)
}

fn rebalance(member: &mut Membership, generation: i32, target: &[i32], now: Monotonic) {
    let attempt = attempt(member, now);
    member.joined(attempt, "m".to_owned(), generation);
    member.synced(attempt, parts(target), now);
}

fn stable(cooperative: bool, target: &[i32]) -> Membership {
    let mut member = Membership::new(rules(cooperative));
    member.subscribe(topics(&["t"]), at(0));
    rebalance(&mut member, 1, target, at(0));
    assert_eq!(call(&mut member), Some(Callback::Assigned(parts(target))));
    assert_eq!(member.next(at(0)), Action::Wait(Some(at(3))));
    assert!(member.is_stable());
    member
}

fn identity(member: &Membership) -> MemberIdentity {
    member.identity().expect("it is a member")
}

#[test]
fn the_coordinator_gives_it_a_name_and_then_a_place() {
    let mut member = Membership::new(rules(false));
    assert_eq!(member.next(at(0)), Action::Wait(None));
    member.subscribe(topics(&["t"]), at(0));
    let first = attempt(&mut member, at(0));
    member.refused(first, ErrorCode::MEMBER_ID_REQUIRED, "m", at(0));
    assert_eq!(member.member_id(), "m");
    let second = attempt(&mut member, at(0));
    assert_ne!(first, second);
    member.joined(second, "m".to_owned(), 1);
    member.synced(second, parts(&[0, 1]), at(0));
    assert_eq!(call(&mut member), Some(Callback::Assigned(parts(&[0, 1]))));
    assert_eq!(member.owned(), &parts(&[0, 1]));
}

#[test]
fn heartbeats_go_on_while_the_user_is_slow() {
    let mut member = stable(false, &[0]);
    let beat = member.next(at(3));
    assert_eq!(beat, Action::Heartbeat { identity: identity(&member) });
    member.heard(&identity(&member), ErrorCode::REBALANCE_IN_PROGRESS);
    // The callback is due, but nobody polls.
    assert!(matches!(member.next(at(6)), Action::Heartbeat { .. }));
    assert_eq!(call(&mut member), Some(Callback::Revoked(parts(&[0]))));
    assert!(matches!(member.next(at(6)), Action::Join { .. }));
}

#[test]
fn an_eager_member_gives_up_everything_before_it_joins() {
    let mut member = stable(false, &[0, 1]);
    member.heard(&identity(&member), ErrorCode::REBALANCE_IN_PROGRESS);
    assert!(matches!(member.next(at(1)), Action::Wait(_)), "not before the user has heard of it");
    assert_eq!(call(&mut member), Some(Callback::Revoked(parts(&[0, 1]))));
    rebalance(&mut member, 2, &[1], at(1));
    assert_eq!(call(&mut member), Some(Callback::Assigned(parts(&[1]))));
    assert!(member.is_stable() || matches!(member.next(at(1)), Action::Wait(_)));
}

#[test]
fn a_cooperative_member_keeps_what_stays_and_joins_again_after_giving_up() {
    let mut member = stable(true, &[0, 1]);
    member.heard(&identity(&member), ErrorCode::REBALANCE_IN_PROGRESS);
    rebalance(&mut member, 2, &[1], at(1));
    assert_eq!(call(&mut member), Some(Callback::Revoked(parts(&[0]))));
    assert_eq!(member.owned(), &parts(&[1]), "it never stopped reading this");
    assert!(matches!(member.next(at(1)), Action::Join { .. }), "so that the other gets what was given up");
}

#[test]
fn an_answer_of_an_earlier_generation_counts_for_nothing() {
    let mut member = stable(true, &[0]);
    let old = identity(&member);
    member.heard(&old, ErrorCode::REBALANCE_IN_PROGRESS);
    rebalance(&mut member, 2, &[0], at(1));
    assert!(matches!(member.next(at(1)), Action::Wait(_)));
    for code in
        [ErrorCode::ILLEGAL_GENERATION, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::REBALANCE_IN_PROGRESS]
    {
        member.heard(&old, code);
    }
    assert!(member.is_stable());
    assert_eq!(member.generation(), Some(2));
}

#[test]
fn an_answer_of_an_earlier_attempt_counts_for_nothing() {
    let mut member = Membership::new(rules(false));
    member.subscribe(topics(&["t"]), at(0));
    let first = attempt(&mut member, at(0));
    let lost = ClientError::CommitFailed;
    member.unanswered(first, &lost, at(0));
    assert!(matches!(member.next(at(0)), Action::Wait(Some(_))), "after the backoff");
    let second = attempt(&mut member, at(1));
    member.joined(first, "ghost".to_owned(), 7);
    member.refused(first, ErrorCode::FENCED_INSTANCE_ID, "", at(1));
    assert_eq!((member.generation(), member.take_error().is_none()), (None, true));
    member.joined(second, "m".to_owned(), 8);
    assert_eq!(member.generation(), Some(8));
}

#[test]
fn a_member_that_is_not_known_any_more_has_lost_everything() {
    for code in [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION] {
        let mut member = stable(true, &[0, 1]);
        member.heard(&identity(&member), code);
        assert_eq!(member.identity(), None, "it can commit nothing");
        assert_eq!(call(&mut member), Some(Callback::Lost(parts(&[0, 1]))));
        assert!(matches!(member.next(at(1)), Action::Join { .. }));
        assert_eq!(member.member_id().is_empty(), code == ErrorCode::UNKNOWN_MEMBER_ID);
    }
}

#[test]
fn who_does_not_poll_leaves_and_comes_back_with_the_next_poll() {
    let mut member = stable(false, &[0]);
    assert_eq!(member.next(at(300)), Action::Leave { member_id: "m".to_owned() });
    assert_eq!(member.next(at(300)), Action::Wait(None));
    assert!(member.polled(at(400)));
    assert_eq!(call(&mut member), Some(Callback::Lost(parts(&[0]))));
    assert!(matches!(member.next(at(400)), Action::Join { .. }));
}

#[test]
fn a_member_whose_place_is_taken_never_comes_back() {
    let mut member = Membership::new(MemberRules { is_static: true, ..rules(false) });
    member.subscribe(topics(&["t"]), at(0));
    rebalance(&mut member, 1, &[0], at(0));
    let _ = call(&mut member);
    let _ = member.next(at(0));
    member.heard(&identity(&member), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(call(&mut member), Some(Callback::Lost(parts(&[0]))));
    assert_eq!(member.next(at(1)), Action::Wait(None));
    assert!(!member.polled(at(2)));
    assert!(member.take_error().expect("told").is_fatal() && member.take_error().is_some(), "every time");
}

#[test]
fn a_static_member_leaves_without_a_word() {
    let mut member = Membership::new(MemberRules { is_static: true, ..rules(false) });
    member.subscribe(topics(&["t"]), at(0));
    rebalance(&mut member, 1, &[0], at(0));
    member.unsubscribe();
    assert_eq!(member.next(at(1)), Action::Wait(None));
}

#[test]
fn a_subscription_that_changes_while_it_joins_makes_it_join_again() {
    let mut member = Membership::new(rules(true));
    member.subscribe(topics(&["t"]), at(0));
    let first = attempt(&mut member, at(0));
    member.subscribe(topics(&["t", "u"]), at(0));
    member.joined(first, "m".to_owned(), 1);
    member.synced(first, parts(&[0]), at(0));
    assert_eq!(call(&mut member), Some(Callback::Assigned(parts(&[0]))));
    assert!(matches!(member.next(at(0)), Action::Join { .. }));
}

#[test]
fn a_topic_that_is_not_wanted_any_more_is_given_up_first() {
    let mut member = stable(true, &[0, 1]);
    member.subscribe(topics(&["u"]), at(1));
    assert!(matches!(member.next(at(1)), Action::Wait(_)));
    assert_eq!(call(&mut member), Some(Callback::Revoked(parts(&[0, 1]))));
    assert!(matches!(member.next(at(1)), Action::Join { .. }));
}
