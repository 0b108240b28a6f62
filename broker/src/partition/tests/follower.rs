//! What a follower does with answers, told as scenarios. Those that name a bug fail where that bug is planted.

use crate::{
    observe::EpochStart,
    partition::follower::{FetchedFrom, FollowerState, FollowerStep, LeaderAnswer, NotApplied, OwnLog},
    types::{BrokerId, LeaderEpoch, Offset},
};
use sillon_protocol::ErrorCode;

const LEADER: BrokerId = BrokerId(1);
const EPOCH: LeaderEpoch = LeaderEpoch(5);

/// Follows broker 1 in epoch 5, and knows 5 to be committed.
fn follower() -> FollowerState {
    FollowerState::new(Some(LEADER), EPOCH, Offset(5))
}

fn from(fetch_offset: i64) -> FetchedFrom {
    FetchedFrom {
        leader: LEADER,
        leader_epoch: EPOCH,
        fetch_offset: Offset(fetch_offset),
        last_epoch: LeaderEpoch(4),
    }
}

fn answer() -> LeaderAnswer {
    LeaderAnswer {
        error: ErrorCode::NONE,
        high_watermark: Offset(12),
        log_start: Offset(0),
        diverging: None,
        has_records: true,
    }
}

fn diverging(epoch: i32, end: i64) -> LeaderAnswer {
    let diverging = EpochStart { epoch: LeaderEpoch(epoch), start_offset: Offset(end) };
    LeaderAnswer { diverging: Some(diverging), has_records: false, ..answer() }
}

fn own(log_start: i64, log_end: i64, epoch: (i32, i64)) -> OwnLog {
    OwnLog {
        log_start: Offset(log_start),
        log_end: Offset(log_end),
        last_epoch: LeaderEpoch(4),
        end_of_diverging_epoch: (LeaderEpoch(epoch.0), Offset(epoch.1)),
    }
}

fn cut_at(steps: &Result<Vec<FollowerStep>, NotApplied>) -> Option<i64> {
    match steps.as_deref() {
        Ok([FollowerStep::TruncateTo { to, .. }]) => Some(to.0),
        _ => None,
    }
}

#[test]
fn records_come_before_the_high_watermark() {
    let steps = follower().on_answer(from(10), &answer(), own(0, 10, (-1, -1)));
    let high_watermark = FollowerStep::LearnHighWatermark { leaders: Offset(12) };
    assert_eq!(steps, Ok(vec![FollowerStep::Append, high_watermark]));
}

#[test]
fn the_high_watermark_is_never_past_the_own_log_and_never_goes_back() {
    let mut follower = follower();
    assert_eq!(follower.learn_high_watermark(Offset(12), Offset(10)), Some((Offset(5), Offset(10))));
    assert_eq!(follower.learn_high_watermark(Offset(7), Offset(10)), None);
    assert_eq!(follower.high_watermark(), Offset(10));
}

#[test]
fn b01_whoever_begins_to_follow_keeps_what_is_past_its_high_watermark() {
    // The first answer in the new epoch does not diverge: nothing is cut, although 5 is all that is known to be committed.
    let quiet = LeaderAnswer { has_records: false, high_watermark: Offset(5), ..answer() };
    let steps = follower().on_answer(from(10), &quiet, own(0, 10, (-1, -1)));
    assert_eq!(steps, Ok(vec![FollowerStep::LearnHighWatermark { leaders: Offset(5) }]));
}

#[test]
fn b02_the_log_is_cut_where_the_common_epoch_ends_in_either_log() {
    assert_eq!(cut_at(&follower().on_answer(from(10), &diverging(3, 8), own(0, 10, (3, 9)))), Some(8));
    assert_eq!(cut_at(&follower().on_answer(from(10), &diverging(3, 12), own(0, 10, (3, 9)))), Some(9));
    assert_eq!(cut_at(&follower().on_answer(from(10), &diverging(4, 7), own(0, 10, (4, 10)))), Some(7));
}

#[test]
fn b03_an_epoch_that_this_log_does_not_have_is_a_step_on_the_way() {
    // The leader's largest epoch below ours is 3, and ours below that is 2: cut there, and ask again.
    assert_eq!(cut_at(&follower().on_answer(from(10), &diverging(3, 8), own(0, 10, (2, 6)))), Some(6));
}

#[test]
fn a_log_that_parts_below_the_leaders_start_begins_anew_there() {
    // The leader has removed what is below 8, and with it all epochs that this log knows: it says only where its own begin.
    let answer = LeaderAnswer { log_start: Offset(8), ..diverging(3, 8) };
    let afresh = Ok(vec![FollowerStep::StartAfresh { at: Offset(8) }]);
    assert_eq!(follower().on_answer(from(10), &answer, own(0, 10, (3, 9))), afresh);
    assert_eq!(
        follower().on_answer(from(10), &answer, own(0, 10, (2, 6))),
        afresh,
        "a step below it as well"
    );
    let later = LeaderAnswer { log_start: Offset(8), ..diverging(3, 9) };
    assert_eq!(cut_at(&follower().on_answer(from(10), &later, own(0, 10, (3, 10)))), Some(9));
}

#[test]
fn b10_what_the_leader_has_committed_is_learnt_after_the_cut_and_not_with_it() {
    let steps = follower().on_answer(from(10), &diverging(3, 8), own(0, 10, (3, 9))).unwrap();
    assert!(!steps.iter().any(|step| matches!(step, FollowerStep::LearnHighWatermark { .. })));
}

#[test]
fn b14_a_log_that_begins_anew_takes_its_high_watermark_along() {
    let gone = LeaderAnswer {
        error: ErrorCode::OFFSET_OUT_OF_RANGE,
        log_start: Offset(20),
        high_watermark: Offset(30),
        has_records: false,
        ..answer()
    };
    let mut follower = follower();
    let steps = follower.on_answer(from(10), &gone, own(0, 10, (-1, -1))).unwrap();
    assert_eq!(steps[0], FollowerStep::StartAfresh { at: Offset(20) });
    assert_eq!(follower.on_log_replaced(Offset(20), Offset(20)), Some((Offset(5), Offset(20))));
}

#[test]
fn out_of_range_is_no_reason_to_cut_records_that_the_leader_may_have() {
    let odd = LeaderAnswer { error: ErrorCode::OFFSET_OUT_OF_RANGE, has_records: false, ..answer() };
    let refused = Err(NotApplied::Refused(ErrorCode::OFFSET_OUT_OF_RANGE));
    assert_eq!(follower().on_answer(from(10), &odd, own(0, 10, (-1, -1))), refused);
    let empty = follower().on_answer(from(10), &odd, own(10, 10, (-1, -1))).unwrap();
    assert_eq!(empty[0], FollowerStep::StartAfresh { at: Offset(0) }, "an empty log may begin anywhere");
}

#[test]
fn b15_an_answer_from_another_time_is_not_applied() {
    let own = own(0, 10, (-1, -1));
    for from in [
        FetchedFrom { leader: BrokerId(2), ..from(10) },
        FetchedFrom { leader_epoch: LeaderEpoch(4), ..from(10) },
        FetchedFrom { last_epoch: LeaderEpoch(3), ..from(10) },
        from(9),
    ] {
        assert_eq!(follower().on_answer(from, &answer(), own), Err(NotApplied::Obsolete));
        assert_eq!(follower().on_answer(from, &diverging(1, 2), own), Err(NotApplied::Obsolete));
    }
    let without = FollowerState::new(None, EPOCH, Offset(5));
    assert_eq!(without.on_answer(from(10), &answer(), own), Err(NotApplied::Obsolete));
}

#[test]
fn the_log_start_follows_the_leaders() {
    let moved = LeaderAnswer { log_start: Offset(4), ..answer() };
    let steps = follower().on_answer(from(10), &moved, own(0, 10, (-1, -1))).unwrap();
    assert_eq!(steps[2], FollowerStep::RaiseLogStart { to: Offset(4) });
}
