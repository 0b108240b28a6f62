//! The judges of a run: the oracle of the brokers, that of the ensemble, or both, behind one door. Owns who is told what;
//! judges nothing.

use super::{conditions::MembersWorld, roles::Roles};
use crate::{
    faults::Machines,
    oracle::{
        DiskFault, Healing, Invariant, Oracle, Statistics, Stop, Violation,
        coordinator::{CoordinatorOracle, CoordinatorStatistics},
    },
    profile::{self, Part},
};
use sillon_coordinator::observe::Observation as MemberObservation;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The judges of a run.
pub(super) struct Judges {
    pub machines: Machines,
    pub brokers: Option<Arc<Oracle>>,
    pub ensemble: Option<Arc<CoordinatorOracle>>,
    pub members_world: Arc<MembersWorld>,
    pub roles: Roles,
    disks: Mutex<BTreeMap<u32, DiskRecord>>,
}

/// What a machine's disk has done to its process.
#[derive(Clone, Copy, Debug, Default)]
struct DiskRecord {
    /// It failed an operation since the process was started.
    failed: bool,
    /// It changed what was stored, ever.
    damaged: bool,
}

impl Judges {
    pub fn new(
        machines: Machines,
        brokers: Option<Arc<Oracle>>,
        ensemble: Option<Arc<CoordinatorOracle>>,
        members_world: Arc<MembersWorld>,
    ) -> Arc<Judges> {
        Arc::new(Judges {
            machines,
            brokers,
            ensemble,
            members_world,
            roles: Roles::default(),
            disks: Mutex::default(),
        })
    }

    fn disks(&self) -> MutexGuard<'_, BTreeMap<u32, DiskRecord>> {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        self.disks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that judges a machine's process.
    fn of(&self, node: u32) -> (Option<&Arc<Oracle>>, Option<&Arc<CoordinatorOracle>>) {
        match self.machines.is_member(node) {
            true => (None, self.ensemble.as_ref()),
            false => (self.brokers.as_ref(), None),
        }
    }

    /// A process has ended. To be told once its disk has lost what it loses by that.
    pub fn node_stopped(&self, node: u32, stop: Stop) {
        self.members_world.stopped(node);
        match self.of(node) {
            (Some(oracle), _) => oracle.node_stopped(node, stop),
            (_, Some(oracle)) => oracle.node_stopped(node, stop),
            (None, None) => {}
        }
    }

    /// A process is about to start, with the disk as it is now.
    pub fn node_starting(&self, node: u32) {
        let _counted = profile::within(Part::Oracle);
        self.disks().entry(node).or_default().failed = false;
        match self.of(node) {
            (Some(oracle), _) => oracle.node_starting(node),
            (_, Some(oracle)) => oracle.node_starting(node),
            (None, None) => {}
        }
    }

    /// A process stands still, or goes on.
    pub fn node_paused(&self, node: u32, paused: bool) {
        if let (Some(oracle), _) = self.of(node) {
            oracle.node_paused(node, paused);
        }
    }

    /// A process was asked to stop in a controlled way.
    pub fn node_asked_to_stop(&self, node: u32) {
        if let (Some(oracle), _) = self.of(node) {
            oracle.node_asked_to_stop(node);
        }
    }

    /// A member tells a fact: the brokers' oracle learns the truth about partitions from what it applies.
    pub fn member_observation(&self, node: u32, observation: &MemberObservation<'_>) {
        if let Some(oracle) = &self.ensemble {
            oracle.member_observation(node, observation);
        }
        if let Some(oracle) = &self.brokers {
            oracle.member_observation(observation);
        }
    }

    /// No fault is on, or some is.
    pub fn calm(&self, calm: bool) {
        if let Some(oracle) = &self.brokers {
            oracle.calm(calm);
        }
    }

    /// A disk failed an operation or changed what was stored.
    pub fn disk_struck(&self, node: u32, is_damage: bool) {
        let mut disks = self.disks();
        let record = disks.entry(node).or_default();
        record.failed = true;
        record.damaged |= is_damage;
    }

    /// A disk did something wrong to a file.
    pub fn disk_fault(&self, node: u32, fault: DiskFault) {
        match self.of(node) {
            (Some(oracle), _) => oracle.disk_fault(node, fault),
            (_, Some(oracle)) => oracle.disk_fault(node, fault),
            (None, None) => {}
        }
    }

    /// Whether a machine's disk has given its process a reason to end.
    pub fn disk_explains_an_end(&self, node: u32) -> bool {
        self.disks().get(&node).is_some_and(|record| record.failed || record.damaged)
    }

    /// What the oracle of the ensemble asks its conditions may have changed.
    pub fn conditions_changed(&self) {
        if let Some(oracle) = &self.ensemble {
            oracle.conditions_changed();
        }
    }

    /// Time has passed.
    pub fn look(&self) {
        let _counted = profile::within(Part::Oracle);
        if let Some(oracle) = &self.ensemble {
            oracle.check_liveness();
        }
        if let Some(oracle) = &self.brokers {
            oracle.look_at_groups();
        }
    }

    /// The faults are over, for all machines or for some.
    pub fn healed(&self, healing: &Healing) {
        if let Some(oracle) = &self.brokers {
            oracle.healed(healing.clone());
        }
        if let Some(oracle) = &self.ensemble {
            oracle.healed();
        }
    }

    /// Whether all consumer groups have processed what there is.
    pub fn groups_caught_up(&self) -> bool {
        self.brokers.as_ref().is_none_or(|oracle| oracle.groups_caught_up())
    }

    /// Consumer groups have had their time, and members still live.
    pub fn judge_processing(&self) {
        if let Some(oracle) = &self.brokers {
            oracle.judge_processing();
        }
    }

    /// Looks whether a deadline since healing has passed.
    pub fn check_liveness(&self) {
        let _counted = profile::within(Part::Oracle);
        if let Some(oracle) = &self.brokers {
            oracle.check_liveness();
        }
    }

    /// Whether all that must come about after healing has.
    pub fn converged(&self) -> bool {
        self.brokers.as_ref().is_none_or(|oracle| oracle.converged())
            && self.ensemble.as_ref().is_none_or(|oracle| oracle.converged())
    }

    /// The run is over.
    pub fn finish(&self) {
        let _counted = profile::within(Part::Oracle);
        if let Some(oracle) = &self.brokers {
            oracle.finish();
        }
        if let Some(oracle) = &self.ensemble {
            oracle.finish();
        }
    }

    /// The first violation.
    pub fn first_violation(&self) -> Option<Violation> {
        let first = self.brokers.as_ref().and_then(|oracle| oracle.first_violation());
        first.or_else(|| {
            let mut violation = self.ensemble.as_ref()?.first_violation()?;
            // People know members by their names.
            let name = violation.node.map(|node| self.machines.name(node));
            violation.partition = violation.partition.or(name);
            Some(violation)
        })
    }

    /// How often each invariant was evaluated in a way that was not trivial. Each is named.
    pub fn evaluations(&self) -> BTreeMap<Invariant, u64> {
        let mut sum: BTreeMap<Invariant, u64> =
            Invariant::ALL.iter().map(|invariant| (*invariant, 0)).collect();
        let brokers = self.brokers.as_ref().map(|oracle| oracle.evaluations());
        let ensemble = self.ensemble.as_ref().map(|oracle| oracle.evaluations());
        for (invariant, count) in brokers.into_iter().chain(ensemble).flatten() {
            *sum.entry(invariant).or_default() += count;
        }
        sum
    }

    /// How much happened to the brokers' records.
    pub fn statistics(&self) -> Statistics {
        self.brokers.as_ref().map(|oracle| oracle.statistics()).unwrap_or_default()
    }

    /// How much happened in the ensemble.
    pub fn ensemble_statistics(&self) -> CoordinatorStatistics {
        self.ensemble.as_ref().map(|oracle| oracle.statistics()).unwrap_or_default()
    }

    /// What was lost that had been promised, and was allowed to be.
    pub fn out_of_contract(&self) -> Vec<String> {
        self.brokers.as_ref().map(|oracle| oracle.out_of_contract()).unwrap_or_default()
    }
}
