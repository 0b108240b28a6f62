//! Committing: at once and to the end, in the background, or automatically. Owns when a commit is tried again.

use super::{Consumer, OffsetAndMetadata, TopicPartition, offsets::Offsets};
use crate::{ClientError, cluster::millis};
use sillon_protocol::ErrorCode;
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

impl Consumer {
    /// The offsets to read next of what polls have given, with the epochs that go with them.
    pub fn consumed(&self) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
        let positions = self.positions.all().into_iter();
        positions
            .map(|(partition, position)| {
                let (offset, leader_epoch) = (position.offset, position.epoch);
                (partition, OffsetAndMetadata { offset, leader_epoch, metadata: String::new() })
            })
            .collect()
    }

    /// Commits what polls have given, and waits until the coordinator has it.
    ///
    /// # Errors
    /// [`ClientError::CommitFailed`] where the group has gone on without this member; [`ClientError::Refused`] with
    /// REBALANCE_IN_PROGRESS where it has to poll first; [`ClientError::TimedOut`] after `default_api_timeout_ms`.
    pub async fn commit_sync(&mut self) -> Result<(), ClientError> {
        let offsets = self.consumed();
        self.commit_offsets_sync(&offsets).await
    }

    /// Commits these offsets, and waits until the coordinator has them.
    ///
    /// # Errors
    /// As [`Consumer::commit_sync`].
    pub async fn commit_offsets_sync(
        &mut self,
        offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<(), ClientError> {
        let limit = Duration::from_millis(self.config.default_api_timeout_ms);
        self.commit_within(offsets, limit).await
    }

    /// Commits what polls have given, in the background: it makes progress while the consumer polls, is not tried again, and
    /// calls back from a poll.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] without a `group_id`.
    pub fn commit_async(
        &mut self,
        callback: impl FnOnce(Result<(), ClientError>) + Send + 'static,
    ) -> Result<(), ClientError> {
        let offsets = self.consumed();
        self.commit_offsets_async(offsets, callback)
    }

    /// Commits these offsets in the background, as [`Consumer::commit_async`].
    ///
    /// # Errors
    /// [`ClientError::Misuse`] without a `group_id`.
    pub fn commit_offsets_async(
        &mut self,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        callback: impl FnOnce(Result<(), ClientError>) + Send + 'static,
    ) -> Result<(), ClientError> {
        if self.coordinator.is_none() {
            return Err(no_group());
        }
        self.begin_commit(offsets, false, Some(Box::new(callback)));
        Ok(())
    }

    /// What the group has committed of these partitions; where nothing is, there is no entry.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] without a `group_id`; [`ClientError::TimedOut`] after `default_api_timeout_ms`.
    pub async fn committed_offsets(
        &mut self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, ClientError> {
        let coordinator = self.coordinator.clone().ok_or_else(no_group)?;
        let stable = self.config.isolation_level == super::IsolationLevel::ReadCommitted;
        let limit = Duration::from_millis(self.config.default_api_timeout_ms);
        let deadline = self.runtime.now() + limit;
        loop {
            match coordinator.committed(Some(partitions), stable).await {
                Ok(offsets) => return Ok(offsets),
                Err(error) if error.is_retriable() && self.runtime.now() < deadline => {
                    self.pause_briefly().await
                }
                Err(error) if error.is_retriable() => {
                    return Err(late("fetch committed offsets", limit, &error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Commits, again and again where that can help.
    pub(super) async fn commit_within(
        &mut self,
        offsets: &Offsets,
        limit: Duration,
    ) -> Result<(), ClientError> {
        let coordinator = self.coordinator.clone().ok_or_else(no_group)?;
        if offsets.is_empty() {
            return Ok(());
        }
        let deadline = self.runtime.now() + limit;
        self.finish_commits(deadline).await;
        loop {
            let identity = self.group.as_ref().and_then(|group| group.membership().identity());
            if self.group.is_some() && identity.is_none() {
                return Err(ClientError::CommitFailed);
            }
            let left = deadline - self.runtime.now();
            let attempt = self.runtime.timeout(left, coordinator.commit(identity.as_ref(), offsets)).await;
            let Ok(result) = attempt else {
                let last = ClientError::CommitFailed;
                return Err(late("commit offsets", limit, &last));
            };
            self.committed(identity.as_ref(), &result, false);
            match result {
                Ok(()) => return Ok(()),
                Err((_, error @ ClientError::CommitFailed)) => return Err(error),
                // Only a poll can bring the member into the next generation.
                Err((ErrorCode::REBALANCE_IN_PROGRESS, error)) => return Err(error),
                Err((_, error)) if !error.is_retriable() => return Err(error),
                Err((_, error)) if self.runtime.now() >= deadline => {
                    return Err(late("commit offsets", limit, &error));
                }
                Err(_) => self.pause_briefly().await,
            }
        }
    }

    /// Waits for commits that began before, lest they arrive after a later one.
    async fn finish_commits(&mut self, deadline: Monotonic) {
        while self.commits > 0 {
            let left = deadline - self.runtime.now();
            let runtime = self.runtime.clone();
            let Ok(done) = runtime.timeout(left, self.flights.next()).await else { return };
            self.on(done);
        }
    }

    pub(super) async fn pause_briefly(&self) {
        self.runtime.sleep(Duration::from_millis(self.config.network.retry_backoff_ms)).await;
    }
}

fn no_group() -> ClientError {
    ClientError::Misuse { problem: "committed offsets need a group_id".to_owned() }
}

pub(super) fn late(what: &str, limit: Duration, last: &ClientError) -> ClientError {
    ClientError::TimedOut { what: what.to_owned(), timeout_ms: millis(limit), last: last.to_string() }
}
