//! What readers do beside following: look back, ask for offsets, ask for the topics again, remove old records.

use super::{Limits, Reader, Session, Wanted};
use crate::{
    oracle::{ClientEvent, Purpose},
    workload::{fetching, offsets},
};
use sillon_broker::types::TopicPartition;
use sillon_protocol::{
    ErrorCode,
    messages::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic},
};
use std::time::Duration;

/// How many records a reader leaves alone before its position when it removes old ones.
const KEEP_RECORDS: i64 = 200;

impl Reader {
    /// Perhaps one thing that a reader does.
    pub(super) async fn look_around(&mut self) {
        match self.chance.draw("action", 0, 999) {
            0..=29 => self.look_back().await,
            30..=59 => self.ask_for_offset().await,
            60..=66 => {
                let replaced = self.directory.refresh().await;
                self.follow_partitions(&replaced);
            }
            67..=68 => self.remove_old_records().await,
            _ => {}
        }
    }

    fn some_partition(&mut self) -> Option<(TopicPartition, i64)> {
        let last = (self.positions.len() as u64).checked_sub(1)?;
        let index = self.chance.draw("partition", 0, last);
        let (partition, position) = self.positions.iter().nth(index as usize)?;
        Some((partition.clone(), position.offset))
    }

    /// Reads something older again.
    async fn look_back(&mut self) {
        let Some((partition, offset)) = self.some_partition() else { return };
        let from = self.chance.draw("look back", 0, offset.unsigned_abs()) as i64;
        let max_bytes = self.chance.draw("max bytes", 1, 16_384) as i32;
        let server = self.positions.get(&partition).and_then(|position| self.server(&partition, position));
        let Some(broker) = server else { return };
        let Some(connection) = self.directory.connection(broker).await else { return };
        let Some(version) = self.polls.get(&broker).and_then(|poll| poll.version) else { return };
        let mut wanted = Wanted::from(from, max_bytes);
        wanted.leader_epoch = self.directory.routes.leader_epoch(&partition);
        let plan = Session::new(false).plan(&[(partition, wanted)]);
        let limits = Limits { max_wait_ms: 0, max_bytes };
        let request = fetching::request(&plan, self.directory.routes.ids(), limits, &self.rack);
        let patience = self.shared.request_timeout() + Duration::from_secs(1);
        let response = match connection.send_version(version, &request, patience).await {
            Ok(response) if response.error_code == 0 => response,
            Ok(_) => return,
            Err(_) => return self.lose(broker),
        };
        let answers = fetching::read(version, response, self.directory.routes.ids());
        for mut fetched in answers.into_iter().filter(|fetched| fetched.error == ErrorCode::NONE) {
            let (damage, partition) = (fetched.damage.take(), fetched.partition.clone());
            self.tell_read(broker, Purpose::Again, from, fetched);
            if let Some(text) = damage {
                let (reader, fetch_offset) = (self.client, from);
                self.tell(ClientEvent::ReadDamaged { reader, partition, fetch_offset, text });
            }
        }
    }

    async fn ask_for_offset(&mut self) {
        let Some((partition, _)) = self.some_partition() else { return };
        let timestamp = match self.chance.draw("which offset", 0, 4) {
            0 | 1 => offsets::LATEST,
            2 => offsets::EARLIEST,
            3 => offsets::MAX_TIMESTAMP,
            _ => {
                let back_ms = self.chance.draw("how long ago", 0, 60_000);
                (self.directory.runtime.unix_time().0 - back_ms as i64).max(0)
            }
        };
        self.list(&partition, timestamp).await;
    }

    /// The offset for a time as the leader tells it, where there is one.
    pub(super) async fn list(&mut self, partition: &TopicPartition, timestamp: i64) -> Option<i64> {
        let leader = self.directory.routes.leader(partition);
        let topic_id = self.directory.life(&partition.topic);
        match offsets::list(&mut self.directory, partition, timestamp).await {
            Ok(Some(listed)) => {
                let (client, partition) = (self.client, partition.clone());
                let (offset, leader_epoch) = (listed.offset, listed.leader_epoch);
                self.tell(ClientEvent::Listed {
                    client,
                    partition,
                    topic_id,
                    timestamp,
                    leader_epoch,
                    offset,
                });
                Some(offset).filter(|offset| *offset >= 0)
            }
            Ok(None) => None,
            Err(_) => {
                if let Some(leader) = leader {
                    self.lose(leader);
                }
                None
            }
        }
    }

    async fn remove_old_records(&mut self) {
        let Some((partition, offset)) = self.some_partition() else { return };
        let Ok(most @ 1..) = u64::try_from(offset - KEEP_RECORDS) else { return };
        let before_offset = self.chance.draw("remove before", 1, most) as i64;
        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: partition.topic.to_string(),
                partitions: vec![DeleteRecordsPartition {
                    partition_index: partition.partition,
                    offset: before_offset,
                }],
            }],
            timeout_ms: 1000,
        };
        let leader = self.directory.routes.leader(&partition);
        let topic_id = self.directory.life(&partition.topic);
        let response = match self.directory.ask_leader(&partition, &request).await {
            Ok(Some(response)) => response,
            Ok(None) => return,
            Err(_) => {
                if let Some(leader) = leader {
                    self.lose(leader);
                }
                return;
            }
        };
        let result = response.topics.first().and_then(|topic| topic.partitions.first());
        if let Some(result) = result.filter(|result| result.error_code == 0) {
            let (client, low_watermark) = (self.client, result.low_watermark);
            self.tell(ClientEvent::DeletedRecords {
                client,
                partition,
                topic_id,
                before_offset,
                low_watermark,
            });
        }
    }
}
