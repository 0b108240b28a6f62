//! Names of files and directories. Owns Kafka's naming; never touches a disk.
//!
//! A name read from a disk or the network becomes a path only through here, so that none can lead out of a log
//! directory.

use super::error::InvalidTopicName;
use crate::{
    metadata::names::check_topic_name,
    types::{Offset, TopicPartition},
};

/// Batches.
pub(super) const LOG_SUFFIX: &str = ".log";
/// Offset index.
pub(super) const INDEX_SUFFIX: &str = ".index";
/// Time index.
pub(super) const TIME_INDEX_SUFFIX: &str = ".timeindex";
/// Aborted transactions, written by Kafka only.
pub(super) const TRANSACTION_INDEX_SUFFIX: &str = ".txnindex";
/// Producer table.
pub(super) const SNAPSHOT_SUFFIX: &str = ".snapshot";
/// A file that is waiting to be removed.
pub(super) const DELETED_SUFFIX: &str = ".deleted";
/// A compaction's output that was never put in place.
pub(super) const CLEANED_SUFFIX: &str = ".cleaned";
/// A compaction's output that was being put in place.
pub(super) const SWAP_SUFFIX: &str = ".swap";
/// A file that is written beside the one it replaces.
pub(super) const BESIDE_SUFFIX: &str = ".tmp";
/// The epochs' starts, in the partition's directory.
pub(super) const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// The topic id, in the partition's directory.
pub(super) const PARTITION_METADATA: &str = "partition.metadata";
/// Present while a sync has failed and the bytes have not been written again (ours; Kafka ignores it).
pub(super) const SYNC_FAILED: &str = "sync-failed";
/// Ends the name of a partition directory that is waiting to be removed.
pub(super) const DELETE_DIRECTORY_SUFFIX: &str = "-delete";

/// The longest name most file systems take.
const FILE_NAME_BYTES: usize = 255;

/// The name of a file that starts at `base`.
pub(super) fn file_name(base: Offset, suffix: &str) -> String {
    format!("{:020}{suffix}", base.0)
}

/// The offset in a name made by [`file_name`]; none where it was not.
pub(super) fn parse_file_name(name: &str, suffix: &str) -> Option<Offset> {
    let digits = name.strip_suffix(suffix)?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok().map(Offset))
        .flatten()
}

/// Checks a topic's name against Kafka's rule.
///
/// # Errors
/// [`InvalidTopicName`].
pub fn validate_topic_name(name: &str) -> Result<(), InvalidTopicName> {
    check_topic_name(name).map_err(|_| InvalidTopicName(name.to_owned()))
}

/// The name of a partition's directory.
///
/// # Errors
/// [`InvalidTopicName`].
pub(super) fn partition_directory(partition: &TopicPartition) -> Result<String, InvalidTopicName> {
    validate_topic_name(&partition.topic)?;
    assert!(partition.partition >= 0, "partitions are counted from 0");
    Ok(partition.to_string())
}

/// The partition whose directory has this name; none where it is no partition's.
pub(super) fn parse_partition_directory(name: &str) -> Option<TopicPartition> {
    let (topic, number) = name.rsplit_once('-')?;
    validate_topic_name(topic).ok()?;
    let partition = number.parse::<i32>().ok().filter(|number| *number >= 0)?;
    let partition = TopicPartition::new(topic, partition);
    // One directory has one name: "t-007" is not "t-7".
    (partition.to_string() == name).then_some(partition)
}

/// The name a partition's directory gets when it is deleted. Long topic names are cut so that it fits.
pub(super) fn deleted_directory(partition: &TopicPartition, unique: u128) -> String {
    let suffix = format!("-{}.{unique:032x}{DELETE_DIRECTORY_SUFFIX}", partition.partition);
    let topic = &partition.topic[..partition.topic.len().min(FILE_NAME_BYTES - suffix.len())];
    format!("{topic}{suffix}")
}

/// Whether a directory with this name is waiting to be removed.
pub(super) fn is_deleted_directory(name: &str) -> bool {
    let Some(rest) = name.strip_suffix(DELETE_DIRECTORY_SUFFIX) else { return false };
    let Some((_, unique)) = rest.rsplit_once('.') else { return false };
    unique.len() == 32 && unique.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_have_twenty_digits() {
        assert_eq!(file_name(Offset(42), LOG_SUFFIX), "00000000000000000042.log");
        assert_eq!(parse_file_name("00000000000000000042.log", LOG_SUFFIX), Some(Offset(42)));
        for wrong in
            ["42.log", "0000000000000000004x.log", "00000000000000000042.index", "99999999999999999999.log"]
        {
            assert_eq!(parse_file_name(wrong, LOG_SUFFIX), None, "{wrong}");
        }
    }

    #[test]
    fn no_topic_name_leads_out_of_the_directory() {
        for wrong in ["", ".", "..", "a/b", "../a", "a\0", "ä", &"a".repeat(250)] {
            assert!(validate_topic_name(wrong).is_err(), "{wrong}");
            assert!(partition_directory(&TopicPartition::new(wrong, 0)).is_err(), "{wrong}");
        }
        for right in ["a", "...", "A.b_c-9", &"a".repeat(249)] {
            assert!(validate_topic_name(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn directory_names_give_their_partition_back() {
        let partition = TopicPartition::new("my-topic-1", 12);
        assert_eq!(parse_partition_directory("my-topic-1-12"), Some(partition));
        for wrong in ["topic", "topic-", "topic-01", "topic-+1", "-1", "..-1", "topic-99999999999"] {
            assert_eq!(parse_partition_directory(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn deleted_directories_are_recognised_and_fit_the_file_system() {
        let name = deleted_directory(&TopicPartition::new(&"t".repeat(249), i32::MAX), u128::MAX);
        assert!(name.len() <= FILE_NAME_BYTES && is_deleted_directory(&name));
        assert!(parse_partition_directory(&name).is_none());
        assert!(!is_deleted_directory("my-delete") && !is_deleted_directory("a.b-delete"));
    }
}
