//! What of a follower's fetch session changed since its last answer, so that a request costs that and not the whole
//! session. Owns the session's places among the waiters of its partitions; never reads a log.
//!
//! ```text
//!   partitions ring ─┐
//!   named, unsettled ├─► Watch ──► the partitions that this request looks at
//!   topics changed ──┘
//! ```
//! Whatever could make an answer different rings. A partition that does not ring was fetched again at the same offset
//! (KIP-227) by a follower that is in sync and holds everything, which the session's clock tells it.

use super::{
    fetch_read::{Outcome, find},
    fetch_session::PartitionKey,
};
use crate::{
    broker::Topics,
    partition::{Bell, Interest, Partition, Ticket, leader::SessionClock},
    types::{BrokerEpoch, BrokerId},
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

/// See the module.
pub(super) struct Watch {
    replica: BrokerId,
    broker_epoch: BrokerEpoch,
    interest: Interest,
    clock: Arc<SessionClock>,
    bell: Arc<Bell>,
    /// The topics in which the partitions were found.
    topics: Weak<Topics>,
    members: BTreeMap<usize, Member>,
    numbers: BTreeMap<PartitionKey, usize>,
    next_number: usize,
    /// Those that the next request looks at in any case.
    due: BTreeSet<usize>,
}

/// A partition of the session.
struct Member {
    key: PartitionKey,
    /// Where it waits; nowhere where the partition is not here.
    place: Option<(Weak<Partition>, Ticket)>,
}

impl Watch {
    /// Of a session that begins now, or is looked at as a whole again.
    pub(super) fn new(
        replica: BrokerId,
        broker_epoch: BrokerEpoch,
        interest: Interest,
        now: Monotonic,
    ) -> Watch {
        Watch {
            replica,
            broker_epoch,
            interest,
            clock: Arc::new(SessionClock::new(now)),
            bell: Arc::default(),
            topics: Weak::new(),
            members: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
            due: BTreeSet::new(),
        }
    }

    /// Whether the session is that follower's, in that registration.
    pub(super) fn is_of(&self, replica: BrokerId, broker_epoch: BrokerEpoch) -> bool {
        (self.replica, self.broker_epoch) == (replica, broker_epoch)
    }

    /// Whether the session is an earlier process's of that follower.
    pub(super) fn is_before(&self, replica: BrokerId, broker_epoch: BrokerEpoch) -> bool {
        self.replica == replica && self.broker_epoch < broker_epoch
    }

    /// Whether there is nothing to fetch.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A request has come. Gives the partitions to look at for it. They are waited for before they are read: no change
    /// between the two is missed.
    pub(super) fn arrive(
        &mut self,
        topics: &Arc<Topics>,
        named: &[PartitionKey],
        forgotten: &[PartitionKey],
        now: Monotonic,
    ) -> Vec<PartitionKey> {
        // Before the bell is asked: an append that is not seen here was not there at this moment.
        self.clock.set(now);
        forgotten.iter().for_each(|key| self.forget(key));
        if !Weak::ptr_eq(&self.topics, &Arc::downgrade(topics)) {
            self.topics = Arc::downgrade(topics);
            self.find_again(topics);
        }
        for key in named {
            let number = self.number(topics, key);
            self.due.insert(number);
        }
        self.due.extend(self.bell.take());
        let members = &self.members;
        self.due.retain(|number| members.contains_key(number));
        self.due.iter().map(|number| members[number].key.clone()).collect()
    }

    fn number(&mut self, topics: &Topics, key: &PartitionKey) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(key.clone(), number);
        let place = self.place(topics, key, number);
        self.members.insert(number, Member { key: key.clone(), place });
        number
    }

    fn place(&self, topics: &Topics, key: &PartitionKey, number: usize) -> Option<(Weak<Partition>, Ticket)> {
        let partition = find(topics, key).ok()?;
        let ticket = partition.wait(self.bell.clone(), number, self.interest);
        Some((Arc::downgrade(partition), ticket))
    }

    fn forget(&mut self, key: &PartitionKey) {
        let Some(number) = self.numbers.remove(key) else { return };
        let member = self.members.remove(&number).expect("every number has a member");
        if let Some(partition) = member.place.and_then(|(partition, _)| partition.upgrade()) {
            partition.follower_session(self.replica, None);
        }
    }

    /// Partitions that came, went, or were replaced are to be looked at.
    fn find_again(&mut self, topics: &Topics) {
        let is_same = |member: &Member| match (&member.place, find(topics, &member.key)) {
            (Some((place, _)), Ok(partition)) => std::ptr::eq(place.as_ptr(), Arc::as_ptr(partition)),
            (None, Err(_)) => true,
            _ => false,
        };
        let others = self.members.iter().filter(|(_, member)| !is_same(member));
        for number in others.map(|(number, _)| *number).collect::<Vec<_>>() {
            let key = self.members[&number].key.clone();
            let place = self.place(topics, &key, number);
            self.members.insert(number, Member { key, place });
            self.due.insert(number);
        }
    }

    /// Waits until something has changed that ends a wait; gives all that has changed.
    pub(super) async fn rung(&self) -> Vec<PartitionKey> {
        self.keys(&self.bell.rung().await)
    }

    /// What has changed, whether it ends a wait or not.
    pub(super) fn changed(&self) -> Vec<PartitionKey> {
        self.keys(&self.bell.take())
    }

    fn keys(&self, numbers: &BTreeSet<usize>) -> Vec<PartitionKey> {
        let members = numbers.iter().filter_map(|number| self.members.get(number));
        members.map(|member| member.key.clone()).collect()
    }

    /// A partition was looked at; at the request's `arrival`, the fetch counted as the follower's report where it was
    /// found sound. It is looked at again with the next request, unless that could only say the same.
    pub(super) fn looked_at(&mut self, topics: &Topics, outcome: &Outcome, arrival: bool) {
        let Some(number) = self.numbers.get(&outcome.key) else { return };
        let is_settled = arrival
            && find(topics, &outcome.key).is_ok_and(|partition| {
                let session = (!outcome.is_final()).then(|| self.clock.clone());
                partition.follower_session(self.replica, session)
            });
        if is_settled {
            self.due.remove(number);
        } else {
            self.due.insert(*number);
        }
    }
}
