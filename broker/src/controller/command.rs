//! What the controller is asked to do, and what it answers. Owns the words, and no behaviour.

use crate::{
    metadata::{BrokerImage, PartitionImage},
    types::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition},
};
use sillon_protocol::ErrorCode;
use std::{collections::BTreeMap, sync::Arc};

/// A command. Clients' commands come through request handlers, those of brokers through AlterPartition and
/// ControlledShutdown, the rest from what the controller's shell sees at the coordinator.
///
/// A command is idempotent as far as it can be: one that was carried out in part is given again.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// CreateTopics, for one topic.
    CreateTopic {
        /// Its name.
        name: Arc<str>,
        /// The id it is to have: random, made by the caller.
        id: TopicId,
        /// How many partitions; none for `num.partitions`. Must be none with `assignment`.
        partitions: Option<i32>,
        /// How many replicas each; none for `default.replication.factor`. Must be none with `assignment`.
        replication_factor: Option<i16>,
        /// For each partition its replicas, the preferred leader first; none to let the controller place them.
        assignment: Option<Vec<Vec<BrokerId>>>,
        /// Its own configuration; a key without a value is refused as Kafka does.
        configs: Vec<(String, Option<String>)>,
        /// Only say whether it would work.
        validate_only: bool,
        /// Decides where placement starts, so that not every topic begins on the same broker. Random, by the caller.
        placement_seed: u64,
    },
    /// DeleteTopics, for one topic.
    DeleteTopic {
        /// Its id.
        id: TopicId,
    },
    /// CreatePartitions, for one topic.
    CreatePartitions {
        /// The topic.
        name: Arc<str>,
        /// How many there are to be in the end.
        total: i32,
        /// For each new partition its replicas; none to let the controller place them.
        assignment: Option<Vec<Vec<BrokerId>>>,
        /// Only say whether it would work.
        validate_only: bool,
        /// As in `CreateTopic`.
        placement_seed: u64,
    },
    /// AlterConfigs and IncrementalAlterConfigs, for one topic.
    EditTopicConfigs {
        /// The topic.
        name: Arc<str>,
        /// What to change.
        edits: Vec<ConfigEdit>,
        /// Whether everything that is not named goes back to its default (AlterConfigs).
        replace_all: bool,
        /// Only say whether it would work.
        validate_only: bool,
    },
    /// AlterConfigs and IncrementalAlterConfigs, for a broker or for all ([`crate::metadata::image::ALL_BROKERS`]).
    EditBrokerConfigs {
        /// The broker.
        broker: BrokerId,
        /// What to change.
        edits: Vec<ConfigEdit>,
        /// Whether everything that is not named goes back to its default (AlterConfigs).
        replace_all: bool,
        /// Only say whether it would work.
        validate_only: bool,
    },
    /// ElectLeaders.
    ElectLeaders {
        /// Which election.
        kind: ElectionKind,
        /// For which partitions; none for all.
        partitions: Option<Vec<TopicPartition>>,
    },
    /// AlterPartitionReassignments: for each partition the replicas it is to have, or none to take a reassignment that
    /// is under way back.
    Reassign {
        /// The partitions.
        partitions: Vec<(TopicPartition, Option<Vec<BrokerId>>)>,
        /// Whether the number of replicas may change (KIP-860).
        allow_replication_factor_change: bool,
    },
    /// AlterPartition: a leader proposes in-sync replicas (KIP-497, KIP-903).
    AlterPartitions {
        /// The leader.
        broker: BrokerId,
        /// Its registration.
        broker_epoch: BrokerEpoch,
        /// What it proposes.
        proposals: Vec<IsrProposal>,
    },
    /// ControlledShutdown: a broker wants to stop; it is to lead nothing and be in sync nowhere, as far as others can.
    ControlledShutdown {
        /// The broker.
        broker: BrokerId,
        /// Its registration.
        broker_epoch: BrokerEpoch,
    },
    /// The registered brokers, all of them, as they are at the coordinator.
    BrokersChanged(BTreeMap<BrokerId, Arc<BrokerImage>>),
    /// A broker's process is proven to be gone: nobody listens on its port. Its registration is removed.
    ProcessGone {
        /// The broker.
        broker: BrokerId,
        /// The registration that the proof is about.
        broker_epoch: BrokerEpoch,
    },
    /// Topics that somebody wrote at the coordinator (Kafka's tools with `--zookeeper`), and that are not known here.
    TopicsFound(Vec<super::LoadedTopic>),
    /// Topics that somebody asked to delete at the coordinator (`/admin/delete_topics`), as it is there now; also the
    /// controller's own chore for deletions that are not over.
    DeletionsFound(Vec<Arc<str>>),
    /// A chore: a topic that is not whole at the coordinator gets its partitions' nodes.
    FinishTopic {
        /// The topic.
        name: Arc<str>,
    },
    /// A chore: partitions that are due get a leader, lose replicas that are gone, or come to the end of a reassignment.
    SettlePartitions,
    /// Unproven replicas said how far their logs go: what they said to [`super::Controller::questions`]. The most complete
    /// log of a partition leads, where all were asked and nothing has changed since.
    LogsCompared(Vec<super::LogAnswer>),
}

/// A change of one configuration key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEdit {
    /// The key.
    pub key: String,
    /// What is done to it.
    pub operation: ConfigOperation,
}

/// What is done to a configuration key (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    /// It has this value.
    Set(String),
    /// It has its default again.
    Delete,
    /// These words are added to its list.
    Append(String),
    /// These words are taken out of its list.
    Subtract(String),
}

/// Which election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionKind {
    /// The preferred replica is to lead, where it is in sync.
    Preferred,
    /// Any replica may lead where nobody does, even one that misses committed records.
    Unclean,
}

/// In-sync replicas as a leader wants them to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrProposal {
    /// The topic.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: i32,
    /// The epoch the proposer leads in.
    pub leader_epoch: LeaderEpoch,
    /// The state that it changes.
    pub partition_epoch: PartitionEpoch,
    /// The in-sync replicas, each with the registration under which it caught up (−1 where that is not known).
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
}

/// What a command led to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is done, and there is nothing to say.
    Done,
    /// A topic was created (or would be).
    TopicCreated {
        /// Its id.
        id: TopicId,
        /// For each partition its replicas.
        assignment: Vec<Vec<BrokerId>>,
        /// Its own configuration.
        configs: BTreeMap<String, String>,
    },
    /// What became of each election.
    Elected(Vec<(TopicPartition, Result<(), ControllerError>)>),
    /// What became of each reassignment.
    Reassigned(Vec<(TopicPartition, Result<(), ControllerError>)>),
    /// For each proposal, in its order, the state that is true now.
    PartitionsAltered(Vec<Result<PartitionImage, ControllerError>>),
    /// What the broker that wants to stop still leads.
    StillLed(Vec<TopicPartition>),
}

/// Why a command was refused, in the protocol's own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct ControllerError {
    /// The protocol's code.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
}

impl ControllerError {
    /// A refusal.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ControllerError {
        ControllerError { code, message: message.into() }
    }
}
