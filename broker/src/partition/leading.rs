//! What a partition does while this broker leads it: appends, waits until they are committed, hears from followers and
//! from the controller. Owns the way from an event to the leader's state machine; the decisions are `leader`'s.

use super::{
    Partition, Role,
    commits::{CommitKey, Verdict},
    leader::{FetchRefusal, FollowerFetch, LeaderState, Proposal, SessionClock, TrueState},
};
use crate::{
    log::{AppendError, Appended, LogError},
    observe::Observation,
    types::{BrokerId, LeaderEpoch, Offset, PartitionEpoch},
};
use sillon_protocol::{ErrorCode, records::RecordBatch};
use sillon_runtime::Monotonic;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Why a batch is not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum ProduceError {
    /// The log refused it.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// It was appended, but could not be made durable.
    #[error(transparent)]
    Sync(#[from] LogError),
    /// This broker does not lead, or too few replicas are in sync.
    #[error("{}", .0.message())]
    Refused(ErrorCode),
}

/// A batch that is in the leader's log, on its way to being acknowledged.
pub struct Appending {
    partition: Arc<Partition>,
    leader_epoch: LeaderEpoch,
    /// What the log said.
    pub appended: Appended,
    /// The log start offset at that moment.
    pub log_start: Offset,
    must_sync: bool,
    commit: Option<(CommitKey, oneshot::Receiver<Verdict>)>,
}

impl Partition {
    /// Appends one batch as the leader. With `wait_for_all`, only where enough replicas are in sync, and the batch can
    /// then be waited for.
    ///
    /// # Errors
    /// Why it was refused. After a storage error the batch may or may not be in the log.
    pub async fn append(
        self: &Arc<Self>,
        batch: RecordBatch,
        wait_for_all: bool,
    ) -> Result<Appending, ProduceError> {
        self.append_if(batch, wait_for_all, None).await
    }

    /// Appends one batch as the leader of one epoch: what the batch says follows from what the log held in that epoch.
    ///
    /// # Errors
    /// As [`Partition::append`]; NOT_LEADER_OR_FOLLOWER in any other epoch.
    pub async fn append_in(
        self: &Arc<Self>,
        leader_epoch: LeaderEpoch,
        batch: RecordBatch,
        wait_for_all: bool,
    ) -> Result<Appending, ProduceError> {
        self.append_if(batch, wait_for_all, Some(leader_epoch)).await
    }

    async fn append_if(
        self: &Arc<Self>,
        batch: RecordBatch,
        wait_for_all: bool,
        expected_epoch: Option<LeaderEpoch>,
    ) -> Result<Appending, ProduceError> {
        let _turn = self.turn.lock().await;
        let leader_epoch = self.check_may_append(wait_for_all)?;
        if expected_epoch.is_some_and(|expected| expected != leader_epoch) {
            return Err(ProduceError::Refused(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        }
        let appended = self.log.append_as_leader(batch, leader_epoch).await;
        if appended.is_err() && self.log.is_offline().is_some() {
            self.waiters.everything();
        }
        let appended = appended?;
        // A duplicate's first copy may still be on its way to the disk: it is acknowledged no sooner than that one.
        let must_sync = appended.flush_due || (appended.duplicate && self.log.config().flush_messages == 1);
        let commit = {
            let mut state = self.state();
            let Role::Leader(leader) = &mut state.role else {
                unreachable!("the role does not change while the turn is held")
            };
            leader.on_local_append(self.log.log_end_offset());
            // For a duplicate as well: whoever appended the first copy may not have come this far yet.
            let effects = if must_sync { Vec::new() } else { leader.on_stable(appended.next_offset) };
            let is_committed = leader.high_watermark() >= appended.next_offset;
            let commit = (wait_for_all && !is_committed).then(|| state.commits.wait(appended.next_offset));
            self.carry_out(&mut state, effects);
            commit
        };
        if !appended.duplicate {
            self.waiters.appended();
        }
        Ok(Appending {
            partition: self.clone(),
            leader_epoch,
            appended,
            log_start: self.log.log_start_offset(),
            must_sync,
            commit,
        })
    }

    fn check_may_append(&self, wait_for_all: bool) -> Result<LeaderEpoch, ProduceError> {
        if self.is_removed() {
            return Err(ProduceError::Refused(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        }
        let check = |leader: &LeaderState| match leader.has_enough_in_sync() {
            // Nothing is written that could not be committed (I03, B24).
            false if wait_for_all => Err(ErrorCode::NOT_ENOUGH_REPLICAS),
            _ => Ok(leader.leader_epoch()),
        };
        let checked = self.leading(check).unwrap_or(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        checked.map_err(ProduceError::Refused)
    }

    /// Everything below `end` is on the leader's disk. Gives whether it still leads in that epoch.
    fn on_synced(&self, leader_epoch: LeaderEpoch, end: Offset) -> bool {
        let mut state = self.state();
        match &mut state.role {
            Role::Leader(leader) if leader.leader_epoch() == leader_epoch => {
                let effects = leader.on_stable(end);
                self.carry_out(&mut state, effects);
                true
            }
            _ => false,
        }
    }

    /// A follower's fetch was found sound in `leader_epoch`: it holds everything before the offset that it asks for.
    ///
    /// # Errors
    /// The code for the follower, where its fetch must not count.
    pub fn follower_fetched(
        &self,
        leader_epoch: LeaderEpoch,
        fetch: &FollowerFetch,
    ) -> Result<(), ErrorCode> {
        let mut state = self.state();
        let Role::Leader(leader) = &mut state.role else { return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER) };
        if leader.leader_epoch() != leader_epoch {
            return Err(ErrorCode::FENCED_LEADER_EPOCH);
        }
        // An append is in the log a moment before the state machine hears of it, and a follower may be as quick.
        leader.on_local_append(self.log.log_end_offset());
        if fetch.fetch_offset > self.log.log_end_offset() {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let effects = leader.on_follower_fetch(fetch).map_err(|refusal| match refusal {
            FetchRefusal::NotAReplica => ErrorCode::UNKNOWN_LEADER_EPOCH,
            FetchRefusal::StaleBrokerEpoch => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        })?;
        self.carry_out(&mut state, effects);
        Ok(())
    }

    /// A follower's fetch session goes on with this partition, whether its requests name it or not; none where it does
    /// not. Gives whether the partition need not be looked at for the follower before it changes.
    pub fn follower_session(&self, replica: BrokerId, session: Option<Arc<SessionClock>>) -> bool {
        match &mut self.state().role {
            Role::Leader(leader) => {
                let is_fetched = session.is_some();
                leader.on_session(replica, session);
                is_fetched && leader.is_settled(replica)
            }
            Role::Follower(_) => false,
        }
    }

    /// Removes old segments, and tells fetches where the log starts later by that.
    ///
    /// # Errors
    /// The disk's.
    pub async fn enforce_retention(&self) -> Result<(), LogError> {
        let log_start = self.log.log_start_offset();
        let result = self.log.enforce_retention(self.high_watermark()).await;
        if self.log.log_start_offset() != log_start {
            self.waiters.appended();
        }
        result
    }

    /// Looks for followers that lag. A leader whose log is offline makes no progress that others could lag behind.
    pub fn on_tick(&self, now: Monotonic) {
        if self.log.is_offline().is_some() {
            return;
        }
        let mut state = self.state();
        if let Role::Leader(leader) = &mut state.role {
            let effects = leader.on_tick(now);
            self.carry_out(&mut state, effects);
        }
    }

    /// What is to be proposed to the controller, if anything.
    pub fn proposal(&self) -> Option<Proposal> {
        self.leading(LeaderState::proposal).flatten()
    }

    /// What became of a proposal. Gives whether it is to be made again.
    pub fn on_proposal_result(
        &self,
        asked: (LeaderEpoch, PartitionEpoch),
        result: Result<TrueState, ErrorCode>,
    ) -> bool {
        let mut state = self.state();
        let Role::Leader(leader) = &mut state.role else { return false };
        let effects = leader.on_proposal_result(asked, result);
        self.carry_out(&mut state, effects);
        drop(state);
        self.proposal().is_some()
    }

    /// Removes the records below `to`, which is at most the high watermark, and gives the new log start.
    ///
    /// # Errors
    /// Out of range, or the disk's.
    pub async fn delete_records(&self, to: Offset) -> Result<Offset, LogError> {
        let log_start = self.log.delete_records(to, self.high_watermark()).await?;
        self.waiters.appended();
        Ok(log_start)
    }

    /// The smallest log start of this leader and the followers that are alive; none where one has not told it yet, or
    /// this broker does not lead.
    pub fn low_watermark(&self, is_alive: impl Fn(BrokerId) -> bool) -> Option<Offset> {
        let followers = self.leading(|leader| leader.followers_log_start(is_alive)).flatten()?;
        Some(followers.min(self.log.log_start_offset()))
    }
}

impl Appending {
    /// Whether [`Appending::stable`] has to wait for the disk.
    pub fn must_sync(&self) -> bool {
        self.must_sync
    }

    /// Whether [`Appending::committed`] has to wait.
    pub fn waits_for_commit(&self) -> bool {
        self.commit.is_some()
    }

    /// Waits until the leader keeps the batch as surely as the topic demands.
    ///
    /// # Errors
    /// The disk's, or NOT_LEADER_OR_FOLLOWER where another leads by then.
    pub async fn stable(&self) -> Result<(), ProduceError> {
        if self.must_sync {
            self.partition.log.flush(self.appended.next_offset).await?;
            if !self.partition.on_synced(self.leader_epoch, self.appended.next_offset) {
                return Err(ProduceError::Refused(ErrorCode::NOT_LEADER_OR_FOLLOWER));
            }
        }
        Ok(())
    }

    /// Waits until the batch is committed, if that was asked for.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER where another leads by then, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    pub async fn committed(&mut self) -> Verdict {
        match &mut self.commit {
            None => Ok(()),
            Some((_, receiver)) => receiver.await.unwrap_or(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)),
        }
    }

    /// Tells observers that a success is on its way to the producer.
    pub fn acknowledged(&self, acks: i16) {
        let partition = &self.partition;
        partition.observers.tell(|| Observation::ProduceAcknowledged {
            partition: &partition.name,
            base_offset: self.appended.base_offset,
            next_offset: self.appended.next_offset,
            acks,
            duplicate: self.appended.duplicate,
            high_watermark: partition.high_watermark(),
        });
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        if let Some((key, _)) = &self.commit {
            self.partition.state().commits.forget(*key);
        }
    }
}
