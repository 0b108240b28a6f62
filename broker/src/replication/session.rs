//! The follower's side of an incremental fetch session (KIP-227): which partitions have to be named in the next request.
//! Owns what the leader was told; never sends anything. Pure.
//!
//! ```text
//!   partitions to fetch, as they change ──► FetchSession ──► session id, epoch, those new or changed, those to forget
//!   the answer's session id and error ──► FetchSession
//! ```

use super::ReplicaKey;
use crate::types::{LeaderEpoch, Offset};
use std::collections::{BTreeMap, BTreeSet};

/// What is asked of the leader for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The epoch in which this broker follows.
    pub leader_epoch: LeaderEpoch,
    /// Its log end.
    pub fetch_offset: Offset,
    /// The epoch of its last record.
    pub last_epoch: LeaderEpoch,
    /// Its log start.
    pub log_start: Offset,
}

/// One request's part of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPart {
    /// The session, 0 for none yet.
    pub session_id: i32,
    /// Its request's number; 0 begins a session.
    pub epoch: i32,
    /// The partitions to name.
    pub named: Vec<(ReplicaKey, Asked)>,
    /// Those that are not wanted any more.
    pub forgotten: Vec<ReplicaKey>,
}

/// A session with one leader.
#[derive(Clone, Debug, Default)]
pub struct FetchSession {
    session_id: i32,
    /// Of the next request; 0 for a new session.
    epoch: i32,
    wanted: BTreeMap<ReplicaKey, Asked>,
    /// What the leader believes is wanted.
    told: BTreeMap<ReplicaKey, Asked>,
    /// Where the two may differ.
    changed: BTreeSet<ReplicaKey>,
}

impl FetchSession {
    /// A partition is to be fetched from there on.
    pub fn want(&mut self, key: ReplicaKey, asked: Asked) {
        if self.wanted.insert(key, asked) != Some(asked) {
            self.changed.insert(key);
        }
    }

    /// A partition is not to be fetched any more, or not now.
    pub fn drop_wanted(&mut self, key: &ReplicaKey) {
        if self.wanted.remove(key).is_some() {
            self.changed.insert(*key);
        }
    }

    /// Whether there is nothing to ask for.
    pub fn wants_nothing(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Whether the next request begins a session, and names everything.
    pub fn is_new(&self) -> bool {
        self.epoch == 0
    }

    /// The next request. It costs what changed since the last one.
    pub fn next(&mut self) -> SessionPart {
        let changed = std::mem::take(&mut self.changed);
        let (mut named, mut forgotten) = (Vec::new(), Vec::new());
        if self.is_new() {
            self.told.clone_from(&self.wanted);
            named.extend(self.wanted.iter().map(|(key, asked)| (*key, *asked)));
        } else {
            for key in changed {
                match self.wanted.get(&key) {
                    Some(asked) if self.told.insert(key, *asked) != Some(*asked) => named.push((key, *asked)),
                    Some(_) => {}
                    None if self.told.remove(&key).is_some() => forgotten.push(key),
                    None => {}
                }
            }
        }
        SessionPart { session_id: self.session_id, epoch: self.epoch, named, forgotten }
    }

    /// What was asked for a partition in the request that is on its way.
    pub fn asked(&self, key: &ReplicaKey) -> Option<Asked> {
        self.told.get(key).copied()
    }

    /// The request was answered.
    pub fn answered(&mut self, session_id: i32) {
        if session_id == 0 {
            self.session_id = 0;
            self.lost();
        } else {
            self.session_id = session_id;
            self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
        }
    }

    /// The leader does not know the session, or the answer was lost: the next request begins a new one in its place.
    pub fn lost(&mut self) {
        self.epoch = 0;
        self.told.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TopicId;

    fn want(session: &mut FetchSession, offsets: &[(i32, i64)]) {
        for (partition, offset) in offsets {
            let asked = Asked {
                leader_epoch: LeaderEpoch(1),
                fetch_offset: Offset(*offset),
                last_epoch: LeaderEpoch(0),
                log_start: Offset(0),
            };
            session.want((TopicId::default(), *partition), asked);
        }
    }

    fn named(part: &SessionPart) -> Vec<i32> {
        part.named.iter().map(|((_, partition), _)| *partition).collect()
    }

    #[test]
    fn only_what_changed_is_named_again() {
        let mut session = FetchSession::default();
        want(&mut session, &[(0, 5), (1, 6)]);
        let first = session.next();
        assert_eq!((first.session_id, first.epoch, named(&first)), (0, 0, vec![0, 1]));
        session.answered(77);
        want(&mut session, &[(0, 5), (1, 9)]);
        let second = session.next();
        assert_eq!((second.session_id, second.epoch, named(&second)), (77, 1, vec![1]));
        session.answered(77);
        session.drop_wanted(&(TopicId::default(), 0));
        let third = session.next();
        assert_eq!((third.epoch, named(&third), third.forgotten.len()), (2, vec![], 1));
        assert_eq!(session.asked(&(TopicId::default(), 0)), None);
    }

    #[test]
    fn a_lost_session_is_begun_anew_with_everything() {
        let mut session = FetchSession::default();
        want(&mut session, &[(0, 5)]);
        session.next();
        session.answered(77);
        session.lost();
        let again = session.next();
        assert_eq!((again.session_id, again.epoch, named(&again)), (77, 0, vec![0]));
        session.answered(0);
        assert_eq!(named(&session.next()), [0], "a leader without room for a session");
    }
}
