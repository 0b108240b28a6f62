//! A real broker in a directory of its own, for tests that speak to it over a socket.
#![allow(dead_code)] // Each test binary uses a part of it.

use sillon_broker::{BrokerError, Running, config::BrokerConfig, observe::Observers};
use sillon_client::{Connection, ConnectionOptions};
use sillon_protocol::{
    messages::{
        CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, FetchPartition, FetchRequest,
        FetchResponse, FetchTopic, ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceTopic,
    },
    records::{BatchBuilder, Compression},
    wire::Request,
};
use sillon_runtime::{Runtime, tokio_backend};
use std::{future::Future, path::Path, time::Duration};

/// Versions in which topics still have names.
pub const PRODUCE_VERSION: i16 = 9;
pub const FETCH_VERSION: i16 = 12;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a scenario on two threads.
pub fn scenario<F: Future>(run: impl FnOnce(Runtime) -> F) -> F::Output {
    tokio_backend::block_on(Some(2), run).expect("threads can be started")
}

/// A broker's configuration in `directory`, on a free port.
pub fn config(directory: &Path, more: &str) -> BrokerConfig {
    let directory = directory.display();
    let text = format!(
        "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={directory}\n\
         sillon.coordinator.data.dir={directory}/coordinator\n{more}"
    );
    BrokerConfig::from_properties(&text, "test.properties").expect("the configuration is legal").0
}

/// Starts a broker that has to start.
pub async fn start(runtime: &Runtime, directory: &Path, more: &str) -> Running {
    try_start(runtime, directory, more)
        .await
        .unwrap_or_else(|error| panic!("the broker does not start: {error}"))
}

pub async fn try_start(runtime: &Runtime, directory: &Path, more: &str) -> Result<Running, BrokerError> {
    Running::start(runtime.clone(), config(directory, more), Observers::NONE).await
}

/// A connection to it.
pub async fn connect(runtime: &Runtime, broker: &Running) -> Connection {
    let port = broker.addresses()[0].port();
    Connection::connect(runtime, "127.0.0.1", port, ConnectionOptions::default())
        .await
        .expect("the broker answers")
}

/// Sends a request in a version and expects an answer.
pub async fn ask<R: Request>(connection: &Connection, version: i16, request: &R) -> R::Response {
    connection.send_version(version, request, TIMEOUT).await.expect("the broker answers")
}

/// Creates a topic and gives the code of its result.
pub async fn create_topic(
    connection: &Connection,
    name: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> i16 {
    let topic = CreatableTopic {
        name: name.to_owned(),
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig {
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
            })
            .collect(),
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    ask(connection, 7, &request).await.topics[0].error_code
}

/// A batch of records with these values, from time stamp `first_timestamp` on, one millisecond apart.
pub fn batch(values: &[&str], first_timestamp: i64, producer: Option<(i64, i16, i32)>) -> bytes::Bytes {
    let mut builder = BatchBuilder::new();
    for (timestamp, value) in (first_timestamp..).zip(values) {
        builder.add(timestamp, None, Some(value.as_bytes()), []);
    }
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    builder.build(Compression::None)
}

/// Produces bytes to partition 0 of a topic.
pub async fn produce(
    connection: &Connection,
    topic: &str,
    records: bytes::Bytes,
) -> ProducePartitionResponse {
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![ProduceTopic {
            name: topic.to_owned(),
            partition_data: vec![ProducePartition { index: 0, records: Some(records) }],
            ..ProduceTopic::default()
        }],
        ..ProduceRequest::default()
    };
    ask(connection, PRODUCE_VERSION, &request).await.responses.remove(0).partition_responses.remove(0)
}

/// A fetch of partition 0 of a topic outside of sessions.
pub fn fetch_request(topic: &str, offset: i64) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            partitions: vec![FetchPartition {
                partition: 0,
                fetch_offset: offset,
                partition_max_bytes: 1 << 20,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    }
}

/// The values of the records in a fetch answer's first partition.
pub fn values(response: &FetchResponse) -> Vec<String> {
    let Some(partition) = response.responses.first().and_then(|topic| topic.partitions.first()) else {
        return Vec::new();
    };
    let sillon_protocol::wire::Records::Bytes(bytes) = &partition.records else { return Vec::new() };
    let mut values = Vec::new();
    for batch in sillon_protocol::records::split_batches(bytes) {
        let batch = batch.expect("the broker sends whole batches");
        batch.validate_header().expect("the broker sends sound batches");
        for record in batch.records().expect("they are not compressed") {
            let record = record.expect("the record is sound");
            values.push(String::from_utf8_lossy(record.value().unwrap_or_default()).into_owned());
        }
    }
    values
}
