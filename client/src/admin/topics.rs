//! Topics: listing, describing, creating, deleting. Owns what is asked for that; never how a broker is found.

use super::{Admin, AdminError, Answer, BACKOFF, Target};
use crate::ConnectionError;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sillon_protocol::{
    ErrorCode,
    messages::{
        CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, Cursor,
        DeleteTopicState, DeleteTopicsRequest, DescribeConfigsRequest, DescribeConfigsResource,
        DescribeTopicPartitionsRequest, MetadataRequest, MetadataRequestTopic, MetadataResponseTopic,
        TopicRequest,
    },
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// DescribeConfigs' number for a topic.
const TOPIC_RESOURCE: i8 = 2;
/// DescribeConfigs' number for a value that nobody has set.
const DEFAULT_SOURCE: i8 = 5;

/// A topic to create.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; `None` for the brokers' `num.partitions`.
    pub partitions: Option<i32>,
    /// How many replicas of each; `None` for the brokers' `default.replication.factor`.
    pub replication_factor: Option<i16>,
    /// Which brokers hold partition 0, 1, …, the preferred leader first; empty to leave that to the controller.
    pub assignments: Vec<Vec<i32>>,
    /// Configuration that differs from the defaults.
    pub configs: Vec<(String, String)>,
    /// Whether only to check whether it could be created.
    pub validate_only: bool,
}

/// One configuration of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value, empty where there is none.
    pub value: String,
    /// Whether nobody has set it.
    pub is_default: bool,
}

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Its number.
    pub index: i32,
    /// The leader's broker id, `None` while there is none.
    pub leader: Option<i32>,
    /// The leader epoch, -1 where the broker does not tell.
    pub leader_epoch: i32,
    /// All replicas, the preferred leader first.
    pub replicas: Vec<i32>,
    /// The replicas in sync.
    pub isr: Vec<i32>,
    /// The replicas that are not alive.
    pub offline: Vec<i32>,
    /// Replicas that may lead though not in sync (KIP-966), `None` where the broker does not tell.
    pub eligible_leaders: Option<Vec<i32>>,
    /// Those known last, `None` where the broker does not tell.
    pub last_known_eligible_leaders: Option<Vec<i32>>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// Its id; nil where the broker has none.
    pub topic_id: Uuid,
    /// Whether it is the brokers' own.
    pub is_internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionDescription>,
    /// Its whole configuration in the broker's order; empty where it was not asked for.
    pub configs: Vec<TopicConfigEntry>,
}

impl TopicDescription {
    /// The topic id as Kafka prints it: URL-safe base64 without padding. `None` where there is no id.
    pub fn topic_id_text(&self) -> Option<String> {
        (!self.topic_id.is_nil()).then(|| URL_SAFE_NO_PAD.encode(self.topic_id.as_bytes()))
    }

    fn new(topic: &MetadataResponseTopic) -> TopicDescription {
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|partition| PartitionDescription {
                index: partition.partition_index,
                leader: (partition.leader_id >= 0).then_some(partition.leader_id),
                leader_epoch: partition.leader_epoch,
                replicas: partition.replica_nodes.clone(),
                isr: partition.isr_nodes.clone(),
                offline: partition.offline_replicas.clone(),
                eligible_leaders: None,
                last_known_eligible_leaders: None,
            })
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        TopicDescription {
            name: topic.name.clone().unwrap_or_default(),
            topic_id: topic.topic_id,
            is_internal: topic.is_internal,
            partitions,
            configs: Vec::new(),
        }
    }
}

impl Admin {
    /// Every topic with its partitions, by name, without configuration.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn list_topics(&mut self) -> Result<Vec<TopicDescription>, AdminError> {
        self.metadata("list topics", None).await
    }

    /// The named topics, or all of them, by name, with their configuration.
    ///
    /// # Errors
    /// See [`AdminError`]; a topic that does not exist is [`AdminError::Refused`].
    pub async fn describe_topics(&mut self, names: &[String]) -> Result<Vec<TopicDescription>, AdminError> {
        let what = match names {
            [] => "describe topics".to_owned(),
            names => format!("describe topic {}", names.join(", ")),
        };
        let names = (!names.is_empty()).then_some(names);
        let mut topics = self.metadata(&what, names).await?;
        self.add_eligible_leaders(&mut topics).await?;
        self.add_configs(&mut topics).await?;
        Ok(topics)
    }

    /// Fills in what only DescribeTopicPartitions tells; a broker that does not know it is not asked.
    async fn add_eligible_leaders(&mut self, topics: &mut [TopicDescription]) -> Result<(), AdminError> {
        let mut partitions = BTreeMap::new();
        for topic in topics.iter_mut() {
            for partition in &mut topic.partitions {
                partitions.insert((topic.name.clone(), partition.index), partition);
            }
        }
        let names = partitions.keys().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>();
        let mut request = DescribeTopicPartitionsRequest {
            topics: names.into_iter().map(|name| TopicRequest { name }).collect(),
            ..DescribeTopicPartitionsRequest::default()
        };
        let mut asked_for = None;
        while !request.topics.is_empty() {
            let what = "describe partitions";
            let answer = match self.call(Target::Any, what, &request, |_| ErrorCode::NONE).await {
                Ok(answer) => answer.response,
                Err(AdminError::Connection { source: ConnectionError::NoCommonVersion { .. }, .. }) => break,
                Err(error) => return Err(error),
            };
            for topic in answer.topics {
                let name = topic.name.unwrap_or_default();
                for told in topic.partitions {
                    if let Some(partition) = partitions.get_mut(&(name.clone(), told.partition_index)) {
                        partition.eligible_leaders = told.eligible_leader_replicas;
                        partition.last_known_eligible_leaders = told.last_known_elr;
                    }
                }
            }
            // The cursor has to move on, or a broker could keep this loop busy for ever.
            let next = answer.next_cursor.map(|cursor| (cursor.topic_name, cursor.partition_index));
            let Some(next) = next.filter(|next| asked_for.as_ref().is_none_or(|before| next > before)) else {
                break;
            };
            request.topics.retain(|topic| topic.name >= next.0);
            request.cursor = Some(Cursor { topic_name: next.0.clone(), partition_index: next.1 });
            asked_for = Some(next);
        }
        Ok(())
    }

    async fn metadata(
        &mut self,
        what: &str,
        names: Option<&[String]>,
    ) -> Result<Vec<TopicDescription>, AdminError> {
        let topic = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
        let request = MetadataRequest {
            topics: names.map(|names| names.iter().map(topic).collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let answer = self.call(Target::Any, what, &request, |response| response.error_code.into()).await?;
        let mut topics = Vec::new();
        for topic in &answer.response.topics {
            let name = topic.name.as_deref().unwrap_or_default();
            match ErrorCode::from(topic.error_code) {
                // A topic some of whose partitions have no leader is described as it is.
                ErrorCode::NONE | ErrorCode::LEADER_NOT_AVAILABLE => {
                    topics.push(TopicDescription::new(topic))
                }
                code => return Err(refused(&answer, &format!("describe topic {name}"), code, None)),
            }
        }
        topics.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(topics)
    }

    async fn add_configs(&mut self, topics: &mut [TopicDescription]) -> Result<(), AdminError> {
        if topics.is_empty() {
            return Ok(());
        }
        let resource = |topic: &TopicDescription| DescribeConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: topic.name.clone(),
            configuration_keys: None,
        };
        let request = DescribeConfigsRequest {
            resources: topics.iter().map(resource).collect(),
            ..DescribeConfigsRequest::default()
        };
        let what = "read the configuration of topics";
        let answer = self.call(Target::Any, what, &request, |_| ErrorCode::NONE).await?;
        let mut configs = BTreeMap::new();
        for result in &answer.response.results {
            let code = ErrorCode::from(result.error_code);
            if code.is_error() {
                let what = format!("read the configuration of topic {}", result.resource_name);
                return Err(refused(&answer, &what, code, result.error_message.as_deref()));
            }
            let entries = result.configs.iter().map(|config| TopicConfigEntry {
                name: config.name.clone(),
                value: config.value.clone().unwrap_or_default(),
                is_default: config.config_source == DEFAULT_SOURCE,
            });
            configs.insert(result.resource_name.as_str(), entries.collect::<Vec<_>>());
        }
        for topic in topics {
            topic.configs = configs.remove(topic.name.as_str()).unwrap_or_default();
        }
        Ok(())
    }

    /// Creates a topic and waits until the broker that is asked next shows all its partitions with a leader.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn create_topic(&mut self, topic: &NewTopic) -> Result<(), AdminError> {
        let what = format!("create topic {}", topic.name);
        let request = CreateTopicsRequest {
            topics: vec![creatable(topic)],
            validate_only: topic.validate_only,
            timeout_ms: self.request_timeout_ms(),
        };
        let answer = self
            .call(Target::Controller, &what, &request, |response| {
                response.topics.first().map_or(ErrorCode::NONE, |topic| topic.error_code.into())
            })
            .await?;
        let code = |code: i16| ErrorCode::from(code);
        if let Some(topic) = answer.response.topics.iter().find(|topic| code(topic.error_code).is_error()) {
            return Err(refused(&answer, &what, code(topic.error_code), topic.error_message.as_deref()));
        }
        if topic.validate_only {
            return Ok(());
        }
        self.wait_until(&format!("see topic {} with its leaders", topic.name), |topics| {
            topics.iter().any(|found| {
                found.name == topic.name
                    && !found.partitions.is_empty()
                    && found.partitions.iter().all(|partition| partition.leader.is_some())
            })
        })
        .await
    }

    /// Deletes a topic and waits until the broker that is asked next does not show it any more.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn delete_topic(&mut self, name: &str) -> Result<(), AdminError> {
        let what = format!("delete topic {name}");
        let request = DeleteTopicsRequest {
            topics: vec![DeleteTopicState { name: Some(name.to_owned()), ..Default::default() }],
            topic_names: vec![name.to_owned()],
            timeout_ms: self.request_timeout_ms(),
        };
        let answer = self
            .call(Target::Controller, &what, &request, |response| {
                response.responses.first().map_or(ErrorCode::NONE, |topic| topic.error_code.into())
            })
            .await?;
        let code = |code: i16| ErrorCode::from(code);
        if let Some(topic) = answer.response.responses.iter().find(|topic| code(topic.error_code).is_error())
        {
            return Err(refused(&answer, &what, code(topic.error_code), topic.error_message.as_deref()));
        }
        self.wait_until(&format!("see topic {name} gone"), |topics| {
            topics.iter().all(|found| found.name != name)
        })
        .await
    }

    pub(super) fn request_timeout_ms(&self) -> i32 {
        i32::try_from(self.options.connection.request_timeout.as_millis()).unwrap_or(i32::MAX)
    }

    /// Metadata reaches a broker a moment after the controller has answered.
    async fn wait_until(
        &mut self,
        what: &str,
        is_so: impl Fn(&[TopicDescription]) -> bool,
    ) -> Result<(), AdminError> {
        let deadline = self.now() + self.options.timeout;
        while !is_so(&self.metadata(what, None).await?) {
            if self.now() >= deadline {
                let timeout_ms = u64::try_from(self.options.timeout.as_millis()).unwrap_or(u64::MAX);
                let last = "the request itself was acknowledged".to_owned();
                return Err(AdminError::TimedOut { what: what.to_owned(), timeout_ms, last });
            }
            self.runtime.sleep(BACKOFF).await;
        }
        Ok(())
    }
}

pub(super) fn refused<T>(
    answer: &Answer<T>,
    what: &str,
    code: ErrorCode,
    message: Option<&str>,
) -> AdminError {
    AdminError::Refused {
        what: what.to_owned(),
        broker: answer.broker.clone(),
        code,
        message: message.unwrap_or(code.message()).trim_end_matches('.').to_owned(),
        unanswered_before: answer.unanswered_before,
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let assignments = topic.assignments.iter().zip(0..).map(|(broker_ids, partition_index)| {
        CreatableReplicaAssignment { partition_index, broker_ids: broker_ids.clone() }
    });
    let configs = topic
        .configs
        .iter()
        .map(|(name, value)| CreatableTopicConfig { name: name.clone(), value: Some(value.clone()) });
    CreatableTopic {
        name: topic.name.clone(),
        num_partitions: topic.partitions.unwrap_or(-1),
        replication_factor: topic.replication_factor.unwrap_or(-1),
        assignments: assignments.collect(),
        configs: configs.collect(),
    }
}
