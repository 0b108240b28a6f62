//! What one partition has to say to a fetch: the checks of Fetch, then a read. Owns the rules for followers and for
//! consumers; never waits for more.

use super::fetch_session::{PartitionKey, Told, TopicKey, Wanted};
use crate::{
    broker::{Broker, Topics},
    config::cluster::ReplicaSelector,
    log::{LogSlice, ReadError},
    partition::{Interest, Partition, leader::FollowerFetch},
    types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset},
};
use sillon_protocol::{ErrorCode, records::Compression};
use std::{cmp::Reverse, sync::Arc};

/// Version from which a follower may serve a consumer (KIP-392).
const FIRST_VERSION_FROM_FOLLOWERS: i16 = 11;
/// Version from which clients know zstd.
const FIRST_VERSION_WITH_ZSTD: i16 = 10;

/// Who fetches.
pub(super) enum Reader {
    /// A client, in a rack (empty where it does not say).
    Consumer { rack: String },
    /// A replica, with its registration as it says, and as the metadata has it where it may be in sync at all.
    Follower { replica: BrokerId, broker_epoch: BrokerEpoch, registered: Option<BrokerEpoch> },
}

/// One request, with what does not change while it waits.
pub(super) struct Fetch<'a> {
    pub(super) broker: &'a Broker,
    pub(super) version: i16,
    pub(super) min_bytes: usize,
    pub(super) max_bytes: usize,
    pub(super) reader: Reader,
}

/// What a partition has to say.
pub(super) struct Outcome {
    pub(super) key: PartitionKey,
    pub(super) fetch_offset: Offset,
    pub(super) error: ErrorCode,
    pub(super) high_watermark: Offset,
    pub(super) log_start: Offset,
    pub(super) diverging: Option<(LeaderEpoch, Offset)>,
    pub(super) preferred: Option<BrokerId>,
    pub(super) slice: Option<LogSlice>,
    /// What bounded the read: when this has moved, there may be more.
    pub(super) seen: Seen,
    /// A follower learns something from it although there are no records.
    pub(super) is_news: bool,
}

/// How far a partition was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    high_watermark: Offset,
    log_start: Offset,
    log_end: Offset,
}

/// How much may still be read, and whether this is the first partition with records.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) left: usize,
    pub(super) is_first: bool,
}

pub(super) fn find<'a>(topics: &'a Topics, key: &PartitionKey) -> Result<&'a Arc<Partition>, ErrorCode> {
    let topic = match &key.0 {
        TopicKey::Name(name) => topics.by_name(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?,
        TopicKey::Id(id) => topics.by_id(*id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?,
    };
    topic.partition(key.1)
}

impl Seen {
    pub(super) fn of(partition: &Partition) -> Seen {
        Seen {
            high_watermark: partition.high_watermark(),
            log_start: partition.log().log_start_offset(),
            log_end: partition.log().log_end_offset(),
        }
    }
}

impl Fetch<'_> {
    /// What a wait is for.
    pub(super) fn interest(&self) -> Interest {
        match self.reader {
            Reader::Consumer { .. } => Interest::Committed,
            Reader::Follower { .. } if self.tells_high_watermarks() => Interest::AppendedAndCommitted,
            Reader::Follower { .. } => Interest::Appended,
        }
    }

    /// Where consumers read from followers, these must hear of committed records at once (KIP-392); elsewhere they hear
    /// of them along with the next records, or when their fetch has waited for long enough.
    fn tells_high_watermarks(&self) -> bool {
        self.broker.config().replication.selector == ReplicaSelector::RackAware
    }

    /// Reads one partition. `arrival` is true the first time, when a follower's fetch counts as its report.
    pub(super) async fn read(
        &self,
        topics: &Topics,
        (key, wanted): &(PartitionKey, Wanted),
        budget: Budget,
        arrival: bool,
    ) -> Outcome {
        let partition = match find(topics, key) {
            Ok(partition) => partition,
            Err(code) => return Outcome::error(key, code),
        };
        let seen = Seen::of(partition);
        let mut outcome = Outcome {
            fetch_offset: wanted.fetch_offset,
            high_watermark: seen.high_watermark,
            log_start: seen.log_start,
            seen,
            ..Outcome::error(key, ErrorCode::NONE)
        };
        let result = match &self.reader {
            Reader::Consumer { rack } => {
                self.read_for_consumer(partition, wanted, rack, budget, &mut outcome).await
            }
            Reader::Follower { replica, broker_epoch, registered } => {
                let follower = Follower {
                    replica: *replica,
                    broker_epoch: *broker_epoch,
                    registered: *registered,
                    arrival,
                };
                self.read_for_follower(partition, wanted, follower, budget, &mut outcome).await
            }
        };
        if let Err(code) = result {
            outcome.error = code;
            outcome.slice = None;
        }
        outcome
    }

    async fn read_for_consumer(
        &self,
        partition: &Partition,
        wanted: &Wanted,
        rack: &str,
        budget: Budget,
        outcome: &mut Outcome,
    ) -> Result<(), ErrorCode> {
        let leader_only = self.version < FIRST_VERSION_FROM_FOLLOWERS;
        partition.check_leader(wanted.current_leader_epoch, leader_only)?;
        let log = partition.log();
        if self.version < FIRST_VERSION_WITH_ZSTD && log.config().compression == Some(Compression::Zstd) {
            return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
        }
        if !leader_only && let Some(preferred) = self.preferred_replica(partition, rack, wanted.fetch_offset)
        {
            outcome.preferred = Some(preferred);
            return Ok(());
        }
        match self.diverges(partition, wanted, outcome) {
            Ok(false) => {}
            Ok(true) if partition.is_leader() => return Ok(()),
            Err(error) if partition.is_leader() => return Err(error),
            // A follower may only be behind the reader: whether anything was cut, the leader alone can tell.
            Ok(true) | Err(_) => return Err(ErrorCode::OFFSET_NOT_AVAILABLE),
        }
        let max_bytes = usize::try_from(wanted.max_bytes).unwrap_or(0).min(budget.left);
        // Consumers never see what is not committed (I18).
        let up_to = outcome.high_watermark;
        let slice = log.read(wanted.fetch_offset, max_bytes, up_to, budget.is_first).await;
        let slice = slice.map_err(|error| read_error_code(partition, &error))?;
        outcome.slice = (slice.length > 0).then_some(slice);
        Ok(())
    }

    /// A replica in the consumer's rack that is in sync and holds the offset, where this broker is in another one
    /// (KIP-392).
    fn preferred_replica(&self, partition: &Partition, rack: &str, offset: Offset) -> Option<BrokerId> {
        let config = self.broker.config();
        let is_mine = config.cluster.rack.as_deref() == Some(rack);
        if config.replication.selector != ReplicaSelector::RackAware || rack.is_empty() || is_mine {
            return None;
        }
        let image = self.broker.image();
        let is_near = |broker: BrokerId| {
            image.brokers.get(&broker).is_some_and(|broker| broker.rack.as_deref() == Some(rack))
        };
        let nearest = partition.leading(|leader| {
            let near = leader.readable_followers(offset).filter(|(replica, _)| is_near(*replica));
            near.max_by_key(|(replica, log_end)| (*log_end, Reverse(*replica)))
        });
        nearest.flatten().map(|(replica, _)| replica)
    }

    async fn read_for_follower(
        &self,
        partition: &Partition,
        wanted: &Wanted,
        follower: Follower,
        budget: Budget,
        outcome: &mut Outcome,
    ) -> Result<(), ErrorCode> {
        // A follower says in which epoch it follows, and it must be this one (B07).
        if wanted.current_leader_epoch == LeaderEpoch::NONE {
            return Err(ErrorCode::UNKNOWN_LEADER_EPOCH);
        }
        let leader_epoch = partition.check_leader(wanted.current_leader_epoch, true)?;
        let log = partition.log();
        if log.is_offline().is_some() {
            return Err(ErrorCode::KAFKA_STORAGE_ERROR);
        }
        let is_replica = partition.leading(|leader| leader.is_follower(follower.replica));
        if is_replica == Some(false) {
            return Err(ErrorCode::UNKNOWN_LEADER_EPOCH);
        }
        if self.diverges(partition, wanted, outcome)? {
            return Ok(());
        }
        let now = self.broker.runtime().now();
        let throttled = self.broker.leader_throttles(partition, follower.replica, now);
        let left = if throttled { 0 } else { budget.left };
        let max_bytes = usize::try_from(wanted.max_bytes).unwrap_or(0).min(left);
        let min_one_batch = budget.is_first && !throttled;
        let slice = log.read(wanted.fetch_offset, max_bytes, Offset(i64::MAX), min_one_batch).await;
        let slice = slice.map_err(|error| read_error_code(partition, &error))?;
        if follower.arrival {
            let fetch = FollowerFetch {
                replica: follower.replica,
                broker_epoch: follower.broker_epoch,
                fetch_offset: wanted.fetch_offset,
                log_start: wanted.log_start,
                registered: follower.registered,
                now,
            };
            partition.follower_fetched(leader_epoch, &fetch)?;
            outcome.high_watermark = partition.high_watermark();
        }
        outcome.is_news = wanted.known.is_some_and(|known| self.is_news(known, outcome));
        outcome.slice = (slice.length > 0).then_some(slice);
        Ok(())
    }

    /// Whether a follower learns something: never more than its log can take in, or it would be told without end.
    fn is_news(&self, known: Told, outcome: &Outcome) -> bool {
        let can_learn = outcome.high_watermark.min(outcome.fetch_offset);
        known.log_start < outcome.log_start
            || (self.tells_high_watermarks() && known.high_watermark < can_learn)
    }

    /// Whether the reader's log leaves this one before the offset that it asks for; then the answer says where
    /// (KIP-595): the largest epoch that both may have, and its end here (B03).
    fn diverges(
        &self,
        partition: &Partition,
        wanted: &Wanted,
        outcome: &mut Outcome,
    ) -> Result<bool, ErrorCode> {
        if wanted.last_fetched_epoch == LeaderEpoch::NONE {
            return Ok(false);
        }
        let (epoch, end_offset) = partition.log().end_offset_for_epoch(wanted.last_fetched_epoch);
        if epoch == LeaderEpoch::NONE {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let diverges = epoch < wanted.last_fetched_epoch || end_offset < wanted.fetch_offset;
        outcome.diverging = diverges.then_some((epoch, end_offset));
        Ok(diverges)
    }
}

#[derive(Clone, Copy)]
struct Follower {
    replica: BrokerId,
    broker_epoch: BrokerEpoch,
    registered: Option<BrokerEpoch>,
    arrival: bool,
}

fn read_error_code(partition: &Partition, error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Io { .. } | ReadError::Damaged { .. } => {
            tracing::error!(partition = %partition.name(), %error, "the log cannot be read");
            ErrorCode::KAFKA_STORAGE_ERROR
        }
    }
}

impl Outcome {
    fn error(key: &PartitionKey, error: ErrorCode) -> Outcome {
        let unknown = Offset(-1);
        Outcome {
            key: key.clone(),
            fetch_offset: unknown,
            error,
            high_watermark: unknown,
            log_start: unknown,
            diverging: None,
            preferred: None,
            slice: None,
            seen: Seen { high_watermark: unknown, log_start: unknown, log_end: unknown },
            is_news: false,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slice.as_ref().map_or(0, |slice| slice.length)
    }

    /// Whether waiting cannot change it.
    pub(super) fn is_final(&self) -> bool {
        self.error != ErrorCode::NONE || self.diverging.is_some() || self.preferred.is_some()
    }
}
