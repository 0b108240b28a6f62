//! Scenarios, one step a line. Owns their small language:
//!
//! ```text
//!   campaign 1 | tick 1 5 | propose 1 text | read 2 7 | transfer 1 2 | snapshot 1 | stabilize
//!   cut 3 | heal | restart 1 | wipe 3 | hang 2 | unhang 2 | vote 3 no
//!   leader 1 | applied 2 a b | read-index 2 7 = 3 | no-read 2 7 | term 1 = 2 | last 3 = 4 | installed 3 = 1
//! ```

use super::harness::Ensemble;
use crate::{
    consensus::{Consensus, Role},
    types::{MemberId, Term},
};

fn run(size: u64, memory_bytes: usize, script: &str) -> Ensemble {
    let mut ensemble = Ensemble::new(size, memory_bytes, 1);
    for (number, line) in script.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "=").collect();
        let Some((verb, arguments)) = words.split_first() else { continue };
        let at = |position: usize| arguments[position].parse::<u64>().expect("a number");
        let place = format!("line {}: {line}", number + 1);
        match *verb {
            "stabilize" => ensemble.stabilize(),
            "heal" => ensemble.cut.clear(),
            "applied" => assert_eq!(ensemble.applied(MemberId(at(0))), arguments[1..], "{place}"),
            _ if act(&mut ensemble, verb, MemberId(at(0)), arguments.get(1).copied()) => (),
            _ => expect(&ensemble, verb, MemberId(at(0)), &arguments[1..], &place),
        }
    }
    ensemble
}

/// Does what the line says, if it is something to do.
fn act(ensemble: &mut Ensemble, verb: &str, id: MemberId, argument: Option<&str>) -> bool {
    let number = argument.and_then(|word| word.parse::<u64>().ok()).unwrap_or(1);
    match verb {
        "campaign" => ensemble.input(id, |consensus| consensus.campaign()),
        "tick" => {
            for _ in 0..number {
                ensemble.input(id, |consensus| consensus.tick());
            }
        }
        "propose" => ensemble.propose(id, argument.expect("what")).expect("it leads"),
        "read" => ensemble.input(id, |consensus| consensus.read_index(number)),
        "transfer" => ensemble.input(id, |consensus| consensus.transfer_leadership(MemberId(number))),
        "snapshot" => ensemble.snapshot(id),
        "cut" => assert!(ensemble.cut.insert(id)),
        "restart" => ensemble.restart(id, 0),
        "wipe" => ensemble.wipe(id),
        "hang" => ensemble.hang_disk(id, true),
        "unhang" => ensemble.hang_disk(id, false),
        "vote" => ensemble.input(id, |consensus| consensus.set_voting(argument != Some("no"))),
        _ => return false,
    }
    true
}

fn expect(ensemble: &Ensemble, verb: &str, id: MemberId, arguments: &[&str], place: &str) {
    let at = |position: usize| arguments[position].parse::<u64>().expect("a number");
    let status = ensemble.status(id);
    let member = ensemble.member(id);
    match verb {
        "leader" => assert_eq!((status.role, status.leader), (Role::Leader, Some(id)), "{place}"),
        "follower" => assert_eq!(status.role, Role::Follower, "{place}"),
        "term" => assert_eq!(status.term, Term(at(0)), "{place}"),
        "last" => assert_eq!(status.last_index, at(0), "{place}"),
        "read-index" => assert_eq!(member.reads.get(&at(0)), Some(&at(1)), "{place}"),
        "no-read" => assert_eq!(member.reads.get(&at(0)), None, "{place}"),
        "installed" => assert_eq!(member.installs as u64, at(0), "{place}"),
        _ => panic!("{place}: unknown"),
    }
}

const PLENTY: usize = 1 << 20;

#[test]
fn a_member_alone_leads_at_its_first_tick() {
    run(
        1,
        PLENTY,
        "tick 1\n stabilize\n leader 1\n propose 1 a\n stabilize\n applied 1 a\n restart 1\n tick 1\n stabilize\n applied 1 a",
    );
}

#[test]
fn three_members_elect_replicate_and_apply() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         leader 1
         term 3 = 1
         propose 1 a
         propose 1 b
         stabilize
         applied 1 a b
         applied 2 a b
         applied 3 a b",
    );
}

#[test]
fn nothing_is_committed_without_a_majority_of_disks() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         hang 2
         hang 3
         propose 1 a
         stabilize
         applied 1
         applied 2
         unhang 2
         stabilize
         applied 1 a
         applied 2 a
         applied 3
         unhang 3
         stabilize
         applied 3 a",
    );
}

#[test]
fn the_leaders_own_disk_is_not_needed_for_a_majority() {
    let ensemble = run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         hang 1
         propose 1 a
         stabilize
         applied 1
         applied 2 a
         applied 3 a
         unhang 1
         stabilize
         applied 1 a
         applied 2 a",
    );
    assert_eq!(ensemble.judge.committed().len(), 2);
}

#[test]
fn an_uncommitted_suffix_is_replaced_by_the_next_leaders() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         cut 1
         propose 1 lost
         propose 1 lost-too
         stabilize
         last 1 = 3
         tick 3 10
         tick 2 20
         stabilize
         leader 2
         propose 2 kept
         stabilize
         applied 3 kept
         heal
         tick 2 5
         stabilize
         follower 1
         applied 1 kept
         last 1 = 3",
    );
}

#[test]
fn an_isolated_member_comes_back_without_disturbing_the_leader() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         cut 3
         tick 3 100
         stabilize
         term 3 = 1
         propose 1 a
         stabilize
         heal
         tick 3 30
         tick 1 2
         stabilize
         leader 1
         term 1 = 1
         applied 3 a",
    );
}

#[test]
fn a_leader_without_a_majority_steps_down() {
    run(3, PLENTY, "campaign 1\n stabilize\n cut 1\n tick 1 25\n stabilize\n follower 1");
}

#[test]
fn leadership_is_handed_over() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         propose 1 a
         transfer 1 3
         stabilize
         leader 3
         term 3 = 2
         follower 1
         propose 3 b
         stabilize
         applied 1 a b",
    );
}

#[test]
fn reads_are_answered_on_every_member_with_the_leaders_commit_index() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         propose 1 a
         stabilize
         read 1 7
         read 2 7
         stabilize
         read-index 1 7 = 2
         read-index 2 7 = 2
         cut 1
         read 1 8
         stabilize
         no-read 1 8",
    );
}

#[test]
fn a_read_at_a_new_leader_waits_for_its_first_commit() {
    let mut ensemble = Ensemble::new(3, PLENTY, 1);
    ensemble.input(MemberId(1), |consensus| consensus.campaign());
    while ensemble.status(MemberId(1)).role != Role::Leader {
        for envelope in std::mem::take(&mut ensemble.network) {
            ensemble.deliver(envelope);
        }
        ensemble.ids().into_iter().for_each(|id| ensemble.sync(id, 9));
    }
    ensemble.hang_disk(MemberId(1), true);
    ensemble.input(MemberId(1), |consensus| consensus.read_index(9));
    assert!(ensemble.member(MemberId(1)).reads.is_empty(), "nothing is committed in its term");
    ensemble.hang_disk(MemberId(1), false);
    ensemble.stabilize();
    assert_eq!(ensemble.member(MemberId(1)).reads.get(&9), Some(&1));
}

#[test]
fn a_member_that_lags_too_far_gets_a_snapshot_and_then_the_rest() {
    let script = "campaign 1
         stabilize
         cut 3
         tick 1 11
         PROPOSALS
         stabilize
         heal
         tick 1 3
         stabilize
         tick 1 2
         stabilize
         tick 1 2
         stabilize
         installed 3 = 1
         propose 1 after
         stabilize
         restart 3
         tick 1
         stabilize
         installed 3 = 1";
    let proposals: String = (0..50).map(|number| format!("propose 1 p{number}\n stabilize\n")).collect();
    let ensemble = run(3, 1_000, &script.replace("PROPOSALS", &proposals));
    assert_eq!(ensemble.applied(MemberId(3)), ensemble.applied(MemberId(1)));
    assert_eq!(ensemble.applied(MemberId(3)).len(), 51);
}

#[test]
fn what_was_not_synced_is_lost_and_sent_again() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         hang 3
         propose 1 a
         propose 1 b
         stabilize
         last 3 = 3
         restart 3
         last 3 = 1
         tick 1 3
         stabilize
         applied 3 a b",
    );
}

#[test]
fn a_member_with_an_empty_disk_does_not_vote_until_told_and_is_filled_again() {
    run(
        3,
        PLENTY,
        "campaign 1
         stabilize
         propose 1 a
         propose 1 b
         stabilize
         wipe 3
         vote 3 no
         tick 3 100
         stabilize
         term 3 = 0
         tick 1
         stabilize
         tick 1
         stabilize
         tick 1
         stabilize
         applied 3 a b
         propose 1 c
         stabilize
         tick 1 3
         stabilize
         applied 3 a b c
         leader 1
         cut 1
         tick 2 20
         tick 2 20
         stabilize
         follower 3
         term 3 = 1
         vote 3 yes
         tick 3 10
         tick 2 20
         stabilize
         leader 2",
    );
}
