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
    /// Takes note of new metadata.
    pub fn note(&mut self, image: &MetadataImage, now: Monotonic) {
        for (id, broker) in &image.brokers {
            self.0.insert(*id, Seen { broker: broker.clone(), missed: None });
        }
        self.0.retain(|id, seen| {
            image.brokers.contains_key(id) || *seen.missed.get_or_insert(now) + REMEMBERED > now
        });
    }

    /// The brokers that were there a moment ago and are not in `image`, which may be newer than what was noted.
    pub fn missing(&self, image: &MetadataImage, now: Monotonic) -> Vec<(BrokerId, Arc<BrokerImage>)> {
        let remembered = |seen: &Seen| seen.missed.is_none_or(|missed| missed + REMEMBERED > now);
        let missing = self.0.iter().filter(|(id, seen)| !image.brokers.contains_key(id) && remembered(seen));
        missing.map(|(id, seen)| (*id, seen.broker.clone())).collect()
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
        let ids = |missing: Vec<(BrokerId, _)>| -> Vec<i32> { missing.iter().map(|(id, _)| id.0).collect() };
        let mut see = |brokers: &[i32], now| {
            let image = image(brokers);
            let before_noted = ids(departed.missing(&image, now));
            departed.note(&image, now);
            assert_eq!(ids(departed.missing(&image, now)), before_noted, "the same, noted or not yet");
            before_noted
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
