//! Groups and their offsets: listing, describing, deleting, and setting how far a group has come. Owns what is asked for
//! that, and that every broker is asked where each knows only its own groups.

use super::{Admin, AdminError, BACKOFF};
use crate::{
    ClientError,
    cluster::{Channel, Cluster, NetworkConfig, millis},
    consumer::{
        IsolationLevel, OffsetAndMetadata, OffsetAndTimestamp, SeekTarget, TopicPartition,
        lookup::look_up,
        offsets::{Coordinator, Offsets},
    },
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        ConsumerProtocolAssignment, DeleteGroupsRequest, DescribeGroupsRequest, DescribedGroup,
        LeaveGroupRequest, ListGroupsRequest, MemberIdentity, OffsetDeleteRequest,
        OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, decode_consumer_protocol,
    },
    wire::Request,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A group, as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// Its name.
    pub group_id: String,
    /// What kind of members it has: "consumer", "connect"; empty where only offsets are committed.
    pub protocol_type: String,
    /// Its state, empty where the broker does not tell.
    pub state: String,
    /// Which group protocol it speaks, empty where the broker does not tell.
    pub group_type: String,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// How the coordinator calls it.
    pub member_id: String,
    /// How its user calls it, if so.
    pub group_instance_id: Option<String>,
    /// The client's name.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// What it reads, where that can be told.
    pub assignment: BTreeSet<TopicPartition>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its name.
    pub group_id: String,
    /// Its state: Stable, Empty, PreparingRebalance, CompletingRebalance, Dead.
    pub state: String,
    /// What kind of members it has.
    pub protocol_type: String,
    /// The assignor that its members agreed on.
    pub protocol: String,
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// Its members, by id.
    pub members: Vec<GroupMember>,
}

impl Admin {
    /// The cluster as clients other than this one see it, made when it is first needed.
    pub(super) fn cluster(&mut self) -> Result<Cluster, AdminError> {
        if let Some(cluster) = &self.cluster {
            return Ok(cluster.clone());
        }
        let options = &self.options.connection;
        let config = NetworkConfig {
            client_id: options.client_id.to_string(),
            request_timeout_ms: millis(options.request_timeout),
            socket_connection_setup_timeout_ms: millis(options.connect_timeout),
            max_response_bytes: options.max_response_bytes,
            ..NetworkConfig::new(self.bootstrap.clone())
        };
        let cluster = Cluster::new(&self.runtime, config).map_err(failed("connect"))?;
        self.cluster = Some(cluster.clone());
        Ok(cluster)
    }

    /// Tries until there is an outcome that does not pass by itself, or the time is over.
    pub(super) async fn persist<T>(
        &self,
        what: &str,
        attempt: impl AsyncFn() -> Result<T, ClientError>,
    ) -> Result<T, AdminError> {
        let deadline = self.now() + self.options.timeout;
        loop {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) if error.is_retriable() && self.now() < deadline => {
                    self.runtime.sleep(BACKOFF).await;
                }
                Err(error) => return Err(failed(what)(error)),
            }
        }
    }

    /// The living brokers.
    pub(super) async fn brokers(&mut self) -> Result<Vec<i32>, AdminError> {
        let cluster = self.describe_cluster().await?;
        // What is asked of a single broker goes through the other view of the cluster, which has to know them too.
        let view = self.cluster()?;
        let answers = view.answers();
        view.request_update();
        view.newer_than(answers, self.now() + self.options.timeout)
            .await
            .map_err(failed("learn of the brokers"))?;
        Ok(cluster.brokers.iter().map(|broker| broker.id).collect())
    }

    fn coordinator_of(&mut self, group: &str) -> Result<Coordinator, AdminError> {
        Ok(Coordinator { cluster: self.cluster()?, group_id: group.into(), group_instance_id: None })
    }

    async fn ask_coordinator<R: Request>(
        &mut self,
        group: &str,
        what: &str,
        request: &R,
        code_of: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<(i32, R::Response), AdminError> {
        let coordinator = self.coordinator_of(group)?;
        let limit = self.options.connection.request_timeout;
        self.persist(what, async || {
            let (broker, response) = coordinator.ask(request, limit).await?;
            let code = code_of(&response);
            coordinator.judge(broker, code);
            if code.is_error() {
                return Err(ClientError::refused(what, code, None));
            }
            Ok((broker, response))
        })
        .await
    }

    /// All groups of all brokers, by name.
    ///
    /// # Errors
    /// See [`AdminError`]; also where one living broker cannot be asked.
    pub async fn list_groups(&mut self) -> Result<Vec<GroupListing>, AdminError> {
        let mut groups = BTreeMap::new();
        for broker in self.brokers().await? {
            let cluster = self.cluster()?;
            let what = format!("list the groups of broker {broker}");
            let response = self
                .persist(&what, async || {
                    let response = cluster.send(broker, &ListGroupsRequest::default()).await?;
                    match ErrorCode::from(response.error_code) {
                        ErrorCode::NONE => Ok(response),
                        code => Err(ClientError::refused(what.as_str(), code, None)),
                    }
                })
                .await?;
            for group in response.groups {
                let listing = GroupListing {
                    group_id: group.group_id.clone(),
                    protocol_type: group.protocol_type,
                    state: group.group_state,
                    group_type: group.group_type,
                };
                groups.insert(group.group_id, listing);
            }
        }
        Ok(groups.into_values().collect())
    }

    /// A group with its members.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn describe_group(&mut self, group: &str) -> Result<GroupDescription, AdminError> {
        let what = format!("describe group {group}");
        let request =
            DescribeGroupsRequest { groups: vec![group.to_owned()], ..DescribeGroupsRequest::default() };
        let code =
            |found: Option<&DescribedGroup>| found.map_or(ErrorCode::NONE, |group| group.error_code.into());
        let asked =
            self.ask_coordinator(group, &what, &request, |response| code(response.groups.first())).await?;
        let (coordinator, response) = asked;
        let Some(found) = response.groups.into_iter().next() else {
            let source = ClientError::refused(what.as_str(), ErrorCode::GROUP_ID_NOT_FOUND, None);
            return Err(AdminError::Client { what, source });
        };
        let mut members: Vec<GroupMember> = found
            .members
            .into_iter()
            .map(|member| GroupMember {
                assignment: decode_consumer_protocol(&member.member_assignment)
                    .map(|assignment| assigned(&assignment))
                    .unwrap_or_default(),
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
            })
            .collect();
        members.sort_by(|one, other| one.member_id.cmp(&other.member_id));
        Ok(GroupDescription {
            group_id: found.group_id,
            state: found.group_state,
            protocol_type: found.protocol_type,
            protocol: found.protocol_data,
            coordinator,
            members,
        })
    }

    /// Deletes a group that has no members, with its offsets.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn delete_group(&mut self, group: &str) -> Result<(), AdminError> {
        let what = format!("delete group {group}");
        let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()] };
        let asked = self.ask_coordinator(group, &what, &request, |response| {
            response.results.first().map_or(ErrorCode::NONE, |result| result.error_code.into())
        });
        asked.await.map(|_response| ())
    }

    /// Removes a member from its group: by its id, or by its instance id if it is static.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn remove_member(
        &mut self,
        group: &str,
        member_id: &str,
        group_instance_id: Option<&str>,
    ) -> Result<(), AdminError> {
        let what = format!("remove a member of group {group}");
        let member = MemberIdentity {
            member_id: member_id.to_owned(),
            group_instance_id: group_instance_id.map(str::to_owned),
            reason: Some("removed by an administrator".to_owned()),
        };
        let request = LeaveGroupRequest {
            group_id: group.to_owned(),
            members: vec![member],
            ..LeaveGroupRequest::default()
        };
        let asked = self.ask_coordinator(group, &what, &request, |response| {
            let member = response.members.first().map_or(ErrorCode::NONE, |member| member.error_code.into());
            if response.error_code == 0 { member } else { response.error_code.into() }
        });
        asked.await.map(|_response| ())
    }

    /// All offsets that a group has committed.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn group_offsets(
        &mut self,
        group: &str,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, AdminError> {
        let coordinator = self.coordinator_of(group)?;
        let what = format!("list the offsets of group {group}");
        self.persist(&what, async || coordinator.committed(None, false).await).await
    }

    /// Sets how far a group has come in these partitions. The group has to be without members.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn alter_group_offsets(
        &mut self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<(), AdminError> {
        let coordinator = self.coordinator_of(group)?;
        let what = format!("set the offsets of group {group}");
        let offsets: &Offsets = offsets;
        self.persist(&what, async || {
            match coordinator.commit(None, offsets).await {
                Ok(()) => Ok(()),
                // To whoever is no member the coordinator of a group with members says that it knows none such.
                Err((code, ClientError::CommitFailed)) => {
                    let why = Some("the group has members: stop its consumers first");
                    Err(ClientError::refused(what.as_str(), code, why))
                }
                Err((_, error)) => Err(error),
            }
        })
        .await
    }

    /// Forgets how far a group has come in these partitions. Nobody in the group may be subscribed to them.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn delete_group_offsets(
        &mut self,
        group: &str,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<(), AdminError> {
        let what = format!("delete offsets of group {group}");
        let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
        for partition in partitions {
            let part = OffsetDeleteRequestPartition { partition_index: partition.partition };
            topics.entry(&partition.topic).or_default().push(part);
        }
        let request = OffsetDeleteRequest {
            group_id: group.to_owned(),
            topics: topics
                .into_iter()
                .map(|(name, partitions)| OffsetDeleteRequestTopic { name: name.to_owned(), partitions })
                .collect(),
        };
        let asked = self.ask_coordinator(group, &what, &request, |response| {
            let parts = response.topics.iter().flat_map(|topic| &topic.partitions);
            let part = parts.map(|part| part.error_code).find(|code| *code != 0);
            ErrorCode::from(if response.error_code != 0 { response.error_code } else { part.unwrap_or(0) })
        });
        asked.await.map(|_response| ())
    }

    /// Offsets of partitions: their beginning, their end, or by time; `None` where there is no record so late.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn list_offsets(
        &mut self,
        wanted: BTreeMap<TopicPartition, SeekTarget>,
    ) -> Result<BTreeMap<TopicPartition, Option<OffsetAndTimestamp>>, AdminError> {
        let (cluster, limit) = (self.cluster()?, self.options.timeout);
        look_up(&cluster, IsolationLevel::ReadUncommitted, wanted, limit)
            .await
            .map_err(failed("list offsets"))
    }

    /// Asks one broker, and tries again where that can help.
    pub(super) async fn ask_broker<R: Request>(
        &mut self,
        broker: i32,
        what: &str,
        request: &R,
    ) -> Result<R::Response, AdminError> {
        let (cluster, limit): (Cluster, Duration) =
            (self.cluster()?, self.options.connection.request_timeout);
        self.persist(what, async || cluster.send_within(broker, Channel::Data, request, limit).await).await
    }
}

fn assigned(assignment: &ConsumerProtocolAssignment) -> BTreeSet<TopicPartition> {
    let topics = assignment.assigned_partitions.iter();
    topics
        .flat_map(|topic| {
            topic.partitions.iter().map(|partition| TopicPartition::new(&topic.topic, *partition))
        })
        .collect()
}

/// Tells what was to be done along with what went wrong.
pub(super) fn failed(what: &str) -> impl Fn(ClientError) -> AdminError {
    move |source| AdminError::Client { what: what.to_owned(), source }
}
