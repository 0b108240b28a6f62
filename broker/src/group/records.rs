//! The records that a coordinator writes, in Kafka's format. Owns which version is written; the layout is the protocol
//! crate's.

use super::{classic::Group, member::Member, offsets::CommittedOffset};
use crate::types::TopicPartition;
use bytes::Bytes;
use sillon_protocol::{
    messages::{
        GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue,
        encode_versioned,
    },
    wire::EncodeError,
};
use std::{collections::BTreeMap, time::Duration};

/// The newest versions that brokers before the flexible ones can read, as Kafka writes them.
const GROUP_VERSION: i16 = 3;
const OFFSET_VERSION: i16 = 3;
/// The version that holds the time at which an offset goes.
const EXPIRING_OFFSET_VERSION: i16 = 1;

/// A record of the offsets topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Its key.
    pub key: Bytes,
    /// Its value; none to remove what was there.
    pub value: Option<Bytes>,
}

/// Records as bytes for fuzzing: how long the key is, the key, the value.
pub(crate) fn sample_records() -> Vec<Vec<u8>> {
    let text = |text: &str| text.to_owned();
    let member = MemberMetadata {
        member_id: text("m"),
        group_instance_id: Some(text("i")),
        subscription: Bytes::from_static(&[0, 1, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255, 0, 0, 0, 0]),
        ..MemberMetadata::default()
    };
    let group = GroupMetadataValue {
        protocol_type: text("consumer"),
        protocol: Some(text("range")),
        leader: Some(text("m")),
        members: vec![member],
        ..GroupMetadataValue::default()
    };
    let offset = OffsetCommitValue { metadata: text("m"), ..OffsetCommitValue::default() };
    let keys = [
        GroupMetadataKey { group: text("g") }.to_record(),
        OffsetCommitKey { group: text("g"), topic: text("t"), partition: 0 }.to_record(),
    ];
    let values = [encode_versioned(&group, GROUP_VERSION), encode_versioned(&offset, OFFSET_VERSION)];
    let sample = |(key, value): (Result<Bytes, _>, Result<Bytes, _>)| {
        let (key, value): (Bytes, Bytes) = (key.ok()?, value.ok()?);
        Some([&[u8::try_from(key.len()).ok()?], &key[..], &value].concat())
    };
    keys.into_iter().zip(values).filter_map(sample).collect()
}

/// A generation of a group, with these assignments (members without one get nothing).
pub(super) fn generation(
    group: &Group,
    assignments: Option<&BTreeMap<super::MemberId, Bytes>>,
    now_ms: i64,
) -> Result<GroupRecord, EncodeError> {
    let protocol = group.protocol.as_deref();
    let member = |member: &Member| MemberMetadata {
        member_id: member.id.to_string(),
        group_instance_id: member.instance.as_deref().map(str::to_owned),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        rebalance_timeout: millis(member.rebalance_timeout),
        session_timeout: millis(member.session_timeout),
        subscription: member.metadata(protocol),
        assignment: match assignments {
            Some(assignments) => assignments.get(&member.id).cloned().unwrap_or_default(),
            None => member.assignment.clone(),
        },
    };
    let value = GroupMetadataValue {
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        generation: group.generation,
        protocol: group.protocol.clone(),
        leader: group.leader.as_deref().map(str::to_owned),
        current_state_timestamp: now_ms,
        members: group.members.values().map(member).collect(),
    };
    let key = GroupMetadataKey { group: group.id.to_string() }.to_record()?;
    Ok(GroupRecord { key, value: Some(encode_versioned(&value, GROUP_VERSION)?) })
}

/// A group is gone.
pub(super) fn group_removed(group: &str) -> Result<GroupRecord, EncodeError> {
    Ok(GroupRecord { key: GroupMetadataKey { group: group.to_owned() }.to_record()?, value: None })
}

/// A committed offset.
pub(super) fn offset(
    group: &str,
    partition: &TopicPartition,
    committed: &CommittedOffset,
) -> Result<GroupRecord, EncodeError> {
    let version = if committed.expire_ms.is_some() { EXPIRING_OFFSET_VERSION } else { OFFSET_VERSION };
    let value = OffsetCommitValue {
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: committed.metadata.clone(),
        commit_timestamp: committed.commit_ms,
        expire_timestamp: committed.expire_ms.unwrap_or(-1),
        ..OffsetCommitValue::default()
    };
    Ok(GroupRecord { key: offset_key(group, partition)?, value: Some(encode_versioned(&value, version)?) })
}

/// An offset is gone.
pub(super) fn offset_removed(group: &str, partition: &TopicPartition) -> Result<GroupRecord, EncodeError> {
    Ok(GroupRecord { key: offset_key(group, partition)?, value: None })
}

fn offset_key(group: &str, partition: &TopicPartition) -> Result<Bytes, EncodeError> {
    let (group, topic) = (group.to_owned(), partition.topic.to_string());
    OffsetCommitKey { group, topic, partition: partition.partition }.to_record()
}

/// A timeout, as it came in: an `i32` that is not negative.
fn millis(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}
