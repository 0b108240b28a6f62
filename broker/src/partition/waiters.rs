//! Fetches that wait for partitions to change. Owns who waits for which change of a partition, and which partitions of
//! a fetch have changed; never knows what was asked for.
//!
//! ```text
//!   partition: appended, committed, everything ──► Waiters ──► Bell of each fetch: "number 7 changed", and whether the
//!                                                              fetch waits for that
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

/// One per waiting fetch, or per session of a follower: rung by the partitions that changed, each by its number there.
#[derive(Default)]
pub struct Bell {
    state: Mutex<Rung>,
    notify: Notify,
}

#[derive(Default)]
struct Rung {
    changed: BTreeSet<usize>,
    /// One of the changes is what the fetch waits for.
    wakes: bool,
}

impl Bell {
    /// Partition `number` of the fetch has changed. A change that the fetch does not wait for is only noted.
    fn ring(&self, number: usize, wakes: bool) {
        let mut state = self.state.lock().expect("no holder panics");
        state.changed.insert(number);
        state.wakes |= wakes;
        drop(state);
        if wakes {
            self.notify.notify_one();
        }
    }

    /// Gives the partitions that have changed, once, whatever the change was.
    pub fn take(&self) -> BTreeSet<usize> {
        std::mem::take(&mut *self.state.lock().expect("no holder panics")).changed
    }

    /// Waits until something has changed that is waited for, and gives all that have changed, once.
    pub async fn rung(&self) -> BTreeSet<usize> {
        loop {
            if self.state.lock().expect("no holder panics").wakes {
                return self.take();
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

    /// Something changed that nobody waits for, but that the next fetch has to see.
    pub fn noted(&self) {
        self.ring(|_| false);
    }

    fn ring(&self, concerns: impl Fn(Interest) -> bool) {
        let state = self.0.lock().expect("no holder panics");
        for waiting in state.waiting.values() {
            waiting.bell.ring(waiting.number, concerns(waiting.interest));
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
        let woken = |bell: &Bell| {
            let wakes = bell.state.lock().unwrap().wakes;
            (wakes, bell.take())
        };
        let (four, seven) = (BTreeSet::from([4]), BTreeSet::from([7]));
        waiters.appended();
        assert_eq!((woken(&consumer), woken(&follower)), ((false, four.clone()), (true, seven.clone())));
        waiters.committed();
        assert_eq!((woken(&consumer), woken(&follower)), ((true, four.clone()), (false, seven.clone())));
        waiters.everything();
        assert_eq!((woken(&consumer), woken(&follower)), ((true, four.clone()), (true, seven.clone())));
        waiters.noted();
        assert_eq!((woken(&consumer), woken(&follower)), ((false, four), (false, seven)));
        assert_eq!(woken(&consumer), (false, BTreeSet::new()));
        drop(tickets);
        assert!(waiters.0.lock().unwrap().waiting.is_empty());
    }
}
