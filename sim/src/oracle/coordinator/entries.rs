//! The one log that all members apply: what each transaction was, when it was first told, and what came of it. Owns
//! that memory, and with it the judgement that all members apply the same (I75) and come to the same (K04).

use super::model::Outcome;
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_coordinator::{command::Command, observe::Digest};
use std::hash::{Hash, Hasher};

/// A client's write in the log.
#[derive(Debug)]
pub(super) struct WriteEntry {
    pub session: i64,
    pub content: u64,
    /// In words, for people.
    pub text: String,
    pub outcome: Outcome,
    /// A client was told of it.
    pub told: bool,
}

/// A transaction.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub term: u64,
    /// A number for what it says; 0 for nothing.
    command: u64,
    error: i32,
    digest: Option<Digest>,
    pub write: Option<Box<WriteEntry>>,
    /// The session that it ended.
    pub ended: Option<i64>,
}

/// A fact about an entry that a member has applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppliedFact {
    pub zxid: i64,
    pub term: u64,
    pub command: u64,
    pub error: i32,
    pub digest: Digest,
}

/// All transactions so far. Number 0 is the state before the first.
#[derive(Debug)]
pub(super) struct Entries(Vec<Entry>);

impl Default for Entries {
    fn default() -> Entries {
        Entries(vec![Entry::default()])
    }
}

impl Entries {
    /// The index of the last entry that anybody has applied.
    pub fn last_index(&self) -> u64 {
        self.0.len() as u64 - 1
    }

    pub fn last_zxid(&self) -> i64 {
        self.0.len() as i64 - 1
    }

    pub fn get(&self, zxid: i64) -> Option<&Entry> {
        self.0.get(usize::try_from(zxid).ok().filter(|place| *place > 0)?)
    }

    pub fn get_mut(&mut self, zxid: i64) -> Option<&mut Entry> {
        self.0.get_mut(usize::try_from(zxid).ok().filter(|place| *place > 0)?)
    }

    /// The term of an entry that was applied.
    pub fn term(&self, index: u64) -> Option<u64> {
        self.get(index as i64).map(|entry| entry.term)
    }

    /// The last entry of an earlier term that was applied: its index and its term.
    pub fn last_before_term(&self, term: u64) -> Option<(u64, u64)> {
        let count = self.0.partition_point(|entry| entry.term < term);
        let index = count.checked_sub(1).filter(|index| *index > 0)?;
        Some((index as u64, self.0[index].term))
    }

    /// A member has applied an entry that somebody has applied before: it must be the same, and come to the same.
    pub fn compare(&self, judge: &mut Judge, fact: AppliedFact) {
        let Some(entry) = self.get(fact.zxid) else { return };
        let same = entry.term == fact.term && entry.command == fact.command;
        judge.demand(Invariant::I75, same, || {
            format!(
                "transaction {} is another one here: term {} and content {:016x}, elsewhere term {} and {:016x}",
                fact.zxid, fact.term, fact.command, entry.term, entry.command
            )
        });
        judge.demand(Invariant::K04, entry.error == fact.error, || {
            format!("transaction {} gives {} here, {} elsewhere", fact.zxid, fact.error, entry.error)
        });
        self.compare_digest(judge, fact.zxid, fact.digest);
    }

    /// A member's state at a transaction, by its digest.
    pub fn compare_digest(&self, judge: &mut Judge, zxid: i64, digest: Digest) {
        let entry = usize::try_from(zxid).ok().and_then(|place| self.0.get(place));
        let Some(known) = entry.and_then(|entry| entry.digest) else { return };
        judge.demand(Invariant::K04, known == digest, || {
            let of = match (known.tree == digest.tree, known.sessions == digest.sessions) {
                (false, false) => "tree and sessions differ",
                (false, true) => "the tree differs",
                _ => "the sessions differ",
            };
            format!("at transaction {zxid} {of} from what another member has")
        });
    }

    /// The digest of a member that has applied nothing: all begin with the same.
    pub fn begins_with(&mut self, judge: &mut Judge, digest: Digest) {
        match self.0[0].digest {
            None => self.0[0].digest = Some(digest),
            Some(_) => self.compare_digest(judge, 0, digest),
        }
    }

    /// The next transaction, as it was applied first.
    pub fn push(&mut self, fact: AppliedFact) -> &mut Entry {
        self.0.push(Entry {
            term: fact.term,
            command: fact.command,
            error: fact.error,
            digest: Some(fact.digest),
            write: None,
            ended: None,
        });
        self.0.last_mut().expect("it was just added")
    }
}

/// A number for what a command says; 0 for none.
pub(super) fn content_of(command: Option<&Command>) -> u64 {
    let Some(command) = command else { return 0 };
    let bytes = bincode::serde::encode_to_vec(command, bincode::config::standard())
        .expect("a command can be written into memory");
    // The standard library's hasher has a fixed key where it is made this way: the same in each run.
    let mut hasher = std::hash::DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant, Stop,
        coordinator::testing::{Run, digest},
    };
    use sillon_coordinator::{
        observe::{Digest, Observation},
        types::{Term, Zxid},
    };

    #[test]
    fn a_snapshot_and_what_follows_give_the_whole() {
        let run = Run::new();
        run.begin_term();
        run.begin_term();
        run.tell(3, Observation::SnapshotTaken { zxid: Zxid(1), digest: digest(1) });
        run.stop(3, Stop::Killed);
        run.start_from(3, (1, Some(1)), (2, 2), 1);
        run.apply(3, 2, None, 0);
        run.tell(2, Observation::SnapshotInstalled { zxid: Zxid(2), digest: digest(2) });
        run.assert_legal(&[Invariant::K04]);
    }

    #[test]
    fn states_differ() {
        let run = Run::new();
        let zxid = run.replicate();
        run.apply(1, zxid, None, 0);
        let digest = Digest { tree: 1, ..digest(zxid) };
        let (zxid, term) = (Zxid(zxid), Term(1));
        run.tell(
            2,
            Observation::Applied {
                zxid,
                term,
                command: None,
                error: 0,
                changed: false,
                digest: Digest { tree: 99, ..digest },
            },
        );
        run.assert_violated(Invariant::K04);
    }

    #[test]
    fn a_snapshot_differs() {
        let run = Run::new();
        run.begin_term();
        run.tell(1, Observation::SnapshotTaken { zxid: Zxid(1), digest: digest(5) });
        run.assert_violated(Invariant::K04);
    }

    #[test]
    fn outcomes_differ() {
        let run = Run::new();
        let zxid = run.replicate();
        let command = run.command(sillon_coordinator::command::Action::NameEnsemble { ensemble: 5 });
        run.apply(1, zxid, Some(&command), 0);
        run.apply(2, zxid, Some(&command), -1);
        run.assert_violated(Invariant::K04);
    }
}
