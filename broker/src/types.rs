//! The words of the field as types, so that an offset is never passed where an epoch belongs. Owns no behaviour.

use std::{fmt, sync::Arc};

pub use uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A record's place in its partition's log, counted from 0.
    Offset(i64)
}
number! {
    /// Counts the leaders of a partition. Each leader change makes it larger.
    LeaderEpoch(i32)
}
number! {
    /// A broker's number in its cluster (`broker.id`).
    BrokerId(i32)
}
number! {
    /// Names one registration of a broker: the czxid of its node `/brokers/ids/N` (KIP-380). A broker that registers
    /// again has a larger one.
    BrokerEpoch(i64)
}
number! {
    /// Counts the controllers of a cluster. What an older controller writes is refused.
    ControllerEpoch(i32)
}
number! {
    /// Counts the changes of a partition's true state: the version of its state node. Each change is a compare-and-set
    /// on it (I33).
    PartitionEpoch(i32)
}
number! {
    /// Names an idempotent producer.
    ProducerId(i64)
}

impl Offset {
    /// The first offset of every new log.
    pub const ZERO: Offset = Offset(0);

    /// The offset `count` records later.
    pub fn plus(self, count: i64) -> Offset {
        Offset(self.0.checked_add(count).expect("a log never reaches 2^63 records"))
    }
}

impl LeaderEpoch {
    /// Stands for "not known", as on the wire.
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

impl BrokerId {
    /// Stands for "no broker", as on the wire and in Kafka's nodes.
    pub const NONE: BrokerId = BrokerId(-1);
}

impl BrokerEpoch {
    /// Stands for "not registered", as on the wire.
    pub const NONE: BrokerEpoch = BrokerEpoch(-1);
}

impl ProducerId {
    /// Stands for "not idempotent", as on the wire.
    pub const NONE: ProducerId = ProducerId(-1);
}

/// A topic's id, given at creation and never used again (KIP-516).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct TopicId(pub Uuid);

impl fmt::Display for TopicId {
    /// As Kafka prints it: URL-safe base64 of the sixteen bytes, without padding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let bits = self.0.as_u128();
        for index in 0..22 {
            // 22 digits of 6 bits hold 132 bits: the last digit carries 2 bits and 4 zeros.
            let digit = if index < 21 { bits >> (122 - 6 * index) } else { bits << 4 };
            write!(f, "{}", char::from(ALPHABET[(digit & 63) as usize]))?;
        }
        Ok(())
    }
}

impl std::str::FromStr for TopicId {
    type Err = InvalidTopicId;

    fn from_str(text: &str) -> Result<TopicId, InvalidTopicId> {
        if text.len() != 22 {
            return Err(InvalidTopicId);
        }
        let mut bits = 0u128;
        for (index, byte) in text.bytes().enumerate() {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return Err(InvalidTopicId),
            };
            bits =
                if index < 21 { bits << 6 | u128::from(digit) } else { bits << 2 | u128::from(digit >> 4) };
        }
        Ok(TopicId(Uuid::from_u128(bits)))
    }
}

/// The text is not a topic id: 22 characters of URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a topic id: 22 characters of URL-safe base64 are expected")]
pub struct InvalidTopicId;

/// One partition of a topic. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Names a partition.
    pub fn new(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_ids_print_and_parse_as_kafka_does() {
        // Uuid.ONE_UUID and a value printed by Kafka's own Uuid class.
        assert_eq!(TopicId(Uuid::from_u128(1)).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let id = TopicId(Uuid::from_u128(bits));
            assert_eq!(id.to_string().parse::<TopicId>(), Ok(id));
        }
        assert_eq!("AAAA".parse::<TopicId>(), Err(InvalidTopicId));
    }
}
