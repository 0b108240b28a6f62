//! A fetch session (KIP-227) as a pure state machine: which partitions a request has to name, given what the broker
//! remembers. Owns the session's id and epoch; never sends.

use sillon_broker::types::TopicPartition;
use std::collections::BTreeMap;

/// The epoch of a request that wants no session.
const NO_SESSION_EPOCH: i32 = -1;

/// What is wanted of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub fetch_offset: i64,
    pub max_bytes: i32,
    /// The leader epoch that the reader knows; −1 for none.
    pub leader_epoch: i32,
    /// The epoch of the last record that it has; −1 for none.
    pub last_epoch: i32,
}

impl Wanted {
    /// Records from an offset on, whoever leads.
    pub fn from(fetch_offset: i64, max_bytes: i32) -> Wanted {
        Wanted { fetch_offset, max_bytes, leader_epoch: -1, last_epoch: -1 }
    }
}

/// What the broker is believed to remember.
#[derive(Debug, Default)]
pub(super) struct Session {
    is_used: bool,
    id: i32,
    epoch: i32,
    known: BTreeMap<TopicPartition, Wanted>,
}

/// The part of a fetch request that is about its session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub session_id: i32,
    pub session_epoch: i32,
    pub partitions: Vec<(TopicPartition, Wanted)>,
}

impl Session {
    /// A session to be, or none ever.
    pub fn new(is_used: bool) -> Session {
        Session { is_used, ..Session::default() }
    }

    /// What the next request says.
    pub fn plan(&mut self, wanted: &[(TopicPartition, Wanted)]) -> Plan {
        if !self.is_used {
            return Plan { session_id: 0, session_epoch: NO_SESSION_EPOCH, partitions: wanted.to_vec() };
        }
        // A partition that is not wanted any more is forgotten with the whole session: it is seldom.
        if self.known.keys().any(|known| wanted.iter().all(|(name, _)| name != known)) {
            self.lost();
        }
        let is_known = |(name, wanted): &&(TopicPartition, Wanted)| self.known.get(name) != Some(wanted);
        let partitions = wanted.iter().filter(is_known).cloned().collect();
        self.known = wanted.iter().cloned().collect();
        Plan { session_id: self.id, session_epoch: self.epoch, partitions }
    }

    /// The request was answered without an error of its own.
    pub fn answered(&mut self, session_id: i32) {
        if !self.is_used {
            return;
        }
        if self.id == 0 {
            self.id = session_id;
        }
        // After 2^31 - 1 comes 1: 0 asks for a new session. Without a session each request is a full one.
        self.epoch = if self.id == 0 { 0 } else { self.epoch.checked_add(1).unwrap_or(1) };
        if self.id == 0 {
            self.known.clear();
        }
    }

    /// The request failed, or the connection: the broker may remember anything.
    pub fn lost(&mut self) {
        *self = Session::new(self.is_used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(offsets: &[i64]) -> Vec<(TopicPartition, Wanted)> {
        let entry = |(number, offset): (usize, &i64)| {
            (TopicPartition::new("t", number as i32), Wanted::from(*offset, 100))
        };
        offsets.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn only_what_changed_is_said_again() {
        let mut session = Session::new(true);
        let first = session.plan(&wanted(&[0, 0]));
        assert_eq!((first.session_id, first.session_epoch, first.partitions.len()), (0, 0, 2));
        session.answered(77);
        let next = session.plan(&wanted(&[0, 5]));
        assert_eq!((next.session_id, next.session_epoch), (77, 1));
        assert_eq!(next.partitions, wanted(&[0, 5])[1..]);
        session.lost();
        assert_eq!(session.plan(&wanted(&[0, 5])).partitions.len(), 2);
    }

    #[test]
    fn a_broker_may_refuse_to_remember() {
        let mut session = Session::new(true);
        session.plan(&wanted(&[0]));
        session.answered(0);
        let next = session.plan(&wanted(&[0]));
        assert_eq!((next.session_epoch, next.partitions.len()), (0, 1));
    }

    #[test]
    fn without_a_session_everything_is_said_each_time() {
        let mut session = Session::new(false);
        for _ in 0..2 {
            let plan = session.plan(&wanted(&[0, 3]));
            assert_eq!((plan.session_epoch, plan.partitions.len()), (-1, 2));
            session.answered(9);
        }
    }

    #[test]
    fn a_partition_that_goes_elsewhere_begins_a_new_session() {
        let mut session = Session::new(true);
        session.plan(&wanted(&[0, 0]));
        session.answered(77);
        let next = session.plan(&wanted(&[0]));
        assert_eq!((next.session_id, next.session_epoch, next.partitions.len()), (0, 0, 1));
    }
}
