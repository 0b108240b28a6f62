//! What a member sends its leader: its clients' commands, and which sessions it has heard from.
//!
//! Owns what has not been handed over yet. A command is handed over once; where it may have been lost, the connection
//! that waits for it ends, and the command is never sent again by itself.

use super::{Member, connection::Phase};
use crate::{
    command::{Action, Command, Origin},
    config::CoordinatorConfig,
    observe::Observation,
    peer::PeerMessage,
    types::{MemberId, SessionId},
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What waits to be handed to the leader.
pub(super) struct Following {
    /// Commands that no leader has been given yet, in order.
    held: Vec<Command>,
    /// Sessions heard since the leader was last told, and when.
    heard: BTreeMap<SessionId, Monotonic>,
    /// Those told last: told again where the link broke since.
    told: BTreeMap<SessionId, Monotonic>,
    next_telling: Monotonic,
    tell_every: Duration,
    open_links: BTreeSet<MemberId>,
}

impl Following {
    pub fn new(config: &CoordinatorConfig) -> Following {
        Following {
            held: Vec::new(),
            heard: BTreeMap::new(),
            told: BTreeMap::new(),
            next_telling: Monotonic::default(),
            tell_every: Duration::from_millis(config.tick_time_ms / 4),
            open_links: BTreeSet::new(),
        }
    }
}

impl Member {
    /// Makes a command of this process; it sets out when the events at hand have been taken in.
    pub(super) fn propose(&mut self, action: Action) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let origin = Origin { member: self.id, incarnation: self.incarnation, sequence };
        self.following.held.push(Command { origin: Some(origin), time_ms: 0, action });
        sequence
    }

    /// Hands over what is held, where there is a leader to take it.
    pub(super) fn submit(&mut self) {
        self.ask_syncs();
        let status = self.consensus.status();
        match status.leader {
            _ if self.following.held.is_empty() => {}
            Some(leader) if leader == self.id => {
                let held = std::mem::take(&mut self.following.held);
                self.lead(held);
            }
            Some(leader) if self.following.open_links.contains(&leader) => {
                let held = std::mem::take(&mut self.following.held);
                self.effects.peers.push((leader, PeerMessage::Forward(held)));
            }
            _ => {}
        }
    }

    /// Commands of this process that will not be answered: who waits for one is sent away.
    pub(super) fn lose(&mut self, sequences: &[u64]) {
        for sequence in sequences {
            if let Some(number) = self.waiting.remove(sequence) {
                self.drop_connection(number, "what it asked for was not taken by the leader");
                self.discard_held_of(number);
            }
        }
    }

    /// Everything that was handed over may be lost: who waits is sent away. What is still held is not lost.
    pub(super) fn lose_what_was_handed_over(&mut self) {
        let first_held = self.following.held.first().and_then(|command| command.origin);
        let first_held = first_held.map_or(u64::MAX, |origin| origin.sequence);
        let lost: BTreeSet<u64> = self.waiting.range(..first_held).map(|(_, number)| *number).collect();
        for number in lost {
            self.drop_connection(number, "the leader changed while it waited");
            self.discard_held_of(number);
        }
        self.waiting = self.waiting.split_off(&first_held);
    }

    /// A client's commands take effect in order or not at all: behind a lost one no other of the same connection follows.
    fn discard_held_of(&mut self, number: u64) {
        let waiting = &mut self.waiting;
        self.following.held.retain(|command| {
            let Some(origin) = command.origin else { return true };
            let its_own = waiting.get(&origin.sequence) == Some(&number);
            if its_own {
                waiting.remove(&origin.sequence);
            }
            !its_own
        });
    }

    /// A client was heard.
    pub(super) fn hear(&mut self, number: u64) {
        let now = self.moment.now;
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.last_heard = now;
        let Some(session) = connection.session.filter(|_| connection.phase == Phase::Open) else { return };
        let key = self.key_of(number);
        self.observers.tell(|| Observation::SessionHeard { session, connection: key });
        if self.leading.is_active() {
            self.leading.heard(session, now);
        } else {
            self.following.heard.insert(session, now);
        }
    }

    /// Tells the leader whom this member has heard, four times a tick.
    pub(super) fn tell_whom_it_heard(&mut self) {
        if self.moment.now < self.following.next_telling {
            return;
        }
        self.following.next_telling = self.moment.now + self.following.tell_every;
        let heard = std::mem::take(&mut self.following.heard);
        self.tell_leader(&heard);
        self.following.told = heard;
    }

    fn tell_leader(&mut self, heard: &BTreeMap<SessionId, Monotonic>) {
        let Some(leader) = self.consensus.status().leader.filter(|leader| *leader != self.id) else { return };
        if heard.is_empty() {
            return;
        }
        let now = self.moment.now;
        let age_ms = |at: Monotonic| u32::try_from((now - at).as_millis()).unwrap_or(u32::MAX);
        let ages = heard.iter().map(|(session, at)| (*session, age_ms(*at))).collect();
        self.effects.peers.push((leader, PeerMessage::Heard(ages)));
    }

    pub(super) fn on_link_opened(&mut self, to: MemberId) {
        self.following.open_links.insert(to);
        // What was told last may have been lost with the link before.
        let told = std::mem::take(&mut self.following.told);
        if self.consensus.status().leader == Some(to) {
            self.tell_leader(&told);
        }
        self.following.told = told;
    }

    pub(super) fn on_link_lost(&mut self, to: MemberId) {
        self.following.open_links.remove(&to);
        self.consensus.unreachable(to);
        if self.consensus.status().leader == Some(to) {
            self.lose_what_was_handed_over();
        }
    }
}
