//! What a producer has to send and what came of it, as a pure state machine: which batch goes next, what an answer
//! means, when to give up.
//!
//! ```text
//!   add ─► lane (one for each partition, in order) ─► next_to_send ─► the network
//!             ▲ an ambiguous answer: wait until the lane is quiet, then send again from its front
//!             └ answer(verdict) ─► Resolution: confirmed, failed, unknown
//! ```
//! An idempotent producer sends a batch again, with the same sequence, until it knows; the broker tells repetitions.
//! Where the sequence is broken for good, or the time is over, it starts anew with another producer id, and what is
//! unresolved then stays unknown. Without idempotence each batch is sent once. Never reads a clock, never sends.

use crate::oracle::{BatchId, SentBatch};
use bytes::Bytes;
use sillon_broker::types::TopicPartition;
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// A batch that waits for its result.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub sent: SentBatch,
    pub bytes: Bytes,
    /// How often it was sent so that the broker may have it.
    attempts: u32,
    in_flight: bool,
    first_sent: Option<Monotonic>,
}

impl Outgoing {
    pub fn new(sent: SentBatch, bytes: Bytes) -> Outgoing {
        Outgoing { sent, bytes, attempts: 0, in_flight: false, first_sent: None }
    }
}

/// What an answer says about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in the log; at this offset, where the broker remembers.
    Confirmed(Option<i64>),
    /// This attempt did not put it there, and no other with these bytes would.
    Refused,
    /// This attempt did not put it there, because the batch before is not there.
    OutOfOrder,
    /// It was not sent.
    NotSent,
    /// Nobody knows.
    Ambiguous,
}

impl Verdict {
    /// What Kafka's error code says about a batch.
    pub fn of(code: ErrorCode, base_offset: i64) -> Verdict {
        match code {
            ErrorCode::NONE => Verdict::Confirmed((base_offset >= 0).then_some(base_offset)),
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Verdict::Confirmed(None),
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
            | ErrorCode::UNKNOWN_PRODUCER_ID
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING => Verdict::OutOfOrder,
            ErrorCode::MESSAGE_TOO_LARGE
            | ErrorCode::RECORD_LIST_TOO_LARGE
            | ErrorCode::INVALID_RECORD
            | ErrorCode::INVALID_TIMESTAMP
            | ErrorCode::INVALID_REQUIRED_ACKS
            | ErrorCode::INVALID_TOPIC_EXCEPTION
            | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE => Verdict::Refused,
            // Checked before anything is written.
            ErrorCode::NOT_ENOUGH_REPLICAS | ErrorCode::CORRUPT_MESSAGE => Verdict::NotSent,
            // Among the rest: a broker that is not leader any more, or holds the partition no more, says so also for what it
            // had appended while it did, and what waits for replicas.
            _ => Verdict::Ambiguous,
        }
    }
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    Confirmed(BatchId, Option<i64>),
    Failed(BatchId),
    Unknown(BatchId),
}

/// The batches of one partition.
#[derive(Debug, Default)]
struct Lane {
    batches: VecDeque<Outgoing>,
    /// Something has to be sent again: nothing goes out before all answers are in.
    stalled: bool,
}

impl Lane {
    fn is_quiet(&self) -> bool {
        self.batches.iter().all(|batch| !batch.in_flight)
    }
}

/// All batches of one producer.
#[derive(Debug)]
pub(super) struct Outbox {
    idempotent: bool,
    /// The most unresolved batches in a lane.
    in_flight: usize,
    lanes: BTreeMap<TopicPartition, Lane>,
}

impl Outbox {
    pub fn new(idempotent: bool, in_flight: usize) -> Outbox {
        Outbox { idempotent, in_flight, lanes: BTreeMap::new() }
    }

    pub fn has_room(&self, partition: &TopicPartition) -> bool {
        self.lanes.get(partition).is_none_or(|lane| lane.batches.len() < self.in_flight)
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.values().all(|lane| lane.batches.is_empty())
    }

    pub fn add(&mut self, batch: Outgoing) {
        self.lanes.entry(batch.sent.partition.clone()).or_default().batches.push_back(batch);
    }

    /// The partitions that have something to send.
    pub fn waiting(&self) -> Vec<TopicPartition> {
        let waits = |lane: &Lane| {
            (!lane.stalled || lane.is_quiet()) && lane.batches.iter().any(|batch| !batch.in_flight)
        };
        self.lanes.iter().filter(|(_, lane)| waits(lane)).map(|(partition, _)| partition.clone()).collect()
    }

    /// The next batch to send of those that have a way, and whether it is its first time. It counts as on its way from now
    /// on.
    pub fn next_to_send(
        &mut self,
        now: Monotonic,
        has_way: impl Fn(&TopicPartition) -> bool,
    ) -> Option<(SentBatch, Bytes, bool)> {
        for (_, lane) in self.lanes.iter_mut().filter(|(partition, _)| has_way(partition)) {
            if lane.stalled && !lane.is_quiet() {
                continue;
            }
            lane.stalled = false;
            if let Some(batch) = lane.batches.iter_mut().find(|batch| !batch.in_flight) {
                let is_first = batch.first_sent.is_none();
                batch.first_sent.get_or_insert(now);
                batch.in_flight = true;
                batch.attempts += 1;
                return Some((batch.sent.clone(), batch.bytes.clone(), is_first));
            }
        }
        None
    }

    /// Takes note of an answer. `true` means that the producer needs another id: call [`Outbox::start_anew`].
    pub fn answer(
        &mut self,
        partition: &TopicPartition,
        id: BatchId,
        verdict: Verdict,
    ) -> (Option<Resolution>, bool) {
        let Some(lane) = self.lanes.get_mut(partition) else { return (None, false) };
        let Some(index) = lane.batches.iter().position(|batch| batch.sent.id == id) else {
            return (None, false);
        };
        let batch = &mut lane.batches[index];
        batch.in_flight = false;
        if verdict == Verdict::NotSent {
            batch.attempts -= 1;
        }
        // An earlier attempt may still be on its way, or have succeeded unheard.
        let refused = if batch.attempts <= 1 { Resolution::Failed(id) } else { Resolution::Unknown(id) };
        let resolution = match verdict {
            Verdict::Confirmed(base_offset) => Some(Resolution::Confirmed(id, base_offset)),
            Verdict::Refused => Some(refused),
            Verdict::OutOfOrder if !self.idempotent || index == 0 => Some(refused),
            Verdict::NotSent if !self.idempotent => Some(Resolution::Failed(id)),
            Verdict::Ambiguous if !self.idempotent => Some(Resolution::Unknown(id)),
            Verdict::OutOfOrder | Verdict::NotSent | Verdict::Ambiguous => None,
        };
        match resolution {
            Some(_) => {
                lane.batches.remove(index);
            }
            None => lane.stalled = true,
        }
        let is_broken =
            self.idempotent && matches!(resolution, Some(Resolution::Failed(_) | Resolution::Unknown(_)));
        (resolution, is_broken)
    }

    /// Whether a batch has been tried for longer than it may.
    pub fn has_expired(&self, now: Monotonic, timeout: Duration) -> bool {
        let too_old =
            |batch: &Outgoing| batch.first_sent.is_some_and(|sent| now.saturating_since(sent) > timeout);
        self.lanes.values().any(|lane| lane.batches.iter().any(too_old))
    }

    /// Gives up everything that is unresolved: nothing of it will be sent again.
    pub fn start_anew(&mut self) -> Vec<Resolution> {
        let batches = std::mem::take(&mut self.lanes).into_values().flat_map(|lane| lane.batches);
        // What was never sent has no result.
        let sent = batches.filter(|batch| batch.first_sent.is_some());
        sent.map(|batch| {
            if batch.attempts == 0 {
                Resolution::Failed(batch.sent.id)
            } else {
                Resolution::Unknown(batch.sent.id)
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Monotonic = Monotonic(0);

    fn partition() -> TopicPartition {
        TopicPartition::new("t", 0)
    }

    fn id(first: u64) -> BatchId {
        BatchId { client: 1, first }
    }

    fn outbox(idempotent: bool, batches: u64) -> Outbox {
        let mut outbox = Outbox::new(idempotent, 5);
        for first in 0..batches {
            let sent = SentBatch {
                id: id(first),
                partition: partition(),
                topic_id: Default::default(),
                count: 1,
                crc: 0,
                sequence: None,
                acks: -1,
            };
            outbox.add(Outgoing::new(sent, Bytes::new()));
        }
        outbox
    }

    fn send_all(outbox: &mut Outbox) -> Vec<u64> {
        std::iter::from_fn(|| outbox.next_to_send(NOW, |_| true).map(|(sent, ..)| sent.id.first)).collect()
    }

    fn answer(outbox: &mut Outbox, first: u64, verdict: Verdict) -> (Option<Resolution>, bool) {
        outbox.answer(&partition(), id(first), verdict)
    }

    #[test]
    fn a_lane_is_sent_in_order_and_confirmed_in_any() {
        let mut outbox = outbox(true, 3);
        assert_eq!(send_all(&mut outbox), [0, 1, 2]);
        for first in [1, 0, 2] {
            let confirmed = Resolution::Confirmed(id(first), Some(7));
            assert_eq!(answer(&mut outbox, first, Verdict::Confirmed(Some(7))), (Some(confirmed), false));
        }
        assert!(outbox.is_empty());
    }

    #[test]
    fn after_a_loss_the_lane_waits_and_repeats_from_its_front() {
        let mut outbox = outbox(true, 3);
        send_all(&mut outbox);
        assert_eq!(answer(&mut outbox, 0, Verdict::Ambiguous), (None, false));
        assert!(send_all(&mut outbox).is_empty());
        assert_eq!(answer(&mut outbox, 1, Verdict::OutOfOrder), (None, false));
        assert_eq!(answer(&mut outbox, 2, Verdict::OutOfOrder), (None, false));
        assert_eq!(send_all(&mut outbox), [0, 1, 2]);
    }

    #[test]
    fn a_sequence_broken_at_the_front_is_broken_for_good() {
        let mut outbox = outbox(true, 2);
        send_all(&mut outbox);
        assert_eq!(answer(&mut outbox, 0, Verdict::OutOfOrder), (Some(Resolution::Failed(id(0))), true));
        assert_eq!(outbox.start_anew(), [Resolution::Unknown(id(1))]);
        assert!(outbox.is_empty());
        assert_eq!(answer(&mut outbox, 1, Verdict::Confirmed(Some(3))), (None, false), "too late to count");
    }

    #[test]
    fn a_refusal_says_nothing_of_earlier_attempts() {
        let mut outbox = outbox(true, 1);
        send_all(&mut outbox);
        answer(&mut outbox, 0, Verdict::Ambiguous);
        send_all(&mut outbox);
        assert_eq!(answer(&mut outbox, 0, Verdict::Refused), (Some(Resolution::Unknown(id(0))), true));
    }

    #[test]
    fn what_was_not_sent_does_not_count() {
        let mut outbox = outbox(true, 1);
        send_all(&mut outbox);
        answer(&mut outbox, 0, Verdict::NotSent);
        send_all(&mut outbox);
        assert_eq!(answer(&mut outbox, 0, Verdict::Refused), (Some(Resolution::Failed(id(0))), true));
    }

    #[test]
    fn without_idempotence_nothing_is_repeated() {
        for (verdict, resolution) in [
            (Verdict::Ambiguous, Resolution::Unknown(id(0))),
            (Verdict::NotSent, Resolution::Failed(id(0))),
            (Verdict::Refused, Resolution::Failed(id(0))),
        ] {
            let mut outbox = outbox(false, 1);
            send_all(&mut outbox);
            assert_eq!(answer(&mut outbox, 0, verdict), (Some(resolution), false));
            assert!(outbox.is_empty());
        }
    }

    #[test]
    fn the_time_counts_from_the_first_sending() {
        let mut outbox = outbox(true, 1);
        let second = Duration::from_secs(1);
        assert!(!outbox.has_expired(Monotonic(9_000_000_000), second));
        send_all(&mut outbox);
        assert!(!outbox.has_expired(Monotonic(1_000_000_000), second));
        assert!(outbox.has_expired(Monotonic(1_000_000_001), second));
    }

    #[test]
    fn a_partition_without_a_way_holds_up_no_other() {
        let mut outbox = outbox(true, 1);
        let mut other = outbox.next_to_send(NOW, |_| true).expect("there is one").0;
        assert_eq!(outbox.waiting(), []);
        answer(&mut outbox, 0, Verdict::Ambiguous);
        (other.partition, other.id) = (TopicPartition::new("t", 1), id(9));
        outbox.add(Outgoing::new(other, Bytes::new()));
        assert_eq!(outbox.waiting().len(), 2);
        let sent = outbox.next_to_send(NOW, |partition| partition.partition == 1);
        assert_eq!(sent.expect("it has a way").0.id, id(9));
        assert!(outbox.next_to_send(NOW, |partition| partition.partition == 1).is_none());
    }

    #[test]
    fn a_leader_that_was_deposed_may_have_appended() {
        for code in [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::UNKNOWN_TOPIC_ID] {
            assert_eq!(Verdict::of(code, -1), Verdict::Ambiguous);
        }
        assert_eq!(Verdict::of(ErrorCode::NOT_ENOUGH_REPLICAS, -1), Verdict::NotSent);
    }
}
