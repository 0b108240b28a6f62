//! A partition that this broker leads: its log, its high watermark and those who wait for it to move.
//!
//! Owns the order in which an append becomes stable, visible and acknowledged. Never decides where the high watermark
//! may go (`leader`, pure) or what a batch must look like (`log`).

mod leader;
mod waiters;

pub use waiters::Ticket;

use crate::{
    log::{AppendError, Appended, Log, LogError},
    observe::{Observation, Observers, ReplicaRole},
    types::{LeaderEpoch, Offset, PartitionEpoch, TopicId, TopicPartition},
};
use leader::LeaderState;
use sillon_protocol::records::RecordBatch;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicI64, Ordering},
};
use tokio::sync::Notify;
use waiters::Waiters;

/// A partition that this broker leads.
pub struct Partition {
    name: TopicPartition,
    topic_id: TopicId,
    log: Arc<Log>,
    observers: Observers,
    leader: Mutex<LeaderState>,
    /// A copy of the leader state's, for readers that take no lock.
    high_watermark: AtomicI64,
    waiters: Arc<Waiters>,
    deleted: AtomicBool,
}

/// An append that was stored as surely as the topic demands.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// What the log said.
    pub appended: Appended,
    /// The log start offset at that moment.
    pub log_start: Offset,
}

impl Partition {
    /// Takes the lead of a partition whose log is open. Everything in a single replica's log is committed.
    ///
    /// # Errors
    /// Where the epoch or the records cannot be made durable.
    pub async fn lead(
        name: TopicPartition,
        topic_id: TopicId,
        log: Arc<Log>,
        leader_epoch: LeaderEpoch,
        checkpointed_high_watermark: Offset,
        observers: Observers,
    ) -> Result<Arc<Partition>, LogError> {
        let (log_start, log_end) = (log.log_start_offset(), log.log_end_offset());
        log.start_leader_epoch(leader_epoch).await?;
        let high_watermark = checkpointed_high_watermark.clamp(log_start, log_end);
        observers.tell(|| Observation::BecameLeader {
            partition: &name,
            leader_epoch,
            start_offset: log_end,
            high_watermark,
            partition_epoch: PartitionEpoch(0),
            isr: &[],
        });
        let partition = Arc::new(Partition {
            name,
            topic_id,
            log,
            observers,
            leader: Mutex::new(LeaderState::new(leader_epoch, high_watermark)),
            high_watermark: AtomicI64::new(high_watermark.0),
            waiters: Arc::default(),
            deleted: AtomicBool::new(false),
        });
        partition.commit_all().await?;
        Ok(partition)
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

    /// The epoch this broker leads it in.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader.lock().expect("no holder panics").leader_epoch()
    }

    /// All records below are committed and may be read.
    pub fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::Acquire))
    }

    /// Whether its topic was deleted.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Its topic was deleted: no append and no read from now on.
    pub fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
        self.waiters.notify_all();
    }

    /// Appends one batch, waits until it is stable, and lets readers see it.
    ///
    /// # Errors
    /// Why the log refused it. After a storage error the batch may or may not be in the log.
    pub async fn append(&self, batch: RecordBatch) -> Result<Stored, AppendError> {
        let appended = self.log.append_as_leader(batch, self.leader_epoch()).await?;
        // A duplicate's first copy may still be on its way to the disk: it is acknowledged no sooner than that one.
        let must_sync = appended.flush_due || (appended.duplicate && self.log.config().flush_messages == 1);
        if must_sync {
            self.log.flush(appended.next_offset).await?;
        }
        // For a duplicate as well: whoever appended the first copy may not have come this far yet.
        self.advance_high_watermark(appended.next_offset);
        Ok(Stored { appended, log_start: self.log.log_start_offset() })
    }

    /// Tells observers that a success is on its way to the producer.
    pub fn acknowledged(&self, appended: &Appended, acks: i16) {
        self.observers.tell(|| Observation::ProduceAcknowledged {
            partition: &self.name,
            base_offset: appended.base_offset,
            next_offset: appended.next_offset,
            acks,
            duplicate: appended.duplicate,
            high_watermark: self.high_watermark(),
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

    /// Waits for the high watermark's next moves.
    pub fn wait(&self, notify: Arc<Notify>) -> Ticket {
        self.waiters.wait(notify)
    }

    /// Opens the log again after a failed write or sync, and commits what it then holds.
    ///
    /// # Errors
    /// Where the disk still fails; the log stays offline.
    pub async fn reopen(&self) -> Result<(), LogError> {
        self.log.reopen().await?;
        {
            let mut leader = self.leader.lock().expect("no holder panics");
            let high_watermark = leader.on_log_end_lowered(self.log.log_end_offset());
            self.high_watermark.store(high_watermark.0, Ordering::Release);
        }
        self.commit_all().await
    }

    /// Removes the records below `to`, which is at most the high watermark.
    ///
    /// # Errors
    /// Out of range, or the disk's.
    pub async fn delete_records(&self, to: Offset) -> Result<Offset, LogError> {
        self.log.delete_records(to, self.high_watermark()).await
    }

    /// Moves the high watermark to the end of the log. Where every record is to be on disk before it is shown, what
    /// was found there is synced first: a process that was killed may have left it in the page cache only.
    async fn commit_all(&self) -> Result<(), LogError> {
        let log_end = self.log.log_end_offset();
        if self.log.config().flush_messages == 1 && self.log.recovery_point() < log_end {
            self.log.flush(log_end).await?;
        }
        self.advance_high_watermark(log_end);
        Ok(())
    }

    fn advance_high_watermark(&self, stable_end: Offset) {
        let log_end = self.log.log_end_offset();
        {
            let mut leader = self.leader.lock().expect("no holder panics");
            let Some(moved) = leader.on_stable(stable_end, log_end) else { return };
            let log_start = self.log.log_start_offset();
            assert!(
                log_start <= moved.to,
                "the log starts ({log_start}) past its high watermark ({})",
                moved.to
            );
            self.high_watermark.store(moved.to.0, Ordering::Release);
            self.observers.tell(|| Observation::HighWatermarkMoved {
                partition: &self.name,
                role: ReplicaRole::Leader,
                leader_epoch: leader.leader_epoch(),
                from: moved.from,
                to: moved.to,
                log_start,
                log_end,
            });
        }
        self.waiters.notify_all();
    }
}
