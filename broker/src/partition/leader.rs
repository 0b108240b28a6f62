//! The leader's view of its replicas, as a pure state machine: how far the high watermark may go, and who is in sync.
//!
//! ```text
//!   own log end, followers' fetches, time, ──► LeaderState ──► the high watermark moved, in-sync replicas are
//!   the controller's answers, metadata                         proposed, facts for observers
//! ```
//! The high watermark is the smallest log end that a member of the *maximal* in-sync set (confirmed and proposed)
//! reported in this epoch. It never goes back and never passes the log end (I07, I09), and stands still while fewer
//! replicas are confirmed than `min.insync.replicas` demands (I03, KIP-966). Never touches a log, a clock or a socket.

use crate::{
    metadata::PartitionImage,
    types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch},
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What a leader is configured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderSettings {
    /// `min.insync.replicas`, as configured.
    pub min_insync_replicas: usize,
    /// `replica.lag.time.max.ms`.
    pub lag_limit: Duration,
}

/// What is known of a log when its replica takes the lead.
#[derive(Clone, Copy, Debug)]
pub struct LeaderStart {
    /// This broker.
    pub me: BrokerId,
    /// Where its epoch starts in the log (B04).
    pub epoch_start: Offset,
    /// The high watermark known from before.
    pub high_watermark: Offset,
    /// The log's end; all below is kept as surely as the topic demands.
    pub log_end: Offset,
    /// The moment.
    pub now: Monotonic,
}

/// A follower's fetch, after the leader has found nothing wrong with it: same leader epoch, no divergence.
#[derive(Clone, Copy, Debug)]
pub struct FollowerFetch {
    /// The follower.
    pub replica: BrokerId,
    /// Its registration, as it says; [`BrokerEpoch::NONE`] where it does not say.
    pub broker_epoch: BrokerEpoch,
    /// Its log end: the first offset that it wants.
    pub fetch_offset: Offset,
    /// Its log start.
    pub log_start: Offset,
    /// The registration that the metadata knows, where the follower may be in sync at all.
    pub registered: Option<BrokerEpoch>,
    /// The moment.
    pub now: Monotonic,
}

/// What became of something. To be carried out in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderEffect {
    /// A follower's log end was learnt.
    Reported {
        /// The follower.
        replica: BrokerId,
        /// Its registration.
        broker_epoch: BrokerEpoch,
        /// Its log end.
        log_end: Offset,
    },
    /// A follower was found to lag.
    Lags {
        /// The follower.
        replica: BrokerId,
        /// For how long.
        behind_for: Duration,
    },
    /// In-sync replicas are to be proposed: see [`LeaderState::proposal`].
    Propose(Vec<BrokerId>),
    /// The true in-sync replicas were learnt.
    Confirmed,
    /// The high watermark moved.
    HighWatermark {
        /// From where.
        from: Offset,
        /// To where.
        to: Offset,
    },
}

/// In-sync replicas to be proposed to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The epoch it is made in.
    pub leader_epoch: LeaderEpoch,
    /// The state that it changes.
    pub partition_epoch: PartitionEpoch,
    /// The in-sync replicas with the registration under which each caught up; [`BrokerEpoch::NONE`] where that is not
    /// known, and for the leader itself.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// The true state, as the controller answers a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrueState {
    /// The leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// The state's epoch.
    pub partition_epoch: PartitionEpoch,
    /// The in-sync replicas.
    pub isr: Vec<BrokerId>,
}

/// Why a follower's fetch does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchRefusal {
    /// It is no replica of the partition, as far as this leader knows.
    NotAReplica,
    /// A later registration of it has fetched already.
    StaleBrokerEpoch,
}

/// When a follower's fetch session was used last. Partitions that its requests do not name were fetched then as well, at
/// the offset that was told before (KIP-227); so none of them has to be touched for that.
#[derive(Debug)]
pub struct SessionClock(AtomicU64);

impl SessionClock {
    /// A session that is used now.
    pub fn new(now: Monotonic) -> SessionClock {
        SessionClock(AtomicU64::new(now.0))
    }

    /// It is used again.
    pub fn set(&self, now: Monotonic) {
        self.0.fetch_max(now.0, Ordering::AcqRel);
    }

    fn last_use(&self) -> Monotonic {
        Monotonic(self.0.load(Ordering::Acquire))
    }
}

/// What the leader knows of a follower, in this epoch.
#[derive(Clone, Debug)]
struct Progress {
    /// The session in which it fetches this partition, where there is one.
    session: Option<Arc<SessionClock>>,
    /// The log end that it reported; none before its first fetch in this epoch.
    log_end: Option<Offset>,
    log_start: Option<Offset>,
    broker_epoch: BrokerEpoch,
    /// When it last had everything; none where it never had in this epoch.
    caught_up_at: Option<Monotonic>,
    /// Its last fetch, and the leader's log end at that moment.
    last_fetch: Option<(Monotonic, Offset)>,
}

/// A proposal on its way.
#[derive(Clone, Debug)]
struct Pending {
    isr: BTreeSet<BrokerId>,
    /// An attempt may have reached the controller without an answer.
    uncertain: bool,
    /// The controller refused it for good: what is asked now is only what is true.
    refused: bool,
}

/// The state of a partition that this broker leads.
#[derive(Clone, Debug)]
pub struct LeaderState {
    me: BrokerId,
    leader_epoch: LeaderEpoch,
    partition_epoch: PartitionEpoch,
    epoch_start: Offset,
    confirmed: BTreeSet<BrokerId>,
    pending: Option<Pending>,
    followers: BTreeMap<BrokerId, Progress>,
    log_end: Offset,
    /// Everything below is kept by this replica as surely as the topic demands.
    stable_end: Offset,
    high_watermark: Offset,
    settings: LeaderSettings,
}

impl LeaderState {
    /// The lead begins as `state` says. Nothing that followers said in earlier epochs counts. Followers that are in
    /// sync have the whole lag limit to show up.
    pub fn new(state: &PartitionImage, start: LeaderStart, settings: LeaderSettings) -> LeaderState {
        assert!(
            start.epoch_start <= start.log_end && start.high_watermark <= start.log_end,
            "a leader's log holds its high watermark and the start of its epoch"
        );
        let mut leader = LeaderState {
            me: start.me,
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            epoch_start: start.epoch_start,
            confirmed: state.isr.iter().copied().collect(),
            pending: None,
            followers: BTreeMap::new(),
            log_end: start.log_end,
            stable_end: start.log_end,
            high_watermark: start.high_watermark,
            settings,
        };
        leader.set_replicas(&state.replicas, start.now);
        leader
    }

    fn set_replicas(&mut self, replicas: &[BrokerId], now: Monotonic) {
        let me = self.me;
        self.followers.retain(|replica, _| replicas.contains(replica));
        for replica in replicas.iter().filter(|replica| **replica != me) {
            let in_sync = self.confirmed.contains(replica);
            self.followers.entry(*replica).or_insert(Progress {
                session: None,
                log_end: None,
                log_start: None,
                broker_epoch: BrokerEpoch::NONE,
                caught_up_at: in_sync.then_some(now),
                last_fetch: None,
            });
        }
    }

    /// The epoch it leads in.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// The newest state that it knows.
    pub fn partition_epoch(&self) -> PartitionEpoch {
        self.partition_epoch
    }

    /// Where its epoch starts.
    pub fn epoch_start(&self) -> Offset {
        self.epoch_start
    }

    /// All records below are committed.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// `replica.lag.time.max.ms`.
    pub fn lag_limit(&self) -> Duration {
        self.settings.lag_limit
    }

    /// Whether the high watermark can be told to clients as the end of the log: it may lie below what an earlier
    /// leader told until it has reached this epoch's start (KIP-207, B17).
    pub fn tells_latest(&self) -> bool {
        self.high_watermark >= self.epoch_start
    }

    /// The in-sync replicas that the controller confirmed.
    pub fn in_sync(&self) -> Vec<BrokerId> {
        self.confirmed.iter().copied().collect()
    }

    /// Whether as many replicas are confirmed in sync as acks=all demands: `min.insync.replicas`, but never more than
    /// there are replicas (I03, B23, B24).
    pub fn has_enough_in_sync(&self) -> bool {
        let replicas = self.followers.len() + 1;
        self.confirmed.len() >= self.settings.min_insync_replicas.min(replicas)
    }

    /// Whether the broker holds a replica of the partition.
    pub fn is_follower(&self, broker: BrokerId) -> bool {
        self.followers.contains_key(&broker)
    }

    /// The followers that are in sync and hold `offset`, with their log ends: those that a consumer may be sent to
    /// (KIP-392).
    pub fn readable_followers(&self, offset: Offset) -> impl Iterator<Item = (BrokerId, Offset)> + '_ {
        self.followers.iter().filter_map(move |(replica, progress)| {
            let log_end = progress.log_end.filter(|log_end| *log_end >= offset)?;
            let holds = progress.log_start.is_none_or(|log_start| log_start <= offset);
            (holds && self.confirmed.contains(replica)).then_some((*replica, log_end))
        })
    }

    /// The smallest log start among those of `replicas` that follow; none where one has not told it yet.
    pub fn followers_log_start(&self, replicas: impl Fn(BrokerId) -> bool) -> Option<Offset> {
        let alive = self.followers.iter().filter(|(replica, _)| replicas(**replica));
        alive
            .map(|(_, progress)| progress.log_start)
            .try_fold(Offset(i64::MAX), |least, log_start| log_start.map(|log_start| log_start.min(least)))
    }

    /// Records were appended; they are not stable yet.
    pub fn on_local_append(&mut self, log_end: Offset) {
        if log_end > self.log_end {
            self.followers.values_mut().for_each(|progress| progress.note_session(self.log_end));
            self.log_end = log_end;
        }
    }

    /// A follower goes on fetching this partition in that session, named or not; or in none.
    pub fn on_session(&mut self, replica: BrokerId, session: Option<Arc<SessionClock>>) {
        let log_end = self.log_end;
        if let Some(progress) = self.followers.get_mut(&replica) {
            progress.note_session(log_end);
            progress.session = session;
        }
    }

    /// Whether a follower's next fetch at the same offset would change nothing but the time of it: it is in sync and
    /// holds everything.
    pub fn is_settled(&self, replica: BrokerId) -> bool {
        let holds_all =
            self.followers.get(&replica).is_some_and(|progress| progress.log_end == Some(self.log_end));
        holds_all && self.confirmed.contains(&replica)
    }

    /// This replica keeps everything below `stable_end` as surely as the topic demands: it was appended, and synced
    /// where the topic says so.
    pub fn on_stable(&mut self, stable_end: Offset) -> Vec<LeaderEffect> {
        assert!(
            stable_end <= self.log_end,
            "nothing past the log end ({}) can be stable ({stable_end})",
            self.log_end
        );
        self.stable_end = self.stable_end.max(stable_end);
        let mut effects = Vec::new();
        self.advance_high_watermark(&mut effects);
        effects
    }

    /// The log was opened again after a failure: damage on the disk may have taken records, committed ones as well.
    pub fn on_log_end_lowered(&mut self, log_end: Offset) {
        self.log_end = log_end;
        self.stable_end = self.stable_end.min(log_end);
        self.high_watermark = self.high_watermark.min(log_end);
        self.epoch_start = self.epoch_start.min(log_end);
    }

    /// A follower fetches in this epoch: it holds everything below the offset that it asks for.
    ///
    /// # Errors
    /// Where the fetch must not count.
    pub fn on_follower_fetch(&mut self, fetch: &FollowerFetch) -> Result<Vec<LeaderEffect>, FetchRefusal> {
        assert!(fetch.fetch_offset <= self.log_end, "a follower past the log end diverges");
        let log_end = self.log_end;
        let progress = self.followers.get_mut(&fetch.replica).ok_or(FetchRefusal::NotAReplica)?;
        if fetch.broker_epoch != BrokerEpoch::NONE && fetch.broker_epoch < progress.broker_epoch {
            return Err(FetchRefusal::StaleBrokerEpoch);
        }
        let mut effects = Vec::new();
        if progress.log_end != Some(fetch.fetch_offset) || progress.broker_epoch != fetch.broker_epoch {
            effects.push(LeaderEffect::Reported {
                replica: fetch.replica,
                broker_epoch: fetch.broker_epoch,
                log_end: fetch.fetch_offset,
            });
        }
        progress.note(fetch, log_end);
        self.advance_high_watermark(&mut effects);
        self.propose_to_expand(fetch, &mut effects);
        Ok(effects)
    }

    /// A follower joins when it has everything that is committed, and everything up to where this epoch starts: a new
    /// leader's high watermark may lie below what was committed before it (B06). It joins under the registration that
    /// the metadata knows and not otherwise (KIP-903, B21).
    fn propose_to_expand(&mut self, fetch: &FollowerFetch, effects: &mut Vec<LeaderEffect>) {
        let needed = self.high_watermark.max(self.epoch_start);
        let is_current =
            fetch.broker_epoch != BrokerEpoch::NONE && fetch.registered == Some(fetch.broker_epoch);
        if self.pending.is_none()
            && !self.confirmed.contains(&fetch.replica)
            && fetch.fetch_offset >= needed
            && is_current
        {
            let mut isr = self.confirmed.clone();
            isr.insert(fetch.replica);
            self.propose(isr, effects);
        }
    }

    /// Looks for followers that lag behind for longer than they may (I66).
    pub fn on_tick(&mut self, now: Monotonic) -> Vec<LeaderEffect> {
        let mut effects = Vec::new();
        if self.pending.is_some() {
            return effects;
        }
        let mut isr = self.confirmed.clone();
        for (replica, progress) in &self.followers {
            if let Some(behind_for) = self.lag(progress, now).filter(|_| self.confirmed.contains(replica)) {
                effects.push(LeaderEffect::Lags { replica: *replica, behind_for });
                isr.remove(replica);
            }
        }
        if isr != self.confirmed {
            self.propose(isr, &mut effects);
        }
        effects
    }

    /// For how long a follower has lagged, where that is too long.
    fn lag(&self, progress: &Progress, now: Monotonic) -> Option<Duration> {
        if progress.log_end == Some(self.log_end) {
            return None;
        }
        let behind_for = now.saturating_since(progress.caught_up_at.unwrap_or(Monotonic(0)));
        (behind_for > self.settings.lag_limit).then_some(behind_for)
    }

    fn propose(&mut self, mut isr: BTreeSet<BrokerId>, effects: &mut Vec<LeaderEffect>) {
        // A leader is in sync with itself, whatever it was told.
        isr.insert(self.me);
        effects.push(LeaderEffect::Propose(isr.iter().copied().collect()));
        self.pending = Some(Pending { isr, uncertain: false, refused: false });
    }

    /// What is to be sent to the controller, if anything.
    pub fn proposal(&self) -> Option<Proposal> {
        let pending = self.pending.as_ref()?;
        let isr = if pending.refused { &self.confirmed } else { &pending.isr };
        let with_epoch = |replica: &BrokerId| {
            let progress = self.followers.get(replica);
            (*replica, progress.map_or(BrokerEpoch::NONE, |progress| progress.broker_epoch))
        };
        Some(Proposal {
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            isr: isr.iter().map(with_epoch).collect(),
        })
    }

    /// The controller answered the proposal that was made to change `asked`; one that is no longer pending is ignored.
    /// Where no answer came at all, `code` is any error that may be tried again.
    pub fn on_proposal_result(
        &mut self,
        asked: (LeaderEpoch, PartitionEpoch),
        result: Result<TrueState, ErrorCode>,
    ) -> Vec<LeaderEffect> {
        let mut effects = Vec::new();
        if asked != (self.leader_epoch, self.partition_epoch) {
            return effects;
        }
        let Some(pending) = &mut self.pending else { return effects };
        match result {
            Ok(state) if state.leader_epoch == self.leader_epoch => self.confirm(&state, &mut effects),
            // Another leader epoch began: the metadata will say so.
            Ok(_) => {}
            // Refused, and it can never be accepted later: the registration that it names is over. Unless an attempt
            // before this one was accepted, what is confirmed is the truth.
            Err(ErrorCode::INELIGIBLE_REPLICA) if pending.uncertain => pending.refused = true,
            Err(ErrorCode::INELIGIBLE_REPLICA) => {
                self.pending = None;
                effects.push(LeaderEffect::Confirmed);
                self.advance_high_watermark(&mut effects);
            }
            // The truth is not known: until it is, both sets count.
            Err(_) => pending.uncertain = true,
        }
        effects
    }

    fn confirm(&mut self, state: &TrueState, effects: &mut Vec<LeaderEffect>) {
        if state.partition_epoch < self.partition_epoch {
            return;
        }
        self.partition_epoch = state.partition_epoch;
        self.confirmed = state.isr.iter().copied().collect();
        self.pending = None;
        effects.push(LeaderEffect::Confirmed);
        // Whoever held it back may be gone from the set, and nobody else will ask (B19).
        self.advance_high_watermark(effects);
    }

    /// The metadata tells a state of this same leader epoch. One that is not newer changes nothing (I34).
    pub fn on_metadata(&mut self, state: &PartitionImage, now: Monotonic) -> Vec<LeaderEffect> {
        assert_eq!(state.leader_epoch, self.leader_epoch, "another epoch is another leader state");
        let mut effects = Vec::new();
        if state.partition_epoch <= self.partition_epoch {
            return effects;
        }
        let told = TrueState {
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            isr: state.isr.clone(),
        };
        self.confirmed = told.isr.iter().copied().collect();
        self.set_replicas(&state.replicas, now);
        self.confirm(&told, &mut effects);
        effects
    }

    /// Other settings are in force.
    pub fn on_settings(&mut self, settings: LeaderSettings) -> Vec<LeaderEffect> {
        let mut effects = Vec::new();
        if settings != self.settings {
            self.settings = settings;
            self.advance_high_watermark(&mut effects);
        }
        effects
    }

    /// The one place where the high watermark moves.
    fn advance_high_watermark(&mut self, effects: &mut Vec<LeaderEffect>) {
        if !self.has_enough_in_sync() {
            return;
        }
        let Some(to) = self.committed_end().filter(|to| *to > self.high_watermark) else { return };
        assert!(to <= self.log_end, "I09: the high watermark is within the log");
        let from = std::mem::replace(&mut self.high_watermark, to);
        effects.push(LeaderEffect::HighWatermark { from, to });
    }

    /// What every replica of the maximal in-sync set holds (B18); none while one of them has not reported in this epoch
    /// (B07).
    fn committed_end(&self) -> Option<Offset> {
        let proposed = self.pending.iter().flat_map(|pending| &pending.isr);
        let maximal = self.confirmed.iter().chain(proposed);
        maximal.filter(|replica| **replica != self.me).try_fold(self.stable_end, |least, replica| {
            let log_end = self.followers.get(replica).and_then(|progress| progress.log_end)?;
            Some(least.min(log_end))
        })
    }
}

impl Progress {
    /// While it held everything, each use of its session was a fetch that found it caught up.
    fn note_session(&mut self, leader_log_end: Offset) {
        if let Some(session) = &self.session
            && self.log_end == Some(leader_log_end)
        {
            let at = session.last_use();
            self.caught_up_at = self.caught_up_at.max(Some(at));
            self.last_fetch = self.last_fetch.max(Some((at, leader_log_end)));
        }
    }

    /// Notes a fetch. A follower is caught up as of this fetch where it has everything, and as of the one before where
    /// it has everything that there was then: under steady load it is never at the very end.
    fn note(&mut self, fetch: &FollowerFetch, leader_log_end: Offset) {
        if fetch.broker_epoch != self.broker_epoch && self.broker_epoch != BrokerEpoch::NONE {
            // It has started anew, and what it said before counts no longer.
            self.last_fetch = None;
        }
        if fetch.fetch_offset >= leader_log_end {
            self.caught_up_at = self.caught_up_at.max(Some(fetch.now));
        } else if let Some((at, log_end)) = self.last_fetch
            && fetch.fetch_offset >= log_end
        {
            self.caught_up_at = self.caught_up_at.max(Some(at));
        }
        self.log_end = Some(fetch.fetch_offset);
        self.log_start = Some(fetch.log_start);
        if fetch.broker_epoch != BrokerEpoch::NONE {
            self.broker_epoch = fetch.broker_epoch;
        }
        self.last_fetch = Some((fetch.now, leader_log_end));
    }
}
