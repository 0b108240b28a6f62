//! The records of the topic `__consumer_offsets`, in which groups and their offsets live. Key and value each stand behind
//! a number: of a value its version, of a key what kind of record it is.

use bytes::Bytes;
use uuid::Uuid;

use crate::wire::{DecodeError, Decoder, EncodeError, Encoder, Message};

/// The key of an offset, as it was in old logs.
const OLD_OFFSET_COMMIT: i16 = 0;
/// The key of an offset.
const OFFSET_COMMIT: i16 = 1;
/// The key of a group.
const GROUP_METADATA: i16 = 2;

crate::schema! {
    /// Which group's offset of which partition.
    pub struct OffsetCommitKey (versions 0..=1, flexible ..0) {
        /// Group id.
        group: String;
        /// Topic name.
        topic: String;
        /// Partition index.
        partition: i32;
    }

    /// A committed offset.
    pub struct OffsetCommitValue (versions 0..=4, flexible 4..) {
        /// The offset to read next.
        offset: i64;
        /// The leader epoch of the last record read, -1 if not known (KIP-320).
        leader_epoch: i32 = -1, versions 3.., ignorable true;
        /// What the consumer noted along with it.
        metadata: String;
        /// When it was committed, in milliseconds since 1970.
        commit_timestamp: i64;
        /// When it goes, in milliseconds since 1970; -1 where the group's retention decides.
        expire_timestamp: i64 = -1, versions 1..=1, ignorable true;
        /// The topic's id, nil if not known.
        topic_id: Uuid, versions 4.., tag 0, ignorable true;
    }

    /// Which group.
    pub struct GroupMetadataKey (versions 2..=2, flexible ..0) {
        /// Group id.
        group: String;
    }

    /// A generation of a group.
    pub struct GroupMetadataValue (versions 0..=4, flexible 4..) {
        /// What kind of group; empty for one that only keeps offsets.
        protocol_type: String;
        /// The generation.
        generation: i32;
        /// The protocol that was chosen, null where the group has no members.
        protocol: Option<String>;
        /// The member that assigns, null where the group has no members.
        leader: Option<String>;
        /// Since when the group has been in its state, in milliseconds since 1970, -1 if not known.
        current_state_timestamp: i64 = -1, versions 2.., ignorable true;
        /// Its members.
        members: Vec<MemberMetadata>;
    }

    /// A member.
    pub struct MemberMetadata {
        /// Its id.
        member_id: String;
        /// What the user named it.
        group_instance_id: Option<String>, versions 3.., nullable 3.., ignorable true;
        /// The client's name.
        client_id: String;
        /// The client's address.
        client_host: String;
        /// How long to wait for it in a rebalance, in milliseconds. Before version 1 that is the session timeout.
        rebalance_timeout: i32, versions 1.., ignorable true;
        /// After how long without a heartbeat it is gone, in milliseconds.
        session_timeout: i32;
        /// Its metadata for the protocol that was chosen.
        subscription: Bytes;
        /// Its assignment.
        assignment: Bytes;
    }
}

/// The key of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum OffsetsTopicKey {
    /// An offset.
    OffsetCommit(OffsetCommitKey),
    /// A group.
    GroupMetadata(GroupMetadataKey),
    /// Something else, by its number: newer protocols keep their records here too.
    Unknown(i16),
}

impl OffsetsTopicKey {
    /// Reads a key.
    ///
    /// # Errors
    /// Bytes that are no key.
    pub fn decode(bytes: &Bytes) -> Result<OffsetsTopicKey, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        match decoder.get_i16()? {
            kind @ (OLD_OFFSET_COMMIT | OFFSET_COMMIT) => {
                Message::decode(kind, &mut decoder).map(OffsetsTopicKey::OffsetCommit)
            }
            GROUP_METADATA => {
                Message::decode(GROUP_METADATA, &mut decoder).map(OffsetsTopicKey::GroupMetadata)
            }
            unknown => Ok(OffsetsTopicKey::Unknown(unknown)),
        }
    }
}

impl OffsetCommitKey {
    /// The key as it stands in a record.
    ///
    /// # Errors
    /// A name that is too long.
    pub fn to_record(&self) -> Result<Bytes, EncodeError> {
        encode_versioned(self, OFFSET_COMMIT)
    }
}

impl GroupMetadataKey {
    /// The key as it stands in a record.
    ///
    /// # Errors
    /// A name that is too long.
    pub fn to_record(&self) -> Result<Bytes, EncodeError> {
        encode_versioned(self, GROUP_METADATA)
    }
}

/// A message behind its version, as keys, values and the consumers' protocol are written.
///
/// # Errors
/// A message that the version cannot carry.
pub fn encode_versioned<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut encoder = Encoder::new();
    encoder.put_i16(version);
    message.encode(version, &mut encoder)?;
    Ok(encoder.buffer.freeze())
}

/// Reads a message behind its version.
///
/// # Errors
/// Bytes that are no such message, or a version that is not known.
pub fn decode_versioned<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let version = decoder.get_i16()?;
    M::decode(version, &mut decoder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::arbitrary::{Arbitrary, Random};

    fn check<M: Message + Arbitrary>() {
        let mut random = Random::new(1);
        for version in M::VERSIONS {
            for _ in 0..100 {
                let original: M = super::super::arbitrary::message(version, &mut random);
                let bytes = encode_versioned(&original, version).expect("the version can carry it");
                assert_eq!(decode_versioned::<M>(&bytes), Ok(original));
            }
        }
    }

    #[test]
    fn every_version_is_read_as_it_was_written() {
        check::<OffsetCommitKey>();
        check::<OffsetCommitValue>();
        check::<GroupMetadataKey>();
        check::<GroupMetadataValue>();
    }

    #[test]
    fn an_offset_looks_as_kafka_writes_it() {
        let key = OffsetCommitKey { group: "g".to_owned(), topic: "tt".to_owned(), partition: 3 };
        let bytes = key.to_record().expect("short names");
        assert_eq!(bytes[..], [0, 1, 0, 1, b'g', 0, 2, b't', b't', 0, 0, 0, 3]);
        assert_eq!(OffsetsTopicKey::decode(&bytes), Ok(OffsetsTopicKey::OffsetCommit(key)));

        let value = OffsetCommitValue {
            offset: 5,
            leader_epoch: 6,
            metadata: "m".to_owned(),
            commit_timestamp: 7,
            ..OffsetCommitValue::default()
        };
        let expected = [
            &[0, 3][..],               // version
            &[0, 0, 0, 0, 0, 0, 0, 5], // offset
            &[0, 0, 0, 6, 0, 1, b'm'], // leader epoch, metadata
            &[0, 0, 0, 0, 0, 0, 0, 7], // commit timestamp
        ];
        assert_eq!(encode_versioned(&value, 3).expect("it fits")[..], expected.concat());
    }

    #[test]
    fn a_group_looks_as_kafka_writes_it() {
        let key = GroupMetadataKey { group: "g".to_owned() };
        let bytes = key.to_record().expect("a short name");
        assert_eq!(bytes[..], [0, 2, 0, 1, b'g']);
        assert_eq!(OffsetsTopicKey::decode(&bytes), Ok(OffsetsTopicKey::GroupMetadata(key)));

        let member = MemberMetadata {
            member_id: "m".to_owned(),
            client_id: "c".to_owned(),
            client_host: "h".to_owned(),
            rebalance_timeout: 1,
            session_timeout: 2,
            subscription: Bytes::from_static(&[8]),
            assignment: Bytes::from_static(&[9]),
            ..MemberMetadata::default()
        };
        let value = GroupMetadataValue {
            protocol_type: "t".to_owned(),
            generation: 4,
            protocol: Some("p".to_owned()),
            leader: Some("m".to_owned()),
            current_state_timestamp: 5,
            members: vec![member],
        };
        let expected = [
            &[0, 3, 0, 1, b't', 0, 0, 0, 4][..],   // version, protocol type, generation
            &[0, 1, b'p', 0, 1, b'm'],             // protocol, leader
            &[0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1], // since when, one member
            &[0, 1, b'm', 255, 255, 0, 1, b'c', 0, 1, b'h'], // its id, no instance id, client, host
            &[0, 0, 0, 1, 0, 0, 0, 2],             // timeouts
            &[0, 0, 0, 1, 8, 0, 0, 0, 1, 9],       // subscription, assignment
        ];
        assert_eq!(encode_versioned(&value, 3).expect("it fits")[..], expected.concat());
    }

    #[test]
    fn records_of_newer_protocols_are_known_as_such() {
        assert_eq!(OffsetsTopicKey::decode(&Bytes::from_static(&[0, 3, 7])), Ok(OffsetsTopicKey::Unknown(3)));
        assert!(OffsetsTopicKey::decode(&Bytes::from_static(&[0])).is_err());
    }
}
