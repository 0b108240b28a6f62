//! What this broker holds, at one moment: topics, and of each the replicas that are here. Immutable and shared.

use crate::{
    log::LogConfig,
    metadata::{PartitionImage, TopicImage},
    partition::{Partition, leader::LeaderSettings},
    replication::throttle::ThrottledReplicas,
    types::TopicId,
};
use sillon_protocol::ErrorCode;
use std::{collections::BTreeMap, sync::Arc};

/// All topics of the cluster, with the replicas that are here.
#[derive(Default)]
pub struct Topics {
    pub(super) by_name: BTreeMap<Arc<str>, Arc<Topic>>,
    pub(super) by_id: BTreeMap<TopicId, Arc<Topic>>,
}

/// One topic.
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id.
    pub id: TopicId,
    /// What its partitions' leaders obey.
    pub settings: LeaderSettings,
    /// Which of its leaders' replicas are throttled (KIP-73).
    pub throttled_leaders: ThrottledReplicas,
    /// Which of its followers are throttled (KIP-73).
    pub throttled_followers: ThrottledReplicas,
    pub(super) log_config: LogConfig,
    /// By number.
    pub(super) replicas: Vec<Replica>,
    pub(super) image: Arc<TopicImage>,
}

/// A partition, seen from this broker.
#[derive(Clone)]
pub(super) enum Replica {
    /// Other brokers hold it.
    Elsewhere,
    /// Its log cannot be opened.
    Closed,
    /// It is here.
    Here(Arc<Partition>),
}

impl Topics {
    /// The topic of that name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    /// The topic of that id.
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// All topics, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// All replicas that are here, with their logs open.
    pub fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.iter().flat_map(|topic| topic.here())
    }

    pub(super) fn insert(&mut self, topic: Arc<Topic>) {
        self.by_name.insert(topic.name.clone(), topic.clone());
        self.by_id.insert(topic.id, topic);
    }
}

impl Topic {
    /// The replica that is here.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER where other brokers hold it, or KAFKA_STORAGE_ERROR where its
    /// log cannot be opened.
    pub fn partition(&self, index: i32) -> Result<&Arc<Partition>, ErrorCode> {
        match usize::try_from(index).ok().and_then(|index| self.replicas.get(index)) {
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Some(Replica::Elsewhere) => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            Some(Replica::Closed) => Err(ErrorCode::KAFKA_STORAGE_ERROR),
            Some(Replica::Here(partition)) if partition.is_removed() => {
                Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            }
            Some(Replica::Here(partition)) => Ok(partition),
        }
    }

    /// How many partitions it has.
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.image.partitions.len()).expect("partitions are numbered by i32")
    }

    /// A partition's true state, as the metadata has it.
    pub fn partition_image(&self, index: i32) -> Option<&PartitionImage> {
        self.image.partition(index)
    }

    /// The replicas that are here, with their logs open.
    pub fn here(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.replicas.iter().filter_map(|replica| match replica {
            Replica::Here(partition) => Some(partition),
            Replica::Elsewhere | Replica::Closed => None,
        })
    }

    /// Whether every replica that should be here is.
    pub(super) fn is_complete(&self) -> bool {
        !self.replicas.iter().any(|replica| matches!(replica, Replica::Closed))
    }
}
