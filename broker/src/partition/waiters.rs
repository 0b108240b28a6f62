//! Fetches that wait for partitions to change. Owns who waits for which change of a partition, and which partitions of
//! a fetch have changed; never knows what was asked for.
//!
//! ```text
//!   partition: appended, committed, everything ──► Waiters ──► Bell of each fetch that waits for that: "number 7 changed"
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// What a fetch waits for at a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Records that may be shown to clients: the high watermark moves.
    Committed,
    /// Any record: the log's end or start moves.
    Appended,
    /// Both: a follower whose own readers wait for committed records (KIP-392).
    AppendedAndCommitted,
}

/// One per waiting fetch: rung by the partitions that changed, each by its number in the fetch.
#[derive(Default)]
pub struct Bell {
    changed: Mutex<BTreeSet<usize>>,
    notify: Notify,
}

impl Bell {
    /// Partition `number` of the fetch has changed.
    fn ring(&self, number: usize) {
        self.changed.lock().expect("no holder panics").insert(number);
        self.notify.notify_one();
    }

    /// Waits until at least one partition has changed, and gives those that have, once.
    pub async fn rung(&self) -> BTreeSet<usize> {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock().expect("no holder panics"));
            if !changed.is_empty() {
                return changed;
            }
            self.notify.notified().await;
        }
    }
}

/// Those who wait on one partition, in the order in which they came.
#[derive(Default)]
pub struct Waiters(Mutex<State>);

#[derive(Default)]
struct State {
    next_ticket: u64,
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    bell: Arc<Bell>,
    number: usize,
    interest: Interest,
}

/// A place among the waiters, given up when dropped.
pub struct Ticket {
    waiters: Arc<Waiters>,
    number: u64,
}

impl Waiters {
    /// Adds a waiter; its bell is rung at every such change from now on, until the ticket is dropped.
    pub fn wait(self: &Arc<Self>, bell: Arc<Bell>, number: usize, interest: Interest) -> Ticket {
        let mut state = self.0.lock().expect("no holder panics");
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.insert(ticket, Waiting { bell, number, interest });
        Ticket { waiters: self.clone(), number: ticket }
    }

    /// The high watermark has moved.
    pub fn committed(&self) {
        self.ring(|interest| interest != Interest::Appended);
    }

    /// Records were appended, or removed at the start.
    pub fn appended(&self) {
        self.ring(|interest| interest != Interest::Committed);
    }

    /// The partition is something else now.
    pub fn everything(&self) {
        self.ring(|_| true);
    }

    fn ring(&self, concerns: impl Fn(Interest) -> bool) {
        let state = self.0.lock().expect("no holder panics");
        for waiting in state.waiting.values().filter(|waiting| concerns(waiting.interest)) {
            waiting.bell.ring(waiting.number);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.waiters.0.lock().expect("no holder panics").waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_what_it_waits_for_and_no_ticket_stays_behind() {
        let waiters = Arc::new(Waiters::default());
        let (consumer, follower) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let tickets = [
            waiters.wait(consumer.clone(), 4, Interest::Committed),
            waiters.wait(follower.clone(), 7, Interest::Appended),
        ];
        let changed = |bell: &Bell| std::mem::take(&mut *bell.changed.lock().unwrap());
        waiters.appended();
        assert_eq!((changed(&consumer), changed(&follower)), (BTreeSet::new(), BTreeSet::from([7])));
        waiters.committed();
        assert_eq!((changed(&consumer), changed(&follower)), (BTreeSet::from([4]), BTreeSet::new()));
        waiters.everything();
        assert_eq!((changed(&consumer).len(), changed(&follower).len()), (1, 1));
        drop(tickets);
        assert!(waiters.0.lock().unwrap().waiting.is_empty());
    }
}
