//! One member of the ensemble, as a state machine: what arrives goes in, what is to be done comes out.
//!
//! ```text
//!   client frames, peer messages, ticks, "this is durable"
//!        │ on(event, moment)
//!        ▼
//!   Member ─ connections   requests in order, replies in order          (connection, requests, handshake)
//!          ─ consensus     commands become entries, entries get committed
//!          ─ state         the tree and the sessions, changed only by committed entries      (commit)
//!          ─ watches       who wants to know
//!          ─ leading       expiry of sessions, sweeping, what other members forward          (leading, following)
//!        │ finish(moment)
//!        ▼
//!   Effects: bytes for connections, messages for peers, entries to make durable, snapshots to write
//! ```
//! Owns every decision of a member. Never waits, reads no clock, touches no file and no socket.
//!
//! The invariants that it keeps: replies leave in request order; an event leaves before any reply that has seen it; no
//! entry is acknowledged before it is durable on a majority (I76); a session ends only by an entry (I62).

mod auth;
mod commit;
mod connection;
mod ending;
mod following;
mod handshake;
mod leading;
mod report;
mod requests;
mod roles;
mod statistics;
mod sync;
#[cfg(test)]
mod tests;
mod watching;

pub use statistics::Statistics;

use crate::{
    config::CoordinatorConfig,
    consensus::{Consensus, ConsensusMessage, Persist, SendSnapshot, SnapshotMark},
    four_letter_word::FourLetterWord,
    observe::{Observers, Role},
    peer::PeerMessage,
    state::StateMachine,
    types::{ConnectionKey, EnsembleId, MemberId, SessionId, Zxid},
    watches::Watches,
};
use bytes::Bytes;
use connection::Connection;
use following::Following;
use leading::Leading;
use roles::Roles;
use sillon_runtime::{Monotonic, UnixMillis};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};
use sync::Syncs;

/// What the clocks say.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The monotonic clock, for durations.
    pub now: Monotonic,
    /// The wall clock, for time stamps.
    pub unix: UnixMillis,
}

/// What happens to a member.
#[derive(Debug)]
pub enum Event {
    /// A client has connected.
    Accepted {
        /// The connection's number, never used before.
        connection: u64,
        /// From where.
        peer: SocketAddr,
    },
    /// Whole frames arrived from a client, in order, without their lengths.
    Frames {
        /// On which connection.
        connection: u64,
        /// The frames.
        frames: Vec<Bytes>,
    },
    /// Instead of a handshake, somebody sent a four-letter word.
    FourLetterWord {
        /// On which connection.
        connection: u64,
        /// Which.
        word: FourLetterWord,
    },
    /// A client's connection has ended.
    Disconnected {
        /// Which.
        connection: u64,
    },
    /// A message from another member.
    Peer {
        /// From whom.
        from: MemberId,
        /// The message.
        message: PeerMessage,
    },
    /// The link on which this member sends to another has been opened.
    LinkOpened {
        /// To whom.
        to: MemberId,
    },
    /// The link on which this member sends to another is broken: what was sent last may not have arrived.
    LinkLost {
        /// To whom.
        to: MemberId,
    },
    /// What [`Effects::persist`] asked for is durable, and all before it.
    Durable {
        /// The last ticket.
        ticket: u64,
    },
    /// A snapshot of this member's own state is durable.
    SnapshotSaved {
        /// Which.
        mark: SnapshotMark,
    },
    /// A peer's snapshot lies on the disk, checked and whole; this message belongs to it.
    SnapshotReceived {
        /// The message.
        message: ConsensusMessage,
    },
    /// Another member has been met.
    Greeted {
        /// The ensemble that its data belongs to, if that has a name yet.
        ensemble: Option<EnsembleId>,
    },
    /// Sending a snapshot to a peer has ended.
    SnapshotSent {
        /// To whom.
        to: MemberId,
        /// Whether it arrived.
        arrived: bool,
    },
    /// A tick of the consensus has passed.
    Tick,
}

/// What a member wants done. Sends and messages may be done at once and in any order but that of their own list.
#[derive(Debug, Default)]
pub struct Effects {
    /// Bytes for clients, and how many replies they hold.
    pub sends: Vec<Send>,
    /// Connections to end once everything has been sent.
    pub closes: Vec<u64>,
    /// Messages for other members.
    pub peers: Vec<(MemberId, PeerMessage)>,
    /// Entries to make durable, in order.
    pub persist: Vec<Persist>,
    /// The same, for behind the snapshot that is to be installed.
    pub persist_after_install: Vec<Persist>,
    /// A peer's snapshot to load: the member stands still until [`Member::install`].
    pub install: Option<SnapshotMark>,
    /// Snapshots to send to peers, each with the message to hand over behind it.
    pub send_snapshots: Vec<SendSnapshot>,
    /// A snapshot is to be begun.
    pub begin_snapshot: bool,
    /// The ensemble has a name now, to be noted beside the data.
    pub name_ensemble: Option<u128>,
}

/// Bytes for one client.
#[derive(Debug)]
pub struct Send {
    /// Its connection.
    pub connection: u64,
    /// Frames, with their lengths.
    pub bytes: Vec<u8>,
    /// How many of its requests they answer.
    pub replies: usize,
}

/// What a member begins with.
pub struct Start {
    /// Its configuration.
    pub config: CoordinatorConfig,
    /// Its consensus, restored from the disk.
    pub consensus: Box<dyn Consensus>,
    /// Its state, restored from the latest snapshot.
    pub state: StateMachine,
    /// The ensemble that its disk belongs to, where it belongs to one.
    pub known_ensemble: Option<EnsembleId>,
    /// A random number that no other process has.
    pub incarnation: u64,
    /// Random bytes that nobody else knows, from which passwords are made.
    pub secret: [u8; 32],
    /// Who listens.
    pub observers: Observers,
    /// When it starts.
    pub moment: Moment,
}

/// A member of the ensemble.
pub struct Member {
    config: CoordinatorConfig,
    id: MemberId,
    incarnation: u64,
    secret: [u8; 32],
    observers: Observers,
    consensus: Box<dyn Consensus>,
    state: StateMachine,
    watches: Watches,
    /// Term of the entry that was applied last.
    applied_term: u64,
    connections: BTreeMap<u64, Connection>,
    /// The connection that serves a session here: the latest one.
    session_connections: BTreeMap<SessionId, u64>,
    /// Connections with bytes to send or to be closed.
    dirty: BTreeSet<u64>,
    /// Who waits for which of this process's commands.
    waiting: BTreeMap<u64, u64>,
    next_sequence: u64,
    next_session: i64,
    syncs: Syncs,
    roles: Roles,
    following: Following,
    leading: Leading,
    entries_since_snapshot: u64,
    snapshot_wanted: bool,
    name_told: bool,
    /// Whether it does not vote, because its disk may have forgotten what it promised.
    abstaining: bool,
    statistics: Statistics,
    effects: Effects,
    moment: Moment,
}

impl Member {
    /// A member that has done nothing yet.
    pub fn new(start: Start) -> Member {
        let id = start.config.member;
        let first_session = handshake::first_session(id, start.moment.unix, start.incarnation);
        Member {
            id,
            roles: Roles::new(&start.config, start.moment.now),
            following: Following::new(&start.config),
            leading: Leading::new(&start.config),
            config: start.config,
            incarnation: start.incarnation,
            secret: start.secret,
            observers: start.observers,
            consensus: start.consensus,
            state: start.state,
            watches: Watches::default(),
            applied_term: 0,
            connections: BTreeMap::new(),
            session_connections: BTreeMap::new(),
            dirty: BTreeSet::new(),
            waiting: BTreeMap::new(),
            next_sequence: 1,
            next_session: first_session,
            syncs: Syncs::new(start.incarnation),
            entries_since_snapshot: 0,
            snapshot_wanted: false,
            name_told: start.known_ensemble.is_some(),
            abstaining: false,
            statistics: Statistics::default(),
            effects: Effects::default(),
            moment: start.moment,
        }
    }

    /// Takes one event in. What is to be done about it is told by [`Member::finish`].
    pub fn on(&mut self, event: Event, moment: Moment) {
        self.moment = moment;
        match event {
            Event::Accepted { connection, peer } => self.on_accepted(connection, peer),
            Event::Frames { connection, frames } => self.on_frames(connection, frames),
            Event::FourLetterWord { connection, word } => self.on_four_letter_word(connection, word),
            Event::Disconnected { connection } => self.forget_connection(connection),
            Event::Peer { from, message } => self.on_peer(from, message),
            Event::LinkOpened { to } => self.on_link_opened(to),
            Event::LinkLost { to } => self.on_link_lost(to),
            Event::Durable { ticket } => self.consensus.persisted(ticket),
            Event::SnapshotSaved { mark } => self.on_snapshot_saved(mark),
            Event::SnapshotReceived { message } => self.consensus.step(message),
            Event::SnapshotSent { to, arrived } => self.consensus.snapshot_sent(to, arrived),
            Event::Greeted { ensemble } => self.on_greeted(ensemble),
            Event::Tick => self.on_tick(),
        }
    }

    /// Carries through what the events since the last call have brought about, and tells what is to be done.
    pub fn finish(&mut self, moment: Moment) -> Effects {
        self.moment = moment;
        self.submit();
        self.lead_backlog();
        loop {
            let output = self.consensus.output();
            if output.is_empty() {
                break;
            }
            let installing = output.install.is_some();
            self.on_output(output);
            if installing {
                break;
            }
        }
        self.look_at_role();
        self.tell_name();
        self.flush_connections();
        std::mem::take(&mut self.effects)
    }

    /// The state that a peer's snapshot holds: it replaces this member's.
    pub fn install(&mut self, state: StateMachine, term: u64, moment: Moment) {
        self.moment = moment;
        assert!(state.applied() > self.state.applied(), "a snapshot only ever brings a member forward");
        self.state = state;
        self.applied_term = term;
        self.entries_since_snapshot = 0;
        self.on_installed();
    }

    /// The state, to write a snapshot from.
    pub fn state_mut(&mut self) -> &mut StateMachine {
        &mut self.state
    }

    /// What was applied last, and in which term it was proposed: where a snapshot that begins now ends.
    pub fn mark(&self) -> SnapshotMark {
        SnapshotMark { index: self.state.applied().index(), term: self.applied_term }
    }

    /// Ends its part before the process stops: a leader asks another member to take over.
    pub fn resign(&mut self, moment: Moment) {
        self.moment = moment;
        self.hand_over();
    }

    fn on_peer(&mut self, from: MemberId, message: PeerMessage) {
        match message {
            PeerMessage::Consensus(message) if message.from() == from && message.to() == self.id => {
                self.consensus.step(message);
            }
            PeerMessage::Consensus(message) => {
                tracing::warn!(member = %self.id, %from, kind = message.kind(), "a message for somebody else");
            }
            PeerMessage::Forward(commands) => self.on_forward(commands),
            PeerMessage::Refused(sequences) => self.lose(&sequences),
            PeerMessage::Heard(sessions) => self.on_heard(&sessions),
        }
    }

    /// Whether there are other members.
    pub fn has_peers(&self) -> bool {
        !self.config.is_standalone()
    }

    /// Its part in the ensemble.
    pub fn role(&self) -> Role {
        self.roles.role()
    }

    /// An empty disk in an ensemble that has a name: it may be a new one in place of one that had made promises. The
    /// member votes again once it has caught up.
    fn on_greeted(&mut self, ensemble: Option<EnsembleId>) {
        if ensemble.is_some() && !self.name_told && !self.abstaining && self.state.ensemble().is_none() {
            tracing::warn!(member = %self.id, "an empty disk in an old ensemble: no votes until it has caught up");
            self.abstaining = true;
            self.consensus.set_voting(false);
        }
    }

    fn votes_again(&mut self) {
        if std::mem::take(&mut self.abstaining) {
            tracing::info!(member = %self.id, "caught up: votes count again");
            self.consensus.set_voting(true);
        }
    }

    /// The ensemble's name is told once it is known.
    fn tell_name(&mut self) {
        if !self.name_told
            && !self.abstaining
            && let Some(ensemble) = self.state.ensemble()
        {
            self.name_told = true;
            self.effects.name_ensemble = Some(ensemble);
        }
    }

    fn on_snapshot_saved(&mut self, mark: SnapshotMark) {
        self.snapshot_wanted = false;
        self.consensus.snapshot_taken(mark);
    }

    fn last_zxid(&self) -> Zxid {
        self.state.applied()
    }

    fn key_of(&self, connection: u64) -> ConnectionKey {
        ConnectionKey { member: self.id, incarnation: self.incarnation, number: connection }
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("id", &self.id)
            .field("applied", &self.state.applied())
            .finish_non_exhaustive()
    }
}
