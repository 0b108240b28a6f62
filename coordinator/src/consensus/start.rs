//! What a member starts from: a configuration and a disk that do not contradict themselves, and the election timeouts
//! that follow from them. Owns these checks; never runs anything.

use super::{ConsensusConfig, HardState, LogEntry, RestoreError, SnapshotMark};
use crate::types::{MemberId, Term};
use raft::Config;

/// Committed entries handed out at once, in bytes.
const COMMITTED_BYTES_PER_OUTPUT: u64 = 8 * 1024 * 1024;

/// The bytes that may be proposed and not committed.
pub(super) fn uncommitted_limit(config: &ConsensusConfig) -> u64 {
    (config.memory_bytes as u64).max(config.max_size_per_message)
}

/// The same, as the raft crate wants it.
pub(super) fn raft_config(config: &ConsensusConfig, applied: u64) -> Config {
    Config {
        id: config.member.0,
        election_tick: config.election_ticks,
        heartbeat_tick: config.heartbeat_ticks,
        applied,
        max_size_per_msg: config.max_size_per_message,
        max_inflight_msgs: config.max_inflight,
        check_quorum: true,
        pre_vote: true,
        max_uncommitted_size: uncommitted_limit(config),
        max_committed_size_per_ready: COMMITTED_BYTES_PER_OUTPUT,
        ..Config::default()
    }
}

/// Whether the configuration makes sense.
pub(super) fn check_config(config: &ConsensusConfig) -> Result<(), RestoreError> {
    let refuse = |problem: String| Err(RestoreError::Config(problem));
    let mut voters = config.voters.clone();
    voters.sort();
    voters.dedup();
    if voters.len() != config.voters.len() || voters.contains(&MemberId(0)) {
        return refuse(format!("members must be different and not 0: {:?}", config.voters));
    }
    if !voters.contains(&config.member) {
        return refuse(format!("member {} is not among {:?}", config.member, config.voters));
    }
    Ok(())
}

/// Whether what was on disk fits together, and the hard state that it gives.
pub(super) fn check_recovered(
    mut state: HardState,
    entries: &[LogEntry],
    start: SnapshotMark,
) -> Result<HardState, RestoreError> {
    let mut last = start;
    for entry in entries {
        let expected = last.index + 1;
        if entry.index != expected || entry.term < last.term {
            return Err(RestoreError::Gap { expected, found: entry.index });
        }
        last = SnapshotMark { index: entry.index, term: entry.term };
    }
    if state.commit > last.index {
        return Err(RestoreError::CommittedLost { commit: state.commit, last: last.index });
    }
    // A snapshot that was received and not yet installed may be of a later term than this member has seen.
    state.commit = state.commit.max(start.index);
    if Term(last.term) > state.term {
        state = HardState { term: Term(last.term), vote: None, ..state };
    }
    Ok(state)
}

/// Ticks until this member stands for election in this term, the same whenever asked.
pub(super) fn election_timeout(config: &ConsensusConfig, term: Term) -> usize {
    // SplitMix64's finalizer, once for each part.
    let mix = |value: u64| {
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let parts = [config.seed, config.member.0, term.0];
    let mixed = parts.iter().fold(0, |mixed: u64, part| mix(mixed.wrapping_add(step) ^ part));
    config.election_ticks + (mixed % config.election_ticks as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::RaftConsensus;
    use bytes::Bytes;

    #[test]
    fn election_timeouts_are_within_bounds_and_differ_between_members_and_terms() {
        let config = |member| ConsensusConfig::new(MemberId(member), vec![MemberId(member)], 42);
        let timeouts = |member| -> Vec<usize> {
            (0..200).map(|term| election_timeout(&config(member), Term(term))).collect()
        };
        assert!(timeouts(1).iter().all(|timeout| (10..20).contains(timeout)));
        assert!((10..20).all(|timeout| timeouts(1).contains(&timeout)));
        assert_eq!(timeouts(1), timeouts(1));
        let same = timeouts(1).iter().zip(timeouts(2)).filter(|(one, two)| *one == two).count();
        assert!(same < 50, "{same} of 200");
    }

    #[test]
    fn contradictions_are_refused() {
        let restore = |state, entries, mark| {
            let config = ConsensusConfig::new(MemberId(1), vec![MemberId(1), MemberId(2)], 1);
            RaftConsensus::restore(config, state, entries, mark).err()
        };
        let entry = |index, term| LogEntry { index, term, data: Bytes::from_static(b"x") };
        let state = HardState { term: Term(2), vote: None, commit: 2 };
        assert_eq!(restore(state, vec![entry(1, 1), entry(2, 2)], None), None);
        let gap = Some(RestoreError::Gap { expected: 2, found: 3 });
        assert_eq!(restore(state, vec![entry(1, 1), entry(3, 2)], None), gap);
        let lost = Some(RestoreError::CommittedLost { commit: 2, last: 1 });
        assert_eq!(restore(state, vec![entry(1, 1)], None), lost);
        let mark = Some(SnapshotMark { index: 4, term: 3 });
        assert_eq!(restore(state, vec![entry(5, 3)], mark), None);
        let stranger = ConsensusConfig::new(MemberId(3), vec![MemberId(1), MemberId(2)], 1);
        let refused = RaftConsensus::restore(stranger, HardState::default(), vec![], None).err();
        assert!(matches!(refused, Some(RestoreError::Config(_))));
    }
}
