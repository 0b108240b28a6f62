//! DescribeLogDirs (35): how large the logs are, by directory.

use crate::{broker::Broker, partition::Partition, server::dispatch::Client};
use sillon_protocol::messages::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};
use std::{collections::BTreeMap, path::PathBuf};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let mut by_directory: BTreeMap<PathBuf, BTreeMap<String, Vec<DescribeLogDirsPartition>>> =
        BTreeMap::new();
    for directory in &broker.config().log_dirs {
        by_directory.insert(directory.clone(), BTreeMap::new());
    }
    for partition in
        broker.topics().partitions().filter(|partition| is_wanted(request.topics.as_deref(), partition))
    {
        let Some(directory) = partition.log().directory().parent().map(PathBuf::from) else { continue };
        let topic = partition.name().topic.to_string();
        let described = DescribeLogDirsPartition {
            partition_index: partition.name().partition,
            partition_size: i64::try_from(partition.log().size_bytes()).unwrap_or(i64::MAX),
            offset_lag: 0,
            is_future_key: false,
        };
        by_directory.entry(directory).or_default().entry(topic).or_default().push(described);
    }
    let results = by_directory.into_iter().map(|(directory, topics)| DescribeLogDirsResult {
        log_dir: directory.display().to_string(),
        topics: topics
            .into_iter()
            .map(|(name, partitions)| DescribeLogDirsTopic { name, partitions })
            .collect(),
        ..DescribeLogDirsResult::default()
    });
    DescribeLogDirsResponse { results: results.collect(), ..DescribeLogDirsResponse::default() }
}

/// No list asks for everything; a topic without partitions in the list asks for none of them.
fn is_wanted(topics: Option<&[DescribableLogDirTopic]>, partition: &Partition) -> bool {
    let name = partition.name();
    topics.is_none_or(|topics| {
        topics.iter().any(|topic| *topic.topic == *name.topic && topic.partitions.contains(&name.partition))
    })
}
