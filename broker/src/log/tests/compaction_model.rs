//! Random records, cleanings, cuts and stops of a compacted log against the list of all that was ever appended to it.

use super::{
    compaction::{Stored, compacted, stored, try_clean},
    *,
};
use crate::log::{Cleaned, CleanerLimits};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<(u8, bool)>, u8),
    Clean(prop::sample::Index, u16),
    Advance(u32),
    Reopen(bool),
    Truncate(prop::sample::Index),
    DeleteRecords(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let records = proptest::collection::vec((0..6u8, any::<bool>()), 1..5);
    prop_oneof![
        12 => (records, 0..6u8).prop_map(|(records, how)| Step::Put(records, how)),
        4 => (any::<prop::sample::Index>(), prop_oneof![Just(60_000u16), 0..500u16])
            .prop_map(|(index, bytes)| Step::Clean(index, bytes)),
        1 => (0..2_000u32).prop_map(Step::Advance),
        1 => any::<bool>().prop_map(Step::Reopen),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
        1 => any::<prop::sample::Index>().prop_map(Step::DeleteRecords),
    ]
}

/// The log without compaction.
struct Model {
    fixture: Fixture,
    log: Arc<Log>,
    records: Vec<Stored>,
    sequence: i32,
    epoch: i16,
    /// Records were deleted: what their producers did is not found in the log any more.
    has_deleted: bool,
}

impl Model {
    fn put(&mut self, records: &[(u8, bool)], how: u8) {
        let codec =
            [Compression::None, Compression::None, Compression::Lz4, Compression::Zstd][usize::from(how % 4)];
        let mut builder = BatchBuilder::new();
        if how >= 3 {
            builder = builder.producer(3, self.epoch, self.sequence);
            self.sequence += records.len() as i32;
        }
        let next = self.log.log_end_offset().0;
        for (index, (key, has_value)) in (0..).zip(records) {
            let (key, value) = (format!("key {key}"), has_value.then(|| format!("{}", next + index)));
            let now_ms = self.fixture.world.unix_ms();
            builder.add(now_ms, Some(key.as_bytes()), value.as_ref().map(|value| value.as_bytes()), []);
            self.records.push((next + index, key, value));
        }
        append(&self.log, RecordBatch::parse(builder.build(codec)).expect("built")).expect("appended");
    }

    /// After anything that may have taken records away.
    fn next_epoch(&mut self) {
        (self.sequence, self.epoch) = (0, self.epoch + 1);
    }

    fn apply(&mut self, step: &Step) {
        let (start, end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let within = |index: &prop::sample::Index| {
            Offset(start.0 + index.index((end.0 - start.0 + 1) as usize) as i64)
        };
        match step {
            Step::Put(records, how) => self.put(records, *how),
            Step::Clean(high_watermark, map_bytes) => {
                let producers = block_on(self.log.producers_summary());
                let limits = CleanerLimits { map_bytes: usize::from(*map_bytes), buffer_bytes: 100 };
                let before = stored(&self.log);
                let done =
                    try_clean(&self.fixture, &self.log, within(high_watermark), limits).expect("sound");
                self.check_cleaned(&before, done, within(high_watermark));
                assert_eq!(block_on(self.log.producers_summary()), producers);
            }
            Step::Advance(by_ms) => self.fixture.world.advance(i64::from(*by_ms)),
            Step::Reopen(clean) => {
                if *clean {
                    close(&self.log)
                } else {
                    assert!(flush(&self.log) == end)
                }
                let before = (stored(&self.log), block_on(self.log.producers_summary()));
                let recovery_point = self.log.recovery_point();
                let log_start_offset = self.log.log_start_offset();
                self.log = self.fixture.open(Opening { clean: *clean, recovery_point, log_start_offset });
                assert_eq!(stored(&self.log), before.0);
                assert!(self.has_deleted || block_on(self.log.producers_summary()) == before.1, "I27");
            }
            Step::Truncate(to) => {
                let end = block_on(self.log.truncate_to(within(to))).expect("cut");
                self.records.retain(|record| record.0 < end.0);
                self.next_epoch();
            }
            Step::DeleteRecords(to) => {
                block_on(self.log.delete_records(within(to), end)).expect("moved");
                self.has_deleted = true;
                self.next_epoch();
            }
        }
    }

    /// I41.
    fn check_cleaned(&self, before: &[Stored], done: Option<Cleaned>, high_watermark: Offset) {
        let after = stored(&self.log);
        let Some(done) = done else { return assert_eq!(after, before) };
        assert!(done.to <= high_watermark && done.to > done.from, "B30");
        assert!(after.iter().all(|record| before.contains(record)), "nothing is new");
        let mut newest = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.0 < done.to.0) {
            newest.insert(record.1.clone(), record);
        }
        let start = self.log.log_start_offset().0;
        for record in before {
            let superseded = newest.get(&record.1).is_some_and(|newest| newest.0 > record.0);
            let stays = after.contains(record);
            if record.0 >= done.to.0 || (!superseded && record.2.is_some()) {
                assert!(stays, "{record:?} is the newest, cleaned up to {}", done.to);
            } else if superseded && record.0 >= start {
                assert!(!stays, "{record:?} is superseded, cleaned up to {}", done.to);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn whatever_is_cleaned_when_the_newest_of_each_key_is_there(
        segment_bytes in 150..700u32,
        delete_retention_ms in 0..1500i64,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let fixture = Fixture::new(LogConfig { delete_retention_ms, ..compacted(segment_bytes) });
        let log = fixture.open_new();
        let mut model = Model { fixture, log, records: Vec::new(), sequence: 0, epoch: 0, has_deleted: false };
        for step in &steps {
            model.apply(step);
        }
        close(&model.log);
        check_indexes(&model.fixture.world, &model.fixture.directory(), false);
    }
}
