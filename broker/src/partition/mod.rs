//! One replica of a partition on this broker: its log, what it is for the partition (leader or follower), its high
//! watermark, and those who wait for it to move.
//!
//! ```text
//!   metadata ──► follow_metadata ──► Leader(LeaderState) or Follower(FollowerState)
//!   producers ─► append (leading)          ┐
//!   followers ─► follower_fetched (leading)├─► effects ──► observers, high watermark, waiting produces and fetches
//!   leader ────► apply_answer (following)  ┘
//! ```
//! Owns the order: a change of role, an append and an answer of the leader never run beside one another (`turn`), so
//! what was begun in one role never ends in another. Never decides where the high watermark may go (`leader`,
//! `follower`, both pure) or what a batch must look like (`log`).

mod commits;
pub mod follower;
mod following;
pub mod leader;
mod leading;
mod waiters;

#[cfg(test)]
mod tests;

pub use following::ApplyError;
pub use leading::{Appending, ProduceError};
pub use waiters::{Bell, Interest, Ticket};

use crate::{
    log::{CleanError, Cleaned, CleanerLimits, Log, LogError, Throttle},
    metadata::PartitionImage,
    observe::{Observation, Observers, ReplicaRole},
    replication::Outbox,
    types::{BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId, TopicPartition},
};
use commits::Commits;
use follower::FollowerState;
use leader::{LeaderEffect, LeaderSettings, LeaderStart, LeaderState};
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI64, Ordering},
};
use waiters::Waiters;

/// A replica that this broker holds.
pub struct Partition {
    name: TopicPartition,
    topic_id: TopicId,
    me: BrokerId,
    log: Arc<Log>,
    observers: Observers,
    outbox: Arc<Outbox>,
    /// Held while the role changes, records are appended, or an answer of the leader is applied.
    turn: tokio::sync::Mutex<()>,
    /// Changed in short steps, never across a suspension point.
    state: Mutex<State>,
    /// A copy of the role's, for readers that take no lock.
    high_watermark: AtomicI64,
    waiters: Arc<Waiters>,
    removed: AtomicBool,
}

struct State {
    role: Role,
    commits: Commits,
}

enum Role {
    Leader(LeaderState),
    Follower(FollowerState),
}

/// What a replica is opened with.
pub struct Opened {
    /// Its topic and number.
    pub name: TopicPartition,
    /// Its topic's id.
    pub topic_id: TopicId,
    /// This broker.
    pub me: BrokerId,
    /// Its log.
    pub log: Arc<Log>,
    /// The high watermark that was noted for it (B29).
    pub checkpointed_high_watermark: Offset,
}

impl Partition {
    /// A replica whose log is open. It follows nobody until the metadata says what it is.
    pub fn new(opened: Opened, observers: Observers, outbox: Arc<Outbox>) -> Arc<Partition> {
        let Opened { name, topic_id, me, log, checkpointed_high_watermark } = opened;
        let high_watermark = checkpointed_high_watermark.clamp(log.log_start_offset(), log.log_end_offset());
        let role = Role::Follower(FollowerState::new(None, LeaderEpoch::NONE, high_watermark));
        Arc::new(Partition {
            name,
            topic_id,
            me,
            log,
            observers,
            outbox,
            turn: tokio::sync::Mutex::new(()),
            state: Mutex::new(State { role, commits: Commits::default() }),
            high_watermark: AtomicI64::new(high_watermark.0),
            waiters: Arc::default(),
            removed: AtomicBool::new(false),
        })
    }

    /// Its topic and number.
    pub fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// Its topic's id.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// Its log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The epoch in which this broker leads or follows.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.state().role.leader_epoch()
    }

    /// Whether this broker leads it.
    pub fn is_leader(&self) -> bool {
        matches!(self.state().role, Role::Leader(_))
    }

    /// The epoch that it is led in, where the client's idea of it is right (KIP-320) and, with `leader_only`, this
    /// broker leads.
    ///
    /// # Errors
    /// FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
    pub fn check_leader(&self, claimed: LeaderEpoch, leader_only: bool) -> Result<LeaderEpoch, ErrorCode> {
        let state = self.state();
        let leader_epoch = state.role.leader_epoch();
        crate::api::check_leader_epoch(claimed.0, leader_epoch)?;
        match &state.role {
            Role::Follower(_) if leader_only => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            _ => Ok(leader_epoch),
        }
    }

    /// All records below are committed and may be read.
    pub fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::Acquire))
    }

    /// Whether this broker holds no replica of it any more.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Rings the bell at every change that concerns the fetch.
    pub fn wait(&self, bell: Arc<Bell>, number: usize, interest: Interest) -> Ticket {
        self.waiters.wait(bell, number, interest)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Becomes what the metadata says; does nothing where it is that already, or where it has heard newer.
    ///
    /// # Errors
    /// Where the log cannot take the epoch in; the replica then stays what it was, and this may be tried again.
    pub async fn follow_metadata(
        &self,
        image: &PartitionImage,
        settings: LeaderSettings,
        now: Monotonic,
    ) -> Result<(), LogError> {
        let _turn = self.turn.lock().await;
        if self.is_removed() || image.leader_epoch < self.leader_epoch() {
            return Ok(());
        }
        if image.leader != Some(self.me) {
            self.follow(image);
            return Ok(());
        }
        {
            let mut state = self.state();
            if let Role::Leader(leader) = &mut state.role
                && leader.leader_epoch() == image.leader_epoch
            {
                let mut effects = leader.on_metadata(image, now);
                effects.extend(leader.on_settings(settings));
                self.carry_out(&mut state, effects);
                return Ok(());
            }
        }
        self.lead(image, settings, now).await
    }

    /// Takes the lead. The caller holds `turn`.
    async fn lead(
        &self,
        image: &PartitionImage,
        settings: LeaderSettings,
        now: Monotonic,
    ) -> Result<(), LogError> {
        // The epoch is in the log's cache before its first record: one without records divides what came before from
        // what an intermediate leader wrote (B04).
        let epoch_start = self.log.start_leader_epoch(image.leader_epoch).await?;
        self.sync_where_demanded().await?;
        let (log_start, log_end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let mut state = self.state();
        let high_watermark = state.role.high_watermark().clamp(log_start, log_end);
        let start = LeaderStart { me: self.me, epoch_start, high_watermark, log_end, now };
        let mut leader = LeaderState::new(image, start, settings);
        self.observers.tell(|| Observation::BecameLeader {
            partition: &self.name,
            leader_epoch: image.leader_epoch,
            start_offset: epoch_start,
            latest_epoch: self.log.epochs().last().copied(),
            high_watermark,
            partition_epoch: image.partition_epoch,
            isr: &image.isr,
        });
        let effects = leader.on_stable(log_end);
        state.role = Role::Leader(leader);
        self.high_watermark.store(high_watermark.0, Ordering::Release);
        self.carry_out(&mut state, effects);
        drop(state);
        self.waiters.everything();
        Ok(())
    }

    /// Follows from now on. The log is left as it is (B01). The caller holds `turn`.
    fn follow(&self, image: &PartitionImage) {
        let mut state = self.state();
        if let Role::Follower(follower) = &state.role
            && (follower.leader(), follower.leader_epoch()) == (image.leader, image.leader_epoch)
        {
            return;
        }
        let high_watermark = state.role.high_watermark();
        state.role = Role::Follower(FollowerState::new(image.leader, image.leader_epoch, high_watermark));
        // Whether what they wait for is committed is for the new leader to say.
        state.commits.fail_all(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        self.observers.tell(|| Observation::BecameFollower {
            partition: &self.name,
            leader: image.leader,
            leader_epoch: image.leader_epoch,
            log_end: self.log.log_end_offset(),
            high_watermark,
        });
        drop(state);
        self.waiters.everything();
    }

    /// This broker holds no replica of it any more: no append and no read from now on.
    pub async fn remove(&self) {
        let _turn = self.turn.lock().await;
        self.removed.store(true, Ordering::Release);
        {
            let mut state = self.state();
            // What is still under way, a sync for one, finds no leader to report to.
            let (leader_epoch, high_watermark) = (state.role.leader_epoch(), state.role.high_watermark());
            state.role = Role::Follower(FollowerState::new(None, leader_epoch, high_watermark));
            state.commits.fail_all(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        self.waiters.everything();
        self.observers
            .tell(|| Observation::ReplicaRemoved { partition: &self.name, topic_id: self.topic_id });
    }

    /// Closes the log, once what is under way has ended: nothing is cut short that would leave it in doubt.
    ///
    /// # Errors
    /// Where something cannot be made durable.
    pub async fn close(&self) -> Result<(), LogError> {
        let _turn = self.turn.lock().await;
        self.log.close().await
    }

    /// Opens the log again after a failed write or sync.
    ///
    /// # Errors
    /// Where the disk still fails; the log stays offline.
    pub async fn reopen(&self) -> Result<(), LogError> {
        let _turn = self.turn.lock().await;
        // Whether it works or not: those who fetch are to hear of it.
        self.waiters.everything();
        self.log.reopen().await?;
        self.sync_where_demanded().await?;
        let (log_start, log_end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let mut state = self.state();
        let effects = match &mut state.role {
            Role::Leader(leader) => {
                leader.on_log_end_lowered(log_end);
                self.high_watermark.store(leader.high_watermark().0, Ordering::Release);
                leader.on_stable(log_end)
            }
            Role::Follower(follower) => {
                follower.on_log_replaced(log_start, log_end);
                self.high_watermark.store(follower.high_watermark().0, Ordering::Release);
                Vec::new()
            }
        };
        self.carry_out(&mut state, effects);
        drop(state);
        self.waiters.everything();
        Ok(())
    }

    /// Where every record is to be on disk before it counts, syncs what was found in the log: a process that was killed
    /// may have left it in the page cache only.
    pub async fn sync_where_demanded(&self) -> Result<(), LogError> {
        if self.must_sync() {
            self.log.flush(self.log.log_end_offset()).await?;
        }
        Ok(())
    }

    /// Compacts what is committed, leader or not: each replica does so on its own.
    ///
    /// # Errors
    /// [`CleanError`].
    pub async fn clean(
        &self,
        limits: CleanerLimits,
        throttle: &Throttle,
    ) -> Result<Option<Cleaned>, CleanError> {
        self.log.clean(self.high_watermark(), limits, throttle).await
    }

    /// Whether the log holds records that may not count before they are on disk.
    pub fn must_sync(&self) -> bool {
        self.log.config().flush_messages == 1 && self.log.recovery_point() < self.log.log_end_offset()
    }

    /// Carries out what the leader's state machine decided, in its order.
    fn carry_out(&self, state: &mut State, effects: Vec<LeaderEffect>) {
        let State { role: Role::Leader(leader), commits } = state else { return };
        for effect in effects {
            self.tell(leader, &effect);
            match effect {
                LeaderEffect::Propose(_) => self.outbox.put(self.topic_id, self.name.partition),
                LeaderEffect::HighWatermark { to, .. } => {
                    self.high_watermark.store(to.0, Ordering::Release);
                    let enough = leader.has_enough_in_sync();
                    let verdict =
                        if enough { Ok(()) } else { Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND) };
                    commits.reached(to, verdict);
                    self.waiters.committed();
                }
                // A follower that is out of sync now may come back with its next fetch.
                LeaderEffect::Confirmed => self.waiters.noted(),
                LeaderEffect::Reported { .. } | LeaderEffect::Lags { .. } => {}
            }
        }
    }

    fn tell(&self, leader: &LeaderState, effect: &LeaderEffect) {
        let (partition, leader_epoch) = (&self.name, leader.leader_epoch());
        let partition_epoch = leader.partition_epoch();
        match effect {
            LeaderEffect::Reported { replica, broker_epoch, log_end } => {
                let (replica, broker_epoch, log_end) = (*replica, *broker_epoch, *log_end);
                self.observers.tell(|| Observation::ReplicaReported {
                    partition,
                    leader_epoch,
                    replica,
                    broker_epoch,
                    log_end,
                });
            }
            LeaderEffect::Lags { replica, behind_for } => self.observers.tell(|| Observation::ReplicaLags {
                partition,
                leader_epoch,
                replica: *replica,
                behind_for_ms: millis(*behind_for),
                limit_ms: millis(leader.lag_limit()),
            }),
            LeaderEffect::Propose(isr) => self.observers.tell(|| Observation::IsrProposed {
                partition,
                leader_epoch,
                partition_epoch,
                isr,
            }),
            LeaderEffect::Confirmed => {
                let isr = leader.in_sync();
                self.observers.tell(|| Observation::IsrConfirmed {
                    partition,
                    leader_epoch,
                    partition_epoch,
                    isr: &isr,
                });
            }
            LeaderEffect::HighWatermark { from, to } => {
                self.tell_high_watermark(ReplicaRole::Leader, leader_epoch, *from, *to);
            }
        }
    }

    fn tell_high_watermark(&self, role: ReplicaRole, leader_epoch: LeaderEpoch, from: Offset, to: Offset) {
        let (log_start, log_end) = (self.log.log_start_offset(), self.log.log_end_offset());
        assert!(log_start <= to, "I09: the log starts ({log_start}) past its high watermark ({to})");
        self.observers.tell(|| Observation::HighWatermarkMoved {
            partition: &self.name,
            role,
            leader_epoch,
            from,
            to,
            log_start,
            log_end,
        });
    }

    /// Tells observers what a reader is given.
    pub fn served(
        &self,
        fetch_offset: Offset,
        next_offset: Offset,
        high_watermark: Offset,
        log_start: Offset,
    ) {
        self.observers.tell(|| Observation::FetchServed {
            partition: &self.name,
            fetch_offset,
            next_offset,
            high_watermark,
            log_start,
        });
    }

    /// The state of a partition that this broker leads; none where it follows.
    pub fn leading<T>(&self, look: impl FnOnce(&LeaderState) -> T) -> Option<T> {
        match &self.state().role {
            Role::Leader(leader) => Some(look(leader)),
            Role::Follower(_) => None,
        }
    }

    /// The leader that this broker follows, and in which epoch; none where it leads or knows no leader.
    pub fn following(&self) -> Option<(BrokerId, LeaderEpoch)> {
        match &self.state().role {
            Role::Leader(_) => None,
            Role::Follower(follower) => follower.leader().map(|leader| (leader, follower.leader_epoch())),
        }
    }

    /// The newest state of the partition that a leader knows.
    pub fn partition_epoch(&self) -> Option<PartitionEpoch> {
        self.leading(LeaderState::partition_epoch)
    }
}

impl Role {
    fn leader_epoch(&self) -> LeaderEpoch {
        match self {
            Role::Leader(leader) => leader.leader_epoch(),
            Role::Follower(follower) => follower.leader_epoch(),
        }
    }

    fn high_watermark(&self) -> Offset {
        match self {
            Role::Leader(leader) => leader.high_watermark(),
            Role::Follower(follower) => follower.high_watermark(),
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
