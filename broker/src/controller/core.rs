//! The controller's state: the metadata, and of the nodes at the coordinator what is not in it. Owns what a commit does to
//! it; the commands are planned in files of their own.

use super::{
    Command, ControllerError, ControllerSettings, LoadedState, LoadedTopic, Outcome, Plan,
    draft::Draft,
    election::{self, Leads, Standing},
    load,
    note::{Note, Progress},
};
use crate::{
    metadata::{BrokerImage, MetadataDelta, MetadataImage, MetadataPosition, PartitionImage},
    types::{BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition},
};
use sillon_protocol::ErrorCode;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The controller. Plans commands, and learns what was written.
pub struct Controller {
    pub(super) settings: ControllerSettings,
    image: Arc<MetadataImage>,
    /// The topics' nodes, whatever state they are in. What is in the image is not in `states` again.
    records: BTreeMap<Arc<str>, Arc<LoadedTopic>>,
    /// Topics marked for deletion.
    pub(super) deletions: BTreeSet<Arc<str>>,
    /// Topics whose deletion this controller has ended: who still speaks of their marks has read them before that.
    pub(super) deleted: BTreeSet<Arc<str>>,
    /// Versions of the nodes of brokers' configuration.
    pub(super) broker_config_versions: BTreeMap<BrokerId, i32>,
    /// Versions of the nodes of configuration whose topics do not exist.
    pub(super) orphan_configs: BTreeMap<Arc<str>, i32>,
    /// For each broker the registration that was processed last, with the version of its node.
    pub(super) processed: BTreeMap<BrokerId, (BrokerEpoch, i32)>,
    /// Registrations that were seen and wait to be processed. They are not in the image.
    pub(super) waiting: BTreeMap<BrokerId, Arc<BrokerImage>>,
    pub(super) progress: Option<Box<Progress>>,
    leads: Leads,
    /// Partitions that settling would change.
    due: BTreeSet<TopicPartition>,
    /// Partitions whose leader is found by comparing logs.
    pub(super) undecided: BTreeSet<TopicPartition>,
    /// Topics whose nodes are not whole.
    unfinished: BTreeSet<Arc<str>>,
}

impl Controller {
    /// The controller that goes on from what lies at the coordinator.
    pub fn new(loaded: LoadedState, settings: ControllerSettings) -> Controller {
        let image = load::image(&loaded, settings.file.delete_topics);
        let mut controller = Controller {
            settings,
            image: Arc::new(image),
            records: BTreeMap::new(),
            deletions: loaded.deletions.into_iter().collect(),
            deleted: BTreeSet::new(),
            broker_config_versions: loaded
                .broker_configs
                .iter()
                .map(|(broker, (_, version))| (*broker, *version))
                .collect(),
            orphan_configs: loaded.orphan_configs,
            waiting: BTreeMap::new(),
            processed: loaded.processed,
            progress: None,
            leads: Leads::default(),
            due: BTreeSet::new(),
            undecided: BTreeSet::new(),
            unfinished: BTreeSet::new(),
        };
        let registered = loaded.brokers.into_iter();
        controller.waiting =
            registered.filter(|(id, _)| !controller.image.brokers.contains_key(id)).collect();
        for mut topic in loaded.topics {
            let present = controller.present(&topic.name);
            topic.states.retain(|index, _| *index >= present);
            controller.remember_topic(topic.name.clone(), Some(Arc::new(topic)));
        }
        for topic in controller.image.topics.values() {
            for partition in &topic.partitions {
                controller.leads.change(None, partition.leader);
            }
        }
        controller.look_at_all();
        controller
    }

    /// The metadata as it was written last.
    pub fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    /// What the command comes to. Changes nothing.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn plan(&self, command: &Command) -> Result<Plan, ControllerError> {
        match command {
            Command::CreateTopic { .. } => self.create_topic(command),
            Command::DeleteTopic { id } => self.delete_topic(*id),
            Command::CreatePartitions { name, total, assignment, validate_only, .. } => {
                self.create_partitions(name, *total, assignment.as_deref(), *validate_only)
            }
            Command::EditTopicConfigs { name, edits, replace_all, validate_only } => {
                self.edit_topic_configs(name, edits, *replace_all, *validate_only)
            }
            Command::EditBrokerConfigs { broker, edits, replace_all, validate_only } => {
                self.edit_broker_configs(*broker, edits, *replace_all, *validate_only)
            }
            Command::ElectLeaders { kind, partitions } => {
                Ok(self.elect_leaders(command, *kind, partitions.as_deref()))
            }
            Command::Reassign { partitions, allow_replication_factor_change } => {
                self.reassign(command, partitions, *allow_replication_factor_change)
            }
            Command::AlterPartitions { broker, broker_epoch, proposals } => {
                self.alter_partitions(*broker, *broker_epoch, proposals)
            }
            Command::ControlledShutdown { broker, broker_epoch } => {
                self.controlled_shutdown(*broker, *broker_epoch)
            }
            Command::BrokersChanged(brokers) => Ok(self.brokers_changed(brokers)),
            Command::ProcessGone { broker, broker_epoch } => Ok(self.process_gone(*broker, *broker_epoch)),
            Command::TopicsFound(topics) => Ok(self.topics_found(topics)),
            Command::DeletionsFound(names) => Ok(self.deletions_found(names)),
            Command::FinishTopic { name } => Ok(self.finish_one_topic(name)),
            Command::SettlePartitions => Ok(self.settle_partitions()),
            Command::LogsCompared(answers) => Ok(self.logs_compared(answers)),
        }
    }

    /// The plan's writes were made, together, by the transaction `zxid`.
    pub fn commit(&mut self, plan: &Plan, zxid: i64) {
        if plan.writes.is_empty() {
            return;
        }
        let position =
            MetadataPosition { controller_epoch: self.image.position.controller_epoch, version: zxid };
        let image = self.image.after(&plan.deltas, position).expect("a plan's deltas fit its image");
        let before = std::mem::replace(&mut self.image, Arc::new(image));
        self.progress = None;
        for note in &plan.notes {
            self.remember(note);
        }
        let mut all = false;
        for delta in &plan.deltas {
            all |= matches!(
                delta,
                MetadataDelta::Broker { .. }
                    | MetadataDelta::BrokerGone { .. }
                    | MetadataDelta::BrokerConfigs { .. }
            );
            self.count_leaders(&before, delta);
        }
        if all {
            self.look_at_all();
        } else {
            let standing = self.standing();
            plan.deltas.iter().for_each(|delta| self.look_at(&before, delta, &standing));
        }
    }

    /// What the controller has to do by itself now. Empty when all is in order.
    pub fn chores(&self) -> Vec<Command> {
        let mut chores = Vec::new();
        if !self.waiting.is_empty() {
            let mut brokers = self.image.brokers.clone();
            brokers.extend(self.waiting.clone());
            chores.push(Command::BrokersChanged(brokers));
        }
        chores.extend(self.unfinished.iter().map(|name| Command::FinishTopic { name: name.clone() }));
        if !self.due.is_empty() {
            chores.push(Command::SettlePartitions);
        }
        if !self.deletions.is_empty() {
            chores.push(Command::DeletionsFound(self.deletions.iter().cloned().collect()));
        }
        chores
    }

    /// The epoch that it holds office in.
    pub fn controller_epoch(&self) -> ControllerEpoch {
        self.image.position.controller_epoch
    }

    /// The topics that it knows, whatever state they are in.
    pub fn topic_names(&self) -> Vec<String> {
        self.records.keys().map(|name| name.to_string()).collect()
    }

    /// Whether the node of a topic that it knows has a later version than it knows of: somebody else wrote to it.
    pub fn is_newer(&self, name: &str, version: i32) -> bool {
        self.records.get(name).is_some_and(|record| version > record.node.1)
    }

    pub(super) fn leads(&self) -> &Leads {
        &self.leads
    }

    pub(super) fn record(&self, name: &str) -> Option<&Arc<LoadedTopic>> {
        self.records.get(name)
    }

    pub(super) fn unfinished(&self) -> &BTreeSet<Arc<str>> {
        &self.unfinished
    }

    /// How many of a topic's partitions are in the image.
    pub(super) fn present(&self, name: &str) -> i32 {
        let count = self.image.topic(name).map_or(0, |topic| topic.partitions.len());
        i32::try_from(count).expect("a topic has fewer than 2^31 partitions")
    }

    fn standing(&self) -> Standing {
        Standing { brokers: self.image.brokers.clone(), ..Standing::default() }
    }

    fn settle_partitions(&self) -> Plan {
        let mut draft = Draft::new(self);
        // Settled in their order; each election counts what those before it have changed.
        for partition in &self.due {
            if !draft.has_room() {
                return draft.finish(Outcome::Done, true);
            }
            let topic = self.image.topic(&partition.topic).expect("what is due is in the image");
            let rules = self.settings.rules(&self.image, &topic.configs);
            draft.settle(&partition.topic, topic, partition.partition, rules);
        }
        draft.finish(Outcome::Done, false)
    }

    fn remember(&mut self, note: &Note) {
        match note {
            Note::Record(name, record) => self.remember_topic(name.clone(), record.clone()),
            Note::Deletion(name, true) => {
                self.deletions.insert(name.clone());
                self.remember_topic(name.clone(), self.records.get(name).cloned());
            }
            Note::Deletion(name, false) => {
                self.deletions.remove(name);
                self.deleted.insert(name.clone());
            }
            Note::BrokerConfig(broker, version) => {
                self.broker_config_versions.insert(*broker, *version);
            }
            Note::Processed(broker, epoch, version) => {
                self.processed.insert(*broker, (*epoch, *version));
            }
            Note::Waiting(brokers) => self.waiting.clone_from(brokers),
            Note::Progress(progress) => self.progress = Some(progress.clone()),
        }
    }

    fn remember_topic(&mut self, name: Arc<str>, record: Option<Arc<LoadedTopic>>) {
        self.orphan_configs.remove(&name);
        let Some(record) = record else {
            self.records.remove(&name);
            self.unfinished.remove(&name);
            return;
        };
        let wanted = record.node.0.replicas.len();
        let whole = self.present(&name) as usize == wanted && record.node.0.id.is_some();
        let goes = self.settings.file.delete_topics && self.deletions.contains(&name);
        if whole || !load::is_sound(&record) || goes {
            self.unfinished.remove(&name);
        } else {
            self.unfinished.insert(name.clone());
        }
        self.records.insert(name, record);
    }

    fn count_leaders(&mut self, before: &MetadataImage, delta: &MetadataDelta) {
        let mut change = |before: &[PartitionImage], after: &[PartitionImage]| {
            before.iter().for_each(|partition| self.leads.change(partition.leader, None));
            after.iter().for_each(|partition| self.leads.change(None, partition.leader));
        };
        match delta {
            MetadataDelta::Topic { name, topic } => {
                change(before.topic(name).map_or(&[], |topic| &topic.partitions), &topic.partitions);
            }
            MetadataDelta::TopicGone { id } => {
                change(before.topic_by_id(*id).map_or(&[], |(_, topic)| &topic.partitions), &[]);
            }
            MetadataDelta::Partitions { id, partitions } => {
                let topic = before.topic_by_id(*id).map(|(_, topic)| topic);
                for (index, after) in partitions {
                    let known = topic.and_then(|topic| topic.partition(*index));
                    change(known.map_or(&[], std::slice::from_ref), std::slice::from_ref(after));
                }
            }
            _ => {}
        }
    }

    /// Finds out what is due among all partitions.
    fn look_at_all(&mut self) {
        self.due.clear();
        self.undecided.clear();
        let standing = self.standing();
        let image = self.image.clone();
        for (name, topic) in &image.topics {
            for index in 0..topic.partitions.len() {
                self.look_at_one(name, i32::try_from(index).expect("bounded at creation"), &standing);
            }
        }
    }

    /// Finds out what is due among the partitions that a delta speaks of.
    fn look_at(&mut self, before: &MetadataImage, delta: &MetadataDelta, standing: &Standing) {
        match delta {
            MetadataDelta::Topic { name, .. } => {
                (0..self.present(name)).for_each(|index| self.look_at_one(name, index, standing));
            }
            MetadataDelta::TopicConfigs { id, .. } => {
                if let Some(name) = self.image.topic_by_id(*id).map(|(name, _)| name.clone()) {
                    (0..self.present(&name)).for_each(|index| self.look_at_one(&name, index, standing));
                }
            }
            MetadataDelta::Partitions { id, partitions } => {
                if let Some(name) = self.image.topic_by_id(*id).map(|(name, _)| name.clone()) {
                    partitions.iter().for_each(|(index, _)| self.look_at_one(&name, *index, standing));
                }
            }
            MetadataDelta::TopicGone { id } => {
                if let Some((name, topic)) = before.topic_by_id(*id) {
                    for index in 0..topic.partitions.len() {
                        let partition = i32::try_from(index).expect("bounded at creation");
                        let key = TopicPartition { topic: name.clone(), partition };
                        self.due.remove(&key);
                        self.undecided.remove(&key);
                    }
                }
            }
            _ => {}
        }
    }

    fn look_at_one(&mut self, name: &Arc<str>, index: i32, standing: &Standing) {
        let topic = self.image.topic(name).expect("the caller knows the topic");
        let state = topic.partition(index).expect("the caller knows the partition");
        let key = TopicPartition { topic: name.clone(), partition: index };
        let changes = !election::is_in_order(state, standing) && {
            let rules = self.settings.rules(&self.image, &topic.configs);
            election::settle(state, standing, rules, &self.leads) != *state
        };
        if election::is_to_be_compared(state, standing) {
            self.undecided.insert(key.clone());
        } else {
            self.undecided.remove(&key);
        }
        if changes {
            self.due.insert(key);
        } else {
            self.due.remove(&key);
        }
    }
}

/// A refusal because a topic does not exist.
pub(super) fn unknown_topic(name: &str) -> ControllerError {
    let message = format!("Topic '{name}' does not exist.");
    ControllerError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message)
}
