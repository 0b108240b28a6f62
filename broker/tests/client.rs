//! The client library against a real broker over a real socket.

mod support;

use sillon_broker::Running;
use sillon_client::{
    ClientError,
    admin::Address,
    cluster::NetworkConfig,
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
            let metadata = called.lock().expect("not poisoned").take().expect("called back").expect("written");
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
        let error = producer.send_and_wait(&ProducerRecord::new("small", &large)).await.expect_err("too large");
        assert_eq!(error.code(), Some(ErrorCode::MESSAGE_TOO_LARGE), "{error}");
        let after = producer.send_and_wait(&ProducerRecord::new("small", "v")).await.expect("under a new epoch");
        assert_eq!(after.offset, Some(0));
        let delivery = producer.send(&ProducerRecord::new("small", "v")).await.expect("there is room");
        drop(producer);
        assert!(matches!(delivery.await, Ok(_) | Err(ClientError::Closed)));
        broker.stop().await.expect("stopped");
    });
}
