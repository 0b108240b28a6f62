//! What the log says of groups and offsets, record by record, until it was read to the end. Owns the reading of records: a
//! later one of the same key takes the place of an earlier one, in whatever order compaction has left them (B58).
//!
//! A record that cannot be read is left out, and so is one of a newer protocol: one bad record must not cost the others.

use super::{
    GroupId, Now, Shard,
    classic::{Group, GroupState},
    facts::GroupFact,
    member::Member,
    offsets::CommittedOffset,
};
use crate::{
    config::group::GroupConfig,
    types::{Offset, TopicPartition},
};
use bytes::Bytes;
use sillon_protocol::{
    messages::{
        GroupMetadataValue, JoinGroupRequestProtocol, MemberMetadata, OffsetCommitValue, OffsetsTopicKey,
        decode_versioned,
    },
    wire::DecodeError,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Stands for "no time of its own" in a record.
const NO_TIMESTAMP: i64 = -1;

/// What was read so far.
#[derive(Debug, Default)]
pub struct Loader {
    groups: BTreeMap<GroupId, GroupMetadataValue>,
    offsets: BTreeMap<GroupId, BTreeMap<TopicPartition, CommittedOffset>>,
    newest_ms: Option<i64>,
}

impl Loader {
    /// Reads a record.
    ///
    /// # Errors
    /// Bytes that are no record of a group; they change nothing.
    pub fn add(&mut self, key: &Bytes, value: Option<&Bytes>, timestamp_ms: i64) -> Result<(), DecodeError> {
        self.newest_ms = self.newest_ms.max(Some(timestamp_ms));
        match OffsetsTopicKey::decode(key)? {
            OffsetsTopicKey::OffsetCommit(key) => {
                let group: GroupId = key.group.into();
                let partition = TopicPartition::new(&key.topic, key.partition);
                match value {
                    Some(value) => {
                        let committed = offset(decode_versioned(value)?);
                        self.offsets.entry(group).or_default().insert(partition, committed);
                    }
                    None => {
                        if let Some(offsets) = self.offsets.get_mut(&group) {
                            offsets.remove(&partition);
                        }
                    }
                }
            }
            OffsetsTopicKey::GroupMetadata(key) => match value {
                Some(value) => {
                    let value = decode_versioned(value)?;
                    self.groups.insert(key.group.into(), value);
                }
                None => {
                    self.groups.remove(key.group.as_str());
                }
            },
            OffsetsTopicKey::Unknown(kind) => {
                tracing::debug!(kind, "a record of a newer protocol is left out")
            }
        }
        Ok(())
    }

    /// The shard, with all that was read up to `up_to`.
    pub fn finish(self, settings: Arc<GroupConfig>, is_observed: bool, up_to: Offset, now: Now) -> Shard {
        let mut shard = Shard::new(settings, is_observed, self.newest_ms, now);
        let mut counts = (0, 0);
        for (id, value) in self.groups {
            let group = group(id.clone(), value);
            shard.adopt(group, now);
        }
        for (id, offsets) in self.offsets {
            counts.1 += offsets.len();
            if !offsets.is_empty() {
                shard.adopt_offsets(&id, offsets);
            }
        }
        counts.0 = shard.groups.len();
        shard.desk.tell(|| GroupFact::Loaded { groups: counts.0, offsets: counts.1, up_to });
        shard
    }
}

impl Shard {
    fn adopt(&mut self, mut group: Group, now: Now) {
        let ids: Vec<_> = group.members.keys().cloned().collect();
        // Nothing is known of when they were last heard of.
        ids.iter().for_each(|id| group.touch(id, &mut self.desk, now));
        let id = group.id.clone();
        self.desk.tell(|| match group.state {
            GroupState::Empty => GroupFact::FoundEmpty {
                group: id.clone(),
                generation: group.generation,
                since_ms: group.state_since_ms,
            },
            _ => GroupFact::Found { group: id.clone(), generation: group.generation_fact() },
        });
        self.groups.insert(id, group);
    }

    fn adopt_offsets(&mut self, id: &GroupId, offsets: BTreeMap<TopicPartition, CommittedOffset>) {
        for (partition, committed) in &offsets {
            let (group, partition, offset) = (id.clone(), partition.clone(), committed.offset);
            self.desk.tell(|| GroupFact::OffsetFound { group, partition, offset });
        }
        let group = self.groups.entry(id.clone()).or_insert_with(|| Group::new(id.clone(), None));
        group.offsets.committed = offsets;
    }
}

fn offset(value: OffsetCommitValue) -> CommittedOffset {
    CommittedOffset {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata,
        commit_ms: value.commit_timestamp,
        // Taken as a time, the sentinel would be long past (B35).
        expire_ms: Some(value.expire_timestamp).filter(|expire_ms| *expire_ms != NO_TIMESTAMP),
    }
}

fn group(id: GroupId, value: GroupMetadataValue) -> Group {
    let since = Some(value.current_state_timestamp).filter(|since| *since != NO_TIMESTAMP);
    let mut group = Group::new(id, since);
    group.generation = value.generation;
    group.protocol_type = Some(value.protocol_type).filter(|kind| !kind.is_empty());
    let Some(protocol) = value.protocol.filter(|_| !value.members.is_empty()) else { return group };
    for member in value.members {
        let is_twice = group.members.contains_key(member.member_id.as_str())
            || member.group_instance_id.as_deref().is_some_and(|name| group.instances.contains_key(name));
        if is_twice {
            tracing::warn!(group = %group.id, member = member.member_id, "a member that is there twice is left out");
            continue;
        }
        group.add(loaded_member(member, &protocol));
    }
    group.leader = value.leader.map(Into::into);
    group.protocol = Some(protocol);
    group.subscribed = group.subscriptions();
    group.state = GroupState::Stable;
    group
}

fn loaded_member(member: MemberMetadata, protocol: &str) -> Member {
    let millis = |timeout: i32| Duration::from_millis(u64::try_from(timeout).unwrap_or(0));
    let session_timeout = millis(member.session_timeout);
    let rebalance_timeout = match member.rebalance_timeout {
        // A version that has none.
        0 => session_timeout,
        timeout => millis(timeout),
    };
    Member {
        id: member.member_id.into(),
        instance: member.group_instance_id.map(Into::into),
        client_id: member.client_id,
        client_host: member.client_host,
        session_timeout,
        rebalance_timeout,
        protocols: vec![JoinGroupRequestProtocol {
            name: protocol.to_owned(),
            metadata: member.subscription,
        }],
        assignment: member.assignment,
        joining: None,
        syncing: None,
        is_new: false,
        commits_over: 0,
        deadline: Default::default(),
        timer: None,
    }
}
