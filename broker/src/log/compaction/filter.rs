//! What compaction leaves of a batch. Pure: owns the rules for a record, a batch and a marker; never reads or writes.
//!
//! A record stays while it is the newest with its key among what was looked at, or was not looked at. A tombstone that
//! stays makes its batch carry a *delete horizon* (KIP-534): from that moment on it may go, `delete.retention.ms` after the
//! first cleaning that met it, so that whoever reads the log within that time hears of the deletion. Offsets never
//! change: a batch keeps its first and last offset, its producer and sequence numbers, its epoch and its codec,
//! whatever is left in it. A batch with nothing left stays, empty, where it carries the last sequence number of a
//! producer, or where it ends the segment.

use super::offset_map::OffsetMap;
use crate::log::{append::DECOMPRESSED_LIMIT_BYTES, producer_state::LastWrite};
use bytes::Bytes;
use sillon_protocol::records::{
    BatchBuilder, BatchHeader, Compression, Record, RecordBatch, RecordError, RecordFault, TimestampType,
    set_log_append_time, set_max_timestamp,
};
use std::{borrow::Cow, collections::BTreeMap};

/// What the rules depend on, for one cleaning.
#[derive(Debug)]
pub(super) struct Rules {
    /// The newest offset of each key.
    pub(super) newest: OffsetMap,
    /// Producers that are known still.
    pub(super) producers: BTreeMap<i64, LastWrite>,
    /// The wall clock.
    pub(super) now_ms: i64,
    /// `delete.retention.ms`.
    pub(super) delete_retention_ms: i64,
}

/// What is known of a batch from those around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// It is data of an aborted transaction, or a marker of which nothing is left to mark.
    pub(super) is_over: bool,
    /// It ends the segment that is written.
    pub(super) is_last: bool,
}

/// What is left of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// All of it.
    Everything,
    /// This.
    Part(Bytes),
    /// Nothing at all.
    Nothing,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filtered {
    /// What is left of it.
    pub(super) left: Left,
    /// How many records stay.
    pub(super) kept: u64,
    /// How many go.
    pub(super) removed: u64,
}

impl Rules {
    /// Applies the rules to a batch.
    ///
    /// # Errors
    /// Where it is damaged.
    pub(super) fn filter<B: AsRef<[u8]>>(
        &self,
        batch: &RecordBatch<B>,
        circumstances: Circumstances,
    ) -> Result<Filtered, RecordError> {
        let horizon = batch.delete_horizon_ms();
        let is_past_horizon = horizon.is_some_and(|horizon| horizon <= self.now_ms);
        // A marker waits for its horizon, as a tombstone does.
        let all_go = circumstances.is_over && (!batch.is_control() || is_past_horizon);
        let body =
            if all_go { Cow::Borrowed(&[][..]) } else { batch.decompress(DECOMPRESSED_LIMIT_BYTES)? };
        let mut kept = Vec::new();
        let mut has_tombstones = false;
        if !all_go {
            for record in batch.records_in(&body) {
                let record = record?;
                if batch.is_control() || self.stays(&record, is_past_horizon) {
                    has_tombstones |= !batch.is_control() && record.value().is_none();
                    kept.push(record);
                }
            }
        }
        let total = u64::try_from(batch.record_count()).unwrap_or(0);
        let stay = kept.len() as u64;
        let begins_to_wait = has_tombstones || (batch.is_control() && circumstances.is_over);
        let new_horizon = (begins_to_wait && horizon.is_none() && stay > 0)
            .then(|| self.now_ms.saturating_add(self.delete_retention_ms.max(0)));
        let left = if stay > 0 && stay == total && new_horizon.is_none() {
            Left::Everything
        } else if stay > 0 {
            Left::Part(rebuild(batch, &kept, horizon.or(new_horizon))?)
        } else if circumstances.is_last || self.is_last_of_producer(batch) {
            if total == 0 { Left::Everything } else { Left::Part(without_records(batch)) }
        } else {
            Left::Nothing
        };
        Ok(Filtered { left, kept: stay, removed: total.saturating_sub(stay) })
    }

    fn stays(&self, record: &Record<'_>, is_past_horizon: bool) -> bool {
        if record.offset() >= self.newest.end() {
            return true;
        }
        // Without a key nothing can ever take its place. They are refused when they are sent; what is here was sent
        // before the topic was compacted.
        let Some(key) = record.key() else { return false };
        let is_newest = !self.newest.is_superseded(key, record.offset());
        is_newest && (record.value().is_some() || !is_past_horizon)
    }

    /// Whether a batch is the last trace of a producer that is known still: its sequence numbers, or its epoch.
    fn is_last_of_producer(&self, batch: &BatchHeader) -> bool {
        self.producers.get(&batch.producer_id()).is_some_and(|last| match last.last_offset {
            Some(offset) => batch.last_offset() == offset,
            None => batch.is_control() && batch.producer_epoch() == last.producer_epoch,
        })
    }
}

fn like(batch: &BatchHeader, records_bytes: usize) -> BatchBuilder {
    BatchBuilder::with_capacity(records_bytes)
        .base_offset(batch.base_offset())
        .leader_epoch(batch.leader_epoch())
        .producer(batch.producer_id(), batch.producer_epoch(), batch.base_sequence())
        .transactional(batch.is_transactional())
        .control(batch.is_control())
        .timestamp_type(batch.timestamp_type())
}

fn rebuild(batch: &BatchHeader, kept: &[Record<'_>], horizon: Option<i64>) -> Result<Bytes, RecordError> {
    let bytes = kept
        .iter()
        .map(|record| 32 + record.key().map_or(0, <[u8]>::len) + record.value().map_or(0, <[u8]>::len));
    let mut builder = like(batch, bytes.sum());
    if let Some(horizon) = horizon {
        builder = builder.delete_horizon_ms(horizon);
    }
    let mut last_delta = -1;
    for (index, record) in (0..).zip(kept) {
        let offset_delta = record.offset_delta();
        // What a damaged batch claims must not reach the builder, which takes it for our own mistake.
        if offset_delta <= last_delta || offset_delta > batch.last_offset_delta() {
            let fault = RecordFault::OffsetDelta { offset_delta };
            return Err(RecordError::Record { index, fault });
        }
        last_delta = offset_delta;
        builder.add_at(offset_delta, record.timestamp(), record.key(), record.value(), record.headers());
    }
    Ok(builder.last_offset_delta(batch.last_offset_delta()).build(batch.compression()?))
}

/// The batch without its records: what it says of offsets, producer, epoch and time stays.
fn without_records(batch: &BatchHeader) -> Bytes {
    let empty = like(batch, 0).last_offset_delta(batch.last_offset_delta()).build(Compression::None);
    let mut empty = empty.to_vec();
    match batch.timestamp_type() {
        TimestampType::CreateTime => set_max_timestamp(&mut empty, batch.max_timestamp()),
        TimestampType::LogAppendTime => set_log_append_time(&mut empty, batch.max_timestamp()),
    }
    empty.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::records::{EndTransactionMarker, MarkerKind};

    const NOW_MS: i64 = 1_000_000;

    fn rules(newest: &[(&str, i64)], end: i64) -> Rules {
        let mut map = OffsetMap::new(0, 1 << 20);
        newest.iter().for_each(|(key, offset)| map.put(key.as_bytes(), *offset));
        map.note_end(end);
        Rules { newest: map, producers: BTreeMap::new(), now_ms: NOW_MS, delete_retention_ms: 500 }
    }

    const PLAIN: Circumstances = Circumstances { is_over: false, is_last: false };
    const LAST: Circumstances = Circumstances { is_over: false, is_last: true };
    const OVER: Circumstances = Circumstances { is_over: true, is_last: false };

    fn batch(base: i64, codec: Compression, records: &[(&str, Option<&str>)]) -> RecordBatch {
        let mut builder = BatchBuilder::new().base_offset(base).leader_epoch(3).producer(7, 1, 40);
        for (index, (key, value)) in (0..).zip(records) {
            builder.add(5000 + index, Some(key.as_bytes()), value.map(str::as_bytes), []);
        }
        RecordBatch::parse(builder.build(codec)).expect("built")
    }

    fn part(filtered: Filtered) -> RecordBatch {
        let Left::Part(bytes) = filtered.left else { panic!("a part is left: {filtered:?}") };
        let batch = RecordBatch::parse(bytes).expect("a batch");
        batch.validate_header().expect("sound");
        batch.validate_deep(1 << 20).expect("sound");
        batch
    }

    fn offsets(batch: &RecordBatch) -> Vec<i64> {
        let body = batch.decompress(1 << 20).expect("decompresses");
        batch.records_in(&body).map(|record| record.expect("well-formed").offset()).collect()
    }

    #[test]
    fn the_newest_of_each_key_stays_where_it_is() {
        for codec in
            [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
        {
            let before =
                batch(10, codec, &[("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("c", Some("4"))]);
            let rules = rules(&[("a", 12), ("b", 11), ("c", 20)], 30);
            let filtered = rules.filter(&before, PLAIN).expect("sound");
            assert_eq!((filtered.kept, filtered.removed), (2, 2));
            let after = part(filtered);
            assert_eq!(offsets(&after), [11, 12]);
            assert_eq!((after.base_offset(), after.last_offset()), (10, 13), "the range stays");
            assert_eq!((after.producer_id(), after.producer_epoch()), (7, 1));
            assert_eq!((after.base_sequence(), after.last_sequence()), (40, 43));
            assert_eq!((after.leader_epoch(), after.compression()), (3, Ok(codec)));
            assert_eq!(after.max_timestamp(), 5002);
        }
    }

    #[test]
    fn what_was_not_looked_at_stays_and_so_does_a_batch_of_which_nothing_goes() {
        let before = batch(10, Compression::None, &[("a", Some("1")), ("b", Some("2"))]);
        let filtered = rules(&[("a", 10)], 11).filter(&before, PLAIN).expect("sound");
        assert_eq!(filtered, Filtered { left: Left::Everything, kept: 2, removed: 0 });
    }

    #[test]
    fn a_tombstone_outlives_its_horizon_by_nothing() {
        let before = batch(0, Compression::None, &[("a", None), ("b", Some("2"))]);
        let rules_at = |now_ms| Rules { now_ms, ..rules(&[("a", 0), ("b", 1)], 2) };
        let first = part(rules_at(NOW_MS).filter(&before, PLAIN).expect("sound"));
        assert_eq!(first.delete_horizon_ms(), Some(NOW_MS + 500), "KIP-534");
        assert_eq!(offsets(&first), [0, 1]);
        let body = first.decompress(1 << 20).expect("plain");
        let times: Vec<i64> =
            first.records_in(&body).map(|record| record.expect("sound").timestamp()).collect();
        assert_eq!(times, [5000, 5001], "their own time stamps stay");
        let again = rules_at(NOW_MS + 499).filter(&first, PLAIN).expect("sound");
        assert_eq!(again.left, Left::Everything, "the horizon is set once");
        let last = part(rules_at(NOW_MS + 500).filter(&first, PLAIN).expect("sound"));
        assert_eq!(offsets(&last), [1]);
        assert_eq!(last.delete_horizon_ms(), Some(NOW_MS + 500));
    }

    #[test]
    fn a_record_without_a_key_goes() {
        let mut builder = BatchBuilder::new();
        builder.add(0, None, Some(b"v"), []);
        builder.add(0, Some(b"k"), Some(b"v"), []);
        let before = RecordBatch::parse(builder.build(Compression::None)).expect("built");
        let after = part(rules(&[("k", 1)], 2).filter(&before, PLAIN).expect("sound"));
        assert_eq!(offsets(&after), [1]);
    }

    #[test]
    fn an_empty_batch_stays_for_a_producer_or_for_the_end() {
        let before = batch(10, Compression::Zstd, &[("a", Some("1")), ("a", Some("2"))]);
        let superseded = [("a", 20)];
        let filtered = rules(&superseded, 30).filter(&before, PLAIN).expect("sound");
        assert_eq!(filtered, Filtered { left: Left::Nothing, kept: 0, removed: 2 });

        let ended = part(rules(&superseded, 30).filter(&before, LAST).expect("sound"));
        assert_eq!((ended.record_count(), ended.base_offset(), ended.last_offset()), (0, 10, 11));
        assert_eq!(ended.max_timestamp(), 5001);
        let again = rules(&superseded, 30).filter(&ended, LAST).expect("sound");
        assert_eq!(again.left, Left::Everything);
        assert_eq!(rules(&superseded, 30).filter(&ended, PLAIN).expect("sound").left, Left::Nothing);

        let known = |last_offset| {
            let mut rules = rules(&superseded, 30);
            rules.producers.insert(7, LastWrite { producer_epoch: 1, last_offset });
            rules
        };
        let kept = part(known(Some(11)).filter(&before, PLAIN).expect("sound"));
        assert_eq!((kept.record_count(), kept.last_sequence(), kept.leader_epoch()), (0, 41, 3));
        assert_eq!(known(Some(25)).filter(&before, PLAIN).expect("sound").left, Left::Nothing);
        assert_eq!(known(None).filter(&before, PLAIN).expect("sound").left, Left::Nothing);
    }

    #[test]
    fn a_marker_waits_for_its_horizon_once_nothing_is_left_to_mark() {
        let marker = EndTransactionMarker { kind: MarkerKind::Commit, coordinator_epoch: 4 };
        let before = RecordBatch::parse(marker.to_batch(5000, 7, 1)).expect("built");
        let rules_at = |now_ms| Rules { now_ms, ..rules(&[], 10) };
        assert_eq!(rules_at(NOW_MS).filter(&before, PLAIN).expect("sound").left, Left::Everything);
        let waiting = part(rules_at(NOW_MS).filter(&before, OVER).expect("sound"));
        assert_eq!(waiting.delete_horizon_ms(), Some(NOW_MS + 500));
        assert_eq!(EndTransactionMarker::from_batch(&waiting), Some(marker));
        assert_eq!(rules_at(NOW_MS + 499).filter(&waiting, OVER).expect("sound").left, Left::Everything);
        assert_eq!(rules_at(NOW_MS + 500).filter(&waiting, OVER).expect("sound").left, Left::Nothing);
        assert_eq!(rules_at(NOW_MS + 500).filter(&waiting, PLAIN).expect("sound").left, Left::Everything);
        // Where it carries the epoch of a producer, its shell stays.
        let mut known = rules_at(NOW_MS + 500);
        known.producers.insert(7, LastWrite { producer_epoch: 1, last_offset: None });
        assert_eq!(part(known.filter(&waiting, OVER).expect("sound")).record_count(), 0);
    }

    #[test]
    fn aborted_data_goes_whatever_its_keys() {
        let before = batch(0, Compression::None, &[("a", Some("1"))]);
        let filtered = rules(&[("a", 0)], 1).filter(&before, OVER).expect("sound");
        assert_eq!(filtered, Filtered { left: Left::Nothing, kept: 0, removed: 1 });
    }

    #[test]
    fn append_time_stays_the_batchs() {
        let mut builder = BatchBuilder::new().timestamp_type(TimestampType::LogAppendTime);
        builder.add(9000, Some(b"a"), Some(b"1"), []);
        builder.add(9000, Some(b"b"), None, []);
        let before = RecordBatch::parse(builder.build(Compression::None)).expect("built");
        let after = part(rules(&[("a", 5), ("b", 1)], 9).filter(&before, PLAIN).expect("sound"));
        assert_eq!((after.timestamp_type(), after.max_timestamp()), (TimestampType::LogAppendTime, 9000));
        assert_eq!(offsets(&after), [1]);
    }
}
