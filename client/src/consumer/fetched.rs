//! What a broker sent of one partition, taken out record by record. Owns what is skipped: records below the position,
//! control batches, and aborted transactions where the isolation asks for that. Pure.

use super::{ConsumerRecord, RecordHeader, TopicPartition};
use crate::ClientError;
use bytes::Bytes;
use sillon_protocol::{
    messages::AbortedTransaction,
    records::{EndTransactionMarker, MarkerKind, RecordBatch, RecordError, SplitBatches, split_batches},
};
use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
};

/// The largest batch that is decompressed.
const MAX_DECOMPRESSED_BYTES: usize = 1 << 30;

/// What a broker sent of one partition, as far as it was not taken yet.
pub(super) struct Fetched {
    pub(super) partition: TopicPartition,
    /// The assignment or seek to which it belongs.
    pub(super) token: u64,
    /// The offset that is given next, and the epoch of the record before.
    pub(super) next_offset: i64,
    pub(super) last_epoch: Option<i32>,
    batches: SplitBatches,
    check_crcs: bool,
    /// `None` where everything is read.
    aborted: Option<VecDeque<AbortedTransaction>>,
    aborting: BTreeSet<i64>,
    ready: VecDeque<ConsumerRecord>,
    /// Where the position is once `ready` is empty.
    after_ready: i64,
}

impl Fetched {
    pub(super) fn new(
        partition: TopicPartition,
        token: u64,
        offset: i64,
        last_epoch: Option<i32>,
        records: &Bytes,
        check_crcs: bool,
    ) -> Fetched {
        Fetched {
            partition,
            token,
            next_offset: offset,
            last_epoch,
            batches: split_batches(records),
            check_crcs,
            aborted: None,
            aborting: BTreeSet::new(),
            ready: VecDeque::new(),
            after_ready: offset,
        }
    }

    /// Leaves out aborted transactions, of which these are the broker's list.
    pub(super) fn read_committed(mut self, mut aborted: Vec<AbortedTransaction>) -> Fetched {
        aborted.sort_by_key(|transaction| transaction.first_offset);
        self.aborted = Some(aborted.into());
        self
    }

    /// Takes up to `max` records. Fewer than that means that there is nothing more.
    ///
    /// # Errors
    /// [`ClientError::Corrupt`] where there is something that makes no sense, once all before it is taken.
    pub(super) fn take(&mut self, max: usize, records: &mut Vec<ConsumerRecord>) -> Result<(), ClientError> {
        let mut left = max;
        while left > 0 {
            if let Some(record) = self.ready.pop_front() {
                self.next_offset = record.offset + 1;
                self.last_epoch = record.leader_epoch.or(self.last_epoch);
                records.push(record);
                left -= 1;
                continue;
            }
            self.next_offset = self.next_offset.max(self.after_ready);
            match self.batches.next() {
                None | Some(Err(RecordError::Truncated { .. })) => break,
                Some(batch) => {
                    let opened = batch.and_then(|batch| self.open(batch));
                    if let Err(source) = opened {
                        if left < max {
                            // What was taken is given first; the next attempt meets it again.
                            self.batches = split_batches(&Bytes::new());
                            return Ok(());
                        }
                        let TopicPartition { topic, partition } = &self.partition;
                        let (topic, partition, offset) = (topic.to_string(), *partition, self.next_offset);
                        return Err(ClientError::Corrupt { topic, partition, offset, source });
                    }
                }
            }
        }
        if self.ready.is_empty() {
            self.next_offset = self.next_offset.max(self.after_ready);
        }
        Ok(())
    }

    fn open(&mut self, batch: RecordBatch) -> Result<(), RecordError> {
        if batch.next_offset() <= self.next_offset {
            return Ok(());
        }
        if self.check_crcs {
            batch.validate_crc()?;
        }
        if self.is_skipped(&batch) {
            self.after_ready = batch.next_offset();
            self.last_epoch = Some(batch.leader_epoch()).filter(|epoch| *epoch >= 0).or(self.last_epoch);
            return Ok(());
        }
        let body = match batch.decompress(MAX_DECOMPRESSED_BYTES)? {
            Cow::Borrowed(body) => body_of(&batch, body),
            Cow::Owned(body) => Bytes::from(body),
        };
        let leader_epoch = Some(batch.leader_epoch()).filter(|epoch| *epoch >= 0);
        let timestamp_type = batch.timestamp_type();
        let mut ready = VecDeque::new();
        for record in batch.records_in(&body) {
            let record = record?;
            if record.offset() < self.next_offset {
                continue;
            }
            let headers = record.headers().map(|header| RecordHeader {
                key: body.slice_ref(header.key),
                value: header.value.map(|value| body.slice_ref(value)),
            });
            ready.push_back(ConsumerRecord {
                topic: self.partition.topic.clone(),
                partition: self.partition.partition,
                offset: record.offset(),
                leader_epoch,
                timestamp: record.timestamp(),
                timestamp_type,
                key: record.key().map(|key| body.slice_ref(key)),
                value: record.value().map(|value| body.slice_ref(value)),
                headers: headers.collect(),
            });
        }
        self.ready = ready;
        self.after_ready = batch.next_offset();
        Ok(())
    }

    /// Whether nobody sees the batch.
    fn is_skipped(&mut self, batch: &RecordBatch) -> bool {
        let Some(aborted) = &mut self.aborted else { return batch.is_control() };
        while aborted.front().is_some_and(|transaction| transaction.first_offset <= batch.last_offset()) {
            let transaction = aborted.pop_front().expect("there is a front");
            self.aborting.insert(transaction.producer_id);
        }
        if batch.is_control() {
            let marker = EndTransactionMarker::from_batch(batch);
            if marker.is_some_and(|marker| marker.kind == MarkerKind::Abort) {
                self.aborting.remove(&batch.producer_id());
            }
            return true;
        }
        batch.is_transactional() && self.aborting.contains(&batch.producer_id())
    }
}

fn body_of(batch: &RecordBatch, body: &[u8]) -> Bytes {
    batch.clone().into_bytes().slice_ref(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::records::{BatchBuilder, Compression};

    fn batch(base_offset: i64, values: &[&str], producer: Option<i64>, compression: Compression) -> Bytes {
        let mut builder = BatchBuilder::new().base_offset(base_offset).leader_epoch(3);
        for value in values {
            builder.add(1, None, Some(value.as_bytes()), []);
        }
        if let Some(id) = producer {
            builder = builder.producer(id, 0, 0).transactional(true);
        }
        builder.build(compression)
    }

    fn marker(offset: i64, kind: MarkerKind, producer: i64) -> Bytes {
        let marker = EndTransactionMarker { kind, coordinator_epoch: 0 };
        let mut bytes = marker.to_batch(1, producer, 0).to_vec();
        sillon_protocol::records::stamp(&mut bytes, offset, 3);
        bytes.into()
    }

    fn fetched(offset: i64, parts: &[Bytes]) -> Fetched {
        Fetched::new(TopicPartition::new("t", 0), 1, offset, None, &parts.concat().into(), true)
    }

    fn values(fetched: &mut Fetched, max: usize) -> Vec<String> {
        let mut records = Vec::new();
        fetched.take(max, &mut records).expect("sound");
        records
            .iter()
            .map(|record| String::from_utf8_lossy(record.value.as_ref().expect("one")).into())
            .collect()
    }

    #[test]
    fn it_begins_at_the_position_and_goes_on_where_it_stopped() {
        for compression in [Compression::None, Compression::Lz4] {
            let parts = [batch(5, &["a", "b", "c"], None, compression), batch(8, &["d"], None, compression)];
            let mut fetched = fetched(6, &parts);
            assert_eq!(values(&mut fetched, 1), ["b"]);
            assert_eq!(fetched.next_offset, 7);
            assert_eq!(values(&mut fetched, 9), ["c", "d"]);
            assert_eq!((fetched.next_offset, fetched.last_epoch), (9, Some(3)));
        }
    }

    #[test]
    fn aborted_transactions_and_markers_are_passed_over() {
        let plain = Compression::None;
        let parts = [
            batch(0, &["x1"], Some(7), plain),
            batch(1, &["ok"], Some(8), plain),
            marker(2, MarkerKind::Abort, 7),
            batch(3, &["x2 is committed"], Some(7), plain),
            marker(4, MarkerKind::Commit, 7),
        ];
        let aborted = vec![AbortedTransaction { producer_id: 7, first_offset: 0 }];
        let mut committed = fetched(0, &parts).read_committed(aborted);
        assert_eq!(values(&mut committed, 9), ["ok", "x2 is committed"]);
        assert_eq!(committed.next_offset, 5, "past the marker at the end");
        assert_eq!(values(&mut fetched(0, &parts), 9), ["x1", "ok", "x2 is committed"]);
    }

    #[test]
    fn a_broken_batch_is_told_after_what_comes_before_it() {
        let mut broken = batch(1, &["b"], None, Compression::None).to_vec();
        *broken.last_mut().expect("not empty") ^= 0xff;
        let parts = [batch(0, &["a"], None, Compression::None), broken.into()];
        let mut first = fetched(0, &parts);
        assert_eq!(values(&mut first, 9), ["a"]);
        assert_eq!(first.next_offset, 1);
        let error = fetched(1, &parts).take(9, &mut Vec::new()).expect_err("its checksum is wrong");
        assert!(matches!(error, ClientError::Corrupt { offset: 1, .. }), "{error}");
    }

    #[test]
    fn a_batch_that_is_cut_off_is_fetched_again() {
        let whole = batch(0, &["a"], None, Compression::None);
        let cut = batch(1, &["b"], None, Compression::None);
        let mut fetched = fetched(0, &[whole, cut.slice(..cut.len() - 1)]);
        assert_eq!(values(&mut fetched, 9), ["a"]);
        assert_eq!(fetched.next_offset, 1);
    }
}
