//! Who does what at present, as the brokers themselves tell: who leads and who follows which partition, who is controller.
//! Owns that book; decides nothing.

use super::core::Needs;
use crate::{
    faults::{Aim, ServerRole},
    world::{NodeId, Status, World},
};
use sillon_broker::{
    observe::Observation,
    types::{BrokerId, TopicPartition},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Who does what.
#[derive(Debug, Default)]
pub(super) struct Roles(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    /// The last that told that it leads, with its epoch.
    leaders: BTreeMap<TopicPartition, (i32, u32)>,
    /// Those that told that they hold a replica, leader or not.
    replicas: BTreeMap<TopicPartition, BTreeSet<u32>>,
    /// The newest in-sync replicas that a leader told, with the number of that state.
    in_sync: BTreeMap<TopicPartition, (i32, BTreeSet<u32>)>,
    /// The last that told that it is controller, with its epoch.
    controller: Option<(i32, u32)>,
}

impl Roles {
    fn book(&self) -> MutexGuard<'_, Book> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A broker told something: perhaps that it leads, follows, or is controller.
    pub fn heard(&self, node: u32, observation: &Observation<'_>) {
        let book = &mut *self.book();
        match observation {
            Observation::BecameLeader { partition, leader_epoch, partition_epoch, isr, .. } => {
                book.in_sync(partition, partition_epoch.0, isr);
                let leader = book.leaders.entry((*partition).clone()).or_insert((leader_epoch.0, node));
                // A broker that is late tells of an epoch that is over.
                if leader_epoch.0 >= leader.0 {
                    *leader = (leader_epoch.0, node);
                }
                book.replicas.entry((*partition).clone()).or_default().insert(node);
            }
            Observation::BecameFollower { partition, leader_epoch, .. } => {
                if book
                    .leaders
                    .get(partition)
                    .is_some_and(|leader| *leader < (leader_epoch.0, node) && leader.1 == node)
                {
                    book.leaders.remove(partition);
                }
                book.replicas.entry((*partition).clone()).or_default().insert(node);
            }
            Observation::IsrConfirmed { partition, partition_epoch, isr, .. } => {
                book.in_sync(partition, partition_epoch.0, isr);
            }
            Observation::TopicDeleted { topic, .. } => {
                book.leaders.retain(|partition, _| *partition.topic != **topic);
                book.replicas.retain(|partition, _| *partition.topic != **topic);
                book.in_sync.retain(|partition, _| *partition.topic != **topic);
            }
            Observation::ReplicaRemoved { partition, .. } => {
                if let Some(replicas) = book.replicas.get_mut(partition) {
                    replicas.remove(&node);
                }
                if book.leaders.get(partition).is_some_and(|leader| leader.1 == node) {
                    book.leaders.remove(partition);
                }
            }
            Observation::BecameController { controller_epoch } => {
                let newest = (controller_epoch.0, node);
                let known = book.controller.filter(|(epoch, _)| *epoch > newest.0);
                book.controller = Some(known.unwrap_or(newest));
            }
            _ => {}
        }
    }

    /// What a core needs of each partition: its replicas, and those in sync whose process runs.
    pub fn needs(&self, runs: &dyn Fn(u32) -> bool) -> BTreeMap<TopicPartition, Needs> {
        let book = self.book();
        let of = |(partition, replicas): (&TopicPartition, &BTreeSet<u32>)| {
            let in_sync = book.in_sync.get(partition).map(|(_, isr)| isr.clone()).unwrap_or_default();
            let electable = in_sync.into_iter().filter(|node| runs(*node)).collect();
            (partition.clone(), Needs { replicas: replicas.clone(), electable })
        };
        book.replicas.iter().filter(|(_, replicas)| !replicas.is_empty()).map(of).collect()
    }

    /// The machines that an aim may mean, in order, of those that `runs` says run. For a leader or a follower the partition
    /// is chosen first.
    pub fn candidates(
        &self,
        aim: Aim,
        coordinator_leader: Option<u32>,
        servers: u32,
        runs: &dyn Fn(u32) -> bool,
    ) -> Vec<u32> {
        let book = self.book();
        let mut found: Vec<u32> = match aim.role {
            ServerRole::Any => (0..servers).collect(),
            ServerRole::Controller => book.controller.iter().map(|(_, node)| *node).collect(),
            ServerRole::CoordinatorLeader => coordinator_leader.into_iter().collect(),
            ServerRole::Leader => {
                book.leaders.values().map(|(_, node)| *node).filter(|node| runs(*node)).collect()
            }
            ServerRole::Follower => book.followers(aim.pick, runs),
        };
        found.retain(|node| runs(*node));
        found
    }

    /// Resolves an aim; nothing where nobody has the role and runs.
    pub fn find(
        &self,
        world: &World,
        aim: Aim,
        coordinator_leader: Option<u32>,
        servers: u32,
    ) -> Option<u32> {
        let runs = |node: u32| world.status(NodeId(node)) == Status::Running;
        aim.choose(&self.candidates(aim, coordinator_leader, servers, &runs))
    }
}

impl Book {
    fn in_sync(&mut self, partition: &TopicPartition, state: i32, isr: &[BrokerId]) {
        if self.in_sync.get(partition).is_none_or(|(known, _)| state >= *known) {
            let isr = isr.iter().map(|broker| broker.0.unsigned_abs()).collect();
            self.in_sync.insert(partition.clone(), (state, isr));
        }
    }

    /// Those that run and follow in one of the partitions that have such.
    fn followers(&self, pick: u64, runs: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let of = |(partition, replicas): (&TopicPartition, &BTreeSet<u32>)| {
            let leader = self.leaders.get(partition).map(|(_, node)| *node);
            replicas.iter().copied().filter(|node| Some(*node) != leader && runs(*node)).collect::<Vec<_>>()
        };
        let mut all: Vec<Vec<u32>> = self.replicas.iter().map(of).filter(|list| !list.is_empty()).collect();
        match all.len() as u64 {
            0 => Vec::new(),
            // The low bits choose among these, so that others choose the partition.
            count => all.swap_remove(((pick >> 32) % count) as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_broker::types::{ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch};

    fn lead(roles: &Roles, node: u32, partition: &TopicPartition, epoch: i32) {
        roles.heard(
            node,
            &Observation::BecameLeader {
                partition,
                leader_epoch: LeaderEpoch(epoch),
                start_offset: Offset::ZERO,
                latest_epoch: None,
                high_watermark: Offset::ZERO,
                partition_epoch: PartitionEpoch(0),
                isr: &[],
            },
        );
    }

    fn follow(roles: &Roles, node: u32, partition: &TopicPartition, epoch: i32) {
        roles.heard(
            node,
            &Observation::BecameFollower {
                partition,
                leader: None,
                leader_epoch: LeaderEpoch(epoch),
                log_end: Offset::ZERO,
                high_watermark: Offset::ZERO,
            },
        );
    }

    fn candidates(roles: &Roles, role: ServerRole, down: &[u32]) -> Vec<u32> {
        roles.candidates(Aim { role, pick: 0 }, Some(4), 6, &|node| !down.contains(&node))
    }

    #[test]
    fn the_newest_leader_counts_and_only_while_it_runs() {
        let (roles, partition) = (Roles::default(), TopicPartition::new("t", 0));
        lead(&roles, 1, &partition, 3);
        follow(&roles, 2, &partition, 3);
        assert_eq!(candidates(&roles, ServerRole::Leader, &[]), [1]);
        assert_eq!(candidates(&roles, ServerRole::Follower, &[]), [2]);
        lead(&roles, 2, &partition, 4);
        lead(&roles, 0, &partition, 2);
        assert_eq!(candidates(&roles, ServerRole::Leader, &[]), [2], "n0 tells of an epoch that is over");
        assert!(candidates(&roles, ServerRole::Leader, &[2]).is_empty());
        follow(&roles, 2, &partition, 5);
        assert!(candidates(&roles, ServerRole::Leader, &[]).is_empty(), "it has stepped down");
    }

    #[test]
    fn a_replica_that_is_removed_follows_no_more() {
        let (roles, partition) = (Roles::default(), TopicPartition::new("t", 0));
        lead(&roles, 0, &partition, 1);
        follow(&roles, 1, &partition, 1);
        roles.heard(1, &Observation::ReplicaRemoved { partition: &partition, topic_id: Default::default() });
        assert!(candidates(&roles, ServerRole::Follower, &[]).is_empty());
        assert_eq!(roles.needs(&|_| true)[&partition].replicas, BTreeSet::from([0]));
    }

    #[test]
    fn controllers_and_the_coordinators_leader() {
        let roles = Roles::default();
        assert!(candidates(&roles, ServerRole::Controller, &[]).is_empty());
        for (node, epoch) in [(1, 1), (2, 2), (1, 1)] {
            roles.heard(node, &Observation::BecameController { controller_epoch: ControllerEpoch(epoch) });
        }
        assert_eq!(candidates(&roles, ServerRole::Controller, &[]), [2]);
        assert_eq!(candidates(&roles, ServerRole::CoordinatorLeader, &[]), [4]);
        assert_eq!(candidates(&roles, ServerRole::Any, &[0, 5]), [1, 2, 3, 4]);
    }
}
