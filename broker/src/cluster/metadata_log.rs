//! The controller's metadata as brokers follow it: what changed with each write, in order, and the image that it comes
//! to. Pure: never waits and never sends.

use crate::{
    metadata::{MetadataDelta, MetadataImage, MetadataPosition},
    types::ControllerEpoch,
};
use std::{collections::VecDeque, sync::Arc};

/// So many deltas are kept; who is further behind gets a snapshot.
const DELTAS_AT_MOST: usize = 20_000;
/// So many deltas are given at a time, unless one write holds more.
const DELTAS_AT_A_TIME: usize = 5_000;

/// What a broker that is at some position is told.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// It knows all.
    Nothing,
    /// What changed since, up to the position.
    Deltas {
        /// Up to where.
        position: MetadataPosition,
        /// The changes, in their order.
        deltas: Vec<MetadataDelta>,
    },
    /// It was told by another controller, or is too far behind: everything.
    Snapshot(Arc<MetadataImage>),
}

/// See the module.
pub struct MetadataLog {
    image: Arc<MetadataImage>,
    /// Who is at this version needs the first entry next; who is before it needs a snapshot.
    floor: i64,
    entries: VecDeque<(i64, Arc<[MetadataDelta]>)>,
    deltas: usize,
}

impl MetadataLog {
    /// A log that begins with what a controller has loaded.
    pub fn new(image: Arc<MetadataImage>) -> MetadataLog {
        MetadataLog { floor: image.position.version, image, entries: VecDeque::new(), deltas: 0 }
    }

    /// The newest metadata.
    pub fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    /// The controller's epoch.
    pub fn controller_epoch(&self) -> ControllerEpoch {
        self.image.position.controller_epoch
    }

    /// Takes what a write changed, and the image after it.
    pub fn append(&mut self, deltas: Arc<[MetadataDelta]>, image: Arc<MetadataImage>) {
        assert_eq!(image.position.controller_epoch, self.controller_epoch(), "one log, one controller");
        assert!(image.position.version > self.image.position.version, "a write has a larger zxid");
        self.deltas += deltas.len();
        self.entries.push_back((image.position.version, deltas));
        self.image = image;
        while self.deltas > DELTAS_AT_MOST
            && let Some((version, dropped)) = self.entries.pop_front()
        {
            self.floor = version;
            self.deltas -= dropped.len();
        }
    }

    /// What somebody at `position` has to be told.
    pub fn news_since(&self, position: MetadataPosition) -> News {
        let newest = self.image.position;
        let is_known = position.controller_epoch == newest.controller_epoch
            && (self.floor..=newest.version).contains(&position.version);
        if !is_known {
            return News::Snapshot(self.image.clone());
        }
        if position.version == newest.version {
            return News::Nothing;
        }
        let first = self.entries.partition_point(|(version, _)| *version <= position.version);
        let (mut deltas, mut version) = (Vec::new(), position.version);
        for (entry, changes) in self.entries.range(first..) {
            if !deltas.is_empty() && deltas.len() + changes.len() > DELTAS_AT_A_TIME {
                break;
            }
            deltas.extend_from_slice(changes);
            version = *entry;
        }
        let position = MetadataPosition { controller_epoch: newest.controller_epoch, version };
        News::Deltas { position, deltas }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{BrokerEpoch, BrokerId};

    fn at(epoch: i32, version: i64) -> MetadataPosition {
        MetadataPosition { controller_epoch: ControllerEpoch(epoch), version }
    }

    fn gone(number: i64) -> MetadataDelta {
        MetadataDelta::BrokerGone { id: BrokerId(1), broker_epoch: BrokerEpoch(number) }
    }

    fn log() -> MetadataLog {
        MetadataLog::new(Arc::new(MetadataImage::default().after(&[], at(3, 100)).unwrap()))
    }

    fn write(log: &mut MetadataLog, version: i64, deltas: &[MetadataDelta]) {
        let image = log.image().after(deltas, at(3, version)).unwrap();
        log.append(deltas.into(), Arc::new(image));
    }

    #[test]
    fn a_follower_is_told_what_it_misses_and_nothing_else() {
        let mut log = log();
        assert_eq!(log.news_since(at(3, 100)), News::Nothing);
        write(&mut log, 105, &[gone(1), gone(2)]);
        write(&mut log, 109, &[gone(3)]);
        let all = News::Deltas { position: at(3, 109), deltas: vec![gone(1), gone(2), gone(3)] };
        assert_eq!(log.news_since(at(3, 100)), all);
        let rest = News::Deltas { position: at(3, 109), deltas: vec![gone(3)] };
        assert_eq!(log.news_since(at(3, 105)), rest);
        assert_eq!(log.news_since(at(3, 109)), News::Nothing);
    }

    #[test]
    fn who_comes_from_another_controller_gets_everything() {
        let mut log = log();
        write(&mut log, 105, &[gone(1)]);
        for position in [at(-1, -1), at(2, 103), at(2, 105), at(4, 105), at(3, 99), at(3, 106)] {
            assert!(
                matches!(log.news_since(position), News::Snapshot(image) if image.position == at(3, 105))
            );
        }
    }

    #[test]
    fn who_is_too_far_behind_gets_everything() {
        let mut log = log();
        let many = vec![gone(1); DELTAS_AT_MOST / 2];
        for version in [101, 102, 103] {
            write(&mut log, version, &many);
        }
        assert!(matches!(log.news_since(at(3, 100)), News::Snapshot(_)));
        assert!(
            matches!(log.news_since(at(3, 101)), News::Deltas { position, .. } if position == at(3, 102))
        );
        assert!(
            matches!(log.news_since(at(3, 102)), News::Deltas { position, .. } if position == at(3, 103))
        );
    }

    #[test]
    fn any_way_through_the_log_ends_at_the_same_image() {
        for seed in 0..200_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut draw = |limit: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % limit
            };
            let mut log = log();
            let mut follower = MetadataImage::default();
            let mut version = 100;
            for _ in 0..50 {
                if draw(2) == 0 {
                    version += 1 + draw(5) as i64;
                    let configs = [("k".to_owned(), version.to_string())].into();
                    let broker = BrokerId(draw(4) as i32);
                    write(&mut log, version, &[MetadataDelta::BrokerConfigs { broker, configs }]);
                } else {
                    follower = match log.news_since(follower.position) {
                        News::Nothing => follower,
                        News::Deltas { position, deltas } => follower.after(&deltas, position).unwrap(),
                        News::Snapshot(image) => MetadataImage::default()
                            .after(&MetadataDelta::snapshot(&image), image.position)
                            .unwrap(),
                    };
                    assert_eq!(follower, **log.image());
                }
            }
        }
    }
}
