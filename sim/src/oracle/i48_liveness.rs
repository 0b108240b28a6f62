//! I48 and I50: once the faults are over, producers succeed and consumers reach the end, in time.

use super::{
    Contract,
    ghost::{Leading, Partition},
    invariant::Invariant,
    judge::Judge,
};
use sillon_broker::types::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

/// Where each consumer is in each partition.
pub(super) type Positions = BTreeMap<(u32, TopicPartition), i64>;

/// How far a consumer has to come.
#[derive(Clone, Copy, Debug)]
struct Goal {
    offset: i64,
    since_ns: u64,
}

/// What healing promised, and what of it has been kept.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    healed_ns: Option<u64>,
    /// Where something was sent since, and when first.
    sent: BTreeMap<TopicPartition, u64>,
    /// Where something that was sent since has been confirmed.
    confirmed: BTreeSet<TopicPartition>,
    /// How far each consumer has to come, and since when.
    goals: BTreeMap<(u32, TopicPartition), Goal>,
    reported: bool,
}

impl Liveness {
    /// The faults are over. Each consumer has to reach the offset given for it.
    pub fn on_healed(&mut self, now_ns: u64, ends: Positions) {
        let goal = |offset| Goal { offset, since_ns: now_ns };
        let goals = ends.into_iter().map(|(consumer, offset)| (consumer, goal(offset))).collect();
        *self = Liveness { healed_ns: Some(now_ns), goals, ..Liveness::default() };
    }

    pub fn on_sent(&mut self, now_ns: u64, partition: &TopicPartition) {
        if self.healed_ns.is_some() && !self.sent.contains_key(partition) {
            self.sent.insert(partition.clone(), now_ns);
        }
    }

    /// Records up to `next_offset` were confirmed. The first that were sent after healing are to be seen by every
    /// consumer of the partition.
    pub fn on_confirmed(
        &mut self,
        judge: &mut Judge,
        partition: &TopicPartition,
        (sent_ns, next_offset): (u64, Option<i64>),
        positions: &Positions,
    ) {
        let Some(healed_ns) = self.healed_ns else { return };
        if sent_ns < healed_ns || !self.confirmed.insert(partition.clone()) {
            return;
        }
        judge.evaluated(Invariant::I48);
        let Some(offset) = next_offset else { return };
        for (consumer, position) in positions.iter().filter(|((_, followed), _)| followed == partition) {
            if *position >= offset {
                judge.evaluated(Invariant::I50);
            } else {
                self.goals.insert(consumer.clone(), Goal { offset, since_ns: judge.now_ns() });
            }
        }
    }

    /// The topic is gone: what was promised of its partition is nothing to wait for.
    pub fn forget(&mut self, partition: &TopicPartition) {
        self.sent.remove(partition);
        self.confirmed.remove(partition);
        self.goals.retain(|(_, of), _| of != partition);
    }

    /// A consumer is at `position` now.
    pub fn on_position(&mut self, judge: &mut Judge, reader: u32, partition: &TopicPartition, position: i64) {
        if self.goals.is_empty() {
            return;
        }
        let key = (reader, partition.clone());
        if self.goals.get(&key).is_some_and(|goal| position >= goal.offset) {
            self.goals.remove(&key);
            judge.evaluated(Invariant::I50);
        }
    }

    /// Looks at the time.
    pub fn check(&mut self, judge: &mut Judge, contract: &Contract) {
        let Some(healed_ns) = self.healed_ns.filter(|_| !self.reported) else { return };
        let now_ns = judge.now_ns();
        let late = |since_ns: u64| now_ns > since_ns.saturating_add(contract.produce_within_ns);
        let hanging =
            self.sent.iter().find(|(partition, since)| !self.confirmed.contains(*partition) && late(**since));
        if let Some((partition, since_ns)) = hanging {
            self.reported = true;
            let text =
                format!("nothing sent to {partition} since {:.3} s is confirmed", *since_ns as f64 / 1e9);
            judge.violated(Invariant::I48, text);
        } else if self.confirmed.is_empty() && late(healed_ns) {
            self.reported = true;
            judge.violated(Invariant::I48, "no producer has succeeded anywhere".into());
        }
        let is_late = |goal: &Goal| now_ns > goal.since_ns.saturating_add(contract.catch_up_within_ns);
        if let Some(((reader, partition), goal)) = self.goals.iter().find(|(_, goal)| is_late(goal)) {
            self.reported = true;
            judge.violated(
                Invariant::I50,
                format!("consumer {reader} has not reached {} of {partition}", goal.offset),
            );
        }
    }

    /// Everything that was promised has been kept.
    pub fn converged(&self) -> bool {
        self.healed_ns.is_some()
            && self.goals.is_empty()
            && !self.confirmed.is_empty()
            && self.sent.keys().all(|partition| self.confirmed.contains(partition))
    }
}

/// A leader learnt who is in sync. Where all of them hold more than is committed, it is to be committed now: nothing
/// else need happen any more that would make the leader look.
pub(super) fn on_confirmed(contract: &Contract, leading: &mut Leading, replica: &Partition, now_ns: u64) {
    leading.owed = None;
    // How much is on the leader's disk is its own affair.
    if contract.flush_every_message || leading.enough_until.is_some() {
        return;
    }
    let mut ends = leading
        .isr
        .iter()
        .filter(|member| **member != replica.node)
        .map(|member| leading.reported.get(member).map(|report| report.log_end));
    let held = ends.try_fold(replica.log_end, |least, end| Some(least.min(end?)));
    leading.owed = held
        .filter(|held| replica.high_watermark.is_some_and(|known| known < *held))
        .map(|held| (now_ns, held));
}

/// A leader's high watermark moves.
pub(super) fn on_moved(judge: &mut Judge, contract: &Contract, leading: &mut Leading) {
    let Some((since_ns, held)) = leading.owed.take() else { return };
    let late_ns = judge.now_ns().saturating_sub(since_ns);
    judge.demand(Invariant::I48, late_ns <= contract.slack_ns, || {
        format!(
            "the high watermark moves only now; all in sync have held what is below {held} for {} ms",
            late_ns / 1_000_000
        )
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_all_in_sync_hold_is_committed_at_once() {
        use crate::oracle::cluster_testing::Cluster;
        // B19: the one that held it back has gone.
        for (ms, legal) in [(1, true), (30_000, false)] {
            let cluster = Cluster::three();
            cluster.lead(0, 0, &[0, 1, 2]);
            cluster.append(0, 0, 2);
            cluster.fetch(1);
            cluster.fetch(2);
            cluster.advance(0, 2);
            cluster.append(0, 2, 2);
            cluster.fetch(1);
            cluster.confirm_isr(0, 1, &[0, 1]);
            cluster.later_ms(ms);
            cluster.advance(0, 4);
            match legal {
                true => cluster.assert_legal(&[Invariant::I48]),
                false => cluster.assert_violated(Invariant::I48),
            }
        }
    }

    use crate::oracle::{
        Contract, Invariant,
        events::{ClientEvent, Purpose},
        testing::Run,
    };

    fn healed() -> Run {
        let contract =
            Contract { produce_within_ns: 1_000, catch_up_within_ns: 2_000, ..Contract::default() };
        let run = Run::with(contract);
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        let following = ClientEvent::Following { reader: 1, partition: run.partition.clone(), from: 0 };
        run.oracle.client_event(following);
        run.oracle.healed(crate::oracle::Healing::Full);
        run
    }

    fn produce(run: &Run) {
        run.sending(2, 2, None);
        run.append(2, 2);
        run.high_watermark(2, 4);
        run.confirmed(2, 2);
    }

    #[test]
    fn in_time() {
        let run = healed();
        run.later(500);
        produce(&run);
        assert!(!run.oracle.converged());
        run.read(1, Purpose::Tail, 0, &[0]);
        assert!(!run.oracle.converged(), "what came after healing is to be seen too");
        run.read(1, Purpose::Tail, 2, &[2]);
        assert!(run.oracle.converged());
        run.later(100_000);
        run.oracle.check_liveness();
        run.assert_legal(&[Invariant::I48, Invariant::I50]);
    }

    #[test]
    fn no_producer_succeeds() {
        let run = healed();
        run.read(1, Purpose::Tail, 0, &[0]);
        run.later(1_001);
        run.oracle.check_liveness();
        run.assert_violated(Invariant::I48);
    }

    #[test]
    fn one_partition_hangs() {
        let run = healed();
        produce(&run);
        run.later(900);
        let mut other = run.sent_batch(8, 8, 1, None);
        other.partition = sillon_broker::types::TopicPartition::new("t", 1);
        run.oracle.client_event(ClientEvent::Sending(other));
        run.later(1_001);
        run.oracle.check_liveness();
        run.assert_violated(Invariant::I48);
    }

    #[test]
    fn a_consumer_does_not_come_on() {
        let run = healed();
        run.read(1, Purpose::Tail, 0, &[0]);
        produce(&run);
        run.later(2_001);
        run.oracle.check_liveness();
        run.assert_violated(Invariant::I50);
    }
}
