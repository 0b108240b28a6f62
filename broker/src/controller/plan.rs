//! What the controller reads at the coordinator when it takes office, and what it wants to write there. Owns the forms.

use super::{
    Outcome,
    layout::{LayoutError, TopicNode},
    note::Note,
};
use crate::{
    metadata::{BrokerImage, MetadataDelta, PartitionImage},
    types::{BrokerEpoch, BrokerId, ControllerEpoch, TopicId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Everything that a new controller knows, read after its epoch was written.
#[derive(Clone, Debug, Default)]
pub struct LoadedState {
    /// The cluster's id.
    pub cluster_id: String,
    /// The broker that is controller: this one.
    pub controller: BrokerId,
    /// Its epoch.
    pub controller_epoch: ControllerEpoch,
    /// The zxid of the last write that was read.
    pub version: i64,
    /// The registered brokers.
    pub brokers: BTreeMap<BrokerId, Arc<BrokerImage>>,
    /// The topics.
    pub topics: Vec<LoadedTopic>,
    /// The topics that somebody asked to delete.
    pub deletions: Vec<Arc<str>>,
    /// Configuration set while running, with the versions of its nodes.
    pub broker_configs: BTreeMap<BrokerId, (BTreeMap<String, String>, i32)>,
    /// For each broker the last registration that a controller has processed, with the version of the node that says so.
    pub processed: BTreeMap<BrokerId, (BrokerEpoch, i32)>,
    /// Registrations whose brokers are about to stop: they were taken out of everything, and are let in nowhere.
    pub stopping: BTreeSet<(BrokerId, BrokerEpoch)>,
    /// Configuration of topics that do not exist, with the versions of its nodes.
    pub orphan_configs: BTreeMap<Arc<str>, i32>,
    /// Nodes whose content is not what it should be. Their topics are left alone, and their names are taken.
    pub damaged: Vec<LayoutError>,
}

/// A topic as it lies at the coordinator, whoever wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedTopic {
    /// Its name.
    pub name: Arc<str>,
    /// What its node says, and that node's version.
    pub node: (TopicNode, i32),
    /// Its configuration and that node's version; none where there is no such node.
    pub configs: Option<(BTreeMap<String, String>, i32)>,
    /// Whether `/brokers/topics/T/partitions` exists.
    pub has_partitions: bool,
    /// The partitions whose nodes exist; with the state where there is one. Its partition epoch is the node's version;
    /// replicas, adding and removing come from the topic's node.
    pub states: BTreeMap<i32, Option<PartitionImage>>,
    /// The id that it gets where its node has none: random, made by who read it.
    pub fresh_id: TopicId,
}

/// One write of a multi. All are conditional: the controller knows what it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Creates a persistent node that must not exist.
    Create {
        /// Its path.
        path: String,
        /// Its content.
        data: Vec<u8>,
    },
    /// Writes a node that must have that version, and then has the next one.
    Set {
        /// Its path.
        path: String,
        /// Its content.
        data: Vec<u8>,
        /// Its version.
        version: i32,
    },
    /// Deletes a node that must have that version, or any where none is given.
    Delete {
        /// Its path.
        path: String,
        /// Its version.
        version: Option<i32>,
    },
    /// A node must have that version, or any where none is given.
    Check {
        /// Its path.
        path: String,
        /// Its version.
        version: Option<i32>,
    },
}

/// What a command comes to: writes that happen together or not at all, and what is true after them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The writes, without the check of `/controller_epoch`, which the shell adds. None where nothing changes: then there
    /// are no deltas at all.
    pub writes: Vec<Write>,
    /// What brokers are told once they are written.
    pub deltas: Vec<MetadataDelta>,
    /// What the one who asked is told.
    pub outcome: Outcome,
    /// The command is too large for one multi: once this part is committed, it is planned again.
    pub unfinished: bool,
    /// What the controller remembers once they are written, beside the deltas.
    pub(super) notes: Vec<Note>,
}

/// At most so many writes are put into one multi: far below the coordinator's limit of 1 MiB for a request.
pub const WRITES_AT_MOST: usize = 500;
