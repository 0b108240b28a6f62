//! Leaders whose connection broke a moment ago. What the metadata says of them is most likely about to change, and a client
//! that asks now is better told in a moment. Owns how long that is believed; never says that a broker is gone.

use crate::{
    metadata::MetadataImage,
    types::{BrokerEpoch, BrokerId},
};
use sillon_runtime::Monotonic;
use std::{collections::BTreeMap, sync::Mutex, time::Duration};

/// So long after its connection broke, a broker that lost its process should have been found out.
const BELIEVED: Duration = Duration::from_millis(300);

#[derive(Clone, Copy)]
struct Suspicion {
    broker_epoch: BrokerEpoch,
    until: Monotonic,
}

/// See the module.
#[derive(Default)]
pub(super) struct Suspects(Mutex<BTreeMap<BrokerId, Suspicion>>);

impl Suspects {
    /// The connection to a broker broke that had worked.
    pub(super) fn add(&self, broker: BrokerId, broker_epoch: BrokerEpoch, now: Monotonic) {
        let suspicion = Suspicion { broker_epoch, until: now + BELIEVED };
        self.0.lock().expect("no holder panics").insert(broker, suspicion);
    }

    /// Until when the metadata may still come to differ from `image`; none where nothing is expected.
    pub(super) fn until(&self, image: &MetadataImage, now: Monotonic) -> Option<Monotonic> {
        let mut suspects = self.0.lock().expect("no holder panics");
        suspects.retain(|broker, suspicion| {
            suspicion.until > now
                && match image.brokers.get(broker) {
                    Some(registered) => registered.broker_epoch == suspicion.broker_epoch,
                    None => leads(image, *broker),
                }
        });
        suspects.values().map(|suspicion| suspicion.until).max()
    }
}

fn leads(image: &MetadataImage, broker: BrokerId) -> bool {
    let mut partitions = image.topics.values().flat_map(|topic| &topic.partitions);
    partitions.any(|partition| partition.leader == Some(broker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{BrokerImage, MetadataDelta, MetadataPosition};
    use std::sync::Arc;

    fn image(broker_epoch: i64) -> MetadataImage {
        let broker = BrokerImage {
            broker_epoch: BrokerEpoch(broker_epoch),
            endpoints: Vec::new(),
            rack: None,
            unclean: false,
            registration: 0,
            shutting_down: false,
        };
        let delta = MetadataDelta::Broker { id: BrokerId(1), broker: Arc::new(broker) };
        MetadataImage::default().after(&[delta], MetadataPosition::default()).expect("it fits")
    }

    #[test]
    fn a_suspicion_lasts_until_the_metadata_has_changed_or_its_time_is_over() {
        let (suspects, now) = (Suspects::default(), Monotonic(1));
        assert_eq!(suspects.until(&image(7), now), None);
        suspects.add(BrokerId(1), BrokerEpoch(7), now);
        assert_eq!(suspects.until(&image(7), now), Some(now + BELIEVED));
        assert_eq!(suspects.until(&image(8), now), None, "it has registered again");
        suspects.add(BrokerId(1), BrokerEpoch(7), now);
        assert_eq!(suspects.until(&MetadataImage::default(), now), None, "it is gone, and leads nothing");
        suspects.add(BrokerId(1), BrokerEpoch(7), now);
        assert_eq!(suspects.until(&image(7), now + BELIEVED), None);
    }
}
