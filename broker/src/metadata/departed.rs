//! Brokers that are not in the metadata any more, but were a moment ago. Owns how long clients are still told of them;
//! never says that such a broker leads or holds anything.
//!
//! A client that learns in one answer that a broker is gone and that its partitions have new leaders may get the two
//! into the wrong order: librdkafka 2.12 ends the thread of that broker first, and its partitions then belong to nobody
//! until the next refresh. Told of the broker a little longer, it moves the partitions first.

use super::{BrokerImage, MetadataImage};
use crate::types::BrokerId;
use sillon_runtime::Monotonic;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// So long after it was missed, a broker is still told of: until every client that lost it has asked once.
const REMEMBERED: Duration = Duration::from_secs(2);

struct Seen {
    broker: Arc<BrokerImage>,
    missed: Option<Monotonic>,
}

/// See the module.
#[derive(Default)]
pub struct Departed(BTreeMap<BrokerId, Seen>);

impl Departed {
    /// Takes note of the newest metadata, and gives the brokers that were in it a moment ago and are not now.
    pub fn see(&mut self, image: &MetadataImage, now: Monotonic) -> Vec<(BrokerId, Arc<BrokerImage>)> {
        for (id, broker) in &image.brokers {
            let seen = self.0.entry(*id).or_insert_with(|| Seen { broker: broker.clone(), missed: None });
            seen.missed = None;
            seen.broker.clone_from(broker);
        }
        self.0.retain(|id, seen| {
            image.brokers.contains_key(id) || *seen.missed.get_or_insert(now) + REMEMBERED > now
        });
        let departed = self.0.iter().filter(|(_, seen)| seen.missed.is_some());
        departed.map(|(id, seen)| (*id, seen.broker.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{MetadataDelta, MetadataPosition};
    use crate::types::BrokerEpoch;

    fn image(brokers: &[i32]) -> MetadataImage {
        let registered = |id: &i32| MetadataDelta::Broker {
            id: BrokerId(*id),
            broker: Arc::new(BrokerImage {
                broker_epoch: BrokerEpoch(7),
                endpoints: Vec::new(),
                rack: None,
                unclean: false,
                registration: 0,
                shutting_down: false,
            }),
        };
        let deltas: Vec<_> = brokers.iter().map(registered).collect();
        MetadataImage::default().after(&deltas, MetadataPosition::default()).expect("it fits")
    }

    #[test]
    fn a_broker_is_told_of_for_a_moment_after_it_is_missed() {
        let (mut departed, start) = (Departed::default(), Monotonic(1));
        let mut see = |brokers: &[i32], now| -> Vec<i32> {
            departed.see(&image(brokers), now).iter().map(|(id, _)| id.0).collect()
        };
        assert_eq!(see(&[1, 2, 3], start), [0; 0]);
        let missed = start + Duration::from_secs(60);
        assert_eq!(see(&[1, 3], missed), [2], "however long it was there");
        assert_eq!(see(&[1], missed + REMEMBERED / 2), [2, 3]);
        assert_eq!(see(&[1], missed + REMEMBERED), [3]);
        assert_eq!(see(&[1, 3], missed + REMEMBERED), [0; 0], "it is back");
        assert_eq!(see(&[1], missed + REMEMBERED * 2), [3], "and gone again");
        assert_eq!(see(&[1], missed + REMEMBERED * 3), [0; 0]);
    }
}
