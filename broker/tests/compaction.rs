//! A broker over a real socket, with a compacted topic: the newest record of each key stays, and what has no key is
//! refused.

mod support;

use sillon_client::Connection;
use sillon_protocol::{
    ErrorCode,
    messages::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic},
    records::{BatchBuilder, Compression},
};
use sillon_runtime::Runtime;
use std::time::Duration;
use support::*;

const SETTINGS: &str = "log.cleaner.backoff.ms=20";
const CONFIGS: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("segment.bytes", "200"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "0"),
];

fn keyed(key: Option<&str>, value: Option<&str>) -> bytes::Bytes {
    let mut builder = BatchBuilder::new();
    builder.add(1_700_000_000_000, key.map(str::as_bytes), value.map(str::as_bytes), []);
    builder.build(Compression::None)
}

async fn put(connection: &Connection, key: &str, value: Option<&str>) -> i64 {
    let answer = produce(connection, "t", keyed(Some(key), value)).await;
    assert_eq!(answer.error_code, 0);
    answer.base_offset
}

/// All values, a batch at a time: an answer may hold one without records.
async fn read_all(connection: &Connection, end: i64) -> Vec<String> {
    let (mut found, mut offset) = (Vec::new(), 0);
    while offset < end {
        let answer = ask(connection, FETCH_VERSION, &fetch_request("t", offset)).await;
        found.extend(values(&answer));
        let sillon_protocol::wire::Records::Bytes(bytes) = &answer.responses[0].partitions[0].records else {
            panic!("there is more up to {end}, at {offset}");
        };
        let last = sillon_protocol::records::split_batches(bytes).last().expect("a batch").expect("whole");
        assert!(last.next_offset() > offset, "a read moves on");
        offset = last.next_offset();
    }
    found
}

async fn until_compacted(runtime: &Runtime, connection: &Connection, end: i64, most: usize) -> Vec<String> {
    for _ in 0..500 {
        let found = read_all(connection, end).await;
        if found.len() <= most {
            return found;
        }
        runtime.sleep(Duration::from_millis(20)).await;
    }
    panic!("it was not compacted: {:?}", read_all(connection, end).await);
}

#[test]
fn the_newest_of_each_key_stays_over_a_restart_too() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), SETTINGS).await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "t", 1, CONFIGS).await, 0);
        put(&connection, "kept", Some("kept")).await;
        put(&connection, "gone", Some("gone")).await;
        put(&connection, "gone", None).await;
        let mut end = 0;
        for round in 0..40 {
            end = put(&connection, "a", Some(&format!("a{round}"))).await + 1;
        }
        // What is in the active segment stays as it is: two records of these fit.
        let found = until_compacted(&runtime, &connection, end, 4).await;
        assert_eq!(found.first().map(String::as_str), Some("kept"));
        assert_eq!(found.last().map(String::as_str), Some("a39"));
        assert!(!found.contains(&"gone".to_owned()));
        broker.stop().await.unwrap();

        let broker = start(&runtime, directory.path(), SETTINGS).await;
        let connection = connect(&runtime, &broker).await;
        let again = read_all(&connection, end).await;
        assert!(again.first() == found.first() && again.last() == found.last(), "{again:?}");
        broker.stop().await.unwrap();
    });
}

#[test]
fn what_contradicts_compaction_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), SETTINGS).await;
        let connection = connect(&runtime, &broker).await;
        let lags = [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "9")];
        assert_eq!(create_topic(&connection, "u", 1, &lags).await, ErrorCode::INVALID_CONFIG.code());
        assert_eq!(create_topic(&connection, "t", 1, CONFIGS).await, 0);
        put(&connection, "k", Some("v")).await;
        let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset: 1 }];
        let topics = vec![DeleteRecordsTopic { name: "t".to_owned(), partitions }];
        let request = DeleteRecordsRequest { topics, timeout_ms: 1000 };
        let answer = ask(&connection, 2, &request).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::POLICY_VIOLATION.code());
        broker.stop().await.unwrap();
    });
}

#[test]
fn a_producer_hears_which_records_have_no_key() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), SETTINGS).await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "t", 1, CONFIGS).await, 0);
        let answer = produce(&connection, "t", keyed(None, Some("v"))).await;
        assert_eq!(answer.error_code, ErrorCode::INVALID_RECORD.code());
        assert_eq!(answer.record_errors[0].batch_index, 0);
        let mut builder = BatchBuilder::new();
        for key in [Some(&b"k"[..]), None, Some(b"l"), None] {
            builder.add(1_700_000_000_000, key, Some(b"v"), []);
        }
        let several = produce(&connection, "t", builder.build(Compression::Zstd)).await;
        let told: Vec<i32> = several.record_errors.iter().map(|record| record.batch_index).collect();
        assert_eq!(told, [1, 3], "all of them, and none that has one");
        let text = answer.error_message.expect("it says why");
        assert!(text.contains("cannot accept message without key"), "{text}");
        broker.stop().await.unwrap();
    });
}
