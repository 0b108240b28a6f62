//! Reading by offset and by time.

use super::*;
use crate::log::{ReadError, TimestampOffset};
use proptest::prelude::*;

/// A log with batches of these sizes (records in each), and the base offset and size in bytes of every batch.
fn log_of(fixture: &Fixture, counts: &[usize]) -> (Arc<Log>, Vec<(i64, usize)>) {
    let log = fixture.open_new();
    let mut batches = Vec::new();
    for count in counts {
        let batch = records(&vec!["value"; *count], 0);
        batches.push((log.log_end_offset().0, batch.size_bytes()));
        append(&log, batch).expect("appended");
    }
    (log, batches)
}

#[test]
fn a_read_starts_with_the_batch_that_holds_its_offset() {
    let (log, batches) = log_of(&Fixture::new(LogConfig::default()), &[3, 2, 4]);
    let read = |from: i64| block_on(log.read(Offset(from), 1, Offset(9), true)).expect("readable");
    for (from, base) in [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3), (5, 5), (8, 5)] {
        let slice = read(from);
        let size = batches.iter().find(|batch| batch.0 == base).expect("a batch").1;
        assert_eq!((slice.first, slice.length), (Offset(base), size), "{from}");
    }
    let end = read(9);
    assert_eq!((end.length, end.first, end.next_offset), (0, Offset(9), Offset(9)), "nothing yet");
    for outside in [-1, 10] {
        let refused = block_on(log.read(Offset(outside), 1, Offset(9), true));
        assert!(matches!(refused, Err(ReadError::OutOfRange { .. })), "{refused:?}");
    }
}

#[test]
fn nothing_past_the_bound_is_read() {
    let (log, batches) = log_of(&Fixture::new(LogConfig::default()), &[2, 2, 2]);
    let read = |up_to: i64| block_on(log.read(Offset(0), 1 << 20, Offset(up_to), true)).expect("readable");
    for (up_to, next) in [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 4), (6, 6), (99, 6)] {
        assert_eq!(read(up_to).next_offset, Offset(next), "{up_to}");
    }
    let size = batches[0].1;
    let limited = |bytes, one| block_on(log.read(Offset(0), bytes, Offset(6), one)).expect("readable").length;
    assert_eq!((limited(size - 1, false), limited(size - 1, true)), (0, size));
    assert_eq!((limited(2 * size - 1, false), limited(2 * size, false)), (size, 2 * size));
    assert_eq!(limited(usize::MAX, false), 3 * size);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Against a walk over the batches, in a fresh log (tail in memory), and after it was opened again (indexes only).
    #[test]
    fn reads_agree_with_a_walk(
        counts in proptest::collection::vec(1..5usize, 1..200),
        segment_bytes in 300..5000u32,
        questions in proptest::collection::vec((any::<prop::sample::Index>(), 1..3000usize, any::<prop::sample::Index>(), any::<bool>()), 20),
        interval in prop_oneof![Just(0), 100..1000u32],
    ) {
        let config = LogConfig { segment_bytes, index_interval_bytes: interval, ..LogConfig::default() };
        let fixture = Fixture::new(config);
        let (log, batches) = log_of(&fixture, &counts);
        let end = log.log_end_offset().0;
        let bases: Vec<i64> = fixture.world.names(&fixture.directory()).iter()
            .filter_map(|name| name.strip_suffix(".log")).map(|base| base.parse().expect("digits")).collect();
        let expected = |from: i64, max_bytes: usize, up_to: i64, min_one: bool| {
            let first = batches.iter().rposition(|batch| batch.0 <= from).expect("from the start");
            let segment_end = bases.iter().copied().find(|base| *base > batches[first].0).unwrap_or(end);
            let next = |index: usize| batches.get(index + 1).map_or(end, |batch| batch.0);
            let (mut length, mut last) = (0, None);
            for (index, batch) in batches.iter().enumerate().skip(first) {
                let too_long = length + batch.1 > max_bytes && !(min_one && index == first);
                if next(index) > up_to || next(index) > segment_end || too_long {
                    break;
                }
                length += batch.1;
                last = Some(next(index));
            }
            (length, last.unwrap_or(from))
        };
        let check = |log: &Log| {
            for (from, max_bytes, up_to, min_one) in &questions {
                let (from, up_to) = (from.index(end as usize) as i64, up_to.index(end as usize + 1) as i64);
                let slice = block_on(log.read(Offset(from), *max_bytes, Offset(up_to), *min_one)).expect("readable");
                prop_assert_eq!((slice.length, slice.next_offset.0), expected(from, *max_bytes, up_to, *min_one));
            }
            Ok(())
        };
        check(&log)?;
        close(&log);
        let clean = Opening { clean: true, recovery_point: Offset(end), log_start_offset: Offset(0) };
        check(&fixture.open(clean))?;
        check(&fixture.open(unclean(Offset(0))))?;
        // Indexes that are damaged cost time and nothing else.
        let log = fixture.open(unclean(Offset(end)));
        for base in &bases {
            let path = fixture.path(&format!("{base:020}.index"));
            let scrambled: Vec<u8> = fixture.world.content(&path).iter().map(|byte| byte.rotate_left(3) ^ 0x15).collect();
            fixture.world.put(&path, &scrambled);
        }
        check(&log)?;
    }

    /// Against the list of all records.
    #[test]
    fn searches_by_time_agree_with_a_list(
        batches in proptest::collection::vec(proptest::collection::vec(0..60i64, 1..4), 1..60),
        segment_bytes in 200..1500u32,
        codec in prop_oneof![Just(Compression::None), Just(Compression::Lz4)],
        start in any::<prop::sample::Index>(),
        up_to in any::<prop::sample::Index>(),
    ) {
        let fixture = Fixture::with_segments(segment_bytes);
        let log = fixture.open_new();
        let mut all = Vec::new();
        for timestamps in &batches {
            let mut builder = BatchBuilder::new();
            for timestamp in timestamps {
                all.push(*timestamp);
                builder.add(*timestamp, None, Some(b"value"), []);
            }
            append(&log, RecordBatch::parse(builder.build(codec)).expect("built")).expect("appended");
        }
        let up_to = up_to.index(all.len() + 1);
        let start = start.index(up_to + 1);
        block_on(log.delete_records(Offset(start as i64), log.log_end_offset())).expect("deleted");
        let check = |log: &Log| {
            let found = |offset: Option<usize>| offset.map(|offset| TimestampOffset {
                timestamp: all[offset], offset: Offset(offset as i64), leader_epoch: EPOCH,
            });
            for target in 0..61 {
                let expected = (start..up_to).find(|offset| all[*offset] >= target);
                let answer = block_on(log.offset_for_timestamp(target, Offset(up_to as i64))).expect("readable");
                prop_assert_eq!(answer, found(expected), "target {}", target);
            }
            let largest = (start..up_to).map(|offset| all[offset]).max();
            let expected = (start..up_to).find(|offset| Some(all[*offset]) == largest);
            let answer = block_on(log.max_timestamp(Offset(up_to as i64))).expect("readable");
            prop_assert_eq!(answer, found(expected), "largest");
            Ok(())
        };
        check(&log)?;
        close(&log);
        let end = log.log_end_offset();
        let opening = Opening { clean: true, recovery_point: end, log_start_offset: Offset(start as i64) };
        check(&fixture.open(opening))?;
        check(&fixture.open(Opening { clean: false, recovery_point: Offset(0), ..opening }))?;
    }
}
