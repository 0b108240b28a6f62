//! Which messages make sense here and now. Owns the checks that stand between the network and the raft crate, which
//! panics on what cannot be; never changes any state.

use super::{ConsensusMessage, Role, message::Kind};
use crate::types::MemberId;

/// Beyond this neither terms nor indexes ever get.
const MAX_NUMBER: u64 = 1 << 62;

/// What a message is judged by.
pub(super) struct Here<'a> {
    pub(super) member: MemberId,
    pub(super) voters: &'a [MemberId],
    pub(super) voting: bool,
    pub(super) role: Role,
    pub(super) leader: Option<MemberId>,
    pub(super) term: u64,
    pub(super) last_index: u64,
}

/// Whether the message may be stepped; else why not.
pub(super) fn check(message: &ConsensusMessage, here: &Here<'_>) -> Result<(), &'static str> {
    let m = message;
    let numbers = [m.term, m.log_term, m.index, m.commit, m.commit_term, m.reject_hint];
    let mark = m.snapshot.unwrap_or_default();
    if numbers.into_iter().chain([mark.index, mark.term]).any(|number| number > MAX_NUMBER) {
        return Err("a number that no log ever reaches");
    }
    if m.to != here.member || m.from == here.member || !here.voters.contains(&m.from) {
        return Err("not between this member and another of the ensemble");
    }
    if (m.term == 0) != (m.kind == Kind::ReadIndex) {
        return Err("its term is missing, or it should have none");
    }
    if m.snapshot.is_some() != (m.kind == Kind::Snapshot) {
        return Err("a snapshot without its mark, or a mark without a snapshot");
    }
    let is_lead = here.role == Role::Leader;
    match m.kind {
        Kind::Append => check_append(m),
        Kind::AppendResponse if is_lead && m.term == here.term => {
            let within = m.index <= here.last_index && m.reject_hint <= here.last_index;
            if within { Ok(()) } else { Err("an answer about entries that were never sent") }
        }
        Kind::Snapshot if mark.index == 0 || mark.term == 0 || mark.term > m.term => {
            Err("a snapshot of a term that is not yet, or of nothing")
        }
        Kind::RequestVote | Kind::RequestPreVote if !here.voting => Err("this member does not vote yet"),
        Kind::RequestVote | Kind::RequestPreVote if m.log_term > m.term => {
            Err("a log from beyond the candidate's own term")
        }
        Kind::TimeoutNow if !here.voting || here.leader != Some(m.from) || m.term != here.term => {
            Err("leadership handed over by somebody who does not have it")
        }
        Kind::ReadIndex if !is_lead => Err("asked for a read, and does not lead"),
        Kind::ReadIndex | Kind::ReadIndexResponse if m.entries.len() != 1 => {
            Err("a read without its context")
        }
        _ => Ok(()),
    }
}

fn check_append(m: &ConsensusMessage) -> Result<(), &'static str> {
    if (m.index == 0) != (m.log_term == 0) || m.log_term > m.term {
        return Err("the entry before the first has no possible term");
    }
    let (mut index, mut term) = (m.index, m.log_term);
    for entry in &m.entries {
        if entry.index != index + 1 || entry.term < term || entry.term == 0 || entry.term > m.term {
            return Err("entries that do not follow on one another");
        }
        (index, term) = (entry.index, entry.term);
    }
    Ok(())
}
