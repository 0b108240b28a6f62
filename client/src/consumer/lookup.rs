//! Where a consumer stands and where it could go: positions, seeking, offsets by time, beginnings and ends.

use super::{
    Consumer, IsolationLevel, OffsetAndTimestamp, SeekTarget, TopicPartition, commit::late, not_assigned,
    positions::Question, requests,
};
use crate::{ClientError, cluster::Cluster};
use sillon_protocol::{ErrorCode, messages::ListOffsetsPartitionResponse};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

impl Consumer {
    /// Reading goes on at this offset. Nothing that has come is given any more.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] where the partition is not assigned, or the offset negative.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), ClientError> {
        self.seek_with_epoch(partition, offset, None)
    }

    /// As [`Consumer::seek`], with the epoch of the record before it: a log that holds another there is noticed (KIP-320).
    ///
    /// # Errors
    /// As [`Consumer::seek`].
    pub fn seek_with_epoch(
        &mut self,
        partition: &TopicPartition,
        offset: i64,
        leader_epoch: Option<i32>,
    ) -> Result<(), ClientError> {
        if offset < 0 {
            return Err(ClientError::Misuse { problem: format!("{partition} has no offset {offset}") });
        }
        if self.positions.seek(partition, offset, leader_epoch) {
            Ok(())
        } else {
            Err(not_assigned(partition))
        }
    }

    /// Reading goes on there.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] where the partition is not assigned.
    pub fn seek_to(&mut self, partition: &TopicPartition, target: SeekTarget) -> Result<(), ClientError> {
        if self.positions.seek_to(partition, target) { Ok(()) } else { Err(not_assigned(partition)) }
    }

    /// Where reading goes on; waits until that is known.
    ///
    /// # Errors
    /// [`ClientError::Misuse`] where the partition is not assigned; what [`Consumer::poll`] would give;
    /// [`ClientError::TimedOut`] after `default_api_timeout_ms`.
    pub async fn position(&mut self, partition: &TopicPartition) -> Result<i64, ClientError> {
        let limit = Duration::from_millis(self.config.default_api_timeout_ms);
        let deadline = self.runtime.now() + limit;
        loop {
            if !self.positions.contains(partition) {
                return Err(not_assigned(partition));
            }
            if let Some(position) = self.positions.position(partition) {
                return Ok(position.offset);
            }
            if self.runtime.now() >= deadline {
                let last = ClientError::Misuse { problem: "no broker has told yet".to_owned() };
                return Err(late("learn the position", limit, &last));
            }
            self.step(deadline).await?;
        }
    }

    /// How many offsets lie between the position and the end of what can be read, as of the last fetch.
    pub fn lag(&self, partition: &TopicPartition) -> Option<i64> {
        self.positions.lag(partition)
    }

    /// The first offset that each of these partitions has.
    ///
    /// # Errors
    /// [`ClientError::Refused`]; [`ClientError::TimedOut`] after `default_api_timeout_ms`.
    pub async fn beginning_offsets(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        self.ends(partitions, SeekTarget::Beginning).await
    }

    /// The offset after the last record of each of these partitions that can be read at this isolation level.
    ///
    /// # Errors
    /// As [`Consumer::beginning_offsets`].
    pub async fn end_offsets(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        self.ends(partitions, SeekTarget::End).await
    }

    async fn ends(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        target: SeekTarget,
    ) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        let wanted = partitions.iter().map(|partition| (partition.clone(), target)).collect();
        let found = self.look_up(wanted).await?;
        Ok(found.into_iter().filter_map(|(partition, found)| Some((partition, found?.offset))).collect())
    }

    /// The first record of each partition at its time, in milliseconds, or later; `None` where there is none.
    ///
    /// # Errors
    /// As [`Consumer::beginning_offsets`].
    pub async fn offsets_for_times(
        &self,
        times: &BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, Option<OffsetAndTimestamp>>, ClientError> {
        let wanted =
            times.iter().map(|(partition, time)| (partition.clone(), SeekTarget::Time(*time))).collect();
        self.look_up(wanted).await
    }

    async fn look_up(
        &self,
        wanted: BTreeMap<TopicPartition, SeekTarget>,
    ) -> Result<BTreeMap<TopicPartition, Option<OffsetAndTimestamp>>, ClientError> {
        let limit = Duration::from_millis(self.config.default_api_timeout_ms);
        look_up(&self.cluster, self.config.isolation_level, wanted, limit).await
    }
}

/// Asks leaders for offsets until each has answered.
pub(crate) async fn look_up(
    cluster: &Cluster,
    isolation: IsolationLevel,
    mut wanted: BTreeMap<TopicPartition, SeekTarget>,
    limit: Duration,
) -> Result<BTreeMap<TopicPartition, Option<OffsetAndTimestamp>>, ClientError> {
    let deadline = cluster.runtime().now() + limit;
    let mut found = BTreeMap::new();
    for topic in wanted.keys().map(|partition| &partition.topic).collect::<BTreeSet<_>>() {
        cluster.topic(topic, deadline).await?;
    }
    loop {
        let last = match look_up_once(cluster, isolation, &mut wanted, &mut found).await {
            Err(error) if !error.is_retriable() => return Err(error),
            Err(error) => error,
            Ok(()) => ClientError::Misuse { problem: "a partition has no leader".to_owned() },
        };
        if wanted.is_empty() {
            return Ok(found);
        }
        if cluster.runtime().now() >= deadline {
            return Err(late("find offsets", limit, &last));
        }
        cluster.request_update();
        cluster.runtime().sleep(Duration::from_millis(cluster.config().retry_backoff_ms)).await;
    }
}

/// Asks each leader once and takes out of `wanted` what was answered. Gives the last error that passes by itself.
async fn look_up_once(
    cluster: &Cluster,
    isolation: IsolationLevel,
    wanted: &mut BTreeMap<TopicPartition, SeekTarget>,
    found: &mut BTreeMap<TopicPartition, Option<OffsetAndTimestamp>>,
) -> Result<(), ClientError> {
    let metadata = cluster.metadata();
    let mut by_leader: BTreeMap<i32, Vec<Question<SeekTarget>>> = BTreeMap::new();
    for (partition, target) in wanted.iter() {
        let Some(known) = metadata.partition(&partition.topic, partition.partition) else {
            let partitions = metadata.topic(&partition.topic).map_or(0, |topic| topic.partitions.len());
            let (topic, partition) = (partition.topic.to_string(), partition.partition);
            return Err(ClientError::NoSuchPartition { topic, partition, partitions });
        };
        let Some(leader) = known.leader.leader else { continue };
        let (partition, leader_epoch) = (partition.clone(), known.leader.epoch);
        let question = Question { partition, token: 0, leader_epoch, about: *target };
        by_leader.entry(leader).or_default().push(question);
    }
    let mut last = Ok(());
    for (leader, questions) in by_leader {
        let response = match cluster.send(leader, &requests::list_offsets(isolation, &questions)).await {
            Ok(response) => response,
            Err(error) if error.is_retriable() => {
                last = Err(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        for topic in response.topics {
            for part in topic.partitions {
                let partition = TopicPartition::new(&topic.name, part.partition_index);
                let code = ErrorCode::from(part.error_code);
                if code.is_none() {
                    wanted.remove(&partition);
                    found.insert(partition, offset_of(&part));
                    continue;
                }
                let error = ClientError::refused(format!("find an offset of {partition}"), code, None);
                if !error.is_retriable() {
                    return Err(error);
                }
                last = Err(error);
            }
        }
    }
    last
}

fn offset_of(part: &ListOffsetsPartitionResponse) -> Option<OffsetAndTimestamp> {
    (part.offset >= 0).then_some(OffsetAndTimestamp {
        offset: part.offset,
        timestamp: part.timestamp,
        leader_epoch: Some(part.leader_epoch).filter(|epoch| *epoch >= 0),
    })
}
