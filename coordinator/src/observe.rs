//! What a member tells an observer about itself as it happens: typed facts, for the simulator's oracle.
//!
//! Owns the list of facts. Never changes what the member does: in production nobody listens, and a fact that nobody
//! hears is not even built.

use crate::{
    command::Command,
    types::{ConnectionKey, MemberId, SessionId, Term, Zxid},
};
use std::sync::Arc;

/// Listens to a member. Called in the middle of its work: it must be quick and must not call back.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of one fact.
    fn observe(&self, observation: Observation<'_>);
}

/// The member's end: silent unless somebody listens.
#[derive(Clone, Default)]
pub struct Observers(Option<Arc<dyn Observer>>);

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Observers(listening)" } else { "Observers(none)" })
    }
}

impl Observers {
    /// Nobody listens.
    pub const NONE: Observers = Observers(None);

    /// Somebody listens.
    pub fn new(observer: Arc<dyn Observer>) -> Observers {
        Observers(Some(observer))
    }

    /// Whether somebody listens.
    pub fn is_listening(&self) -> bool {
        self.0.is_some()
    }

    /// Tells a fact; `build` runs only where somebody listens.
    pub fn tell<'a>(&self, build: impl FnOnce() -> Observation<'a>) {
        if let Some(observer) = &self.0 {
            observer.observe(build());
        }
    }
}

pub use crate::consensus::Role;

/// A digest of everything that is replicated. Equal on all members that have applied the same entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest {
    /// Of the tree.
    pub tree: u64,
    /// Of the sessions.
    pub sessions: u64,
}

/// One fact.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// The process has read its disk and begins to take part. All that it told before this start and that was durable
    /// must be in these values.
    Started {
        /// Who.
        member: MemberId,
        /// The term that its disk holds.
        term: Term,
        /// Whom it voted for in that term.
        vote: Option<MemberId>,
        /// The first entry that its disk holds behind the snapshot.
        first_index: u64,
        /// The last entry that its disk holds.
        last_index: u64,
        /// The transaction of the snapshot that it starts from; 0 where it has none.
        snapshot: Zxid,
        /// The digest of that snapshot's content.
        digest: Digest,
    },
    /// Its part in the ensemble changed, or the leader that it knows, or the term.
    RoleChanged {
        /// Its part.
        role: Role,
        /// The term.
        term: Term,
        /// The leader that it knows.
        leader: Option<MemberId>,
    },
    /// Entries are durable here: told once the sync that covers them has succeeded.
    Durable {
        /// The term that is durable.
        term: Term,
        /// The vote that is durable.
        vote: Option<MemberId>,
        /// Index and term of each entry, in order. The first may replace one of the same index, and with it all later.
        entries: &'a [(u64, u64)],
    },
    /// A message to a peer leaves that promises something: told before it is sent.
    Promised {
        /// To whom.
        to: MemberId,
        /// In which term.
        term: Term,
        /// What.
        promise: Promise,
    },
    /// An entry has been applied.
    Applied {
        /// Its transaction.
        zxid: Zxid,
        /// The term of the entry.
        term: Term,
        /// What it says; `None` for the entry by which a leader begins its term.
        command: Option<&'a Command>,
        /// 0, or the error's number that the client is told.
        error: i32,
        /// Whether it changed a node. A multi of which an operation failed changed none, although its own error is 0.
        changed: bool,
        /// The digest afterwards.
        digest: Digest,
    },
    /// A request or ping of a session arrived at this member.
    SessionHeard {
        /// The session.
        session: SessionId,
        /// On which connection.
        connection: ConnectionKey,
    },
    /// This member, which leads, proposes to end a session that was silent for too long.
    SessionFoundSilent {
        /// The session.
        session: SessionId,
        /// Its timeout.
        timeout_ms: i32,
    },
    /// A snapshot of this member's own state is durable.
    SnapshotTaken {
        /// Its transaction.
        zxid: Zxid,
        /// The digest of its content.
        digest: Digest,
    },
    /// A snapshot that a peer sent has replaced this member's state.
    SnapshotInstalled {
        /// Its transaction.
        zxid: Zxid,
        /// The digest of its content, computed here.
        digest: Digest,
    },
}

/// What a message promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A vote for a candidate in this term.
    Vote,
    /// All entries up to this one are durable here.
    Holds {
        /// The last of them.
        index: u64,
    },
}
