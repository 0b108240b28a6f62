//! The decoders of what the log reads from disk, for [`crate::fuzzing`]. Owns no decoder.

use super::{checkpoint, meta_properties, names, producer_snapshot, producer_state::ProducerStates};
use crate::{
    observe::EpochStart,
    types::{BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition},
};
use sillon_runtime::Monotonic;
use std::collections::BTreeMap;

pub(crate) fn offset_checkpoint(bytes: &[u8]) {
    let _refused = checkpoint::decode_offsets(bytes);
}

pub(crate) fn epoch_checkpoint(bytes: &[u8]) {
    let _refused = checkpoint::decode_epochs(bytes);
}

pub(crate) fn partition_metadata(bytes: &[u8]) {
    let _refused = checkpoint::decode_topic_id(bytes);
}

pub(crate) fn meta_properties(bytes: &[u8]) {
    let _refused = meta_properties::decode(bytes);
}

pub(crate) fn producer_snapshot(bytes: &[u8]) {
    let _refused = producer_snapshot::decode(bytes, Monotonic(0));
}

pub(crate) fn directory_name(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    let _other = names::parse_partition_directory(&name);
    let _other = names::parse_file_name(&name, names::LOG_SUFFIX);
    let _other = names::is_deleted_directory(&name);
}

/// One file of each kind.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let partition = TopicPartition::new("topic", 3);
    let epochs = [EpochStart { epoch: LeaderEpoch(2), start_offset: Offset(7) }];
    vec![
        checkpoint::encode_offsets(&BTreeMap::from([(partition, Offset(5))])),
        checkpoint::encode_epochs(&epochs),
        checkpoint::encode_topic_id(TopicId::default()),
        meta_properties::encode(BrokerId(1), "cluster"),
        producer_snapshot::encode(&ProducerStates::default()),
        b"topic-3".to_vec(),
    ]
}
