//! What the controller remembers of a plan beside its deltas: nodes that no broker needs to know of. Owns the forms.

use super::{Command, ControllerError, LoadedTopic};
use crate::{
    metadata::BrokerImage,
    types::{BrokerEpoch, BrokerId, TopicPartition},
};
use std::{collections::BTreeMap, sync::Arc};

/// Something to remember once a plan is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A topic's nodes as they are now; none where there are none any more.
    Record(Arc<str>, Option<Arc<LoadedTopic>>),
    /// Whether a topic is marked for deletion.
    Deletion(Arc<str>, bool),
    /// The node of a broker's configuration has this version.
    BrokerConfig(BrokerId, i32),
    /// This registration is the last that was processed, and the node that says so has this version.
    Processed(BrokerId, BrokerEpoch, i32),
    /// The registrations that wait to be processed.
    Waiting(BTreeMap<BrokerId, Arc<BrokerImage>>),
    /// How far a command has come whose plans are many.
    Progress(Box<Progress>),
}

/// How far a command has come: its next plan goes on from here.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The command.
    pub command: Command,
    /// What became of its partitions so far.
    pub results: Vec<(TopicPartition, Result<(), ControllerError>)>,
}
