//! Random operations against a plain list of records.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Append(u8),
    Flush,
    Roll,
    DeleteRecords(prop::sample::Index),
    Retention(prop::sample::Index, u16),
    Truncate(prop::sample::Index),
    StartEpoch,
    Clean,
    Kill,
    PowerFailure(u64),
    FailedWrite(u8),
    FailedSync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..5u8).prop_map(Step::Append),
        3 => Just(Step::Flush),
        1 => Just(Step::Roll),
        1 => any::<prop::sample::Index>().prop_map(Step::DeleteRecords),
        1 => (any::<prop::sample::Index>(), 0..2000u16).prop_map(|(index, bytes)| Step::Retention(index, bytes)),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
        1 => Just(Step::StartEpoch),
        1 => Just(Step::Clean),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::PowerFailure),
        1 => any::<u8>().prop_map(Step::FailedWrite),
        1 => Just(Step::FailedSync),
    ]
}

/// The log as it should be: batches of (epoch, values), and where it starts.
struct Model {
    fixture: Fixture,
    log: Arc<Log>,
    records: Vec<(i32, String)>,
    /// First offset of every batch.
    batches: Vec<usize>,
    start: usize,
    flushed: usize,
    epoch: i32,
    sequence: i32,
    written: usize,
}

impl Model {
    fn new(segment_bytes: u32) -> Model {
        let fixture = Fixture::with_segments(segment_bytes);
        let log = fixture.open_new();
        let (records, batches) = (Vec::new(), Vec::new());
        Model { fixture, log, records, batches, start: 0, flushed: 0, epoch: 0, sequence: 0, written: 0 }
    }

    fn cut(&mut self, to: usize) {
        self.records.truncate(to);
        self.batches.retain(|base| *base < to);
        self.start = self.start.min(to);
        self.flushed = self.flushed.min(to);
    }

    fn batch(&mut self, count: u8) -> (RecordBatch, Vec<String>) {
        let values: Vec<String> = (0..count)
            .map(|_| {
                self.written += 1;
                format!("value {}", self.written)
            })
            .collect();
        let borrowed: Vec<&str> = values.iter().map(String::as_str).collect();
        (idempotent(3, self.epoch as i16, self.sequence, &borrowed), values)
    }

    fn append(&mut self, count: u8) {
        let (batch, values) = self.batch(count);
        let appended = block_on(self.log.append_as_leader(batch, LeaderEpoch(self.epoch))).expect("online");
        assert_eq!((appended.base_offset.0 as usize, appended.duplicate), (self.records.len(), false));
        self.batches.push(self.records.len());
        self.records.extend(values.into_iter().map(|value| (self.epoch, value)));
        self.sequence += i32::from(count);
    }

    /// A new epoch and producer epoch after anything that may have taken records away.
    fn next_epoch(&mut self) {
        self.epoch += 1;
        self.sequence = 0;
    }

    fn open(&mut self, clean: bool) {
        let recovery_point = Offset(self.flushed as i64);
        let log_start_offset = Offset(self.start as i64);
        self.log = self.fixture.open(Opening { clean, recovery_point, log_start_offset });
        self.start = self.log.log_start_offset().0 as usize;
    }

    fn apply(&mut self, step: &Step) {
        let end = Offset(self.records.len() as i64);
        match step {
            Step::Append(count) => self.append(*count),
            Step::Flush => {
                self.flushed = flush(&self.log).0 as usize;
                assert_eq!(self.flushed, self.records.len());
            }
            Step::Roll => {
                self.fixture.world.advance(8 * 24 * 60 * 60 * 1000);
                self.append(1);
            }
            Step::DeleteRecords(index) => {
                let to = self.start + index.index(self.records.len() - self.start + 1);
                block_on(self.log.delete_records(Offset(to as i64), end)).expect("deleted");
                self.start = to;
            }
            Step::Retention(index, bytes) => {
                let high_watermark = self.start + index.index(self.records.len() - self.start + 1);
                let retention_bytes = i64::from(*bytes);
                self.log.update_config(LogConfig {
                    retention_bytes,
                    retention_ms: -1,
                    ..(*self.log.config()).clone()
                });
                block_on(self.log.enforce_retention(Offset(high_watermark as i64))).expect("done");
                let start = self.log.log_start_offset().0 as usize;
                assert!(start >= self.start && start <= high_watermark, "I40");
                self.start = start;
            }
            Step::Truncate(index) => {
                let to = self.start + index.index(self.records.len() - self.start + 1);
                let cut = self
                    .batches
                    .iter()
                    .rfind(|base| **base <= to)
                    .copied()
                    .filter(|_| to < self.records.len());
                let new_end = block_on(self.log.truncate_to(Offset(to as i64))).expect("cut").0 as usize;
                assert_eq!(new_end, cut.unwrap_or(self.records.len()));
                self.cut(new_end);
                self.start = self.log.log_start_offset().0 as usize;
                self.next_epoch();
            }
            Step::StartEpoch => {
                self.next_epoch();
                assert_eq!(
                    block_on(self.log.start_leader_epoch(LeaderEpoch(self.epoch))).expect("entered"),
                    end
                );
            }
            _ => self.stop_or_fail(step, end),
        }
    }

    /// Steps after which the log is opened again.
    fn stop_or_fail(&mut self, step: &Step, end: Offset) {
        match step {
            Step::Clean => {
                close(&self.log);
                self.flushed = self.records.len();
                self.fixture.world.lose_power(None);
                self.open(true);
                assert_eq!(self.log.log_end_offset(), end);
            }
            Step::Kill => {
                self.fixture.world.kill();
                self.open(false);
                assert_eq!(self.log.log_end_offset(), end, "the page cache survives");
            }
            Step::PowerFailure(seed) => {
                self.fixture.world.lose_power((seed % 4 != 0).then_some(*seed));
                self.open(false);
                let new_end = self.log.log_end_offset().0 as usize;
                assert!(new_end >= self.flushed, "I02: {new_end} was flushed to {}", self.flushed);
                self.cut(new_end);
                self.next_epoch();
            }
            Step::FailedWrite(stored) => {
                self.fixture.world.fail_write_halfway(usize::from(*stored));
                let (batch, _) = self.batch(2);
                block_on(self.log.append_as_leader(batch, LeaderEpoch(self.epoch)))
                    .expect_err("the write fails");
                self.fixture.world.no_more_faults();
                block_on(self.log.reopen()).expect("reopened");
            }
            Step::FailedSync => {
                self.append(1);
                self.fixture.world.fail(
                    crate::log::testing::world::Operation::Sync,
                    0,
                    std::io::ErrorKind::Other,
                );
                block_on(self.log.flush(self.log.log_end_offset())).expect_err("the sync fails");
                if self.written.is_multiple_of(2) {
                    self.fixture.world.kill();
                    self.open(false);
                } else {
                    block_on(self.log.reopen()).expect("reopened");
                }
            }
            _ => unreachable!("the other steps are applied elsewhere"),
        }
    }

    fn check(&self) {
        let expected: Vec<_> = (self.start..self.records.len())
            .map(|offset| (offset as i64, self.records[offset].0, self.records[offset].1.clone()))
            .collect();
        assert_eq!(contents(&self.log), expected);
        assert_eq!(self.log.log_end_offset().0 as usize, self.records.len());
        for (offset, (epoch, _)) in self.records.iter().enumerate().skip(self.start) {
            assert_eq!(self.log.epoch_for_offset(Offset(offset as i64)), Some(LeaderEpoch(*epoch)), "I13");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_a_list_of_records(segment_bytes in 200..1200u32, steps in proptest::collection::vec(step(), 1..60)) {
        let mut model = Model::new(segment_bytes);
        for step in &steps {
            model.apply(step);
            model.check();
        }
        // I27: the table is the one that the log gives.
        let table = block_on(model.log.producers_summary());
        close(&model.log);
        check_indexes(&model.fixture.world, &model.fixture.directory(), false);
        let recovery_point = model.log.recovery_point();
        let log_start_offset = Offset(model.start as i64);
        for clean in [true, false] {
            let log = model.fixture.open(Opening { clean, recovery_point, log_start_offset });
            assert_eq!(block_on(log.producers_summary()), table, "I27");
        }
    }
}
