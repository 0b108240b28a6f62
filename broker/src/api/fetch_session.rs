//! Incremental fetch sessions (KIP-227): what a client has asked for, so that it need not repeat it, and what it was
//! last told, so that only news is sent.
//!
//! ```text
//!   (session id, epoch, changed and forgotten partitions) ──► Sessions ──► the full list to fetch, or an error
//!   what each partition now looks like                    ──► Sessions ──► is it news?
//! ```
//! Owns the cache of sessions. Never reads a log. Pure: the time and random session ids are handed in.

use super::fetch_watch::Watch;
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId};
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// A session that was used more recently than this is not given up for another client's.
const KEEP_AT_LEAST: Duration = Duration::from_secs(120);
/// The session id of a request that has no session.
pub const NO_SESSION: i32 = 0;
/// The epoch of the first request of a session, or of one that wants a new session.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request outside of sessions, which also ends the session it names.
pub const FINAL_EPOCH: i32 = -1;

/// How a request names a topic: by id from version 13 on, by name before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicKey {
    /// By name.
    Name(Arc<str>),
    /// By id.
    Id(TopicId),
}

/// How a request names a partition.
pub type PartitionKey = (TopicKey, i32);

/// What a client wants from one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// From which offset.
    pub fetch_offset: Offset,
    /// How many bytes at most.
    pub max_bytes: i32,
    /// The leader epoch in which the client believes, [`LeaderEpoch::NONE`] where it does not say.
    pub current_leader_epoch: LeaderEpoch,
    /// The epoch of the last record it has, [`LeaderEpoch::NONE`] where it does not say.
    pub last_fetched_epoch: LeaderEpoch,
    /// A follower's own log start offset.
    pub log_start: Offset,
    /// What it knows of the partition already, as far as it or its session says.
    pub known: Option<Told>,
}

/// What a client was last told of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The high watermark.
    pub high_watermark: Offset,
    /// The log start offset.
    pub log_start: Offset,
}

#[derive(Clone, Debug)]
struct SessionPartition {
    wanted: Wanted,
    told: Option<Told>,
    /// Its place in the order.
    rank: u64,
}

struct Session {
    uses_topic_ids: bool,
    next_epoch: i32,
    last_use: Monotonic,
    partitions: BTreeMap<PartitionKey, SessionPartition>,
    /// The order in which partitions are served: those that gave records last come last.
    order: BTreeMap<u64, PartitionKey>,
    next_rank: u64,
    /// Of a follower: what of it changed since the last answer. Taken while a request is at work.
    watch: Option<Watch>,
}

/// One request's view of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The session that the answer names; [`NO_SESSION`] where there is none.
    pub session_id: i32,
    /// Whether partitions without news are left out of the answer.
    pub incremental: bool,
    /// All partitions to fetch, in the order in which they are served.
    pub partitions: Vec<(PartitionKey, Wanted)>,
}

/// The sessions of a broker.
pub struct Sessions {
    slots: usize,
    sessions: BTreeMap<i32, Session>,
}

/// The session fields of a fetch request.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// Which session.
    pub session_id: i32,
    /// Which of its requests.
    pub epoch: i32,
    /// Whether topics are named by id.
    pub uses_topic_ids: bool,
    /// Partitions that are new or changed (all of them in a full request).
    pub partitions: Vec<(PartitionKey, Wanted)>,
    /// Partitions that are no longer wanted.
    pub forgotten: Vec<PartitionKey>,
}

impl Sessions {
    /// Room for so many sessions.
    pub fn new(slots: usize) -> Sessions {
        Sessions { slots, sessions: BTreeMap::new() }
    }

    /// Takes in what a request changes of its session, without a list of all that is wanted: see
    /// [`Sessions::wanted_of`].
    ///
    /// # Errors
    /// As [`Sessions::plan`].
    pub(super) fn plan_named(&mut self, request: SessionRequest, now: Monotonic) -> Result<i32, ErrorCode> {
        let session_id = request.session_id;
        self.note(request, now).map(|_| session_id)
    }

    /// What a request wants. `random_id` gives candidates for a new session's id.
    ///
    /// # Errors
    /// The code for the whole answer: no such session, wrong epoch, topic names where ids were used.
    pub fn plan(
        &mut self,
        request: SessionRequest,
        now: Monotonic,
        random_id: impl FnMut() -> i32,
    ) -> Result<Plan, ErrorCode> {
        match request.epoch {
            FINAL_EPOCH => {
                self.sessions.remove(&request.session_id);
                Ok(Plan { session_id: NO_SESSION, incremental: false, partitions: request.partitions })
            }
            INITIAL_EPOCH => {
                self.sessions.remove(&request.session_id);
                Ok(self.start(request, now, random_id))
            }
            _ => self.go_on(request, now),
        }
    }

    fn start(&mut self, request: SessionRequest, now: Monotonic, mut random_id: impl FnMut() -> i32) -> Plan {
        if request.partitions.is_empty() || !self.make_room(now) {
            return Plan { session_id: NO_SESSION, incremental: false, partitions: request.partitions };
        }
        let session_id = loop {
            let candidate = random_id() & i32::MAX;
            if candidate != NO_SESSION && !self.sessions.contains_key(&candidate) {
                break candidate;
            }
        };
        let mut session = Session {
            uses_topic_ids: request.uses_topic_ids,
            next_epoch: 1,
            last_use: now,
            partitions: BTreeMap::new(),
            order: BTreeMap::new(),
            next_rank: 0,
            watch: None,
        };
        session.want(request.partitions);
        let partitions = session.wanted();
        self.sessions.insert(session_id, session);
        Plan { session_id, incremental: false, partitions }
    }

    fn go_on(&mut self, request: SessionRequest, now: Monotonic) -> Result<Plan, ErrorCode> {
        let session_id = request.session_id;
        let partitions = self.note(request, now)?.wanted();
        Ok(Plan { session_id, incremental: true, partitions })
    }

    fn note(&mut self, request: SessionRequest, now: Monotonic) -> Result<&Session, ErrorCode> {
        let session =
            self.sessions.get_mut(&request.session_id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if request.epoch != session.next_epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        session.next_epoch = if session.next_epoch == i32::MAX { 1 } else { session.next_epoch + 1 };
        session.last_use = now;
        session.forget(&request.forgotten);
        session.want(request.partitions);
        Ok(session)
    }

    /// Notes what an answer tells of a partition, and says whether it has to be in the answer: it has records or an
    /// error, or what it tells is news.
    pub fn tell(&mut self, session_id: i32, key: &PartitionKey, told: Told, must_send: bool) -> bool {
        let Some(partition) =
            self.sessions.get_mut(&session_id).and_then(|session| session.partitions.get_mut(key))
        else {
            return true;
        };
        let is_news = partition.told != Some(told);
        partition.told = Some(told);
        is_news || must_send
    }

    /// Partitions that gave records are served last the next time, so that none starves where bytes are limited.
    pub fn served(&mut self, session_id: i32, served: &BTreeSet<PartitionKey>) {
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.serve_last(served);
        }
    }

    /// Takes a session's watch; none where it has none, or another request of the session is at work with it.
    pub(super) fn take_watch(&mut self, session_id: i32) -> Option<Watch> {
        self.sessions.get_mut(&session_id)?.watch.take()
    }

    /// Gives the watch back, where no other request of the session has come meanwhile: `next_epoch` is what it was.
    pub(super) fn put_watch(&mut self, session_id: i32, next_epoch: i32, watch: Watch) {
        if let Some(session) = self.sessions.get_mut(&session_id)
            && session.next_epoch == next_epoch
        {
            session.watch = Some(watch);
        }
    }

    /// What earlier processes of a follower have left is of no use, and costs at every change.
    pub(super) fn drop_watches_before(&mut self, replica: BrokerId, broker_epoch: BrokerEpoch) {
        for session in self.sessions.values_mut() {
            if session.watch.as_ref().is_some_and(|watch| watch.is_before(replica, broker_epoch)) {
                session.watch = None;
            }
        }
    }

    /// The epoch of the session's next request.
    pub(super) fn next_epoch(&self, session_id: i32) -> Option<i32> {
        self.sessions.get(&session_id).map(|session| session.next_epoch)
    }

    /// What is wanted of some of a session's partitions, in the order in which they are served.
    pub fn wanted_of<'a>(
        &self,
        session_id: i32,
        keys: impl Iterator<Item = &'a PartitionKey>,
    ) -> Vec<(PartitionKey, Wanted)> {
        let Some(session) = self.sessions.get(&session_id) else { return Vec::new() };
        let known = keys.filter_map(|key| Some((session.partitions.get(key)?.rank, key)));
        let by_rank: BTreeMap<u64, &PartitionKey> = known.collect();
        by_rank.into_values().map(|key| session.wanted_of(key)).collect()
    }

    /// Whether another session may start, giving up the least recently used one if that is old enough.
    fn make_room(&mut self, now: Monotonic) -> bool {
        if self.sessions.len() < self.slots {
            return true;
        }
        let oldest = self.sessions.iter().min_by_key(|(id, session)| (session.last_use, **id));
        match oldest {
            Some((id, session)) if now.saturating_since(session.last_use) >= KEEP_AT_LEAST => {
                let id = *id;
                self.sessions.remove(&id);
                true
            }
            _ => false,
        }
    }
}

impl Session {
    fn want(&mut self, partitions: Vec<(PartitionKey, Wanted)>) {
        for (key, wanted) in partitions {
            match self.partitions.get_mut(&key) {
                Some(partition) => partition.wanted = wanted,
                None => {
                    let rank = self.next_rank;
                    self.next_rank += 1;
                    self.order.insert(rank, key.clone());
                    self.partitions.insert(key, SessionPartition { wanted, told: None, rank });
                }
            }
        }
    }

    fn forget(&mut self, forgotten: &[PartitionKey]) {
        for key in forgotten {
            if let Some(partition) = self.partitions.remove(key) {
                self.order.remove(&partition.rank);
            }
        }
    }

    fn serve_last(&mut self, served: &BTreeSet<PartitionKey>) {
        let ranks = served.iter().filter_map(|key| self.partitions.get(key).map(|partition| partition.rank));
        let ranks: BTreeSet<u64> = ranks.collect();
        for rank in ranks {
            let key = self.order.remove(&rank).expect("every partition has its place");
            let partition = self.partitions.get_mut(&key).expect("what has a place is in the session");
            partition.rank = self.next_rank;
            self.order.insert(self.next_rank, key);
            self.next_rank += 1;
        }
    }

    fn wanted_of(&self, key: &PartitionKey) -> (PartitionKey, Wanted) {
        let SessionPartition { wanted, told, .. } = &self.partitions[key];
        (key.clone(), Wanted { known: told.or(wanted.known), ..*wanted })
    }

    fn wanted(&self) -> Vec<(PartitionKey, Wanted)> {
        self.order.values().map(|key| self.wanted_of(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition: i32) -> PartitionKey {
        (TopicKey::Name("t".into()), partition)
    }

    fn wanted(offset: i64) -> Wanted {
        Wanted {
            fetch_offset: Offset(offset),
            max_bytes: 100,
            current_leader_epoch: LeaderEpoch::NONE,
            last_fetched_epoch: LeaderEpoch::NONE,
            log_start: Offset(-1),
            known: None,
        }
    }

    fn request(session_id: i32, epoch: i32, partitions: &[(i32, i64)], forgotten: &[i32]) -> SessionRequest {
        SessionRequest {
            session_id,
            epoch,
            uses_topic_ids: false,
            partitions: partitions.iter().map(|(p, offset)| (key(*p), wanted(*offset))).collect(),
            forgotten: forgotten.iter().map(|p| key(*p)).collect(),
        }
    }

    fn numbers(plan: &Plan) -> Vec<(i32, i64)> {
        plan.partitions.iter().map(|((_, p), wanted)| (*p, wanted.fetch_offset.0)).collect()
    }

    const T0: Monotonic = Monotonic(0);

    #[test]
    fn a_session_remembers_changes_and_forgets() {
        let mut sessions = Sessions::new(1);
        let plan = sessions.plan(request(0, 0, &[(0, 5), (1, 6)], &[]), T0, || 7).unwrap();
        assert_eq!((plan.session_id, plan.incremental), (7, false));
        let plan = sessions.plan(request(7, 1, &[(1, 9)], &[]), T0, || 8).unwrap();
        assert!(plan.incremental);
        assert_eq!(numbers(&plan), [(0, 5), (1, 9)]);
        let plan = sessions.plan(request(7, 2, &[], &[0]), T0, || 8).unwrap();
        assert_eq!(numbers(&plan), [(1, 9)]);
        assert_eq!(
            sessions.plan(request(7, 2, &[], &[]), T0, || 8),
            Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH)
        );
        let by_id = SessionRequest { uses_topic_ids: true, ..request(7, 3, &[], &[]) };
        assert_eq!(sessions.plan(by_id, T0, || 8), Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR));
        let plan = sessions.plan(request(7, FINAL_EPOCH, &[(3, 1)], &[]), T0, || 8).unwrap();
        assert_eq!((plan.session_id, numbers(&plan)), (NO_SESSION, vec![(3, 1)]));
        assert_eq!(
            sessions.plan(request(7, 3, &[], &[]), T0, || 8),
            Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)
        );
    }

    #[test]
    fn only_news_is_sent() {
        let mut sessions = Sessions::new(1);
        let plan = sessions.plan(request(0, 0, &[(0, 5)], &[]), T0, || 7).unwrap();
        let told = |high_watermark| Told { high_watermark: Offset(high_watermark), log_start: Offset(0) };
        assert!(sessions.tell(plan.session_id, &key(0), told(5), false));
        assert!(!sessions.tell(plan.session_id, &key(0), told(5), false));
        assert!(sessions.tell(plan.session_id, &key(0), told(5), true));
        assert!(sessions.tell(plan.session_id, &key(0), told(6), false));
    }

    #[test]
    fn whoever_gave_records_is_served_last_the_next_time() {
        let mut sessions = Sessions::new(1);
        sessions.plan(request(0, 0, &[(0, 0), (1, 0), (2, 0)], &[]), T0, || 7).unwrap();
        sessions.served(7, &BTreeSet::from([key(0)]));
        let plan = sessions.plan(request(7, 1, &[], &[]), T0, || 8).unwrap();
        assert_eq!(numbers(&plan), [(1, 0), (2, 0), (0, 0)]);
    }

    #[test]
    fn a_full_cache_gives_up_only_old_sessions() {
        let mut sessions = Sessions::new(1);
        sessions.plan(request(0, 0, &[(0, 0)], &[]), T0, || 7).unwrap();
        let soon = T0 + Duration::from_secs(1);
        assert_eq!(sessions.plan(request(0, 0, &[(0, 0)], &[]), soon, || 8).unwrap().session_id, NO_SESSION);
        let late = T0 + KEEP_AT_LEAST;
        assert_eq!(sessions.plan(request(0, 0, &[(0, 0)], &[]), late, || 8).unwrap().session_id, 8);
        assert_eq!(
            sessions.plan(request(7, 1, &[], &[]), late, || 9),
            Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)
        );
    }
}
