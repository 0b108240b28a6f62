//! The accumulator against a broker as Kafka's is, over a network that loses, breaks and delays.

use super::{
    Acks, Partitioning, ProducerRecord,
    accumulator::{Accumulator, Added, Rules, Verdict},
    batch::{Identity, Sequence},
    delivery::Delivery,
    partitioner::Random,
};
use crate::ClientError;
use sillon_protocol::{
    ErrorCode,
    records::{Compression, RecordBatch, increment_sequence},
};
use sillon_runtime::Monotonic;
use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

fn rules() -> Rules {
    Rules {
        idempotent: true,
        linger: Duration::from_millis(5),
        batch_size: 200,
        buffer_memory: 1 << 20,
        max_request_size: 1 << 20,
        one_at_a_time: false,
        retries: u32::MAX,
        retry_backoff_ms: 10,
        retry_backoff_max_ms: 100,
        delivery_timeout: Duration::from_secs(10),
        partitioner: Partitioning::KeyHash,
    }
}

fn accumulator(rules: Rules) -> Accumulator {
    let mut accumulator = Accumulator::new(rules, 7);
    accumulator.learn("t", 1, vec![0]);
    accumulator.identify(Identity { id: 1000, epoch: 0 });
    accumulator
}

fn add(accumulator: &mut Accumulator, value: u32, now: Monotonic) -> (Delivery, bool) {
    let value = value.to_string();
    let record = ProducerRecord::new("t", &value);
    for room in [0, 200] {
        match accumulator.add(&record, 1, now, room).expect("a legal record") {
            Added::Done { delivery, wake, .. } => return (delivery, wake),
            Added::NeedsRoom(needed) => assert_eq!((room, needed), (0, 200)),
            Added::UnknownTopic => panic!("the topic is known"),
        }
    }
    panic!("there was room");
}

fn millis(now: u64) -> Monotonic {
    Monotonic(now * 1_000_000)
}

fn outcome(delivery: &mut Delivery) -> Option<Result<super::RecordMetadata, ClientError>> {
    match Pin::new(delivery).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn refused(code: ErrorCode) -> ClientError {
    ClientError::refused("produce", code, None)
}

#[test]
fn a_batch_waits_for_more_until_it_lingered_or_is_full() {
    let mut accumulator = accumulator(rules());
    assert!(add(&mut accumulator, 0, millis(0)).1, "the first of a batch sets a time");
    assert!(!add(&mut accumulator, 1, millis(1)).1, "nobody has to wake for the next");
    let plan = accumulator.plan(millis(1), |_, _| Some(1), |_| true);
    assert!(plan.requests.is_empty());
    assert_eq!(plan.due, Some(millis(5)));
    let plan = accumulator.plan(millis(5), |_, _| Some(1), |_| true);
    assert_eq!(plan.requests[&1].len(), 1);
    let mut wakes = 0;
    for value in 2..12 {
        wakes += u32::from(add(&mut accumulator, value, millis(6)).1);
    }
    assert!((1..=3).contains(&wakes), "once for each batch, not for each record: {wakes}");
}

#[test]
fn who_waits_for_room_or_flushes_does_not_linger() {
    let mut accumulator = accumulator(rules());
    let _ = add(&mut accumulator, 0, millis(0));
    accumulator.starved = 1;
    assert!(!accumulator.plan(millis(0), |_, _| Some(1), |_| true).requests.is_empty());
    accumulator.starved = 0;
    let mut accumulator = self::accumulator(rules());
    let _ = add(&mut accumulator, 0, millis(0));
    assert_eq!(accumulator.flush().len(), 1);
    assert!(!accumulator.plan(millis(0), |_, _| Some(1), |_| true).requests.is_empty());
}

#[test]
fn what_keeps_a_batch_from_being_sent_is_named() {
    let mut accumulator = accumulator(rules());
    let _ = add(&mut accumulator, 0, millis(0));
    assert!(accumulator.plan(millis(5), |_, _| None, |_| true).leaderless);
    assert!(accumulator.plan(millis(5), |_, _| Some(3), |_| false).held_up.contains(&3));
    let mut anonymous = Accumulator::new(rules(), 7);
    anonymous.learn("t", 1, vec![0]);
    let _ = add(&mut anonymous, 0, millis(0));
    assert!(anonymous.plan(millis(5), |_, _| Some(1), |_| true).identity_wanted);
}

#[test]
fn a_batch_that_took_too_long_fails_and_the_next_goes_under_a_new_epoch() {
    let mut accumulator = accumulator(rules());
    let (mut delivery, _) = add(&mut accumulator, 0, millis(0));
    let plan = accumulator.plan(millis(5), |_, _| Some(1), |_| true);
    let (queue, id) = (plan.requests[&1][0].queue, plan.requests[&1][0].id);
    let mut plan = accumulator.plan(millis(10_001), |_, _| Some(1), |_| true);
    let told = plan.completions.remove(0);
    told.outcome.complete(told.result.expect("it is told now"));
    assert!(matches!(outcome(&mut delivery), Some(Err(ClientError::TimedOut { .. }))));
    let verdict = Verdict::TryAgain(refused(ErrorCode::NETWORK_EXCEPTION));
    let done = accumulator.arrived(queue, id, verdict, millis(10_002)).expect("its room is free");
    assert!(done.result.is_none() && done.room == 200);
    let _ = add(&mut accumulator, 1, millis(10_003));
    let plan = accumulator.plan(millis(10_010), |_, _| Some(1), |_| true);
    let sequence = plan.requests[&1][0].sequence.expect("numbered");
    assert_eq!(sequence, Sequence { identity: Identity { id: 1000, epoch: 1 }, base: 0 });
}

#[test]
fn a_record_that_fits_nowhere_is_refused_at_once() {
    let mut accumulator = accumulator(Rules { max_request_size: 100, ..rules() });
    let value = [0; 100];
    let error = accumulator.add(&ProducerRecord::new("t", &value), 1, millis(0), 0).expect_err("too large");
    assert!(matches!(error, ClientError::RecordTooLarge { key: "max_request_size", .. }));
    let missing = ProducerRecord::new("t", "v").partition(1);
    let error = accumulator.add(&missing, 1, millis(0), 0).expect_err("no such partition");
    assert!(matches!(error, ClientError::NoSuchPartition { partition: 1, partitions: 1, .. }));
    assert_eq!(Acks::default().code(), -1);
}

/// A batch on its way.
#[derive(Clone)]
struct Flying {
    queue: usize,
    id: u64,
    sequence: Sequence,
    values: Vec<u32>,
}

/// One partition's log and what its broker remembers of the producer.
#[derive(Default)]
struct Broker {
    log: Vec<u32>,
    epoch: Option<i16>,
    /// First and next sequence number and base offset of the last five batches.
    recent: VecDeque<(i32, i32, i64)>,
}

impl Broker {
    /// Values that no broker takes.
    fn is_poison(value: u32) -> bool {
        value % 41 == 40
    }

    fn append(&mut self, batch: &Flying) -> Result<i64, ErrorCode> {
        let Sequence { identity, base } = batch.sequence;
        let next = increment_sequence(base, i32::try_from(batch.values.len()).expect("few"));
        if batch.values.iter().any(|value| Self::is_poison(*value)) {
            return Err(ErrorCode::MESSAGE_TOO_LARGE);
        }
        match self.epoch {
            Some(epoch) if identity.epoch < epoch => return Err(ErrorCode::INVALID_PRODUCER_EPOCH),
            Some(epoch) if identity.epoch > epoch && base != 0 => {
                return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
            }
            Some(epoch) if identity.epoch > epoch => self.recent.clear(),
            Some(_) => {
                if let Some(known) = self.recent.iter().find(|known| (known.0, known.1) == (base, next)) {
                    return Ok(known.2);
                }
                if self.recent.back().is_some_and(|last| last.1 != base) {
                    return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
                }
            }
            // As Kafka since 2.5: whatever number comes first.
            None => {}
        }
        self.epoch = Some(identity.epoch);
        let offset = self.log.len() as i64;
        self.log.extend(&batch.values);
        self.recent.push_back((base, next, offset));
        if self.recent.len() > 5 {
            self.recent.pop_front();
        }
        Ok(offset)
    }
}

struct World {
    accumulator: Accumulator,
    broker: Broker,
    /// Sent and not looked at by the broker yet; answered and not received yet.
    requests: VecDeque<Flying>,
    answers: VecDeque<(Flying, Verdict)>,
    /// Requests that outlive their connection.
    ghosts: VecDeque<Flying>,
    deliveries: Vec<(u32, Delivery)>,
    now: u64,
    random: Random,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            accumulator: accumulator(rules()),
            broker: Broker::default(),
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            ghosts: VecDeque::new(),
            deliveries: Vec::new(),
            now: 0,
            random: Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        }
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.random.next().is_multiple_of(chances)
    }

    fn add(&mut self) {
        let value = self.deliveries.len() as u32;
        let (delivery, _) = add(&mut self.accumulator, value, millis(self.now));
        self.deliveries.push((value, delivery));
    }

    fn send(&mut self) {
        let free = self.requests.len() + self.answers.len() < 5;
        let plan = self.accumulator.plan(millis(self.now), |_, _| Some(1), |_| free);
        for done in plan.completions {
            done.outcome.complete(done.result.expect("a plan tells of what it completes"));
        }
        for departing in plan.requests.into_values().flatten() {
            let (queue, id) = (departing.queue, departing.id);
            let sequence = departing.sequence.expect("an idempotent producer numbers");
            let bytes = departing.content.build(Some(sequence), Compression::None);
            self.accumulator.sent(queue, id, bytes.clone());
            let batch = RecordBatch::parse(bytes).expect("a batch");
            batch.validate_crc().expect("its checksum is right");
            assert_eq!(
                (batch.producer_epoch(), batch.base_sequence()),
                (sequence.identity.epoch, sequence.base)
            );
            let value = |value: &[u8]| std::str::from_utf8(value).expect("text").parse().expect("a number");
            let values = batch.records().expect("plain");
            let values = values.map(|record| value(record.expect("sound").value().expect("one"))).collect();
            self.requests.push_back(Flying { queue, id, sequence, values });
        }
    }

    fn serve(&mut self) {
        let Some(batch) = self.requests.pop_front() else { return };
        let trouble = |code| Verdict::TryAgain(refused(code));
        let verdict = if self.one_in(8) {
            trouble(ErrorCode::NOT_ENOUGH_REPLICAS)
        } else {
            match self.broker.append(&batch) {
                Ok(_) if self.one_in(8) => trouble(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND),
                Ok(offset) => Verdict::Written { base_offset: Some(offset), log_append_time: None },
                Err(code @ ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER) => Verdict::OutOfOrder(refused(code)),
                Err(code) => {
                    assert_ne!(code, ErrorCode::INVALID_PRODUCER_EPOCH, "an old epoch flies no more");
                    Verdict::Refused(refused(code))
                }
            }
        };
        self.answers.push_back((batch, verdict));
    }

    fn receive(&mut self) {
        if let Some((batch, verdict)) = self.answers.pop_front() {
            self.conclude(&batch, verdict);
        }
    }

    fn conclude(&mut self, batch: &Flying, verdict: Verdict) {
        let done = self.accumulator.arrived(batch.queue, batch.id, verdict, millis(self.now));
        if let Some(done) = done
            && let Some(result) = done.result
        {
            done.outcome.complete(result);
        }
    }

    fn break_connection(&mut self) {
        let lost: Vec<_> = self.answers.drain(..).map(|(batch, _)| batch).collect();
        let unserved: Vec<_> = self.requests.drain(..).collect();
        for batch in &unserved {
            if self.one_in(2) {
                self.ghosts.push_back(batch.clone());
            }
        }
        for batch in lost.iter().chain(&unserved) {
            self.conclude(batch, Verdict::TryAgain(refused(ErrorCode::NETWORK_EXCEPTION)));
        }
    }

    fn haunt(&mut self) {
        if let Some(ghost) = self.ghosts.pop_front() {
            // Nobody hears what the broker says to it.
            let _ = self.broker.append(&ghost);
        }
    }

    fn step(&mut self, faults: bool) {
        match self.random.next() % 16 {
            0..=3 => self.add(),
            4..=6 => self.send(),
            7..=9 => self.serve(),
            10..=12 => self.receive(),
            13 if faults && self.one_in(3) => self.break_connection(),
            14 => self.haunt(),
            _ => self.now += self.random.next() % 20,
        }
        if faults && self.one_in(400) {
            self.now += 10_001;
        }
    }

    fn settle(&mut self) {
        let _ = self.accumulator.flush();
        for _ in 0..20_000 {
            self.send();
            self.serve();
            self.receive();
            self.now += 1;
        }
        while !self.ghosts.is_empty() {
            self.haunt();
        }
    }

    fn judge(mut self, seed: u64) -> (usize, usize) {
        assert!(
            self.broker.log.is_sorted_by(|one, other| one < other),
            "seed {seed}: once and in order: {:?}",
            self.broker.log
        );
        let mut confirmed = 0;
        for (value, delivery) in &mut self.deliveries {
            match outcome(delivery) {
                Some(Ok(metadata)) => {
                    let offset = usize::try_from(metadata.offset.expect("told")).expect("not negative");
                    assert_eq!(self.broker.log.get(offset), Some(&*value), "seed {seed}");
                    confirmed += 1;
                }
                Some(Err(error)) if error.code() == Some(ErrorCode::MESSAGE_TOO_LARGE) => {
                    assert!(
                        self.broker.log.binary_search(value).is_err(),
                        "seed {seed}: {value} was refused"
                    );
                }
                Some(Err(_)) => {}
                None => panic!("seed {seed}: the fate of {value} is never known"),
            }
        }
        (self.deliveries.len(), confirmed)
    }
}

#[test]
fn confirmed_records_stand_once_and_in_order_whatever_the_network_does() {
    let (mut sent, mut confirmed) = (0, 0);
    for seed in 1..400 {
        let mut world = World::new(seed);
        for _ in 0..1500 {
            world.step(true);
        }
        world.settle();
        let (these_sent, these_confirmed) = world.judge(seed);
        sent += these_sent;
        confirmed += these_confirmed;
    }
    assert!(confirmed * 10 > sent * 4, "most arrive all the same: {confirmed} of {sent}");
}

#[test]
fn without_faults_everything_arrives() {
    for seed in 1..50 {
        let mut world = World::new(seed);
        for _ in 0..500 {
            world.step(false);
        }
        world.settle();
        let _ = world.judge(seed);
    }
}
