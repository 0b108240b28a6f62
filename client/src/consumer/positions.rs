//! Where a consumer stands in each of its partitions, and what has to be asked before it can go on. Pure: answers and the
//! time in, questions and fetches out.
//!
//! ```text
//!   Committed ──► (nothing committed) ──► Reset ──► Ready ◄──► Validate
//!   what the group committed              by time            is what was read last still in the log? (KIP-320)
//! ```
//! Every assignment and every seek gives a partition a new token: an answer to a question under an older token counts for
//! nothing. Keeps I25 (positions only go forward without a seek or reset) and I24 (a leader with another history is
//! noticed before anything is read from it).

use super::{OffsetReset, TopicPartition};
use crate::{
    ClientError,
    backoff::backoff,
    cluster::{LeaderAndEpoch, Metadata},
};
use sillon_protocol::{
    ErrorCode,
    messages::{EARLIEST_TIMESTAMP, LATEST_TIMESTAMP},
};
use sillon_runtime::Monotonic;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use uuid::Uuid;

/// Where to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// To the first record that there is.
    Beginning,
    /// After the last record that can be read.
    End,
    /// To the first record of this time, in milliseconds, or a later one; to the end where there is none.
    Time(i64),
}

impl SeekTarget {
    pub(super) fn timestamp(self) -> i64 {
        match self {
            SeekTarget::Beginning => EARLIEST_TIMESTAMP,
            SeekTarget::End => LATEST_TIMESTAMP,
            SeekTarget::Time(timestamp) => timestamp,
        }
    }
}

/// A place in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) offset: i64,
    /// The epoch of the record before it, as far as it is known.
    pub(super) epoch: Option<i32>,
    /// The leader whose log is known to hold it.
    leader: LeaderAndEpoch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The group is to be asked.
    Committed,
    /// A broker is to be asked.
    Reset(SeekTarget),
    /// The leader is to be asked whether its log holds what was read.
    Validate,
    /// Records can be fetched.
    Ready,
    /// The user has been told that it has to seek.
    Stuck,
}

/// What is known of one partition.
#[derive(Clone, Debug)]
struct Tracked {
    token: u64,
    /// The topic that it was first seen in: another one of the same name holds other records.
    topic_id: Uuid,
    phase: Phase,
    position: Option<Position>,
    paused: bool,
    /// A question about it is under way.
    asked: bool,
    failures: u32,
    retry_at: Monotonic,
    high_watermark: Option<i64>,
    last_stable_offset: Option<i64>,
    log_start_offset: Option<i64>,
    /// A replica to read from, and until when (KIP-392).
    preferred: Option<(i32, Monotonic)>,
}

/// A question about a partition, under its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question<T> {
    pub(super) partition: TopicPartition,
    pub(super) token: u64,
    /// The epoch of the leader that is asked.
    pub(super) leader_epoch: Option<i32>,
    pub(super) about: T,
}

/// A fetch of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchFrom {
    pub(super) offset: i64,
    pub(super) last_epoch: Option<i32>,
}

/// What has to be asked.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Of the group: what is committed.
    pub(super) committed: Vec<Question<()>>,
    /// Of brokers: which offset is where.
    pub(super) offsets: BTreeMap<i32, Vec<Question<SeekTarget>>>,
    /// Of brokers: where this epoch ends.
    pub(super) epochs: BTreeMap<i32, Vec<Question<i32>>>,
    /// Some partition has no leader.
    pub(super) leaderless: bool,
    /// When there is more to ask.
    pub(super) due: Option<Monotonic>,
}

/// How long to leave a partition alone after a failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) initial_ms: u64,
    pub(super) max_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Positions {
    partitions: BTreeMap<TopicPartition, Tracked>,
    next_token: u64,
    reset: OffsetReset,
    has_group: bool,
    read_committed: bool,
    patience: Patience,
    /// Errors that the user has to hear of, unless it seeks before.
    errors: VecDeque<(TopicPartition, u64, ClientError)>,
}

impl Positions {
    pub(super) fn new(
        reset: OffsetReset,
        has_group: bool,
        read_committed: bool,
        patience: Patience,
    ) -> Positions {
        Positions {
            partitions: BTreeMap::new(),
            next_token: 0,
            reset,
            has_group,
            read_committed,
            patience,
            errors: VecDeque::new(),
        }
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// From now on it is these partitions. What was known of those among them that were here before stays.
    pub(super) fn assign(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.partitions.retain(|partition, _| partitions.contains(partition));
        for partition in partitions {
            if !self.partitions.contains_key(partition) {
                let token = self.token();
                let tracked = Tracked {
                    token,
                    topic_id: Uuid::nil(),
                    phase: Phase::Committed,
                    position: None,
                    paused: false,
                    asked: false,
                    failures: 0,
                    retry_at: Monotonic::default(),
                    high_watermark: None,
                    last_stable_offset: None,
                    log_start_offset: None,
                    preferred: None,
                };
                self.partitions.insert(partition.clone(), tracked);
                if !self.has_group {
                    self.reset_by_policy(partition, None);
                }
            }
        }
    }

    /// The partitions.
    pub(super) fn assigned(&self) -> BTreeSet<TopicPartition> {
        self.partitions.keys().cloned().collect()
    }

    pub(super) fn contains(&self, partition: &TopicPartition) -> bool {
        self.partitions.contains_key(partition)
    }

    /// The next error that the user has to hear of.
    pub(super) fn take_error(&mut self) -> Option<ClientError> {
        while let Some((partition, token, error)) = self.errors.pop_front() {
            if self.is_current(&partition, token) {
                return Some(error);
            }
        }
        None
    }

    fn tell(&mut self, partition: &TopicPartition, error: ClientError) {
        let Some(tracked) = self.partitions.get(partition) else { return };
        self.errors.push_back((partition.clone(), tracked.token, error));
    }

    fn restart(&mut self, partition: &TopicPartition, phase: Phase, position: Option<Position>) -> bool {
        let token = self.token();
        let Some(tracked) = self.partitions.get_mut(partition) else { return false };
        tracked.token = token;
        tracked.phase = phase;
        tracked.position = position;
        tracked.asked = false;
        tracked.failures = 0;
        tracked.retry_at = Monotonic::default();
        tracked.preferred = None;
        true
    }

    /// Reading goes on at this offset. False where the partition is not assigned.
    pub(super) fn seek(&mut self, partition: &TopicPartition, offset: i64, epoch: Option<i32>) -> bool {
        let position = Position { offset, epoch, leader: LeaderAndEpoch::default() };
        self.restart(partition, Phase::Ready, Some(position))
    }

    /// Reading goes on there. False where the partition is not assigned.
    pub(super) fn seek_to(&mut self, partition: &TopicPartition, target: SeekTarget) -> bool {
        self.restart(partition, Phase::Reset(target), None)
    }

    /// Nothing is fetched of a paused partition. False where the partition is not assigned.
    pub(super) fn pause(&mut self, partition: &TopicPartition, paused: bool) -> bool {
        self.partitions.get_mut(partition).map(|tracked| tracked.paused = paused).is_some()
    }

    pub(super) fn paused(&self) -> BTreeSet<TopicPartition> {
        self.partitions
            .iter()
            .filter(|(_, tracked)| tracked.paused)
            .map(|(partition, _)| partition.clone())
            .collect()
    }

    /// Where reading goes on, `None` while that is not known.
    pub(super) fn position(&self, partition: &TopicPartition) -> Option<Position> {
        self.partitions.get(partition)?.position
    }

    /// All positions that are known.
    pub(super) fn all(&self) -> BTreeMap<TopicPartition, Position> {
        self.partitions
            .iter()
            .filter_map(|(partition, tracked)| Some((partition.clone(), tracked.position?)))
            .collect()
    }

    /// How many offsets lie between the position and the end of what can be read, as of the last fetch.
    pub(super) fn lag(&self, partition: &TopicPartition) -> Option<i64> {
        let tracked = self.partitions.get(partition)?;
        let end = if self.read_committed { tracked.last_stable_offset } else { tracked.high_watermark }?;
        Some((end - tracked.position?.offset).max(0))
    }

    /// Positions in a topic that was deleted and created anew mean nothing in the new one.
    fn notice_new_topics(&mut self, metadata: &Metadata) {
        let mut strangers = Vec::new();
        for (partition, tracked) in &mut self.partitions {
            let Some(id) = metadata.topic(&partition.topic).map(|topic| topic.id) else { continue };
            if id.is_nil() || id == tracked.topic_id {
                continue;
            }
            if !std::mem::replace(&mut tracked.topic_id, id).is_nil()
                && let Some(position) = tracked.position
            {
                strangers.push((partition.clone(), position.offset));
            }
        }
        for (partition, offset) in strangers {
            self.reset_by_policy(&partition, Some(offset));
        }
    }

    /// What has to be asked now.
    pub(super) fn questions(&mut self, now: Monotonic, metadata: &Metadata) -> Questions {
        self.notice_new_topics(metadata);
        let mut questions = Questions::default();
        for (partition, tracked) in &mut self.partitions {
            follow_leader(partition, tracked, metadata, &mut self.next_token);
            if tracked.asked || matches!(tracked.phase, Phase::Ready | Phase::Stuck) {
                continue;
            }
            if tracked.retry_at > now {
                questions.due =
                    Some(questions.due.map_or(tracked.retry_at, |due: Monotonic| due.min(tracked.retry_at)));
                continue;
            }
            let leader = metadata.partition(&partition.topic, partition.partition).map(|known| known.leader);
            let leader = leader.unwrap_or_default();
            let (partition, token) = (partition.clone(), tracked.token);
            match (&tracked.phase, leader.leader) {
                (Phase::Committed, _) => {
                    questions.committed.push(Question { partition, token, leader_epoch: None, about: () });
                }
                (_, None) => {
                    questions.leaderless = true;
                    continue;
                }
                (Phase::Reset(target), Some(broker)) => {
                    let question = Question { partition, token, leader_epoch: leader.epoch, about: *target };
                    questions.offsets.entry(broker).or_default().push(question);
                }
                (_, Some(broker)) => {
                    let about = tracked.position.and_then(|position| position.epoch).unwrap_or(-1);
                    let question = Question { partition, token, leader_epoch: leader.epoch, about };
                    questions.epochs.entry(broker).or_default().push(question);
                }
            }
            tracked.asked = true;
        }
        questions
    }

    /// What can be fetched, by broker, and whether something has no leader.
    pub(super) fn fetches(
        &mut self,
        now: Monotonic,
        metadata: &Metadata,
    ) -> (BTreeMap<i32, Vec<Question<FetchFrom>>>, bool) {
        self.notice_new_topics(metadata);
        let mut fetches: BTreeMap<i32, Vec<Question<FetchFrom>>> = BTreeMap::new();
        let mut leaderless = false;
        for (partition, tracked) in &mut self.partitions {
            follow_leader(partition, tracked, metadata, &mut self.next_token);
            let Some(position) = tracked.position else { continue };
            if tracked.phase != Phase::Ready || tracked.paused || tracked.retry_at > now {
                continue;
            }
            let Some(leader) = position.leader.leader else {
                leaderless = true;
                continue;
            };
            tracked.preferred = tracked
                .preferred
                .filter(|(replica, until)| *until > now && metadata.brokers.contains_key(replica));
            let broker = tracked.preferred.map_or(leader, |(replica, _)| replica);
            let from = FetchFrom { offset: position.offset, last_epoch: position.epoch };
            let question = Question {
                partition: partition.clone(),
                token: tracked.token,
                leader_epoch: position.leader.epoch,
                about: from,
            };
            fetches.entry(broker).or_default().push(question);
        }
        (fetches, leaderless)
    }

    /// When a partition that failed may be fetched again.
    pub(super) fn next_retry(&self, now: Monotonic) -> Option<Monotonic> {
        self.partitions.values().map(|tracked| tracked.retry_at).filter(|at| *at > now).min()
    }

    fn current(&mut self, partition: &TopicPartition, token: u64) -> Option<&mut Tracked> {
        self.partitions.get_mut(partition).filter(|tracked| tracked.token == token)
    }

    /// Whether this is still the assignment or seek that a question was asked under.
    pub(super) fn is_current(&self, partition: &TopicPartition, token: u64) -> bool {
        self.partitions.get(partition).is_some_and(|tracked| tracked.token == token)
    }

    /// What the group has committed.
    pub(super) fn committed(
        &mut self,
        partition: &TopicPartition,
        token: u64,
        found: Option<(i64, Option<i32>)>,
    ) {
        if self.current(partition, token).is_none() {
            return;
        }
        match found {
            Some((offset, epoch)) => {
                self.seek(partition, offset, epoch);
            }
            None => self.reset_by_policy(partition, None),
        }
    }

    /// Which offset was asked for.
    pub(super) fn offset_found(
        &mut self,
        partition: &TopicPartition,
        token: u64,
        offset: i64,
        epoch: Option<i32>,
    ) {
        if self.current(partition, token).is_some() {
            self.seek(partition, offset, epoch);
        }
    }

    /// There is no record of the time asked for: then it is the end.
    pub(super) fn nothing_so_late(&mut self, partition: &TopicPartition, token: u64) {
        if self.current(partition, token).is_some() {
            self.seek_to(partition, SeekTarget::End);
        }
    }

    /// Where the epoch of the last record read ends in the leader's log; negative where the leader does not know.
    pub(super) fn epoch_ends(&mut self, partition: &TopicPartition, token: u64, epoch: i32, end_offset: i64) {
        let reset = self.reset;
        let Some(tracked) = self.current(partition, token) else { return };
        let Some(position) = tracked.position else { return };
        tracked.asked = false;
        tracked.failures = 0;
        let unknown = epoch < 0 || end_offset < 0;
        // A leader that has not the epoch at all has not the record that was read last.
        let differs = position.epoch.is_some_and(|known| epoch < known) || end_offset < position.offset;
        if !unknown && !differs {
            tracked.phase = Phase::Ready;
            return;
        }
        let end_offset = end_offset.min(position.offset);
        if unknown {
            // Nothing of what was read is there.
            return self.reset_by_policy(partition, Some(position.offset));
        }
        match reset {
            OffsetReset::None => {
                tracked.phase = Phase::Stuck;
                let error = ClientError::Truncated {
                    topic: partition.topic.to_string(),
                    partition: partition.partition,
                    offset: position.offset,
                    end_offset,
                };
                self.tell(partition, error);
            }
            _ => {
                self.seek(partition, end_offset, Some(epoch));
            }
        }
    }

    /// A fetch says that the log does not hold the position any more.
    pub(super) fn out_of_range(&mut self, partition: &TopicPartition, token: u64, offset: i64) {
        let Some(tracked) = self.current(partition, token) else { return };
        if tracked.position.is_none_or(|position| position.offset != offset) {
            return;
        }
        // A follower may be behind: the leader knows.
        if tracked.preferred.take().is_none() {
            self.reset_by_policy(partition, Some(offset));
        }
    }

    fn reset_by_policy(&mut self, partition: &TopicPartition, offset: Option<i64>) {
        let target = match self.reset {
            OffsetReset::Earliest => SeekTarget::Beginning,
            OffsetReset::Latest => SeekTarget::End,
            OffsetReset::None => {
                self.restart(partition, Phase::Stuck, None);
                let (topic, number) = (partition.topic.to_string(), partition.partition);
                let error = match offset {
                    Some(offset) => ClientError::OffsetOutOfRange { topic, partition: number, offset },
                    None => ClientError::NoOffset { topic, partition: number },
                };
                return self.tell(partition, error);
            }
        };
        self.seek_to(partition, target);
    }

    /// A question was not answered, or with an error that may pass.
    pub(super) fn failed(&mut self, partition: &TopicPartition, token: u64, now: Monotonic, random: u64) {
        let Patience { initial_ms, max_ms } = self.patience;
        let Some(tracked) = self.current(partition, token) else { return };
        tracked.asked = false;
        tracked.failures = tracked.failures.saturating_add(1);
        tracked.preferred = None;
        tracked.retry_at = now + backoff(initial_ms, max_ms, tracked.failures, random);
    }

    /// A question was answered with an error that does not pass by itself. It is asked again after the user has heard of it.
    pub(super) fn refused(
        &mut self,
        partition: &TopicPartition,
        token: u64,
        what: &str,
        code: ErrorCode,
        now: Monotonic,
        random: u64,
    ) {
        if self.current(partition, token).is_some() {
            self.tell(partition, ClientError::refused(format!("{what} {partition}"), code, None));
            self.failed(partition, token, now, random);
        }
    }

    /// A fetch was answered.
    pub(super) fn fetched(
        &mut self,
        partition: &TopicPartition,
        token: u64,
        high_watermark: i64,
        last_stable_offset: i64,
        log_start_offset: i64,
    ) {
        let Some(tracked) = self.current(partition, token) else { return };
        tracked.failures = 0;
        tracked.high_watermark = Some(high_watermark).filter(|offset| *offset >= 0);
        tracked.last_stable_offset = Some(last_stable_offset).filter(|offset| *offset >= 0);
        tracked.log_start_offset = Some(log_start_offset).filter(|offset| *offset >= 0);
    }

    /// The leader says which replica to read from (KIP-392).
    pub(super) fn prefer(&mut self, partition: &TopicPartition, token: u64, replica: i32, until: Monotonic) {
        if let Some(tracked) = self.current(partition, token) {
            tracked.preferred = Some((replica, until));
        }
    }

    /// Records up to `offset` were given to the user.
    pub(super) fn advance(
        &mut self,
        partition: &TopicPartition,
        token: u64,
        offset: i64,
        epoch: Option<i32>,
    ) {
        let Some(tracked) = self.current(partition, token) else { return };
        let Some(position) = &mut tracked.position else { return };
        assert!(offset >= position.offset, "{partition}: a position goes forward: {offset}, {position:?}");
        position.offset = offset;
        position.epoch = epoch.or(position.epoch);
    }
}

/// A new leader has to hold what was read before anything is read from it.
fn follow_leader(
    partition: &TopicPartition,
    tracked: &mut Tracked,
    metadata: &Metadata,
    next_token: &mut u64,
) {
    let Some(known) = metadata.partition(&partition.topic, partition.partition) else { return };
    let Some(position) = &mut tracked.position else { return };
    if known.leader == position.leader || !matches!(tracked.phase, Phase::Ready | Phase::Validate) {
        return;
    }
    // A metadata answer that is late does not take the consumer back.
    if known.leader.epoch.is_some() && known.leader.epoch < position.leader.epoch {
        return;
    }
    position.leader = known.leader;
    tracked.preferred = None;
    if position.epoch.is_some() && known.leader.epoch.is_some() && known.leader.leader.is_some() {
        // What another leader said or sent counts for nothing.
        *next_token += 1;
        tracked.token = *next_token;
        tracked.phase = Phase::Validate;
        tracked.asked = false;
    }
}

#[cfg(test)]
#[path = "positions_tests.rs"]
mod tests;
