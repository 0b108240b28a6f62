//! The groups that this broker coordinates: a shard for each partition of the offsets topic that it leads. Owns which
//! shards there are; they follow the roles of the partitions.

use super::{partition_of, work::Work};
use crate::{
    broker::Broker, config::group::GroupConfig, metadata::names::OFFSETS_TOPIC, partition::Partition,
};
use sillon_protocol::ErrorCode;
use sillon_runtime::JoinHandle;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

/// See the module.
pub struct Groups {
    settings: Arc<GroupConfig>,
    shards: Mutex<Shards>,
}

#[derive(Default)]
struct Shards {
    led: BTreeMap<i32, Led>,
    /// Work that was closed. It may be in the middle of an append still.
    ending: BTreeMap<i32, JoinHandle<()>>,
}

struct Led {
    work: Arc<Work>,
    task: JoinHandle<()>,
}

impl Groups {
    /// Nothing is led yet.
    pub(crate) fn new(settings: &GroupConfig) -> Groups {
        Groups { settings: Arc::new(settings.clone()), shards: Mutex::default() }
    }

    /// How groups are coordinated.
    pub(crate) fn settings(&self) -> &GroupConfig {
        &self.settings
    }

    fn shards(&self) -> MutexGuard<'_, Shards> {
        self.shards.lock().expect("no holder panics")
    }

    /// Begins where this broker has begun to lead, and ends where it has ceased to; begins anew where work has failed.
    pub(crate) fn follow_roles(&self, broker: &Broker) {
        let topics = broker.topics();
        let is_led = |partition: &&Arc<Partition>| {
            partition.is_leader() && !partition.is_removed() && partition.log().is_offline().is_none()
        };
        let topic = topics.by_name(OFFSETS_TOPIC);
        let led: BTreeMap<i32, &Arc<Partition>> = topic
            .into_iter()
            .flat_map(|topic| topic.here())
            .filter(is_led)
            .map(|partition| (partition.name().partition, partition))
            .collect();
        let mut shards = self.shards();
        let goes_on = |index: &i32, work: &Work| {
            let is_same = led.get(index).is_some_and(|led| Arc::ptr_eq(led, &work.partition));
            is_same && work.is_current() && !work.is_closed()
        };
        let ended = shards.led.iter().filter(|(index, led)| !goes_on(index, &led.work));
        for index in ended.map(|(index, _)| *index).collect::<Vec<_>>() {
            shards.end(index);
        }
        for (index, partition) in led {
            if !shards.led.contains_key(&index) {
                let before = shards.ending.remove(&index);
                shards.led.insert(index, self.begin(broker, partition, before));
            }
        }
    }

    fn begin(&self, broker: &Broker, partition: &Arc<Partition>, before: Option<JoinHandle<()>>) -> Led {
        let (runtime, observers) = (broker.runtime().clone(), broker.observers().clone());
        let epoch = partition.leader_epoch();
        let work = Work::new(partition.clone(), epoch, runtime, observers, self.settings.clone());
        let running = work.clone();
        let task = broker.runtime().spawn("group coordinator", async move {
            // What is read must be all that was written. Whether the work before failed does not matter.
            if let Some(before) = before {
                let _ = before.await;
            }
            running.run().await;
        });
        Led { work, task }
    }

    /// A topic is gone, and with it the offsets in it.
    pub(crate) fn topic_deleted(&self, topic: &str) {
        self.shards().led.values().for_each(|led| led.work.on_topic_deleted(topic));
    }

    /// The shard that a group is in.
    ///
    /// # Errors
    /// NOT_COORDINATOR where it is another broker's.
    pub(crate) fn find(&self, broker: &Broker, group: &str) -> Result<Arc<Work>, ErrorCode> {
        let topics = broker.topics();
        let topic = topics.by_name(OFFSETS_TOPIC).ok_or(ErrorCode::NOT_COORDINATOR)?;
        let index = partition_of(group, topic.partition_count());
        let shards = self.shards();
        shards.led.get(&index).map(|led| led.work.clone()).ok_or(ErrorCode::NOT_COORDINATOR)
    }

    /// All shards, in the order of their partitions.
    pub(crate) fn all(&self) -> Vec<Arc<Work>> {
        self.shards().led.values().map(|led| led.work.clone()).collect()
    }

    /// Coordinates nothing any more.
    pub(crate) fn stop(&self) {
        let mut shards = self.shards();
        for index in shards.led.keys().copied().collect::<Vec<_>>() {
            shards.end(index);
        }
    }
}

impl Shards {
    fn end(&mut self, index: i32) {
        if let Some(Led { work, task }) = self.led.remove(&index) {
            work.close();
            self.ending.insert(index, task);
        }
    }
}
