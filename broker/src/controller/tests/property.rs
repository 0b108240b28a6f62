//! Random commands, brokers that come and go cleanly or not, and controllers that crash between any two writes. Beside
//! it runs what is really true of the replicas: which of them hold everything that was committed.

use super::*;
use crate::{
    controller::{ConfigEdit, ConfigOperation, ElectionKind, IsrProposal, LogAnswer, LogEnd, LogQuestion},
    metadata::MetadataImage,
    types::{LeaderEpoch, Offset},
};
use std::collections::BTreeSet;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).expect("31 bits") % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn broker(&mut self) -> i32 {
        i32::try_from(self.below(5)).expect("small") + 1
    }
}

type Key = (TopicId, i32);

struct Run {
    world: World,
    random: Random,
    /// For each partition the brokers that hold everything that was committed.
    holders: BTreeMap<Key, BTreeSet<BrokerId>>,
    names: Vec<Arc<str>>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut world = World::new(4);
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let large = if random.one_in(6) { 600 } else { 3 };
        let command = world.create_command("big", large, 2);
        world.run(command).unwrap();
        let mut run = Run { world, random, holders: BTreeMap::new(), names: vec!["big".into()] };
        let before = MetadataImage::default();
        run.judge(&before);
        run
    }

    /// Carries a command out, with a crash at some point now and then.
    fn carry_out(&mut self, command: &Command) {
        for _ in 0..50 {
            let before = self.world.controller.image().as_ref().clone();
            let Ok(plan) = self.world.controller.plan(command) else { return };
            let crash = self.random.one_in(12);
            let is_written = !crash || self.random.one_in(2);
            if is_written && !plan.writes.is_empty() {
                let zxid = match self.world.tree.apply(&plan.writes) {
                    Ok(zxid) => zxid,
                    Err(reason) => {
                        // Only what is known of registrations can be too old.
                        let is_late = [layout::BROKER_IDS, layout::REGISTRATIONS]
                            .iter()
                            .any(|parent| reason.starts_with(&format!("Check {{ path: \"{parent}/")));
                        assert!(is_late, "{command:?}: {reason}");
                        let brokers = self.world.registered();
                        self.carry_out(&Command::BrokersChanged(brokers));
                        continue;
                    }
                };
                self.world.controller.commit(&plan, zxid);
                self.world.check();
                self.judge(&before);
            }
            if crash {
                self.take_over();
                return;
            }
            if !plan.unfinished {
                return;
            }
        }
        panic!("{command:?} does not come to an end");
    }

    fn take_over(&mut self) {
        let before = self.world.controller.image().as_ref().clone();
        let in_order = self.world.controller.chores().is_empty();
        self.world.take_over();
        let after = self.world.controller.image().as_ref().clone();
        for (name, topic) in &before.topics {
            assert_eq!(after.topic(name), Some(topic), "what was seen is seen again");
        }
        let plain = |brokers: &BTreeMap<BrokerId, Arc<BrokerImage>>| -> Vec<(BrokerId, BrokerEpoch)> {
            brokers.iter().map(|(id, broker)| (*id, broker.broker_epoch)).collect()
        };
        if in_order && plain(&self.world.registered()) == plain(&before.brokers) {
            assert_eq!(after.brokers, before.brokers, "who is about to stop is so still");
            let chores = self.world.controller.chores();
            assert_eq!(chores, [], "what was done is not done again");
        }
    }

    /// What must be true of each write.
    fn judge(&mut self, before: &MetadataImage) {
        let image = self.world.controller.image().clone();
        let registered = self.world.registered();
        for topic in image.topics.values() {
            for (index, state) in (0..).zip(&topic.partitions) {
                let earlier = before.topic_by_id(topic.id).and_then(|(_, topic)| topic.partition(index));
                let all = || state.replicas.iter().copied().collect();
                let holders = self.holders.entry((topic.id, index)).or_insert_with(all);
                let is_new =
                    |member: &&BrokerId| !earlier.is_some_and(|earlier| earlier.isr.contains(member));
                let leads_anew = earlier.is_none_or(|earlier| earlier.leader_epoch != state.leader_epoch);
                let counted_on = state.isr.iter().filter(is_new);
                for member in counted_on.chain(state.leader.iter().filter(|_| leads_anew)) {
                    let known = image.brokers.get(member).map(|broker| broker.broker_epoch);
                    let truly = registered.get(member).map(|broker| broker.broker_epoch);
                    assert!(
                        truly.is_some() && truly == known,
                        "{member} is registered as the controller knows it"
                    );
                }
                let Some(earlier) = earlier else { continue };
                assert!(state.leader_epoch >= earlier.leader_epoch);
                assert!(state.leader == earlier.leader || state.leader_epoch > earlier.leader_epoch);
                assert!(state.partition_epoch.0 - earlier.partition_epoch.0 <= 1);
                if state == earlier {
                    continue;
                }
                holders.retain(|holder| state.replicas.contains(holder));
                // What a broker has lost counts once the controller can have heard of its registration.
                let heard = |id: &BrokerId| {
                    let known = image.brokers.get(id).map(|broker| broker.broker_epoch);
                    registered.get(id).is_none_or(|broker| known == Some(broker.broker_epoch))
                };
                let counting: Vec<BrokerId> = counted(state).filter(heard).collect();
                if counting.iter().all(|member| holders.contains(member)) {
                    continue;
                }
                // Only where nobody who counts holds all any more, somebody may begin anew.
                let candidates = counted(earlier).chain(earlier.unproven.iter().copied());
                let known = candidates.into_iter().any(|member| holders.contains(&member));
                assert!(!known, "{earlier:?} became {state:?}, but {holders:?} hold all");
                assert_eq!(counting.len(), 1, "{state:?}");
                *holders = counting.into_iter().collect();
            }
        }
    }

    /// Leaders commit, and replicas catch up.
    fn replicate(&mut self) {
        let image = self.world.controller.image().clone();
        let registered = self.world.registered();
        for topic in image.topics.values() {
            let configured = self.world.settings.rules(&image, &topic.configs);
            for (index, state) in (0..).zip(&topic.partitions) {
                let holders = self.holders.get_mut(&(topic.id, index)).expect("judged before");
                let Some(leader) = state.leader else { continue };
                // A process that is gone commits nothing.
                let known = image.brokers.get(&leader).map(|broker| broker.broker_epoch);
                if known.is_none() || known != registered.get(&leader).map(|broker| broker.broker_epoch) {
                    continue;
                }
                if self.random.one_in(3) && state.isr.len() >= configured.needed(state.replicas.len()) {
                    *holders = state.isr.iter().copied().collect();
                }
                let follower = state.replicas[self.random.below(state.replicas.len())];
                if registered.contains_key(&follower) && holders.contains(&leader) {
                    holders.insert(follower);
                }
            }
        }
    }

    fn propose(&mut self) {
        let image = self.world.controller.image().clone();
        let mut proposals: BTreeMap<BrokerId, Vec<IsrProposal>> = BTreeMap::new();
        for topic in image.topics.values() {
            for (index, state) in (0..).zip(&topic.partitions) {
                let Some(leader) = state.leader else { continue };
                let holders = &self.holders[&(topic.id, index)];
                let mut isr = Vec::new();
                for replica in &state.replicas {
                    let stays = *replica == leader || !self.random.one_in(4);
                    if holders.contains(replica) && stays {
                        let epoch = image.brokers.get(replica).map_or(BrokerEpoch::NONE, |b| b.broker_epoch);
                        isr.push((*replica, epoch));
                    }
                }
                let proposal = IsrProposal {
                    topic_id: topic.id,
                    partition: index,
                    leader_epoch: state.leader_epoch,
                    partition_epoch: state.partition_epoch,
                    isr,
                };
                proposals.entry(leader).or_default().push(proposal);
            }
        }
        for (broker, proposals) in proposals {
            let Some(known) = image.brokers.get(&broker) else { continue };
            let broker_epoch = known.broker_epoch;
            self.carry_out(&Command::AlterPartitions { broker, broker_epoch, proposals });
        }
    }

    /// A broker's process ends, and perhaps another begins, perhaps before anybody looks.
    fn restart(&mut self) {
        let id = self.random.broker();
        self.world.tree.nodes.remove(&layout::broker_path(BrokerId(id)));
        if self.random.one_in(3) {
            self.hear();
        }
        if self.random.one_in(4) {
            return;
        }
        let unclean = self.random.one_in(2);
        // A machine may lose power and yet lose nothing.
        if unclean && self.random.one_in(2) {
            self.holders.values_mut().for_each(|holders| {
                holders.remove(&BrokerId(id));
            });
        }
        self.world.write_registration(id, unclean, None);
        self.hear();
    }

    fn hear(&mut self) {
        let brokers = self.world.registered();
        self.carry_out(&Command::BrokersChanged(brokers));
    }

    fn administrate(&mut self) {
        let name = self.names[self.random.below(self.names.len())].clone();
        let partition = TopicPartition { topic: name.clone(), partition: 0 };
        let target = (0..2).map(|_| BrokerId(self.random.broker())).collect();
        let command = match self.random.below(7) {
            0 => {
                let name = format!("t{}", self.names.len());
                self.names.push(name.as_str().into());
                self.world.create_command(&name, 4, 3)
            }
            1 => {
                let Some(topic) = self.world.controller.image().topic(&name) else { return };
                Command::DeleteTopic { id: topic.id }
            }
            2 => {
                let count = self.world.controller.present(&name) + 2;
                let (assignment, validate_only) = (None, false);
                Command::CreatePartitions { name, total: count, assignment, validate_only, placement_seed: 3 }
            }
            3 | 4 => Command::Reassign {
                partitions: vec![(partition, (!self.random.one_in(3)).then_some(target))],
                allow_replication_factor_change: self.random.one_in(2),
            },
            5 => Command::ElectLeaders { kind: ElectionKind::Preferred, partitions: None },
            _ => {
                let value = (self.random.below(2) + 1).to_string();
                let key = "min.insync.replicas".to_owned();
                let edits = vec![ConfigEdit { key, operation: ConfigOperation::Set(value) }];
                Command::EditTopicConfigs { name, edits, replace_all: false, validate_only: false }
            }
        };
        self.carry_out(&command);
    }

    fn shut_down(&mut self) {
        let id = BrokerId(self.random.broker());
        let Some(broker) = self.world.controller.image().brokers.get(&id) else { return };
        let broker_epoch = broker.broker_epoch;
        let stops = self.random.one_in(2);
        self.carry_out(&match stops {
            true => Command::ControlledShutdown { broker: id, broker_epoch },
            false => Command::ProcessGone { broker: id, broker_epoch },
        });
    }

    fn do_chores(&mut self) {
        for _ in 0..1000 {
            let Some(chore) = self.world.controller.chores().into_iter().next() else { return };
            self.carry_out(&chore);
        }
        panic!("chores do not come to an end: {:?}", self.world.controller.chores());
    }

    /// Brokers are asked for their logs: who holds all has the longest. Some do not answer, or only another process does.
    fn compare(&mut self, reliably: bool) {
        let registered = self.world.registered();
        let mut answers = Vec::new();
        for question in self.world.controller.questions() {
            let LogQuestion { broker, broker_epoch, places } = question;
            let lives = registered.get(&broker).is_some_and(|known| known.broker_epoch == broker_epoch);
            if !lives || (!reliably && self.random.one_in(5)) {
                continue;
            }
            let random = &mut self.random;
            let logs = places.into_iter().map(|place| {
                let key = (place.topic_id, place.partition);
                let end = match self.holders[&key].contains(&broker) {
                    true => LogEnd { epoch: LeaderEpoch(5), end: Offset(10) },
                    false if random.one_in(2) => LogEnd { epoch: LeaderEpoch(5), end: Offset(9) },
                    false => LogEnd { epoch: LeaderEpoch(4), end: Offset(20) },
                };
                (place, end)
            });
            answers.push(LogAnswer { broker, broker_epoch, logs: logs.collect() });
        }
        if !reliably && self.random.one_in(3) {
            // Meanwhile something else happens.
            self.restart();
        }
        self.carry_out(&Command::LogsCompared(answers));
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=2 => self.restart(),
            3 | 4 => self.replicate(),
            5 | 6 => self.propose(),
            7 => self.shut_down(),
            _ => self.administrate(),
        }
        if !self.random.one_in(3) {
            self.do_chores();
        }
        if self.random.one_in(3) {
            self.compare(false);
        }
        if self.world.registered() != self.world.controller.image().brokers && self.random.one_in(2) {
            self.hear();
        }
    }
}

/// Who is counted on to hold all that was committed.
fn counted(state: &PartitionImage) -> impl Iterator<Item = BrokerId> + '_ {
    state.isr.iter().chain(&state.eligible_leader_replicas).copied()
}

#[test]
fn whatever_happens_nobody_leads_who_misses_what_was_committed() {
    for seed in 1..=16 {
        let mut run = Run::new(seed);
        for _ in 0..80 {
            run.step();
        }
        // Everything heals: all brokers are back, and every partition has a leader.
        for id in 1..=5 {
            run.world.write_registration(id, false, None);
        }
        run.hear();
        run.hear();
        run.do_chores();
        while !run.world.controller.questions().is_empty() {
            run.compare(true);
            run.do_chores();
        }
        for topic in run.world.controller.image().topics.values() {
            assert!(topic.partitions.iter().all(|state| state.leader.is_some()), "seed {seed}: {topic:?}");
        }
    }
}
