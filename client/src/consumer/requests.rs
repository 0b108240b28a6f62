//! The requests of a consumer for records and offsets, and what their answers mean for its positions. Owns how topics are
//! named in them; never sends anything.

use super::{
    ConsumerConfig, IsolationLevel, TopicPartition,
    fetched::Fetched,
    positions::{FetchFrom, Positions, Question, SeekTarget},
};
use crate::{
    ClientError,
    cluster::{Cluster, Metadata},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic,
        ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
        OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    },
    wire::Records,
};
use sillon_runtime::Monotonic;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use uuid::Uuid;

/// What a request without a leader epoch says instead.
const NO_EPOCH: i32 = -1;

fn by_topic<T, P>(questions: &[Question<T>], part: impl Fn(&Question<T>) -> P) -> BTreeMap<Arc<str>, Vec<P>> {
    let mut topics: BTreeMap<Arc<str>, Vec<P>> = BTreeMap::new();
    for question in questions {
        topics.entry(question.partition.topic.clone()).or_default().push(part(question));
    }
    topics
}

/// A fetch outside of sessions, and whether every topic in it can be named by its id.
pub(super) fn fetch(
    config: &ConsumerConfig,
    metadata: &Metadata,
    questions: &[Question<FetchFrom>],
) -> (FetchRequest, bool) {
    let topics: Vec<FetchTopic> = by_topic(questions, |question| FetchPartition {
        partition: question.partition.partition,
        current_leader_epoch: question.leader_epoch.unwrap_or(NO_EPOCH),
        fetch_offset: question.about.offset,
        // Consumers ask for the end of an epoch before they fetch; brokers answer a last epoch as they do followers.
        last_fetched_epoch: NO_EPOCH,
        partition_max_bytes: config.max_partition_fetch_bytes,
        ..FetchPartition::default()
    })
    .into_iter()
    .map(|(topic, partitions)| FetchTopic {
        topic_id: metadata.topic(&topic).map_or(Uuid::nil(), |topic| topic.id),
        topic: topic.to_string(),
        partitions,
    })
    .collect();
    let by_id = topics.iter().all(|topic| !topic.topic_id.is_nil());
    let request = FetchRequest {
        max_wait_ms: i32::try_from(config.fetch_max_wait_ms).unwrap_or(i32::MAX),
        min_bytes: config.fetch_min_bytes,
        max_bytes: config.fetch_max_bytes,
        isolation_level: config.isolation_level.code(),
        topics,
        rack_id: config.client_rack.clone(),
        ..FetchRequest::default()
    };
    (request, by_id)
}

/// What takes in answers.
pub(super) struct Answers<'a> {
    pub(super) config: &'a ConsumerConfig,
    pub(super) cluster: &'a Cluster,
    pub(super) positions: &'a mut Positions,
    pub(super) now: Monotonic,
    pub(super) random: u64,
}

impl Answers<'_> {
    /// What a broker sent, each partition by itself.
    pub(super) fn fetched(&mut self, asked: &[Question<FetchFrom>], response: FetchResponse) -> Vec<Fetched> {
        let metadata = self.cluster.metadata();
        let mut found = Vec::new();
        let endpoints = response.node_endpoints;
        let mut parts: BTreeMap<(Arc<str>, i32), FetchPartitionResponse> = BTreeMap::new();
        for topic in response.responses {
            let name = if topic.topic.is_empty() {
                metadata.name_of(topic.topic_id).cloned()
            } else {
                Some(topic.topic.into())
            };
            let Some(name) = name else { continue };
            for partition in topic.partitions {
                parts.insert((name.clone(), partition.partition_index), partition);
            }
        }
        let whole = ErrorCode::from(response.error_code);
        for question in asked {
            let TopicPartition { topic, partition } = &question.partition;
            let Some(mut part) = parts.remove(&(topic.clone(), *partition)) else {
                if whole.is_error() {
                    self.trouble(question, whole, "fetch from");
                }
                continue;
            };
            let code = ErrorCode::from(part.error_code);
            if code.is_none() {
                found.extend(self.records(question, &mut part));
            } else if code == ErrorCode::OFFSET_OUT_OF_RANGE {
                self.positions.out_of_range(&question.partition, question.token, question.about.offset);
            } else {
                if concerns_leadership(code) {
                    self.cluster.hint(topic, *partition, &part.current_leader, &endpoints);
                }
                self.trouble(question, code, "fetch from");
            }
        }
        found
    }

    fn records(
        &mut self,
        question: &Question<FetchFrom>,
        part: &mut FetchPartitionResponse,
    ) -> Option<Fetched> {
        let Question { partition, token, about, .. } = question;
        let FetchPartitionResponse { high_watermark, last_stable_offset, log_start_offset, .. } = *part;
        self.positions.fetched(partition, *token, high_watermark, last_stable_offset, log_start_offset);
        if part.preferred_read_replica >= 0 {
            let age = Duration::from_millis(self.config.network.metadata_max_age_ms);
            self.positions.prefer(partition, *token, part.preferred_read_replica, self.now + age);
        }
        let Records::Bytes(bytes) = &part.records else { return None };
        if bytes.is_empty() {
            return None;
        }
        let check = self.config.check_crcs;
        let fetched = Fetched::new(partition.clone(), *token, about.offset, about.last_epoch, bytes, check);
        Some(match self.config.isolation_level {
            IsolationLevel::ReadUncommitted => fetched,
            IsolationLevel::ReadCommitted => {
                fetched.read_committed(part.aborted_transactions.take().unwrap_or_default())
            }
        })
    }

    /// Offsets that were asked for.
    pub(super) fn offsets(&mut self, asked: &[Question<SeekTarget>], response: &ListOffsetsResponse) {
        for question in asked {
            let TopicPartition { topic, partition } = &question.partition;
            let part = response
                .topics
                .iter()
                .filter(|found| *found.name == **topic)
                .flat_map(|found| &found.partitions)
                .find(|found| found.partition_index == *partition);
            let Some(part) = part else {
                self.failed(question);
                continue;
            };
            let code = ErrorCode::from(part.error_code);
            if code.is_error() {
                self.trouble(question, code, "find an offset of");
            } else if part.offset < 0 {
                self.positions.nothing_so_late(&question.partition, question.token);
            } else {
                let epoch = Some(part.leader_epoch).filter(|epoch| *epoch >= 0);
                self.positions.offset_found(&question.partition, question.token, part.offset, epoch);
            }
        }
    }

    /// Ends of epochs that were asked for.
    pub(super) fn epochs(&mut self, asked: &[Question<i32>], response: &OffsetForLeaderEpochResponse) {
        for question in asked {
            let TopicPartition { topic, partition } = &question.partition;
            let part = response
                .topics
                .iter()
                .filter(|found| *found.topic == **topic)
                .flat_map(|found| &found.partitions)
                .find(|found| found.partition == *partition);
            let Some(part) = part else {
                self.failed(question);
                continue;
            };
            let code = ErrorCode::from(part.error_code);
            if code.is_error() {
                self.trouble(question, code, "validate the position in");
            } else {
                let (epoch, end_offset) = (part.leader_epoch, part.end_offset);
                self.positions.epoch_ends(&question.partition, question.token, epoch, end_offset);
            }
        }
    }

    /// A question without an answer.
    pub(super) fn failed<T>(&mut self, question: &Question<T>) {
        self.positions.failed(&question.partition, question.token, self.now, self.random);
        self.cluster.request_update();
    }

    /// A question that came to nothing; the user hears of it where that does not pass by itself.
    pub(super) fn unanswered<T>(&mut self, question: &Question<T>, error: &ClientError) {
        match error {
            ClientError::Refused { code, what, .. } if !error.is_retriable() => {
                let Question { partition, token, .. } = question;
                self.positions.refused(
                    partition,
                    *token,
                    &format!("{what}, for"),
                    *code,
                    self.now,
                    self.random,
                );
            }
            _ => self.failed(question),
        }
    }

    fn trouble<T>(&mut self, question: &Question<T>, code: ErrorCode, what: &str) {
        if code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR {
            return self.failed(question);
        }
        let Question { partition, token, .. } = question;
        self.positions.refused(partition, *token, what, code, self.now, self.random);
    }
}

/// Whether the error says that somebody else leads, or that this is not known here.
pub(super) fn concerns_leadership(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH)
}

/// Asks for offsets by time.
pub(super) fn list_offsets(
    isolation: IsolationLevel,
    questions: &[Question<SeekTarget>],
) -> ListOffsetsRequest {
    let topics = by_topic(questions, |question| ListOffsetsPartition {
        partition_index: question.partition.partition,
        current_leader_epoch: question.leader_epoch.unwrap_or(NO_EPOCH),
        timestamp: question.about.timestamp(),
    });
    ListOffsetsRequest {
        isolation_level: isolation.code(),
        topics: topics
            .into_iter()
            .map(|(name, partitions)| ListOffsetsTopic { name: name.to_string(), partitions })
            .collect(),
        ..ListOffsetsRequest::default()
    }
}

/// Asks where epochs end.
pub(super) fn epoch_ends(questions: &[Question<i32>]) -> OffsetForLeaderEpochRequest {
    let topics = by_topic(questions, |question| OffsetForLeaderPartition {
        partition: question.partition.partition,
        current_leader_epoch: question.leader_epoch.unwrap_or(NO_EPOCH),
        leader_epoch: question.about,
    });
    OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: topics
            .into_iter()
            .map(|(topic, partitions)| OffsetForLeaderTopic { topic: topic.to_string(), partitions })
            .collect(),
    }
}
