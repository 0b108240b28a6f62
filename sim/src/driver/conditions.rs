//! What the ensemble's oracle has to know of its members' world: who reaches the leader, and whether a majority is sound.
//! Owns who leads, as the members say; all else is looked up in the world when it is asked for.

use super::cluster::disk_without_faults;
use crate::{
    faults::Machines,
    oracle::coordinator::Conditions,
    scenario::DrawnConfig,
    world::{DiskFaults, NodeId, Status, World},
};
use sillon_coordinator::observe::{Observation, Role};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// The members' world as the oracle sees it. Holds no world alive.
pub(super) struct MembersWorld {
    world: Weak<World>,
    machines: Machines,
    disk: DiskFaults,
    /// The term of each member that leads.
    leaders: Mutex<BTreeMap<u32, u64>>,
}

impl MembersWorld {
    pub fn of(world: &Arc<World>, config: &DrawnConfig) -> Arc<MembersWorld> {
        Arc::new(MembersWorld {
            world: Arc::downgrade(world),
            machines: config.machines(),
            disk: disk_without_faults(config),
            leaders: Mutex::default(),
        })
    }

    fn leaders(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member told something: perhaps that it leads, or no longer.
    pub fn heard(&self, node: u32, observation: &Observation<'_>) {
        match observation {
            Observation::RoleChanged { role: Role::Leader, term, .. } => {
                self.leaders().insert(node, term.0);
            }
            Observation::RoleChanged { .. } | Observation::Started { .. } => {
                self.leaders().remove(&node);
            }
            _ => {}
        }
    }

    /// A member's process is no more.
    pub fn stopped(&self, node: u32) {
        self.leaders().remove(&node);
    }

    /// The one that leads in the newest term.
    pub fn leader(&self) -> Option<u32> {
        self.leaders().iter().max_by_key(|(_, term)| **term).map(|(node, _)| *node)
    }

    /// It runs, at full speed.
    fn is_sound(&self, world: &World, node: u32) -> bool {
        let id = NodeId(node);
        world.status(id) == Status::Running && world.disk(id).faults() == self.disk
    }

    fn is_linked(world: &World, one: u32, other: u32) -> bool {
        let network = world.network();
        let is_whole = |from, to| {
            !network.is_cut(NodeId(from), NodeId(to)) && !network.is_custom(NodeId(from), NodeId(to))
        };
        one == other || (is_whole(one, other) && is_whole(other, one))
    }
}

impl Conditions for MembersWorld {
    fn connected_to_leader(&self, node: u32) -> bool {
        let (Some(world), Some(leader)) = (self.world.upgrade(), self.leader()) else { return false };
        self.is_sound(&world, node) && self.is_sound(&world, leader) && Self::is_linked(&world, node, leader)
    }

    fn majority_is_sound(&self) -> bool {
        let Some(world) = self.world.upgrade() else { return false };
        let members = self.machines.brokers..self.machines.count();
        let sound: Vec<u32> = members.filter(|node| self.is_sound(&world, *node)).collect();
        // Some member that is linked to enough others; each of them may be cut from a third.
        let reaches = |one: &u32| sound.iter().filter(|other| Self::is_linked(&world, *one, **other)).count();
        let all_linked = sound.iter().all(|one| reaches(one) == sound.len());
        sound.len() > self.machines.members as usize / 2 && all_linked
    }
}
