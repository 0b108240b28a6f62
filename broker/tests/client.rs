//! The client library against a real broker over a real socket.

mod support;

use sillon_broker::Running;
use sillon_client::{
    ClientError, Remedy,
    admin::Address,
    cluster::NetworkConfig,
    consumer::{Consumer, ConsumerConfig, ConsumerRecord, OffsetReset, SeekTarget, TopicPartition},
    producer::{Header, Producer, ProducerConfig, ProducerRecord},
};
use sillon_protocol::{ErrorCode, records::Compression};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{connect, create_topic, scenario, start};

const LIMIT: Duration = Duration::from_secs(30);

fn network(broker: &Running) -> NetworkConfig {
    NetworkConfig::new(vec![Address { host: "127.0.0.1".into(), port: broker.addresses()[0].port() }])
}

#[test]
fn records_are_written_in_order_and_everybody_hears_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    scenario(async |runtime| {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "orders", 3, &[]).await, 0);
        for compression_type in [Compression::None, Compression::Lz4] {
            let config = ProducerConfig { compression_type, ..ProducerConfig::new(network(&broker)) };
            let producer = Producer::new(&runtime, config).expect("legal");
            let mut deliveries = Vec::new();
            for value in 0..1000 {
                let value = format!("value {value}");
                let headers = [Header::new("trace", b"17")];
                let record = ProducerRecord::new("orders", &value).partition(0).headers(&headers);
                deliveries.push(producer.send(&record).await.expect("there is room"));
            }
            let mut offsets = Vec::new();
            for delivery in deliveries {
                offsets.push(delivery.await.expect("written").offset.expect("told"));
            }
            let first = offsets[0];
            assert!(offsets.iter().copied().eq(first..first + 1000), "{offsets:?}");
            let called = Arc::new(Mutex::new(None));
            let (seen, record) = (called.clone(), ProducerRecord::new("orders", "v").key("foobar"));
            let store = move |result| *seen.lock().expect("not poisoned") = Some(result);
            producer.send_then(&record, store).await.expect("there is room");
            producer.close(LIMIT).await.expect("all is delivered");
            let metadata =
                called.lock().expect("not poisoned").take().expect("called back").expect("written");
            // murmur2("foobar") without its sign, among three.
            assert_eq!(metadata.partition, 1_357_151_166 % 3);
        }
        broker.stop().await.expect("stopped");
    });
}

#[test]
fn what_cannot_be_written_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    scenario(async |runtime| {
        let broker = start(&runtime, directory.path(), "auto.create.topics.enable=false").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "small", 1, &[("max.message.bytes", "1000")]).await, 0);
        let config = ProducerConfig { max_block_ms: 500, ..ProducerConfig::new(network(&broker)) };
        let producer = Producer::new(&runtime, config).expect("legal");
        let missing = producer.send(&ProducerRecord::new("missing", "v")).await.expect_err("no such topic");
        assert_eq!(missing.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION), "{missing}");
        let large = vec![7; 2000];
        let error =
            producer.send_and_wait(&ProducerRecord::new("small", &large)).await.expect_err("too large");
        assert_eq!(error.code(), Some(ErrorCode::MESSAGE_TOO_LARGE), "{error}");
        let after =
            producer.send_and_wait(&ProducerRecord::new("small", "v")).await.expect("under a new epoch");
        assert_eq!(after.offset, Some(0));
        let delivery = producer.send(&ProducerRecord::new("small", "v")).await.expect("there is room");
        drop(producer);
        assert!(matches!(delivery.await, Ok(_) | Err(ClientError::Closed)));
        broker.stop().await.expect("stopped");
    });
}

/// Polls until there are so many records, or it takes too long.
async fn read(consumer: &mut Consumer, count: usize) -> Vec<ConsumerRecord> {
    let mut records = Vec::new();
    for _ in 0..200 {
        records.extend(consumer.poll(Duration::from_millis(100)).await.expect("nothing goes wrong"));
        if records.len() >= count {
            break;
        }
    }
    records
}

fn values(records: &[ConsumerRecord]) -> Vec<&str> {
    records
        .iter()
        .map(|record| std::str::from_utf8(record.value.as_ref().expect("one")).expect("text"))
        .collect()
}

#[test]
fn what_was_written_is_read_by_hand() {
    let directory = tempfile::tempdir().expect("a directory");
    scenario(async |runtime| {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "orders", 2, &[]).await, 0);
        let producer = Producer::new(&runtime, ProducerConfig::new(network(&broker))).expect("legal");
        for value in 0..2000 {
            let value = value.to_string();
            let headers = [Header::new("h", b"1"), Header::new("h", b"2")];
            let record = ProducerRecord::new("orders", &value)
                .partition(1)
                .headers(&headers)
                .timestamp(1000 + value.len() as i64);
            producer.send(&record).await.expect("there is room").forget();
        }
        producer.flush().await;
        let config = ConsumerConfig {
            auto_offset_reset: OffsetReset::Earliest,
            ..ConsumerConfig::new(network(&broker))
        };
        let mut consumer = Consumer::new(&runtime, config).expect("legal");
        let (empty, full) = (TopicPartition::new("orders", 0), TopicPartition::new("orders", 1));
        consumer.assign([empty.clone(), full.clone()]).expect("not subscribed");
        let records = read(&mut consumer, 2000).await;
        assert_eq!(records.len(), 2000);
        assert!(records.iter().map(|record| record.offset).eq(0..2000));
        assert_eq!(values(&records[1234..1236]), ["1234", "1235"]);
        assert_eq!(records[0].headers.len(), 2);
        assert_eq!(consumer.position(&full).await.expect("known"), 2000);
        assert_eq!(consumer.position(&empty).await.expect("known"), 0);
        assert_eq!(consumer.lag(&full), Some(0));
        consumer.seek(&full, 1998).expect("assigned");
        assert_eq!(values(&read(&mut consumer, 2).await), ["1998", "1999"]);
        consumer.seek_to(&full, SeekTarget::Time(1004)).expect("assigned");
        assert_eq!(read(&mut consumer, 1).await[0].offset, 1000, "the first of four digits");
        let both = [empty.clone(), full.clone()].into();
        let ends = consumer.end_offsets(&both).await.expect("told");
        assert_eq!(ends, [(empty.clone(), 0), (full.clone(), 2000)].into());
        consumer.pause([&full]).expect("assigned");
        assert!(consumer.poll(Duration::from_millis(300)).await.expect("nothing goes wrong").is_empty());
        consumer.resume([&full]).expect("assigned");
        assert!(!read(&mut consumer, 1).await.is_empty());
        consumer.close(LIMIT).await.expect("nothing to do");
        broker.stop().await.expect("stopped");
    });
}

#[test]
fn a_position_that_the_log_does_not_hold_is_told_or_reset() {
    let directory = tempfile::tempdir().expect("a directory");
    scenario(async |runtime| {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "orders", 1, &[]).await, 0);
        let producer = Producer::new(&runtime, ProducerConfig::new(network(&broker))).expect("legal");
        producer.send_and_wait(&ProducerRecord::new("orders", "only")).await.expect("written");
        let partition = TopicPartition::new("orders", 0);
        let config =
            ConsumerConfig { auto_offset_reset: OffsetReset::None, ..ConsumerConfig::new(network(&broker)) };
        let mut strict = Consumer::new(&runtime, config.clone()).expect("legal");
        strict.assign([partition.clone()]).expect("not subscribed");
        let error = strict.poll(LIMIT).await.expect_err("it was not told where to begin");
        assert!(matches!(error, ClientError::NoOffset { .. }) && error.remedy() == Remedy::Seek, "{error}");
        strict.seek(&partition, 77).expect("assigned");
        let error = strict.poll(LIMIT).await.expect_err("there is no such offset");
        assert!(matches!(error, ClientError::OffsetOutOfRange { offset: 77, .. }), "{error}");
        strict.seek(&partition, 0).expect("assigned");
        assert_eq!(values(&read(&mut strict, 1).await), ["only"]);
        let config = ConsumerConfig { auto_offset_reset: OffsetReset::Earliest, ..config };
        let mut lenient = Consumer::new(&runtime, config).expect("legal");
        lenient.assign([partition.clone()]).expect("not subscribed");
        lenient.seek(&partition, 77).expect("assigned");
        assert_eq!(values(&read(&mut lenient, 1).await), ["only"]);
        broker.stop().await.expect("stopped");
    });
}

#[test]
fn a_restart_of_the_broker_loses_and_repeats_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    scenario(async |runtime| {
        let mut broker = start(&runtime, directory.path(), "").await;
        let port = broker.addresses()[0].port();
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "orders", 1, &[]).await, 0);
        drop(connection);
        let network = network(&broker);
        let config = ProducerConfig { batch_size: 256, ..ProducerConfig::new(network.clone()) };
        let producer = Producer::new(&runtime, config).expect("legal");
        let config =
            ConsumerConfig { auto_offset_reset: OffsetReset::Earliest, ..ConsumerConfig::new(network) };
        let mut consumer = Consumer::new(&runtime, config).expect("legal");
        consumer.assign([TopicPartition::new("orders", 0)]).expect("not subscribed");
        let (mut deliveries, mut records) = (Vec::new(), Vec::new());
        for round in 0..4 {
            for value in round * 500..round * 500 + 500 {
                let value = value.to_string();
                deliveries.push(
                    producer.send(&ProducerRecord::new("orders", &value)).await.expect("there is room"),
                );
            }
            records.extend(consumer.poll(Duration::from_millis(20)).await.expect("nothing goes wrong"));
            // Some of the batches are on their way now.
            broker.stop().await.expect("stopped");
            let same_port = format!("listeners=PLAINTEXT://127.0.0.1:{port}");
            broker = start(&runtime, directory.path(), &same_port).await;
        }
        for (offset, delivery) in (0..).zip(deliveries) {
            let written = delivery.await.expect("written in the end");
            assert!(written.offset.is_none_or(|told| told == offset), "{written:?}, not at {offset}");
        }
        let missing = 2000 - records.len();
        records.extend(read(&mut consumer, missing).await);
        assert!(
            values(&records)
                .into_iter()
                .eq((0..2000).map(|value| value.to_string()).collect::<Vec<_>>().iter())
        );
        broker.stop().await.expect("stopped");
    });
}
