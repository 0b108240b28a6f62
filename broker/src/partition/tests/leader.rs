//! What a leader does, told as scenarios. Those that name a bug fail where that bug is planted.

use crate::{
    metadata::PartitionImage,
    partition::leader::{
        FetchRefusal, FollowerFetch, LeaderEffect, LeaderSettings, LeaderStart, LeaderState, SessionClock,
        TrueState,
    },
    types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch},
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::{sync::Arc, time::Duration};

const LEADER: BrokerId = BrokerId(1);
const EPOCH: LeaderEpoch = LeaderEpoch(5);
const STATE: PartitionEpoch = PartitionEpoch(10);
const LIMIT: Duration = Duration::from_secs(30);

fn ids(brokers: &[i32]) -> Vec<BrokerId> {
    brokers.iter().copied().map(BrokerId).collect()
}

fn at(seconds: u64) -> Monotonic {
    Monotonic(0) + Duration::from_secs(1000 + seconds)
}

fn image(isr: &[i32], partition_epoch: i32) -> PartitionImage {
    PartitionImage {
        leader: Some(LEADER),
        leader_epoch: EPOCH,
        partition_epoch: PartitionEpoch(partition_epoch),
        replicas: ids(&[1, 2, 3]),
        adding: Vec::new(),
        removing: Vec::new(),
        isr: ids(isr),
        eligible_leader_replicas: Vec::new(),
        last_known_leader: None,
        unproven: Vec::new(),
    }
}

fn settings(min_insync_replicas: usize) -> LeaderSettings {
    LeaderSettings { min_insync_replicas, lag_limit: LIMIT }
}

/// Broker 1 of 1, 2 and 3 leads; its log ends at 10, its epoch starts there, and 5 is known to be committed.
fn leader(isr: &[i32], min_insync_replicas: usize) -> LeaderState {
    let start = LeaderStart {
        me: LEADER,
        epoch_start: Offset(10),
        high_watermark: Offset(5),
        log_end: Offset(10),
        now: at(0),
    };
    LeaderState::new(&image(isr, STATE.0), start, settings(min_insync_replicas))
}

fn fetch(replica: i32, offset: i64, seconds: u64) -> FollowerFetch {
    let broker_epoch = BrokerEpoch(100 + i64::from(replica));
    FollowerFetch {
        replica: BrokerId(replica),
        broker_epoch,
        fetch_offset: Offset(offset),
        log_start: Offset(0),
        registered: Some(broker_epoch),
        now: at(seconds),
    }
}

fn append(leader: &mut LeaderState, end: i64) -> Vec<LeaderEffect> {
    leader.on_local_append(Offset(end));
    leader.on_stable(Offset(end))
}

fn proposed(effects: &[LeaderEffect]) -> Option<Vec<i32>> {
    effects.iter().find_map(|effect| match effect {
        LeaderEffect::Propose(isr) => Some(isr.iter().map(|broker| broker.0).collect()),
        _ => None,
    })
}

fn moved_to(effects: &[LeaderEffect]) -> Option<i64> {
    effects.iter().rev().find_map(|effect| match effect {
        LeaderEffect::HighWatermark { to, .. } => Some(to.0),
        _ => None,
    })
}

fn accepted(isr: &[i32]) -> Result<TrueState, ErrorCode> {
    Ok(TrueState { leader_epoch: EPOCH, partition_epoch: PartitionEpoch(STATE.0 + 1), isr: ids(isr) })
}

#[test]
fn the_high_watermark_is_what_every_replica_in_sync_has_reported_in_this_epoch() {
    let mut leader = leader(&[1, 2, 3], 1);
    assert_eq!(moved_to(&append(&mut leader, 20)), None, "nobody has reported yet");
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(2, 20, 1)).unwrap()), None, "3 has not");
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(3, 12, 1)).unwrap()), Some(12));
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(3, 20, 2)).unwrap()), Some(20));
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(3, 11, 2)).unwrap()), None, "it never goes back");
    assert_eq!(leader.high_watermark(), Offset(20));
}

#[test]
fn records_count_for_the_leader_itself_only_once_they_are_stable() {
    let mut leader = leader(&[1, 2], 1);
    leader.on_local_append(Offset(20));
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(2, 20, 1)).unwrap()), Some(10));
    assert_eq!(moved_to(&leader.on_stable(Offset(15))), Some(15));
    assert_eq!(moved_to(&leader.on_stable(Offset(20))), Some(20));
}

#[test]
#[should_panic(expected = "nothing past the log end")]
fn nothing_past_the_log_end_is_stable() {
    leader(&[1], 1).on_stable(Offset(11));
}

#[test]
fn a_replica_alone_commits_what_it_keeps() {
    let mut leader = leader(&[1], 1);
    assert_eq!(moved_to(&append(&mut leader, 12)), Some(12));
}

#[test]
fn b06_who_reached_the_high_watermark_but_not_the_epochs_start_does_not_join() {
    let mut leader = leader(&[1, 2], 1);
    assert_eq!(proposed(&leader.on_follower_fetch(&fetch(3, 9, 1)).unwrap()), None);
    assert_eq!(proposed(&leader.on_follower_fetch(&fetch(3, 10, 1)).unwrap()), Some(vec![1, 2, 3]));
}

#[test]
fn who_lags_behind_the_high_watermark_does_not_join() {
    let mut leader = leader(&[1], 1);
    append(&mut leader, 20);
    assert_eq!(proposed(&leader.on_follower_fetch(&fetch(2, 19, 1)).unwrap()), None);
    assert_eq!(proposed(&leader.on_follower_fetch(&fetch(2, 20, 1)).unwrap()), Some(vec![1, 2]));
}

#[test]
fn b21_only_a_registration_that_is_known_and_not_stopping_joins() {
    let mut leader = leader(&[1], 1);
    let fetch = fetch(2, 10, 1);
    let unknown = FollowerFetch { registered: None, ..fetch };
    let older = FollowerFetch { registered: Some(BrokerEpoch(1)), ..fetch };
    let silent = FollowerFetch { broker_epoch: BrokerEpoch::NONE, ..fetch };
    for fetch in [silent, unknown, older] {
        assert_eq!(proposed(&leader.on_follower_fetch(&fetch).unwrap()), None);
    }
    assert_eq!(proposed(&leader.on_follower_fetch(&fetch).unwrap()), Some(vec![1, 2]));
    assert_eq!(
        leader.proposal().unwrap().isr,
        [(BrokerId(1), BrokerEpoch::NONE), (BrokerId(2), BrokerEpoch(102))]
    );
}

#[test]
fn an_older_registration_and_a_stranger_are_not_heard() {
    let mut leader = leader(&[1, 2], 1);
    leader.on_follower_fetch(&fetch(2, 10, 1)).unwrap();
    let older = FollowerFetch { broker_epoch: BrokerEpoch(50), ..fetch(2, 3, 2) };
    assert_eq!(leader.on_follower_fetch(&older), Err(FetchRefusal::StaleBrokerEpoch));
    assert_eq!(leader.on_follower_fetch(&fetch(9, 10, 2)), Err(FetchRefusal::NotAReplica));
}

#[test]
fn b18_until_it_is_confirmed_a_smaller_set_frees_nobody() {
    let mut leader = leader(&[1, 2, 3], 1);
    append(&mut leader, 20);
    leader.on_follower_fetch(&fetch(2, 20, 31)).unwrap();
    leader.on_follower_fetch(&fetch(3, 10, 1)).unwrap();
    assert_eq!(proposed(&leader.on_tick(at(40))), Some(vec![1, 2]));
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(2, 20, 41)).unwrap()), None);
    assert_eq!(leader.high_watermark(), Offset(10));
}

#[test]
fn b18_a_larger_set_counts_before_it_is_confirmed() {
    let mut leader = leader(&[1], 1);
    assert_eq!(proposed(&leader.on_follower_fetch(&fetch(2, 10, 1)).unwrap()), Some(vec![1, 2]));
    assert_eq!(moved_to(&append(&mut leader, 20)), None, "2 may be in sync already, and has no more than 10");
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(2, 20, 2)).unwrap()), Some(20));
}

#[test]
fn b19_the_high_watermark_moves_when_the_smaller_set_is_confirmed() {
    let mut leader = leader(&[1, 2, 3], 1);
    append(&mut leader, 20);
    leader.on_follower_fetch(&fetch(2, 20, 31)).unwrap();
    assert_eq!(proposed(&leader.on_tick(at(40))), Some(vec![1, 2]));
    let effects = leader.on_proposal_result((EPOCH, STATE), accepted(&[1, 2]));
    assert_eq!(moved_to(&effects), Some(20), "and no fetch or append is needed for it");
    assert_eq!(leader.in_sync(), ids(&[1, 2]));
}

#[test]
fn b19_the_same_where_the_metadata_tells_it_first() {
    let mut leader = leader(&[1, 2, 3], 1);
    append(&mut leader, 20);
    leader.on_follower_fetch(&fetch(2, 20, 1)).unwrap();
    assert_eq!(moved_to(&leader.on_metadata(&image(&[1, 2], 11), at(2))), Some(20));
    assert_eq!(leader.on_metadata(&image(&[1, 2, 3], 10), at(3)), [], "older than what is known");
}

#[test]
fn b23_below_the_minimum_nothing_is_committed() {
    let mut leader = leader(&[1], 2);
    assert!(!leader.has_enough_in_sync());
    assert_eq!(moved_to(&append(&mut leader, 20)), None);
    // Proposed members do not count for the minimum, confirmed ones do.
    assert_eq!(proposed(&leader.on_follower_fetch(&fetch(2, 20, 1)).unwrap()), Some(vec![1, 2]));
    assert_eq!(leader.high_watermark(), Offset(5));
    let effects = leader.on_proposal_result((EPOCH, STATE), accepted(&[1, 2]));
    assert_eq!(moved_to(&effects), Some(20));
}

#[test]
fn a_minimum_above_the_number_of_replicas_is_that_number() {
    let mut leader = leader(&[1, 2, 3], 7);
    assert!(leader.has_enough_in_sync());
    append(&mut leader, 12);
    leader.on_follower_fetch(&fetch(2, 12, 1)).unwrap();
    assert_eq!(moved_to(&leader.on_follower_fetch(&fetch(3, 12, 1)).unwrap()), Some(12));
}

#[test]
fn a_lower_minimum_lets_the_high_watermark_go_on() {
    let mut leader = leader(&[1], 2);
    append(&mut leader, 20);
    assert_eq!(moved_to(&leader.on_settings(settings(1))), Some(20));
}

#[test]
fn only_who_lags_for_longer_than_the_limit_is_left_out() {
    let mut leader = leader(&[1, 2, 3], 1);
    append(&mut leader, 20);
    leader.on_follower_fetch(&fetch(2, 10, 1)).unwrap();
    assert_eq!(leader.on_tick(at(30)), [], "exactly the limit");
    let effects = leader.on_tick(at(31));
    let lags: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            LeaderEffect::Lags { replica, behind_for } => Some((replica.0, behind_for.as_secs())),
            _ => None,
        })
        .collect();
    assert_eq!(lags, [(2, 31), (3, 31)]);
    assert_eq!(proposed(&effects), Some(vec![1]));
    assert_eq!(leader.on_tick(at(99)), [], "one proposal at a time");
}

#[test]
fn under_steady_load_a_follower_that_keeps_pace_is_caught_up() {
    let mut leader = leader(&[1, 2], 1);
    for second in 1..100 {
        let end = 10 + i64::try_from(second).unwrap() * 10;
        append(&mut leader, end);
        // It always has what was there at its fetch before, and never everything.
        leader.on_follower_fetch(&fetch(2, end - 10, second)).unwrap();
        assert_eq!(proposed(&leader.on_tick(at(second))), None);
    }
    assert_eq!(proposed(&leader.on_tick(at(98 + 30))), None);
    assert_eq!(proposed(&leader.on_tick(at(98 + 31))), Some(vec![1]));
}

#[test]
fn who_has_everything_never_lags_however_long_nothing_happens() {
    let mut leader = leader(&[1, 2], 1);
    leader.on_follower_fetch(&fetch(2, 10, 1)).unwrap();
    assert_eq!(leader.on_tick(at(9999)), []);
}

#[test]
fn who_holds_everything_is_caught_up_as_of_the_last_use_of_its_session() {
    let mut leader = leader(&[1, 2, 3], 1);
    let session = Arc::new(SessionClock::new(at(1)));
    for replica in [2, 3] {
        leader.on_follower_fetch(&fetch(replica, 10, 1)).unwrap();
    }
    leader.on_session(BrokerId(2), Some(session.clone()));
    assert!(leader.is_settled(BrokerId(2)), "it need not be looked at before something changes");
    // Nothing happens for long, but that 2 goes on fetching: no request names the partition.
    session.set(at(100));
    append(&mut leader, 20);
    assert!(!leader.is_settled(BrokerId(2)));
    let effects = leader.on_tick(at(110));
    assert_eq!(proposed(&effects), Some(vec![1, 2]), "3 has not fetched since");
    let state = TrueState { leader_epoch: EPOCH, partition_epoch: PartitionEpoch(11), isr: ids(&[1, 2]) };
    leader.on_proposal_result((EPOCH, STATE), Ok(state));
    // While it does not hold everything, the use of its session alone proves nothing.
    session.set(at(125));
    append(&mut leader, 30);
    assert_eq!(leader.on_tick(at(130)), []);
    assert_eq!(proposed(&leader.on_tick(at(131))), Some(vec![1]));
}

#[test]
fn who_has_left_its_session_lags_like_everybody() {
    let mut leader = leader(&[1, 2], 1);
    let session = Arc::new(SessionClock::new(at(1)));
    leader.on_follower_fetch(&fetch(2, 10, 1)).unwrap();
    leader.on_session(BrokerId(2), Some(session.clone()));
    leader.on_session(BrokerId(2), None);
    session.set(at(100));
    append(&mut leader, 20);
    assert_eq!(proposed(&leader.on_tick(at(100))), Some(vec![1]));
}

#[test]
fn who_is_out_of_sync_or_behind_is_not_settled() {
    let mut leader = leader(&[1, 2], 1);
    leader.on_follower_fetch(&fetch(3, 10, 1)).unwrap();
    assert!(!leader.is_settled(BrokerId(3)), "its next fetch may have it join");
    leader.on_follower_fetch(&fetch(2, 8, 1)).unwrap();
    assert!(!leader.is_settled(BrokerId(2)));
}

#[test]
fn a_refusal_for_good_is_believed_unless_an_attempt_was_lost() {
    let mut leader = leader(&[1], 1);
    leader.on_follower_fetch(&fetch(2, 10, 1)).unwrap();
    append(&mut leader, 20);
    let effects = leader.on_proposal_result((EPOCH, STATE), Err(ErrorCode::INELIGIBLE_REPLICA));
    assert_eq!((moved_to(&effects), leader.proposal()), (Some(20), None), "2 was never in sync");

    leader.on_follower_fetch(&fetch(2, 20, 2)).unwrap();
    leader.on_proposal_result((EPOCH, STATE), Err(ErrorCode::REQUEST_TIMED_OUT));
    leader.on_proposal_result((EPOCH, STATE), Err(ErrorCode::INELIGIBLE_REPLICA));
    assert_eq!(moved_to(&append(&mut leader, 30)), None, "2 may be in sync");
    assert_eq!(leader.proposal().unwrap().isr.len(), 1, "what is asked now is what is true");
    let same = TrueState { leader_epoch: EPOCH, partition_epoch: STATE, isr: ids(&[1]) };
    assert_eq!(moved_to(&leader.on_proposal_result((EPOCH, STATE), Ok(same))), Some(30));
}

#[test]
fn an_answer_to_an_older_proposal_changes_nothing() {
    let mut leader = leader(&[1, 2, 3], 1);
    leader.on_metadata(&image(&[1, 2], 12), at(1));
    assert_eq!(leader.on_proposal_result((EPOCH, STATE), accepted(&[1])), []);
    assert_eq!(leader.in_sync(), ids(&[1, 2]));
}

#[test]
fn b17_the_end_of_the_log_is_told_from_the_epochs_start_on() {
    let mut leader = leader(&[1, 2], 1);
    assert!(!leader.tells_latest());
    leader.on_follower_fetch(&fetch(2, 9, 1)).unwrap();
    assert!(!leader.tells_latest());
    leader.on_follower_fetch(&fetch(2, 10, 1)).unwrap();
    assert!(leader.tells_latest());
}
