//! Replication between brokers: what this broker follows is fetched from its leaders, and what it leads is proposed to
//! the controller.
//!
//! ```text
//!   broker (reconcile) ──► Replication: which partition is fetched from whom
//!                            └─► fetcher (one task per leader and number): session, one request at a time ──► Partition
//!   Partition (Outbox) ──► proposals (one task): many partitions in one AlterPartition ──► cluster ──► Partition
//! ```
//! Owns the tasks and connections to other brokers. Never decides what an answer means for a log (`partition`).

mod fetcher;
mod proposals;
mod session;
mod suspects;
pub mod throttle;

#[cfg(test)]
mod tests;

pub use proposals::Outbox;

use crate::{
    broker::Broker,
    metadata::MetadataImage,
    partition::Partition,
    types::{BrokerEpoch, BrokerId, TopicId},
};
use fetcher::{Assigned, Fetcher};
use sillon_runtime::{JoinHandle, Monotonic, Tasks};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use suspects::Suspects;

/// A partition, as requests between brokers name it.
pub type ReplicaKey = (TopicId, i32);

/// What is fetched from whom.
#[derive(Default)]
pub struct Replication {
    state: Mutex<State>,
    suspects: Suspects,
}

#[derive(Default)]
struct State {
    /// By leader and number (`num.replica.fetchers`).
    fetchers: BTreeMap<(BrokerId, usize), Running>,
    assigned: BTreeMap<ReplicaKey, (BrokerId, usize)>,
    stopped: bool,
}

/// A fetcher; it ends when this is dropped.
struct Running {
    assigned: Arc<Assigned>,
    _task: Tasks,
}

impl Replication {
    /// Fetches `partition` from `leader` from now on, or from nobody.
    pub(crate) fn assign(&self, broker: &Arc<Broker>, partition: &Arc<Partition>, leader: Option<BrokerId>) {
        let key = (partition.topic_id(), partition.name().partition);
        let number =
            partition.name().partition.unsigned_abs() as usize % broker.config().replication.fetchers;
        let wanted = leader.map(|leader| (leader, number));
        let mut state = self.state.lock().expect("no holder panics");
        let state = &mut *state;
        if state.stopped {
            return;
        }
        let known = state.assigned.get(&key).copied();
        if let Some(old) = known.filter(|old| Some(*old) != wanted) {
            state.assigned.remove(&key);
            let fetcher = state.fetchers.get(&old).expect("a fetcher lives as long as it has partitions");
            if fetcher.assigned.remove(&key) {
                state.fetchers.remove(&old);
            }
        }
        if let Some(wanted) = wanted {
            state.assigned.insert(key, wanted);
            let fetcher = state.fetchers.entry(wanted).or_insert_with(|| Running::start(broker, wanted.0));
            // Also where it was assigned already: it may follow in a new epoch, and be waiting after an error.
            fetcher.assigned.insert(key, partition.clone());
        }
    }

    /// `key` is not held here any more.
    pub(crate) fn forget(&self, key: ReplicaKey) {
        let mut state = self.state.lock().expect("no holder panics");
        if let Some(old) = state.assigned.remove(&key)
            && state.fetchers.get(&old).is_some_and(|fetcher| fetcher.assigned.remove(&key))
        {
            state.fetchers.remove(&old);
        }
    }

    /// The connection to a leader broke that had worked.
    fn suspect(&self, leader: BrokerId, broker_epoch: BrokerEpoch, now: Monotonic) {
        self.suspects.add(leader, broker_epoch, now);
    }

    /// Until when the metadata is likely to change because a leader is gone; none where nothing is expected.
    pub(crate) fn suspicion(&self, image: &MetadataImage, now: Monotonic) -> Option<Monotonic> {
        self.suspects.until(image, now)
    }

    /// Where brokers are reached may have changed.
    pub(crate) fn brokers_changed(&self) {
        for fetcher in self.state.lock().expect("no holder panics").fetchers.values() {
            fetcher.assigned.nudge();
        }
    }

    /// Ends all fetching.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock().expect("no holder panics");
        state.stopped = true;
        state.assigned.clear();
        state.fetchers.clear();
    }
}

impl Running {
    fn start(broker: &Arc<Broker>, leader: BrokerId) -> Running {
        let assigned = Arc::new(Assigned::default());
        let fetcher = Fetcher::new(broker, leader, assigned.clone());
        let mut task = Tasks::default();
        task.push(broker.runtime().spawn("replica-fetcher", fetcher.run()));
        Running { assigned, _task: task }
    }
}

/// Starts the sender of proposals.
pub(crate) fn start(broker: &Arc<Broker>) -> JoinHandle<()> {
    broker.runtime().spawn("isr-proposals", proposals::send_all(broker.clone()))
}
