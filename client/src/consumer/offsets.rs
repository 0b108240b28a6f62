//! Committed offsets: asking for them and committing them, one attempt at a time. Owns what the coordinator's codes mean;
//! never decides when anything is committed.

use super::{OffsetAndMetadata, TopicPartition, membership::MemberIdentity};
use crate::{
    ClientError,
    cluster::{Channel, Cluster},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetFetchRequest,
        OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchResponse, OffsetFetchResponseTopic,
    },
    wire::Request,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The first version of OffsetFetch that asks for several groups (KIP-709).
const SEVERAL_GROUPS: i16 = 8;

/// Offsets of several partitions.
pub(crate) type Offsets = BTreeMap<TopicPartition, OffsetAndMetadata>;

/// The way to a group's coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    pub(crate) cluster: Cluster,
    pub(crate) group_id: Arc<str>,
    pub(crate) group_instance_id: Option<String>,
}

impl Coordinator {
    /// Asks the coordinator, which is found first. What shows that it is none any more is remembered.
    pub(crate) async fn ask<R: Request>(
        &self,
        request: &R,
        timeout: Duration,
    ) -> Result<(i32, R::Response), ClientError> {
        let broker = self.cluster.coordinator(&self.group_id).await?;
        match self.cluster.send_within(broker, Channel::Coordinator, request, timeout).await {
            Ok(response) => Ok((broker, response)),
            Err(error) => {
                self.cluster.not_coordinator(&self.group_id, broker);
                Err(error)
            }
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.cluster.config().request_timeout_ms)
    }

    /// Remembers that a broker is no coordinator, where the code says so.
    pub(crate) fn judge(&self, broker: i32, code: ErrorCode) {
        if matches!(
            code,
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::REQUEST_TIMED_OUT
        ) {
            self.cluster.not_coordinator(&self.group_id, broker);
        }
    }

    /// Commits offsets, as a member or as nobody. The code that a member has to hear of comes along.
    pub(crate) async fn commit(
        &self,
        identity: Option<&MemberIdentity>,
        offsets: &Offsets,
    ) -> Result<(), (ErrorCode, ClientError)> {
        let request = OffsetCommitRequest {
            group_id: self.group_id.to_string(),
            generation_id_or_member_epoch: identity.map_or(-1, |identity| identity.generation),
            member_id: identity.map_or_else(String::new, |identity| identity.member_id.clone()),
            group_instance_id: identity.and(self.group_instance_id.clone()),
            topics: commit_topics(offsets),
            ..OffsetCommitRequest::default()
        };
        let asked = self.ask(&request, self.timeout()).await;
        let (broker, response) = asked.map_err(|error| (ErrorCode::NONE, error))?;
        let codes = response.topics.iter().flat_map(|topic| &topic.partitions);
        let codes =
            codes.map(|partition| ErrorCode::from(partition.error_code)).filter(|code| code.is_error());
        // What cannot be tried again weighs more.
        let Some(code) = codes.min_by_key(|code| code.is_retriable()) else { return Ok(()) };
        self.judge(broker, code);
        let error = match code {
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => ClientError::CommitFailed,
            code => ClientError::refused(format!("commit offsets of group {}", self.group_id), code, None),
        };
        Err((code, error))
    }

    /// What is committed of these partitions, or of all; where nothing is, there is no entry.
    pub(crate) async fn committed(
        &self,
        partitions: Option<&BTreeSet<TopicPartition>>,
        require_stable: bool,
    ) -> Result<Offsets, ClientError> {
        let broker = self.cluster.coordinator(&self.group_id).await?;
        let connection = self.cluster.connection(broker, Channel::Coordinator).await;
        let connection = connection.inspect_err(|_| self.cluster.not_coordinator(&self.group_id, broker))?;
        let wrong = |source| ClientError::Connection { broker, source };
        let version = *connection.common_versions::<OffsetFetchRequest>().map_err(wrong)?.end();
        let request = self.fetch_request(version, partitions, require_stable);
        let sent = connection.send_version(version, &request, self.timeout()).await;
        let response = sent.map_err(|source| {
            self.cluster.not_coordinator(&self.group_id, broker);
            crate::cluster::failed(broker, &connection, source)
        })?;
        let (code, topics) = fetch_outcome(version, response);
        self.judge(broker, code);
        let refused = |code| {
            Err(ClientError::refused(
                format!("fetch committed offsets of group {}", self.group_id),
                code,
                None,
            ))
        };
        if code.is_error() {
            return refused(code);
        }
        let mut offsets = Offsets::new();
        for topic in topics {
            for partition in topic.partitions {
                let code = ErrorCode::from(partition.error_code);
                if code.is_error() {
                    return refused(code);
                }
                if partition.committed_offset >= 0 {
                    let found = OffsetAndMetadata {
                        offset: partition.committed_offset,
                        leader_epoch: Some(partition.committed_leader_epoch).filter(|epoch| *epoch >= 0),
                        metadata: partition.metadata.unwrap_or_default(),
                    };
                    offsets.insert(TopicPartition::new(&topic.name, partition.partition_index), found);
                }
            }
        }
        Ok(offsets)
    }

    fn fetch_request(
        &self,
        version: i16,
        partitions: Option<&BTreeSet<TopicPartition>>,
        require_stable: bool,
    ) -> OffsetFetchRequest {
        let topics = partitions.map(fetch_topics);
        let require_stable = require_stable && version >= 7;
        if version >= SEVERAL_GROUPS {
            let group = OffsetFetchRequestGroup {
                group_id: self.group_id.to_string(),
                topics,
                ..OffsetFetchRequestGroup::default()
            };
            return OffsetFetchRequest {
                groups: vec![group],
                require_stable,
                ..OffsetFetchRequest::default()
            };
        }
        OffsetFetchRequest {
            group_id: self.group_id.to_string(),
            topics,
            require_stable,
            ..OffsetFetchRequest::default()
        }
    }
}

fn fetch_topics(partitions: &BTreeSet<TopicPartition>) -> Vec<OffsetFetchRequestTopic> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    topics
        .into_iter()
        .map(|(name, partition_indexes)| OffsetFetchRequestTopic { name: name.to_owned(), partition_indexes })
        .collect()
}

fn commit_topics(offsets: &Offsets) -> Vec<OffsetCommitRequestTopic> {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for (partition, offset) in offsets {
        topics.entry(&partition.topic).or_default().push(OffsetCommitRequestPartition {
            partition_index: partition.partition,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(offset.metadata.clone()),
        });
    }
    topics
        .into_iter()
        .map(|(name, partitions)| OffsetCommitRequestTopic { name: name.to_owned(), partitions })
        .collect()
}

fn fetch_outcome(version: i16, response: OffsetFetchResponse) -> (ErrorCode, Vec<OffsetFetchResponseTopic>) {
    if version < SEVERAL_GROUPS {
        return (response.error_code.into(), response.topics);
    }
    match response.groups.into_iter().next() {
        Some(group) => (group.error_code.into(), group.topics),
        None => (ErrorCode::UNKNOWN_SERVER_ERROR, Vec::new()),
    }
}
