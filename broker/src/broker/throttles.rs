//! The two buckets of throttled replication (KIP-73), as leader and as follower. Owns the rates in force; who is
//! throttled is in the topic.

use super::Broker;
use crate::{
    config::{keys, topic::Layers},
    partition::Partition,
    replication::throttle::TokenBucket,
    types::BrokerId,
};
use sillon_runtime::Monotonic;
use std::sync::Mutex;

/// The rate that stands for none.
const UNLIMITED: u64 = i64::MAX as u64;

/// See the module.
#[derive(Default)]
pub(super) struct Throttles {
    leader: Mutex<Option<TokenBucket>>,
    follower: Mutex<Option<TokenBucket>>,
}

impl Throttles {
    /// Puts the rates in force that are configured while the broker runs.
    pub(super) fn set(&self, layers: &Layers<'_>, now: Monotonic) {
        let rates = [
            (&self.leader, "leader.replication.throttled.rate"),
            (&self.follower, "follower.replication.throttled.rate"),
        ];
        for (bucket, name) in rates {
            let key = keys::broker_key(name).expect("in the table");
            let rate = layers.of_broker_key(key).swap_remove(0).value.parse();
            let rate: u64 = rate.expect("values are checked before they are stored");
            let mut bucket = bucket.lock().expect("no holder panics");
            match &mut *bucket {
                _ if rate >= UNLIMITED => *bucket = None,
                Some(bucket) => bucket.set_rate(rate, now),
                None => *bucket = Some(TokenBucket::new(rate, now)),
            }
        }
    }
}

impl Broker {
    /// Until when this broker must not fetch a partition, where it is throttled as a follower and not in sync.
    pub(crate) fn follower_throttled_until(
        &self,
        partition: &Partition,
        now: Monotonic,
    ) -> Option<Monotonic> {
        let mut bucket = self.throttles.follower.lock().expect("no holder panics");
        let bucket = bucket.as_mut()?;
        if bucket.is_open(now) {
            return None;
        }
        self.is_throttled_follower(partition).then(|| bucket.opens_at(now))
    }

    /// Whether those that are throttled as followers must not fetch now.
    pub(crate) fn is_follower_throttle_closed(&self, now: Monotonic) -> bool {
        let mut bucket = self.throttles.follower.lock().expect("no holder panics");
        bucket.as_mut().is_some_and(|bucket| !bucket.is_open(now))
    }

    /// So much was fetched for a partition.
    pub(crate) fn follower_throttle_took(&self, partition: &Partition, bytes: usize, now: Monotonic) {
        if let Some(bucket) = &mut *self.throttles.follower.lock().expect("no holder panics")
            && self.is_throttled_follower(partition)
        {
            bucket.take(bytes, now);
        }
    }

    fn is_throttled_follower(&self, partition: &Partition) -> bool {
        let (topics, me, index) = (self.topics(), self.config.broker_id, partition.name().partition);
        topics.by_id(partition.topic_id()).is_some_and(|topic| {
            let in_sync = topic.partition_image(index).is_some_and(|state| state.isr.contains(&me));
            topic.throttled_followers.contains(index, me) && !in_sync
        })
    }

    /// Whether this leader must not give a partition's records to a follower now, for it is throttled and not in sync.
    pub(crate) fn leader_throttles(&self, partition: &Partition, replica: BrokerId, now: Monotonic) -> bool {
        let mut bucket = self.throttles.leader.lock().expect("no holder panics");
        let is_closed = bucket.as_mut().is_some_and(|bucket| !bucket.is_open(now));
        is_closed && self.is_throttled_leader(partition, replica)
    }

    /// So much was given to a follower.
    pub(crate) fn leader_throttle_took(
        &self,
        partition: &Partition,
        replica: BrokerId,
        bytes: usize,
        now: Monotonic,
    ) {
        if let Some(bucket) = &mut *self.throttles.leader.lock().expect("no holder panics")
            && self.is_throttled_leader(partition, replica)
        {
            bucket.take(bytes, now);
        }
    }

    fn is_throttled_leader(&self, partition: &Partition, replica: BrokerId) -> bool {
        let (topics, me, index) = (self.topics(), self.config.broker_id, partition.name().partition);
        let in_sync = partition.leading(|leader| leader.in_sync().contains(&replica)).unwrap_or(false);
        let topic = topics.by_id(partition.topic_id());
        !in_sync && topic.is_some_and(|topic| topic.throttled_leaders.contains(index, me))
    }
}
