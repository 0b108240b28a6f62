//! Metadata deltas as bytes, for the way from the controller to brokers. The only place of the broker that names
//! bincode. What comes from outside never panics, and allocates no more than a few times what arrived.

use crate::metadata::MetadataDelta;
use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bytes::Bytes;

/// The largest payload: metadata of some hundred thousand partitions.
pub const MAX_PAYLOAD_BYTES: usize = 96 << 20;

type Format = Configuration<LittleEndian, Varint, Limit<MAX_PAYLOAD_BYTES>>;
const FORMAT: Format = bincode::config::standard().with_limit::<MAX_PAYLOAD_BYTES>();

/// Bytes that are no deltas, or deltas that are too many.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They cannot be read.
    #[error("not metadata: {0}")]
    Undecodable(String),
    /// They go on after the end.
    #[error("not metadata: {0} bytes are left over")]
    LeftOver(usize),
    /// They do not fit into one answer.
    #[error("the metadata does not fit into {MAX_PAYLOAD_BYTES} bytes: {0}")]
    TooLarge(String),
}

/// Deltas as bytes.
///
/// # Errors
/// [`CodecError::TooLarge`].
pub fn encode(deltas: &[MetadataDelta]) -> Result<Bytes, CodecError> {
    let bytes = bincode::serde::encode_to_vec(deltas, FORMAT);
    let bytes = bytes.map_err(|error| CodecError::TooLarge(error.to_string()))?;
    if bytes.len() > MAX_PAYLOAD_BYTES {
        return Err(CodecError::TooLarge(format!("they are {}", bytes.len())));
    }
    Ok(bytes.into())
}

/// The deltas that [`encode`] wrote.
///
/// # Errors
/// [`CodecError::Undecodable`], [`CodecError::LeftOver`].
pub fn decode(payload: &[u8]) -> Result<Vec<MetadataDelta>, CodecError> {
    let (deltas, read) = bincode::serde::decode_from_slice(payload, FORMAT)
        .map_err(|error| CodecError::Undecodable(error.to_string()))?;
    match payload.len() - read {
        0 => Ok(deltas),
        left_over => Err(CodecError::LeftOver(left_over)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metadata::{BrokerImage, Endpoint, PartitionImage, TopicImage},
        types::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId, Uuid},
    };
    use proptest::prelude::*;
    use std::{collections::BTreeMap, sync::Arc};

    fn deltas() -> Vec<MetadataDelta> {
        let state = PartitionImage {
            leader: Some(BrokerId(2)),
            leader_epoch: LeaderEpoch(3),
            partition_epoch: PartitionEpoch(4),
            replicas: vec![BrokerId(2), BrokerId(1)],
            adding: vec![BrokerId(1)],
            removing: Vec::new(),
            isr: vec![BrokerId(2)],
            eligible_leader_replicas: Vec::new(),
            last_known_leader: None,
            unproven: Vec::new(),
        };
        let id = TopicId(Uuid::from_u128(9));
        let configs = BTreeMap::from([("retention.ms".to_owned(), "-1".to_owned())]);
        let topic = TopicImage { id, partitions: vec![state.clone(); 3], configs: configs.clone() };
        let endpoint = Endpoint { listener: "PLAINTEXT".into(), host: "n0".into(), port: 9092 };
        let broker = BrokerImage {
            broker_epoch: BrokerEpoch(77),
            endpoints: vec![endpoint],
            rack: Some("a".into()),
            unclean: true,
            registration: 2,
            shutting_down: false,
        };
        vec![
            MetadataDelta::Cluster { cluster_id: "c".into() },
            MetadataDelta::Controller { broker: BrokerId(1) },
            MetadataDelta::Broker { id: BrokerId(1), broker: Arc::new(broker) },
            MetadataDelta::BrokerGone { id: BrokerId(3), broker_epoch: BrokerEpoch(5) },
            MetadataDelta::Topic { name: "t".into(), topic: Arc::new(topic) },
            MetadataDelta::Partitions { id, partitions: vec![(0, state)] },
            MetadataDelta::TopicConfigs { id, configs: configs.clone() },
            MetadataDelta::BrokerConfigs { broker: BrokerId(-1), configs },
            MetadataDelta::TopicGone { id },
        ]
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = encode(&deltas()).unwrap();
        assert_eq!(decode(&bytes), Ok(deltas()));
        assert_eq!(decode(&encode(&[]).unwrap()), Ok(Vec::new()));
    }

    #[test]
    fn cut_and_changed_bytes_are_an_error_or_other_deltas_and_never_a_panic() {
        let good = encode(&deltas()).unwrap();
        for position in 0..good.len() {
            assert!(decode(&good[..position]).is_err(), "cut at {position}");
            for change in [1, 0x80, 0xff] {
                let mut bad = good.to_vec();
                bad[position] ^= change;
                let _ = decode(&bad);
            }
        }
        let mut longer = good.to_vec();
        longer.push(0);
        assert_eq!(decode(&longer), Err(CodecError::LeftOver(1)));
    }

    #[test]
    fn a_length_that_is_claimed_is_not_believed() {
        // A list of 2^63 deltas, of which none comes.
        assert!(decode(&[253, 0, 0, 0, 0, 0, 0, 0, 0x80]).is_err());
        // A list of a million deltas.
        assert!(decode(&[252, 0x40, 0x42, 0x0f, 0]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
