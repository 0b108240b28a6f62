//! One fetch: the request in any version, and what its answer holds, checksums verified. Owns the reading of record
//! batches as a consumer does it; remembers nothing between fetches.

use super::{session::Plan, topics, value};
use crate::oracle::ReadBatch;
use bytes::Bytes;
use sillon_broker::types::TopicPartition;
use sillon_protocol::{
    ErrorCode,
    messages::{FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic},
    records::{RecordBatch, RecordError, split_batches},
    wire::Records,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Version from which topics are named by id.
pub(super) const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 13;
/// Version from which a reader says of which epoch its last record is, and is told where its log ends otherwise.
pub(super) const FIRST_VERSION_WITH_LAST_EPOCH: i16 = 12;
/// Version from which there are sessions.
pub(super) const FIRST_VERSION_WITH_SESSIONS: i16 = 7;
/// Version from which every codec may come back.
pub(super) const FIRST_VERSION_WITH_ZSTD: i16 = 10;
/// No batch of a run is larger when it is opened.
const DECOMPRESSED_LIMIT_BYTES: usize = 16 << 20;

/// What a fetch brought for a partition.
#[derive(Debug)]
pub(super) struct Fetched {
    pub partition: TopicPartition,
    pub error: ErrorCode,
    pub high_watermark: i64,
    pub log_start: i64,
    pub batches: Vec<ReadBatch>,
    /// Where the reader's log leaves the leader's: the last epoch that both have, and its end.
    pub diverging: Option<(i32, i64)>,
    /// A replica that the reader should rather ask.
    pub preferred_replica: Option<i32>,
    /// What is wrong with the bytes after the last good batch.
    pub damage: Option<String>,
}

/// How much and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub max_wait_ms: i32,
    pub max_bytes: i32,
}

/// The request for what `plan` says, with topics by name and by id: each version takes what it knows.
pub(super) fn request(
    plan: &Plan,
    ids: &BTreeMap<String, topics::Id>,
    limits: Limits,
    rack: &str,
) -> FetchRequest {
    let mut topics: Vec<FetchTopic> = Vec::new();
    for (name, wanted) in &plan.partitions {
        let partition = FetchPartition {
            partition: name.partition,
            current_leader_epoch: wanted.leader_epoch,
            fetch_offset: wanted.fetch_offset,
            last_fetched_epoch: wanted.last_epoch,
            partition_max_bytes: wanted.max_bytes,
            ..FetchPartition::default()
        };
        match topics.last_mut().filter(|topic| topic.topic == *name.topic) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(FetchTopic {
                topic: name.topic.to_string(),
                topic_id: Uuid::from_bytes(ids.get(&*name.topic).copied().unwrap_or_default()),
                partitions: vec![partition],
            }),
        }
    }
    FetchRequest {
        max_wait_ms: limits.max_wait_ms,
        min_bytes: 1,
        max_bytes: limits.max_bytes,
        session_id: plan.session_id,
        session_epoch: plan.session_epoch,
        topics,
        rack_id: rack.to_owned(),
        ..FetchRequest::default()
    }
}

/// What the answer says of each partition that it names.
pub(super) fn read(
    version: i16,
    response: FetchResponse,
    ids: &BTreeMap<String, topics::Id>,
) -> Vec<Fetched> {
    let mut fetched = Vec::new();
    for topic in response.responses {
        let name = if version >= FIRST_VERSION_WITH_TOPIC_IDS {
            let id = topic.topic_id.into_bytes();
            match ids.iter().find(|(_, known)| **known == id) {
                Some((name, _)) => name.clone(),
                None => continue,
            }
        } else {
            topic.topic
        };
        for partition in topic.partitions {
            fetched.push(read_partition(TopicPartition::new(&name, partition.partition_index), partition));
        }
    }
    fetched
}

fn read_partition(name: TopicPartition, response: FetchPartitionResponse) -> Fetched {
    let diverging = response.diverging_epoch;
    let bytes = match response.records {
        Records::Bytes(bytes) => bytes,
        Records::Null | Records::Deferred(_) => Bytes::new(),
    };
    let (batches, damage) = read_batches(&bytes);
    Fetched {
        partition: name,
        error: ErrorCode::from(response.error_code),
        high_watermark: response.high_watermark,
        log_start: response.log_start_offset,
        batches,
        diverging: (diverging.epoch >= 0 || diverging.end_offset >= 0)
            .then_some((diverging.epoch, diverging.end_offset)),
        preferred_replica: Some(response.preferred_read_replica).filter(|replica| *replica >= 0),
        damage,
    }
}

fn read_batches(bytes: &Bytes) -> (Vec<ReadBatch>, Option<String>) {
    let mut batches = Vec::new();
    for batch in split_batches(bytes) {
        match batch.and_then(|batch| read_batch(&batch)) {
            Ok(batch) => batches.push(batch),
            // An answer may end in the middle of a batch, but not begin there.
            Err(RecordError::Truncated { .. }) if !batches.is_empty() => break,
            Err(error) => return (batches, Some(error.to_string())),
        }
    }
    (batches, None)
}

fn read_batch(batch: &RecordBatch) -> Result<ReadBatch, RecordError> {
    batch.validate_crc()?;
    let body = batch.decompress(DECOMPRESSED_LIMIT_BYTES)?;
    let mut records = Vec::with_capacity(usize::try_from(batch.record_count()).unwrap_or(0).min(body.len()));
    for record in batch.records_in(&body) {
        let record = record?;
        // What no producer of this run has made has a name that none of them has.
        let stranger = crate::oracle::RecordId { client: u32::MAX, counter: u64::MAX };
        records.push((record.offset(), record.value().and_then(value::decode).unwrap_or(stranger)));
    }
    Ok(ReadBatch {
        base_offset: batch.base_offset(),
        next_offset: batch.next_offset(),
        leader_epoch: batch.leader_epoch(),
        crc: batch.crc(),
        records,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::RecordId;
    use sillon_protocol::records::{BatchBuilder, Compression};

    fn batch(base: i64, counters: std::ops::Range<u64>, compression: Compression) -> Bytes {
        let mut builder = BatchBuilder::new().base_offset(base).leader_epoch(2);
        for counter in counters {
            builder.add(0, None, Some(&value::encode(RecordId { client: 5, counter }, 40)), []);
        }
        builder.build(compression)
    }

    #[test]
    fn batches_of_every_codec_are_opened() {
        let codecs =
            [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        for codec in codecs {
            let (batches, damage) = read_batches(&batch(3, 7..9, codec));
            assert_eq!(damage, None);
            assert_eq!((batches[0].base_offset, batches[0].next_offset, batches[0].leader_epoch), (3, 5, 2));
            assert_eq!(batches[0].records[1], (4, RecordId { client: 5, counter: 8 }));
        }
    }

    #[test]
    fn damage_is_reported_and_a_cut_end_is_not() {
        let whole = [batch(0, 0..1, Compression::None), batch(1, 1..2, Compression::None)].concat();
        let cut = Bytes::copy_from_slice(&whole[..whole.len() - 3]);
        let (batches, damage) = read_batches(&cut);
        assert_eq!((batches.len(), damage), (1, None));
        let mut rotten = whole.clone();
        *rotten.last_mut().expect("not empty") ^= 1;
        let (batches, damage) = read_batches(&rotten.into());
        assert_eq!(batches.len(), 1);
        assert!(damage.expect("a wrong checksum").contains("checksum"));
        assert!(read_batches(&cut.slice(..40)).1.is_some());
    }
}
