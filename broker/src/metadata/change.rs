//! The changes of the metadata, as a pure function from an image and a change to the next image.
//!
//! Keeps: ids are never used twice, leader epochs only grow (I23), a partition's in-sync replicas are among its
//! replicas. Never stores anything.

use super::{
    image::{MetadataImage, PartitionImage, TopicImage},
    names,
};
use crate::types::{BrokerId, LeaderEpoch, PartitionEpoch, TopicId};
use std::{collections::BTreeMap, sync::Arc};

/// A change of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new topic; one list of replicas for each partition, the preferred leader first.
    CreateTopic {
        /// Its name.
        name: Arc<str>,
        /// Its id.
        id: TopicId,
        /// For each partition the brokers that hold it.
        assignment: Vec<Vec<BrokerId>>,
        /// Its own configuration.
        configs: BTreeMap<String, String>,
    },
    /// The end of a topic.
    DeleteTopic {
        /// Its id: a topic created again under the name is not meant.
        id: TopicId,
    },
    /// More partitions for a topic.
    AddPartitions {
        /// Its id.
        id: TopicId,
        /// How many it has, to refuse a change that was computed from an older state.
        present: usize,
        /// For each new partition the brokers that hold it.
        assignment: Vec<Vec<BrokerId>>,
    },
    /// Another configuration for a topic.
    SetTopicConfigs {
        /// Its id.
        id: TopicId,
        /// All of its own configuration.
        configs: BTreeMap<String, String>,
    },
    /// Another configuration for a broker, or for all.
    SetBrokerConfigs {
        /// The broker, or [`super::image::ALL_BROKERS`].
        broker: BrokerId,
        /// All that is set while running.
        configs: BTreeMap<String, String>,
    },
    /// A broker has started and leads what it led before: a new leader epoch for each of its partitions.
    BeginLeadership {
        /// The broker.
        broker: BrokerId,
    },
}

/// Why a change was refused, or could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The name is not a legal one.
    #[error("{0}")]
    InvalidTopicName(String),
    /// The name is taken.
    #[error("Topic '{0}' already exists.")]
    TopicExists(Arc<str>),
    /// There is no such topic.
    #[error("This server does not host this topic-partition.")]
    UnknownTopic,
    /// The state has moved on since the change was computed.
    #[error("The topic was changed at the same time; try again.")]
    Conflict,
    /// The store cannot keep changes at present.
    #[error("{0}")]
    Storage(String),
}

/// The image after the change.
///
/// # Errors
/// Why the change is refused; the image stays as it is.
pub fn apply(image: &MetadataImage, change: Change) -> Result<MetadataImage, MetadataError> {
    let mut next = image.clone();
    next.position.version += 1;
    match change {
        Change::CreateTopic { name, id, assignment, configs } => {
            create_topic(&mut next, name, id, assignment, configs)?
        }
        Change::DeleteTopic { id } => {
            let name = name_of(image, id)?;
            next.topics.remove(&name);
            next.names.remove(&id);
        }
        Change::AddPartitions { id, present, assignment } => {
            let topic = topic_mut(&mut next, id)?;
            if topic.partitions.len() != present {
                return Err(MetadataError::Conflict);
            }
            topic.partitions.extend(assignment.into_iter().map(new_partition));
        }
        Change::SetTopicConfigs { id, configs } => topic_mut(&mut next, id)?.configs = configs,
        Change::SetBrokerConfigs { broker, configs } => {
            if configs.is_empty() {
                next.broker_configs.remove(&broker);
            } else {
                next.broker_configs.insert(broker, configs);
            }
        }
        Change::BeginLeadership { broker } => begin_leadership(&mut next, broker),
    }
    Ok(next)
}

fn create_topic(
    next: &mut MetadataImage,
    name: Arc<str>,
    id: TopicId,
    assignment: Vec<Vec<BrokerId>>,
    configs: BTreeMap<String, String>,
) -> Result<(), MetadataError> {
    names::check_topic_name(&name).map_err(MetadataError::InvalidTopicName)?;
    if next.topics.contains_key(&name) {
        return Err(MetadataError::TopicExists(name));
    }
    if let Some(other) = next.topics.keys().find(|other| names::collide(other, &name)) {
        return Err(MetadataError::InvalidTopicName(format!(
            "Topic '{name}' collides with existing topics: {other}"
        )));
    }
    assert!(next.topic_by_id(id).is_none(), "topic ids are random and never used twice");
    let partitions = assignment.into_iter().map(new_partition).collect();
    next.names.insert(id, name.clone());
    next.topics.insert(name, Arc::new(TopicImage { id, partitions, configs }));
    Ok(())
}

fn new_partition(replicas: Vec<BrokerId>) -> PartitionImage {
    let leader = *replicas.first().expect("an assignment names at least one broker");
    PartitionImage {
        leader: Some(leader),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(0),
        isr: replicas.clone(),
        replicas,
        adding: Vec::new(),
        removing: Vec::new(),
        eligible_leader_replicas: Vec::new(),
        last_known_leader: None,
    }
}

fn begin_leadership(next: &mut MetadataImage, broker: BrokerId) {
    for topic in next.topics.values_mut() {
        if topic.partitions.iter().any(|partition| partition.leader == Some(broker)) {
            for partition in &mut Arc::make_mut(topic).partitions {
                if partition.leader == Some(broker) {
                    partition.leader_epoch = LeaderEpoch(partition.leader_epoch.0 + 1);
                }
            }
        }
    }
}

fn name_of(image: &MetadataImage, id: TopicId) -> Result<Arc<str>, MetadataError> {
    image.topic_by_id(id).map(|(name, _)| name.clone()).ok_or(MetadataError::UnknownTopic)
}

fn topic_mut(image: &mut MetadataImage, id: TopicId) -> Result<&mut TopicImage, MetadataError> {
    image
        .topics
        .values_mut()
        .find(|topic| topic.id == id)
        .map(Arc::make_mut)
        .ok_or(MetadataError::UnknownTopic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Uuid;

    fn id(number: u128) -> TopicId {
        TopicId(Uuid::from_u128(number))
    }

    fn create(name: &str, number: u128) -> Change {
        Change::CreateTopic {
            name: name.into(),
            id: id(number),
            assignment: vec![vec![BrokerId(0)]; 2],
            configs: BTreeMap::new(),
        }
    }

    #[test]
    fn a_topic_lives_grows_and_ends() {
        let image = apply(&MetadataImage::default(), create("a.b", 1)).unwrap();
        assert_eq!(apply(&image, create("a.b", 2)), Err(MetadataError::TopicExists("a.b".into())));
        assert!(matches!(apply(&image, create("a_b", 2)), Err(MetadataError::InvalidTopicName(_))));
        assert!(matches!(apply(&image, create("..", 2)), Err(MetadataError::InvalidTopicName(_))));
        let more =
            |present| Change::AddPartitions { id: id(1), present, assignment: vec![vec![BrokerId(0)]] };
        assert_eq!(apply(&image, more(1)), Err(MetadataError::Conflict));
        let image = apply(&image, more(2)).unwrap();
        assert_eq!(image.topic("a.b").unwrap().partitions.len(), 3);
        let image = apply(&image, Change::DeleteTopic { id: id(1) }).unwrap();
        assert_eq!(image.topic("a.b"), None);
        assert_eq!(apply(&image, Change::DeleteTopic { id: id(1) }), Err(MetadataError::UnknownTopic));
        assert_eq!(image.position.version, 3);
    }

    #[test]
    fn each_start_of_a_broker_is_a_new_leader_epoch() {
        let image = apply(&MetadataImage::default(), create("t", 1)).unwrap();
        let epochs = |image: &MetadataImage| -> Vec<i32> {
            image.topic("t").unwrap().partitions.iter().map(|p| p.leader_epoch.0).collect()
        };
        let image = apply(&image, Change::BeginLeadership { broker: BrokerId(7) }).unwrap();
        assert_eq!(epochs(&image), [0, 0]);
        let image = apply(&image, Change::BeginLeadership { broker: BrokerId(0) }).unwrap();
        assert_eq!(epochs(&image), [1, 1]);
    }
}
