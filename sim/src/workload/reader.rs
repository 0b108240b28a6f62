//! A reading client: follows every partition to its end, looks back now and then, asks for offsets, seldom removes old
//! records, and tells the oracle all it sees.

use super::{
    Chance, Shared,
    fetching::{self, Fetched, Limits},
    link::Link,
    offsets,
    session::{Session, Wanted},
    topics,
};
use crate::oracle::{ClientEvent, Purpose};
use sillon_broker::types::TopicPartition;
use sillon_client::ConnectionError;
use sillon_protocol::{
    ErrorCode,
    messages::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic, FetchRequest},
};
use sillon_runtime::Runtime;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a fetch may wait for records, in milliseconds.
const MAX_WAIT_MS: i32 = 500;
/// How long a reader rests after something went wrong.
const PAUSE: Duration = Duration::from_millis(100);
/// How many records a reader leaves alone before its position when it removes old ones.
const KEEP_RECORDS: i64 = 200;
/// The largest answer a reader takes, in bytes.
const LARGE_BYTES: i32 = 1 << 20;

struct Reader {
    client: u32,
    shared: Arc<Shared>,
    chance: Chance,
    link: Link,
    topic_ids: BTreeMap<String, topics::Id>,
    /// Where it follows each partition.
    positions: Vec<(TopicPartition, i64)>,
    session: Session,
    /// The version of its fetches, drawn anew with each connection.
    version: Option<i16>,
}

/// Reads until the run is over.
pub(super) async fn run(runtime: Runtime, client: u32, shared: Arc<Shared>, chance: Chance) {
    let mut link = Link::new(runtime.clone(), &shared, &format!("reader-{client}"));
    if !topics::create(&mut link, &shared).await {
        return;
    }
    let positions = topics::partitions(&shared).into_iter().map(|partition| (partition, 0)).collect();
    let topic_ids = topics::ids(&mut link, &shared).await.unwrap_or_default();
    let session = Session::new(false);
    let mut reader = Reader { client, shared, chance, link, topic_ids, positions, session, version: None };
    for (partition, from) in &reader.positions {
        reader.tell(ClientEvent::Following { reader: client, partition: partition.clone(), from: *from });
    }
    while !reader.shared.is_stopped() {
        if reader.step().await.is_err() {
            reader.lose_connection();
            runtime.sleep(PAUSE).await;
        }
    }
}

impl Reader {
    fn tell(&self, event: ClientEvent) {
        (self.shared.events)(event);
    }

    fn lose_connection(&mut self) {
        self.link.drop_connection();
        self.session.lost();
        self.version = None;
    }

    /// One thing that a reader does.
    async fn step(&mut self) -> Result<(), ConnectionError> {
        match self.chance.draw("action", 0, 999) {
            0..=29 => self.look_back().await,
            30..=59 => self.ask_for_offset().await,
            60..=66 => self.refresh().await,
            67..=68 => self.remove_old_records().await,
            _ => self.follow().await,
        }
    }

    /// The version of fetches on this connection.
    async fn version(&mut self) -> Result<i16, ConnectionError> {
        let connection = self.link.connection().await?;
        if let Some(version) = self.version {
            return Ok(version);
        }
        let common = connection.common_versions::<FetchRequest>()?;
        let low = (*common.start()).max(fetching::FIRST_VERSION_WITH_ZSTD).min(*common.end());
        let knows_ids = self.shared.topics.iter().all(|plan| self.topic_ids.contains_key(&plan.name));
        let newest = *common.end();
        let high = if knows_ids { newest } else { newest.min(fetching::FIRST_VERSION_WITH_TOPIC_IDS - 1) };
        let version = self.chance.draw("version", low as u64, high.max(low) as u64) as i16;
        let with_session =
            version >= fetching::FIRST_VERSION_WITH_SESSIONS && self.chance.draw("session", 0, 1) == 1;
        self.session = Session::new(with_session);
        self.version = Some(version);
        Ok(version)
    }

    async fn fetch(
        &mut self,
        version: i16,
        request: &FetchRequest,
    ) -> Result<Option<Vec<Fetched>>, ConnectionError> {
        let connection = self.link.connection().await?;
        let patience =
            self.shared.request_timeout() + Duration::from_millis(request.max_wait_ms.unsigned_abs().into());
        let response = connection.send_version(version, request, patience).await?;
        if response.error_code != 0 {
            return Ok(None);
        }
        if request.session_epoch >= 0 {
            self.session.answered(response.session_id);
        }
        Ok(Some(fetching::read(version, response, &self.topic_ids)))
    }

    /// Follows all partitions with one long poll.
    async fn follow(&mut self) -> Result<(), ConnectionError> {
        let version = self.version().await?;
        let small = self.chance.draw("small fetch", 0, 9) == 0;
        let max_bytes = if small { 100 } else { LARGE_BYTES };
        // Each in turn is the first, so that small answers leave nobody out.
        self.positions.rotate_left(1);
        let mut wanted: Vec<(TopicPartition, Wanted)> = self
            .positions
            .iter()
            .map(|(partition, position)| {
                (partition.clone(), Wanted { fetch_offset: *position, max_bytes: LARGE_BYTES })
            })
            .collect();
        wanted.sort_by(|(one, _), (other, _)| one.topic.cmp(&other.topic));
        let plan = self.session.plan(&wanted);
        let limits = Limits { max_wait_ms: MAX_WAIT_MS, max_bytes };
        let request = fetching::request(&plan, &self.topic_ids, limits);
        let Some(answers) = self.fetch(version, &request).await? else {
            // The broker has forgotten the session.
            self.session.lost();
            return Ok(());
        };
        for fetched in answers {
            let Some(index) = self.positions.iter().position(|(name, _)| *name == fetched.partition) else {
                continue;
            };
            self.take(index, fetched).await?;
        }
        Ok(())
    }

    /// What a long poll brought for one partition.
    async fn take(&mut self, index: usize, fetched: Fetched) -> Result<(), ConnectionError> {
        let (partition, position) = self.positions[index].clone();
        match fetched.error {
            ErrorCode::NONE => {
                let next = fetched.batches.last().map_or(position, |batch| batch.next_offset.max(position));
                let damage = fetched.damage.clone();
                self.tell_read(Purpose::Tail, position, fetched);
                self.positions[index].1 = next;
                match damage {
                    Some(text) => self.step_over_damage(index, next, text).await,
                    None => Ok(()),
                }
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                let timestamp =
                    if self.chance.draw("reset", 0, 1) == 0 { offsets::EARLIEST } else { offsets::LATEST };
                let Some(to) = self.list(&partition, timestamp).await? else { return Ok(()) };
                self.positions[index].1 = to;
                self.tell(ClientEvent::Moved { reader: self.client, partition, from: position, to });
                Ok(())
            }
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => {
                self.link.runtime.sleep(PAUSE).await;
                topics::create(&mut self.link, &self.shared).await;
                self.refresh().await
            }
            _ => {
                self.link.runtime.sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    /// Damaged bytes stay damaged: a reader can only go on behind them.
    async fn step_over_damage(&mut self, index: usize, at: i64, text: String) -> Result<(), ConnectionError> {
        let partition = self.positions[index].0.clone();
        let (reader, fetch_offset) = (self.client, at);
        self.tell(ClientEvent::ReadDamaged { reader, partition: partition.clone(), fetch_offset, text });
        if let Some(from) = self.list(&partition, offsets::LATEST).await? {
            self.positions[index].1 = from;
            self.tell(ClientEvent::Following { reader, partition, from });
        }
        Ok(())
    }

    fn tell_read(&self, purpose: Purpose, fetch_offset: i64, fetched: Fetched) {
        let Fetched { partition, high_watermark, log_start, batches, .. } = fetched;
        let reader = self.client;
        self.tell(ClientEvent::Read {
            reader,
            served_by: None,
            purpose,
            partition,
            fetch_offset,
            high_watermark,
            log_start,
            batches,
        });
    }

    fn some_partition(&mut self) -> (TopicPartition, i64) {
        let index = self.chance.draw("partition", 0, self.positions.len() as u64 - 1);
        self.positions[index as usize].clone()
    }

    /// Reads something older again.
    async fn look_back(&mut self) -> Result<(), ConnectionError> {
        let (partition, position) = self.some_partition();
        let from = self.chance.draw("look back", 0, position.unsigned_abs()) as i64;
        let version = self.version().await?;
        let max_bytes = self.chance.draw("max bytes", 1, 16_384) as i32;
        let wanted = [(partition, Wanted { fetch_offset: from, max_bytes })];
        let plan = Session::new(false).plan(&wanted);
        let request = fetching::request(&plan, &self.topic_ids, Limits { max_wait_ms: 0, max_bytes });
        let Some(answers) = self.fetch(version, &request).await? else { return Ok(()) };
        for mut fetched in answers.into_iter().filter(|fetched| fetched.error == ErrorCode::NONE) {
            let damage = fetched.damage.take();
            let partition = fetched.partition.clone();
            self.tell_read(Purpose::Again, from, fetched);
            if let Some(text) = damage {
                self.tell(ClientEvent::ReadDamaged {
                    reader: self.client,
                    partition,
                    fetch_offset: from,
                    text,
                });
            }
        }
        Ok(())
    }

    async fn ask_for_offset(&mut self) -> Result<(), ConnectionError> {
        let (partition, _) = self.some_partition();
        let timestamp = match self.chance.draw("which offset", 0, 4) {
            0 | 1 => offsets::LATEST,
            2 => offsets::EARLIEST,
            3 => offsets::MAX_TIMESTAMP,
            _ => {
                let back_ms = self.chance.draw("how long ago", 0, 60_000);
                (self.link.runtime.unix_time().0 - back_ms as i64).max(0)
            }
        };
        self.list(&partition, timestamp).await.map(|_| ())
    }

    async fn list(
        &mut self,
        partition: &TopicPartition,
        timestamp: i64,
    ) -> Result<Option<i64>, ConnectionError> {
        let offset = offsets::list(&mut self.link, partition, timestamp).await?;
        if let Some(offset) = offset {
            let (client, partition) = (self.client, partition.clone());
            self.tell(ClientEvent::Listed { client, partition, timestamp, leader_epoch: -1, offset });
        }
        Ok(offset.filter(|offset| *offset >= 0))
    }

    /// Asks for the topics again, as clients do every few minutes.
    async fn refresh(&mut self) -> Result<(), ConnectionError> {
        if let Some(ids) = topics::ids(&mut self.link, &self.shared).await
            && ids != self.topic_ids
        {
            self.topic_ids = ids;
            self.session.lost();
            self.version = None;
        }
        Ok(())
    }

    async fn remove_old_records(&mut self) -> Result<(), ConnectionError> {
        let (partition, position) = self.some_partition();
        let Ok(most @ 1..) = u64::try_from(position - KEEP_RECORDS) else { return Ok(()) };
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
        let response = self.link.ask(&request).await?;
        let result = response.topics.first().and_then(|topic| topic.partitions.first());
        if let Some(result) = result.filter(|result| result.error_code == 0) {
            let (client, low_watermark) = (self.client, result.low_watermark);
            self.tell(ClientEvent::DeletedRecords { client, partition, before_offset, low_watermark });
        }
        Ok(())
    }
}
