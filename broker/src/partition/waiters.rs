//! Fetches that wait for a partition's high watermark to move. Owns who waits; never knows what for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// Those who wait on one partition, in the order in which they came.
#[derive(Default)]
pub struct Waiters(Mutex<State>);

#[derive(Default)]
struct State {
    next_ticket: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// A place among the waiters, given up when dropped.
pub struct Ticket {
    waiters: Arc<Waiters>,
    number: u64,
}

impl Waiters {
    /// Adds a waiter; it is notified at every move from now on, until the ticket is dropped.
    pub fn wait(self: &Arc<Self>, notify: Arc<Notify>) -> Ticket {
        let mut state = self.0.lock().expect("no holder panics");
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.insert(number, notify);
        Ticket { waiters: self.clone(), number }
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        let state = self.0.lock().expect("no holder panics");
        for notify in state.waiting.values() {
            notify.notify_one();
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
    fn a_dropped_ticket_leaves_nothing_behind() {
        let waiters = Arc::new(Waiters::default());
        let notify = Arc::new(Notify::new());
        let ticket = waiters.wait(notify.clone());
        assert_eq!(waiters.0.lock().unwrap().waiting.len(), 1);
        waiters.notify_all();
        drop(ticket);
        assert_eq!(waiters.0.lock().unwrap().waiting.len(), 0);
    }
}
