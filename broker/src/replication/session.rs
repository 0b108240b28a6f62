//! The follower's side of an incremental fetch session (KIP-227): which partitions have to be named in the next request.
//! Owns what the leader was told; never sends anything. Pure.
//!
//! ```text
//!   all partitions to fetch ──► FetchSession ──► session id, epoch, those that are new or changed, those to forget
//!   the answer's session id and error ──► FetchSession
//! ```

use super::ReplicaKey;
use crate::types::{LeaderEpoch, Offset};
use std::collections::BTreeMap;

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
    /// What the leader believes is wanted.
    told: BTreeMap<ReplicaKey, Asked>,
}

impl FetchSession {
    /// The next request, for all that is wanted now.
    pub fn next(&mut self, wanted: &BTreeMap<ReplicaKey, Asked>) -> SessionPart {
        let is_new = self.epoch == 0;
        let is_known = |key: &ReplicaKey, asked: &Asked| !is_new && self.told.get(key) == Some(asked);
        let named = wanted.iter().filter(|(key, asked)| !is_known(key, asked));
        let named = named.map(|(key, asked)| (*key, *asked)).collect();
        let gone = self.told.keys().filter(|key| !is_new && !wanted.contains_key(key));
        let forgotten: Vec<ReplicaKey> = gone.copied().collect();
        let part = SessionPart { session_id: self.session_id, epoch: self.epoch, named, forgotten };
        if is_new {
            self.told.clear();
        }
        for gone in &part.forgotten {
            self.told.remove(gone);
        }
        self.told.extend(part.named.iter().copied());
        part
    }

    /// What was asked for a partition in the request that is on its way.
    pub fn asked(&self, key: &ReplicaKey) -> Option<Asked> {
        self.told.get(key).copied()
    }

    /// The request was answered.
    pub fn answered(&mut self, session_id: i32) {
        if session_id == 0 {
            *self = FetchSession::default();
        } else {
            self.session_id = session_id;
            self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
        }
    }

    /// The leader does not know the session, or the answer was lost: the next request begins a new one in its place.
    pub fn lost(&mut self) {
        *self = FetchSession { session_id: self.session_id, ..FetchSession::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TopicId;

    fn wanted(offsets: &[(i32, i64)]) -> BTreeMap<ReplicaKey, Asked> {
        let asked = |offset| Asked {
            leader_epoch: LeaderEpoch(1),
            fetch_offset: Offset(offset),
            last_epoch: LeaderEpoch(0),
            log_start: Offset(0),
        };
        offsets.iter().map(|(partition, offset)| ((TopicId::default(), *partition), asked(*offset))).collect()
    }

    fn named(part: &SessionPart) -> Vec<i32> {
        part.named.iter().map(|((_, partition), _)| *partition).collect()
    }

    #[test]
    fn only_what_changed_is_named_again() {
        let mut session = FetchSession::default();
        let first = session.next(&wanted(&[(0, 5), (1, 6)]));
        assert_eq!((first.session_id, first.epoch, named(&first)), (0, 0, vec![0, 1]));
        session.answered(77);
        let second = session.next(&wanted(&[(0, 5), (1, 9)]));
        assert_eq!((second.session_id, second.epoch, named(&second)), (77, 1, vec![1]));
        session.answered(77);
        let third = session.next(&wanted(&[(1, 9)]));
        assert_eq!((third.epoch, named(&third), third.forgotten.len()), (2, vec![], 1));
        assert_eq!(session.asked(&(TopicId::default(), 0)), None);
    }

    #[test]
    fn a_lost_session_is_begun_anew_with_everything() {
        let mut session = FetchSession::default();
        session.next(&wanted(&[(0, 5)]));
        session.answered(77);
        session.lost();
        let again = session.next(&wanted(&[(0, 5)]));
        assert_eq!((again.session_id, again.epoch, named(&again)), (77, 0, vec![0]));
        session.answered(0);
        assert_eq!(named(&session.next(&wanted(&[(0, 5)]))), [0], "a leader without room for a session");
    }
}
