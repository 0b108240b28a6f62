//! Changes of the metadata as they travel: from the controller to every broker, in the order of their zxids.
//!
//! ```text
//!   image + deltas of one write = next image          nothing + MetadataDelta::snapshot(image) = image
//! ```
//! Owns the deltas and how they are applied. Pure; says what *is*, never what to do: applying a delta twice equals
//! applying it once (I34).

use super::image::{BrokerImage, MetadataImage, MetadataPosition, PartitionImage, TopicImage};
use crate::types::{BrokerEpoch, BrokerId, TopicId};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MetadataDelta {
    /// The cluster's id.
    Cluster {
        /// The id.
        cluster_id: String,
    },
    /// Who is controller.
    Controller {
        /// The broker.
        broker: BrokerId,
    },
    /// A broker's registration, as it is from now on.
    Broker {
        /// Whose.
        id: BrokerId,
        /// The registration.
        broker: Arc<BrokerImage>,
    },
    /// A broker is not registered any more.
    BrokerGone {
        /// Which.
        id: BrokerId,
        /// The registration that ended.
        broker_epoch: BrokerEpoch,
    },
    /// A topic, whole, as it is from now on.
    Topic {
        /// Its name.
        name: Arc<str>,
        /// What it is.
        topic: Arc<TopicImage>,
    },
    /// A topic was deleted.
    TopicGone {
        /// Its id.
        id: TopicId,
    },
    /// The state of some partitions of a topic, new ones among them.
    Partitions {
        /// The topic's id.
        id: TopicId,
        /// The partitions' numbers and states, in the order of their numbers.
        partitions: Vec<(i32, PartitionImage)>,
    },
    /// A topic's own configuration, whole.
    TopicConfigs {
        /// The topic's id.
        id: TopicId,
        /// The configuration.
        configs: BTreeMap<String, String>,
    },
    /// Configuration set while running for a broker, or for all, whole.
    BrokerConfigs {
        /// The broker, or [`super::image::ALL_BROKERS`].
        broker: BrokerId,
        /// The configuration.
        configs: BTreeMap<String, String>,
    },
}

/// Deltas that do not fit the image: they were made for another one, or were damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// The topic is not in the image.
    #[error("a delta speaks of topic {0}, which is not in the image")]
    UnknownTopic(TopicId),
    /// A partition's number leaves a gap.
    #[error("a delta speaks of partition {partition} of topic {topic}, which has only {present}")]
    PartitionGap {
        /// The topic.
        topic: TopicId,
        /// The number.
        partition: i32,
        /// How many there are.
        present: usize,
    },
}

impl MetadataDelta {
    /// The deltas that make the image out of an empty one.
    pub fn snapshot(image: &MetadataImage) -> Vec<MetadataDelta> {
        let mut deltas = vec![MetadataDelta::Cluster { cluster_id: image.cluster_id.clone() }];
        deltas.extend(image.controller.map(|broker| MetadataDelta::Controller { broker }));
        let brokers = image.brokers.iter();
        deltas.extend(brokers.map(|(id, broker)| MetadataDelta::Broker { id: *id, broker: broker.clone() }));
        let topics = image.topics.iter();
        deltas.extend(
            topics.map(|(name, topic)| MetadataDelta::Topic { name: name.clone(), topic: topic.clone() }),
        );
        let configs = image.broker_configs.iter();
        deltas.extend(configs.map(|(broker, configs)| MetadataDelta::BrokerConfigs {
            broker: *broker,
            configs: configs.clone(),
        }));
        deltas
    }
}

impl MetadataImage {
    /// The image after `deltas`, true at `position`. The topics that the deltas do not touch are shared with this one.
    ///
    /// # Errors
    /// [`DeltaError`]; nothing is changed then.
    pub fn after(
        &self,
        deltas: &[MetadataDelta],
        position: MetadataPosition,
    ) -> Result<MetadataImage, DeltaError> {
        assert!(position >= self.position, "metadata never goes back: {position} after {}", self.position);
        let mut next = self.clone();
        next.position = position;
        for delta in deltas {
            next.apply(delta)?;
        }
        Ok(next)
    }

    fn apply(&mut self, delta: &MetadataDelta) -> Result<(), DeltaError> {
        match delta {
            MetadataDelta::Cluster { cluster_id } => self.cluster_id.clone_from(cluster_id),
            MetadataDelta::Controller { broker } => self.controller = Some(*broker),
            MetadataDelta::Broker { id, broker } => {
                self.brokers.insert(*id, broker.clone());
            }
            MetadataDelta::BrokerGone { id, broker_epoch } => {
                if self.brokers.get(id).is_some_and(|broker| broker.broker_epoch <= *broker_epoch) {
                    self.brokers.remove(id);
                }
            }
            MetadataDelta::Topic { name, topic } => {
                if let Some(old) = self.topics.insert(name.clone(), topic.clone()) {
                    self.names.remove(&old.id);
                }
                self.names.insert(topic.id, name.clone());
            }
            MetadataDelta::TopicGone { id } => {
                if let Some(name) = self.names.remove(id) {
                    self.topics.remove(&name);
                }
            }
            MetadataDelta::Partitions { id, partitions } => {
                let topic = self.topic_mut(*id)?;
                for (index, state) in partitions {
                    let present = topic.partitions.len();
                    match usize::try_from(*index) {
                        Ok(known) if known < present => topic.partitions[known] = state.clone(),
                        Ok(next) if next == present => topic.partitions.push(state.clone()),
                        _ => {
                            return Err(DeltaError::PartitionGap { topic: *id, partition: *index, present });
                        }
                    }
                }
            }
            MetadataDelta::TopicConfigs { id, configs } => self.topic_mut(*id)?.configs.clone_from(configs),
            MetadataDelta::BrokerConfigs { broker, configs } => {
                if configs.is_empty() {
                    self.broker_configs.remove(broker);
                } else {
                    self.broker_configs.insert(*broker, configs.clone());
                }
            }
        }
        Ok(())
    }

    fn topic_mut(&mut self, id: TopicId) -> Result<&mut TopicImage, DeltaError> {
        let name = self.names.get(&id).ok_or(DeltaError::UnknownTopic(id))?;
        Ok(Arc::make_mut(self.topics.get_mut(name).expect("every id has its topic")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ControllerEpoch, LeaderEpoch, PartitionEpoch, Uuid};

    fn at(version: i64) -> MetadataPosition {
        MetadataPosition { controller_epoch: ControllerEpoch(1), version }
    }

    fn state(leader: i32) -> PartitionImage {
        PartitionImage {
            leader: Some(BrokerId(leader)),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            replicas: vec![BrokerId(leader)],
            adding: Vec::new(),
            removing: Vec::new(),
            isr: vec![BrokerId(leader)],
            eligible_leader_replicas: Vec::new(),
            last_known_leader: None,
            unproven: Vec::new(),
        }
    }

    fn topic(name: &str, number: u128) -> MetadataDelta {
        let id = TopicId(Uuid::from_u128(number));
        let topic = TopicImage { id, partitions: vec![state(1)], configs: BTreeMap::new() };
        MetadataDelta::Topic { name: name.into(), topic: Arc::new(topic) }
    }

    #[test]
    fn a_snapshot_makes_the_same_image_out_of_nothing() {
        let (one, two) = (TopicId(Uuid::from_u128(1)), TopicId(Uuid::from_u128(2)));
        let deltas = [
            topic("a", 1),
            topic("b", 2),
            MetadataDelta::Partitions { id: one, partitions: vec![(0, state(2)), (1, state(3))] },
            MetadataDelta::TopicGone { id: two },
            MetadataDelta::Controller { broker: BrokerId(1) },
        ];
        let image = MetadataImage::default().after(&deltas, at(7)).unwrap();
        assert_eq!(image.topic_by_id(one).unwrap().1.partitions, [state(2), state(3)]);
        assert_eq!(image.topic_by_id(two), None);
        let copy = MetadataImage::default().after(&MetadataDelta::snapshot(&image), at(7)).unwrap();
        assert_eq!(copy, image);
        assert_eq!(image.after(&deltas[2..], at(8)).unwrap().topics, image.topics);
    }

    #[test]
    fn a_topic_made_again_under_its_name_is_another_topic() {
        let image = MetadataImage::default().after(&[topic("a", 1)], at(1)).unwrap();
        let image = image.after(&[topic("a", 2)], at(2)).unwrap();
        assert_eq!(image.topic_by_id(TopicId(Uuid::from_u128(1))), None);
        // The end of the first one is no end of the second.
        let gone = MetadataDelta::TopicGone { id: TopicId(Uuid::from_u128(1)) };
        assert!(image.after(&[gone], at(3)).unwrap().topic("a").is_some());
    }

    #[test]
    fn deltas_for_another_image_are_refused() {
        let image = MetadataImage::default().after(&[topic("a", 1)], at(1)).unwrap();
        let id = TopicId(Uuid::from_u128(1));
        let gap = MetadataDelta::Partitions { id, partitions: vec![(2, state(1))] };
        assert_eq!(
            image.after(&[gap], at(2)),
            Err(DeltaError::PartitionGap { topic: id, partition: 2, present: 1 })
        );
    }

    #[test]
    #[should_panic(expected = "never goes back")]
    fn metadata_never_goes_back() {
        let image = MetadataImage::default().after(&[], at(5)).unwrap();
        let _ = image.after(&[], at(4));
    }
}
