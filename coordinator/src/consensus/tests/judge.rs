//! What must hold whatever happens: the judge of every test here. Owns what is known to be true of a whole ensemble;
//! never tells a member anything.

use crate::{
    consensus::{ConsensusMessage, HardState, LogEntry, Role, Status, message::Kind},
    types::MemberId,
};
use std::collections::BTreeMap;

/// What one member has on its disk, and what it has applied.
pub(super) struct Seen<'a> {
    pub(super) member: MemberId,
    pub(super) hard_state: HardState,
    /// The whole log from the first entry on, whether in a snapshot or not.
    pub(super) durable: &'a [LogEntry],
}

/// The judge.
#[derive(Default)]
pub(super) struct Judge {
    leaders: BTreeMap<u64, MemberId>,
    /// Every entry that anybody applied.
    committed: Vec<LogEntry>,
    /// For each entry that was ever durable anywhere: a hash of it and all before it.
    prefixes: BTreeMap<(u64, u64), u64>,
    hard_states: BTreeMap<MemberId, HardState>,
    pub(super) elections: usize,
}

/// What may be sent in a term that is not durable yet: a question, or an answer to one about a term to come. What a
/// leader sends, it sends in a term that was durable before it was elected.
fn promises_no_term(kind: Kind) -> bool {
    matches!(kind, Kind::RequestPreVote | Kind::RequestPreVoteResponse | Kind::ReadIndex)
}

fn chain(before: u64, entry: &LogEntry) -> u64 {
    let mut hash = before ^ entry.term.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in entry.data.iter() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash.rotate_left(17).wrapping_add(entry.index)
}

impl Judge {
    pub(super) fn committed(&self) -> &[LogEntry] {
        &self.committed
    }

    /// State-machine safety: all apply the same entry at the same index, from the first on.
    pub(super) fn applied(&mut self, member: MemberId, entry: &LogEntry) {
        let position = entry.index as usize - 1;
        match self.committed.get(position) {
            Some(known) => assert_eq!(known, entry, "member {member} applied another entry"),
            None => {
                assert_eq!(position, self.committed.len(), "member {member} left entries out");
                self.committed.push(entry.clone());
            }
        }
    }

    /// Election safety (one leader a term) and leader completeness (it has all that was ever committed).
    pub(super) fn status(&mut self, member: MemberId, status: &Status, log: &[LogEntry]) {
        assert!(status.applied_index <= status.commit_index, "{status:?}");
        if status.role != Role::Leader {
            return;
        }
        let leader = *self.leaders.entry(status.term.0).or_insert_with(|| {
            self.elections += 1;
            member
        });
        assert_eq!(leader, member, "two leaders of term {}", status.term);
        // An old leader may not have what was committed after it lost its leadership.
        if self.leaders.last_key_value().is_some_and(|(term, _)| *term == status.term.0) {
            let start = &self.committed[..self.committed.len().min(log.len())];
            assert!(
                log.len() >= self.committed.len() && start == &log[..start.len()],
                "the leader {member} of term {} lacks committed entries",
                status.term
            );
        }
    }

    /// Log matching, and a hard state that never goes back.
    pub(super) fn durable(&mut self, seen: &Seen<'_>) {
        let mut hash = 0;
        for entry in seen.durable {
            hash = chain(hash, entry);
            let known = *self.prefixes.entry((entry.index, entry.term)).or_insert(hash);
            assert_eq!(known, hash, "member {}: logs differ before {entry:?}", seen.member);
        }
        let old = self.hard_states.insert(seen.member, seen.hard_state).unwrap_or_default();
        let new = seen.hard_state;
        assert!(new.term >= old.term, "member {}: {old:?} became {new:?}", seen.member);
        let voted_twice = new.term == old.term && old.vote.is_some() && new.vote != old.vote;
        assert!(!voted_twice, "member {}: {old:?} became {new:?}", seen.member);
    }

    /// What a message promises is durable when it is sent.
    pub(super) fn sent(&self, message: &ConsensusMessage, seen: &Seen<'_>) {
        let state = seen.hard_state;
        let holds = match message.kind {
            Kind::RequestVote => state.term > message.term() || state.vote == Some(seen.member),
            Kind::RequestVoteResponse if !message.reject => {
                state.term > message.term() || state.vote == Some(message.to())
            }
            Kind::AppendResponse if !message.reject => {
                state.term >= message.term() && seen.durable.len() as u64 >= message.index
            }
            _ => true,
        };
        let holds = holds && (state.term >= message.term() || promises_no_term(message.kind));
        assert!(holds, "{message:?} was sent by a member with {state:?} and {} entries", seen.durable.len());
    }
}

impl Judge {
    /// A member lost its disk, and with it what it promised.
    pub(super) fn forget(&mut self, member: MemberId) {
        self.hard_states.remove(&member);
    }
}
