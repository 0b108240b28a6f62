//! Small text files beside the logs. Owns Kafka's formats (version 0): offset checkpoints, `leader-epoch-checkpoint`,
//! `partition.metadata`. Pure but for [`read`]; files are replaced whole by [`sillon_runtime`]'s `replace` (I21).
//!
//! ```text
//!   0                    version          0              version: 0
//!   2                    entries          2              topic_id: 22 characters of base64
//!   topic 0 1042         offset           0 0            epoch, first offset
//!   topic 1 17                            3 1000
//! ```

use super::{error::LogError, names};
use crate::{
    observe::EpochStart,
    types::{LeaderEpoch, Offset, TopicId, TopicPartition},
};
use sillon_runtime::FileSystem;
use std::{collections::BTreeMap, fmt::Write, io, path::Path};

/// The offset up to which each log of a directory is known to be durable.
pub(super) const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// The high watermark of each log of a directory.
pub(super) const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// The start of each log of a directory where it is not the start of its first segment.
pub(super) const LOG_STARTS: &str = "log-start-offset-checkpoint";

/// The offset up to which each log of a directory was compacted.
pub(super) const CLEANED: &str = "cleaner-offset-checkpoint";

/// The largest file that is read: room for some hundred thousand partitions.
const LIMIT_BYTES: usize = 64 << 20;

/// What a checkpoint says, by partition.
pub(super) type Offsets = BTreeMap<TopicPartition, Offset>;

/// The bytes are not what the file should hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(super) struct Malformed {
    line: usize,
    problem: &'static str,
}

/// Reads a whole small file; none where there is no such file.
///
/// # Errors
/// [`LogError::Io`].
pub(super) async fn read(files: &dyn FileSystem, path: &Path) -> Result<Option<Vec<u8>>, LogError> {
    match files.read_small(path, LIMIT_BYTES).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LogError::io(path, "reading")(error)),
    }
}

/// An offset checkpoint as it is stored.
pub(super) fn encode_offsets(offsets: &Offsets) -> Vec<u8> {
    let mut text = format!("0\n{}\n", offsets.len());
    for (partition, offset) in offsets {
        writeln!(text, "{} {} {offset}", partition.topic, partition.partition)
            .expect("a string takes any text");
    }
    text.into_bytes()
}

/// The offset checkpoint in `bytes`.
pub(super) fn decode_offsets(bytes: &[u8]) -> Result<Offsets, Malformed> {
    let mut offsets = Offsets::new();
    parse(bytes, |fields| {
        let [topic, partition, offset] = fields else { return Err("three fields are expected") };
        names::validate_topic_name(topic).map_err(|_| "not a topic name")?;
        let partition = number::<i32>(partition)?;
        let offset = Offset(number(offset)?);
        match offsets.insert(TopicPartition::new(topic, partition), offset) {
            None => Ok(()),
            Some(_) => Err("a partition is there twice"),
        }
    })?;
    Ok(offsets)
}

/// The epochs of a log as they are stored.
pub(super) fn encode_epochs(epochs: &[EpochStart]) -> Vec<u8> {
    let mut text = format!("0\n{}\n", epochs.len());
    for entry in epochs {
        writeln!(text, "{} {}", entry.epoch, entry.start_offset).expect("a string takes any text");
    }
    text.into_bytes()
}

/// The epochs in `bytes`; their order is not looked at.
pub(super) fn decode_epochs(bytes: &[u8]) -> Result<Vec<EpochStart>, Malformed> {
    let mut epochs = Vec::new();
    parse(bytes, |fields| {
        let [epoch, start] = fields else { return Err("two fields are expected") };
        epochs.push(EpochStart { epoch: LeaderEpoch(number(epoch)?), start_offset: Offset(number(start)?) });
        Ok(())
    })?;
    Ok(epochs)
}

/// `partition.metadata` as it is stored.
pub(super) fn encode_topic_id(topic_id: TopicId) -> Vec<u8> {
    format!("version: 0\ntopic_id: {topic_id}").into_bytes()
}

/// The topic id in a `partition.metadata`.
pub(super) fn decode_topic_id(bytes: &[u8]) -> Result<TopicId, Malformed> {
    let malformed = |line, problem| Malformed { line, problem };
    let text = str::from_utf8(bytes).map_err(|_| malformed(1, "not text"))?;
    let mut lines = text.lines();
    if lines.next().and_then(|line| line.strip_prefix("version:")).map(str::trim) != Some("0") {
        return Err(malformed(1, "\"version: 0\" is expected"));
    }
    let id = lines.next().and_then(|line| line.strip_prefix("topic_id:"));
    id.and_then(|id| id.trim().parse().ok())
        .ok_or(malformed(2, "\"topic_id: \" and 22 characters are expected"))
}

/// A number that counts something.
fn number<T: std::str::FromStr + PartialOrd + Default>(text: &str) -> Result<T, &'static str> {
    text.parse().ok().filter(|number| *number >= T::default()).ok_or("not a number from 0")
}

/// Gives each entry's fields to `entry`, and checks the version and the number of entries around them.
fn parse(bytes: &[u8], mut entry: impl FnMut(&[&str]) -> Result<(), &'static str>) -> Result<(), Malformed> {
    let malformed = |line, problem| Malformed { line, problem };
    let text = str::from_utf8(bytes).map_err(|_| malformed(1, "not text"))?;
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some("0") {
        return Err(malformed(1, "version 0 is expected"));
    }
    let count = lines.next().ok_or(malformed(2, "the number of entries is missing"))?;
    let count: usize = number(count.trim()).map_err(|problem| malformed(2, problem))?;
    let mut found = 0;
    for line in lines.by_ref().take(count) {
        found += 1;
        let mut fields = [""; 4];
        let mut used = 0;
        for field in line.split_whitespace() {
            let place = fields.get_mut(used).ok_or(malformed(found + 2, "too many fields"))?;
            *place = field;
            used += 1;
        }
        entry(&fields[..used]).map_err(|problem| malformed(found + 2, problem))?;
    }
    if found != count {
        return Err(malformed(found + 2, "fewer entries than announced"));
    }
    match lines.find(|line| !line.trim().is_empty()) {
        None => Ok(()),
        Some(_) => Err(malformed(found + 3, "more entries than announced")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    #[test]
    fn the_formats_are_kafkas() {
        let offsets = Offsets::from([
            (TopicPartition::new("a.b", 0), Offset(3)),
            (TopicPartition::new("a.b", 11), Offset(0)),
        ]);
        assert_eq!(encode_offsets(&offsets), b"0\n2\na.b 0 3\na.b 11 0\n");
        assert_eq!(decode_offsets(&encode_offsets(&offsets)), Ok(offsets));
        let epochs = [EpochStart { epoch: LeaderEpoch(2), start_offset: Offset(10) }];
        assert_eq!(encode_epochs(&epochs), b"0\n1\n2 10\n");
        assert_eq!(decode_epochs(b"0\n1\n2 10\n"), Ok(epochs.to_vec()));
        let id = TopicId(Uuid::from_u128(1));
        assert_eq!(encode_topic_id(id), b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(decode_topic_id(b"version: 0\r\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\r\n"), Ok(id));
    }

    #[test]
    fn what_is_not_whole_is_refused_with_its_line() {
        let line = |text: &str| decode_offsets(text.as_bytes()).expect_err(text).line;
        assert_eq!(line(""), 1);
        assert_eq!(line("1\n0\n"), 1);
        assert_eq!(line("0\n"), 2);
        assert_eq!(line("0\n-1\n"), 2);
        assert_eq!(line("0\n2\na 0 1\n"), 3);
        assert_eq!(line("0\n1\na 0 1\nb 0 1\n"), 4);
        for entry in ["a 0", "a 0 1 2", "a 0 1 2 3", "a/b 0 1", "a -1 1", "a 0 -1", "a 0 x", ""] {
            assert_eq!(line(&format!("0\n1\n{entry}\n")), 3, "{entry}");
        }
        assert_eq!(line("0\n2\na 0 1\na 0 1\n"), 4);
        assert!(decode_topic_id(b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ").is_err());
        assert!(decode_topic_id(b"version: 0\ntopic_id: AAAA").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (decode_offsets(&bytes), decode_epochs(&bytes), decode_topic_id(&bytes));
        }

        #[test]
        fn nearly_right_text_is_taken_or_refused(text in "0\n[0-9]{1,20}\n([a-z/.]{0,3} [0-9-]{1,20} ?[0-9]{0,3}\n){0,4}") {
            let (offsets, epochs) = (decode_offsets(text.as_bytes()), decode_epochs(text.as_bytes()));
            if let Ok(offsets) = offsets {
                prop_assert_eq!(decode_offsets(&encode_offsets(&offsets)), Ok(offsets));
            }
            if let Ok(epochs) = epochs {
                prop_assert_eq!(decode_epochs(&encode_epochs(&epochs)), Ok(epochs));
            }
        }
    }
}
