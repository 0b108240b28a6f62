//! The metadata at one moment, immutable and shared. Pure.

use crate::types::{
    BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// How far somebody has followed the metadata: which controller told it, and the zxid of the last write that is in it.
/// Ordered: what a later controller says is newer than all that an earlier one said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MetadataPosition {
    /// The controller that told it.
    pub controller_epoch: ControllerEpoch,
    /// The zxid of the last write.
    pub version: i64,
}

impl fmt::Display for MetadataPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.controller_epoch, self.version)
    }
}

/// All of a cluster's metadata. What is in it is true at [`MetadataImage::position`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataImage {
    /// The cluster's id, given once.
    pub cluster_id: String,
    /// Up to where.
    pub position: MetadataPosition,
    /// The broker that is controller.
    pub controller: Option<BrokerId>,
    /// The brokers that are registered.
    pub brokers: BTreeMap<BrokerId, Arc<BrokerImage>>,
    /// The topics by name.
    pub topics: BTreeMap<Arc<str>, Arc<TopicImage>>,
    /// The names by id. Always in line with `topics`.
    pub(super) names: BTreeMap<TopicId, Arc<str>>,
    /// Configuration set while running, by broker; the key −1 holds that of all brokers.
    pub broker_configs: BTreeMap<BrokerId, BTreeMap<String, String>>,
}

/// One registration of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerImage {
    /// The registration's epoch.
    pub broker_epoch: BrokerEpoch,
    /// Where clients and brokers reach it.
    pub endpoints: Vec<Endpoint>,
    /// `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// Its last stop was unclean: it may have lost records that it had acknowledged (KIP-966).
    pub unclean: bool,
    /// Counts this broker's registrations: the version of its node `/sillon/registrations/N`, on which a removal of the
    /// registration by somebody else is conditional.
    pub registration: i32,
    /// It is in controlled shutdown: it must neither lead nor be in sync.
    pub shutting_down: bool,
}

/// An address of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The listener's name.
    pub listener: String,
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicImage {
    /// Its id.
    pub id: TopicId,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionImage>,
    /// Its own configuration.
    pub configs: BTreeMap<String, String>,
}

/// One partition: its true state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionImage {
    /// The broker that leads it; none where no replica may lead.
    pub leader: Option<BrokerId>,
    /// Counts its leaders.
    pub leader_epoch: LeaderEpoch,
    /// Counts the changes of this state.
    pub partition_epoch: PartitionEpoch,
    /// The brokers that hold it, the preferred leader first. During a reassignment old and new ones together.
    pub replicas: Vec<BrokerId>,
    /// Those of the replicas that a reassignment adds.
    pub adding: Vec<BrokerId>,
    /// Those of the replicas that a reassignment will remove.
    pub removing: Vec<BrokerId>,
    /// Those that are in sync.
    pub isr: Vec<BrokerId>,
    /// Those that are not in sync but hold everything that was committed, because the high watermark stood still since
    /// (KIP-966).
    pub eligible_leader_replicas: Vec<BrokerId>,
    /// The leader before there was none: who leads again where nobody is in sync, eligible or unproven (KIP-966).
    pub last_known_leader: Option<BrokerId>,
    /// Those that were in sync or eligible when they were found to be unclean, in the order of that. Where nobody is in
    /// sync or eligible any more, the most complete log among theirs leads (KIP-966).
    pub unproven: Vec<BrokerId>,
}

/// Stands for "all brokers" in [`MetadataImage::broker_configs`].
pub const ALL_BROKERS: BrokerId = BrokerId(-1);

impl MetadataImage {
    /// The topic of that name.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// The topic of that id, with its name.
    pub fn topic_by_id(&self, id: TopicId) -> Option<(&Arc<str>, &Arc<TopicImage>)> {
        let name = self.names.get(&id)?;
        Some((name, self.topics.get(name).expect("every id has its topic")))
    }

    /// The state of a partition.
    pub fn partition(&self, partition: &TopicPartition) -> Option<&PartitionImage> {
        self.topics.get(&partition.topic)?.partition(partition.partition)
    }

    /// The configuration set while running for one broker (or for [`ALL_BROKERS`]).
    pub fn broker_config(&self, broker: BrokerId) -> &BTreeMap<String, String> {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        self.broker_configs.get(&broker).unwrap_or(&NOTHING)
    }
}

impl TopicImage {
    /// A partition by its number.
    pub fn partition(&self, index: i32) -> Option<&PartitionImage> {
        usize::try_from(index).ok().and_then(|index| self.partitions.get(index))
    }
}

impl PartitionImage {
    /// Replicas that are on no registered broker.
    pub fn offline_replicas<'a>(&'a self, image: &'a MetadataImage) -> impl Iterator<Item = BrokerId> + 'a {
        self.replicas.iter().copied().filter(|replica| !image.brokers.contains_key(replica))
    }

    /// The replicas that will be left when a reassignment is over.
    pub fn target_replicas(&self) -> impl Iterator<Item = BrokerId> + '_ {
        self.replicas.iter().copied().filter(|replica| !self.removing.contains(replica))
    }

    /// Whether its replicas are being changed.
    pub fn is_reassigning(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }
}

impl BrokerImage {
    /// The address of a listener; of the first one where there is none of that name.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        let named = self.endpoints.iter().find(|endpoint| endpoint.listener == listener);
        named.or(self.endpoints.first())
    }
}
