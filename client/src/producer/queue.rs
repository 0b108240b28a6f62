//! The batches of one partition, and the sequence numbers by which brokers know an idempotent producer's (KIP-98, KIP-360).
//! Pure.
//!
//! ```text
//!   waiting (front = next to be sent; sent before and to be sent again, then new ones, the last may be open)
//!      │ depart                       ▲ try again: back to its place
//!      ▼                              │
//!   flying ───────── arrived ─────────┴──► done
//! ```
//! * Batches depart in the order of their ids. One that has to be sent again departs only when none before it flies.
//! * A sequence number that was never written leaves a gap that the broker does not take: everything from there on
//!   departs again under a new epoch, from 0, once everything before it is done and nothing flies.
//! * The first batch of an identity goes alone: a broker that knows nothing of a producer takes any number for its first.
//! * A batch whose fate is not known leaves a doubtful place. What follows it tells: written, and there was no gap; out of
//!   order, and there is one. With nothing to tell, a new epoch it is.

use super::batch::{Batch, Identity, Sequence};
use sillon_protocol::records::increment_sequence;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Whether the front of a queue may depart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// Now.
    Ready,
    /// When something arrives.
    Later,
    /// When there is an identity that this queue has not used yet.
    NewEpoch,
}

/// The batches of one partition.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) waiting: VecDeque<Batch>,
    pub(super) flying: BTreeMap<u64, Batch>,
    identity: Option<Identity>,
    next_sequence: i32,
    /// The sequence number that the broker expects next, as far as its answers tell.
    expected_sequence: i32,
    /// The sequence number that follows a batch whose fate is not known.
    doubtful: Option<i32>,
    /// From this batch on everything needs a new epoch.
    gap_from: Option<u64>,
}

impl Queue {
    pub(super) fn new(topic: Arc<str>, partition: i32) -> Queue {
        Queue {
            topic,
            partition,
            waiting: VecDeque::new(),
            flying: BTreeMap::new(),
            identity: None,
            next_sequence: 0,
            expected_sequence: 0,
            doubtful: None,
            gap_from: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty()
    }

    /// Whether the front may depart as far as its sequence is concerned. Adopts `identity` where that can be.
    pub(super) fn may_depart(&mut self, identity: Identity) -> Departure {
        let Some(front) = self.waiting.front() else { return Departure::Later };
        let (front, numbered) = (front.id, front.sequence.is_some());
        let settled = self.flying.is_empty();
        if let Some(gap_from) = self.gap_from {
            if front >= gap_from {
                return match settled {
                    false => Departure::Later,
                    true if self.identity == Some(identity) => Departure::NewEpoch,
                    true => {
                        self.begin_anew(identity);
                        Departure::Ready
                    }
                };
            }
        } else if !numbered && self.identity != Some(identity) {
            // The broker would take the new epoch's first batch before what flies, and then refuse that.
            if !settled {
                return Departure::Later;
            }
            self.begin_anew(identity);
            return Departure::Ready;
        }
        if numbered {
            let first = self.flying.keys().next().is_none_or(|flying| *flying > front);
            return if first { Departure::Ready } else { Departure::Later };
        }
        if self.doubtful.is_some() {
            if !settled {
                return Departure::Later;
            }
            // Nothing is left that could tell.
            self.doubtful = None;
            self.gap_from = Some(front);
            return Departure::NewEpoch;
        }
        // A broker without any state of the producer takes whatever number comes first: so the first batch goes alone.
        if self.expected_sequence == 0 && !settled { Departure::Later } else { Departure::Ready }
    }

    /// Everything that waits is numbered from 0 under this identity.
    fn begin_anew(&mut self, identity: Identity) {
        assert!(
            self.flying.is_empty(),
            "{}-{}: nothing flies under the old epoch",
            self.topic,
            self.partition
        );
        self.identity = Some(identity);
        self.next_sequence = 0;
        self.expected_sequence = 0;
        self.doubtful = None;
        self.gap_from = None;
        for batch in &mut self.waiting {
            batch.sequence = None;
        }
    }

    /// The front departs, numbered where the producer is idempotent.
    pub(super) fn depart(&mut self, idempotent: bool) -> &mut Batch {
        let mut batch = self.waiting.pop_front().expect("there is a front");
        batch.open = false;
        if idempotent && batch.sequence.is_none() {
            let identity = self.identity.expect("a queue has an identity before a batch departs");
            batch.sequence = Some(Sequence { identity, base: self.next_sequence });
            self.next_sequence = increment_sequence(self.next_sequence, batch.records);
        }
        assert!(
            !idempotent || batch.sequence.is_some_and(|sequence| Some(sequence.identity) == self.identity)
        );
        let id = batch.id;
        self.flying.entry(id).or_insert(batch)
    }

    /// A batch was written.
    pub(super) fn written(&mut self, batch: &Batch) {
        let Some(sequence) = batch.sequence else { return };
        let next = increment_sequence(sequence.base, batch.records);
        if is_ahead(next, self.expected_sequence) {
            self.expected_sequence = next;
        }
        // The broker took what follows the doubtful place: so it had taken what was there.
        if self.doubtful.is_some_and(|doubtful| is_ahead(next, doubtful)) {
            self.doubtful = None;
        }
    }

    /// A batch waits to be sent again.
    pub(super) fn try_again(&mut self, batch: Batch) {
        let place = self.waiting.partition_point(|waiting| waiting.id < batch.id);
        self.waiting.insert(place, batch);
    }

    /// A batch was certainly not written, and will not be: the broker takes nothing that is numbered after it.
    pub(super) fn never_written(&mut self, batch: &Batch) {
        if batch.sequence.is_some() {
            self.gap_at(batch.id);
        }
    }

    /// A batch was given up, and nobody knows whether it was written.
    pub(super) fn perhaps_written(&mut self, batch: &Batch) {
        if let Some(sequence) = batch.sequence {
            let next = increment_sequence(sequence.base, batch.records);
            if self.doubtful.is_none_or(|doubtful| is_ahead(next, doubtful)) {
                self.doubtful = Some(next);
            }
        }
    }

    /// The broker says that a batch does not follow what it has. It is to be sent again: under a new epoch if it does
    /// follow as far as is known here, and else after what comes before it.
    pub(super) fn out_of_order(&mut self, batch: &Batch) {
        let Some(sequence) = batch.sequence else { return };
        let follows =
            !is_ahead(sequence.base, self.expected_sequence) || self.doubtful == Some(sequence.base);
        if follows {
            self.gap_at(batch.id);
        }
    }

    /// The broker knows nothing of this producer: its records are gone.
    pub(super) fn forgotten(&mut self, batch: &Batch) {
        self.gap_at(batch.id);
    }

    fn gap_at(&mut self, id: u64) {
        self.gap_from = Some(self.gap_from.map_or(id, |from| from.min(id)));
    }
}

/// Whether a sequence number comes after another, where both wrap around at 2^31.
fn is_ahead(this: i32, other: i32) -> bool {
    let distance = (i64::from(this) - i64::from(other)).rem_euclid(1 << 31);
    distance > 0 && distance < 1 << 30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_around() {
        assert!(is_ahead(1, 0) && !is_ahead(0, 1) && !is_ahead(3, 3));
        assert!(is_ahead(2, i32::MAX - 1));
        assert!(!is_ahead(i32::MAX - 1, 2));
    }
}
