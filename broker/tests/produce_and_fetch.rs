//! A broker over a real socket: what is produced is read back, by offset and by time, across stops and starts.

mod support;

use sillon_client::Connection;
use sillon_protocol::{
    ErrorCode,
    messages::{
        DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic, DeleteTopicsRequest, FetchRequest,
        InitProducerIdRequest, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic, MetadataRequest,
        MetadataRequestTopic, OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
    },
};
use std::time::Duration;
use support::*;

const T0: i64 = 1_700_000_000_000;

async fn list_offset(connection: &Connection, topic: &str, timestamp: i64) -> (i64, i64, i32) {
    let partition = ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() };
    let topics = vec![ListOffsetsTopic { name: topic.to_owned(), partitions: vec![partition] }];
    let mut answer =
        ask(connection, 7, &ListOffsetsRequest { topics, ..ListOffsetsRequest::default() }).await;
    let found = answer.topics.remove(0).partitions.remove(0);
    assert_eq!(found.error_code, 0);
    (found.timestamp, found.offset, found.leader_epoch)
}

#[test]
fn what_is_produced_is_read_back_by_offset_and_by_time() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "t", 1, &[]).await, 0);
        assert_eq!(produce(&connection, "t", batch(&["a", "b"], T0, None)).await.base_offset, 0);
        assert_eq!(produce(&connection, "t", batch(&["c", "d"], T0 + 10, None)).await.base_offset, 2);
        let all = ask(&connection, FETCH_VERSION, &fetch_request("t", 0)).await;
        assert_eq!(values(&all), ["a", "b", "c", "d"]);
        assert_eq!(all.responses[0].partitions[0].high_watermark, 4);
        // An offset inside a batch gives the whole batch.
        assert_eq!(values(&ask(&connection, FETCH_VERSION, &fetch_request("t", 3)).await), ["c", "d"]);
        let beyond = ask(&connection, FETCH_VERSION, &fetch_request("t", 5)).await;
        assert_eq!(beyond.responses[0].partitions[0].error_code, ErrorCode::OFFSET_OUT_OF_RANGE.code());
        assert_eq!(list_offset(&connection, "t", T0 + 1).await, (T0 + 1, 1, 0));
        assert_eq!(list_offset(&connection, "t", T0 + 5).await, (T0 + 10, 2, 0));
        assert_eq!(list_offset(&connection, "t", T0 + 99).await, (-1, -1, -1));
        assert_eq!(list_offset(&connection, "t", -1).await.1, 4);
        assert_eq!(list_offset(&connection, "t", -2).await.1, 0);
        assert_eq!(list_offset(&connection, "t", -3).await, (T0 + 11, 3, 0));
        broker.stop().await.unwrap();
    });
}

#[test]
fn a_fetch_waits_for_records_and_no_longer() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let (reader, writer) = (connect(&runtime, &broker).await, connect(&runtime, &broker).await);
        create_topic(&writer, "t", 1, &[]).await;
        let patient = FetchRequest { max_wait_ms: 20_000, ..fetch_request("t", 0) };
        let began = runtime.now();
        let waiting = runtime.spawn("reader", async move { ask(&reader, FETCH_VERSION, &patient).await });
        runtime.sleep(Duration::from_millis(100)).await;
        produce(&writer, "t", batch(&["late"], T0, None)).await;
        assert_eq!(values(&waiting.await.unwrap()), ["late"]);
        assert!(runtime.now() - began < Duration::from_secs(10), "the fetch ends when there are records");
        let impatient = FetchRequest { max_wait_ms: 50, ..fetch_request("t", 1) };
        assert!(values(&ask(&writer, FETCH_VERSION, &impatient).await).is_empty());
        broker.stop().await.unwrap();
    });
}

#[test]
fn a_fetch_session_sends_only_news() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        create_topic(&connection, "t", 1, &[]).await;
        produce(&connection, "t", batch(&["a"], T0, None)).await;
        let full = FetchRequest { session_epoch: 0, ..fetch_request("t", 1) };
        let first = ask(&connection, FETCH_VERSION, &full).await;
        assert_ne!(first.session_id, 0);
        assert_eq!(first.responses.len(), 1);
        let next = |session_epoch| FetchRequest {
            session_id: first.session_id,
            session_epoch,
            topics: Vec::new(),
            ..fetch_request("t", 1)
        };
        assert!(ask(&connection, FETCH_VERSION, &next(1)).await.responses.is_empty());
        produce(&connection, "t", batch(&["b"], T0, None)).await;
        assert_eq!(values(&ask(&connection, FETCH_VERSION, &next(2)).await), ["b"]);
        let wrong = ask(&connection, FETCH_VERSION, &next(9)).await;
        assert_eq!(wrong.error_code, ErrorCode::INVALID_FETCH_SESSION_EPOCH.code());
        broker.stop().await.unwrap();
    });
}

#[test]
fn records_epochs_and_producers_outlive_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        create_topic(&connection, "t", 1, &[]).await;
        let producer = ask(&connection, 4, &InitProducerIdRequest::default()).await;
        let sent = batch(&["a"], T0, Some((producer.producer_id, 0, 0)));
        assert_eq!(produce(&connection, "t", sent.clone()).await.base_offset, 0);
        assert_eq!(
            produce(&connection, "t", sent.clone()).await.base_offset,
            0,
            "a duplicate has the original's offset"
        );
        broker.stop().await.unwrap();

        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(values(&ask(&connection, FETCH_VERSION, &fetch_request("t", 0)).await), ["a"]);
        assert_eq!(produce(&connection, "t", sent).await.base_offset, 0, "the producer is still known");
        let gap = produce(&connection, "t", batch(&["c"], T0, Some((producer.producer_id, 0, 2)))).await;
        assert_eq!(gap.error_code, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.code());
        let other = ask(&connection, 4, &InitProducerIdRequest::default()).await;
        assert_ne!(other.producer_id, producer.producer_id, "ids are given out once");
        assert_eq!(produce(&connection, "t", batch(&["b"], T0, None)).await.base_offset, 1);
        // The first start led in epoch 0 (the topic was new), the second in epoch 1.
        let partition = OffsetForLeaderPartition { leader_epoch: 0, ..OffsetForLeaderPartition::default() };
        let topics = vec![OffsetForLeaderTopic { topic: "t".to_owned(), partitions: vec![partition] }];
        let request = OffsetForLeaderEpochRequest { topics, ..OffsetForLeaderEpochRequest::default() };
        let end = ask(&connection, 4, &request).await.topics.remove(0).partitions.remove(0);
        assert_eq!((end.leader_epoch, end.end_offset), (0, 1));
        broker.stop().await.unwrap();
    });
}

#[test]
fn deleted_records_and_topics_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "auto.create.topics.enable=false").await;
        let connection = connect(&runtime, &broker).await;
        create_topic(&connection, "t", 1, &[]).await;
        produce(&connection, "t", batch(&["a"], T0, None)).await;
        produce(&connection, "t", batch(&["b"], T0, None)).await;
        let delete = |offset| DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: "t".to_owned(),
                partitions: vec![DeleteRecordsPartition { partition_index: 0, offset }],
            }],
            timeout_ms: 1000,
        };
        let beyond = ask(&connection, 2, &delete(3)).await.topics.remove(0).partitions.remove(0);
        assert_eq!(beyond.error_code, ErrorCode::OFFSET_OUT_OF_RANGE.code());
        let deleted = ask(&connection, 2, &delete(1)).await.topics.remove(0).partitions.remove(0);
        assert_eq!((deleted.error_code, deleted.low_watermark), (0, 1));
        let before = ask(&connection, FETCH_VERSION, &fetch_request("t", 0)).await;
        assert_eq!(before.responses[0].partitions[0].error_code, ErrorCode::OFFSET_OUT_OF_RANGE.code());
        let request =
            DeleteTopicsRequest { topic_names: vec!["t".to_owned()], ..DeleteTopicsRequest::default() };
        assert_eq!(ask(&connection, 5, &request).await.responses[0].error_code, 0);
        let wanted = MetadataRequestTopic { name: Some("t".to_owned()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest { topics: Some(vec![wanted]), ..MetadataRequest::default() };
        let described = ask(&connection, 9, &request).await.topics.remove(0);
        assert_eq!(described.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
        assert_eq!(create_topic(&connection, "t", 1, &[]).await, 0, "the name is free again");
        assert!(values(&ask(&connection, FETCH_VERSION, &fetch_request("t", 0)).await).is_empty());
        broker.stop().await.unwrap();
    });
}
