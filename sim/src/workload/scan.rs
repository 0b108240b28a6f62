//! The full scan at the end: reads every partition from its first record to its last and shows all of it to the oracle.

use super::{
    Shared,
    directory::Directory,
    fetching::{self, Limits},
    offsets,
    session::{Session, Wanted},
};
use crate::oracle::{ClientEvent, Purpose};
use sillon_broker::types::{TopicId, TopicPartition};
use sillon_client::ConnectionError;
use sillon_protocol::{ErrorCode, messages::FetchRequest};
use sillon_runtime::{Monotonic, Runtime};
use std::{sync::Arc, time::Duration};

/// How long the scan of one partition may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
const MAX_BYTES: i32 = 1 << 20;
/// The scan's number as a reader: none of the others has it.
const SCANNER: u32 = u32::MAX;

/// Reads every partition from log start to its end.
///
/// # Errors
/// Which partition could not be read to its end within a minute of simulated time, and why.
pub async fn final_scan(runtime: Runtime, shared: Arc<Shared>) -> Result<(), String> {
    let mut directory = Directory::new(runtime, shared.clone(), "scanner".into());
    for partition in all_partitions(&mut directory, &shared).await? {
        let deadline = directory.runtime.now() + PATIENCE;
        scan(&mut directory, &shared, &partition, deadline)
            .await
            .map_err(|error| format!("{partition}: {error}"))?;
    }
    Ok(())
}

/// All partitions that there are, also those by which topics grew.
async fn all_partitions(directory: &mut Directory, shared: &Shared) -> Result<Vec<TopicPartition>, String> {
    let deadline = directory.runtime.now() + PATIENCE;
    loop {
        directory.refresh().await;
        let unknown = shared.topics.iter().find(|plan| directory.routes.partition_count(&plan.name) == 0);
        match unknown {
            None => return Ok(directory.partitions()),
            Some(plan) if directory.runtime.now() > deadline => {
                return Err(format!("nobody tells of the partitions of {}", plan.name));
            }
            Some(_) => directory.runtime.sleep(PAUSE).await,
        }
    }
}

async fn scan(
    directory: &mut Directory,
    shared: &Shared,
    partition: &TopicPartition,
    deadline: Monotonic,
) -> Result<(), String> {
    let mut from = offset(directory, partition, offsets::EARLIEST, deadline).await?;
    let to = offset(directory, partition, offsets::LATEST, deadline).await?;
    let mut position = from;
    let mut last_error = String::new();
    while position < to {
        directory.keep_fresh().await;
        if directory.runtime.now() > deadline {
            return Err(format!(
                "at {position} of {from}..{to} after {} s: {last_error}",
                PATIENCE.as_secs()
            ));
        }
        match fetch(directory, shared, partition, position).await {
            Ok(Progress::To(next)) if next > position => position = next,
            Ok(Progress::Damaged) => break,
            Ok(Progress::To(_)) => {
                last_error = "nothing comes".into();
                directory.runtime.sleep(PAUSE).await;
            }
            Ok(Progress::Error(ErrorCode::OFFSET_OUT_OF_RANGE)) => {
                last_error = ErrorCode::OFFSET_OUT_OF_RANGE.message().into();
                directory.doubt();
                directory.runtime.sleep(PAUSE).await;
                // Retention goes on: what was the next record may be gone by now.
                let earliest = offset(directory, partition, offsets::EARLIEST, deadline).await?;
                if earliest > position {
                    (from, position) = (earliest, earliest);
                }
            }
            Ok(Progress::Error(code)) => {
                last_error = code.message().into();
                directory.doubt();
                directory.runtime.sleep(PAUSE).await;
            }
            Err(error) => {
                last_error = error.to_string();
                if let Some(leader) = directory.routes.leader(partition) {
                    directory.give_up(leader);
                }
                directory.runtime.sleep(PAUSE).await;
            }
        }
    }
    (shared.events)(ClientEvent::ScanFinished { partition: partition.clone(), from, to: position });
    Ok(())
}

async fn offset(
    directory: &mut Directory,
    partition: &TopicPartition,
    timestamp: i64,
    deadline: Monotonic,
) -> Result<i64, String> {
    loop {
        let error = match offsets::list(directory, partition, timestamp).await {
            Ok(Some(listed)) => return Ok(listed.offset),
            Ok(None) => "nobody who leads tells the offset".to_owned(),
            Err(error) => error.to_string(),
        };
        if directory.runtime.now() > deadline {
            return Err(error);
        }
        directory.runtime.sleep(PAUSE).await;
        directory.keep_fresh().await;
    }
}

/// How far a fetch came.
enum Progress {
    To(i64),
    Damaged,
    Error(ErrorCode),
}

async fn fetch(
    directory: &mut Directory,
    shared: &Shared,
    partition: &TopicPartition,
    position: i64,
) -> Result<Progress, ConnectionError> {
    let leader = directory.routes.leader(partition);
    let connection = match leader {
        Some(leader) => directory.connection(leader).await,
        None => None,
    };
    let (Some(leader), Some(connection)) = (leader, connection) else {
        directory.doubt();
        return Ok(Progress::Error(ErrorCode::LEADER_NOT_AVAILABLE));
    };
    let common = connection.common_versions::<FetchRequest>()?;
    // By name, so that no id is needed.
    let version = (*common.end()).min(fetching::FIRST_VERSION_WITH_TOPIC_IDS - 1);
    let wanted = [(partition.clone(), Wanted::from(position, MAX_BYTES))];
    let plan = Session::new(false).plan(&wanted);
    let ids = Default::default();
    let request = fetching::request(&plan, &ids, Limits { max_wait_ms: 0, max_bytes: MAX_BYTES }, "");
    let response = connection.send_version(version, &request, shared.request_timeout()).await?;
    let Some(fetched) =
        fetching::read(version, response, &ids).into_iter().find(|fetched| fetched.partition == *partition)
    else {
        return Ok(Progress::To(position));
    };
    if fetched.error != ErrorCode::NONE {
        return Ok(Progress::Error(fetched.error));
    }
    let next = fetched.batches.last().map_or(position, |batch| batch.next_offset.max(position));
    let damage = fetched.damage;
    (shared.events)(ClientEvent::Read {
        reader: SCANNER,
        served_by: u32::try_from(leader).ok(),
        purpose: Purpose::Final,
        partition: partition.clone(),
        topic_id: TopicId::default(),
        fetch_offset: position,
        high_watermark: fetched.high_watermark,
        log_start: fetched.log_start,
        batches: fetched.batches,
    });
    match damage {
        Some(text) => {
            let (reader, partition, fetch_offset) = (SCANNER, partition.clone(), next);
            (shared.events)(ClientEvent::ReadDamaged { reader, partition, fetch_offset, text });
            Ok(Progress::Damaged)
        }
        None => Ok(Progress::To(next)),
    }
}
