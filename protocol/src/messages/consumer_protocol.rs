//! What consumers put into the bytes of JoinGroup and SyncGroup: which topics each wants, and what each gets. The
//! coordinator reads it only to know what a group is subscribed to. Versions 0 to 3, each behind its number.

use bytes::Bytes;

use crate::wire::{DecodeError, Decoder, Message};

crate::schema! {
    /// What a consumer wants.
    pub struct ConsumerProtocolSubscription (versions 0..=3, flexible ..0) {
        /// The topics that it is subscribed to.
        topics: Vec<String>;
        /// The assignor's own.
        user_data: Option<Bytes>;
        /// The partitions that it has (KIP-429).
        owned_partitions: Vec<ConsumerProtocolTopicPartitions>, versions 1.., ignorable true;
        /// The generation in which it got them, -1 for none (KIP-792).
        generation_id: i32 = -1, versions 2.., ignorable true;
        /// Its rack (KIP-881).
        rack_id: Option<String>, versions 3.., nullable 3.., ignorable true;
    }

    /// What a consumer gets.
    pub struct ConsumerProtocolAssignment (versions 0..=3, flexible ..0) {
        /// The partitions.
        assigned_partitions: Vec<ConsumerProtocolTopicPartitions>;
        /// The assignor's own.
        user_data: Option<Bytes>;
    }

    /// Partitions of one topic.
    pub struct ConsumerProtocolTopicPartitions {
        /// Topic name.
        topic: String;
        /// Partition indexes.
        partitions: Vec<i32>;
    }
}

/// Reads a message of the consumers' protocol: its version, then itself. A newer version is read as the newest known, as
/// Kafka does: new fields only ever come at the end.
///
/// # Errors
/// Bytes that are no such message.
pub fn decode_consumer_protocol<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let version = decoder.get_i16()?.min(*M::VERSIONS.end());
    M::decode(version, &mut decoder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::encode_versioned;

    #[test]
    fn a_newer_version_is_read_as_far_as_it_is_known() {
        let subscription = ConsumerProtocolSubscription {
            topics: vec!["a".to_owned()],
            generation_id: 4,
            rack_id: Some("r".to_owned()),
            ..ConsumerProtocolSubscription::default()
        };
        let mut bytes = encode_versioned(&subscription, 3).expect("it fits").to_vec();
        bytes[1] = 9;
        bytes.extend([1, 2, 3]);
        assert_eq!(decode_consumer_protocol(&bytes.into()), Ok(subscription));
        assert!(decode_consumer_protocol::<ConsumerProtocolSubscription>(&Bytes::new()).is_err());
        assert!(
            decode_consumer_protocol::<ConsumerProtocolSubscription>(&Bytes::from_static(&[255; 9])).is_err()
        );
    }
}
