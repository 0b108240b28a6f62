//! Sync: a client's question whether this member has seen everything that was committed when it asked.
//!
//! Owns the questions that are on their way. Each is answered by the index that the leader had committed, confirmed by a
//! majority (ReadIndex), and settled once this member has applied it.

use super::{
    Member,
    connection::{Queued, Step},
};
use sillon_runtime::Monotonic;
use std::{collections::BTreeMap, time::Duration};

/// The questions.
#[derive(Default)]
pub(super) struct Syncs {
    next: u64,
    /// Asked by clients, not yet put to the consensus.
    fresh: Vec<Asker>,
    on_their_way: BTreeMap<u64, Question>,
    /// Answered with the index that must be applied.
    answered: Vec<(u64, Vec<Asker>)>,
}

#[derive(Debug)]
struct Question {
    askers: Vec<Asker>,
    asked: Monotonic,
}

#[derive(Clone, Copy, Debug)]
enum Asker {
    /// A request of a connection.
    Request { connection: u64, ticket: u64 },
    /// The member itself, which wants to serve.
    Member,
}

impl Syncs {
    /// Questions are numbered from a random number, so that those of a process before are not taken for this one's.
    pub fn new(incarnation: u64) -> Syncs {
        Syncs { next: incarnation, ..Syncs::default() }
    }

    /// A request asks. Gives its ticket.
    pub fn ask(&mut self, connection: u64) -> u64 {
        let ticket = self.take_number();
        self.fresh.push(Asker::Request { connection, ticket });
        ticket
    }

    pub fn ask_to_serve(&mut self) {
        self.fresh.push(Asker::Member);
    }

    pub fn answered(&mut self, context: u64, index: u64) {
        if let Some(question) = self.on_their_way.remove(&context) {
            self.answered.push((index, question.askers));
        }
    }

    fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }
}

impl Member {
    /// Puts what clients asked to the consensus, all in one question.
    pub(super) fn ask_syncs(&mut self) {
        if self.syncs.fresh.is_empty() || self.consensus.status().leader.is_none() {
            return;
        }
        let askers = std::mem::take(&mut self.syncs.fresh);
        let context = self.syncs.take_number();
        self.consensus.read_index(context);
        self.syncs.on_their_way.insert(context, Question { askers, asked: self.moment.now });
    }

    /// Questions that may have been lost at a change of leaders are asked again: they change nothing, so they may be.
    pub(super) fn ask_syncs_again(&mut self) {
        self.ask_syncs_older_than(Duration::ZERO);
    }

    pub(super) fn retry_syncs(&mut self) {
        if self.consensus.status().leader.is_some() {
            self.ask_syncs_older_than(Duration::from_millis(self.config.election_timeout_ms));
        }
    }

    fn ask_syncs_older_than(&mut self, age: Duration) {
        let now = self.moment.now;
        let old = |question: &Question| now - question.asked >= age;
        let again: Vec<u64> = self
            .syncs
            .on_their_way
            .iter()
            .filter(|(_, asked)| old(asked))
            .map(|(number, _)| *number)
            .collect();
        for number in again {
            let mut question = self.syncs.on_their_way.remove(&number).expect("it was found there");
            question.asked = now;
            // A number of its own: an answer to the first asking that still comes is then no answer to this one.
            let context = self.syncs.take_number();
            self.consensus.read_index(context);
            self.syncs.on_their_way.insert(context, question);
        }
    }

    /// Settles the questions whose index is applied.
    pub(super) fn answer_syncs(&mut self) {
        if self.syncs.answered.is_empty() {
            return;
        }
        let applied = self.last_zxid().0.cast_unsigned();
        let (settled, waiting) =
            std::mem::take(&mut self.syncs.answered).into_iter().partition(|(index, _)| *index <= applied);
        self.syncs.answered = waiting;
        let settled: Vec<(u64, Vec<Asker>)> = settled;
        for asker in settled.into_iter().flat_map(|(_, askers)| askers) {
            match asker {
                Asker::Member => self.caught_up(),
                Asker::Request { connection, ticket } => self.settle_sync(connection, ticket),
            }
        }
    }

    fn settle_sync(&mut self, number: u64, ticket: u64) {
        let is_it = |queued: &Queued| matches!(queued.step, Step::Sync { ticket: its, .. } if its == ticket);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Some(position) = connection.queue.iter().position(is_it) else { return };
        connection.queue[position].step = match &connection.queue[position].step {
            // It takes its turn like a read, so that its zxid is that of the moment at which it is answered.
            Step::Sync { body, .. } => Step::Synced { body: body.clone() },
            _ => unreachable!("the position is that of a sync"),
        };
        self.advance(number);
    }
}
