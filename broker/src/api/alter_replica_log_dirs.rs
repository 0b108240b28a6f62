//! AlterReplicaLogDirs (34): which directory a log is to lie in (KIP-113). A log stays where it is: what is asked for
//! is either so already, or refused.

use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
    },
};
use std::{collections::BTreeMap, path::Path};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse {
    let mut results: BTreeMap<String, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for directory in request.dirs {
        let path = Path::new(&directory.path);
        for topic in directory.topics {
            let outcomes = topic.partitions.into_iter().map(|partition_index| {
                let error_code = check(broker, path, &topic.name, partition_index).code();
                AlterReplicaLogDirPartitionResult { partition_index, error_code }
            });
            results.entry(topic.name.clone()).or_default().extend(outcomes);
        }
    }
    let result = |(topic_name, partitions)| AlterReplicaLogDirTopicResult { topic_name, partitions };
    AlterReplicaLogDirsResponse {
        results: results.into_iter().map(result).collect(),
        ..AlterReplicaLogDirsResponse::default()
    }
}

fn check(broker: &Broker, wanted: &Path, topic: &str, partition: i32) -> ErrorCode {
    if !broker.config().log_dirs.iter().any(|directory| directory == wanted) {
        return ErrorCode::LOG_DIR_NOT_FOUND;
    }
    let topics = broker.topics();
    let Some(topic) = topics.by_name(topic) else { return ErrorCode::REPLICA_NOT_AVAILABLE };
    match topic.partition(partition) {
        Ok(partition) if partition.log().directory().parent() == Some(wanted) => ErrorCode::NONE,
        // Logs do not move between the directories of a broker.
        Ok(_) => ErrorCode::INVALID_REQUEST,
        Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => ErrorCode::REPLICA_NOT_AVAILABLE,
        Err(code) => code,
    }
}
