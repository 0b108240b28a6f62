//! A member's life besides its user's polls: the task that joins, syncs, beats and leaves as the membership says. Decides
//! nothing about the group by itself, but for the assignment where this member leads.

use super::{
    ConsumerConfig, TopicPartition,
    assignor::{Assignment, Assignor, MemberSubscription, Members, PartitionCounts},
    membership::{Action, MemberIdentity, MemberRules, Membership},
    offsets::Coordinator,
    watch::Watch,
};
use crate::{ClientError, cluster::Cluster};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{
        ConsumerProtocolAssignment, ConsumerProtocolSubscription, ConsumerProtocolTopicPartitions,
        HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, LeaveGroupRequest,
        MemberIdentity as Leaving, SyncGroupRequest, SyncGroupRequestAssignment, decode_consumer_protocol,
        encode_versioned,
    },
};
use sillon_runtime::{Monotonic, Runtime, Tasks};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::Notify;

/// What kind of group consumers form.
const PROTOCOL_TYPE: &str = "consumer";
/// The newest version of what consumers tell each other.
const PROTOCOL_VERSION: i16 = 3;
/// How much longer than the group may take to form an answer to JoinGroup is waited for.
const JOIN_SLACK: Duration = Duration::from_secs(5);
/// The first version of LeaveGroup in which several members leave.
const SEVERAL_LEAVE: i16 = 3;

/// What the member's task and the consumer share.
pub(super) struct Group {
    pub(super) coordinator: Coordinator,
    runtime: Runtime,
    config: Arc<ConsumerConfig>,
    membership: Mutex<Membership>,
    /// Where this member leads.
    watch: Mutex<Option<Watch>>,
    /// Wakes the task.
    wake: Notify,
    /// Wakes the consumer that polls.
    pub(super) changed: Notify,
}

impl Group {
    /// A member that wants nothing yet.
    pub(super) fn new(
        runtime: &Runtime,
        coordinator: Coordinator,
        config: Arc<ConsumerConfig>,
    ) -> Arc<Group> {
        let rules = MemberRules {
            is_static: config.group_instance_id.is_some(),
            cooperative: config.is_cooperative(),
            heartbeat_interval: Duration::from_millis(config.heartbeat_interval_ms),
            max_poll_interval: Duration::from_millis(config.max_poll_interval_ms),
            retry_backoff: Duration::from_millis(config.network.retry_backoff_ms),
        };
        Arc::new(Group {
            coordinator,
            runtime: runtime.clone(),
            config,
            membership: Mutex::new(Membership::new(rules)),
            watch: Mutex::default(),
            wake: Notify::new(),
            changed: Notify::new(),
        })
    }

    /// Starts the task.
    pub(super) fn start(self: &Arc<Group>) -> Tasks {
        let mut tasks = Tasks::default();
        tasks.push(self.runtime.spawn("group member", run(self.clone())));
        tasks
    }

    pub(super) fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().expect("nothing panics while it holds this lock")
    }

    fn watch(&self) -> MutexGuard<'_, Option<Watch>> {
        self.watch.lock().expect("nothing panics while it holds this lock")
    }

    /// Changes the membership and lets the task look at it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Membership) -> T) -> T {
        let result = change(&mut self.membership());
        self.wake.notify_one();
        result
    }

    /// The user polls.
    pub(super) fn polled(&self) {
        if self.membership().polled(self.runtime.now()) {
            self.wake.notify_one();
        }
    }

    fn cluster(&self) -> &Cluster {
        &self.coordinator.cluster
    }

    /// Says goodbye, for a consumer that ends.
    pub(super) async fn leave(&self, member_id: &str) -> Result<(), ClientError> {
        let timeout = Duration::from_millis(self.config.network.request_timeout_ms);
        let cluster = self.cluster();
        let broker = cluster.coordinator(&self.coordinator.group_id).await?;
        let connection = cluster.connection(broker, crate::cluster::Channel::Coordinator).await?;
        let wrong = |source| ClientError::Connection { broker, source };
        let version = *connection.common_versions::<LeaveGroupRequest>().map_err(wrong)?.end();
        let group_id = self.coordinator.group_id.to_string();
        let request = if version >= SEVERAL_LEAVE {
            let leaving = Leaving {
                member_id: member_id.to_owned(),
                group_instance_id: None,
                reason: Some("the consumer leaves".to_owned()),
            };
            LeaveGroupRequest { group_id, members: vec![leaving], ..LeaveGroupRequest::default() }
        } else {
            LeaveGroupRequest { group_id, member_id: member_id.to_owned(), ..LeaveGroupRequest::default() }
        };
        connection.send_version(version, &request, timeout).await.map_err(wrong).map(|_response| ())
    }
}

/// Runs until it is aborted.
async fn run(group: Arc<Group>) {
    loop {
        let now = group.runtime.now();
        let action = group.membership().next(now);
        match action {
            Action::Wait(due) => {
                group.wait(due).await;
                continue;
            }
            Action::Heartbeat { identity } => group.beat(identity).await,
            Action::Join { attempt } => group.join(attempt).await,
            // The session ends by itself where this is not heard.
            Action::Leave { member_id } => drop(group.leave(&member_id).await),
        }
        group.changed.notify_one();
    }
}

impl Group {
    async fn wait(&self, due: Option<Monotonic>) {
        let version = self.cluster().metadata().version;
        let look_at = self.look_at_topics();
        let due = due.into_iter().chain(look_at).min();
        let slept = async {
            match due {
                Some(due) => self.runtime.sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        if self.membership().callback().is_some() {
            self.changed.notify_one();
        }
        tokio::select! {
            biased;
            () = self.wake.notified() => {}
            () = self.cluster().changed_since(version) => {}
            () = slept => {}
        }
    }

    /// Whoever assigned the partitions sees to it that all are assigned, and new ones too. Gives when to look again.
    fn look_at_topics(&self) -> Option<Monotonic> {
        let watch = self.watch();
        let watch = watch.as_ref()?;
        let now = self.runtime.now();
        if watch.is_outdated(&self.counts(watch.topics()), now) {
            let mut membership = self.membership();
            if membership.is_stable() {
                membership.rejoin();
                drop(membership);
                self.wake.notify_one();
            }
        }
        watch.look_at(now)
    }

    fn counts(&self, topics: &BTreeSet<Arc<str>>) -> PartitionCounts {
        let metadata = self.cluster().metadata();
        topics
            .iter()
            .filter_map(|topic| {
                let known = metadata.topic(topic)?;
                Some((topic.clone(), i32::try_from(known.partitions.len()).ok()?))
            })
            .filter(|(_, partitions)| *partitions > 0)
            .collect()
    }

    async fn beat(&self, identity: MemberIdentity) {
        let request = HeartbeatRequest {
            group_id: self.coordinator.group_id.to_string(),
            generation_id: identity.generation,
            member_id: identity.member_id.clone(),
            group_instance_id: self.config.group_instance_id.clone(),
        };
        // An answer that is late is of no use: the session would end before the next.
        let limit = self.config.network.request_timeout_ms.min(self.config.session_timeout_ms / 3);
        match self.coordinator.ask(&request, Duration::from_millis(limit)).await {
            Ok((broker, response)) => {
                let code = ErrorCode::from(response.error_code);
                self.coordinator.judge(broker, code);
                self.membership().heard(&identity, code);
                if code.is_retriable() {
                    self.membership().heartbeat_failed(self.runtime.now());
                }
            }
            Err(_error) => self.membership().heartbeat_failed(self.runtime.now()),
        }
    }

    /// Joins and syncs, unless it comes to nothing because the membership has gone on.
    async fn join(&self, attempt: u64) {
        let outcome = tokio::select! {
            biased;
            outcome = self.join_and_sync(attempt) => outcome,
            () = self.superseded(attempt) => return,
        };
        let now = self.runtime.now();
        let mut membership = self.membership();
        match outcome {
            Ok(parts) => membership.synced(attempt, parts, now),
            Err(Obstacle::Refused(code, member_id)) => membership.refused(attempt, code, &member_id, now),
            Err(Obstacle::Unanswered(error)) => membership.unanswered(attempt, &error, now),
        }
    }

    /// Ends when an attempt counts for nothing any more.
    async fn superseded(&self, attempt: u64) {
        loop {
            let poll_by = {
                let mut membership = self.membership();
                membership.expire(self.runtime.now());
                if !membership.is_current(attempt) {
                    return;
                }
                membership.poll_by()
            };
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = self.runtime.sleep_until(poll_by) => {}
            }
        }
    }

    async fn join_and_sync(&self, attempt: u64) -> Result<BTreeSet<TopicPartition>, Obstacle> {
        let request = self.join_request()?;
        let limit = Duration::from_millis(self.config.max_poll_interval_ms) + JOIN_SLACK;
        let (broker, joined) = self.coordinator.ask(&request, limit).await?;
        let code = ErrorCode::from(joined.error_code);
        self.coordinator.judge(broker, code);
        if code.is_error() {
            return Err(Obstacle::Refused(code, joined.member_id));
        }
        self.membership().joined(attempt, joined.member_id.clone(), joined.generation_id);
        let assignments = self.assign(&joined).await?;
        let request = SyncGroupRequest {
            group_id: self.coordinator.group_id.to_string(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            group_instance_id: self.config.group_instance_id.clone(),
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: joined.protocol_name.clone(),
            assignments,
        };
        let (broker, synced) = self.coordinator.ask(&request, limit).await?;
        let code = ErrorCode::from(synced.error_code);
        self.coordinator.judge(broker, code);
        if code.is_error() {
            return Err(Obstacle::Refused(code, joined.member_id));
        }
        let assignment = read_assignment(&synced.assignment)?;
        if joined.leader == joined.member_id && joined.skip_assignment {
            self.lead_again(&joined, &assignment.user_data.unwrap_or_default()).await?;
        }
        Ok(from_topics(&assignment.assigned_partitions))
    }

    fn join_request(&self) -> Result<JoinGroupRequest, Obstacle> {
        let membership = self.membership();
        let mut protocols = Vec::new();
        for assignor in &self.config.partition_assignment_strategy {
            let (last, generation) = membership.last_assignment();
            let subscription = ConsumerProtocolSubscription {
                topics: membership.topics().iter().map(ToString::to_string).collect(),
                user_data: assignor.user_data(last, *generation),
                owned_partitions: by_topic(membership.owned()),
                generation_id: membership.generation().unwrap_or(-1),
                rack_id: Some(self.config.client_rack.clone()).filter(|rack| !rack.is_empty()),
            };
            let metadata = encode_versioned(&subscription, PROTOCOL_VERSION).map_err(garbled)?;
            protocols.push(JoinGroupRequestProtocol { name: assignor.name().to_owned(), metadata });
        }
        let millis = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
        Ok(JoinGroupRequest {
            group_id: self.coordinator.group_id.to_string(),
            session_timeout_ms: millis(self.config.session_timeout_ms),
            rebalance_timeout_ms: millis(self.config.max_poll_interval_ms),
            member_id: membership.member_id().to_owned(),
            group_instance_id: self.config.group_instance_id.clone(),
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols,
            reason: None,
        })
    }

    /// What every member gets, where this one leads and is to say so.
    async fn assign(&self, joined: &JoinGroupResponse) -> Result<Vec<SyncGroupRequestAssignment>, Obstacle> {
        *self.watch() = None;
        if joined.leader != joined.member_id || joined.skip_assignment {
            return Ok(Vec::new());
        }
        let name = joined.protocol_name.as_deref().unwrap_or_default();
        let assignor =
            self.config.partition_assignment_strategy.iter().find(|assignor| assignor.name() == name);
        let Some(assignor) = assignor else {
            return Err(Obstacle::Refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL, joined.member_id.clone()));
        };
        let members = members_of(joined)?;
        let topics = topics_of(&members);
        self.learn(&topics).await;
        let counts = self.counts(&topics);
        let assignment = share(&**assignor, &members, &counts);
        let given_by = self.runtime.now() + Duration::from_millis(self.config.session_timeout_ms);
        let watch = Watch::assigned(topics, counts, &assignment, given_by);
        let encoded = encode(&assignment, &joined.member_id, watch.user_data().map_err(garbled)?);
        *self.watch() = Some(watch);
        encoded
    }

    /// Takes up what this member watched when it led under its name before (KIP-814).
    async fn lead_again(&self, joined: &JoinGroupResponse, user_data: &Bytes) -> Result<(), Obstacle> {
        let topics = topics_of(&members_of(joined)?);
        self.learn(&topics).await;
        let counts = self.counts(&topics);
        *self.watch() = Some(Watch::inherited(topics, counts, user_data));
        Ok(())
    }

    /// Learns of topics that other members want, as far as there is anything to learn.
    async fn learn(&self, topics: &BTreeSet<Arc<str>>) {
        let answers = self.cluster().answers();
        let unknown = topics.iter().filter(|topic| self.cluster().add_topic(topic)).count();
        if unknown > 0 {
            let limit = Duration::from_millis(self.config.network.request_timeout_ms);
            // What is not known by then is assigned once it is.
            let _ = self.cluster().newer_than(answers, self.runtime.now() + limit).await;
        }
    }
}

fn share(assignor: &dyn Assignor, members: &Members, counts: &PartitionCounts) -> Assignment {
    let assignment = assignor.assign(members, counts);
    let given: usize = assignment.values().map(BTreeSet::len).sum();
    let different: BTreeSet<&TopicPartition> = assignment.values().flatten().collect();
    assert_eq!(given, different.len(), "{} gives each partition to one member", assignor.name());
    assignment
}

/// Why joining came to nothing.
enum Obstacle {
    /// The coordinator says so; and how it names the member.
    Refused(ErrorCode, String),
    Unanswered(ClientError),
}

impl From<ClientError> for Obstacle {
    fn from(error: ClientError) -> Obstacle {
        match error {
            ClientError::Refused { code, .. } => Obstacle::Refused(code, String::new()),
            error => Obstacle::Unanswered(error),
        }
    }
}

fn garbled(problem: impl std::fmt::Display) -> Obstacle {
    let what = "what the members of the group tell each other".to_owned();
    Obstacle::Unanswered(ClientError::Serialization { what, problem: problem.to_string() })
}

fn by_topic(parts: &BTreeSet<TopicPartition>) -> Vec<ConsumerProtocolTopicPartitions> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for part in parts {
        topics.entry(&part.topic).or_default().push(part.partition);
    }
    topics
        .into_iter()
        .map(|(topic, partitions)| ConsumerProtocolTopicPartitions { topic: topic.to_owned(), partitions })
        .collect()
}

fn from_topics(topics: &[ConsumerProtocolTopicPartitions]) -> BTreeSet<TopicPartition> {
    topics
        .iter()
        .flat_map(|topic| {
            topic.partitions.iter().map(|partition| TopicPartition::new(&topic.topic, *partition))
        })
        .collect()
}

fn read_assignment(assignment: &Bytes) -> Result<ConsumerProtocolAssignment, Obstacle> {
    if assignment.is_empty() {
        return Ok(ConsumerProtocolAssignment::default());
    }
    decode_consumer_protocol(assignment).map_err(garbled)
}

fn members_of(joined: &JoinGroupResponse) -> Result<Members, Obstacle> {
    let mut members = Members::new();
    for member in &joined.members {
        let subscription: ConsumerProtocolSubscription =
            decode_consumer_protocol(&member.metadata).map_err(garbled)?;
        members.insert(
            member.member_id.clone(),
            MemberSubscription {
                topics: subscription.topics.iter().map(|topic| Arc::from(topic.as_str())).collect(),
                user_data: subscription.user_data,
                owned: from_topics(&subscription.owned_partitions),
                generation: Some(subscription.generation_id).filter(|generation| *generation >= 0),
                group_instance_id: member.group_instance_id.clone(),
                rack: subscription.rack_id,
            },
        );
    }
    Ok(members)
}

fn topics_of(members: &Members) -> BTreeSet<Arc<str>> {
    members.values().flat_map(|member| member.topics.iter().cloned()).collect()
}

/// The leader writes to itself what it gave out.
fn encode(
    assignment: &Assignment,
    leader: &str,
    user_data: Bytes,
) -> Result<Vec<SyncGroupRequestAssignment>, Obstacle> {
    let mut encoded = Vec::new();
    for (member_id, parts) in assignment {
        let user_data = (member_id == leader).then(|| user_data.clone());
        let message = ConsumerProtocolAssignment { assigned_partitions: by_topic(parts), user_data };
        let assignment = encode_versioned(&message, PROTOCOL_VERSION).map_err(garbled)?;
        encoded.push(SyncGroupRequestAssignment { member_id: member_id.clone(), assignment });
    }
    Ok(encoded)
}
