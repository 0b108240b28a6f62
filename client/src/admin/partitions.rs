//! Partitions: more of them, on other brokers, with their preferred leaders, without their oldest records, and where they
//! lie. Owns what is asked for that.

use super::{Admin, AdminError, Answer, Target, groups::failed, topics::refused};
use crate::{ClientError, consumer::TopicPartition};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterPartitionReassignmentsRequest, CreatePartitionsAssignment, CreatePartitionsRequest,
        CreatePartitionsTopic, DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
        DescribeLogDirsRequest, ElectLeadersRequest, ElectLeadersTopic, ListPartitionReassignmentsRequest,
        ReassignablePartition, ReassignableTopic,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// A partition on its way to other brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment {
    /// All its replicas by now.
    pub replicas: Vec<i32>,
    /// Those of them that are new.
    pub adding: Vec<i32>,
    /// Those of them that are to go.
    pub removing: Vec<i32>,
}

/// Who may be elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionType {
    /// The preferred leader, if it is in sync.
    Preferred,
    /// Any replica where none in sync lives: what only the others have is lost.
    Unclean,
}

/// A directory of a broker that holds logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirDescription {
    /// The broker.
    pub broker: i32,
    /// Its path there.
    pub path: String,
    /// What is wrong with it, [`ErrorCode::NONE`] for nothing.
    pub error: ErrorCode,
    /// The sizes of the replicas in it, in bytes.
    pub replicas: BTreeMap<TopicPartition, i64>,
    /// How large the file system is in bytes, `None` where the broker does not tell.
    pub total_bytes: Option<i64>,
    /// How much of it is free in bytes, `None` where the broker does not tell.
    pub usable_bytes: Option<i64>,
}

fn by_topic<T>(parts: impl IntoIterator<Item = (TopicPartition, T)>) -> BTreeMap<String, Vec<(i32, T)>> {
    let mut topics: BTreeMap<String, Vec<(i32, T)>> = BTreeMap::new();
    for (part, value) in parts {
        topics.entry(part.topic.to_string()).or_default().push((part.partition, value));
    }
    topics
}

fn first_error<T>(
    answer: &Answer<T>,
    what: &str,
    codes: impl Iterator<Item = (String, i16, Option<String>)>,
) -> Result<(), AdminError> {
    for (part, code, message) in codes {
        let code = ErrorCode::from(code);
        if code.is_error() {
            return Err(refused(answer, &format!("{what} {part}"), code, message.as_deref()));
        }
    }
    Ok(())
}

impl Admin {
    /// Gives a topic so many partitions in all; `assignments` says which brokers hold each new one, the preferred leader
    /// first, or is empty to leave that to the controller.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn create_partitions(
        &mut self,
        topic: &str,
        count: i32,
        assignments: &[Vec<i32>],
        validate_only: bool,
    ) -> Result<(), AdminError> {
        let what = format!("add partitions to topic {topic}");
        let assignment =
            |broker_ids: &Vec<i32>| CreatePartitionsAssignment { broker_ids: broker_ids.clone() };
        let asked = CreatePartitionsTopic {
            name: topic.to_owned(),
            count,
            assignments: (!assignments.is_empty()).then(|| assignments.iter().map(assignment).collect()),
        };
        let timeout_ms = self.request_timeout_ms();
        let request = CreatePartitionsRequest { topics: vec![asked], timeout_ms, validate_only };
        let answer = self
            .call(Target::Controller, &what, &request, |response| {
                response.results.first().map_or(ErrorCode::NONE, |result| result.error_code.into())
            })
            .await?;
        let Some(result) = answer.response.results.first() else { return Ok(()) };
        match ErrorCode::from(result.error_code) {
            ErrorCode::NONE => Ok(()),
            code => Err(refused(&answer, &what, code, result.error_message.as_deref())),
        }
    }

    /// Moves partitions to these brokers, the preferred leader first; `None` cancels a move. Returns once the moves have
    /// begun.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn alter_partition_reassignments(
        &mut self,
        moves: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
    ) -> Result<(), AdminError> {
        let what = "reassign partitions";
        let topics = by_topic(moves.clone()).into_iter().map(|(name, partitions)| ReassignableTopic {
            name,
            partitions: partitions
                .into_iter()
                .map(|(partition_index, replicas)| ReassignablePartition { partition_index, replicas })
                .collect(),
        });
        let request = AlterPartitionReassignmentsRequest {
            timeout_ms: self.request_timeout_ms(),
            topics: topics.collect(),
            ..AlterPartitionReassignmentsRequest::default()
        };
        let answer =
            self.call(Target::Controller, what, &request, |response| response.error_code.into()).await?;
        let code = ErrorCode::from(answer.response.error_code);
        if code.is_error() {
            return Err(refused(&answer, what, code, answer.response.error_message.as_deref()));
        }
        let codes = answer.response.responses.iter().flat_map(|topic| {
            topic.partitions.iter().map(|part| {
                (
                    format!("{}-{}", topic.name, part.partition_index),
                    part.error_code,
                    part.error_message.clone(),
                )
            })
        });
        first_error(&answer, "reassign", codes)
    }

    /// The partitions that are on their way to other brokers.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn list_partition_reassignments(
        &mut self,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>, AdminError> {
        let what = "list reassignments";
        let timeout_ms = self.request_timeout_ms();
        let request = ListPartitionReassignmentsRequest { timeout_ms, topics: None };
        let answer =
            self.call(Target::Controller, what, &request, |response| response.error_code.into()).await?;
        let code = ErrorCode::from(answer.response.error_code);
        if code.is_error() {
            return Err(refused(&answer, what, code, answer.response.error_message.as_deref()));
        }
        let parts = answer.response.topics.into_iter().flat_map(|topic| {
            let name = topic.name;
            topic.partitions.into_iter().map(move |part| {
                let reassignment = Reassignment {
                    replicas: part.replicas,
                    adding: part.adding_replicas,
                    removing: part.removing_replicas,
                };
                (TopicPartition::new(&name, part.partition_index), reassignment)
            })
        });
        Ok(parts.collect())
    }

    /// Elects leaders of these partitions, or of all. A partition that has the right leader already is none to worry about.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn elect_leaders(
        &mut self,
        election: ElectionType,
        partitions: Option<&BTreeSet<TopicPartition>>,
    ) -> Result<(), AdminError> {
        let what = "elect leaders";
        let topic_partitions = partitions.map(|partitions| {
            let parts = partitions.iter().map(|partition| (partition.clone(), ()));
            let topic = |(topic, parts): (String, Vec<(i32, ())>)| ElectLeadersTopic {
                topic,
                partitions: parts.into_iter().map(|(partition, ())| partition).collect(),
            };
            by_topic(parts).into_iter().map(topic).collect()
        });
        let request = ElectLeadersRequest {
            election_type: i8::from(election == ElectionType::Unclean),
            topic_partitions,
            timeout_ms: self.request_timeout_ms(),
        };
        let answer =
            self.call(Target::Controller, what, &request, |response| response.error_code.into()).await?;
        let code = ErrorCode::from(answer.response.error_code);
        if code.is_error() {
            return Err(refused(&answer, what, code, None));
        }
        let codes = answer.response.replica_election_results.iter().flat_map(|topic| {
            let right = ErrorCode::ELECTION_NOT_NEEDED.code();
            let parts = topic.partition_result.iter().filter(move |part| part.error_code != right);
            parts.map(|part| {
                (
                    format!("{}-{}", topic.topic, part.partition_id),
                    part.error_code,
                    part.error_message.clone(),
                )
            })
        });
        first_error(&answer, "elect the leader of", codes)
    }

    /// Deletes the records below these offsets; `None` deletes all that are there. Gives where each log begins afterwards.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn delete_records(
        &mut self,
        before: &BTreeMap<TopicPartition, Option<i64>>,
    ) -> Result<BTreeMap<TopicPartition, i64>, AdminError> {
        let mut begins = BTreeMap::new();
        let timeout_ms = self.request_timeout_ms();
        for (partition, offset) in before {
            let what = format!("delete records of {partition}");
            let part = DeleteRecordsPartition {
                partition_index: partition.partition,
                offset: offset.unwrap_or(sillon_protocol::messages::DELETE_TO_HIGH_WATERMARK),
            };
            let topic = DeleteRecordsTopic { name: partition.topic.to_string(), partitions: vec![part] };
            let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms };
            let cluster = self.cluster()?;
            let deadline = self.now() + self.options.timeout;
            cluster.topic(&partition.topic, deadline).await.map_err(failed(&what))?;
            let (view, name, number) = (cluster.clone(), partition.topic.clone(), partition.partition);
            let low_watermark = self
                .persist(&what, async || {
                    let metadata = view.metadata();
                    let Some(leader) = metadata.leader(&name, number) else {
                        view.request_update();
                        return Err(ClientError::refused(
                            what.as_str(),
                            ErrorCode::LEADER_NOT_AVAILABLE,
                            None,
                        ));
                    };
                    let response = view.send(leader, &request).await?;
                    let part = response.topics.first().and_then(|topic| topic.partitions.first());
                    let code = part.map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |part| part.error_code.into());
                    if code.is_error() {
                        view.request_update();
                        return Err(ClientError::refused(what.as_str(), code, None));
                    }
                    Ok(part.map_or(-1, |part| part.low_watermark))
                })
                .await?;
            begins.insert(partition.clone(), low_watermark);
        }
        Ok(begins)
    }

    /// The log directories of all brokers.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn describe_log_dirs(&mut self) -> Result<Vec<LogDirDescription>, AdminError> {
        let mut found = Vec::new();
        for broker in self.brokers().await? {
            let what = format!("describe the log directories of broker {broker}");
            let response = self.ask_broker(broker, &what, &DescribeLogDirsRequest { topics: None }).await?;
            for directory in response.results {
                let replicas = directory.topics.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|part| {
                        (TopicPartition::new(&topic.name, part.partition_index), part.partition_size)
                    })
                });
                found.push(LogDirDescription {
                    broker,
                    error: directory.error_code.into(),
                    replicas: replicas.collect(),
                    total_bytes: Some(directory.total_bytes).filter(|bytes| *bytes >= 0),
                    usable_bytes: Some(directory.usable_bytes).filter(|bytes| *bytes >= 0),
                    path: directory.log_dir,
                });
            }
        }
        Ok(found)
    }
}
