//! The groups that this broker coordinates: a shard for each partition of the offsets topic that it leads. Owns which
//! shards there are; they follow the roles of the partitions.

use super::{partition_of, work::Work};
use crate::{
    broker::Broker, config::group::GroupConfig, metadata::names::OFFSETS_TOPIC, partition::Partition,
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Tasks;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

/// See the module.
pub struct Groups {
    settings: Arc<GroupConfig>,
    shards: Mutex<BTreeMap<i32, Led>>,
}

struct Led {
    work: Arc<Work>,
    /// Ends the work when this goes.
    _task: Tasks,
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

    fn shards(&self) -> MutexGuard<'_, BTreeMap<i32, Led>> {
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
        shards.retain(|index, shard| {
            let is_same = led.get(index).is_some_and(|led| Arc::ptr_eq(led, &shard.work.partition));
            let goes_on = is_same && shard.work.is_current() && !shard.work.is_closed();
            if !goes_on {
                shard.work.close();
            }
            goes_on
        });
        for (index, partition) in led {
            shards.entry(index).or_insert_with(|| self.begin(broker, partition));
        }
    }

    fn begin(&self, broker: &Broker, partition: &Arc<Partition>) -> Led {
        let (runtime, observers) = (broker.runtime().clone(), broker.observers().clone());
        let epoch = partition.leader_epoch();
        let work = Work::new(partition.clone(), epoch, runtime, observers, self.settings.clone());
        let mut task = Tasks::default();
        task.push(broker.runtime().spawn("group coordinator", work.clone().run()));
        Led { work, _task: task }
    }

    /// A topic is gone, and with it the offsets in it.
    pub(crate) fn topic_deleted(&self, topic: &str) {
        self.shards().values().for_each(|shard| shard.work.on_topic_deleted(topic));
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
        shards.get(&index).map(|shard| shard.work.clone()).ok_or(ErrorCode::NOT_COORDINATOR)
    }

    /// All shards, in the order of their partitions.
    pub(crate) fn all(&self) -> Vec<Arc<Work>> {
        self.shards().values().map(|shard| shard.work.clone()).collect()
    }

    /// Coordinates nothing any more.
    pub(crate) fn stop(&self) {
        for shard in std::mem::take(&mut *self.shards()).into_values() {
            shard.work.close();
        }
    }
}
