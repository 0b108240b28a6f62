//! Three replicas of one partition, made of the pure states alone, with a controller and a network that delays, reorders
//! and loses: a seeded walk through elections, restarts and appends, with every invariant looked at after every step.

use crate::{
    log::epoch_cache::EpochCache,
    metadata::PartitionImage,
    observe::EpochStart,
    partition::{
        follower::{FetchedFrom, FollowerState, FollowerStep, LeaderAnswer, OwnLog},
        leader::{FollowerFetch, LeaderEffect, LeaderSettings, LeaderStart, LeaderState, TrueState},
    },
    types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch},
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::time::Duration;

const REPLICAS: usize = 3;

/// A generator of its own, so that a seed means the same for ever.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// A record: the epoch it was written in, and something that no other record has.
type Record = (LeaderEpoch, u64);

enum Role {
    Leader(Box<LeaderState>),
    Follower(FollowerState),
}

struct Replica {
    role: Role,
    log: Vec<Record>,
    epochs: EpochCache,
    broker_epoch: BrokerEpoch,
}

impl Replica {
    fn leader_epoch(&self) -> LeaderEpoch {
        match &self.role {
            Role::Leader(leader) => leader.leader_epoch(),
            Role::Follower(follower) => follower.leader_epoch(),
        }
    }

    fn high_watermark(&self) -> Offset {
        match &self.role {
            Role::Leader(leader) => leader.high_watermark(),
            Role::Follower(follower) => follower.high_watermark(),
        }
    }

    fn end(&self) -> Offset {
        Offset(self.log.len() as i64)
    }

    fn append(&mut self, record: Record) {
        if self.epochs.latest().is_some_and(|latest| latest.epoch > record.0) {
            self.epochs.truncate_end(self.end());
        }
        self.epochs.assign(record.0, self.end());
        self.log.push(record);
    }
}

#[derive(Clone)]
enum Message {
    Metadata {
        to: usize,
        state: PartitionImage,
    },
    Fetch {
        from: usize,
        to: usize,
        epoch: LeaderEpoch,
        offset: Offset,
        last: LeaderEpoch,
        broker: BrokerEpoch,
    },
    Answer {
        to: usize,
        from: FetchedFrom,
        answer: LeaderAnswer,
        records: Vec<Record>,
    },
    Propose {
        from: usize,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        isr: Vec<BrokerId>,
    },
    Proposed {
        to: usize,
        asked: (LeaderEpoch, PartitionEpoch),
        result: Result<TrueState, ErrorCode>,
    },
}

struct World {
    dice: Dice,
    now: Monotonic,
    replicas: Vec<Replica>,
    truth: PartitionImage,
    network: Vec<Message>,
    settings: LeaderSettings,
    /// What was ever declared committed.
    committed: Vec<Record>,
    records: u64,
}

fn broker(index: usize) -> BrokerId {
    BrokerId(index as i32)
}

impl World {
    fn new(seed: u64) -> World {
        let all: Vec<BrokerId> = (0..REPLICAS).map(broker).collect();
        let truth = PartitionImage {
            leader: None,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            replicas: all.clone(),
            adding: Vec::new(),
            removing: Vec::new(),
            isr: all,
            eligible_leader_replicas: Vec::new(),
            last_known_leader: None,
            unproven: Vec::new(),
        };
        let replica = |_| Replica {
            role: Role::Follower(FollowerState::new(None, LeaderEpoch::NONE, Offset::ZERO)),
            log: Vec::new(),
            epochs: EpochCache::default(),
            broker_epoch: BrokerEpoch(1),
        };
        let min_insync_replicas = 1 + (seed % 2) as usize;
        World {
            dice: Dice(seed),
            now: Monotonic(0) + Duration::from_secs(1000),
            replicas: (0..REPLICAS).map(replica).collect(),
            truth,
            network: Vec::new(),
            settings: LeaderSettings { min_insync_replicas, lag_limit: Duration::from_secs(40) },
            committed: Vec::new(),
            records: 0,
        }
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_secs(1);
        let replica = self.dice.below(REPLICAS);
        match self.dice.below(100) {
            0..=1 => self.elect(),
            2 => self.restart(replica),
            3..=12 => self.append(replica),
            13..=16 => self.tick(replica),
            17..=40 => self.send_fetch(replica),
            41..=44 => self.send_proposal(replica),
            _ => self.deliver(),
        }
        self.check();
    }

    /// The controller makes another member of the in-sync set leader.
    fn elect(&mut self) {
        let isr = self.truth.isr.clone();
        let leader = isr[self.dice.below(isr.len())];
        self.truth.leader = Some(leader);
        self.truth.leader_epoch.0 += 1;
        self.truth.partition_epoch.0 += 1;
        let log = &self.replicas[leader.0 as usize].log;
        assert!(log.starts_with(&self.committed), "I11: a leader holds all that was committed");
        self.announce();
    }

    fn announce(&mut self) {
        for to in 0..REPLICAS {
            self.network.push(Message::Metadata { to, state: self.truth.clone() });
        }
    }

    /// A process ends and comes back with its log, and with a high watermark that was noted some time ago.
    fn restart(&mut self, index: usize) {
        let noted = self.dice.below(self.replicas[index].high_watermark().0 as usize + 1);
        let replica = &mut self.replicas[index];
        let end = replica.end();
        replica.epochs.truncate_end(end);
        replica.role = Role::Follower(FollowerState::new(None, LeaderEpoch::NONE, Offset(noted as i64)));
        replica.broker_epoch.0 += 1;
        // A new process asks for the metadata anew: what was on its way to the old one never arrives.
        self.network.retain(|message| !matches!(message, Message::Metadata { to, .. } if *to == index));
        self.network.push(Message::Metadata { to: index, state: self.truth.clone() });
        // The controller gives a partition whose leader was gone to somebody, and be it the same one.
        if self.truth.leader == Some(broker(index)) {
            self.elect();
        }
    }

    fn append(&mut self, index: usize) {
        let Role::Leader(leader) = &self.replicas[index].role else { return };
        let epoch = leader.leader_epoch();
        self.records += 1;
        self.replicas[index].append((epoch, self.records));
        let end = self.replicas[index].end();
        let Role::Leader(leader) = &mut self.replicas[index].role else { return };
        leader.on_local_append(end);
        let effects = leader.on_stable(end);
        self.note(index, effects);
    }

    fn tick(&mut self, index: usize) {
        let now = self.now;
        if let Role::Leader(leader) = &mut self.replicas[index].role {
            let effects = leader.on_tick(now);
            self.note(index, effects);
        }
    }

    fn send_fetch(&mut self, index: usize) {
        let replica = &self.replicas[index];
        let Role::Follower(follower) = &replica.role else { return };
        let Some(leader) = follower.leader() else { return };
        self.network.push(Message::Fetch {
            from: index,
            to: leader.0 as usize,
            epoch: follower.leader_epoch(),
            offset: replica.end(),
            last: replica.log.last().map_or(LeaderEpoch::NONE, |record| record.0),
            broker: replica.broker_epoch,
        });
    }

    fn send_proposal(&mut self, index: usize) {
        let Role::Leader(leader) = &self.replicas[index].role else { return };
        if let Some(proposal) = leader.proposal() {
            self.network.push(Message::Propose {
                from: index,
                leader_epoch: proposal.leader_epoch,
                partition_epoch: proposal.partition_epoch,
                isr: proposal.isr.into_iter().map(|(broker, _)| broker).collect(),
            });
        }
    }

    /// One message arrives, any of them; or it is lost, or arrives a second time later.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let index = self.dice.below(self.network.len());
        let message = match self.dice.below(10) {
            0 => self.network[index].clone(),
            _ => self.network.swap_remove(index),
        };
        let is_metadata = matches!(message, Message::Metadata { .. });
        if self.dice.below(10) == 0 && !is_metadata {
            return;
        }
        match message {
            Message::Metadata { to, state } => self.on_metadata(to, &state),
            Message::Fetch { from, to, epoch, offset, last, broker } => {
                self.on_fetch((from, broker), to, epoch, offset, last);
            }
            Message::Answer { to, from, answer, records } => self.on_answer(to, from, &answer, &records),
            Message::Propose { from, leader_epoch, partition_epoch, isr } => {
                self.on_propose(from, (leader_epoch, partition_epoch), isr);
            }
            Message::Proposed { to, asked, result } => {
                if let Role::Leader(leader) = &mut self.replicas[to].role {
                    let effects = leader.on_proposal_result(asked, result);
                    self.note(to, effects);
                }
            }
        }
    }

    fn on_metadata(&mut self, index: usize, state: &PartitionImage) {
        let (now, settings) = (self.now, self.settings);
        let replica = &mut self.replicas[index];
        if state.leader_epoch < replica.leader_epoch() {
            return;
        }
        if state.leader != Some(broker(index)) {
            if state.leader_epoch > replica.leader_epoch() {
                let high_watermark = replica.high_watermark();
                let follower = FollowerState::new(state.leader, state.leader_epoch, high_watermark);
                replica.role = Role::Follower(follower);
            }
            return;
        }
        if let Role::Leader(leader) = &mut replica.role
            && leader.leader_epoch() == state.leader_epoch
        {
            let effects = leader.on_metadata(state, now);
            return self.note(index, effects);
        }
        let end = replica.end();
        replica.epochs.assign(state.leader_epoch, end);
        let start = LeaderStart {
            me: broker(index),
            epoch_start: replica.epochs.latest().expect("just entered").start_offset,
            high_watermark: replica.high_watermark(),
            log_end: end,
            now,
        };
        let mut leader = LeaderState::new(state, start, settings);
        let effects = leader.on_stable(end);
        replica.role = Role::Leader(Box::new(leader));
        self.note(index, effects);
    }

    fn on_fetch(
        &mut self,
        (from, broker_epoch): (usize, BrokerEpoch),
        to: usize,
        epoch: LeaderEpoch,
        offset: Offset,
        last: LeaderEpoch,
    ) {
        let now = self.now;
        let replica = &mut self.replicas[to];
        let end = replica.end();
        let Role::Leader(leader) = &mut replica.role else { return };
        if leader.leader_epoch() != epoch {
            return;
        }
        let mut answer = LeaderAnswer {
            error: ErrorCode::NONE,
            high_watermark: leader.high_watermark(),
            log_start: Offset::ZERO,
            diverging: None,
            has_records: false,
        };
        let (own, own_end) = replica.epochs.end_offset_for(last, end);
        let mut records = Vec::new();
        let mut effects = Vec::new();
        if last != LeaderEpoch::NONE && (own < last || own_end < offset) {
            answer.diverging = Some(EpochStart { epoch: own, start_offset: own_end });
        } else {
            let fetch = FollowerFetch {
                replica: broker(from),
                broker_epoch,
                fetch_offset: offset,
                log_start: Offset::ZERO,
                registered: Some(self.replicas[from].broker_epoch),
                now,
            };
            let Role::Leader(leader) = &mut self.replicas[to].role else { return };
            let Ok(noted) = leader.on_follower_fetch(&fetch) else { return };
            effects = noted;
            answer.high_watermark = leader.high_watermark();
            let count = self.dice.below(4);
            records.extend(self.replicas[to].log[offset.0 as usize..].iter().take(count));
            answer.has_records = !records.is_empty();
        }
        let origin =
            FetchedFrom { leader: broker(to), leader_epoch: epoch, fetch_offset: offset, last_epoch: last };
        self.network.push(Message::Answer { to: from, from: origin, answer, records });
        self.note(to, effects);
    }

    fn on_answer(&mut self, index: usize, from: FetchedFrom, answer: &LeaderAnswer, records: &[Record]) {
        let committed = self.committed.len() as i64;
        let replica = &mut self.replicas[index];
        let end = replica.end();
        let own = OwnLog {
            log_start: Offset::ZERO,
            log_end: end,
            last_epoch: replica.log.last().map_or(LeaderEpoch::NONE, |record| record.0),
            end_of_diverging_epoch: answer.diverging.map_or((LeaderEpoch::NONE, Offset(-1)), |diverging| {
                replica.epochs.end_offset_for(diverging.epoch, end)
            }),
        };
        let Role::Follower(follower) = &replica.role else { return };
        let Ok(steps) = follower.on_answer(from, answer, own) else { return };
        for step in steps {
            match step {
                FollowerStep::TruncateTo { to, .. } => {
                    let same = replica.log.iter().zip(&self.committed).take_while(|(a, b)| a == b).count();
                    assert!(to.0 >= (same as i64).min(committed), "I08: nothing committed is cut off");
                    assert!(to < end, "every cut is a step forward");
                    replica.log.truncate(to.0 as usize);
                    replica.epochs.truncate_end(to);
                    let Role::Follower(follower) = &mut replica.role else { return };
                    assert_eq!(follower.on_log_replaced(Offset::ZERO, to), None, "I09");
                }
                FollowerStep::Append => records.iter().for_each(|record| replica.append(*record)),
                FollowerStep::LearnHighWatermark { leaders } => {
                    let end = replica.end();
                    let Role::Follower(follower) = &mut replica.role else { return };
                    follower.learn_high_watermark(leaders, end);
                }
                FollowerStep::RaiseLogStart { to } => assert_eq!(to, Offset::ZERO, "no record is removed"),
                FollowerStep::StartAfresh { .. } => panic!("no record is removed at the start here"),
            }
        }
    }

    /// The controller: compare and set on the state's epoch.
    fn on_propose(&mut self, from: usize, asked: (LeaderEpoch, PartitionEpoch), isr: Vec<BrokerId>) {
        let current = (self.truth.leader_epoch, self.truth.partition_epoch);
        let result = if asked != current || self.truth.leader != Some(broker(from)) {
            Err(ErrorCode::INVALID_UPDATE_VERSION)
        } else {
            self.truth.isr = isr.clone();
            self.truth.partition_epoch.0 += 1;
            self.announce();
            let (leader_epoch, partition_epoch) = (self.truth.leader_epoch, self.truth.partition_epoch);
            Ok(TrueState { leader_epoch, partition_epoch, isr })
        };
        self.network.push(Message::Proposed { to: from, asked, result });
    }

    /// What a leader declares committed is so for ever.
    fn note(&mut self, index: usize, effects: Vec<LeaderEffect>) {
        for effect in effects {
            if let LeaderEffect::HighWatermark { to, .. } = effect {
                let declared = &self.replicas[index].log[..to.0 as usize];
                let common = declared.len().min(self.committed.len());
                assert_eq!(
                    declared[..common],
                    self.committed[..common],
                    "committed records stay what they are"
                );
                if declared.len() > common {
                    self.committed.extend_from_slice(&declared[common..]);
                }
            }
        }
    }

    fn check(&self) {
        for (index, replica) in self.replicas.iter().enumerate() {
            let high_watermark = replica.high_watermark().0 as usize;
            assert!(high_watermark <= replica.log.len(), "I09: the high watermark is within the log");
            assert!(high_watermark <= self.committed.len(), "I18: what is shown is committed");
            assert_eq!(replica.log[..high_watermark], self.committed[..high_watermark], "I18");
            assert!(
                replica.log.is_sorted_by_key(|record| record.0),
                "I67: epochs do not go back along a log"
            );
            for (offset, record) in replica.log.iter().enumerate() {
                assert_eq!(replica.epochs.epoch_for(Offset(offset as i64)), Some(record.0), "I13");
            }
            if let Role::Leader(leader) = &replica.role {
                let latest = replica.epochs.latest().map(|entry| entry.epoch);
                assert_eq!(latest, Some(leader.leader_epoch()), "I13: a leader's own epoch is in its cache");
                for member in &self.truth.isr {
                    let log = &self.replicas[member.0 as usize].log;
                    let has_all = log.get(..high_watermark) == Some(&replica.log[..high_watermark]);
                    assert!(has_all, "I05: {member} is in sync and misses what {index} has committed");
                }
            }
            for other in &self.replicas[index + 1..] {
                check_matching(&replica.log, &other.log);
            }
        }
    }
}

/// I10: where two logs have a record of the same epoch at the same offset, they are the same up to there.
fn check_matching(one: &[Record], other: &[Record]) {
    let last_same = one.iter().zip(other).rposition(|(a, b)| a.0 == b.0);
    let length = last_same.map_or(0, |last| last + 1);
    assert_eq!(one[..length], other[..length], "I10: logs with the same epoch at an offset match");
}

#[test]
fn replicas_agree_whatever_is_delayed_lost_or_restarted() {
    let mut committed = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        world.elect();
        for _ in 0..1500 {
            world.step();
        }
        committed += world.committed.len();
    }
    assert!(committed > 60 * 20, "the walks get somewhere: {committed}");
}
