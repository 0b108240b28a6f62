//! I06 and I68: one offset, one record, for everybody who ever sees it, producers and consumers alike.

use super::{
    Contract,
    events::{ReadBatch, RecordId, SentBatch},
    ghost::{GhostBatch, Node, Partition},
    invariant::Invariant,
    judge::Judge,
};

/// Somebody saw a record at an offset.
pub(super) fn on_seen(judge: &mut Judge, partition: &mut Partition, offset: i64, record: RecordId) {
    match partition.values.get(&offset) {
        Some(known) if *known == record => judge.evaluated(Invariant::I06),
        Some(known) => {
            // An answer may have been on its way while a power failure took the record it tells.
            let was_lost = partition.lost_values.contains(&(offset, record));
            judge.demand(Invariant::I06, was_lost, || {
                format!("at {offset} somebody saw {known}, now it is {record}")
            });
        }
        None if offset >= partition.log_end => {
            let was_lost = partition.lost_at_or_after(offset);
            judge.demand(Invariant::I06, was_lost, || {
                format!("{record} is seen at {offset}, where no record is")
            });
        }
        None => {
            judge.evaluated(Invariant::I06);
            partition.values.insert(offset, record);
        }
    }
}

/// Somebody hears late of a batch that was lost meanwhile, and whose place another one has: its records are those of the
/// lost one. Gives whether it is so.
fn is_of_lost(
    partition: &mut Partition,
    base: i64,
    is_it: impl Fn(&GhostBatch) -> bool,
    records: impl Iterator<Item = (i64, RecordId)>,
) -> bool {
    let is_lost = !partition.batch_at(base).is_some_and(&is_it) && partition.lost_at(base, &is_it);
    if is_lost {
        partition.lost_values.extend(records);
    }
    is_lost
}

/// A reader saw a record that somebody has seen before: it is the same for both (I68).
pub(super) fn on_read_record(judge: &mut Judge, partition: &Partition, offset: i64, record: RecordId) {
    if let Some(known) = partition.values.get(&offset) {
        let holds = *known == record || partition.lost_values.contains(&(offset, record));
        judge.demand(Invariant::I68, holds, || {
            format!("at {offset} one saw {known}, another one sees {record}")
        });
    }
}

/// The batch that a producer sent is the batch at the offset that it was told. Gives whether it was lost meanwhile.
pub(super) fn on_confirmed(
    judge: &mut Judge,
    contract: &Contract,
    partition: &mut Partition,
    (sent, records): (&SentBatch, impl Iterator<Item = (i64, RecordId)>),
    base: i64,
) -> bool {
    if !contract.stored_as_sent {
        return false;
    }
    let is_it = |batch: &GhostBatch| batch.crc == sent.crc;
    // That no batch is there at all is a matter of I01.
    if let Some(batch) = partition.batch_at(base) {
        let holds = is_it(batch) || partition.lost_at(base, is_it);
        judge.demand(Invariant::I06, holds, || {
            format!("sent was a batch with checksum {:#x}, at {base} is {:#x}", sent.crc, batch.crc)
        });
    }
    is_of_lost(partition, base, is_it, records)
}

/// A consumer got a batch: it is the one that was appended there. Gives whether it was lost meanwhile.
pub(super) fn on_read(judge: &mut Judge, partition: &mut Partition, read: &ReadBatch) -> bool {
    let is_it = |batch: &GhostBatch| {
        (batch.next, batch.epoch, batch.crc) == (read.next_offset, read.leader_epoch, read.crc)
    };
    let base = read.base_offset;
    let found = partition.batch_at(base);
    let holds = found.is_some_and(is_it) || partition.lost_at(base, is_it);
    judge.demand(Invariant::I06, holds, || {
        format!(
            "read was {base}..{} of epoch {} with checksum {:#x}, appended was {found:?}",
            read.next_offset, read.leader_epoch, read.crc
        )
    });
    is_of_lost(partition, base, is_it, read.records.iter().copied())
}

/// A consumer got bytes that are no batch: only a damaged disk may do that.
pub(super) fn on_damaged(
    judge: &mut Judge,
    node: &Node,
    partition: &Partition,
    fetch_offset: i64,
    text: &str,
) {
    let explained = node.has_damage_in(&partition.directory);
    judge.demand(Invariant::I06, explained, || {
        format!("a fetch from {fetch_offset} gave no proper batch: {text}")
    });
}

impl Partition {
    /// Whether the loss of records reached `offset`.
    fn lost_at_or_after(&self, offset: i64) -> bool {
        self.lost.iter().any(|batch| batch.next > offset)
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        events::{DiskFault, Purpose, Stop},
        testing::{LOG, Run},
    };

    fn two_batches() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 1);
        run.high_watermark(0, 3);
        run
    }

    #[test]
    fn everybody_sees_the_same() {
        let run = two_batches();
        run.sending(0, 2, None);
        run.confirmed(0, 0);
        run.read(1, Purpose::Tail, 0, &[0, 2]);
        run.read(2, Purpose::Tail, 0, &[0, 2]);
        run.assert_legal(&[Invariant::I06]);
    }

    #[test]
    fn a_consumer_sees_other_bytes_than_were_appended() {
        let run = two_batches();
        run.read_with(1, Purpose::Tail, 0, &[0, 2], |batch| batch.crc ^= 1);
        run.assert_violated(Invariant::I06);
    }

    #[test]
    fn a_consumer_sees_another_record_than_was_confirmed() {
        let run = two_batches();
        run.sending(0, 2, None);
        run.confirmed(0, 0);
        run.read_with(1, Purpose::Tail, 0, &[0], |batch| batch.records[1].1.counter += 100);
        run.assert_violated(Invariant::I06);
    }

    #[test]
    fn a_producer_is_told_the_offset_of_another_batch() {
        let run = Run::new();
        run.open_new();
        run.sending(0, 2, None);
        run.append_crc(0, 2, 12345);
        run.confirmed(0, 0);
        run.assert_violated(Invariant::I06);
    }

    #[test]
    fn an_answer_sent_before_a_power_failure_tells_what_was() {
        let run = two_batches();
        let mut before = run.batch_to_read(2);
        before.records[0].1.counter = 0;
        run.stop(Stop::PowerLost);
        run.cut_disk(2);
        run.start();
        run.open(false, 0, 2);
        run.lead(1);
        run.append_crc(2, 1, 999);
        run.high_watermark(2, 3);
        run.deliver(1, Purpose::Again, 2, vec![before]);
        run.assert_legal(&[Invariant::I06]);
        // What has its place now is seen as what it is.
        let now = run.batch_to_read(2);
        run.deliver(2, Purpose::Again, 2, vec![now.clone()]);
        run.assert_legal(&[Invariant::I06]);
        let mut other = now;
        other.records[0].1.counter = 1;
        run.deliver(2, Purpose::Again, 2, vec![other]);
        run.assert_violated(Invariant::I06);
    }

    #[test]
    fn damaged_bytes_are_the_disks_fault_or_the_brokers() {
        let run = two_batches();
        run.oracle.disk_fault(0, DiskFault::Corrupted { file: LOG.into(), offset: 5, length: 1 });
        run.read_damaged(1, 0);
        run.assert_legal(&[Invariant::I06]);
        let run = two_batches();
        run.read_damaged(1, 0);
        run.assert_violated(Invariant::I06);
    }
}
