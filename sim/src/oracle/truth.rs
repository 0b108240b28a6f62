//! The true state of the cluster: what the coordinator's members have applied to the nodes that Kafka's layout names.
//! Owns a small tree of those nodes; judges nothing. Where no member tells anything (a coordinator inside a broker), the
//! state of partitions is what leaders learnt of it.

use super::coordinator::{Operation, TreeCreate};
use sillon_broker::{
    controller::layout::{self, TopicNode},
    types::{TopicId, TopicPartition},
};
use sillon_coordinator::{
    command::{Action, Command},
    observe::Observation as MemberObservation,
};
use sillon_protocol::zookeeper::CreateMode;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes that matter are below these.
const PREFIXES: [&str; 4] = ["/controller", "/brokers/", "/admin/delete_topics/", "/sillon/registrations/"];

#[derive(Clone, Debug)]
struct TreeNode {
    version: i32,
    /// The session that it goes with; 0 for none.
    owner: i64,
    data: Vec<u8>,
}

/// A partition's true state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrueState {
    pub leader: Option<u32>,
    pub leader_epoch: i32,
    pub isr: Vec<u32>,
    pub eligible: Vec<u32>,
    pub controller_epoch: i32,
    pub version: i32,
    /// The write that made it so; 0 where that is not known.
    pub zxid: i64,
    pub since_ns: u64,
}

/// A broker's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub broker_epoch: i64,
    pub session: i64,
    pub since_ns: u64,
    pub unclean: bool,
}

/// A write of a partition's state.
#[derive(Clone, Debug)]
pub(super) struct StateWrite {
    pub partition: TopicPartition,
    pub old: Option<TrueState>,
    pub new: TrueState,
    /// The version that the write was conditional on; none where it creates the node.
    pub condition: Option<i32>,
    /// The version of the controller epoch's node that the same transaction checked.
    pub checked_epoch_version: Option<i32>,
}

/// What a transaction did.
#[derive(Clone, Debug)]
pub(super) enum Change {
    State(Box<StateWrite>),
    Unregistered {
        node: u32,
    },
    ControllerEpoch {
        epoch: i32,
    },
    /// A node holds what it should not.
    Unreadable {
        text: String,
    },
}

/// The true state.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Members of the coordinator tell what they apply.
    pub fed: bool,
    last_zxid: i64,
    tree: BTreeMap<String, TreeNode>,
    pub states: BTreeMap<TopicPartition, TrueState>,
    /// Who the true leader was in each epoch.
    pub leaders: BTreeMap<(TopicPartition, i32), u32>,
    pub replicas: BTreeMap<TopicPartition, Vec<u32>>,
    pub topics: BTreeMap<String, TopicId>,
    pub registrations: BTreeMap<u32, Registration>,
    pub controller: Option<u32>,
    pub controller_epoch: i32,
    pub controller_epoch_version: i32,
    /// The last write of a state or a registration: its zxid and time.
    pub last_change: (i64, u64),
}

impl Truth {
    /// A member applied something: what that did, where nobody has told of it before.
    pub fn on_member(&mut self, now_ns: u64, observation: &MemberObservation<'_>) -> Vec<Change> {
        let MemberObservation::Applied { zxid, command, changed, .. } = observation else {
            return Vec::new();
        };
        self.fed = true;
        if zxid.0 <= self.last_zxid {
            return Vec::new();
        }
        self.last_zxid = zxid.0;
        match command {
            Some(command) if *changed || !matches!(command.action, Action::Write { .. }) => {
                self.apply(now_ns, zxid.0, command)
            }
            _ => Vec::new(),
        }
    }

    fn apply(&mut self, now_ns: u64, zxid: i64, command: &Command) -> Vec<Change> {
        let mut changes = Vec::new();
        match &command.action {
            Action::Write { session, operation, body, .. } => {
                let Some(operation) = Operation::decode(*operation, body) else { return changes };
                let operations = match operation {
                    Operation::Multi(operations) => operations,
                    one => vec![one],
                };
                let checked = operations.iter().find_map(|operation| match operation {
                    Operation::Check { path, version } if path == layout::CONTROLLER_EPOCH => Some(*version),
                    _ => None,
                });
                for operation in operations {
                    self.write((now_ns, zxid), session.0, operation, checked, &mut changes);
                }
            }
            Action::CloseSession { session, .. } | Action::ExpireSession { session } => {
                let owned = self.tree.iter().filter(|(_, node)| node.owner == session.0);
                let paths: Vec<String> = owned.map(|(path, _)| path.clone()).collect();
                for path in paths {
                    self.removed((now_ns, zxid), &path, &mut changes);
                }
            }
            Action::Sweep { path, .. } => self.removed((now_ns, zxid), path, &mut changes),
            _ => {}
        }
        changes
    }

    fn write(
        &mut self,
        at: (u64, i64),
        session: i64,
        operation: Operation,
        checked: Option<i32>,
        changes: &mut Vec<Change>,
    ) {
        match operation {
            Operation::Create(TreeCreate { path, data, flags, .. }) => {
                let mode = CreateMode::from_number(flags);
                let sequential = mode.is_none_or(CreateMode::is_sequential);
                if sequential || !is_of_interest(&path) {
                    return;
                }
                let owner = if mode.is_some_and(CreateMode::is_ephemeral) { session } else { 0 };
                let data = data.unwrap_or_default();
                self.tree.insert(path.clone(), TreeNode { version: 0, owner, data });
                self.written(at, &path, None, checked, changes);
            }
            Operation::SetData { path, data, version } => {
                let Some(node) = self.tree.get_mut(&path) else { return };
                node.version = node.version.wrapping_add(1);
                node.data = data.unwrap_or_default();
                self.written(at, &path, Some(version), checked, changes);
            }
            Operation::Delete { path, .. } => self.removed(at, &path, changes),
            _ => {}
        }
    }

    /// A node has a new content.
    fn written(
        &mut self,
        (now_ns, zxid): (u64, i64),
        path: &str,
        condition: Option<i32>,
        checked: Option<i32>,
        changes: &mut Vec<Change>,
    ) {
        let TreeNode { version, owner, data } = self.tree[path].clone();
        if path == layout::CONTROLLER_EPOCH {
            let Some(epoch) = std::str::from_utf8(&data).ok().and_then(|text| text.trim().parse().ok())
            else {
                return changes.push(Change::Unreadable { text: format!("{path} holds {data:?}") });
            };
            (self.controller_epoch, self.controller_epoch_version) = (epoch, version);
            // The node is made before there was any controller.
            if version > 0 {
                changes.push(Change::ControllerEpoch { epoch });
            }
        } else if path == layout::CONTROLLER {
            match layout::decode_controller(&data) {
                Ok(broker) => self.controller = u32::try_from(broker.0).ok(),
                Err(error) => changes.push(Change::Unreadable { text: error.to_string() }),
            }
        } else if let Some(node) = broker_of(path) {
            match layout::decode_broker(path, &data, zxid) {
                Ok(broker) => {
                    let registration = Registration {
                        broker_epoch: broker.broker_epoch.0,
                        session: owner,
                        since_ns: now_ns,
                        unclean: broker.unclean,
                    };
                    self.registrations.insert(node, registration);
                    self.last_change = (zxid, now_ns);
                }
                Err(error) => changes.push(Change::Unreadable { text: error.to_string() }),
            }
        } else if let Some(name) = topic_of(path) {
            match TopicNode::decode(path, &data) {
                Ok(topic) => self.topic_written(name, &topic),
                Err(error) => changes.push(Change::Unreadable { text: error.to_string() }),
            }
        } else if let Some(partition) = partition_of(path) {
            self.state_written((now_ns, zxid), path, partition, (version, condition, checked), changes);
        }
    }

    /// Whether the name stands for another topic now, or for none, as far as members of the coordinator tell.
    pub fn is_over(&self, name: &TopicPartition, topic_id: TopicId) -> bool {
        self.fed && self.topics.get(&*name.topic) != Some(&topic_id)
    }

    fn topic_written(&mut self, name: &str, topic: &TopicNode) {
        for (partition, replicas) in &topic.replicas {
            let nodes = replicas.iter().filter_map(|broker| u32::try_from(broker.0).ok()).collect();
            self.replicas.insert(TopicPartition::new(name, *partition), nodes);
        }
        if let Some(id) = topic.id {
            self.topics.insert(name.to_owned(), id);
        }
    }

    fn state_written(
        &mut self,
        (now_ns, zxid): (u64, i64),
        path: &str,
        partition: TopicPartition,
        (version, condition, checked): (i32, Option<i32>, Option<i32>),
        changes: &mut Vec<Change>,
    ) {
        let (state, controller_epoch) = match layout::decode_state(path, &self.tree[path].data, version) {
            Ok(state) => state,
            Err(error) => return changes.push(Change::Unreadable { text: error.to_string() }),
        };
        let nodes = |brokers: &[sillon_broker::types::BrokerId]| -> Vec<u32> {
            brokers.iter().filter_map(|broker| u32::try_from(broker.0).ok()).collect()
        };
        let new = TrueState {
            leader: state.leader.and_then(|leader| u32::try_from(leader.0).ok()),
            leader_epoch: state.leader_epoch.0,
            isr: nodes(&state.isr),
            eligible: nodes(&state.eligible_leader_replicas),
            controller_epoch: controller_epoch.0,
            version,
            zxid,
            since_ns: now_ns,
        };
        if let Some(leader) = new.leader {
            self.leaders.entry((partition.clone(), new.leader_epoch)).or_insert(leader);
        }
        self.last_change = (zxid, now_ns);
        let old = self.states.insert(partition.clone(), new.clone());
        let write = StateWrite { partition, old, new, condition, checked_epoch_version: checked };
        changes.push(Change::State(Box::new(write)));
    }

    fn removed(&mut self, (now_ns, zxid): (u64, i64), path: &str, changes: &mut Vec<Change>) {
        if self.tree.remove(path).is_none() {
            return;
        }
        if path == layout::CONTROLLER {
            self.controller = None;
        } else if let Some(node) = broker_of(path) {
            self.registrations.remove(&node);
            self.last_change = (zxid, now_ns);
            changes.push(Change::Unregistered { node });
        } else if let Some(name) = topic_of(path) {
            self.topics.remove(name);
            self.replicas.retain(|partition, _| *partition.topic != *name);
        } else if let Some(partition) = partition_of(path) {
            self.states.remove(&partition);
            self.leaders.retain(|(of, _), _| *of != partition);
        }
    }

    /// A leader learnt a partition's state. Counts only where the coordinator itself tells nothing.
    pub fn learn(
        &mut self,
        now_ns: u64,
        name: &TopicPartition,
        (node, leader_epoch): (u32, i32),
        version: i32,
        isr: &[u32],
    ) {
        let is_news = self
            .states
            .get(name)
            .is_none_or(|known| (known.leader_epoch, known.version) < (leader_epoch, version));
        if self.fed || !is_news {
            return;
        }
        let isr = if isr.is_empty() { vec![node] } else { isr.to_vec() };
        let state = TrueState {
            leader: Some(node),
            leader_epoch,
            isr,
            version,
            since_ns: now_ns,
            ..TrueState::default()
        };
        self.states.insert(name.clone(), state);
    }

    /// The members of a partition's true ISR.
    pub fn isr(&self, name: &TopicPartition) -> BTreeSet<u32> {
        self.states.get(name).map(|state| state.isr.iter().copied().collect()).unwrap_or_default()
    }
}

fn is_of_interest(path: &str) -> bool {
    PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

fn broker_of(path: &str) -> Option<u32> {
    path.strip_prefix(layout::BROKER_IDS)?.strip_prefix('/')?.parse().ok()
}

fn topic_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix(layout::TOPICS)?.strip_prefix('/')?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

fn partition_of(path: &str) -> Option<TopicPartition> {
    let rest = path.strip_prefix(layout::TOPICS)?.strip_prefix('/')?;
    let (topic, rest) = rest.split_once("/partitions/")?;
    let number = rest.strip_suffix("/state")?;
    Some(TopicPartition::new(topic, number.parse().ok()?))
}
