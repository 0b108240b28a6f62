//! Agreement on one log among the members: terms, votes, replication, what is committed. Pure: no clock, no files, no
//! tasks, nothing random. The shell feeds it ticks and messages, and carries out what each [`Output`] asks for.
//!
//! ```text
//!   tick, step, propose, read_index, persisted ──► Consensus ──► output(): send, persist, apply, answer reads
//! ```
//! Owns which entries are committed and in which order; never what they mean. The algorithm is the raft crate's,
//! behind [`Consensus`]; `raft.rs` is the only file that drives it.
//!
//! Asserted here, always: term and commit never go back, a term has one vote, every committed entry is handed out
//! once and in order, and what depends on the disk is sent only after [`Consensus::persisted`].

mod logger;
mod memory_log;
mod message;
mod raft;
mod start;
mod validate;

#[cfg(test)]
mod tests;

pub use message::ConsensusMessage;
pub use raft::RaftConsensus;

use crate::types::{MemberId, Term};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One entry of the log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its place, from 1 on, without gaps.
    pub index: u64,
    /// The term of the leader that proposed it.
    pub term: u64,
    /// What was proposed. Empty: the first entry of a leader's term, its own.
    #[serde(with = "crate::frame::payload")]
    pub data: Bytes,
}

impl fmt::Debug for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}B", self.index, self.term, self.data.len())
    }
}

/// What a member must never forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardState {
    /// The latest term that it has seen.
    pub term: Term,
    /// Whom it voted for in that term.
    pub vote: Option<MemberId>,
    /// The index up to which it knows entries to be committed; may lag behind what it knew.
    pub commit: u64,
}

/// The last entry that a snapshot contains the effect of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SnapshotMark {
    /// The index of that entry.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

impl fmt::Display for SnapshotMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {} of term {}", self.index, self.term)
    }
}

/// How a member takes part. Ticks are the shell's.
#[derive(Clone, Debug)]
pub struct ConsensusConfig {
    /// Which member this is.
    pub member: MemberId,
    /// All members, this one among them.
    pub voters: Vec<MemberId>,
    /// Ticks without a word from the leader before a member stands for election; the actual number lies between this
    /// and twice as many.
    pub election_ticks: usize,
    /// Ticks between two heartbeats of a leader.
    pub heartbeat_ticks: usize,
    /// The entries in one message, in bytes (a single larger entry is sent nevertheless).
    pub max_size_per_message: u64,
    /// Messages with entries that may be on the way to one member.
    pub max_inflight: usize,
    /// Applied entries kept in memory for members that lag, in bytes; also the cap of entries that are not committed.
    pub memory_bytes: usize,
    /// From the operating system at every start: decides the election timeouts, and tells the reads of this start
    /// from those of the one before.
    pub seed: u64,
}

impl ConsensusConfig {
    /// The usual values: 10 ticks to an election, a heartbeat each tick, messages of 1 MiB, 64 MiB in memory.
    pub fn new(member: MemberId, voters: Vec<MemberId>, seed: u64) -> ConsensusConfig {
        ConsensusConfig {
            member,
            voters,
            election_ticks: 10,
            heartbeat_ticks: 1,
            max_size_per_message: 1024 * 1024,
            max_inflight: 256,
            memory_bytes: 64 * 1024 * 1024,
            seed,
        }
    }
}

/// What a member is in its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It orders the entries.
    Leader,
    /// It asks for votes.
    Candidate,
    /// It asks whether it would get votes.
    PreCandidate,
    /// It follows a leader, or waits for one.
    Follower,
}

/// How far a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is.
    pub role: Role,
    /// Who leads, as far as it knows.
    pub leader: Option<MemberId>,
    /// Its term.
    pub term: Term,
    /// Its last entry, durable or not.
    pub last_index: u64,
    /// The last entry that it knows to be committed.
    pub commit_index: u64,
    /// The last entry that it gave out for applying.
    pub applied_index: u64,
    /// The first entry that it has in memory.
    pub first_index: u64,
    /// On the leader: each other member and the last entry known to be durable there, by member.
    pub progress: Vec<PeerProgress>,
}

/// How far another member is, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProgress {
    /// Which member.
    pub member: MemberId,
    /// The last entry known to be durable there.
    pub matched: u64,
    /// Whether it was heard of within the last election timeout.
    pub active: bool,
}

/// What is to be made durable. Tickets increase; so does what is durable: in the order of the tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// To be given to [`Consensus::persisted`].
    pub ticket: u64,
    /// The new hard state, where it changed.
    pub hard_state: Option<HardState>,
    /// New entries. The first may have an index that is already in the log: it then replaces all from there on.
    pub entries: Vec<LogEntry>,
    /// Whether it must be synced; false where only the commit index changed, nothing waits for that.
    pub must_sync: bool,
}

/// A read may be served from a state machine that has applied `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadReady {
    /// What [`Consensus::read_index`] was given.
    pub context: u64,
    /// The entry that has to be applied before.
    pub index: u64,
}

/// A snapshot that another member needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendSnapshot {
    /// Who needs it.
    pub to: MemberId,
    /// Which: the one last named to [`Consensus::snapshot_taken`], or a later one that was installed.
    pub mark: SnapshotMark,
    /// To be sent after the snapshot's bytes; it makes the other member install it.
    pub message: ConsensusMessage,
}

/// All there is to do. In this order: `install`, then the rest; `messages` need not wait for `persist`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Send at once.
    pub messages: Vec<ConsensusMessage>,
    /// Make durable, then call [`Consensus::persisted`]; the messages that wait for it come with the next output.
    pub persist: Option<Persist>,
    /// Apply in order; each comes once.
    pub committed: Vec<LogEntry>,
    /// Reads that may be served.
    pub reads: Vec<ReadReady>,
    /// The state machine and the log jump to this snapshot, whose bytes the shell made durable before it handed over
    /// the message that named it.
    pub install: Option<SnapshotMark>,
    /// Stream each of these, then report with [`Consensus::snapshot_sent`].
    pub send_snapshot: Vec<SendSnapshot>,
    /// Another member needs a snapshot and there is none recent enough: take one.
    pub want_snapshot: bool,
}

impl Output {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Output::default()
    }
}

/// Why a proposal was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalRefused {
    /// Only the leader proposes.
    #[error("this member does not lead")]
    NotLeader {
        /// Who does, as far as it knows.
        leader: Option<MemberId>,
    },
    /// Leadership is being handed over.
    #[error("leadership is being handed over")]
    Transferring,
    /// Too much is proposed and not committed: wait.
    #[error("more than {limit_bytes} bytes are proposed and not committed")]
    Busy {
        /// The cap in bytes.
        limit_bytes: usize,
    },
    /// An entry is never empty (that is how a leader's own first one is known) and never larger than this.
    #[error("an entry has 1 to {limit_bytes} bytes, not {length_bytes}")]
    Length {
        /// The bytes proposed.
        length_bytes: usize,
        /// The largest entry in bytes.
        limit_bytes: usize,
    },
}

/// What was on disk, or the configuration, cannot be started from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The configuration contradicts itself.
    #[error("consensus: {0}")]
    Config(String),
    /// Entries do not follow on one another or on the snapshot.
    #[error("the log has entry {found} where entry {expected} should be")]
    Gap {
        /// The index expected.
        expected: u64,
        /// The index found.
        found: u64,
    },
    /// Committed entries are missing.
    #[error("entries up to {commit} were known to be committed, the log ends at {last}")]
    CommittedLost {
        /// The commit index that was stored.
        commit: u64,
        /// The last entry there is.
        last: u64,
    },
}

/// The largest entry that can be proposed, in bytes.
pub const MAX_ENTRY_BYTES: usize = 32 * 1024 * 1024;

/// A member's part in the agreement. After each batch of inputs call [`Consensus::output`] until it is empty.
pub trait Consensus: Send {
    /// Time passes; called once every tick period of the shell.
    fn tick(&mut self);
    /// Takes a message from another member. What makes no sense is ignored. One that names a snapshot
    /// ([`ConsensusMessage::snapshot`]) may only be given after that snapshot is durable here.
    fn step(&mut self, message: ConsensusMessage);
    /// Proposes an entry. Taken is not committed: it is when it comes back in [`Output::committed`], which it may
    /// never do if leadership changes.
    ///
    /// # Errors
    /// [`ProposalRefused`].
    fn propose(&mut self, data: Bytes) -> Result<(), ProposalRefused>;
    /// Asks for the index that a linearizable read has to wait for; the answer comes in [`Output::reads`], or never
    /// where there is no leader or it changes. `context` is never used twice by a running member.
    fn read_index(&mut self, context: u64);
    /// Stands for election now.
    fn campaign(&mut self);
    /// On the leader: hands leadership over, or gives up after an election timeout.
    fn transfer_leadership(&mut self, to: MemberId);
    /// A message to that member was lost.
    fn unreachable(&mut self, member: MemberId);
    /// Whether the snapshot and its message went out to that member.
    fn snapshot_sent(&mut self, to: MemberId, ok: bool);
    /// What there is to do now.
    fn output(&mut self) -> Output;
    /// All that was to be persisted up to this ticket is durable.
    ///
    /// # Panics
    /// If there was no such ticket.
    fn persisted(&mut self, ticket: u64);
    /// A snapshot of applied state is durable: it can be sent, and entries before it are not needed.
    ///
    /// # Panics
    /// If an entry that was not given out for applying is in it, or its term is wrong.
    fn snapshot_taken(&mut self, mark: SnapshotMark);
    /// Whether this member votes and stands for election (it does, from the start). A member that may have lost what
    /// it promised (its disk is new, the ensemble is not) must not until it has caught up.
    fn set_voting(&mut self, voting: bool);
    /// How far this member is.
    fn status(&self) -> Status;
}
