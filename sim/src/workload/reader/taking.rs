//! What an answer to a poll means for one partition: where the reader goes on, and what the oracle is told.

use super::{Fetched, Reader, Wanted};
use crate::{
    oracle::{ClientEvent, Purpose},
    workload::{offsets, routes::BrokerNumber, topics},
};
use sillon_broker::types::TopicPartition;
use sillon_protocol::ErrorCode;

impl Reader {
    /// Takes what a poll brought for one partition. False where the broker is better left alone for a while.
    pub(super) async fn take(&mut self, broker: BrokerNumber, wanted: Wanted, fetched: Fetched) -> bool {
        let partition = fetched.partition.clone();
        let Some(position) = self.positions.get(&partition).copied() else { return true };
        if position.offset != wanted.fetch_offset {
            // The reader has gone on elsewhere meanwhile. What it was shown it has seen all the same.
            if fetched.error == ErrorCode::NONE {
                self.tell_read(broker, Purpose::Again, wanted.fetch_offset, fetched);
            }
            return true;
        }
        match fetched.error {
            ErrorCode::NONE => {
                self.take_records(broker, &partition, fetched).await;
                true
            }
            ErrorCode::OFFSET_OUT_OF_RANGE if position.preferred.is_some() => {
                // A replica may be behind: the leader knows.
                self.leave_replica(&partition);
                false
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                self.reset(&partition).await;
                false
            }
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => {
                self.leave_replica(&partition);
                topics::create(&mut self.directory, &self.shared).await;
                self.directory.doubt();
                false
            }
            _ => {
                self.leave_replica(&partition);
                self.directory.doubt();
                false
            }
        }
    }

    async fn take_records(&mut self, broker: BrokerNumber, partition: &TopicPartition, mut fetched: Fetched) {
        let Some(position) = self.positions.get(partition).copied() else { return };
        let from = position.offset;
        if let Some((epoch, end_offset)) = fetched.diverging {
            return self.truncated(partition, epoch, end_offset);
        }
        if let Some(preferred) = fetched.preferred_replica {
            self.change(partition, |position| position.preferred = Some(preferred));
        }
        let last = fetched.batches.last().map(|batch| (batch.next_offset.max(from), batch.leader_epoch));
        let damage = fetched.damage.take();
        self.tell_read(broker, Purpose::Tail, from, fetched);
        if let Some((next, epoch)) = last {
            self.change(partition, |position| (position.offset, position.last_epoch) = (next, epoch));
        }
        if let Some(text) = damage {
            self.step_over_damage(partition, last.map_or(from, |(next, _)| next), text).await;
        }
    }

    fn change(&mut self, partition: &TopicPartition, change: impl FnOnce(&mut super::Position)) {
        if let Some(position) = self.positions.get_mut(partition) {
            change(position);
        }
    }

    fn leave_replica(&mut self, partition: &TopicPartition) {
        self.change(partition, |position| position.preferred = None);
    }

    /// What was read from here on is not in the log any more: the reader goes back to where it still is.
    fn truncated(&mut self, partition: &TopicPartition, epoch: i32, end_offset: i64) {
        let Some(position) = self.positions.get(partition).copied() else { return };
        let to = end_offset.clamp(0, position.offset);
        self.change(partition, |position| (position.offset, position.last_epoch) = (to, epoch));
        let (reader, partition) = (self.client, partition.clone());
        let topic_id = self.directory.life(&partition.topic);
        self.tell(ClientEvent::TruncationSignal { reader, partition, topic_id, from: position.offset, to });
    }

    /// The position is out of range: on from the first record, or from the end.
    async fn reset(&mut self, partition: &TopicPartition) {
        let timestamp =
            if self.chance.draw("reset", 0, 1) == 0 { offsets::EARLIEST } else { offsets::LATEST };
        let Some(to) = self.list(partition, timestamp).await else { return };
        let Some(from) = self.positions.get(partition).map(|position| position.offset) else { return };
        self.change(partition, |position| (position.offset, position.last_epoch) = (to, -1));
        let (reader, partition) = (self.client, partition.clone());
        let topic_id = self.directory.life(&partition.topic);
        self.tell(ClientEvent::Moved { reader, partition, topic_id, from, to });
    }

    /// Damaged bytes stay damaged: a reader can only go on behind them.
    async fn step_over_damage(&mut self, partition: &TopicPartition, at: i64, text: String) {
        let (reader, partition) = (self.client, partition.clone());
        self.tell(ClientEvent::ReadDamaged { reader, partition: partition.clone(), fetch_offset: at, text });
        if let Some(from) = self.list(&partition, offsets::LATEST).await {
            self.change(&partition, |position| (position.offset, position.last_epoch) = (from, -1));
            self.tell(ClientEvent::Following { reader, partition, from });
        }
    }

    pub(super) fn tell_read(
        &self,
        broker: BrokerNumber,
        purpose: Purpose,
        fetch_offset: i64,
        fetched: Fetched,
    ) {
        let Fetched { partition, high_watermark, log_start, batches, .. } = fetched;
        let topic_id = self.directory.life(&partition.topic);
        self.tell(ClientEvent::Read {
            reader: self.client,
            served_by: u32::try_from(broker).ok(),
            purpose,
            partition,
            topic_id,
            fetch_offset,
            high_watermark,
            log_start,
            batches,
        });
    }
}
