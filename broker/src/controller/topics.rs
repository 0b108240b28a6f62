//! CreateTopics; topics that somebody else wrote; and how a topic's nodes are made whole, in parts where they are many.
//!
//! A topic comes into the image when its last node is written. A controller that takes over finishes what it finds.

use super::{
    Command, ControllerError, LoadedTopic, Outcome, Plan, Write,
    configs::check_new_topic_configs,
    core::Controller,
    draft::{Draft, assert_sound},
    layout::{self, TopicNode},
    load,
    note::Note,
    placement::{self, Start},
};
use crate::{
    metadata::{MetadataDelta, PartitionImage, TopicImage, names},
    types::{BrokerId, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition},
};
use sillon_protocol::ErrorCode;
use std::{collections::BTreeMap, sync::Arc};

/// More partitions than this in one topic are refused: each takes files and memory.
pub(super) const MAX_PARTITIONS: i32 = 100_000;
/// A topic's node is no larger: it must fit one request to the coordinator together with other writes.
const NODE_BYTES_AT_MOST: usize = 768 << 10;

fn refuse<T>(code: ErrorCode, text: impl Into<String>) -> Result<T, ControllerError> {
    Err(ControllerError::new(code, text))
}

impl Controller {
    pub(super) fn create_topic(&self, command: &Command) -> Result<Plan, ControllerError> {
        let Command::CreateTopic { name, id, configs, validate_only, .. } = command else {
            unreachable!("the caller matched the command");
        };
        if let Some(record) = self.record(name).filter(|record| record.node.0.id == Some(*id)) {
            return Ok(self.go_on_creating(name, record));
        }
        self.check_new_name(name)?;
        let assignment = self.new_assignment(command)?;
        let configs = check_new_topic_configs(configs, assignment.first().map_or(0, Vec::len))?;
        let outcome =
            Outcome::TopicCreated { id: *id, assignment: assignment.clone(), configs: configs.clone() };
        let node =
            TopicNode { id: Some(*id), replicas: (0..).zip(assignment).collect(), ..TopicNode::default() };
        let data = check_size(&node)?;
        let mut draft = Draft::new(self);
        if *validate_only {
            return Ok(draft.finish(outcome, false));
        }
        let (path, content) = (layout::topic_config_path(name), layout::encode_configs(&configs));
        let orphan = self.orphan_configs.get(name).copied();
        draft.writes.push(match orphan {
            Some(version) => Write::Set { path, data: content, version },
            None => Write::Create { path, data: content },
        });
        draft.writes.push(Write::Create { path: layout::topic_path(name), data });
        let record = LoadedTopic {
            name: name.clone(),
            node: (node, 0),
            configs: Some((configs, orphan.map_or(0, |version| version + 1))),
            has_partitions: false,
            states: BTreeMap::new(),
            fresh_id: *id,
        };
        let whole = self.finish_topic(&mut draft, record);
        Ok(draft.finish(outcome, !whole))
    }

    fn go_on_creating(&self, name: &Arc<str>, record: &LoadedTopic) -> Plan {
        let mut draft = Draft::new(self);
        let outcome = Outcome::TopicCreated {
            id: record.node.0.id.expect("the caller compared it"),
            assignment: record.node.0.replicas.values().cloned().collect(),
            configs: record.configs.as_ref().map_or_else(BTreeMap::new, |(configs, _)| configs.clone()),
        };
        let whole = !self.unfinished().contains(name) || self.finish_topic(&mut draft, record.clone());
        draft.finish(outcome, !whole)
    }

    fn check_new_name(&self, name: &Arc<str>) -> Result<(), ControllerError> {
        if let Err(text) = names::check_topic_name(name) {
            return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, text);
        }
        if self.deletions.contains(name) {
            let text = format!("Topic '{name}' is marked for deletion.");
            return refuse(ErrorCode::TOPIC_ALREADY_EXISTS, text);
        }
        if self.record(name).is_some() {
            return refuse(ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{name}' already exists."));
        }
        if name.contains(['.', '_'])
            && let Some(other) = self.image().topics.keys().find(|other| names::collide(other, name))
        {
            let text = format!("Topic '{name}' collides with existing topics: {other}");
            return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, text);
        }
        Ok(())
    }

    fn new_assignment(&self, command: &Command) -> Result<Vec<Vec<BrokerId>>, ControllerError> {
        let Command::CreateTopic { partitions, replication_factor, assignment, placement_seed, .. } = command
        else {
            unreachable!("the caller matched the command");
        };
        let brokers = &self.image().brokers;
        if let Some(assignment) = assignment {
            if partitions.is_some() || replication_factor.is_some() {
                let text = "Both numPartitions or replicationFactor and replicasAssignments were set.";
                return refuse(ErrorCode::INVALID_REQUEST, text);
            }
            check_count(i64::try_from(assignment.len()).unwrap_or(i64::MAX))?;
            placement::check_assignment(brokers, assignment, None, 0)?;
            return Ok(assignment.clone());
        }
        let partitions = partitions.unwrap_or(self.settings.file.default_partitions);
        check_count(i64::from(partitions))?;
        let factor = replication_factor.unwrap_or(self.settings.file.default_replication_factor);
        let Some(factor) = usize::try_from(factor).ok().filter(|factor| *factor > 0) else {
            let text = "Replication factor must be larger than 0.";
            return refuse(ErrorCode::INVALID_REPLICATION_FACTOR, text);
        };
        let start = Start::of_seed(*placement_seed, brokers.len());
        placement::place(brokers, usize::try_from(partitions).expect("checked above"), factor, start)
    }

    /// Topics that somebody else wrote: those that are new get what they lack, and those that have grown their new partitions.
    pub(super) fn topics_found(&self, topics: &[LoadedTopic]) -> Plan {
        let mut draft = Draft::new(self);
        for topic in topics {
            if self.deletions.contains(&topic.name) || !load::is_sound(topic) {
                continue;
            }
            let topic = match self.record(&topic.name) {
                Some(record) => match grown(record, topic) {
                    Some(grown) => grown,
                    None => continue,
                },
                None => topic.clone(),
            };
            if !self.finish_topic(&mut draft, topic) {
                return draft.finish(Outcome::Done, true);
            }
        }
        draft.finish(Outcome::Done, false)
    }

    pub(super) fn finish_one_topic(&self, name: &Arc<str>) -> Plan {
        let mut draft = Draft::new(self);
        let whole = match self.record(name).filter(|_| self.unfinished().contains(name)) {
            Some(record) => self.finish_topic(&mut draft, record.as_ref().clone()),
            None => true,
        };
        draft.finish(Outcome::Done, !whole)
    }

    /// Writes the nodes that a topic lacks, as far as they fit. Gives whether it is whole then. The record is that of a
    /// sound topic; its own node exists, or is among the draft's writes.
    pub(super) fn finish_topic(&self, draft: &mut Draft<'_>, mut record: LoadedTopic) -> bool {
        let name = record.name.clone();
        // Its node, the one above the partitions, and one partition must fit, or nothing is begun.
        if draft.room() < 5 {
            return false;
        }
        let written = draft.writes.len();
        if record.node.0.id.is_none() {
            record.node.0.id = Some(record.fresh_id);
            draft.writes.push(Write::Set {
                path: layout::topic_path(&name),
                data: record.node.0.encode(),
                version: record.node.1,
            });
            record.node.1 += 1;
        }
        if !record.has_partitions {
            let path = layout::partitions_path(&name);
            draft.writes.push(Write::Create { path, data: Vec::new() });
            record.has_partitions = true;
        }
        let whole = self.finish_partitions(draft, &mut record);
        if whole {
            if draft.writes.len() == written {
                // Somebody wrote all of it. The same content again gives it its place in the order of the writes.
                let (path, data) = (layout::topic_path(&name), record.node.0.encode());
                draft.writes.push(Write::Set { path, data, version: record.node.1 });
                record.node.1 += 1;
            }
            draft.deltas.extend(self.whole_topic(&record, self.present(&name)));
            let replicas = &record.node.0.replicas;
            record.states.retain(|index, _| !replicas.contains_key(index));
        }
        draft.notes.push(Note::Record(name, Some(Arc::new(record))));
        whole
    }

    /// Writes the states that a topic lacks, as far as they fit. Gives whether it lacks none then.
    fn finish_partitions(&self, draft: &mut Draft<'_>, record: &mut LoadedTopic) -> bool {
        for (index, replicas) in record.node.0.replicas.range(self.present(&record.name)..) {
            let known = record.states.get(index).cloned();
            if let Some(Some(state)) = &known
                && state.replicas == *replicas
            {
                continue;
            }
            if draft.room() < 3 {
                return false;
            }
            let partition = TopicPartition { topic: record.name.clone(), partition: *index };
            let mut state = new_partition(draft, &record.node.0, *index, replicas);
            let path = layout::state_path(&partition);
            if let Some(Some(old)) = known {
                // What is left there is of no use, but its epochs are counted on.
                let version = old.partition_epoch.0;
                state.leader_epoch = LeaderEpoch(old.leader_epoch.0.wrapping_add(1).max(0));
                state.partition_epoch = PartitionEpoch(version.wrapping_add(1));
                let data = layout::encode_state(&state, self.controller_epoch());
                draft.writes.push(Write::Set { path, data, version });
            } else {
                if known.is_none() {
                    let path = layout::partition_path(&partition);
                    draft.writes.push(Write::Create { path, data: Vec::new() });
                }
                let data = layout::encode_state(&state, self.controller_epoch());
                draft.writes.push(Write::Create { path, data });
            }
            assert_sound(&record.name, *index, None, &state);
            state.isr.iter().for_each(|member| draft.count_on(*member));
            record.states.insert(*index, Some(state));
        }
        true
    }

    fn whole_topic(&self, record: &LoadedTopic, present: i32) -> Option<MetadataDelta> {
        let id: TopicId = record.node.0.id.expect("it was given one");
        let states =
            record.states.range(present..).filter_map(|(index, state)| Some((*index, state.clone()?)));
        let states: Vec<(i32, PartitionImage)> =
            states.filter(|(index, _)| record.node.0.replicas.contains_key(index)).collect();
        if present > 0 {
            return (!states.is_empty()).then_some(MetadataDelta::Partitions { id, partitions: states });
        }
        let configs = record.configs.as_ref().map_or_else(BTreeMap::new, |(configs, _)| configs.clone());
        let partitions = states.into_iter().map(|(_, state)| state).collect();
        let topic = Arc::new(TopicImage { id, partitions, configs });
        Some(MetadataDelta::Topic { name: record.name.clone(), topic })
    }
}

/// The topic as it is known, with the partitions that somebody has added to its node since. None where that is not what
/// has happened to it: partitions that exist are moved by reassignment only.
fn grown(record: &LoadedTopic, found: &LoadedTopic) -> Option<LoadedTopic> {
    let (known, seen) = (&record.node.0, &found.node.0);
    let is_newer = found.node.1 > record.node.1 && seen.id.is_none_or(|id| known.id == Some(id));
    let has_all = known.replicas.iter().all(|(index, replicas)| seen.replicas.get(index) == Some(replicas));
    if !is_newer || !has_all || seen.replicas.len() == known.replicas.len() {
        return None;
    }
    let mut grown = record.clone();
    grown.node.0.replicas.clone_from(&seen.replicas);
    grown.node.1 = found.node.1;
    Some(grown)
}

/// A partition that nobody has written to: each replica that is there is in sync, and the first of them leads. Where none
/// is there, each of them holds all that was committed, which is nothing.
fn new_partition(draft: &Draft<'_>, node: &TopicNode, index: i32, replicas: &[BrokerId]) -> PartitionImage {
    let isr: Vec<BrokerId> =
        replicas.iter().copied().filter(|replica| draft.standing.may_lead(*replica)).collect();
    let eligible_leader_replicas = if isr.is_empty() { replicas.to_vec() } else { Vec::new() };
    let some = |map: &BTreeMap<i32, Vec<BrokerId>>| -> Vec<BrokerId> {
        let listed = map.get(&index).into_iter().flatten().copied();
        listed.filter(|replica| replicas.contains(replica)).collect()
    };
    let mut state = PartitionImage {
        leader: isr.first().copied(),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(0),
        replicas: replicas.to_vec(),
        adding: some(&node.adding),
        removing: some(&node.removing),
        isr,
        eligible_leader_replicas,
        last_known_leader: None,
        unproven: Vec::new(),
    };
    if state.removing.len() == replicas.len() {
        state.removing = Vec::new();
    }
    state
}

fn check_count(partitions: i64) -> Result<(), ControllerError> {
    if partitions <= 0 {
        return refuse(ErrorCode::INVALID_PARTITIONS, "Number of partitions must be larger than 0.");
    }
    if partitions > i64::from(MAX_PARTITIONS) {
        let text = format!("Number of partitions must not be larger than {MAX_PARTITIONS}.");
        return refuse(ErrorCode::INVALID_PARTITIONS, text);
    }
    Ok(())
}

/// The content of a topic's node.
///
/// # Errors
/// INVALID_PARTITIONS where it is too large for the coordinator.
pub(super) fn check_size(node: &TopicNode) -> Result<Vec<u8>, ControllerError> {
    let data = node.encode();
    if data.len() > NODE_BYTES_AT_MOST {
        let text = "The topic has too many partitions and replicas: the coordinator cannot hold their list.";
        return refuse(ErrorCode::INVALID_PARTITIONS, text);
    }
    Ok(data)
}
