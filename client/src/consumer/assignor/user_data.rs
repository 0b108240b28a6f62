//! The user data of the sticky assignors, byte for byte as Kafka's Java client writes it. Owns both layouts; what cannot be
//! read counts as nothing, as there.

use crate::consumer::TopicPartition;
use bytes::Bytes;
use sillon_protocol::{
    schema,
    wire::{Decoder, Encoder, Message},
};
use std::collections::{BTreeMap, BTreeSet};

schema! {
    /// What a member of a sticky group had. Version 1 has the generation (KIP-341).
    pub struct StickyUserData (versions 0..=1, flexible ..0) {
        /// Its partitions.
        previous_assignment: Vec<StickyTopic>;
        /// In which generation it got them.
        generation: i32 = -1, versions 1..;
    }

    /// Partitions of one topic.
    pub struct StickyTopic {
        /// Topic name.
        topic: String;
        /// Partition indexes.
        partitions: Vec<i32>;
    }

    /// What a member of a cooperative group adds to its subscription: the generation.
    pub struct CooperativeUserData (versions 0..=0, flexible ..0) {
        /// In which generation it got what it owns.
        generation: i32 = -1;
    }
}

fn encode(message: &impl Message, version: i16) -> Option<Bytes> {
    let mut encoder = Encoder::new();
    // Only a topic name that no topic can have is too long for this.
    message.encode(version, &mut encoder).ok()?;
    Some(encoder.buffer.freeze())
}

/// What the sticky assignor adds.
pub(super) fn sticky(owned: &BTreeSet<TopicPartition>, generation: Option<i32>) -> Option<Bytes> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in owned {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    let previous_assignment = topics
        .into_iter()
        .map(|(topic, partitions)| StickyTopic { topic: topic.to_owned(), partitions })
        .collect();
    encode(&StickyUserData { previous_assignment, generation: generation.unwrap_or(-1) }, 1)
}

/// What a member of a sticky group had, and in which generation it got it.
pub(super) fn read_sticky(data: &Bytes) -> Option<(BTreeSet<TopicPartition>, Option<i32>)> {
    let read = |version| {
        let mut decoder = Decoder::new(data);
        StickyUserData::decode(version, &mut decoder).ok()
    };
    let found = read(1).or_else(|| read(0))?;
    let owned = found.previous_assignment.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition::new(&topic.topic, *partition))
    });
    Some((owned.collect(), Some(found.generation).filter(|generation| *generation >= 0)))
}

/// What the cooperative sticky assignor adds.
pub(super) fn cooperative(generation: Option<i32>) -> Option<Bytes> {
    encode(&CooperativeUserData { generation: generation.unwrap_or(-1) }, 0)
}

/// The generation that a member of a cooperative group states.
pub(super) fn read_cooperative(data: &Bytes) -> Option<i32> {
    let found = CooperativeUserData::decode(0, &mut Decoder::new(data)).ok()?;
    Some(found.generation).filter(|generation| *generation >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_java() {
        let owned = [TopicPartition::new("ab", 0), TopicPartition::new("ab", 2)].into();
        let bytes = sticky(&owned, Some(5)).expect("it fits");
        // One topic, its name's length in two bytes, its partitions in four each; then the generation.
        assert_eq!(&bytes[..], [0, 0, 0, 1, 0, 2, 97, 98, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5]);
        assert_eq!(read_sticky(&bytes), Some((owned.clone(), Some(5))));
        assert_eq!(
            read_sticky(&bytes.slice(..bytes.len() - 4)),
            Some((owned, None)),
            "as older members write it"
        );
        assert_eq!(&cooperative(Some(7)).expect("it fits")[..], [0, 0, 0, 7]);
        assert_eq!(read_cooperative(&Bytes::from_static(&[0, 0, 0, 7])), Some(7));
        assert_eq!((read_cooperative(&Bytes::new()), read_sticky(&Bytes::new())), (None, None));
    }
}
