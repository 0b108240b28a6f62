//! The topic in which groups and offsets live: how it is created. Pure.

use crate::{config::group::GroupConfig, metadata::names::OFFSETS_TOPIC};
use sillon_protocol::messages::{CreatableTopic, CreatableTopicConfig};

/// The topic as it is to be created where so many brokers live.
///
/// Kafka refuses to create it while fewer brokers live than `offsets.topic.replication.factor` says, and no group works
/// then. Here it gets as many replicas as there can be: a single broker is of use with Kafka's own defaults, and a cluster
/// that has grown since takes more by a reassignment.
pub(crate) fn creation_of_offsets_topic(settings: &GroupConfig, live_brokers: usize) -> CreatableTopic {
    let live = i16::try_from(live_brokers).unwrap_or(i16::MAX).max(1);
    let config =
        |name: &str, value: String| CreatableTopicConfig { name: name.to_owned(), value: Some(value) };
    CreatableTopic {
        name: OFFSETS_TOPIC.to_owned(),
        num_partitions: settings.topic_partitions,
        replication_factor: settings.topic_replication_factor.min(live),
        configs: vec![
            config("cleanup.policy", "compact".to_owned()),
            config("compression.type", "producer".to_owned()),
            config("segment.bytes", settings.topic_segment_bytes.to_string()),
            // The last word on a group or an offset is never too old.
            config("retention.ms", "-1".to_owned()),
            config("retention.bytes", "-1".to_owned()),
        ],
        ..CreatableTopic::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    #[test]
    fn it_has_no_more_replicas_than_there_are_brokers() {
        let settings = BrokerConfig::default().groups;
        for (live, replicas) in [(0, 1), (1, 1), (2, 2), (3, 3), (9, 3)] {
            assert_eq!(creation_of_offsets_topic(&settings, live).replication_factor, replicas);
        }
    }
}
